//! A plant writes knobs, puts them back, and leaves those of other programs alone.

use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, boot_id};
use floodwall_knobs::{Change, Device, KernelFiles, Session, SystemClock, Who};
use floodwall_model::plant::{KnobWrite, Plant, PlantError};
use floodwall_plant::{Event, HostPlant, HostPlantError, KnobName, restore};
use floodwall_testing::{ensure, said};

use crate::Test;
use crate::disk::Disk;
use crate::sense::{look, options};
use crate::worker::Worker;

pub(crate) const TESTS: &[Test] = &[
    Test { name: "what_is_written_is_in_force_and_comes_back", seconds: 120, body: there_and_back },
    Test { name: "what_others_set_is_theirs", seconds: 120, body: theirs },
    Test {
        name: "a_write_that_waits_for_the_queue_keeps_nobody_waiting",
        seconds: 120,
        body: slow,
    },
    Test { name: "whoever_has_the_journal_is_waited_for", seconds: 120, body: locked },
    Test { name: "a_second_plant_does_not_steer", seconds: 60, body: second },
];

pub(crate) fn write(disk: &Disk, knob: &str, value: &str) -> KnobWrite {
    KnobWrite { device: Some(disk.id), knob: knob.to_owned(), value: value.to_owned() }
}

fn expect(disk: &Disk, knob: &str, value: &str) -> Result<(), String> {
    let found = disk.get(knob);
    ensure(found == value, || format!("{knob} reads {found}, not {value}"))
}

fn open(disk: &Disk) -> Result<HostPlant, String> {
    let mut plant = HostPlant::open(&options(disk)).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    Ok(plant)
}

/// A disk with values that no kernel boots with.
pub(crate) fn disk() -> Result<Disk, String> {
    let disk = Disk::new(128)?;
    for (knob, value) in [
        ("queue/scheduler", "mq-deadline"),
        ("queue/nr_requests", "100"),
        ("queue/iosched/fifo_batch", "4"),
        ("queue/max_sectors_kb", "512"),
        ("bdi/max_ratio_fine", "250000"),
    ] {
        disk.set(knob, value)?;
    }
    Ok(disk)
}

fn there_and_back() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.knobs();
    let mut plant = open(&disk)?;
    for (knob, value, file) in [
        ("nr_requests", "8", "queue/nr_requests"),
        ("max_sectors_kb", "128", "queue/max_sectors_kb"),
        ("bdi.max_ratio_fine", "30000", "bdi/max_ratio_fine"),
        ("bdi.strict_limit", "1", "bdi/strict_limit"),
        ("nr_requests", "16", "queue/nr_requests"),
    ] {
        plant.write(&write(&disk, knob, value)).map_err(said("write"))?;
        settle(&mut plant, &disk)?;
        expect(&disk, file, value)?;
    }
    let held: Vec<String> =
        plant.held().iter().map(|k| format!("{} {} {}", k.label, k.own, k.now)).collect();
    let name = &disk.name;
    ensure(held.contains(&format!("{name}.nr_requests 100 16")), || format!("{held:?}"))?;
    // One alone, as a controller takes it back.
    plant.write(&write(&disk, "bdi.strict_limit", "0")).map_err(said("write"))?;
    plant.write(&write(&disk, "nr_requests", "100")).map_err(said("write"))?;
    settle(&mut plant, &disk)?;
    expect(&disk, "queue/nr_requests", "100")?;
    for (knob, value) in
        [("nr_requests", "9000"), ("scheduler", "cfq"), ("nonsense", "1"), ("vm.dirty_ratio", "5")]
    {
        let refused = plant.write(&write(&disk, knob, value));
        ensure(matches!(refused, Err(PlantError::Refused { .. })), || {
            format!("{knob}={value}: {refused:?}")
        })?;
    }
    let nobody =
        KnobWrite { device: Some("250:250".parse().unwrap()), ..write(&disk, "nr_requests", "8") };
    ensure(matches!(plant.write(&nobody), Err(PlantError::NoDevice(_))), || {
        "nobody's knob".to_owned()
    })?;
    // An elevator there and back, with its tunables.
    plant.write(&write(&disk, "scheduler", "bfq")).map_err(said("write"))?;
    settle(&mut plant, &disk)?;
    plant.write(&write(&disk, "iosched.low_latency", "0")).map_err(said("write"))?;
    settle(&mut plant, &disk)?;
    expect(&disk, "queue/iosched/low_latency", "0")?;
    let closed = plant.give_back(Duration::from_secs(20));
    ensure(closed.is_complete() && !closed.restored.is_empty(), || format!("{closed:?}"))?;
    ensure(disk.knobs() == original, || differs(&disk, &original))?;
    // And on.
    plant.write(&write(&disk, "nr_requests", "8")).map_err(said("write"))?;
    settle(&mut plant, &disk)?;
    let closed = plant.close(Duration::from_secs(20));
    let told = format!("{name}.nr_requests: 100 again");
    ensure(closed.restored.contains(&told) && closed.is_complete(), || format!("{closed:?}"))?;
    ensure(disk.knobs() == original, || differs(&disk, &original))?;
    let restored = restore(&disk.journal(), Duration::ZERO).map_err(said("restore"))?;
    ensure(restored.is_complete() && restored.lines().is_empty(), || format!("{restored:?}"))
}

