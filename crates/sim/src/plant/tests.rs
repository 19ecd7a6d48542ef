//! A plant is the machine that the runner runs, however often it is observed; its knobs act as the
//! kernel's do.

use floodwall_device::spec::{Fault, FaultKind};
use floodwall_device::{DeviceSpec, fault::Disturbance};
use floodwall_model::Bytes;
use floodwall_model::plant::{Actor, DeviceObservation};
use floodwall_model::scenario::{self, parse_flood, parse_victim};

use super::*;
use crate::fs::FsKind;
use crate::kernel::Generation;

fn options(device: &str) -> SimOptions {
    SimOptions { ram: Bytes::gib(2), ..SimOptions::new(DeviceSpec::preset(device).unwrap()) }
}

fn part(options: SimOptions, victims: &[&str], floods: &[&str]) -> PlantDevice {
    let mut scenario = scenario::builtin("copy-vs-database").unwrap().unwrap();
    scenario.victims = victims.iter().map(|v| parse_victim(v).unwrap()).collect();
    scenario.floods = floods.iter().map(|f| parse_flood(f).unwrap()).collect();
    PlantDevice { options, scenario }
}

fn slowed(device: &str, times: u64, from_s: u64, to_s: u64) -> SimOptions {
    let mut options = options(device);
    let (from, to) = (Nanos::from_secs(from_s), Nanos::from_secs(to_s));
    let kind = FaultKind::Clock(Disturbance::Slow { factor_permille: times * 1000, from, to });
    options.device.faults.push(Fault { member: None, kind });
    options
}

