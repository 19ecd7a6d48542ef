//! A flood that has told that it paces itself.

use floodwall_guard::OwnPace;
use floodwall_model::plant::KnobWrite;

use crate::paced::grouped;
use crate::{DISK, Run, State, options, s, with};

const DATABASE: &str = "commit,threads=2,block=16KiB,size=1GiB,rate=200,name=db";

/// The database from the first second on, the copy from the eleventh.
fn encounter(copy: &str, paces_itself: bool) -> Run {
    let parts = with(options("cloud-gp3"), &[DATABASE], &[copy]);
    let mut run = Run::under(&grouped(), vec![parts], true);
    run.tap.floods_pace_themselves = paces_itself;
    run.start(1, "db");
    run.start(11, "copy");
    run.until(61);
    run
}

fn own_pace(run: &Run) -> OwnPace {
    run.guard.as_ref().unwrap().status().next().unwrap().estimate.own_pace
}

#[test]
fn one_that_harms_nobody_is_spared_and_named() {
    let copy = "seq,size=32GiB,rate=30MB/s,name=copy";
    let told = encounter(copy, true);
    assert_eq!(told.writes, []);
    assert_eq!((told.state(), own_pace(&told)), (State::Watch, OwnPace::Spared));
    let guard = told.guard.as_ref().unwrap();
    assert_eq!(guard.who(DISK).1, ["copy"]);
    assert_eq!(guard.spared(DISK), ["copy"]);
    // Without its word the same flood is held back.
    let untold = encounter(copy, false);
    assert!(!untold.writes.is_empty() && untold.guard.as_ref().unwrap().spared(DISK).is_empty());
}

#[test]
fn one_that_does_not_pace_itself_is_paced_after_ten_seconds() {
    let run = encounter("seq,size=32GiB,name=copy", true);
    let paced = run.entered(State::Pace, 11).unwrap();
    assert!((s(20)..=s(30)).contains(&paced), "{paced:?}");
    assert_eq!((run.state(), own_pace(&run)), (State::Pace, OwnPace::Missed));
    assert!(run.writes.iter().all(|(_, KnobWrite { knob, .. })| knob.starts_with("flood:")));
    let why = &run.decisions.iter().find(|decision| decision.to == State::Pace).unwrap().why;
    assert!(why.contains("although the flood paces itself"), "{why}");
    assert!(run.guard.as_ref().unwrap().spared(DISK).is_empty());
    let kept = run.iops(41, 61) / run.iops(3, 11);
    assert!(kept >= 0.9, "{kept:.2} kept");
}
