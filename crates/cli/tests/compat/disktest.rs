//! disktest is not packaged: its lines are held against published ones, its figures against what
//! the kernel counted of a device and against fio.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use floodwall_stats::estimate::median;
use floodwall_testing::disk::{Disk, Loop};
use floodwall_testing::process::{done, everything, json, output, text};
use floodwall_testing::{ensure, equal, said};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::Lab;

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Lines that the original printed of a run of 3 s, by the words of `PUBLISHED_RUN`.
const PUBLISHED: [&str; 5] = [
    "| START | 12948 | v1.2.8 | tfile | Start args: -B 4k -h 1 -I FD -K 4 -p l -P T -T 3 -r \
     (-N 131072) (-c) (-p u) ",
    "| INFO  | 12948 | v1.2.8 | tfile | Starting pass",
    "| STAT  | 12948 | v1.2.8 | tfile | Read throughput: 134254592.0B/s (128.04MB/s), IOPS \
     32781.0/s.",
    "| STAT  | 12948 | v1.2.8 | tfile | Total read throughput: 135529813.3B/s (129.25MB/s), IOPS \
     33088.3/s.",
    "| END   | 12948 | v1.2.8 | tfile | Test Done (Passed)",
];
const PUBLISHED_RUN: &str = "-B 4k -h 1 -I FD -K 4 -p l -P T -T 3 -r tfile";
/// Bytes of its file: 131,072 sectors.
const PUBLISHED_BYTES: u64 = 64 << 20;
/// Command lines to a device, with O_DIRECT: each transfer is a request of the device.
const COUNTED: [&str; 7] = [
    "-B 4k -K 4 -p l -r -T 1",
    "-B 4k -K 4 -p l -w -T 1",
    "-B 16k -K 3 -p r -w -T 1",
    "-B 4k -K 4 -p r -r -w -D 30:70 -T 1",
    "-B 8k -K 2 -p l -r -w -L 300",
    "-B 4k -K 4 -p R -r -L 1000 -S 10:99",
    "--dialect=1.4 -B 4k -K 2 -p r -r -w -t 1:3 -T 1",
];
/// Rates that are compared with fio's: options, and fio's words.
const RATES: [(&str, &str); 4] = [
    ("-B 4k -K 4 -p r -r", "--rw=randread --bs=4k --numjobs=4"),
    ("-B 16k -K 2 -p r -w", "--rw=randwrite --bs=16k --numjobs=2"),
    ("-B 64k -K 1 -p l -r", "--rw=read --bs=64k --numjobs=1"),
    ("-B 64k -K 1 -p l -w", "--rw=write --bs=64k --numjobs=1"),
];
/// Seconds of each run.
const RUN_S: u32 = 3;
/// Rounds of both, one after the other: so many at least, and more while medians are apart.
const ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 13;
/// Before each: a device saves up a burst while it is idle.
const IDLE: Duration = Duration::from_millis(300);
/// How far the median of a rate's ratios, each of two runs in a row, may be off.
const TOLERANCE: f64 = 0.05;

fn ours(line: &str, dir: &Path) -> Command {
    let mut command = Command::new(FLOODWALL);
    command.args(["compat", "disktest"]).args(line.split_whitespace()).current_dir(dir);
    command
}

/// Each number as one `#`, without the moment of the line.
fn masked(line: &str) -> String {
    let line = match line.strip_prefix("| 20") {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest),
        None => line,
    };
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut text: Vec<char> = line.replace(is_digit, "#").chars().collect();
    text.dedup_by(|a, b| *a == '#' && *b == '#');
    text.into_iter().collect()
}

pub(crate) fn lines() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("a directory"))?;
    let file = fs::File::create(dir.path().join("tfile")).map_err(said("tfile"))?;
    file.set_len(PUBLISHED_BYTES).map_err(said("tfile"))?;
    let own = done(&mut ours(PUBLISHED_RUN, dir.path()))?;
    let mut own: Vec<String> = own.lines().map(masked).collect();
    // A heartbeat each second.
    own.dedup();
    let wanted: Vec<String> = PUBLISHED.iter().map(|line| masked(line)).collect();
    equal(own, wanted)
}

/// Completed reads and writes, each with its bytes, as the kernel counted them of a device.
fn counted(device: &str) -> Result<[u64; 4], String> {
    let text = fs::read_to_string("/proc/diskstats").map_err(said("/proc/diskstats"))?;
    let name = device.trim_start_matches("/dev/");
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(name));
    let fields: Vec<u64> = line
        .ok_or("no line of the device")?
        .split_whitespace()
        .skip(3)
        .map(|field| field.parse().map_err(said(name)))
        .collect::<Result<_, _>>()?;
    // A request that is merged with another one is not counted as completed.
    Ok([fields[0] + fields[1], fields[2] * 512, fields[4] + fields[5], fields[6] * 512])
}

