//! A flood whose control group holds no victim.

use std::time::Duration;

use floodwall_guard::{Config, Guard, Unpaced};
use floodwall_model::Setting;
use floodwall_model::plant::{KnobWrite, Plant};
use floodwall_sim::SimOptions;

use crate::{Run, State, options, s, with};

const COPY: &str = "seq,size=32GiB,name=copy";

/// A machine whose victims and floods have control groups without limits.
pub(crate) fn grouped() -> Setting {
    [("flood:memory.high".to_owned(), "max".to_owned())].into_iter().collect()
}

/// Ten threads that commit, in all so many times a second.
fn database(rate: &str) -> String {
    format!("commit,threads=10,block=16KiB,size=1GiB,name=db{rate}")
}

/// The database from the first second on, the copy from the eleventh, both for two minutes.
fn encounter(device: &str, victim: &str, guarded: bool) -> Run {
    beside_copy(options(device), victim, guarded)
}

fn beside_copy(machine: SimOptions, victim: &str, guarded: bool) -> Run {
    let mut run = Run::under(&grouped(), vec![with(machine, &[victim], &[COPY])], guarded);
    run.start(1, "db");
    run.start(11, "copy");
    run.stop(131, "db");
    run.until(146);
    run
}

/// A database at a third of the device's rate for a database alone.
fn third(device: &str) -> String {
    let mut run = Run::new(vec![with(options(device), &[&database("")], &[COPY])], false);
    run.start(1, "db");
    run.until(11);
    database(&format!(",rate={:.0}", run.iops(3, 11) / 3.0))
}

#[test]
fn a_victim_at_a_third_keeps_its_rate() {
    for device in ["raid10-bbwc-2010", "hdd-7200", "sata-ssd-worn", "nvme-consumer", "cloud-gp3"] {
        let victim = third(device);
        let (mut run, without) =
            (encounter(device, &victim, true), encounter(device, &victim, false));
        let alone = run.iops(3, 11);
        let (kept, lost) = (run.iops(41, 131) / alone, without.iops(41, 131) / alone);
        assert!(kept >= 0.98 && lost < 0.5, "{device}: {kept:.2} kept, {lost:.2} without");
        let dead = run.seconds[13..131].iter().filter(|s| (s.ops as f64) < 0.1 * alone).count();
        assert!(dead <= 1, "{device}: {dead} dead seconds");
        // A worn SSD's pauses need more than a pace.
        if device != "sata-ssd-worn" {
            let is_groups = |write: &KnobWrite| write.knob.starts_with("flood:");
            assert!(
                run.writes.iter().all(|(_, write)| is_groups(write)),
                "{device}: {:?}",
                run.writes
            );
        }
        let paced = run.entered(State::Pace, 11).unwrap();
        assert!(paced <= s(12), "{device}: paced at {paced:?}");
        let free = run.entered(State::Free, 131).unwrap();
        assert!(free <= s(136), "{device}: free at {free:?}");
        let fresh = with(options(device), &[&victim], &[COPY]);
        assert_eq!(run.knobs(), Run::under(&grouped(), vec![fresh], false).knobs());
    }
}

#[test]
fn where_the_least_pace_is_not_enough_the_flood_keeps_to_it() {
    // The disk alone takes six times as long for a commit.
    let goal = Some(Duration::from_millis(10));
    let parts = with(options("hdd-7200"), &[&database("")], &[COPY]);
    let mut run = Run::under(&grouped(), vec![parts], true);
    run.guard = Some(Guard::new(Config { goal, ..Config::default() }));
    run.start(1, "db");
    run.start(11, "copy");
    run.until(61);
    assert!(run.entered(State::Pace, 11).is_some() && run.entered(State::Protect, 11).is_none());
    let kept = run.iops(31, 61) / run.iops(3, 11);
    assert!(kept >= 0.5, "{kept:.2} kept");
}

#[test]
fn a_database_without_a_rate_keeps_most_of_it_beside_a_paced_flood() {
    for (device, least) in [("raid10-bbwc-2010", 0.6), ("hdd-7200", 0.4), ("cloud-gp3", 0.8)] {
        let kept = |seed: u64| {
            let run = beside_copy(SimOptions { seed, ..options(device) }, &database(""), true);
            run.iops(61, 131) / run.iops(3, 11)
        };
        let kept = (1..=3).map(kept).sum::<f64>() / 3.0;
        assert!(kept >= least, "{device}: {kept:.2} kept");
    }
}

