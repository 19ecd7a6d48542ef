//! Values that the guard did not write stay as they are.

use floodwall_model::plant::{KnobWrite, Plant};

use crate::{DISK, Run, State, options, part, s};

/// A database and a copy that have met four seconds ago.
fn protecting() -> Run {
    met(Run::new(vec![part(options("cloud-gp3"))], true))
}

fn met(mut run: Run) -> Run {
    run.start(1, "db");
    run.start(5, "copy");
    run.until(9);
    assert!(matches!(run.state(), State::Protect | State::Probe), "{:?}", run.state());
    run
}

#[test]
fn a_knob_that_somebody_else_has_set_is_theirs() {
    let mut run = protecting();
    let theirs = KnobWrite { device: Some(DISK), knob: "nr_requests".into(), value: "40".into() };
    run.tap.plant.write(&theirs).unwrap();
    run.stop(10, "db");
    run.until(25);
    let knobs = run.knobs();
    let of = |knob: &str| knobs.devices[&DISK].get(knob).map(str::to_owned);
    assert_eq!(of("nr_requests").as_deref(), Some("40"));
    assert_eq!(of("max_sectors_kb").as_deref(), Some("4096"), "the others are taken back");
    assert_eq!(run.left_alone.len(), 1, "said once: {:?}", run.left_alone);
    assert!(
        run.left_alone[0].contains("nr_requests")
            && run.left_alone[0].contains("somebody else has set it")
    );
    assert_eq!(run.state(), State::Free);
}

#[test]
fn an_elevator_that_would_overwrite_somebody_elses_number_of_requests_is_not_tried() {
    let mut run = Run::new(vec![part(options("cloud-gp3"))], true);
    run.start(1, "db");
    run.start(5, "copy");
    run.until(6);
    let theirs = KnobWrite { device: Some(DISK), knob: "nr_requests".into(), value: "40".into() };
    run.tap.plant.write(&theirs).unwrap();
    run.until(40);
    assert_eq!(run.knobs().devices[&DISK].get("nr_requests"), Some("40"));
    assert!(run.writes.iter().all(|(_, w)| w.knob != "scheduler"), "{:?}", run.writes);
    assert_eq!(run.left_alone.len(), 1, "said once: {:?}", run.left_alone);
}

#[test]
fn a_second_release_accuses_nobody_of_what_the_first_has_given_back() {
    let mut run = met(Run::new(vec![part(options("hdd-7200"))], true));
    let own = Run::new(vec![part(options("hdd-7200"))], true).knobs();
    assert_ne!(run.knobs(), own, "the queue is short");
    for _ in 0..2 {
        let report = run.guard.as_mut().unwrap().release(&mut run.tap).unwrap();
        assert!(report.left_alone.is_empty(), "{:?}", report.left_alone);
        run.tap.plant.advance(s(5));
        assert_eq!(run.knobs(), own);
    }
}

#[test]
fn knobs_that_another_program_has_asked_for_are_neither_written_nor_taken_back() {
    let mut run = met(Run::balancing(vec![part(options("cloud-gp3"))]));
    let own = Run::new(vec![part(options("cloud-gp3"))], true).knobs();
    let asked = ["scheduler", "nr_requests"];
    let mut second = 9;
    while !run.writes.iter().any(|(_, write)| write.knob == "scheduler") {
        second += 1;
        assert!(second < 60, "no elevator was tried");
        run.until(second);
    }
    let set = |run: &mut Run, knob: &str, value: &str| {
        let write = KnobWrite { device: Some(DISK), knob: knob.into(), value: value.into() };
        run.tap.plant.write(&write).unwrap();
    };
    // As the plant does: the administrator's values first, then one of the other program's.
    for knob in asked {
        set(&mut run, knob, own.devices[&DISK].get(knob).unwrap());
        run.guard.as_mut().unwrap().yield_knob(Some(DISK), knob);
    }
    set(&mut run, "nr_requests", "40");
    run.writes.clear();
    run.until(second + 30);
    assert!(!run.writes.is_empty(), "it steers on");
    run.stop(second + 30, "db");
    run.until(second + 45);
    assert!(
        run.writes.iter().all(|(_, write)| !asked.contains(&write.knob.as_str())),
        "{:?}",
        run.writes
    );
    assert_eq!(run.knobs().devices[&DISK].get("nr_requests"), Some("40"));
    assert_eq!(run.left_alone, [""; 0]);
    assert_eq!(run.state(), State::Free);
}

#[test]
fn what_somebody_has_set_under_another_elevator_comes_back_with_the_administrators() {
    let mut run = Run::balancing(vec![part(options("cloud-gp3"))]);
    run.start(1, "db");
    run.start(5, "copy");
    let elevator = |run: &mut Run| run.knobs().devices[&DISK].get("scheduler").map(str::to_owned);
    let own = elevator(&mut run);
    let mut second = 6;
    while elevator(&mut run) == own {
        second += 1;
        assert!(second < 60, "no elevator was tried");
        run.until(second);
    }
    let theirs = KnobWrite { device: Some(DISK), knob: "nr_requests".into(), value: "40".into() };
    run.tap.plant.write(&theirs).unwrap();
    run.stop(second + 1, "db");
    run.until(second + 30);
    assert_eq!((run.state(), elevator(&mut run)), (State::Free, own));
    assert_eq!(run.knobs().devices[&DISK].get("nr_requests"), Some("40"));
}

