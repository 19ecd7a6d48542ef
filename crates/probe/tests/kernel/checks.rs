//! The checks, for every source.

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::diskstats::requests_of_device;
use floodwall_model::LatencyCounts;
use floodwall_model::trial::DeviceSample;
use floodwall_probe::Probe;
use floodwall_probe::{Call, Class, ProcessUse, Requests, Snapshot, SourceKind};
use floodwall_testing::disk::{Disk, Frozen};
use floodwall_testing::ensure;
use floodwall_testing::process::run;

use crate::worker::Worker;

/// A name and a body.
pub(crate) type Test = (&'static str, fn(SourceKind) -> Result<(), String>);

pub(crate) const TESTS: &[Test] = &[
    ("syncs agree with the caller's own clock", syncs),
    ("writes to an O_DSYNC file agree with the caller's own clock", synchronous_writes),
    ("reads that miss the cache are seen where they wait", reads),
    ("bytes agree with /proc/PID/io and /proc/diskstats", bytes),
    ("a writer's bytes are counted once, though its parent inherits them", waited),
    ("a child's bytes on another disk are not its parent's", waited_elsewhere),
    ("ten thousand processes take bounded memory and less than their own work", ten_thousand),
    ("what a thread starts is followed, ten thousand processes of it", followed),
    ("another tracer's events go on", beside_another),
    ("a paused probe has no tracepoint open, and sees again when it goes on", paused),
    ("a call that hangs since before tracepoints were opened is known", hangs),
    ("a write that hangs since before the probe was opened is known to its end", write_hangs),
    ("samples tell the rate and the latencies, each operation to its end", sampled),
];

/// The least that is seen of ten thousand operations, of as many processes. A busy machine loses
/// events; a probe that sees nothing and calls all of them lost must still fail.
const LEAST_SEEN: u64 = 1_000;

pub(crate) static GO_ON: AtomicBool = AtomicBool::new(false);

pub(crate) fn disk() -> Result<Disk, String> {
    Disk::new("ext4", 512)
}

pub(crate) fn open(source: SourceKind) -> Result<Probe, String> {
    Probe::open(Some(source)).map_err(|e| e.to_string())
}

pub(crate) fn look(probe: &mut Probe) -> Result<Snapshot, String> {
    probe.snapshot().map_err(|e| e.to_string())
}

/// Looks until a worker has ended, and once more.
fn until_ended(probe: &mut Probe, worker: &mut Worker) -> Result<Vec<Snapshot>, String> {
    let mut all = Vec::new();
    loop {
        let ended = worker.ended();
        probe.wait(Duration::from_millis(200), &GO_ON).map_err(|e| e.to_string())?;
        all.push(probe.snapshot().map_err(|e| e.to_string())?);
        if ended {
            return Ok(all);
        }
    }
}

pub(crate) fn uses(all: &[Snapshot], pid: u32) -> impl Iterator<Item = &ProcessUse> {
    all.iter().flat_map(|s| &s.processes).filter(move |p| p.pid == pid)
}

fn calls(all: &[Snapshot], pid: u32, call: Call) -> LatencyCounts {
    let mut merged = LatencyCounts::default();
    uses(all, pid).filter_map(|p| p.calls.get(&call)).for_each(|counts| merged.merge(counts));
    merged
}

fn lost(all: &[Snapshot]) -> u64 {
    all.iter().map(|s| s.lost_events).sum()
}

/// Whether two views of the same operations agree: the caller's includes the way into the kernel,
/// and whatever ran between its clock and the call.
fn agree(what: &str, seen: &LatencyCounts, own: &LatencyCounts) -> Result<(), String> {
    ensure(seen.count() == own.count(), || {
        format!("{what}: {} seen, {} made", seen.count(), own.count())
    })?;
    let (seen_ns, own_ns) = (seen.mean_ns().unwrap_or(0.0), own.mean_ns().unwrap_or(0.0));
    ensure(seen_ns <= own_ns && seen_ns >= 0.8 * own_ns - 20_000.0, || {
        format!("{what}: a mean of {seen_ns} ns seen, {own_ns} ns by the caller's clock")
    })?;
    let (seen_ns, own_ns) =
        (seen.nearest_rank_ns(0.5).unwrap_or(0), own.nearest_rank_ns(0.5).unwrap_or(0));
    ensure(seen_ns.abs_diff(own_ns) <= own_ns / 5 + 20_000, || {
        format!("{what}: a median of {seen_ns} ns seen, {own_ns} ns by the caller's clock")
    })?;
    ensure(seen.max_ns() <= own.max_ns(), || {
        format!("{what}: {} > {}", seen.max_ns(), own.max_ns())
    })
}

fn syncs(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("sync", &[&disk.file("a"), "400"])?;
    let pid = worker.pid();
    let all = until_ended(&mut probe, &mut worker)?;
    let own = worker.latencies()?;
    let mut seen = calls(&all, pid, Call::Fsync);
    let data = calls(&all, pid, Call::Fdatasync);
    ensure(seen.count() == 200 && data.count() == 200, || {
        format!("{} fsync, {} fdatasync, {} lost", seen.count(), data.count(), lost(&all))
    })?;
    seen.merge(&data);
    agree("syncs", &seen, &own)?;
    let devices: Vec<_> =
        uses(&all, pid).filter(|p| !p.commits().is_empty()).map(|p| p.device).collect();
    ensure(devices.iter().all(|d| *d == Some(disk.id)), || {
        format!("{devices:?} instead of {}", disk.id)
    })?;
    let actors: u64 = uses(&all, pid).flat_map(ProcessUse::actors).map(|a| a.commits.count()).sum();
    ensure(actors >= 400, || format!("{actors} commits by actors"))
}

fn synchronous_writes(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("dsync", &[&disk.file("a"), "3000"])?;
    let pid = worker.pid();
    let all = until_ended(&mut probe, &mut worker)?;
    let own = worker.latencies()?;
    let seen = calls(&all, pid, Call::SyncWrite);
    // The first window or two pass before such writes are known and watched.
    ensure(seen.count() * 10 >= own.count() * 7 && seen.count() <= own.count(), || {
        format!("{} seen, {} made", seen.count(), own.count())
    })?;
    let (seen_ns, own_ns) =
        (seen.nearest_rank_ns(0.5).unwrap_or(0), own.nearest_rank_ns(0.5).unwrap_or(0));
    ensure(seen_ns.abs_diff(own_ns) <= own_ns / 4 + 20_000, || {
        format!("{seen_ns} ns seen, {own_ns} ns")
    })?;
    let devices: Vec<_> = uses(&all, pid)
        .filter(|p| p.calls.contains_key(&Call::SyncWrite))
        .map(|p| p.device)
        .collect();
    ensure(devices.iter().all(|d| *d == Some(disk.id)), || {
        format!("{devices:?} instead of {}", disk.id)
    })
}

fn reads(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let file = disk.file("a");
    let mut writer = Worker::start("dirty", &[&file, "8"])?;
    writer.line()?;
    drop(writer);
    run("sync", &["-f", &file])?;
    let mut probe = open(source)?;
    let device_ms = reads_ms(&disk)?;
    let mut worker = Worker::start("read", &[&file])?;
    let pid = worker.pid();
    let all = until_ended(&mut probe, &mut worker)?;
    let line = worker.line()?;
    let mut own = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let fetched = own.next().ok_or("no figure")?;
    let own = LatencyCounts::from_values(own);
    let mut seen = LatencyCounts::default();
    let here = || uses(&all, pid).filter(|p| p.device == Some(disk.id));
    here().for_each(|p| seen.merge(&p.reads));
    let bytes: u64 = here().map(|p| p.read_bytes).sum();
    // A page may stay in the cache although its file was dropped from it. A request may be missed
    // (crates/probe/src/bpf/requests.rs).
    let least = fetched - fetched / 1000;
    ensure(fetched > 8_000_000 && (least..=9 << 20).contains(&bytes), || {
        format!("{bytes} bytes, {fetched} by /proc/PID/io, {} lost", lost(&all))
    })?;
    let (seen_ns, own_ns) =
        (seen.nearest_rank_ns(0.5).unwrap_or(0), own.nearest_rank_ns(0.5).unwrap_or(0));
    ensure(seen_ns <= own_ns, || format!("{seen_ns} ns in the device, {own_ns} ns to the reader"))?;
    let seen_ms = seen.mean_ns().unwrap_or(0.0) * seen.count() as f64 / 1e6;
    let device_ms = reads_ms(&disk)? - device_ms;
    // The kernel's time begins before the probe's and ends after it. A busy processor leaves its
    // task between the two.
    ensure((0.5 * device_ms - 1.0..=device_ms + 1.0).contains(&seen_ms), || {
        format!("reads of {seen_ms} ms seen, {device_ms} ms by the device's own counter")
    })?;
    // No process waits for a call that has ended.
    let waiting: u32 = all
        .last()
        .map_or(0, |s| s.processes.iter().filter(|p| p.pid == pid).map(|p| p.waiting).sum());
    ensure(waiting == 0, || format!("{waiting} still waited for"))
}

fn bytes(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("dirty", &[&disk.file("a"), "64"])?;
    let own: u64 = worker.line()?.parse().map_err(|_| "no figure")?;
    run("sync", &["-f", &disk.file("a")])?;
    probe.wait(Duration::from_millis(200), &GO_ON).map_err(|e| e.to_string())?;
    let snapshot = probe.snapshot().map_err(|e| e.to_string())?;
    let all = [snapshot];
    let dirtied: u64 = uses(&all, worker.pid()).filter_map(|p| p.dirtied_bytes).sum();
    ensure(dirtied == own && own >= 64 << 20, || {
        format!("{dirtied} bytes dirtied seen, {own} in /proc/PID/io")
    })?;
    let device =
        uses(&all, worker.pid()).find(|p| p.dirtied_bytes > Some(0)).and_then(|p| p.device);
    ensure(device == Some(disk.id), || format!("dirtied for {device:?}"))?;
    let [snapshot] = all;
    let used =
        snapshot.devices.iter().find(|d| d.id == disk.id).ok_or("the device is not shown")?;
    let (Some(counters), Some(requests)) = (&used.counters, &used.requests) else {
        return Err(format!("{used:?}"));
    };
    compare_with(counters, requests, snapshot.lost_events)
}

fn waited(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let script = format!(
        "for n in 1 2 3 4 5 6 7 8; do head -c 8388608 /dev/zero; sleep 0.2; done | dd of='{}' \
         bs=1M iflag=fullblock; sleep 1; :",
        disk.file("a")
    );
    let mut shell = std::process::Command::new("sh");
    // Its messages go to another disk: a writer has files open on both.
    let log = tempfile::tempfile().map_err(|e| e.to_string())?;
    let shell = shell.args(["-c", &script]).stderr(log).spawn();
    let mut shell = shell.map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    while shell.try_wait().map_err(|e| e.to_string())?.is_none() {
        probe.wait(Duration::from_millis(200), &GO_ON).map_err(|e| e.to_string())?;
        all.push(probe.snapshot().map_err(|e| e.to_string())?);
    }
    let here = |p: &&ProcessUse| p.device == Some(disk.id) || p.pid == shell.id();
    let dirtied: Vec<_> = all
        .iter()
        .flat_map(|s| &s.processes)
        .filter(here)
        .map(|p| (p.pid, p.dirtied_bytes))
        .collect();
    let sum: u64 = dirtied.iter().filter_map(|(_, bytes)| *bytes).sum();
    // The filesystem's own blocks come on top.
    ensure((64 << 20..=66 << 20).contains(&sum), || {
        format!("{sum} bytes of {} seen: {dirtied:?}", 64 << 20)
    })
}

/// A shell writes its log on one disk. Its children, and theirs, write 32 MiB each on another one.
fn waited_elsewhere(source: SourceKind) -> Result<(), String> {
    let (log, target) = (disk()?, disk()?);
    let mut probe = open(source)?;
    let script = format!(
        "exec 3>>'{log}'; echo begin >&3; read go
         dd if=/dev/zero of='{a}' bs=1M count=32; \
         sh -c \"dd if=/dev/zero of='{b}' bs=1M count=32; :\"
         echo end >&3; echo; read go",
        log = log.file("log"),
        a = target.file("a"),
        b = target.file("b"),
    );
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
    let (mut go, stdout) =
        (shell.stdin.take().ok_or("no stdin")?, shell.stdout.take().ok_or("no stdout")?);
    let mut all = Vec::new();
    let mut look =
        || probe.snapshot().map(|snapshot| all.push(snapshot)).map_err(|e| e.to_string());
    look()?;
    // All of it happens between two looks.
    go.write_all(b"\n").map_err(|e| e.to_string())?;
    std::io::BufReader::new(stdout).read_line(&mut String::new()).map_err(|e| e.to_string())?;
    look()?;
    go.write_all(b"\n").map_err(|e| e.to_string())?;
    shell.wait().map_err(|e| e.to_string())?;
    look()?;
    let dirtied = |here: &dyn Fn(&ProcessUse) -> bool| -> u64 {
        let all = all.iter().flat_map(|s| &s.processes).filter(|p| here(p));
        all.filter_map(|p| p.dirtied_bytes).sum()
    };
    let at_log = dirtied(&|p| p.device == Some(log.id));
    ensure(at_log < 1 << 20, || format!("{at_log} bytes dirtied on the disk of the log"))?;
    let nowhere = dirtied(&|p| p.pid == shell.id() && p.device.is_none());
    let at_target = dirtied(&|p| p.device == Some(target.id));
    ensure(nowhere + at_target >= 64 << 20, || {
        format!(
            "{nowhere} bytes on no known disk and {at_target} on the right one, of {}",
            64 << 20
        )
    })
}

/// Requests that were seen against the device's own counters.
fn compare_with(
    counters: &DeviceSample,
    requests: &std::collections::BTreeMap<Class, Requests>,
    lost: u64,
) -> Result<(), String> {
    let of = |classes: &[Class]| {
        let of = classes.iter().filter_map(|c| requests.get(c));
        of.fold((0, 0), |(ops, bytes), r| (ops + r.device.count(), bytes + r.bytes))
    };
    let (ops, bytes) = of(&[Class::SyncWrite, Class::AsyncWrite]);
    // A write without data, which only asks for a flush, may count as one there.
    let flushes = counters.flush_ops.unwrap_or(0);
    let in_range = (ops..=ops + flushes).contains(&counters.write_ops);
    ensure(bytes == counters.written_bytes && in_range, || {
        format!("{ops} writes of {bytes} bytes seen, {lost} events lost; diskstats: {counters:?}")
    })?;
    let (ops, _) = of(&[Class::Flush]);
    ensure(counters.flush_ops.is_none_or(|n| n == ops), || {
        format!("{ops} flushes; diskstats: {counters:?}")
    })
}

/// How long all reads of a disk took together, in whole milliseconds.
fn reads_ms(disk: &Disk) -> Result<f64, String> {
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    let requests = requests_of_device(&root, disk.id).into_value();
    requests.map(|requests| requests.reads.ms as f64).ok_or_else(|| format!("{} is gone", disk.id))
}

/// This process's resident memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// CPU time, user and kernel, in microseconds.
fn cpu_us(who: libc::c_int) -> i64 {
    // SAFETY: all zeros is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a place to write to.
    unsafe { libc::getrusage(who, &raw mut usage) };
    [usage.ru_utime, usage.ru_stime].iter().map(|t| t.tv_sec * 1_000_000 + t.tv_usec).sum()
}

fn followed(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    // Calls of other processes are not counted: those of a thread that was there before.
    let file = disk.file("b");
    let (begin, begun) = std::sync::mpsc::channel();
    let other =
        std::thread::spawn(move || begun.recv().map(|()| Worker::start("sync", &[&file, "2000"])));
    let mut probe = Probe::open_following(Some(source)).map_err(|e| e.to_string())?;
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let mut worker = Worker::start("fork", &[&disk.file("a"), "10000"])?;
    begin.send(()).map_err(|e| e.to_string())?;
    let mut other =
        other.join().map_err(|_| "the other panicked")?.map_err(|e| e.to_string())??;
    probe.follow(thread, 7);
    let (mut syncs, mut lost, mut folded) = (LatencyCounts::default(), 0, 0);
    let mut others = 0;
    loop {
        let ended = worker.ended() && other.ended();
        probe.wait(Duration::from_millis(250), &GO_ON).map_err(|e| e.to_string())?;
        let window = probe.followed();
        (lost, folded) = (lost + window.lost_events, folded + window.folded_operations);
        let calls = |call| window.by_tag.get(&7).and_then(|f| f.calls.get(&call));
        calls(Call::Fsync).into_iter().for_each(|counts| syncs.merge(counts));
        // This test's processes call fsync alone; every second call of the other is fdatasync.
        others += calls(Call::Fdatasync).map_or(0, LatencyCounts::count);
        if ended {
            break;
        }
    }
    // Counted in the kernel, those are folded that are too many for its tables.
    let missing = 10_000_u64.saturating_sub(syncs.count());
    let seen = (LEAST_SEEN..=10_000).contains(&syncs.count());
    ensure(seen && missing <= lost + folded && others == 0, || {
        let syncs = syncs.count();
        format!(
            "{syncs} of 10,000 seen, {lost} events lost, {folded} folded, {others} of another's"
        )
    })
}

fn ten_thousand(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let before = resident();
    let begin = (cpu_us(libc::RUSAGE_SELF), cpu_us(libc::RUSAGE_CHILDREN));
    let mut worker = Worker::start("fork", &[&disk.file("a"), "10000"])?;
    let mut most = before;
    let (mut syncs, mut lost) = (0, 0);
    let mut processes = 0;
    loop {
        let ended = worker.ended();
        probe.wait(Duration::from_millis(500), &GO_ON).map_err(|e| e.to_string())?;
        let snapshot = probe.snapshot().map_err(|e| e.to_string())?;
        most = most.max(resident());
        processes = processes.max(snapshot.processes.len());
        // A call on a closed file, by a process that sent no request, is counted for no device.
        let fsyncs = |p: &ProcessUse| p.calls.get(&Call::Fsync).map_or(0, LatencyCounts::count);
        syncs += snapshot.processes.iter().map(fsyncs).sum::<u64>();
        lost += snapshot.lost_events;
        if ended {
            break;
        }
    }
    let (own, theirs) =
        (cpu_us(libc::RUSAGE_SELF) - begin.0, cpu_us(libc::RUSAGE_CHILDREN) - begin.1);
    ensure(own < theirs / 2, || {
        format!("looking took {own} µs of CPU time, what was looked at {theirs}")
    })?;
    ensure(syncs >= LEAST_SEEN && syncs + lost >= 9_900, || {
        format!("{syncs} of 10,000 syncs seen, {lost} events lost")
    })?;
    ensure(most < 20 << 20, || format!("{most} bytes resident, {processes} processes in a window"))
}

fn beside_another(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut first = open(source)?;
    let mut other = open(SourceKind::Perf)?;
    let mut worker = Worker::start("sync", &[&disk.file("a"), "100"])?;
    let pid = worker.pid();
    let looked = std::thread::spawn(move || {
        let stop = AtomicBool::new(false);
        let mut all = Vec::new();
        for _ in 0..20 {
            other.wait(Duration::from_millis(100), &stop).map_err(|e| e.to_string())?;
            all.push(other.snapshot().map_err(|e| e.to_string())?);
        }
        Ok::<_, String>(all)
    });
    let seen = until_ended(&mut first, &mut worker)?;
    let others = looked.join().map_err(|_| "the other tracer panicked")??;
    let count = |all: &[Snapshot]| {
        calls(all, pid, Call::Fsync).count() + calls(all, pid, Call::Fdatasync).count()
    };
    ensure(count(&seen) == 100 && count(&others) == 100, || {
        format!("{} and {}", count(&seen), count(&others))
    })?;
    // And the first goes on when the other has ended.
    let mut worker = Worker::start("sync", &[&disk.file("a"), "50"])?;
    let pid = worker.pid();
    let seen = until_ended(&mut first, &mut worker)?;
    let count = calls(&seen, pid, Call::Fsync).count() + calls(&seen, pid, Call::Fdatasync).count();
    ensure(count == 50, || format!("{count} of 50"))
}

/// This process's perf events and links of programs.
fn open_tracepoints() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let is_open = |target: &std::path::Path| {
        let target = target.to_string_lossy();
        ["perf_event", "bpf_link", "bpf-link", "raw-tracepoint"]
            .iter()
            .any(|kind| target.contains(kind))
    };
    targets.filter(|target| is_open(target)).count()
}

