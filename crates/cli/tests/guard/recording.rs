//! The recorder that a guard runs (`record = DIR`). Three commands tell a real stall beside a guard
//! that only looks, as the victim itself has measured it. And the recorder ends as it should.
//!
//! ```text
//! lab device ─ fio that commits ─▶ its own log: each commit, how long and until when
//!            └ a flood             ▲ compared
//! guard ─▶ recorder ─▶ files ─▶ stalls, report, dump
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use floodwall_model::frame::{Frame, Process};
use floodwall_model::stall::Stall;
use floodwall_testing::process::run;
use floodwall_testing::{ensure, said};
use jiff::Timestamp;
use rustix::process::{Pid, Signal};

use crate::Test;
use crate::bed::{Device, FLOODWALL, Guard, PATIENCE, kill, lives, tied, until};
use crate::load::Load;

/// Names of the processes that wait and that flood, which no page has by itself.
const VICTIM: &str = "fw-ledger";
const FLOOD: &str = "fw-hoarder";
/// How long the flood writes.
const FLOODED: Duration = Duration::from_secs(12);
/// The victim ends then at the latest, in seconds.
const LATEST: &str = "--runtime=240";
/// A recorder's longest and shortest window, in milliseconds.
const LONG_MS: u64 = 5_000;
const SHORT_MS: u64 = 1_000;
/// Two clocks' readings of one moment, and threads that have to wait for a processor.
const SLACK_MS: u64 = 300;
/// A recorder that ended is started again after a minute.
const REST: Duration = Duration::from_secs(60);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "recording: a guard's recorder keeps a stall, which stalls, report and dump tell",
        needs: &["mkfs.xfs", "fio"],
        kernel: true,
        body: stall_is_kept,
    },
    Test {
        name: "recording: a guard starts its recorder again when it is killed, and ends it",
        needs: &["mkfs.xfs"],
        kernel: true,
        body: recorder_is_tended,
    },
];

fn stall_is_kept() -> Result<(), String> {
    let device = Device::up("hdd-7200")?;
    let observed = Observed::start(&device.name)?;
    let victim = Victim::start(&device.directory, observed.dir.path())?;
    let commits = |one: &Process| one.waits.iter().any(|waits| waits.call == "sync_write");
    until("the victim is seen", || {
        let frames = observed.frames(&device.name).unwrap_or_default();
        frames.iter().any(|frame| process(frame, VICTIM, &device.name).is_some_and(commits))
    })?;
    let flood = flood(&device, observed.dir.path())?;
    until("the stall is logged", || observed.logged().contains(&format!("{:?}", device.name)))?;
    let commits = victim.end()?;

    let stall = told(&observed, &device, &commits, &flood)?;
    shown(&observed, &stall, &flood)?;
    dumped(&observed, &stall)?;
    observed.guard.stop().map(drop)
}

fn recorder_is_tended() -> Result<(), String> {
    let device = Device::up("null")?;
    let observed = Observed::start(&device.name)?;
    let first = observed.recorder()?;
    kill(first, Signal::KILL)?;
    let is_another = || observed.recorder().is_ok_and(|pid| pid != first);
    floodwall_testing::until(REST + PATIENCE, "another recorder", is_another)
        .map_err(|e| format!("{e}\n{}", observed.guard.log()))?;
    let killed_ms = unix_ms();
    until("it records", || {
        let frames = observed.frames(&device.name).unwrap_or_default();
        frames.last().is_some_and(|frame| frame.at_unix_ms > killed_ms)
    })?;
    let second = observed.recorder()?;
    let log = observed.guard.stop()?;
    ensure(!lives(second), || format!("recorder {second:?} outlives its guard\n{log}"))?;
    ensure(log.contains("the recorder has ended (signal: 9"), || log)
}

/// `floodwall stalls`: who, where, how long and when, as the victim has measured it.
fn told(
    observed: &Observed,
    device: &Device,
    commits: &[Commit],
    flood: &Flooded,
) -> Result<Stall, String> {
    let text = observed.ask(&["stalls", "--json", "--last", "30m", "--device", &device.name])?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(said("stalls"))?;
    let stalls: Vec<Stall> =
        serde_json::from_value(document["stalls"].clone()).map_err(said("stalls"))?;
    let stall = stalls.into_iter().max_by_key(Stall::slowest_us).ok_or("no stall")?;
    let slowest = commits.iter().max_by_key(|commit| commit.took_us).ok_or("no commit")?;
    let ensure = |is: bool, what: &str| {
        let told = || format!("{what}: {stall:#?}\n{slowest:?} is the slowest commit; {flood:?}");
        ensure(is, || format!("{}\n{}", told(), windows(&observed.frames(&device.name))))
    };
    ensure(stall.disk == device.name && !stall.end_unseen, "another disk, or no end")?;
    ensure(stall.victims.first().is_some_and(|v| v.name == VICTIM), "another victim")?;
    ensure(stall.floods.first().is_some_and(|f| f.name == FLOOD), "another flood")?;
    ensure(stall.guard.is_some(), "no guard")?;

    // Stored with three digits, and the victim has its own clock.
    let apart_us = stall.slowest_us().abs_diff(slowest.took_us);
    ensure(apart_us < slowest.took_us / 100 + SLACK_MS * 1000, "another slowest wait")?;
    let seen = slowest.ended_ms..slowest.ended_ms + LONG_MS;
    ensure(within(stall.worst_unix_ms, &seen), "it was seen at another time")?;

    let begins = flood.began_ms - LONG_MS..slowest.began_ms() + LONG_MS;
    ensure(within(stall.began_unix_ms, &begins), "another beginning")?;
    // The last waits end as the queue runs dry.
    let latest = flood.ended_ms + slowest.took_us / 1000 + 2 * SHORT_MS;
    ensure(within(stall.ended_unix_ms, &(slowest.ended_ms..latest)), "another end")?;
    Ok(stall)
}

