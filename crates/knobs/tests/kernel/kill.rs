//! SIGKILL at every write of a plan and of its undoing, and at random moments.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floodwall_testing::process::Process;
use floodwall_testing::{ensure, said};

use crate::child::STEER;
use crate::disk::Disk;
use crate::priorities::{Threads, all_shown, ionice};
use crate::{Body, CHILD};

pub(crate) const TESTS: &[(&str, Body)] = &[
    ("killed_at_every_write_of_a_plan", killed_at_every_write),
    ("killed_at_every_write_of_an_undoing", killed_at_every_write_of_undoing),
    ("killed_at_any_moment", killed_at_any_moment),
    ("killed_with_priorities_in_the_plan", killed_with_priorities),
    ("killed_at_every_write_of_a_process_that_steers", killed_at_every_write_of_steering),
    ("killed_steering_at_any_moment", killed_steering_at_any_moment),
];

/// The least number of kills that these tests come to together.
pub(crate) const LEAST: u64 = 540;

/// Processes that were killed while they changed a knob or were about to. After each kill every
/// knob was as before.
static SURVIVED: AtomicU64 = AtomicU64::new(0);

/// How many kills have been survived by now.
pub(crate) fn survived() -> u64 {
    SURVIVED.load(Ordering::Relaxed)
}

/// Values that no kernel boots with, so that "back to the originals" is not "back to the defaults".
const BEFORE: [(&str, &str); 8] = [
    ("queue/scheduler", "mq-deadline"),
    ("queue/nr_requests", "100"),
    ("queue/iosched/fifo_batch", "4"),
    ("queue/iosched/read_expire", "300"),
    ("queue/max_sectors_kb", "512"),
    ("queue/read_ahead_kb", "128"),
    ("queue/wbt_lat_usec", "5000"),
    ("bdi/max_ratio_fine", "250000"),
];

const PLANS: [&[&str]; 5] = [
    &[
        "scheduler=bfq",
        "nr_requests=8",
        "max_sectors_kb=128",
        "wbt_lat_usec=0",
        "iosched.low_latency=0",
        "iosched.slice_idle_us=0",
        "iosched.strict_guarantees=0",
        "iosched.back_seek_max=1024",
        "iosched.timeout_sync=100",
        "rq_affinity=2",
        "nomerges=2",
        "bdi.max_bytes=64MiB",
    ],
    &[
        "scheduler=none",
        "nr_requests=32",
        "max_sectors_kb=256",
        "read_ahead_kb=64",
        "nomerges=2",
        "rq_affinity=2",
        "wbt_lat_usec=1ms",
        "bdi.max_ratio=3",
        "bdi.min_ratio=1",
        "bdi.strict_limit=1",
    ],
    &[
        "scheduler=kyber",
        "iosched.read_lat_nsec=1ms",
        "iosched.write_lat_nsec=5ms",
        "nr_requests=64",
        "read_ahead_kb=4096",
        "bdi.max_ratio_fine=30000",
        "bdi.strict_limit=1",
        "wbt_lat_usec=0",
        "nomerges=1",
        "rq_affinity=0",
    ],
    &[
        "nr_requests=2",
        "iosched.async_depth=3",
        "iosched.fifo_batch=1",
        "iosched.write_expire=1001",
        "iosched.read_expire=99",
        "iosched.writes_starved=7",
        "iosched.front_merges=0",
        "iosched.prio_aging_expire=5000",
        "wbt_lat_usec=-1",
        "max_sectors_kb=64",
        "read_ahead_kb=129",
        "nomerges=1",
    ],
    &[
        "max_sectors_kb=64",
        "bdi.min_ratio=1",
        "bdi.max_ratio=10",
        "scheduler=bfq",
        "iosched.strict_guarantees=1",
        "iosched.low_latency=0",
        "iosched.max_budget=1000",
        "iosched.fifo_expire_sync=50",
        "iosched.fifo_expire_async=500",
        "iosched.back_seek_penalty=5",
        "nr_requests=500",
        "read_ahead_kb=0",
    ],
];

pub(crate) fn disk() -> Result<Disk, String> {
    let disk = Disk::new()?;
    for (knob, value) in BEFORE {
        disk.set(knob, value)?;
    }
    // A change of nr_requests resets it.
    let depth = disk.spelled("iosched.async_depth").replace('.', "/");
    disk.set(&format!("queue/{depth}"), "50")?;
    Ok(disk)
}

/// A process that changes settings: `what` is a plan, or `rollback`.
pub(crate) fn start(disk: &Disk, stop_before: &str, what: &[&str]) -> Process {
    let journal = disk.journal().to_string_lossy().into_owned();
    let mut words = vec![CHILD, &journal, &disk.device.name, stop_before];
    words.extend(what.iter().map(|setting| disk.spelled(setting)));
    Process::of_this_binary(&words, Stdio::piped()).unwrap()
}

/// Runs it up to a write and kills it there. `false` if it ended before.
fn kill_before(disk: &Disk, write: u64, what: &[&str]) -> Result<bool, String> {
    let mut process = start(disk, &write.to_string(), what);
    let stopped = process.says("stopped").is_ok();
    if stopped {
        process.0.kill().map_err(said("kill"))?;
    }
    let status = process.0.wait().map_err(said("wait"))?;
    if !stopped && !status.success() {
        return Err(format!("{what:?} failed by itself before write {write}"));
    }
    Ok(stopped)
}

