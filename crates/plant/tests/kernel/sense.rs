//! A plant's observations, compared with the counts of the processes themselves, the kernel's
//! counters and its files.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_guard::{is_flood, is_victim};
use floodwall_model::plant::{Actor, DeviceObservation, Plant};
use floodwall_plant::{Event, HostPlant, Options, Which};
use floodwall_testing::{ensure, said};

use crate::Test;
use crate::disk::Disk;
use crate::worker::Worker;

pub(crate) const TESTS: &[Test] = &[
    Test { name: "commits_and_floods_are_seen_at_their_device", seconds: 120, body: seen },
    Test {
        name: "threads_that_flood_are_told_from_those_that_commit",
        seconds: 120,
        body: threads,
    },
    Test { name: "knobs_read_as_their_files_do", seconds: 60, body: knobs },
    Test { name: "an_excluded_device_is_left_out_of_observations", seconds: 60, body: excluded },
    Test { name: "devices_come_and_go", seconds: 120, body: come_and_go },
    Test { name: "a_dry_run_writes_nothing", seconds: 60, body: dry_run },
];

pub(crate) static GO_ON: AtomicBool = AtomicBool::new(false);

pub(crate) fn options(disk: &Disk) -> Options {
    Options {
        devices: Which::Named(vec![disk.name.clone()]),
        ..Options::new(disk.journal(), "a test")
    }
}

/// Looks four times a second for so long; the looks at one device.
pub(crate) fn look(
    plant: &mut HostPlant,
    disk: &Disk,
    time: Duration,
) -> Result<Vec<DeviceObservation>, String> {
    let end = Instant::now() + time;
    let mut seen = Vec::new();
    while Instant::now() < end {
        plant.wait(Duration::from_millis(250), &GO_ON).map_err(said("wait"))?;
        let observation = plant.observe().map_err(said("observe"))?;
        seen.extend(observation.devices.into_iter().filter(|device| device.id == disk.id));
    }
    Ok(seen)
}

/// Everything of one process.
fn of(seen: &[DeviceObservation], worker: &Worker) -> Vec<Actor> {
    let who = format!("({})", worker.pid());
    seen.iter()
        .flat_map(|device| &device.actors)
        .filter(|a| a.who.ends_with(&who))
        .cloned()
        .collect()
}

fn seen() -> Result<(), String> {
    let disk = Disk::new(512)?;
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    let unit = plant.units().first().cloned().ok_or("no unit")?;
    ensure(unit.mounts == [disk.path().canonicalize().unwrap().to_string_lossy()], || {
        format!("{unit:?}")
    })?;
    let committer = Worker::start(&["commit", &disk.file("c")])?;
    let written = || {
        let stat =
            std::fs::read_to_string(format!("/sys/dev/block/{}/stat", disk.id)).unwrap_or_default();
        stat.split_whitespace().nth(6).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 512
    };
    // From one look to another, so that both count the same time.
    look(&mut plant, &disk, Duration::from_millis(300))?;
    let (commits, before) = (committer.done(), written());
    let flood = Worker::start(&["flood", &disk.file("f"), "200"])?;
    let seen = look(&mut plant, &disk, Duration::from_secs(5))?;
    let (commits, written) = (committer.done() - commits, written() - before);
    let told: u64 = of(&seen, &committer).iter().map(Actor::operations).sum();
    ensure(commits > 5 && told.abs_diff(commits) <= commits / 5 + 10, || {
        format!("{told} commits were seen of {commits}")
    })?;
    let dirtied: u64 = of(&seen, &flood).iter().map(|actor| actor.dirtied_bytes).sum();
    ensure(dirtied > 50 << 20, || format!("{dirtied} bytes were seen of the flood"))?;
    let counted: u64 = seen.iter().map(|device| device.counters.written_bytes).sum();
    ensure(counted.abs_diff(written) <= written / 5 + (8 << 20), || {
        format!("{counted} bytes written were counted of {written}")
    })?;
    // Root sees debugfs whether it is mounted or not.
    let unseen = plant.blind().iter().any(|blind| blind.what == "dirty pages by device");
    ensure(!unseen, || format!("{:?}", plant.blind()))?;
    let dirty = seen.iter().filter_map(|device| device.dirty_bytes).max();
    ensure(dirty > Some(10 << 20), || format!("{dirty:?} dirty"))?;
    let last = plant.observe().map_err(said("observe"))?;
    let threshold =
        floodwall_host::memory::read_thresholds(&floodwall_host::SysRoot::live().unwrap());
    let (now, then) = (threshold.hard_bytes.into_value().unwrap(), last.hard_limit_bytes.unwrap());
    ensure(now.abs_diff(then) < now / 5, || format!("hard limit {then}, {now}"))?;
    ensure(
        last.dirty_bytes.is_some() && last.background_limit_bytes < last.hard_limit_bytes,
        || format!("{last:?}"),
    )?;
    ensure(plant.close(Duration::from_secs(10)).is_complete(), || "not closed".to_owned())
}

