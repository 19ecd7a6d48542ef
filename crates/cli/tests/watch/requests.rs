//! Times of a disk's requests against those that bpftrace takes, in the manner of biolatency.
//!
//! ```text
//! fio ─▶ loop device over tmpfs ─ block_io_start, _rq_issue, _rq_complete ─┬▶ floodwall probe ─┐
//!  └─ how many ─▶ as many?                                                 └▶ bpftrace ─▶ same? ┘
//! ```
//!
//! bpftrace is another program with other code in the kernel. It knows a request by its sector;
//! Floodwall's programs know it by its address. Both look at the same tracepoints, so that only
//! fio's count tells whether all requests pass these.
//!
//! bpftrace needs tracefs, which is mounted for it alone. Times are microseconds.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use floodwall_stats::estimate::median;
use floodwall_testing::disk::{Disk, Mount, Saved};
use floodwall_testing::process::{Log, Process, done, everything, output};
use floodwall_testing::{LOOP, ROOT, ensure, said, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{FLOODWALL, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "requests took as long as bpftrace says, where the kernel counts them",
        needs: NEEDS,
        body: || compare("bpf"),
    },
    Test {
        name: "requests took as long as bpftrace says, where perf events tell them",
        needs: NEEDS,
        body: || compare("perf"),
    },
];

const NEEDS: &[&str] = &[ROOT, LOOP, "fio", "mkfs.ext4", "unshare", BPFTRACE];
pub(crate) const BPFTRACE: &str = "bpftrace";
/// How far the median of the rounds may be off: a part of it, and an amount in its unit.
type Tolerance = (f64, f64);
/// bpftrace's programs run once Floodwall's have ended, which take longer at a request's end than
/// at its issue: some microseconds.
const TIMES: Tolerance = (0.05, 5.0);
/// The filesystem's own requests.
const COUNTS: Tolerance = (0.02, 0.0);
const ROUNDS: usize = 3;
/// How long a program may take to begin or to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 512;
/// Requests that are not split. They take much longer than a look at them.
const FIO: &str = "--size=192m --bs=512k --direct=1 --fallocate=none --disk_util=0 \
    --output-format=json --name=reads --rw=randread --name=writes --rw=randwrite";
/// The loads, and whether requests wait in the queue. One has a known rate. The other has a known
/// number, and more at once than the 128 that a loop device takes.
const LOADS: [(&str, &str, bool); 2] = [
    ("paced", "--ioengine=psync --time_based --runtime=4 --rate_iops=250", false),
    ("deep", "--ioengine=libaio --iodepth=120 --io_size=2g", true),
];
/// Kinds of requests: Floodwall's name, the letter of tracepoints, fio's name.
const KINDS: [(&str, char, &str); 2] = [("read", 'R', "read"), ("sync_write", 'W', "write")];

/// Runs bpftrace with `$1`. Only its namespace has the mount, which goes with it. Before Linux 6.5
/// the elevator's event is a request's first.
const SHELL: &str = r#"
events=/sys/kernel/tracing/events
[ -e $events ] || mount -t tracefs tracefs /sys/kernel/tracing || exit
made=block_io_start
[ -e $events/block/$made ] || made=block_rq_insert
exec bpftrace -B line -f json -e "$(printf %s "$1" | sed s/MADE/$made/)""#;

/// Sums by the letters of a request. Those without sectors are flushes.
const PROGRAM: &str = r#"
tracepoint:block:MADE /args->dev == DEV && args->nr_sector > 0/ { @made[args->sector] = nsecs; }
tracepoint:block:block_rq_issue /args->dev == DEV && args->nr_sector > 0/ {
    @issued[args->sector] = nsecs;
}
tracepoint:block:block_rq_complete /args->dev == DEV && @issued[args->sector]/ {
    @ended[args->rwbs] = count();
    @device_ns[args->rwbs] = sum(nsecs - @issued[args->sector]);
    if (@made[args->sector]) {
        @queued[args->rwbs] = count();
        @queue_ns[args->rwbs] = sum(@issued[args->sector] - @made[args->sector]);
    }
    delete(@issued[args->sector]);
    delete(@made[args->sector]);
}
interval:ms:100 { printf("ready\n"); }
END { clear(@made); clear(@issued); }"#;