/// Of the lines `Total bytes read in 7 transfers: 3584`.
fn totals(text: &str) -> Result<[u64; 4], String> {
    let mut found = [0; 4];
    for (at, name) in [(0, "read"), (2, "written")] {
        let start = format!("Total bytes {name} in ");
        let Some(line) = text.lines().find_map(|line| line.split_once(&start)) else { continue };
        let (transfers, bytes) = line.1.split_once(" transfers: ").ok_or(text)?;
        found[at] = transfers.parse().map_err(said(text))?;
        found[at + 1] = bytes.parse().map_err(said(text))?;
    }
    Ok(found)
}

pub(crate) fn counts() -> Result<(), String> {
    let directory = tempfile::tempdir_in("/dev/shm").map_err(said("a directory"))?;
    let device = Loop::over(&directory.path().join("image"), 16)?;
    // All is written and synced before: no write of the kernel falls into a count.
    let whole = fs::OpenOptions::new().write(true).open(device.node()).and_then(|mut node| {
        node.write_all(&vec![0; 16 << 20])?;
        node.sync_all()
    });
    whole.map_err(said("the device"))?;
    for line in COUNTED {
        let before = counted(device.name())?;
        let line = format!("{line} -I BD -P X {}", device.node());
        let text = done(&mut ours(&line, directory.path()))?;
        let after = counted(device.name())?;
        let own = totals(&text)?;
        let kernel: Vec<u64> =
            after.iter().zip(before).map(|(after, before)| after - before).collect();
        ensure(own[..] == kernel[..], || {
            format!("{line}: {own:?}, the kernel {kernel:?}\n{text}")
        })?;
    }
    let lines = COUNTED.len();
    writeln!(io::stdout(), "disktest: {lines} lines have the kernel's counts")
        .map_err(said("stdout"))
}

pub(crate) fn rates() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--raw"])?;
    let mut rows = Vec::new();
    let mut are_near = true;
    for (line, fio) in RATES {
        let mut rounds: Vec<(f64, f64)> = Vec::new();
        let (off, is_near) = loop {
            // Each of them goes first in turn.
            let is_first = rounds.len().is_multiple_of(2);
            let run = |is_own: bool| {
                thread::sleep(IDLE);
                if is_own { own_rate(line, &lab) } else { fio_rate(fio, &lab) }
            };
            let (first, second) = (run(is_first)?, run(!is_first)?);
            rounds.push(if is_first { (first, second) } else { (second, first) });
            let ratios = rounds.iter().map(|(own, other)| own / other - 1.0);
            let off = median(ratios.collect()).unwrap_or(1.0);
            let is_near = off.abs() <= TOLERANCE;
            if rounds.len() >= MOST_ROUNDS || (rounds.len() >= ROUNDS && is_near) {
                break (off, is_near);
            }
        };
        are_near &= is_near;
        let (own, other): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
        let [own, other] = [own, other].map(|rates| median(rates).unwrap_or_default());
        rows.push(format!(
            "| `{line}` | {own:.1} | {other:.1} | {:.3} | {} |",
            1.0 + off,
            rounds.len()
        ));
    }
    writeln!(io::stdout(), "{}", rows.join("\n")).map_err(said("stdout"))?;
    ensure(are_near, || rows.join("\n"))
}

/// Transfers a second, as printed.
fn own_rate(line: &str, lab: &Lab) -> Result<f64, String> {
    let line = format!("{line} -I BD -P T -T {RUN_S} {}", lab.node);
    let text = done(&mut ours(&line, Path::new("/")))?;
    let total = text.lines().find(|line| line.contains("Total ")).ok_or_else(|| text.clone())?;
    let rate = total.split_once("IOPS ").and_then(|(_, rest)| rest.strip_suffix("/s."));
    rate.and_then(|rate| rate.parse().ok()).ok_or(text)
}

fn fio_rate(words: &str, lab: &Lab) -> Result<f64, String> {
    let mut fio = Command::new("fio");
    fio.args(words.split(' ')).args(["--name=x", "--direct=1", "--ioengine=psync", "--thread"]);
    fio.args(["--group_reporting", "--time_based", "--output-format=json", "--norandommap"]);
    fio.arg(format!("--filename={}", lab.node)).arg(format!("--runtime={RUN_S}"));
    let told = json(&output(&mut fio)?)?;
    let rate = |kind: &str| told["jobs"][0][kind]["iops"].as_f64().unwrap_or_default();
    Ok(rate("read") + rate("write"))
}

