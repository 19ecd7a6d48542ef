//! A second start on the same device, with what the first one has learnt.

use floodwall_device::Nanos;
use floodwall_device::fault::Disturbance;
use floodwall_device::spec::{Fault, FaultKind};
use floodwall_guard::{Aged, Alone, Config, Guard, KnownLevel, KnownPace, Learnt, Mode};
use floodwall_model::Setting;
use floodwall_sim::SimOptions;

use crate::paced::grouped;
use crate::{DISK, Run, options, s, with};

const COPY: &str = "seq,size=32GiB,name=copy";
const DB: &str = "commit,threads=10,block=16KiB,size=1GiB,name=db";
/// When the database and the copy begin, in seconds: victims are seen alone, or never are.
const ALONE: (u64, u64) = (1, 6);
const NEVER_ALONE: (u64, u64) = (5, 1);

/// A guard's start on a device. `learnt`: what an earlier one has learnt, an hour ago.
fn start(options: SimOptions, setting: &Setting, at: (u64, u64), learnt: Option<&Learnt>) -> Run {
    let mut run = Run::under(setting, vec![with(options, &[DB], &[COPY])], true);
    if let Some(learnt) = learnt {
        run.guard.as_mut().unwrap().learn(DISK, learnt.clone(), s(3600));
    }
    run.start(at.0, "db");
    run.start(at.1, "copy");
    run
}

fn learnt(run: &Run) -> Learnt {
    run.guard.as_ref().unwrap().learnt().next().unwrap().1
}

/// The victims' rate without a flood.
fn alone(device: &str) -> f64 {
    let mut run = start(options(device), &Setting::default(), (1, 60), None);
    run.until(10);
    run.iops(3, 10)
}

/// Seconds with less than a tenth of the rate alone.
fn dead(run: &Run, alone: f64, from: u64, to: u64) -> usize {
    run.seconds[from as usize..to as usize]
        .iter()
        .filter(|second| (second.ops as f64) < 0.1 * alone)
        .count()
}

#[test]
fn no_start_has_a_dead_second_and_a_second_one_gives_a_paced_flood_no_less() {
    for setting in [Setting::default(), grouped()] {
        let (mut before, mut after) = (0.0, 0.0);
        for device in ["hdd-7200", "sata-ssd-worn", "cloud-gp3"] {
            let alone = alone(device);
            let mut first = start(options(device), &setting, ALONE, None);
            first.until(66);
            let mut second = start(options(device), &setting, ALONE, Some(&learnt(&first)));
            second.until(16);
            let dead = [&first, &second].map(|run| dead(run, alone, 6, 16));
            assert_eq!(dead, [0, 0], "{device}: dead seconds of the first and of the second start");
            (before, after) = (before + first.flooded(8, 16), after + second.flooded(8, 16));
        }
        assert!(setting.is_empty() || after > 0.95 * before, "{before} B/s before, {after} after");
    }
}

#[test]
fn a_device_that_has_become_ten_times_slower_is_learnt_anew_within_five_seconds() {
    for device in ["cloud-gp3", "hdd-7200"] {
        let mut first = start(options(device), &Setting::default(), ALONE, None);
        first.stop(20, "db");
        first.until(30);
        let known = learnt(&first);
        let before = known.drain_bytes_per_s.as_ref().unwrap().value;
        let mut slow = options(device);
        let (from, to) = (Nanos::from_secs(0), Nanos::from_secs(120));
        let kind = FaultKind::Clock(Disturbance::Slow { factor_permille: 10_000, from, to });
        slow.device.faults.push(Fault { member: None, kind });
        let mut run = start(slow, &Setting::default(), ALONE, Some(&known));
        run.stop(20, "db");
        run.until(6);
        let drain = |run: &Run| {
            run.guard.as_ref().unwrap().status().next().unwrap().estimate.drain_bytes_per_s
        };
        assert_eq!(drain(&run), Some(before), "{device}");
        run.until(12);
        let after = drain(&run).unwrap();
        assert!(after < 0.4 * before, "{device}: {before} B/s before, {after} five seconds later");
        // The next start gets the new rate.
        run.until(40);
        let kept = learnt(&run).drain_bytes_per_s.unwrap().value;
        assert!(kept < 0.4 * before, "{device}: {kept} B/s are kept, of {before}");
    }
}

