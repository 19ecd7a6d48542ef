//! Victims are put before the flood by I/O priority where the elevator in force is bfq.

use std::time::Duration;

use floodwall_guard::{Config, Guard, Mode, State};
use floodwall_model::Setting;
use floodwall_model::plant::{KnobWrite, Plant};
use floodwall_sim::FsKind;

use crate::{DISK, Run, options, s, with};

const COPY: &str = "seq,size=32GiB,name=copy";
const DATABASE: &str = "commit,threads=10,block=16KiB,size=1GiB,name=db";
/// The array, alone, ends some 2,700 commits a second.
const ARRAY: &str = "raid10-bbwc-2010";
const RATE: &str = ",rate=900";

fn bfq() -> Setting {
    [("scheduler".to_owned(), "bfq".to_owned())].into_iter().collect()
}

/// The database from the first second on, the copy from the eleventh, both until the 101st.
/// `offers`: whether the plant has priorities among its knobs.
fn encounter(seed: u64, rate: &str, offers: bool) -> Run {
    encounter_in(Mode::default(), seed, rate, offers)
}

fn encounter_in(mode: Mode, seed: u64, rate: &str, offers: bool) -> Run {
    let parts = with(
        floodwall_sim::SimOptions { seed, ..options(ARRAY) },
        &[&format!("{DATABASE}{rate}")],
        &[COPY],
    );
    let mut run = Run::under(&bfq(), vec![parts], true);
    run.guard = Some(Guard::new(Config { mode, ..Config::default() }));
    run.tap.no_priorities = !offers;
    run.start(1, "db");
    run.start(11, "copy");
    run.stop(101, "db");
    run.until(120);
    run
}

/// The priorities among writes, as `pid:1.ioprio=be/0`.
fn priorities(run: &Run) -> Vec<String> {
    let its = run.writes.iter().filter(|(_, write)| write.knob.ends_with(".ioprio"));
    its.map(|(_, write)| format!("{}={}", write.knob, write.value)).collect()
}

/// Seconds of the encounter in which victims ended less than a tenth of what they end alone.
fn dead(run: &Run) -> usize {
    let alone = run.iops(3, 11);
    run.seconds[13..101].iter().filter(|second| (second.ops as f64) < 0.1 * alone).count()
}

#[test]
fn a_raised_victim_keeps_its_rate_beside_a_copy() {
    for seed in [1, 3, 4] {
        let encounter = |offers| encounter_in(Mode::Balance, seed, RATE, offers);
        let (mut raised, without) = (encounter(true), encounter(false));
        let kept = raised.iops(41, 101) / 900.0;
        assert!(
            kept > 0.97 && dead(&raised) == 0,
            "seed {seed}: {kept:.3} kept, {} dead",
            dead(&raised)
        );
        // The flood keeps moving.
        assert!(raised.flooded(41, 101) > 80e6, "{:.0}", raised.flooded(41, 101));
        let free =
            Run::under(&bfq(), vec![with(options(ARRAY), &[DATABASE], &[COPY])], false).knobs();
        assert_eq!((raised.knobs(), raised.state()), (free, State::Free));
        assert!(priorities(&without).is_empty());
    }
}

#[test]
fn in_mode_protect_a_raised_victim_keeps_its_rate_and_is_never_dead() {
    for seed in [1, 3, 4] {
        let run = encounter(seed, RATE, true);
        let kept = run.iops(41, 101) / 900.0;
        assert!(
            kept > 0.98 && dead(&run) <= 1,
            "seed {seed}: {kept:.2} kept, {} dead seconds",
            dead(&run)
        );
        assert!(run.flooded(41, 101) > 120e6, "seed {seed}: {:.0}", run.flooded(41, 101));
        assert!(
            priorities(&run).contains(&"pid:1.ioprio=be/0".to_owned()),
            "{:?}",
            priorities(&run)
        );
    }
}

#[test]
fn raising_comes_before_the_knobs_that_freeze_a_queue() {
    let run = encounter_in(Mode::Balance, 1, "", true);
    let (at, first) = &run.writes[0];
    assert_eq!((first.knob.as_str(), first.value.as_str()), ("pid:1.ioprio", "be/0"));
    assert!(*at <= s(12), "raised at {at:?}");
    let (next, freezes) = &run.writes[1];
    assert!(*next > *at && freezes.knob == "nr_requests", "{freezes} at {next:?}");
    // The copy's process is never raised.
    assert!(
        priorities(&run).iter().all(|write| write.starts_with("pid:1.")),
        "{:?}",
        priorities(&run)
    );
}

#[test]
fn a_priority_is_back_as_soon_as_the_victims_have_gone() {
    let run = encounter(1, RATE, true);
    let recover = run.entered(State::Recover, 101).unwrap();
    let (at, back) = run.writes.iter().rfind(|(_, write)| write.knob == "pid:1.ioprio").unwrap();
    assert!(
        back.value == "none" && *at <= recover,
        "{back} at {at:?}, victims gone at {recover:?}"
    );
}