/// Why bpftrace can't look here; `None` if it can.
pub(crate) fn blind() -> Option<String> {
    let program = "tracepoint:block:block_rq_issue { @ = count(); } interval:ms:1 { exit(); }";
    let output = output(&mut bpftrace(program)).ok()?;
    (!output.status.success()).then(|| format!("bpftrace can't look: {}", everything(&output)))
}

fn bpftrace(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SHELL, "sh", program]);
    command
}

fn compare(source: &str) -> Result<(), String> {
    let memory = tempfile::tempdir().map_err(said("a directory"))?;
    let memory = Mount::new(&["-t", "tmpfs", "-o", "size=1g", "tmpfs"], memory.path())?;
    let disk = Disk::new_in(memory.path(), "ext4", MIB)?;
    let queue = Path::new("/sys/block").join(disk.device.name()).join("queue");
    let _found = Saved::of(["scheduler", "nomerges"].map(|file| queue.join(file)));
    for (file, value) in [("scheduler", "mq-deadline"), ("nomerges", "2")] {
        fs::write(queue.join(file), value).map_err(said(file))?;
    }
    fio(&disk, "--create_only=1")?;
    let (mut lines, mut are_near) = (Vec::new(), true);
    for (load, words, has_queue) in LOADS {
        let mut rounds: BTreeMap<_, (Vec<f64>, Vec<f64>, Tolerance)> = BTreeMap::new();
        for _ in 0..ROUNDS {
            for (what, told, wanted, tolerance) in round(&disk, source, words, has_queue)? {
                let rounds = rounds.entry(what).or_insert((Vec::new(), Vec::new(), tolerance));
                rounds.0.push(told);
                rounds.1.push(wanted);
            }
        }
        for (what, (told, wanted, (part, amount))) in rounds {
            let (told, wanted) = (median(told).unwrap_or(0.0), median(wanted).unwrap_or(0.0));
            are_near &= (told - wanted).abs() <= part * wanted + amount && wanted > 0.0;
            lines.push(format!("{load} {what}: {told:.1} and {wanted:.1}"));
        }
    }
    writeln!(io::stdout(), "{}", lines.join("\n")).map_err(said("stdout"))?;
    ensure(are_near, || lines.join("\n"))
}

/// A figure's name, Floodwall's value, another program's, and how far the first may be off.
type Pair = (String, f64, f64, Tolerance);

fn round(disk: &Disk, source: &str, load: &str, has_queue: bool) -> Result<Vec<Pair>, String> {
    let mut probe = Command::new(FLOODWALL);
    probe.args(["probe", "--json", "--interval", "500ms", "--source", source, disk.device.name()]);
    let probe = Tracer::start(&mut probe, "\n")?;
    // Of a device number tracepoints print 12 bits of the driver's and 20 of the device's.
    let dev = (u64::from(disk.id.major) << 20) + u64::from(disk.id.minor);
    let tracer = Tracer::start(&mut bpftrace(&PROGRAM.replace("DEV", &dev.to_string())), "ready")?;
    let fio = fio(disk, load)?;
    // A window that began after the last request.
    probe.says_more(2)?;
    let told = probe.log.text();
    let traced = tracer.end("@queued")?;
    let mut pairs = Vec::new();
    for (class, letter, direction) in KINDS {
        let jobs = fio["jobs"].as_array().into_iter().flatten();
        let asked: f64 = jobs.filter_map(|job| job[direction]["total_ios"].as_f64()).sum();
        let (told, traced) = (told_of(&told, class), traced_of(&traced, letter));
        let mut pair = |what: &str, told: f64, wanted: f64, tolerance| {
            pairs.push((format!("{class} {what}"), told, wanted, tolerance));
        };
        pair("count, fio's", told.ended, asked, COUNTS);
        pair("count, bpftrace's", told.ended, traced.ended, COUNTS);
        let device = |times: Times| times.device_us / times.ended;
        pair("device mean, bpftrace's", device(told), device(traced), TIMES);
        if has_queue {
            let queue = |times: Times| times.queue_us / times.queued;
            pair("queue mean, bpftrace's", queue(told), queue(traced), TIMES);
        }
    }
    Ok(pairs)
}