#[test]
fn a_flood_is_not_starved() {
    for device in ["hdd-7200", "nvme-consumer", "cloud-gp3"] {
        for victim in [database(""), third(device)] {
            let (run, without) =
                (encounter(device, &victim, true), encounter(device, &victim, false));
            let share = run.flooded(41, 131) / without.flooded(41, 131);
            assert!(share >= 0.1, "{device} {victim}: {share:.2} of what it would have");
        }
    }
}

#[test]
fn the_next_encounter_begins_where_the_last_one_ended() {
    let victim = third("cloud-gp3");
    let parts = with(options("cloud-gp3"), &[&victim], &[COPY]);
    let mut run = Run::under(&grouped(), vec![parts], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.stop(71, "db");
    run.start(91, "db");
    run.until(96);
    let rates = |to: u64| {
        let of = |(at, write): &(Duration, KnobWrite)| {
            let wbps = write.value.split("wbps=").nth(1)?.split(' ').next()?.parse::<f64>().ok()?;
            (*at < s(to)).then_some(wbps)
        };
        run.writes.iter().filter_map(of).collect::<Vec<f64>>()
    };
    // The database waits for the copy's backlog at first: the copy has its floor until the database
    // keeps its goal.
    let (before, all) = (rates(71), rates(96));
    let (last, next) = (before[before.len() - 1], &all[before.len()..]);
    assert!(
        next.iter().any(|next| (next / last - 1.0).abs() < 0.3),
        "{last} before, {next:?} after"
    );
}

#[test]
fn a_unit_that_ends_while_it_is_paced_is_paced_when_it_runs_again() {
    let victim = third("cloud-gp3");
    let parts = with(options("cloud-gp3"), &[&victim], &[COPY]);
    let mut run = Run::under(&grouped(), vec![parts], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.stop(31, "copy");
    run.start(51, "copy");
    run.until(31);
    assert!(run.entered(State::Pace, 11).is_some());
    // Its group has gone, and its limits with it.
    run.tap.unit_ended = true;
    run.until(41);
    assert!(run.entered(State::Free, 31).is_some());
    let device = run.knobs().devices.keys().next().copied();
    for (knob, value) in [("io.max", "wbps=max"), ("memory.high", "max")] {
        let write = KnobWrite { device, knob: format!("flood:{knob}"), value: value.to_owned() };
        run.tap.plant.write(&write).unwrap();
    }
    assert!(run.left_alone.is_empty(), "{:?}", run.left_alone);
    let writes = run.writes.len();
    let is_limit = |write: &KnobWrite| write.knob.contains(':');
    assert!(
        run.writes.iter().all(|(at, write)| *at <= s(31) || !is_limit(write)),
        "{:?}",
        run.writes
    );
    run.tap.unit_ended = false;
    run.until(61);
    assert!(run.writes.len() > writes && run.left_alone.is_empty(), "{:?}", run.left_alone);
    assert!(run.entered(State::Pace, 51).unwrap() <= s(54));
}

#[test]
fn a_pace_ends_when_another_program_takes_its_dirty_limit_away() {
    let victim = third("cloud-gp3");
    let parts = with(options("cloud-gp3"), &[&victim], &[COPY]);
    let mut run = Run::under(&grouped(), vec![parts], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.until(41);
    let limit = |run: &mut Run, knob: &str| {
        let knobs = run.knobs();
        knobs.devices.values().next().unwrap().get(&format!("flood:{knob}")).unwrap().to_owned()
    };
    assert!(limit(&mut run, "io.max").contains("wbps=") && limit(&mut run, "memory.high") != "max");
    let device = run.knobs().devices.keys().next().copied();
    let write = KnobWrite { device, knob: "flood:memory.high".into(), value: "max".into() };
    run.tap.plant.write(&write).unwrap();
    run.until(44);
    assert!(
        run.left_alone.iter().any(|told| told.contains("flood:memory.high")),
        "{:?}",
        run.left_alone
    );
    assert_eq!(limit(&mut run, "io.max"), "rbps=max wbps=max riops=max wiops=max");
    assert_ne!(run.state(), State::Pace);
    let why = run.guard.as_ref().unwrap().status().next().unwrap().estimate.unpaced;
    assert_eq!(why, Some(Unpaced::NoLimits));
}