fn setting(pairs: &[(&str, &str)]) -> Setting {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn disk(n: u32) -> DeviceId {
    DeviceId { major: 8, minor: 16 * n }
}

fn set(
    plant: &mut SimPlant,
    device: Option<DeviceId>,
    knob: &str,
    value: &str,
) -> Result<(), PlantError> {
    plant.write(&KnobWrite { device, knob: knob.into(), value: value.into() })
}

fn start(plant: &mut SimPlant, names: &[&str]) {
    for name in names {
        plant.schedule(ms(0), Happening::Start((*name).into())).unwrap();
    }
}

/// The state that decides how a machine goes on, without the counts of meters since the last look.
fn state_of(machine: &Machine) -> String {
    let counters = machine.block.counters(machine.now);
    let cache = (
        machine.cache.dirty,
        machine.cache.writeback,
        machine.cache.dirtied,
        machine.cache.written,
    );
    format!(
        "{:?} {counters:?} {cache:?} {:?} {:?} {:?} {:?}",
        machine.now,
        machine.next_event(),
        machine.wbs,
        machine.tasks,
        machine.processes
    )
}

fn state(plant: &mut SimPlant) -> String {
    let throttle = format!("{:?}", plant.machines[plant.holder].throttle);
    let knobs = plant.knobs().unwrap();
    plant
        .machines
        .iter()
        .map(state_of)
        .chain([throttle, format!("{knobs:?}")])
        .collect::<Vec<_>>()
        .join("\n")
}

/// Two devices of very different speed, loads that come and go, a burst, a device that is slow for
/// a while, knobs that are turned.
fn eventful(steps: &[u64]) -> (String, u64) {
    let parts = vec![
        part(
            slowed("raid10-bbwc-2010", 10, 3, 4),
            &["commit,threads=3,size=64MiB,name=db"],
            &["seq,size=1GiB,name=copy", "files,size=64MiB,name=untar"],
        ),
        part(options("usb-stick"), &[], &["seq,size=512MiB,name=stick"]),
    ];
    let mut plant = SimPlant::new(parts, &setting(&[("vm.dirty_bytes", "268435456")])).unwrap();
    for (at, happening) in [
        (500, Happening::Start("copy".into())),
        (0, Happening::Start("db".into())),
        (1250, Happening::Start("stick".into())),
        (2333, Happening::Stop("copy".into())),
        (2500, Happening::Burst(disk(0), Bytes::mib(64))),
        (3000, Happening::Start("untar".into())),
        (5000, Happening::Stop("db".into())),
    ] {
        plant.schedule(ms(at), happening).unwrap();
    }
    let mut ops = 0;
    for step in steps {
        plant.advance(ms(*step));
        let seen = plant.observe().unwrap();
        assert_eq!(seen.at, plant.now());
        ops += seen.devices.iter().flat_map(|d| &d.actors).map(Actor::operations).sum::<u64>();
        if plant.now() == ms(4000) {
            for (device, knob, value) in [
                (None, "vm.dirty_bytes", "67108864"),
                (Some(disk(0)), "scheduler", "bfq"),
                (Some(disk(0)), "max_sectors_kb", "256"),
                (Some(disk(1)), "nr_requests", "8"),
                (Some(disk(1)), "bdi.max_ratio", "30"),
                (Some(disk(1)), "bdi.strict_limit", "1"),
            ] {
                set(&mut plant, device, knob, value).unwrap();
            }
        }
    }
    assert!(plant.bursts().all(|b| b.totals.is_some_and(|t| t.seconds > 0.0)));
    (state(&mut plant), ops)
}

#[test]
fn steps_of_any_length_give_the_same_machine() {
    let whole = eventful(&[4_000, 4_000]);
    assert!(whole.1 > 500, "{}", whole.1);
    assert_eq!(eventful(&[100; 80]), whole);
    assert_eq!(eventful(&[1_000; 8]), whole);
    assert_eq!(eventful(&[1, 999, 3_000, 7, 1_493, 2_500]), whole);
}

#[test]
fn a_plant_of_one_device_is_the_machine_that_the_runner_runs() {
    let with = |seed| {
        let options = SimOptions { seed, ..options("hdd-7200") };
        part(options, &["commit,threads=2,size=32MiB,name=db"], &["seq,size=1GiB,name=copy"])
    };
    let parts = with(3);
    let runner = SimRunner::new(parts.options.clone());
    let (mut machine, _) = runner.build(&Setting::default(), 0).unwrap();
    let loads = PlacedLoads::place(&mut machine, &parts.scenario, 3).unwrap();
    machine.start_load(loads.floods[0].load);
    machine.start_load(loads.victims[0].load);
    machine.run_until(Nanos::from_secs(5));
    let run = |part| {
        let mut plant = SimPlant::new(vec![part], &Setting::default()).unwrap();
        start(&mut plant, &["copy", "db"]);
        plant.advance(ms(5_000));
        state_of(&plant.machines[0])
    };
    assert_eq!(run(parts), state_of(&machine));
    assert_ne!(run(with(4)), state_of(&machine), "the state does not tell two machines apart");
}

#[test]
fn a_look_sees_calls_and_no_operation_that_is_only_due() {
    let seen = |victim: &str| {
        let parts = part(options("hdd-7200"), &[victim], &["seq,size=1GiB,name=copy"]);
        let mut plant = SimPlant::new(vec![parts], &Setting::default()).unwrap();
        start(&mut plant, &["copy", "db"]);
        plant.advance(ms(20_000));
        let actors = plant.observe().unwrap().devices[0].actors.clone();
        let actor = actors.into_iter().find(|a| a.who == "db").unwrap();
        (actor, plant.take_waits())
    };
    // The disk can do a tenth of it. Operations that are due wait for each other. One thread makes
    // the calls, and can't be inside them for longer than the 20 s that it ran.
    const RAN_NS: u64 = 20_100_000_000;
    let (actor, waits) = seen("commit,size=32MiB,rate=500,name=db");
    assert_eq!((actor.waiting, actor.commits.count()), (1, waits.commit.count()));
    assert_eq!(actor.commits, waits.sync);
    let in_calls = actor.commits.sum_ns() + actor.oldest.as_nanos() as u64;
    assert!(in_calls <= RAN_NS && waits.commit.sum_ns() > 2 * RAN_NS, "{in_calls} {waits:?}");
    let (actor, waits) = seen("read,size=4GiB,rate=500,name=db");
    assert_eq!(actor.reads.count(), waits.read.count());
    let in_calls = actor.reads.sum_ns() + actor.oldest.as_nanos() as u64;
    assert!(in_calls <= RAN_NS && waits.read.sum_ns() > 2 * RAN_NS, "{in_calls} {waits:?}");
    // A write that returns when it is stable is the call.
    let (actor, waits) = seen("commit,size=32MiB,sync=o_dsync,name=db");
    assert_eq!(actor.commits, waits.write);
}

/// Bytes that a flood was allowed to dirty and that reached its device in so many milliseconds.
fn rates(plant: &mut SimPlant, over: u64) -> (u64, u64) {
    plant.observe().unwrap();
    plant.advance(ms(over));
    let seen = plant.observe().unwrap();
    let actors = &seen.devices[0].actors;
    (actors.iter().map(|a| a.dirtied_bytes).sum(), seen.devices[0].counters.written_bytes)
}

#[test]
fn a_lower_limit_holds_from_the_moment_it_is_written() {
    let options = SimOptions { ram: Bytes::gib(16), ..options("cloud-gp3") };
    let floods = ["seq,size=64GiB,name=copy"];
    let mut plant = SimPlant::new(vec![part(options, &[], &floods)], &Setting::default()).unwrap();
    start(&mut plant, &["copy"]);
    let (accepted, drained) = rates(&mut plant, 800);
    assert!(accepted > 5 * drained, "before: {accepted} accepted, {drained} drained");
    let standing = plant.observe().unwrap().dirty_bytes.unwrap();
    assert!(standing > 200 << 20, "{standing}");
    set(&mut plant, None, "vm.dirty_bytes", "134217728").unwrap();
    // At once, as in the kernel: no process writes before the excess above the limit has drained.
    let (accepted, _) = rates(&mut plant, 300);
    assert!(accepted < 4 << 20, "{accepted} accepted above the limit");
    plant.advance(ms(25_000));
    let (accepted, drained) = rates(&mut plant, 10_000);
    assert!(
        (accepted as f64 / drained as f64 - 1.0).abs() < 0.1,
        "{accepted} accepted, {drained} drained"
    );
    let seen = plant.observe().unwrap();
    let backlog = seen.dirty_bytes.unwrap() + seen.writeback_bytes.unwrap();
    assert!(backlog <= 150 << 20 && seen.hard_limit_bytes == Some(128 << 20), "{backlog}");
    assert_eq!(plant.knobs().unwrap().machine.get("vm.dirty_ratio"), Some("0"));
}

/// A queue under load, its requested change, and whether it changes without losing or overtaking
/// anything.
#[test]
fn a_queue_runs_dry_before_it_changes() {
    let victims = ["commit,threads=4,size=64MiB,name=db"];
    let parts = vec![part(options("hdd-7200"), &victims, &["seq,size=4GiB,name=copy"])];
    let mut plant = SimPlant::new(parts, &Setting::default()).unwrap();
    start(&mut plant, &["copy", "db"]);
    plant.advance(ms(2_000));
    let knob = |plant: &mut SimPlant, name: &str| {
        plant.knobs().unwrap().devices[&disk(0)].get(name).map(str::to_owned)
    };
    let default = knob(&mut plant, "nr_requests").unwrap();
    assert_eq!(knob(&mut plant, "wbt_lat_usec").as_deref(), Some("75000"));
    // Waits until no request is inside; meanwhile no new one comes in.
    let dry = |plant: &mut SimPlant| {
        let mut last = plant.machines[0].block.outstanding();
        let mut steps = 0;
        while plant.observe().unwrap().devices[0].changing {
            plant.advance(ms(1));
            let now = plant.machines[0].block.outstanding();
            assert!(
                now <= last || !plant.machines[0].block.is_changing() || last == 0,
                "{last} became {now}"
            );
            last = now;
            steps += 1;
            assert!(steps < 20_000, "it never ran dry");
        }
        steps
    };
    let settled = |plant: &SimPlant| plant.machines[0].block.outstanding();
    assert!(settled(&plant) > 16);
    set(&mut plant, Some(disk(0)), "nr_requests", "16").unwrap();
    assert_eq!(
        knob(&mut plant, "nr_requests"),
        Some(default.clone()),
        "not before the queue is dry"
    );
    assert!(dry(&mut plant) > 1);
    assert_eq!(knob(&mut plant, "nr_requests").as_deref(), Some("16"));
    for _ in 0..500 {
        plant.advance(ms(1));
        assert!(settled(&plant) <= 16 + 1, "{} in the queue", settled(&plant));
    }
    set(&mut plant, Some(disk(0)), "scheduler", "bfq").unwrap();
    assert!(dry(&mut plant) > 1);
    assert_eq!(knob(&mut plant, "scheduler").as_deref(), Some("bfq"));
    assert_eq!(
        knob(&mut plant, "nr_requests"),
        Some(default.clone()),
        "the elevator brings its own"
    );
    assert_eq!(knob(&mut plant, "wbt_lat_usec").as_deref(), Some("0"), "wbt gives way to bfq");
    assert!(knob(&mut plant, "iosched.low_latency").is_some());
    plant.advance(ms(500));
    set(&mut plant, Some(disk(0)), "scheduler", "none").unwrap();
    set(&mut plant, Some(disk(0)), "max_sectors_kb", "64").unwrap();
    dry(&mut plant);
    assert_eq!(knob(&mut plant, "wbt_lat_usec").as_deref(), Some("75000"), "and comes back");
    let before = plant.observe().unwrap();
    plant.advance(ms(3_000));
    let seen = &plant.observe().unwrap().devices[0];
    assert!(seen.actors.iter().any(|a| a.who == "db" && a.operations() > 0), "{before:?} {seen:?}");
    let mean = seen.counters.written_bytes / seen.counters.write_ops;
    assert!(mean <= 64 << 10, "requests of {mean} bytes");
    // Nothing was lost on the way.
    let all: Vec<usize> = (0..plant.machines[0].loads.len()).collect();
    all.iter().for_each(|load| plant.machines[0].stop_load(*load));
    let machine = &mut plant.machines[0];
    let limit = machine.now + Nanos::from_secs(600);
    assert!(machine.run_while(limit, |m| !all.iter().all(|l| m.load_stopped(*l))));
    assert!(machine.drain(Nanos::from_secs(600)));
    assert_eq!(machine.cache.dirtied, machine.cache.written + machine.cache.discarded);
}

#[test]
fn what_is_written_after_an_elevator_that_still_waits_is_for_that_one() {
    let parts = vec![part(options("hdd-7200"), &[], &["seq,size=4GiB,name=copy"])];
    let mut plant = SimPlant::new(parts, &Setting::default()).unwrap();
    start(&mut plant, &["copy"]);
    plant.advance(ms(2_000));
    set(&mut plant, Some(disk(0)), "scheduler", "bfq").unwrap();
    assert!(plant.observe().unwrap().devices[0].changing);
    set(&mut plant, Some(disk(0)), "nr_requests", "16").unwrap();
    set(&mut plant, Some(disk(0)), "iosched.low_latency", "0").unwrap();
    let foreign = set(&mut plant, Some(disk(0)), "iosched.writes_starved", "4").unwrap_err();
    assert!(foreign.to_string().contains("bfq has no tunable"), "{foreign}");
    assert_eq!(plant.devices[0].setting.get("scheduler"), Some("bfq"));
    while plant.observe().unwrap().devices[0].changing {
        plant.advance(ms(10));
    }
    let knobs = &plant.knobs().unwrap().devices[&disk(0)];
    assert_eq!((knobs.get("scheduler"), knobs.get("nr_requests")), (Some("bfq"), Some("16")));
    assert_eq!(knobs.get("iosched.low_latency"), Some("0"));
}

#[test]
fn whatever_is_read_can_be_written_back() {
    let mut plant =
        SimPlant::new(vec![part(options("hdd-7200"), &[], &[])], &Setting::default()).unwrap();
    for elevator in ["mq-deadline", "bfq", "kyber", "none", "mq-deadline"] {
        set(&mut plant, Some(disk(0)), "scheduler", elevator).unwrap();
        let before = plant.knobs().unwrap();
        for (knob, value) in &before.devices[&disk(0)].0 {
            let written = set(&mut plant, Some(disk(0)), knob, value);
            assert_eq!(written, Ok(()), "{elevator}: {knob}={value}");
        }
        assert_eq!(plant.knobs().unwrap(), before, "{elevator}");
    }
}

#[test]
fn async_depth_follows_the_number_of_requests_until_it_is_written() {
    let parts = vec![part(options("hdd-7200"), &[], &["seq,size=4GiB,name=copy"])];
    let mut plant = SimPlant::new(parts, &Setting::default()).unwrap();
    let depth = |plant: &mut SimPlant| {
        plant.knobs().unwrap().devices[&disk(0)].get("iosched.async_depth").map(str::to_owned)
    };
    set(&mut plant, Some(disk(0)), "nr_requests", "64").unwrap();
    assert_eq!(depth(&mut plant).as_deref(), Some("64"));
    set(&mut plant, Some(disk(0)), "iosched.async_depth", "8").unwrap();
    set(&mut plant, Some(disk(0)), "nr_requests", "32").unwrap();
    assert_eq!(depth(&mut plant).as_deref(), Some("32"), "reset along with it");
    // A tunable that is written while a change waits for the queue to run dry outlasts the change.
    start(&mut plant, &["copy"]);
    plant.advance(ms(2_000));
    set(&mut plant, Some(disk(0)), "nr_requests", "128").unwrap();
    assert!(plant.observe().unwrap().devices[0].changing);
    set(&mut plant, Some(disk(0)), "iosched.async_depth", "16").unwrap();
    while plant.observe().unwrap().devices[0].changing {
        plant.advance(ms(10));
    }
    let knobs = &plant.knobs().unwrap().devices[&disk(0)];
    assert_eq!(
        (knobs.get("nr_requests"), knobs.get("iosched.async_depth")),
        (Some("128"), Some("16"))
    );
}

#[test]
fn old_kernels_change_the_number_of_requests_at_once() {
    for generation in [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2] {
        let options = SimOptions { generation, ..options("hdd-7200") };
        let parts = vec![part(options, &[], &["seq,size=4GiB,name=copy"])];
        let mut plant = SimPlant::new(parts, &Setting::default()).unwrap();
        start(&mut plant, &["copy"]);
        plant.advance(ms(6_000));
        set(&mut plant, Some(disk(0)), "nr_requests", "16").unwrap();
        assert!(!plant.observe().unwrap().devices[0].changing, "{generation}");
        // The queue is served; then there are 16, or one and a half times as many for a batcher.
        plant.advance(ms(4_000));
        for _ in 0..200 {
            plant.advance(ms(5));
            let inside = plant.machines[0].block.outstanding();
            assert!(inside <= 24 + 1, "{generation}: {inside}");
        }
        set(&mut plant, Some(disk(0)), "scheduler", "deadline").unwrap();
        plant.advance(ms(4_000));
        assert_eq!(plant.knobs().unwrap().devices[&disk(0)].get("scheduler"), Some("deadline"));
        assert!(plant.observe().unwrap().devices[0].counters.write_ops > 0, "{generation}");
    }
}

#[test]
fn a_slow_devices_dirty_pages_hold_the_fast_ones_writer_back_and_a_strict_limit_frees_it() {
    let rate = |strict: bool| {
        let parts = vec![
            part(options("nvme-consumer"), &[], &["seq,size=8GiB,name=fast"]),
            part(options("usb-stick"), &[], &["seq,size=2GiB,name=slow"]),
        ];
        let mut plant = SimPlant::new(parts, &setting(&[("vm.dirty_bytes", "268435456")])).unwrap();
        if strict {
            set(&mut plant, Some(disk(1)), "bdi.max_bytes", "16777216").unwrap();
            set(&mut plant, Some(disk(1)), "bdi.strict_limit", "1").unwrap();
        }
        start(&mut plant, &["slow"]);
        plant.advance(ms(3_000));
        start(&mut plant, &["fast"]);
        plant.advance(ms(500));
        plant.observe().unwrap();
        plant.advance(ms(1_000));
        let seen = plant.observe().unwrap();
        let total = seen.dirty_bytes.unwrap() + seen.writeback_bytes.unwrap();
        let own = |i: usize| {
            let d: &DeviceObservation = &seen.devices[i];
            d.dirty_bytes.unwrap() + d.writeback_bytes.unwrap()
        };
        assert_eq!(total, own(0) + own(1));
        assert!(total <= 280 << 20, "{total}");
        (seen.devices[0].actors[0].dirtied_bytes, own(1))
    };
    let (held, slow_has) = rate(false);
    let (freed, strictly_has) = rate(true);
    assert!(
        slow_has > 100 << 20 && strictly_has < 24 << 20,
        "{slow_has} and {strictly_has} of the stick's"
    );
    assert!(freed > held, "{held} B/s beside an unlimited stick, {freed} beside a limited one");
}

#[test]
fn a_device_that_is_slow_for_a_while_drains_slowly_for_a_while() {
    let parts = vec![part(slowed("sata-ssd", 10, 10, 20), &[], &["seq,size=16GiB,name=copy"])];
    let mut plant = SimPlant::new(parts, &setting(&[("vm.dirty_bytes", "134217728")])).unwrap();
    start(&mut plant, &["copy"]);
    plant.advance(ms(4_000));
    let (_, before) = rates(&mut plant, 5_000);
    plant.advance(ms(2_000));
    let (_, slow) = rates(&mut plant, 5_000);
    plant.advance(ms(6_000));
    let (_, after) = rates(&mut plant, 5_000);
    let ratio = before as f64 / slow as f64;
    assert!((8.0..12.0).contains(&ratio) && after * 10 > before * 8, "{before}, {slow}, {after}");
}

/// The priorities among a disk's knobs.
fn priorities(plant: &mut SimPlant) -> Vec<(String, String)> {
    let own = plant.knobs().unwrap().devices.remove(&disk(0)).unwrap();
    own.0.into_iter().filter(|(knob, _)| knob.ends_with(".ioprio")).collect()
}

#[test]
fn priorities_can_be_set_while_bfq_is_in_force() {
    let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())).collect()
    };
    let disk_of = |fs, bfq_groups, setting: &Setting| {
        let options = SimOptions { fs, bfq_groups, ..options("raid10-bbwc-2010") };
        let victims = ["commit,threads=10,block=16KiB,size=256MiB,name=db"];
        let parts = part(options, &victims, &["seq,size=8GiB,name=copy"]);
        SimPlant::new(vec![parts], setting).unwrap()
    };
    let bfq = setting(&[("scheduler", "bfq")]);
    let mut plant = disk_of(FsKind::Ext4, true, &Setting::default());
    assert!(priorities(&mut plant).is_empty(), "mq-deadline");
    set(&mut plant, Some(disk(0)), "scheduler", "bfq").unwrap();
    let own =
        text(&[("journal.ioprio", "be/3"), ("pid:1.ioprio", "none"), ("pid:2.ioprio", "none")]);
    assert_eq!(priorities(&mut plant), own);
    for (knob, value) in [("pid:1.ioprio", "be/0"), ("journal.ioprio", "be/0")] {
        set(&mut plant, Some(disk(0)), knob, value).unwrap();
    }
    // One that was set can still be put back under another elevator.
    set(&mut plant, Some(disk(0)), "scheduler", "none").unwrap();
    let raised = text(&[("journal.ioprio", "be/0"), ("pid:1.ioprio", "be/0")]);
    assert_eq!(priorities(&mut plant), raised);
    for (knob, value) in own.iter().filter(|(knob, _)| knob != "pid:2.ioprio") {
        set(&mut plant, Some(disk(0)), knob, value).unwrap();
    }
    assert!(priorities(&mut plant).is_empty());
    for (knob, value, why) in
        [("pid:1.ioprio", "be/0", "only while bfq"), ("pid:9.ioprio", "be/0", "only")]
    {
        let message = set(&mut plant, Some(disk(0)), knob, value).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
    let mut xfs = disk_of(FsKind::Xfs, true, &bfq);
    assert_eq!(priorities(&mut xfs), text(&[("pid:1.ioprio", "none"), ("pid:2.ioprio", "none")]));
    assert!(set(&mut xfs, Some(disk(0)), "pid:1.ioprio", "be/8").is_err());
    let started = setting(&[("scheduler", "bfq"), ("victim.ioprio", "be/2")]);
    let own = text(&[("pid:1.ioprio", "be/2"), ("pid:2.ioprio", "none")]);
    assert_eq!(priorities(&mut disk_of(FsKind::Xfs, true, &started)), own);
    assert!(priorities(&mut disk_of(FsKind::Xfs, false, &bfq)).is_empty(), "no group support");
    let grouped = setting(&[("scheduler", "bfq"), ("flood:memory.high", "max")]);
    assert!(priorities(&mut disk_of(FsKind::Xfs, true, &grouped)).is_empty(), "control groups");
    // It counts from the next request on, like one given at the start.
    let commits = |plant: &mut SimPlant| {
        plant.advance(ms(1_000));
        plant.observe().unwrap();
        plant.advance(ms(4_000));
        let seen = plant.observe().unwrap();
        seen.devices[0].actors.iter().map(Actor::operations).sum::<u64>()
    };
    start(&mut xfs, &["db", "copy"]);
    let before = commits(&mut xfs);
    set(&mut xfs, Some(disk(0)), "pid:1.ioprio", "be/0").unwrap();
    let raised = commits(&mut xfs);
    set(&mut xfs, Some(disk(0)), "pid:1.ioprio", "none").unwrap();
    let after = commits(&mut xfs);
    assert!(raised > 10 * before.max(after), "{before} commits, {raised} raised, {after} after");
}