fn fio(disk: &Disk, load: &str) -> Result<Value, String> {
    let mut fio = Command::new("fio");
    // Options before the first job are of all jobs.
    fio.arg(format!("--directory={}", disk.path().display()));
    let report = done(fio.args(load.split(' ')).args(FIO.split(' ').filter(|w| !w.is_empty())))?;
    serde_json::from_str(&report).map_err(said("fio's report"))
}

/// Requests of one kind.
#[derive(Clone, Copy, Default)]
struct Times {
    ended: f64,
    device_us: f64,
    /// Those whose beginning was seen.
    queued: f64,
    queue_us: f64,
}

/// The sum of all windows of the probe.
fn told_of(windows: &str, class: &str) -> Times {
    let mut times = Times::default();
    for window in documents(windows) {
        for device in window["devices"].as_array().into_iter().flatten() {
            let sum = |part: &str| {
                let latency = &device["requests"][class][part];
                let count = latency["count"].as_f64().unwrap_or(0.0);
                (count, count * latency["mean"].as_f64().unwrap_or(0.0))
            };
            let ((ended, device_us), (queued, queue_us)) = (sum("device_us"), sum("queue_us"));
            times.ended += ended;
            times.device_us += device_us;
            times.queued += queued;
            times.queue_us += queue_us;
        }
    }
    times
}

/// The sums that bpftrace printed, of all letters that begin so.
fn traced_of(maps: &str, letter: char) -> Times {
    let mut times = Times::default();
    for document in documents(maps).filter(|document| document["type"] == "map") {
        for (map, by_letters) in document["data"].as_object().into_iter().flatten() {
            let by_letters = by_letters.as_object().into_iter().flatten();
            let of_kind = by_letters.filter(|(letters, _)| letters.starts_with(letter));
            let sum: f64 = of_kind.filter_map(|(_, value)| value.as_f64()).sum();
            match map.as_str() {
                "@ended" => times.ended = sum,
                "@device_ns" => times.device_us = sum / 1e3,
                "@queued" => times.queued = sum,
                "@queue_ns" => times.queue_us = sum / 1e3,
                _ => {}
            }
        }
    }
    times
}

fn documents(lines: &str) -> impl Iterator<Item = Value> {
    lines.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// A program that looks on until it is interrupted.
struct Tracer {
    process: Process,
    log: Log,
    errors: Log,
}

impl Tracer {
    /// Starts it, and waits until it says that it looks.
    fn start(command: &mut Command, says: &str) -> Result<Self, String> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().map_err(said("a tracer"))?);
        let log = Log::of(process.0.stdout.take());
        let tracer = Self { errors: Log::of(process.0.stderr.take()), process, log };
        tracer.until(says, || tracer.log.text().contains(says))?;
        Ok(tracer)
    }

    fn says_more(&self, lines: usize) -> Result<(), String> {
        let count = || self.log.text().lines().count();
        let before = count();
        self.until("more lines", || count() >= before + lines)
    }

    /// Interrupts it, and returns all that it said, up to the line with its last word.
    fn end(self, last: &str) -> Result<String, String> {
        kill_process(Pid::from_child(&self.process.0), Signal::INT).map_err(said("a tracer"))?;
        let is_there = |line: &str| line.contains(last);
        self.until("its last word", || self.log.text().lines().any(is_there))?;
        Ok(self.log.text())
    }

    fn until(&self, what: &str, holds: impl FnMut() -> bool) -> Result<(), String> {
        until(PATIENCE, what, holds).map_err(|why| format!("{why}: {}", self.errors.text()))
    }
}