/// The page of that time and its text tell the same.
fn shown(observed: &Observed, stall: &Stall, flood: &Flooded) -> Result<(), String> {
    let moment = |ms: u64| {
        let seconds = i64::try_from(ms / 1000).unwrap_or(0);
        Timestamp::from_second(seconds).map(|moment| moment.to_string()).map_err(said("a moment"))
    };
    let (from, to) = (moment(flood.began_ms - LONG_MS)?, moment(unix_ms() + 1000)?);
    let asked = ["report", "--from", &from, "--to", &to];
    let text = observed.ask(&asked)?;
    let file = observed.dir.path().join("night.html");
    observed.ask(&[&asked[..], &["--out", &file.to_string_lossy()]].concat())?;
    let page = fs::read_to_string(&file).map_err(said("the page"))?;
    for text in [&text, &page] {
        for told in [VICTIM, FLOOD, &stall.disk, &seconds(stall.slowest_us())] {
            ensure(text.contains(told), || format!("no {told} in\n{text}"))?;
        }
    }
    Ok(())
}

/// The frames hold the same: the slowest wait in the frame that the stall names, and the flood.
fn dumped(observed: &Observed, stall: &Stall) -> Result<(), String> {
    let frames = observed.frames(&stall.disk)?;
    let worst = frames.iter().find(|frame| frame.at_unix_ms == stall.worst_unix_ms);
    let worst = worst.ok_or("the frame of the slowest wait is not there")?;
    let victim = process(worst, VICTIM, &stall.disk).ok_or("its victim is not there")?;
    ensure(victim.is_victim && victim.slowest_us() == stall.slowest_us(), || {
        format!("{victim:?} is not as in {stall:?}")
    })?;
    let of_stall =
        |frame: &&Frame| (stall.began_unix_ms..=stall.ended_unix_ms).contains(&frame.at_unix_ms);
    let floods = frames.iter().filter(of_stall);
    let floods = floods.filter_map(|frame| process(frame, FLOOD, &stall.disk));
    ensure(floods.clone().any(|flood| flood.is_flood), || "nothing floods".into())?;
    let guard = worst.guard.as_ref().ok_or("the guard is not there")?;
    ensure(guard.dry_run && guard.disks.iter().any(|disk| disk.name == stall.disk), || {
        format!("{guard:?}")
    })
}

/// When each frame ended, its window, and how long the victim waited at most.
fn windows(frames: &Result<Vec<Frame>, String>) -> String {
    let line = |frame: &Frame| {
        let waits = frame.processes.iter().filter(|one| one.name == VICTIM);
        let waits: Vec<_> = waits.map(|one| (one.is_victim, one.slowest_us())).collect();
        format!("{} {} ms: {waits:?}\n", frame.at_unix_ms, frame.window_ms)
    };
    frames.iter().flatten().map(line).collect()
}

/// A guard that only looks, and its recorder.
struct Observed {
    guard: Guard,
    dir: tempfile::TempDir,
}