#[test]
fn what_the_kernel_would_refuse_is_refused() {
    let parts = vec![
        part(options("sata-ssd"), &[], &["seq,name=a,size=1GiB"]),
        part(options("usb-stick"), &[], &["seq,name=b,size=1GiB"]),
    ];
    let mut plant = SimPlant::new(parts, &Setting::default()).unwrap();
    let before = plant.knobs().unwrap();
    for (device, knob, value, part) in [
        (None, "vm.dirty_bytes", "100", "vm.dirty_bytes is 8192 to"),
        (None, "vm.dirty_ratio", "101", "0 to 100"),
        (None, "scheduler", "none", "say which device"),
        (Some(disk(0)), "vm.dirty_bytes", "8388608", "the machine's knob"),
        (Some(disk(0)), "scheduler", "cfq", "it has none, mq-deadline, kyber, bfq"),
        (Some(disk(0)), "nr_requests", "4096", "it takes 4 to 2048"),
        (Some(disk(0)), "iosched.quantum", "1", "quantum"),
        (Some(disk(0)), "wbt_lat_usec", "-2", "-1 or microseconds"),
        (Some(disk(0)), "queue_depth", "1", "the model does not have queue_depth"),
        (Some(disk(0)), "device.queue_depth", "1", "give it with the setting it starts under"),
        (Some(disk(0)), "victim.ioprio", "be/0", "give it with the setting it starts under"),
        (Some(disk(0)), "pid:1.ioprio", "be/0", "only while bfq"),
        (Some(disk(0)), "bdi.max_ratio", "101", "0 to 100"),
        (Some(disk(1)), "bdi.max_bytes", "99999999999999", "at most the hard dirty limit"),
        (Some(disk(7)), "nr_requests", "8", "device 8:112 is not there"),
    ] {
        let message = set(&mut plant, device, knob, value).unwrap_err().to_string();
        assert!(message.contains(part), "{knob}={value}: {message}");
    }
    assert_eq!(plant.knobs().unwrap(), before);
    // A pair of minima that leaves nothing, and a minimum above its maximum.
    set(&mut plant, Some(disk(0)), "bdi.min_ratio", "60").unwrap();
    assert!(set(&mut plant, Some(disk(1)), "bdi.min_ratio", "40").is_err());
    assert!(set(&mut plant, Some(disk(0)), "bdi.max_ratio", "50").is_err());
    // What reads 0 because the other half is in force is no change.
    set(&mut plant, None, "vm.dirty_bytes", "67108864").unwrap();
    set(&mut plant, None, "vm.dirty_ratio", "0").unwrap();
    assert_eq!(plant.knobs().unwrap().machine.get("vm.dirty_bytes"), Some("67108864"));
    set(&mut plant, None, "vm.dirty_ratio", "20").unwrap();
    assert_eq!(plant.knobs().unwrap().machine.get("vm.dirty_bytes"), Some("0"));
    // Fewer requests than the kernel knows are as many as it knows.
    set(&mut plant, Some(disk(0)), "nr_requests", "1").unwrap();
    plant.advance(ms(1));
    assert_eq!(plant.knobs().unwrap().devices[&disk(0)].get("nr_requests"), Some("4"));
}