#[test]
fn everything_can_be_taken_back_at_any_moment() {
    let mut run = protecting();
    let mut fresh = Run::new(vec![part(options("cloud-gp3"))], false);
    assert_ne!(run.knobs().devices, fresh.knobs().devices);
    let mut guard = run.guard.take().unwrap();
    let report = guard.release(&mut run.tap).unwrap();
    assert!(!report.writes.is_empty() && report.left_alone.is_empty());
    run.tap.plant.advance(s(5));
    assert_eq!(run.knobs().devices, fresh.knobs().devices);
    assert_eq!(guard.release(&mut run.tap).unwrap().writes, [], "nothing is left to take back");
}

#[test]
fn lost_sensors_are_said_and_nothing_is_written_blindly() {
    let mut run = protecting();
    let before = run.knobs();
    run.tap.blind = true;
    let mut guard = run.guard.take().unwrap();
    let error = guard.tick(&mut run.tap).unwrap_err();
    assert_eq!(error.to_string(), "can't read tracepoints: gone");
    assert_eq!(run.knobs(), before);
    guard.release(&mut run.tap).unwrap();
    run.tap.plant.advance(s(5));
    assert_eq!(run.knobs().devices[&DISK].get("max_sectors_kb"), Some("4096"));
}

#[test]
fn the_same_machine_gives_the_same_decisions() {
    let (one, other) = (protecting(), protecting());
    assert_eq!(one.decisions, other.decisions);
    assert_eq!(one.writes, other.writes);
    assert!(one.decisions.iter().all(|d| !d.why.is_empty()));
}

/// Every knob of the device reads the administrator's value.
fn as_it_was(run: &mut Run) {
    let mut fresh = Run::new(vec![part(options("cloud-gp3"))], false);
    assert_eq!(run.knobs().devices, fresh.knobs().devices);
}

/// A knob can't be taken back for a while. The failure shows at once, or only later.
fn fails_for_a_while(late: bool) {
    let mut run = protecting();
    run.tap.refuse = Some(("max_sectors_kb", |value| value == "4096"));
    run.tap.late = late;
    run.stop(10, "db");
    run.until(20);
    assert_eq!(run.left_alone.len(), 1, "said once: {:?}", run.left_alone);
    assert!(run.left_alone[0].contains("max_sectors_kb") && run.left_alone[0].contains("not now"));
    assert!((2..=5).contains(&run.tap.refused), "{} attempts in six seconds", run.tap.refused);
    run.tap.refuse = None;
    run.until(60);
    as_it_was(&mut run);
    assert_eq!(run.left_alone.len(), 1, "{:?}", run.left_alone);
}

#[test]
fn taking_back_that_fails_is_tried_again_and_said() {
    fails_for_a_while(false);
}

#[test]
fn taking_back_that_never_works_ends_and_says_so() {
    let mut run = protecting();
    run.tap.refuse = Some(("max_sectors_kb", |value| value == "4096"));
    run.stop(10, "db");
    run.until(400);
    assert_eq!((run.left_alone.len(), run.tap.refused), (2, 8), "{:?}", run.left_alone);
    assert!(run.left_alone[1].contains("tried 8 times"), "{:?}", run.left_alone);
}

#[test]
fn what_was_written_is_known_when_a_device_was_gone_for_a_moment() {
    let mut run = protecting();
    run.tap.hidden = true;
    run.until(10);
    run.tap.hidden = false;
    // The guard's own values are not the administrator's.
    run.until(20);
    run.stop(21, "db");
    run.until(40);
    as_it_was(&mut run);
    assert_eq!(run.left_alone, [] as [&str; 0]);
}

#[test]
fn what_can_not_be_turned_further_is_still_taken_back() {
    let mut run = met(Run::balancing(vec![part(options("cloud-gp3"))]));
    run.tap.refuse = Some(("max_sectors_kb", |value| value != "4096"));
    run.stop(60, "db");
    run.until(80);
    assert!(run.tap.refused >= 1);
    assert_eq!(run.left_alone.len(), 1, "{:?}", run.left_alone);
    as_it_was(&mut run);
}

#[test]
fn taking_back_that_fails_late_is_tried_again_and_is_nobody_elses_write() {
    fails_for_a_while(true);
}

#[test]
fn taking_back_that_always_fails_late_ends_and_says_so() {
    let mut run = protecting();
    run.tap.refuse = Some(("max_sectors_kb", |value| value == "4096"));
    run.tap.late = true;
    run.stop(10, "db");
    run.until(400);
    assert_eq!((run.left_alone.len(), run.tap.refused), (2, 8), "{:?}", run.left_alone);
}

#[test]
fn a_journal_that_is_full_for_a_while_takes_no_lever_away() {
    let mut run = Run::new(vec![part(options("cloud-gp3"))], true);
    run.tap.refuse = Some(("nr_requests", |_| true));
    run.tap.journal = true;
    run.start(1, "db");
    run.start(5, "copy");
    run.until(12);
    assert_eq!(run.left_alone.len(), 1, "said once: {:?}", run.left_alone);
    assert!(run.tap.refused >= 2, "{}", run.tap.refused);
    run.tap.refuse = None;
    run.until(60);
    assert!(run.writes.iter().any(|(_, write)| write.knob == "nr_requests"));
    run.stop(60, "db");
    run.until(100);
    as_it_was(&mut run);
}