#[test]
fn a_wrong_import_costs_no_more_than_the_first_seconds() {
    for setting in [Setting::default(), grouped()] {
        for device in ["hdd-7200", "cloud-gp3"] {
            let mut first = start(options(device), &setting, ALONE, None);
            first.until(36);
            let (known, alone) = (learnt(&first), alone(device));
            for (at, base) in [(ALONE, 10.0), (ALONE, 0.1), (NEVER_ALONE, 10.0)] {
                let mut without = start(options(device), &setting, at, None);
                without.until(36);
                for drain in [10.0, 0.1] {
                    let mut wrong = known.clone();
                    let rate = Aged { value: 100e6 * drain, age_s: 60.0 };
                    wrong.drain_bytes_per_s = Some(rate);
                    (wrong.without_readers, wrong.with_readers) = (None, None);
                    wrong.pace.iter_mut().for_each(|pace| pace.value.bytes_per_s *= drain);
                    wrong.alone.iter_mut().for_each(|alone| {
                        alone.value.median_us *= base;
                        alone.value.mean_us *= base;
                    });
                    let mut run = start(options(device), &setting, at, Some(&wrong));
                    run.until(36);
                    let what = format!("{device} {at:?}, drain rate × {drain}, base × {base}");
                    let (one, other) = (dead(&without, alone, 11, 36), dead(&run, alone, 11, 36));
                    assert!(other <= one, "{what}: {other} dead seconds, {one} without it");
                    // A quarter of the rate alone is a wait of four times alone's, the goal.
                    let (one, other) = (without.iops(11, 36) / alone, run.iops(11, 36) / alone);
                    assert!(
                        other >= 0.25 || other >= 0.9 * one,
                        "{what}: {other:.2} kept, {one:.2} without it"
                    );
                }
            }
        }
    }
}

#[test]
fn victims_that_were_alone_once_make_the_goal_stricter_where_they_never_are_alone() {
    let mut first = start(options("sata-ssd"), &Setting::default(), ALONE, None);
    first.until(20);
    let base = learnt(&first).alone.unwrap().value.median_us;
    let goal = |learnt: Option<&Learnt>| {
        let mut run = start(options("sata-ssd"), &Setting::default(), NEVER_ALONE, learnt);
        run.until(20);
        run.guard.as_ref().unwrap().status().next().unwrap().estimate.goal.as_secs_f64() * 1e6
    };
    let (without, with) = (goal(None), goal(Some(&learnt(&first))));
    assert!((with / (4.0 * base) - 1.0).abs() < 0.01, "the goal is {with} µs, {base} µs alone");
    assert!(without > 1.5 * with, "{without} µs without it, {with} with it");
}