#[test]
fn what_can_not_be_one_machine_is_refused() {
    let refused = |parts: Vec<PlantDevice>| match SimPlant::new(parts, &Setting::default()) {
        Ok(_) => panic!("it was built"),
        Err(error) => error.to_string(),
    };
    let one = || part(options("sata-ssd"), &[], &["seq,name=a,size=1GiB"]);
    let other = part(
        SimOptions { ram: Bytes::gib(4), ..options("sata-ssd") },
        &[],
        &["seq,name=b,size=1GiB"],
    );
    assert!(refused(vec![]).contains("no device"));
    assert!(refused(vec![one(), one()]).contains("two have this name"));
    assert!(refused(vec![one(), other]).contains("differ in kernel, RAM"));
    let mut plant = SimPlant::new(vec![one()], &Setting::default()).unwrap();
    let nobody = plant.schedule(ms(0), Happening::Start("nobody".into())).unwrap_err();
    assert_eq!(nobody.to_string(), "load 'nobody': there is no such victim or flood");
}

#[test]
fn a_flusher_that_can_write_nothing_of_what_is_too_much_sleeps() {
    let options =
        SimOptions { seed: 102, ..SimOptions::new(DeviceSpec::preset("hdd-7200").unwrap()) };
    let parts = vec![part(
        options,
        &["scan,threads=1,block=256KiB,size=2GiB,name=scan"],
        &["seq,name=copy"],
    )];
    let knobs = [
        ("nr_requests", "8"),
        ("scheduler", "bfq"),
        ("vm.dirty_background_bytes", "3145728"),
        ("vm.dirty_bytes", "12582912"),
    ];
    let mut plant = SimPlant::new(parts, &setting(&knobs)).unwrap();
    start(&mut plant, &["scan"]);
    plant.schedule(ms(15_000), Happening::Start("copy".into())).unwrap();
    // It went round and round in one moment before, some time after the first minute.
    plant.advance(ms(105_000));
    assert_eq!(plant.now(), ms(105_000));
}