pub(crate) fn refusals() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("a directory"))?;
    for (line, status, wanted) in [
        ("-E 8 x", 2, "disktest: '-E' is not supported here; nearest: leave it out"),
        ("-b 4k x", 2, "disktest: there is no option '-b'; nearest: -B"),
        ("-p ld x", 2, "'-p ld' is not supported here; nearest: -p l"),
        ("-T 1 x", 2, "there is no 'x'; write it first, with -w"),
        ("-w -I b x", 2, "there is no 'x'"),
        ("-w nowhere/x", 2, "disktest: there is no directory 'nowhere'; make it first"),
        ("-r /dev/null", 2, "the target has 0 bytes"),
    ] {
        let output = output(&mut ours(line, dir.path()))?;
        let told = text(&output.stderr);
        let is_told = told.contains(wanted) && told.lines().count() == 1;
        let is_told = is_told && output.stdout.is_empty();
        ensure(is_told && output.status.code() == Some(status), || everything(&output))?;
    }
    let is_empty = fs::read_dir(dir.path()).map_err(said("a directory"))?.next().is_none();
    ensure(is_empty, "a refused command made a file")
}

pub(crate) fn held() -> Result<(), String> {
    let disk = Disk::new("ext4", 8)?;
    let node = disk.device.node().to_owned();
    let run = |more: &[&str], line: &str| {
        let mut command = Command::new(FLOODWALL);
        command.arg("compat").args(more).arg("disktest").args(line.split(' ')).arg(&node);
        output(&mut command)
    };
    let before = fs::read(&node).map_err(said("the device"))?;
    let refused = run(&[], "-w -p l -L 1")?;
    let at = disk.path().display();
    let why = format!("disktest: '{node}' is in use: mounted at '{at}'; free it, or write");
    ensure(text(&refused.stderr).contains(&why), || everything(&refused))?;
    equal(refused.status.code(), Some(1))?;
    ensure(fs::read(&node).map_err(said("the device"))? == before, "a refused run has written")?;
    for (more, line) in [(&[][..], "-r -p l -L 1"), (&["--destructive"][..], "-w -p l -L 1 -S 9")] {
        let meant = run(more, line)?;
        ensure(meant.status.success(), || everything(&meant))?;
    }
    drop(disk.mount);
    let free = run(&[], "-w -p l -L 1")?;
    ensure(free.status.success(), || everything(&free))
}

pub(crate) fn ends() -> Result<(), String> {
    let dir = tempfile::tempdir_in("/dev/shm").map_err(said("a directory"))?;
    symlink(FLOODWALL, dir.path().join("disktest")).map_err(said("a link"))?;
    let mut link = Command::new(dir.path().join("disktest"));
    link.args(["-w", "-p", "l", "-N", "64", "-P", "X", "-Q", "-q", "x"]).current_dir(dir.path());
    let wrote = done(&mut link)?;
    ensure(wrote.contains("Total bytes written in 64 transfers: 32768"), || wrote.clone())?;
    let bytes = fs::read(dir.path().join("x")).map_err(said("x"))?;
    let is_counter = bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 256);
    ensure(bytes.len() == 32_768 && is_counter, "the file is not the bytes from 0 to 255")?;
    // An interrupt ends it with its totals.
    let mut command = ours("-P T -T 60 x", dir.path());
    let child = command.stdout(Stdio::piped()).spawn().map_err(said("ours"))?;
    thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).map_err(said("kill"))?;
    let ended = child.wait_with_output().map_err(said("ours"))?;
    let told = text(&ended.stdout);
    let is_whole = ["interrupted", "Total read throughput", "Test Done (Failed)"];
    ensure(is_whole.iter().all(|text| told.contains(text)), || everything(&ended))?;
    equal(ended.status.code(), Some(1))?;
    // So does an error.
    let mut command = ours("-P T -T 60 x", dir.path());
    let child = command.stdout(Stdio::piped()).spawn().map_err(said("ours"))?;
    thread::sleep(Duration::from_millis(500));
    fs::write(dir.path().join("x"), []).map_err(said("x"))?;
    let ended = child.wait_with_output().map_err(said("ours"))?;
    let told = text(&ended.stdout);
    let is_told = told.contains("| ERROR | ") && told.contains("Test Done (Failed)");
    ensure(is_told && ended.status.code() == Some(1), || everything(&ended))?;
    fs::write(dir.path().join("x"), bytes).map_err(said("x"))?;
    // A run without a reader is for nothing.
    let mut command = ours("-h 1 -P T -T 60 x", dir.path());
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(said("ours"))?;
    drop(child.stdout.take());
    ensure(child.wait().map_err(said("ours"))?.success(), "without a reader a run goes on")
}