#[test]
fn a_level_is_taken_only_where_it_means_the_same() {
    let level = |text: &str, mode: Mode, requests: &str| {
        let own =
            [("scheduler", "mq-deadline"), ("nr_requests", requests), ("max_sectors_kb", "1280")];
        let own =
            own.map(|(knob, value)| (knob.to_owned(), value.to_owned())).into_iter().collect();
        let value = KnownLevel { level: text.to_owned(), mode, own };
        Learnt { without_readers: Some(Aged { value, age_s: 60.0 }), ..Learnt::default() }
    };
    let is_taken = |learnt: &Learnt, mode: Mode| {
        let mut run = start(options("hdd-7200"), &Setting::default(), ALONE, None);
        let own = run.knobs().devices[&DISK].clone();
        let mut learnt = learnt.clone();
        let known = learnt.without_readers.as_mut().unwrap();
        let is_same = known.value.own["nr_requests"] == "same";
        if is_same {
            known.value.own =
                known.value.own.keys().map(|k| (k.clone(), own.get(k).unwrap().into())).collect();
        }
        let mut guard = Guard::new(Config { mode, ..Config::default() });
        guard.learn(DISK, learnt.clone(), s(3600));
        run.guard = Some(guard);
        run.until(1);
        let kept = run.guard.as_ref().unwrap().learnt().next().unwrap().1.without_readers;
        kept.inspect(|kept| assert_eq!(kept.value, learnt.without_readers.unwrap().value)).is_some()
    };
    for mode in Mode::ALL {
        assert!(is_taken(&level("own elevator, 8 requests, 128 KiB", mode, "same"), mode));
        assert!(is_taken(&level("kyber, limit 2", mode, "same"), mode));
    }
    let (protect, balance) = (Mode::Protect, Mode::Balance);
    assert!(
        !is_taken(&level("own elevator, 8 requests", balance, "same"), protect),
        "another mode"
    );
    assert!(!is_taken(&level("own elevator, 8 requests", protect, "7"), protect), "another queue");
    assert!(!is_taken(&level("cfq, 8 requests", protect, "same"), protect), "unknown");
}

#[test]
fn a_guessed_drain_rate_costs_no_dead_second_and_is_not_kept_as_learnt() {
    for device in ["hdd-7200", "cloud-gp3"] {
        let alone = alone(device);
        let mut without = start(options(device), &Setting::default(), ALONE, None);
        without.until(36);
        for guess in [1e9, 1e8, 1e6] {
            let guessed = Learnt { guessed_drain_bytes_per_s: Some(guess), ..Learnt::default() };
            let mut run = start(options(device), &Setting::default(), ALONE, Some(&guessed));
            run.until(4);
            assert!(learnt(&run).is_empty() || learnt(&run).drain_bytes_per_s.is_none());
            run.until(36);
            let (one, other) = (dead(&without, alone, 11, 36), dead(&run, alone, 11, 36));
            assert!(other <= one, "{device} {guess}: {other} dead seconds, {one} without it");
            let kept = learnt(&run).drain_bytes_per_s.unwrap();
            assert!(kept.age_s < 60.0 && kept.value != guess, "{device} {guess}: {kept:?}");
        }
    }
}

#[test]
fn ages_add_up_and_impossible_values_are_not_taken() {
    let kept = |learnt: &Learnt| {
        let mut run = start(options("cloud-gp3"), &Setting::default(), (60, 60), Some(learnt));
        run.until(10);
        self::learnt(&run)
    };
    let pace = KnownPace { group: "flood".into(), bytes_per_s: 3e7 };
    let good = Learnt {
        drain_bytes_per_s: Some(Aged { value: 1e8, age_s: 86_400.0 }),
        alone: Some(Aged { value: Alone { median_us: 900.0, mean_us: 1000.0 }, age_s: 60.0 }),
        pace: Some(Aged { value: pace.clone(), age_s: 0.0 }),
        ..Learnt::default()
    };
    let same = kept(&good);
    let ages = [
        same.drain_bytes_per_s.unwrap().age_s - 86_400.0,
        same.alone.unwrap().age_s - 60.0,
        same.pace.unwrap().age_s,
    ];
    assert!(ages.iter().all(|age| (3609.0..3611.0).contains(age)), "{ages:?}");
    for (value, age_s) in
        [(f64::NAN, 0.0), (-1.0, 0.0), (0.0, 0.0), (1e300, 0.0), (1e8, -1.0), (1e8, 1e300)]
    {
        let wrong = Learnt {
            drain_bytes_per_s: Some(Aged { value, age_s }),
            alone: Some(Aged { value: Alone { median_us: value, mean_us: value }, age_s }),
            pace: Some(Aged { value: KnownPace { bytes_per_s: value, ..pace.clone() }, age_s }),
            ..Learnt::default()
        };
        assert!(kept(&wrong).is_empty(), "{value} of {age_s} s");
    }
}
