//! Processes that commit are raised under bfq, as ionice(1) sees it, and get their priority back.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use floodwall_guard::{Config, Guard};
use floodwall_host::SysRoot;
use floodwall_host::queue::read_bfq_groups;
use floodwall_model::plant::{Plant, PlantError};
use floodwall_plant::{HostPlant, restore};
use floodwall_testing::process::{Process, run};
use floodwall_testing::{ensure, said};

use crate::Test;
use crate::disk::Disk;
use crate::sense::{GO_ON, look, options};
use crate::steer::write;
use crate::worker::Worker;

pub(crate) const TESTS: &[Test] = &[
    Test { name: "who_commits_is_raised_and_gets_its_priority_back", seconds: 120, body: raised },
    Test { name: "who_ends_while_raised_needs_nothing_back", seconds: 120, body: ended },
    Test { name: "raised_threads_of_a_killed_process_are_put_back", seconds: 120, body: killed },
    Test { name: "the_guard_raises_who_commits_beside_a_flood", seconds: 400, body: guarded },
];

/// First argument of this binary when it raises a process and waits to be killed.
pub(crate) const RAISER: &str = "plant-raiser";
const RAISED: &str = "best-effort: prio 0";

/// The first requirement of these tests that this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let groups = SysRoot::live().ok().and_then(|root| read_bfq_groups(&root).into_value());
    let bfq = (groups != Some(true))
        .then(|| "needs bfq with CONFIG_BFQ_GROUP_IOSCHED, loaded".to_owned());
    crate::missing().or_else(|| floodwall_testing::lacks(&["ionice"])).or(bfq)
}

/// What ionice(1) says of each thread of a process.
fn priorities(pid: u32) -> Result<Vec<String>, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(said("its threads"))?;
    let threads: Vec<String> =
        tasks.flatten().map(|task| task.file_name().to_string_lossy().into_owned()).collect();
    threads.iter().map(|tid| run("ionice", &["-p", tid])).collect()
}

fn all_are(pid: u32, wanted: &str) -> Result<usize, String> {
    let found = priorities(pid)?;
    ensure(!found.is_empty() && found.iter().all(|one| one == wanted), || {
        format!("threads of {pid} are not all at {wanted}: {found:?}")
    })?;
    Ok(found.len())
}

/// The thread that commits the journal of a disk's filesystem.
fn journal_thread(disk: &Disk) -> Result<u32, String> {
    let path = format!("/sys/fs/ext4/{}/journal_task", disk.name);
    fs::read_to_string(path)
        .map_err(said("journal_task"))?
        .trim()
        .parse()
        .map_err(said("journal_task"))
}

/// A disk under bfq and a process whose threads commit there, one more each second.
fn begin() -> Result<(Disk, Worker), String> {
    let disk = Disk::new(512)?;
    disk.set("queue/scheduler", "bfq")?;
    let crowd = Worker::start(&["crowd", &disk.file("c"), "1000"])?;
    Ok((disk, crowd))
}

/// The priorities among a disk's knobs.
fn offered(plant: &mut HostPlant, disk: &Disk) -> Result<BTreeSet<(String, String)>, String> {
    let own = plant.knobs().map_err(said("knobs"))?.devices.remove(&disk.id).ok_or("no knobs")?;
    Ok(own.0.into_iter().filter(|(knob, _)| knob.ends_with(".ioprio")).collect())
}

fn named(pid: u32, own: &str, journal: &str) -> BTreeSet<(String, String)> {
    let journal = ("journal.ioprio".to_owned(), journal.to_owned());
    BTreeSet::from([(format!("pid:{pid}.ioprio"), own.to_owned()), journal])
}

/// Raises a process and the journal of its disk.
fn raise(plant: &mut HostPlant, disk: &Disk, pid: u32) -> Result<(), String> {
    look(plant, disk, Duration::from_secs(1))?;
    let found = offered(plant, disk)?;
    ensure(found == named(pid, "none", "be/3"), || format!("offered: {found:?}"))?;
    for knob in [format!("pid:{pid}.ioprio"), "journal.ioprio".to_owned()] {
        plant.write(&write(disk, &knob, "be/0")).map_err(said("write"))?;
    }
    // Longer than the journal's disk takes for what is saved first.
    let end = Instant::now() + Duration::from_secs(20);
    while all_are(pid, RAISED).is_err() && Instant::now() < end {
        look(plant, disk, Duration::from_millis(100))?;
    }
    Ok(())
}