#[test]
fn nothing_is_raised_where_the_elevator_does_not_heed_it() {
    let mut run = Run::new(vec![with(options(ARRAY), &[DATABASE], &[COPY])], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.until(60);
    // The elevator that is in force when a priority is written.
    let mut elevator = "mq-deadline";
    let mut raised = 0;
    for (at, KnobWrite { knob, value, .. }) in &run.writes {
        match knob.as_str() {
            "scheduler" => elevator = value,
            "pid:1.ioprio" if value == "be/0" => {
                assert_eq!(elevator, "bfq", "at {at:?}");
                raised += 1;
            }
            _ => {}
        }
    }
    assert!(raised > 0, "bfq was never tried");
}

#[test]
fn the_journals_threads_are_raised_along_and_all_is_taken_back_at_the_end() {
    let ext4 = || floodwall_sim::SimOptions { fs: FsKind::Ext4, ..options(ARRAY) };
    let mut run = Run::under(&bfq(), vec![with(ext4(), &[DATABASE], &[COPY])], true);
    let before = run.knobs();
    run.start(1, "db");
    run.start(11, "copy");
    run.until(14);
    while run.tap.observe().unwrap().devices[0].changing {
        run.tap.plant.advance(Duration::from_millis(10));
    }
    let own = run.knobs().devices.remove(&DISK).unwrap();
    assert_eq!((own.get("pid:1.ioprio"), own.get("journal.ioprio")), (Some("be/0"), Some("be/0")));
    // As when the daemon is paused, or ends.
    let report = run.guard.as_mut().unwrap().release(&mut run.tap).unwrap();
    assert!(report.left_alone.is_empty(), "{:?}", report.left_alone);
    run.tap.plant.advance(s(30));
    assert_eq!(run.knobs(), before);
}

#[test]
fn a_priority_of_the_administrators_is_left_alone() {
    for own in ["rt/4", "be/2", "idle"] {
        let mut setting = bfq();
        setting.0.insert("victim.ioprio".to_owned(), own.to_owned());
        let mut run = Run::under(&setting, vec![with(options(ARRAY), &[DATABASE], &[COPY])], true);
        run.start(1, "db");
        run.start(11, "copy");
        run.until(30);
        assert!(priorities(&run).is_empty(), "{own}: {:?}", priorities(&run));
        assert!(!run.writes.is_empty() && run.left_alone.is_empty(), "{own}: {:?}", run.left_alone);
    }
    // Set while the guard holds it: it stays as it was set.
    let mut run = Run::under(&bfq(), vec![with(options(ARRAY), &[DATABASE], &[COPY])], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.until(14);
    let theirs =
        KnobWrite { device: Some(DISK), knob: "pid:1.ioprio".into(), value: "rt/0".into() };
    run.tap.plant.write(&theirs).unwrap();
    run.stop(30, "db");
    run.until(50);
    assert_eq!(run.knobs().devices[&DISK].get("pid:1.ioprio"), Some("rt/0"));
    assert_eq!(run.state(), State::Free);
    let told = run.left_alone.iter().filter(|why| why.contains("pid:1.ioprio")).count();
    assert_eq!(told, 1, "{:?}", run.left_alone);
}

#[test]
fn a_process_that_ends_needs_nothing_back() {
    let mut run = Run::under(&bfq(), vec![with(options(ARRAY), &[DATABASE], &[COPY])], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.until(14);
    assert_eq!(priorities(&run), ["pid:1.ioprio=be/0"]);
    run.tap.unit_ended = true;
    run.stop(14, "db");
    run.until(50);
    assert_eq!(priorities(&run), ["pid:1.ioprio=be/0"]);
    assert!(run.left_alone.is_empty(), "{:?}", run.left_alone);
    assert_eq!(run.state(), State::Free);
}

#[test]
fn all_knobs_are_read_for_writes_alone() {
    let mut run = encounter(1, RATE, true);
    assert!(priorities(&run).len() >= 2 && run.seconds.len() == 120);
    // At the begin, and once for each write at the most.
    assert!(
        run.tap.reads <= 1 + run.writes.len(),
        "{} reads, {} writes",
        run.tap.reads,
        run.writes.len()
    );
    run.tap.reads = 0;
    run.until(180);
    assert_eq!(run.tap.reads, 0);
}

#[test]
fn a_priority_that_cant_be_read_for_a_while_is_taken_back_later() {
    let mut run = Run::under(&bfq(), vec![with(options(ARRAY), &[DATABASE], &[COPY])], true);
    run.start(1, "db");
    run.start(11, "copy");
    run.until(14);
    assert_eq!(priorities(&run), ["pid:1.ioprio=be/0"]);
    run.tap.unreadable = true;
    run.stop(18, "db");
    run.until(40);
    assert_eq!(priorities(&run), ["pid:1.ioprio=be/0"]);
    assert_eq!(run.left_alone, ["can't read pid:1.ioprio: no permission"]);
    run.tap.unreadable = false;
    run.until(80);
    assert_eq!(priorities(&run), ["pid:1.ioprio=be/0", "pid:1.ioprio=none"]);
    assert_eq!(run.knobs().devices[&DISK].get("pid:1.ioprio"), Some("none"));
}