fn paused(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = Probe::open_sparing(Some(source)).map_err(|e| e.to_string())?;
    probe.sample_above(None);
    let seen = |probe: &mut Probe| {
        let mut worker = Worker::start("sync", &[&disk.file("a"), "200"])?;
        let pid = worker.pid();
        let all = until_ended(probe, &mut worker)?;
        let commits =
            calls(&all, pid, Call::Fsync).count() + calls(&all, pid, Call::Fdatasync).count();
        let dirtied: u64 = uses(&all, pid).filter_map(|p| p.dirtied_bytes).sum();
        let waiting: u32 = all.last().map_or(0, |s| s.processes.iter().map(|p| p.waiting).sum());
        Ok::<_, String>((
            commits,
            dirtied >= 200 * 4096,
            waiting,
            all.iter().map(|s| s.attached).sum(),
        ))
    };
    let (commits, ..) = seen(&mut probe)?;
    ensure(commits == 200 && open_tracepoints() > 0, || format!("{commits} of 200 at first"))?;
    probe.pause();
    // Closing takes its time.
    let begin = std::time::Instant::now();
    while open_tracepoints() > 0 {
        ensure(begin.elapsed() < Duration::from_secs(10), || {
            format!("{} are open", open_tracepoints())
        })?;
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(probe.snapshot());
    let while_paused = seen(&mut probe)?;
    ensure(while_paused == (0, true, 0, Duration::ZERO), || format!("paused: {while_paused:?}"))?;
    for _ in 0..5 {
        probe.resume().map_err(|e| e.to_string())?;
        probe.pause();
        std::thread::sleep(Duration::from_millis(30));
    }
    let begin = std::time::Instant::now();
    probe.resume().map_err(|e| e.to_string())?;
    let took = begin.elapsed();
    let (commits, dirtied, waiting, _) = seen(&mut probe)?;
    ensure((commits, dirtied, waiting) == (200, true, 0), || {
        format!(
            "{commits} of 200 after a pause, {waiting} still waited for; it took {took:?} to go on"
        )
    })
}

/// Whether a process is inside a system call with this number.
fn is_inside(pid: u32, number: i64) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    call.split(' ').next() == Some(&number.to_string())
}