fn raised() -> Result<(), String> {
    let (disk, crowd) = begin()?;
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    let journal = journal_thread(&disk)?;
    let own = (priorities(crowd.pid())?[0].clone(), priorities(journal)?[0].clone());
    raise(&mut plant, &disk, crowd.pid())?;
    let before = all_are(crowd.pid(), RAISED)?;
    all_are(journal, RAISED)?;
    let observation = plant.observe().map_err(said("observe"))?;
    ensure(observation.devices.iter().all(|device| !device.changing), || {
        "a queue changes".to_owned()
    })?;
    // Threads that start later inherit it.
    look(&mut plant, &disk, Duration::from_secs(3))?;
    let after = all_are(crowd.pid(), RAISED)?;
    ensure(after > before, || format!("{before} threads became {after}"))?;
    let found = offered(&mut plant, &disk)?;
    ensure(found == named(crowd.pid(), "be/0", "be/0"), || format!("{found:?}"))?;
    // Neither this process nor one that only floods can be raised.
    for pid in [std::process::id(), 1] {
        let refused = plant.write(&write(&disk, &format!("pid:{pid}.ioprio"), "be/0"));
        ensure(matches!(refused, Err(PlantError::Refused { .. })), || {
            format!("{pid}: {refused:?}")
        })?;
    }
    // Under another elevator held ones stay knobs, and can be taken back.
    disk.set("queue/scheduler", "mq-deadline")?;
    look(&mut plant, &disk, Duration::from_secs(1))?;
    let found = offered(&mut plant, &disk)?;
    ensure(found == named(crowd.pid(), "be/0", "be/0"), || format!("{found:?}"))?;
    plant.write(&write(&disk, "journal.ioprio", "be/3")).map_err(said("write"))?;
    all_are(journal, &own.1)?;
    let closed = plant.close(Duration::from_secs(20));
    let told = format!("pid:{}.ioprio: none again", crowd.pid());
    ensure(closed.is_complete() && closed.restored.contains(&told), || format!("{closed:?}"))?;
    let threads = all_are(crowd.pid(), &own.0)?;
    ensure(threads > before, || format!("{threads} threads"))?;
    // Not offered at all.
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    look(&mut plant, &disk, Duration::from_secs(1))?;
    let found = offered(&mut plant, &disk)?;
    ensure(found.is_empty(), || format!("under mq-deadline: {found:?}"))
}

fn ended() -> Result<(), String> {
    let (disk, crowd) = begin()?;
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    let pid = crowd.pid();
    raise(&mut plant, &disk, pid)?;
    all_are(pid, RAISED)?;
    let label = format!("pid:{pid}.ioprio");
    ensure(plant.held().iter().any(|held| held.label == label), || "it is not held".to_owned())?;
    drop(crowd);
    let end = Instant::now() + Duration::from_secs(20);
    while plant.held().iter().any(|held| held.label == label) {
        ensure(Instant::now() < end, || format!("it is held for ever: {:?}", plant.held()))?;
        look(&mut plant, &disk, Duration::from_millis(500))?;
    }
    let found = offered(&mut plant, &disk)?;
    ensure(found.iter().all(|(knob, _)| *knob != label), || format!("{found:?}"))?;
    let failed: Vec<_> = plant
        .take_events()
        .into_iter()
        .filter(|e| {
            matches!(e, floodwall_plant::Event::Failed(_) | floodwall_plant::Event::NotBack(_))
        })
        .collect();
    ensure(failed.is_empty(), || format!("{failed:?}"))?;
    let closed = plant.close(Duration::from_secs(20));
    ensure(closed.is_complete() && closed.left_alone.is_empty(), || format!("{closed:?}"))
}