pub(crate) fn go_through(disk: &Disk, what: &[&str]) -> Result<(), String> {
    let status = start(disk, "never", what).0.wait().map_err(said("wait"))?;
    ensure(status.success(), || format!("{what:?} failed"))
}

pub(crate) fn same(
    disk: &Disk,
    original: &std::collections::BTreeMap<std::path::PathBuf, String>,
    when: &str,
) -> Result<(), String> {
    let now = disk.all();
    let differs: Vec<String> = original
        .iter()
        .filter(|(path, value)| now.get(*path) != Some(*value))
        .map(|(path, value)| format!("{}: {value} became {:?}", path.display(), now.get(path)))
        .collect();
    ensure(differs.is_empty() && now.len() == original.len(), || format!("{when}: {differs:?}"))
}

fn killed_at_every_write() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    let mut kills = 0;
    for what in PLANS {
        let mut write = 0;
        while kill_before(&disk, write, what)? {
            go_through(&disk, &["rollback"])?;
            same(&disk, &original, &format!("{what:?} killed before write {write}"))?;
            SURVIVED.fetch_add(1, Ordering::Relaxed);
            write += 1;
        }
        kills += write;
        go_through(&disk, &["rollback"])?;
        same(&disk, &original, &format!("{what:?} rolled back"))?;
    }
    ensure(kills >= 170, || format!("only {kills} crash points"))
}

fn killed_at_every_write_of_undoing() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    let mut kills = 0;
    for what in &PLANS[..3] {
        let mut write = 0;
        loop {
            go_through(&disk, what)?;
            if !kill_before(&disk, write, &["rollback"])? {
                break;
            }
            go_through(&disk, &["rollback"])?;
            same(&disk, &original, &format!("undoing {what:?} killed before write {write}"))?;
            SURVIVED.fetch_add(1, Ordering::Relaxed);
            write += 1;
        }
        kills += write;
        same(&disk, &original, &format!("{what:?} rolled back"))?;
    }
    ensure(kills >= 80, || format!("only {kills} crash points"))
}

fn killed_at_any_moment() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    for round in 0_u64..60 {
        let what = PLANS[(round % 5) as usize];
        let Process(child) = &mut start(&disk, "never", what);
        // Spread over the life of the process by a step that divides nothing.
        std::thread::sleep(Duration::from_micros(round * 1_741 % 40_000));
        child.kill().and_then(|()| child.wait()).map_err(said("kill"))?;
        go_through(&disk, &["rollback"])?;
        same(&disk, &original, &format!("round {round} of {what:?}"))?;
        SURVIVED.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Threads of this process have different priorities. A plan gives them one, along with queue
/// knobs.
fn killed_with_priorities() -> Result<(), String> {
    let disk = disk()?;
    let threads = Threads::start(200);
    for (i, tid) in threads.tids.iter().enumerate() {
        let class = [&["-c3"][..], &["-c2", "-n7"], &["-c0"]][i % 3];
        ionice(&[class, &["-p", &tid.to_string()]].concat())?;
    }
    let (original, priorities) = (disk.all(), all_shown(&threads.tids)?);
    let own = format!("pid:{}.ioprio=be/0", std::process::id());
    let what = ["scheduler=bfq", "nr_requests=8", own.as_str(), "iosched.low_latency=0"];
    let as_before = |when: &str| {
        go_through(&disk, &["rollback"])?;
        same(&disk, &original, when)?;
        ensure(all_shown(&threads.tids)? == priorities, || format!("{when}: priorities differ"))?;
        SURVIVED.fetch_add(1, Ordering::Relaxed);
        Ok::<(), String>(())
    };
    let mut write = 0;
    while kill_before(&disk, write, &what)? {
        as_before(&format!("killed before write {write}"))?;
        write += 1;
    }
    as_before("rolled back")?;
    for round in 0_u64..150 {
        let Process(child) = &mut start(&disk, "never", &what);
        std::thread::sleep(Duration::from_micros(round * 1_741 % 40_000));
        child.kill().and_then(|()| child.wait()).map_err(said("kill"))?;
        as_before(&format!("round {round}"))?;
    }
    Ok(())
}

fn killed_at_every_write_of_steering() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    let mut write = 0;
    while kill_before(&disk, write, &[STEER])? {
        go_through(&disk, &["rollback"])?;
        same(&disk, &original, &format!("steering killed before write {write}"))?;
        SURVIVED.fetch_add(1, Ordering::Relaxed);
        write += 1;
    }
    same(&disk, &original, "steered to the end")?;
    ensure(write >= 80, || format!("only {write} crash points"))
}

fn killed_steering_at_any_moment() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    for round in 0_u64..60 {
        let Process(child) = &mut start(&disk, "never", &[STEER]);
        std::thread::sleep(Duration::from_micros(round * 1_741 % 60_000));
        child.kill().and_then(|()| child.wait()).map_err(said("kill"))?;
        go_through(&disk, &["rollback"])?;
        same(&disk, &original, &format!("round {round} of steering"))?;
        SURVIVED.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