/// Waits until a worker is inside that call, or has ended.
fn until_inside(worker: &mut Worker, number: i64) {
    while !is_inside(worker.pid(), number) && !worker.ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn hangs(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = Probe::open_sparing(Some(source)).map_err(|e| e.to_string())?;
    // The call may be over before the probe looks.
    for _ in 0..10 {
        let mut worker = Worker::start("large", &[&disk.file("a"), "400"])?;
        let pid = worker.pid();
        worker.line()?;
        probe.snapshot().map_err(|e| e.to_string())?;
        probe.pause();
        probe.snapshot().map_err(|e| e.to_string())?;
        worker.go();
        until_inside(&mut worker, libc::SYS_fsync);
        probe.resume().map_err(|e| e.to_string())?;
        let was_inside = is_inside(pid, libc::SYS_fsync);
        let first = [probe.snapshot().map_err(|e| e.to_string())?];
        let rest = until_ended(&mut probe, &mut worker)?;
        if !was_inside {
            continue;
        }
        let here = || uses(&first, pid).filter(|p| p.device == Some(disk.id));
        let waiting: u32 = here().map(|p| p.waiting).sum();
        let ended = [&first[..], &rest].map(|seen| calls(seen, pid, Call::Fsync).count());
        let left: u32 = uses(&rest[rest.len() - 1..], pid).map(|p| p.waiting).sum();
        let oldest_call = here().find_map(|p| p.oldest_call);
        ensure(oldest_call == (waiting > 0).then_some("fsync"), || format!("{oldest_call:?}"))?;
        return ensure(
            u64::from(waiting) + ended[0] == 1 && ended[0] + ended[1] == 1 && left == 0,
            || format!("{waiting} waiting at first, {ended:?} seen to end, {left} waiting at last"),
        );
    }
    Err("its last sync was over too soon, ten times".to_owned())
}

/// A filesystem that is frozen holds a write to an `O_DSYNC` file as long as it is.
fn write_hangs(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut worker = Worker::start("dsync-once", &[&disk.file("a")])?;
    worker.line()?;
    let frozen = Frozen::new(disk.path())?;
    worker.go();
    let pid = worker.pid();
    until_inside(&mut worker, libc::SYS_pwrite64);
    let mut probe = open(source)?;
    probe.warm_up(&GO_ON).map_err(|e| e.to_string())?;
    probe.wait(Duration::from_millis(100), &GO_ON).map_err(|e| e.to_string())?;
    let first = [look(&mut probe)?];
    drop(frozen);
    let rest = until_ended(&mut probe, &mut worker)?;
    let here = || uses(&first, pid).filter(|p| p.device == Some(disk.id));
    let waits: Vec<_> = here().map(|p| (p.waiting, p.oldest_call)).collect();
    ensure(waits == [(1, Some("sync_write"))], || format!("{waits:?}"))?;
    let ended = calls(&rest, pid, Call::SyncWrite).count();
    let left: u32 = uses(&rest[rest.len() - 1..], pid).map(|p| p.waiting).sum();
    ensure(ended == 1 && left == 0, || format!("{ended} seen to end, {left} waiting at last"))
}

fn sampled(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = Probe::open_sparing(Some(source)).map_err(|e| e.to_string())?;
    // Far below what any disk does.
    probe.sample_above(Some(20));
    let mut worker = Worker::start("sync", &[&disk.file("a"), "6000", "3000"])?;
    let pid = worker.pid();
    let mut all = Vec::new();
    while !worker.ended() {
        probe.wait(Duration::from_millis(250), &GO_ON).map_err(|e| e.to_string())?;
        all.push(probe.snapshot().map_err(|e| e.to_string())?);
    }
    let own = worker.latencies()?;
    // The first is counted whole, and the last may be no longer than a moment.
    let middle = all.get(1..all.len() - 1).unwrap_or_default();
    let mut factors: Vec<f64> = middle.iter().filter_map(|s| s.sampled_by).collect();
    ensure(middle.len() >= 2 && factors.len() == middle.len(), || {
        format!("{} of {} windows were samples", factors.len(), middle.len())
    })?;
    factors.sort_by(f64::total_cmp);
    // A busy machine lets some samples begin late.
    let factor = factors[factors.len() / 2];
    ensure((3.5..=7.0).contains(&factor), || format!("{factors:?} instead of 5"))?;
    let mut seen = calls(&all, pid, Call::Fsync);
    seen.merge(&calls(&all, pid, Call::Fdatasync));
    let ratio = seen.count() as f64 / own.count() as f64;
    ensure((0.6..=1.4).contains(&ratio), || {
        format!("{} estimated, {} made", seen.count(), own.count())
    })?;
    let (seen_ns, own_ns) =
        (seen.nearest_rank_ns(0.5).unwrap_or(0), own.nearest_rank_ns(0.5).unwrap_or(0));
    ensure(seen_ns.abs_diff(own_ns) <= own_ns / 3 + 30_000, || {
        format!("a median of {seen_ns} ns in samples, {own_ns} ns by the caller's clock")
    })?;
    // A call is seen to its end, and is not taken for one under way ever after.
    probe.wait(Duration::from_millis(250), &GO_ON).map_err(|e| e.to_string())?;
    let last = probe.snapshot().map_err(|e| e.to_string())?;
    let waiting: u32 = last.processes.iter().filter(|p| p.pid == pid).map(|p| p.waiting).sum();
    ensure(waiting == 0, || format!("{waiting} still waited for"))
}