fn threads() -> Result<(), String> {
    let disk = Disk::new(512)?;
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    // 40 MB/s: a page that is dirty already is not counted again.
    let worker = Worker::start(&["both", &disk.file("f"), "200", "25", &disk.file("c")])?;
    look(&mut plant, &disk, Duration::from_secs(1))?;
    let seen = look(&mut plant, &disk, Duration::from_secs(3))?;
    let who = format!("({})", worker.pid());
    let tick = Duration::from_millis(250);
    let with = |is: &dyn Fn(&Actor) -> bool| {
        let has = |d: &&DeviceObservation| d.actors.iter().any(|a| a.who.contains(&who) && is(a));
        seen.iter().filter(has).count()
    };
    let victims = with(&|a| is_victim(a, tick));
    let floods = with(&|a| is_flood(a, tick) && a.operations() == 0);
    ensure(2 * victims > seen.len() && 2 * floods > seen.len(), || {
        format!(
            "a victim in {victims} and a flood in {floods} of {} looks: {:?}",
            seen.len(),
            seen.last()
        )
    })?;
    ensure(plant.close(Duration::from_secs(10)).is_complete(), || "not closed".to_owned())
}

fn knobs() -> Result<(), String> {
    let disk = Disk::new(64)?;
    disk.set("queue/scheduler", "bfq")?;
    disk.set("queue/nr_requests", "77")?;
    let mut plant = HostPlant::open(&options(&disk)).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    let all = plant.knobs().map_err(said("knobs"))?;
    let of = all.devices.get(&disk.id).ok_or("the device has no knobs")?;
    for (knob, file) in [
        ("nr_requests", "queue/nr_requests"),
        ("max_sectors_kb", "queue/max_sectors_kb"),
        ("read_ahead_kb", "queue/read_ahead_kb"),
        ("wbt_lat_usec", "queue/wbt_lat_usec"),
        ("iosched.low_latency", "queue/iosched/low_latency"),
        ("iosched.slice_idle", "queue/iosched/slice_idle"),
        ("bdi.max_ratio_fine", "bdi/max_ratio_fine"),
        ("bdi.strict_limit", "bdi/strict_limit"),
    ] {
        ensure(of.get(knob) == Some(disk.get(file).as_str()), || {
            format!("{knob}: {:?}", of.get(knob))
        })?;
    }
    ensure(of.get("scheduler") == Some("bfq"), || format!("{of}"))?;
    let ratio = std::fs::read_to_string("/proc/sys/vm/dirty_ratio").unwrap_or_default();
    ensure(all.machine.get("vm.dirty_ratio") == Some(ratio.trim()), || format!("{}", all.machine))
}