impl Observed {
    /// Both run. The guard's goal is far away, so no victim is one by the goal.
    fn start(device: &str) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(said("a directory"))?;
        let config = dir.path().join("guard.toml");
        let text = format!("dry_run = true\np99 = \"10s\"\nrecord = {:?}\n", recording(dir.path()));
        fs::write(&config, text).map_err(said("a configuration"))?;
        let guard = Guard::start(device, &["--config", &config.to_string_lossy()])?;
        let observed = Self { guard, dir };
        observed.guard.until("a recorder runs", || observed.recorder().is_ok())?;
        Ok(observed)
    }

    /// The recorder that runs, which is a child of the guard.
    fn recorder(&self) -> Result<Pid, String> {
        let lock = recording(self.dir.path()).join("recorder.lock");
        let pid = fs::read_to_string(lock).map_err(said("the lock"))?;
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).ok_or("no number")?;
        let status = format!("/proc/{}/status", pid.as_raw_nonzero());
        let status = fs::read_to_string(status).map_err(said("the recorder"))?;
        let parent = format!("PPid:\t{}\n", self.guard.parent().as_raw_nonzero());
        ensure(lives(pid) && status.contains(&parent), || format!("another process:\n{status}"))?;
        Ok(pid)
    }

    /// `floodwall …` of its recording.
    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let directory = recording(self.dir.path());
        run(FLOODWALL, &[words, &["--dir", &directory.to_string_lossy()]].concat())
    }

    /// The frames that have something of a disk.
    fn frames(&self, disk: &str) -> Result<Vec<Frame>, String> {
        let text = self.ask(&["dump", "--json", "--last", "30m", "--device", disk])?;
        text.lines().map(|line| serde_json::from_str(line).map_err(said("a frame"))).collect()
    }

    /// The text of its log of stalls.
    fn logged(&self) -> String {
        fs::read_to_string(recording(self.dir.path()).join("stalls.jsonl")).unwrap_or_default()
    }
}

fn recording(dir: &Path) -> PathBuf {
    dir.join("recording")
}

/// fio that commits one block after another, until it is told to end.
struct Victim {
    fio: Child,
    log: PathBuf,
}

/// One commit, as fio has measured it.
#[derive(Debug)]
struct Commit {
    ended_ms: u64,
    took_us: u64,
}

impl Commit {
    fn began_ms(&self) -> u64 {
        self.ended_ms - self.took_us / 1000
    }
}

impl Victim {
    fn start(directory: &Path, logs: &Path) -> Result<Self, String> {
        let fio = run("sh", &["-c", "command -v fio"])?;
        let fio = named(Path::new(&fio), logs, VICTIM)?;
        let log = logs.join("commits");
        let fio = tied(&fio.to_string_lossy())
            .args(["--name=commits", "--ioengine=psync", "--rw=write", "--sync=dsync", "--thread"])
            .args(["--bs=16k", "--size=1m", "--time_based", LATEST, "--log_unix_epoch=1"])
            .arg(format!("--directory={}", directory.display()))
            .arg(format!("--write_lat_log={}", log.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(said("fio"))?;
        Ok(Self { fio, log })
    }

    /// Its commits.
    fn end(mut self) -> Result<Vec<Commit>, String> {
        kill(Pid::from_child(&self.fio), Signal::INT)?;
        self.fio.wait().map_err(said("fio"))?;
        let log = format!("{}_clat.1.log", self.log.display());
        let text = fs::read_to_string(log).map_err(said("fio's log"))?;
        // Moment in ms, latency in ns, direction, …
        text.lines()
            .map(|line| {
                let mut words = line.split(',').map(str::trim).map(str::parse);
                match (words.next(), words.next()) {
                    (Some(Ok(ended_ms)), Some(Ok(took_ns))) => {
                        let took_ns: u64 = took_ns;
                        Ok(Commit { ended_ms, took_us: took_ns / 1000 })
                    }
                    _ => Err(format!("fio's log says {line:?}")),
                }
            })
            .collect()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.fio.kill();
        let _ = self.fio.wait();
    }
}

/// From when to when something flooded, in milliseconds since 1970.
#[derive(Debug)]
struct Flooded {
    began_ms: u64,
    ended_ms: u64,
}

/// Floods a device for a time. Its file is removed then, with all that is still to be written.
fn flood(device: &Device, links: &Path) -> Result<Flooded, String> {
    let us = std::env::current_exe().map_err(said("this program"))?;
    let program = named(&us, links, FLOOD)?;
    let began_ms = unix_ms();
    let load = Load::start_as(&program, "flood", &device.directory)?;
    thread::sleep(FLOODED);
    drop(load);
    fs::remove_file(device.directory.join("flood")).map_err(said("the flood's file"))?;
    Ok(Flooded { began_ms, ended_ms: unix_ms() })
}

/// The same program by another name.
fn named(program: &Path, directory: &Path, name: &str) -> Result<PathBuf, String> {
    let link = directory.join(name);
    symlink(program, &link).map_err(said(name))?;
    Ok(link)
}

fn process<'a>(frame: &'a Frame, name: &str, disk: &str) -> Option<&'a Process> {
    let is_it = |one: &&Process| one.name == name && one.disk.as_deref() == Some(disk);
    frame.processes.iter().find(is_it)
}

/// Whether a moment is within a time, with slack at both ends.
fn within(ms: u64, time: &std::ops::Range<u64>) -> bool {
    (time.start - SLACK_MS..=time.end + SLACK_MS).contains(&ms)
}

/// `769 ms`, `3.20 s`, `12.4 s`.
fn seconds(us: u64) -> String {
    let seconds = us as f64 / 1e6;
    match us / 1_000_000 {
        0 => format!("{} ms", us / 1000),
        1..10 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}