pub(crate) fn differs(
    disk: &Disk,
    original: &std::collections::BTreeMap<std::path::PathBuf, String>,
) -> String {
    let now = disk.knobs();
    let differs = original.iter().filter(|(path, value)| now.get(*path) != Some(*value));
    let differs: Vec<String> = differs
        .map(|(path, value)| format!("{}: {value} became {:?}", path.display(), now.get(path)))
        .collect();
    differs.join("; ")
}

/// Until nothing is changing.
fn settle(plant: &mut HostPlant, disk: &Disk) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let observation = plant.observe().map_err(said("observe"))?;
        let device = observation.devices.iter().find(|device| device.id == disk.id);
        if device.is_none_or(|device| !device.changing) {
            return Ok(());
        }
        ensure(Instant::now() < end, || "it is changing for ever".to_owned())?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What `floodwall apply` and `rollback` do.
fn session<T>(disk: &Disk, act: impl FnOnce(&Session<'_>) -> T) -> Result<T, String> {
    let root = SysRoot::live().map_err(said("root"))?;
    let files = KernelFiles::new(&root).map_err(said("files"))?;
    let who = Who::this_process(&files);
    let end = Instant::now() + Duration::from_secs(1);
    let store = loop {
        match DiskStore::open(&disk.journal(), &who.describe()) {
            Ok(store) => break store,
            Err(e) if Instant::now() > end => return Err(e.to_string()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    Ok(act(&Session {
        files: &files,
        store: &store,
        clock: &SystemClock,
        who,
        boot_id: boot_id(&files),
    }))
}

pub(crate) fn apply(disk: &Disk, text: &str) -> Result<floodwall_knobs::Applied, String> {
    let root = SysRoot::live().map_err(said("root"))?;
    let device = Device::find(&root, &disk.name).map_err(said("device"))?;
    let change = Change::parse(&root, Some(&device), text).map_err(said("change"))?;
    session(disk, |session| session.apply(&[change], "by hand"))?.map_err(said("apply"))
}

fn theirs() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.knobs();
    let mut plant = open(&disk)?;
    for (knob, value) in
        [("nr_requests", "8"), ("max_sectors_kb", "128"), ("bdi.max_ratio_fine", "30000")]
    {
        plant.write(&write(&disk, knob, value)).map_err(said("write"))?;
    }
    settle(&mut plant, &disk)?;
    // Through the journal, and past it.
    let refused = apply(&disk, "nr_requests=64").err().unwrap_or_default();
    ensure(refused.contains("is held by pid"), || format!("not asked: {refused}"))?;
    expect(&disk, "queue/nr_requests", "8")?;
    let name = KnobName { device: Some(disk.id.to_string()), knob: "nr_requests".to_owned() };
    let yielded = plant.yield_knobs(std::slice::from_ref(&name));
    ensure(yielded.back == [name] && yielded.waiting.is_empty(), || format!("{yielded:?}"))?;
    ensure(yielded.knobs == [(Some(disk.id), "nr_requests".to_owned())], || {
        format!("{yielded:?}")
    })?;
    expect(&disk, "queue/nr_requests", "100")?;
    let applied = apply(&disk, "nr_requests=64")?;
    let old = applied.plan.entries[0].old.as_ref().map(|old| old.value.as_str());
    ensure(old == Some("100"), || format!("{applied:?}"))?;
    disk.set("bdi/max_ratio_fine", "123456")?;
    for (knob, why) in [
        ("nr_requests", "another command has asked for it"),
        ("bdi.max_ratio_fine", "which somebody else has set"),
    ] {
        match plant.write(&write(&disk, knob, "4")) {
            Err(PlantError::Refused { why: told, .. }) if told.contains(why) => {}
            other => return Err(format!("{knob}: {other:?}")),
        }
    }
    plant.write(&write(&disk, "max_sectors_kb", "64")).map_err(said("write"))?;
    settle(&mut plant, &disk)?;
    expect(&disk, "queue/max_sectors_kb", "64")?;
    let closed = plant.close(Duration::from_secs(20));
    ensure(closed.is_complete(), || format!("{closed:?}"))?;
    expect(&disk, "queue/nr_requests", "64")?;
    expect(&disk, "bdi/max_ratio_fine", "123456")?;
    rollback(&disk)?;
    disk.set("bdi/max_ratio_fine", "250000")?;
    ensure(disk.knobs() == original, || differs(&disk, &original))
}

pub(crate) fn rollback(disk: &Disk) -> Result<(), String> {
    session(disk, |session| session.rollback(0))?.map(drop).map_err(said("rollback"))
}

/// A queue with much in it takes its time to run dry; looks, and other writes, do not wait for it.
fn slow() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.knobs();
    let mut plant = open(&disk)?;
    let _flood = Worker::start(&["flood", &disk.file("f"), "80"])?;
    look(&mut plant, &disk, Duration::from_secs(1))?;
    let mut longest = Duration::ZERO;
    for round in 0..20 {
        let begin = Instant::now();
        plant
            .write(&write(&disk, "nr_requests", if round % 2 == 0 { "8" } else { "200" }))
            .map_err(said("write"))?;
        plant.observe().map_err(said("observe"))?;
        plant.write(&write(&disk, "bdi.max_ratio_fine", "200000")).map_err(said("write"))?;
        longest = longest.max(begin.elapsed());
    }
    // Three times a moment, and a machine that is busy with something else.
    ensure(longest < Duration::from_secs(2), || format!("a tick took {longest:?}"))?;
    let events: Vec<Event> = plant
        .take_events()
        .into_iter()
        .filter(|e| matches!(e, Event::Failed(_) | Event::NotBack(_)))
        .collect();
    ensure(events.is_empty(), || format!("{events:?}"))?;
    let closed = plant.close(Duration::from_secs(60));
    ensure(closed.is_complete(), || format!("{closed:?}"))?;
    ensure(disk.knobs() == original, || differs(&disk, &original))
}

fn locked() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.knobs();
    let mut plant = open(&disk)?;
    let store = lock_while_it_rests(&mut plant, &disk)?;
    plant.write(&write(&disk, "nr_requests", "8")).map_err(said("write"))?;
    let observation = plant.observe().map_err(said("observe"))?;
    let changing = observation.devices.iter().any(|device| device.id == disk.id && device.changing);
    ensure(changing, || "it does not wait".to_owned())?;
    expect(&disk, "queue/nr_requests", "100")?;
    let waiting = Event::Waiting { holder: "pid 4711 (floodwall tune)".to_owned() };
    let events = plant.take_events();
    ensure(events.contains(&waiting), || format!("{events:?}"))?;
    drop(store);
    settle(&mut plant, &disk)?;
    expect(&disk, "queue/nr_requests", "8")?;
    let closed = plant.close(Duration::from_secs(20));
    ensure(closed.is_complete() && disk.knobs() == original, || format!("{closed:?}"))
}

/// Takes the journal's lock while the plant does not want it. On a busy machine the plant's first
/// save takes seconds. A lock that is being taken has no holder's name yet.
fn lock_while_it_rests(plant: &mut HostPlant, disk: &Disk) -> Result<DiskStore, String> {
    for _ in 0..20 {
        look(plant, disk, Duration::from_secs(1))?;
        plant.take_events();
        let locked = DiskStore::open(&disk.journal(), "pid 4711 (floodwall tune)");
        look(plant, disk, Duration::from_millis(300))?;
        let waits = plant.take_events().iter().any(|event| matches!(event, Event::Waiting { .. }));
        match locked {
            Ok(store) if !waits => return Ok(store),
            Ok(_) | Err(JournalError::Held { .. }) => {}
            Err(e) => return Err(format!("lock: {e}")),
        }
    }
    Err("the plant is at the journal all the time".to_owned())
}

fn second() -> Result<(), String> {
    let disk = disk()?;
    let plant = open(&disk)?;
    match HostPlant::open(&options(&disk)) {
        Err(HostPlantError::Hold(e)) => {
            ensure(e.to_string().contains("steered by pid"), || e.to_string())?
        }
        Err(e) => return Err(e.to_string()),
        Ok(_) => return Err("two of them steer".to_owned()),
    }
    let restored = restore(&disk.journal(), Duration::ZERO).map_err(said("restore"))?;
    ensure(restored.steering.len() == 1 && !restored.is_complete(), || format!("{restored:?}"))?;
    drop(plant);
    HostPlant::open(&options(&disk)).map(drop).map_err(said("open"))
}