fn excluded() -> Result<(), String> {
    let disk = Disk::new(64)?;
    for (exclude, sees) in [
        (vec![disk.name.clone()], false),
        (vec![format!("/dev/{}", disk.name)], false),
        (vec![disk.id.to_string()], false),
        (Vec::new(), true),
    ] {
        let options = Options { exclude: exclude.clone(), ..options(&disk) };
        let mut plant = HostPlant::open(&options).map_err(said("open"))?;
        let seen = !look(&mut plant, &disk, Duration::from_millis(400))?.is_empty();
        let arrived = plant.take_arrived().iter().any(|(id, _)| *id == disk.id);
        let left_out = plant.left_out();
        let is_left_out = left_out.iter().any(|l| l.what == disk.name && l.why == "it is excluded");
        ensure((seen, arrived, is_left_out) == (sees, sees, !sees), || {
            format!("{exclude:?}: seen {seen}, come {arrived}, left out {left_out:?}")
        })?;
        ensure(plant.close(Duration::from_secs(10)).is_complete(), || "not closed".to_owned())?;
    }
    // A disk that comes later, with the path that is excluded.
    let link = format!("/dev/floodwall-test-{}", std::process::id());
    let options = Options { exclude: vec![link.clone()], ..Options::new(disk.journal(), "a test") };
    let mut plant = HostPlant::open(&options).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    let later = Disk::new(64)?;
    std::os::unix::fs::symlink(format!("/dev/{}", later.name), &link).map_err(said("link"))?;
    let seen = look(&mut plant, &later, Duration::from_millis(400));
    let arrived = plant.take_arrived().iter().any(|(id, _)| *id == later.id);
    std::fs::remove_file(&link).map_err(said("unlink"))?;
    ensure(seen?.is_empty() && !arrived, || {
        format!("a later disk is seen, or has come: {arrived}")
    })?;
    ensure(plant.close(Duration::from_secs(10)).is_complete(), || "not closed".to_owned())
}

fn come_and_go() -> Result<(), String> {
    let first = Disk::new(64)?;
    let all = Options::new(first.journal(), "a test");
    let mut plant = HostPlant::open(&all).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    plant.take_events();
    let mut events = Vec::new();
    let mut until = |what: &str, plant: &mut HostPlant, done: &dyn Fn(&[Event]) -> bool| {
        let end = Instant::now() + Duration::from_secs(10);
        while !done(&events) {
            if Instant::now() > end {
                return Err(format!("{what}: {events:?}"));
            }
            plant.wait(Duration::from_millis(100), &GO_ON).map_err(said("wait"))?;
            plant.observe().map_err(said("observe"))?;
            events.extend(plant.take_events());
        }
        Ok(())
    };
    let second = Disk::new(64)?;
    let id = second.id;
    until("come", &mut plant, &|events| {
        events.iter().any(|e| matches!(e, Event::Came { id: came, .. } if *came == id))
    })?;
    drop(second);
    until("gone", &mut plant, &|events| {
        events.iter().any(|e| matches!(e, Event::Gone { id: gone, .. } if *gone == id))
    })?;
    let again = Disk::new(64)?;
    let id = again.id;
    until("come again", &mut plant, &|events| {
        events.iter().filter(|e| matches!(e, Event::Came { id: came, .. } if *came == id)).count()
            == 2
            || !matches!(events.last(), Some(Event::Gone { .. }))
    })
}

fn dry_run() -> Result<(), String> {
    let disk = Disk::new(64)?;
    let original = disk.knobs();
    let dry = Options { dry_run: true, ..options(&disk) };
    let mut plant = HostPlant::open(&dry).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    let write = crate::steer::write(&disk, "nr_requests", "8");
    let refused =
        plant.write(&write).is_err_and(|e| e.to_string().contains("a dry run writes nothing"));
    ensure(refused && plant.held().is_empty(), || "it takes a write".to_owned())?;
    ensure(disk.knobs() == original && !disk.journal().exists(), || "it has written".to_owned())
}