#[test]
fn control_groups_are_those_that_it_boots_with() {
    let parts = || vec![part(options("hdd-7200"), &[], &["seq,size=4GiB,name=copy"])];
    let named = setting(&[("flood:memory.high", "max")]);
    let two = || {
        parts().into_iter().chain(vec![part(
            options("hdd-7200"),
            &[],
            &["seq,size=1GiB,name=other"],
        )])
    };
    let why = SimPlant::new(two().collect(), &named).err().unwrap().to_string();
    assert!(why.contains("flood:memory.high is not possible here"), "{why}");
    let mut plant = SimPlant::new(parts(), &Setting::default()).unwrap();
    for device in [None, Some(disk(0))] {
        let refused = set(&mut plant, device, "flood:memory.high", "67108864");
        assert!(matches!(refused, Err(PlantError::Refused { .. })), "{refused:?}");
    }
    assert_eq!(plant.knobs().unwrap().devices[&disk(0)].get("flood:io.max"), None);
}

#[test]
fn a_group_is_held_to_its_rate_and_let_go() {
    let parts = vec![part(options("hdd-7200"), &[], &["seq,size=8GiB,name=copy"])];
    let mut plant = SimPlant::new(parts, &setting(&[("flood:memory.high", "max")])).unwrap();
    start(&mut plant, &["copy"]);
    let written = |plant: &mut SimPlant, seconds: u64| {
        plant.observe().unwrap();
        plant.advance(ms(1000 * seconds));
        let seen = plant.observe().unwrap();
        assert_eq!(seen.devices[0].actors[0].group.as_deref(), Some("flood"));
        seen.devices[0].counters.written_bytes as f64 / seconds as f64
    };
    plant.advance(ms(5000));
    let free = written(&mut plant, 5);
    assert!(free > 60e6, "{free}");
    let line = "rbps=max wbps=20000000 riops=max wiops=max";
    for (knob, value) in [("flood:memory.high", "268435456"), ("flood:io.max", line)] {
        set(&mut plant, Some(disk(0)), knob, value).unwrap();
        assert_eq!(plant.knobs().unwrap().devices[&disk(0)].get(knob), Some(value));
    }
    // The queue from before ends first.
    plant.advance(ms(2000));
    let held = written(&mut plant, 10);
    assert!((19e6..21e6).contains(&held), "{held}");
    set(&mut plant, Some(disk(0)), "flood:io.max", "wbps=max").unwrap();
    let again = written(&mut plant, 5);
    assert!(again > 60e6, "{again}");
}