/// `JOURNAL DEVICE PID`: raises a process, says so and waits.
pub(crate) fn raise_and_wait(arguments: &[String]) -> Result<(), String> {
    let [journal, device, pid] = arguments else { return Err("usage".to_owned()) };
    let which = floodwall_plant::Which::Named(vec![device.clone()]);
    let options = floodwall_plant::Options {
        devices: which,
        ..floodwall_plant::Options::new(journal, "a test")
    };
    let mut plant = HostPlant::open(&options).map_err(said("open"))?;
    let id = plant.units().first().ok_or("no unit")?.id;
    let knob = format!("pid:{pid}.ioprio");
    loop {
        plant.wait(Duration::from_millis(250), &GO_ON).map_err(said("wait"))?;
        plant.observe().map_err(said("observe"))?;
        let knobs = plant.knobs().map_err(said("knobs"))?;
        let own = knobs.devices.get(&id).and_then(|own| own.get(&knob));
        if own == Some("none") {
            let write = floodwall_model::plant::KnobWrite {
                device: Some(id),
                knob: knob.clone(),
                value: "be/0".to_owned(),
            };
            plant.write(&write).map_err(said("write"))?;
        } else if own == Some("be/0") && all_are(pid.parse().map_err(said("pid"))?, RAISED).is_ok()
        {
            writeln!(std::io::stdout().lock(), "raised").map_err(said("stdout"))?;
            std::thread::sleep(Duration::from_secs(600));
        }
    }
}

fn killed() -> Result<(), String> {
    let (disk, crowd) = begin()?;
    let own = priorities(crowd.pid())?[0].clone();
    let (journal, pid) = (disk.journal().to_string_lossy().into_owned(), crowd.pid().to_string());
    let raise = [RAISER, &journal, &disk.name, &pid];
    let mut process = Process::of_this_binary(&raise, Stdio::null())?;
    process.says("raised")?;
    all_are(crowd.pid(), RAISED)?;
    process.0.kill().map_err(said("kill"))?;
    process.0.wait().map_err(said("wait"))?;
    // A thread that starts before it is put back is put back, too.
    std::thread::sleep(Duration::from_millis(1_500));
    all_are(crowd.pid(), RAISED)?;
    let restored = restore(&disk.journal(), Duration::from_secs(60)).map_err(said("restore"))?;
    ensure(restored.is_complete(), || format!("{:?}", restored.lines()))?;
    let told = format!("pid:{}.ioprio: none again", crowd.pid());
    ensure(restored.lines().iter().any(|line| line.ends_with(&told)), || {
        format!("{:?}", restored.lines())
    })?;
    all_are(crowd.pid(), &own).map(drop)
}

/// The law on a loop device: the committing process is raised, the flood is not.
fn guarded() -> Result<(), String> {
    let (disk, crowd) = begin()?;
    let original = disk.knobs();
    let own = priorities(crowd.pid())?[0].clone();
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    let mut guard = Guard::new(Config::default());
    let mut written: Vec<String> = Vec::new();
    let mut steer = |plant: &mut HostPlant, seconds: u64, until: &dyn Fn(&HostPlant) -> bool| {
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end && !until(plant) {
            plant.wait(Duration::from_millis(250), &GO_ON).map_err(said("wait"))?;
            let report = guard.tick(plant).map_err(said("tick"))?;
            written.extend(
                report.writes.iter().map(|write| format!("{}={}", write.knob, write.value)),
            );
        }
        Ok::<(), String>(())
    };
    steer(&mut plant, 3, &|_| false)?;
    let mut flood = Worker::start(&["flood", &disk.file("f"), "80"])?;
    let raised = |_: &HostPlant| all_are(crowd.pid(), RAISED).is_ok();
    steer(&mut plant, 30, &raised)?;
    all_are(crowd.pid(), RAISED)?;
    all_are(flood.pid(), &own)?;
    // The flood goes on until its backlog is on the disk. Behind raised victims, and on a disk that
    // others use too, that may take minutes.
    flood.kill();
    let ended = Instant::now();
    steer(&mut plant, 240, &|plant| plant.held().is_empty())?;
    eprintln!("given back {:.1?} after the flood's end; {written:?}", ended.elapsed());
    ensure(plant.held().is_empty(), || {
        format!("240 s after the flood it holds {:?}", plant.held())
    })?;
    all_are(crowd.pid(), &own)?;
    let first = written.first().cloned().unwrap_or_default();
    let raises = |write: &str| write.ends_with(".ioprio=be/0");
    ensure(raises(&first), || format!("written: {written:?}"))?;
    let closed = plant.close(Duration::from_secs(60));
    ensure(closed.is_complete() && disk.knobs() == original, || format!("{closed:?}"))
}
