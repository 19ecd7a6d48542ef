//! Conditions that move: devices that become slow, loads that come and go, two devices, long runs.

use std::time::Duration;

use floodwall_device::Nanos;
use floodwall_device::fault::Disturbance;
use floodwall_device::spec::{Fault, FaultKind};

use crate::{DISK, Run, State, options, part, s, with};

#[test]
fn a_device_that_becomes_ten_times_slower_is_known_within_five_seconds() {
    for device in ["cloud-gp3", "hdd-7200"] {
        let mut slow = options(device);
        let (from, to) = (Nanos::from_secs(90), Nanos::from_secs(120));
        let kind = FaultKind::Clock(Disturbance::Slow { factor_permille: 10_000, from, to });
        slow.device.faults.push(Fault { member: None, kind });
        let mut run = Run::new(vec![part(slow)], true);
        run.start(1, "db");
        run.start(5, "copy");
        // The first tries are over.
        run.until(90);
        let drain = |run: &Run| {
            let guard = run.guard.as_ref().unwrap();
            guard.status().next().unwrap().estimate.drain_bytes_per_s.unwrap()
        };
        let before = drain(&run);
        run.until(95);
        let after = drain(&run);
        // The drain rate also depends on the level under trial.
        assert!(after < 0.4 * before, "{device}: {before} B/s before, {after} five seconds later");
    }
}

#[test]
fn conditions_that_stay_the_same_need_few_writes() {
    for device in ["cloud-gp3", "hdd-7200"] {
        let victim = "commit,threads=2,block=16KiB,size=1GiB,name=db";
        let parts = with(options(device), &[victim], &["seq,size=16GiB,name=copy"]);
        let mut run = Run::new(vec![parts], true);
        run.start(1, "db");
        run.start(6, "copy");
        run.until(600);
        let (all, late) =
            (run.writes.len(), run.seconds[300..].iter().map(|s| s.writes).sum::<usize>());
        // Two tries of another elevator, there and back.
        assert!(
            late <= 16 && all <= 120,
            "{device}: {all} writes in ten minutes, {late} in the second half"
        );
    }
}

#[test]
fn loads_that_come_and_go_leave_nothing_behind() {
    let mut run = Run::new(vec![part(options("cloud-gp3"))], true);
    for round in 0..6 {
        run.start(20 * round + 1, "db");
        run.start(20 * round + 3, "copy");
        run.stop(20 * round + 8, "db");
        run.stop(20 * round + 10, "copy");
    }
    run.until(140);
    let mut fresh = Run::new(vec![part(options("cloud-gp3"))], false);
    assert_eq!(run.knobs().devices, fresh.knobs().devices);
    assert_eq!(run.state(), State::Free);
    let met = run.decisions.iter().filter(|d| d.from == State::Free).count();
    assert!((1..=12).contains(&met), "{met} encounters");
}

#[test]
fn a_device_without_victims_is_left_alone_whatever_happens_on_another() {
    let parts = vec![
        part(options("cloud-gp3")),
        with(options("hdd-7200"), &[], &["seq,size=8GiB,name=backup"]),
    ];
    let mut run = Run::new(parts, true);
    run.start(1, "db");
    run.start(5, "copy");
    run.start(5, "backup");
    run.until(15);
    assert!(run.writes.iter().any(|(_, w)| w.device == Some(DISK)));
    assert!(run.writes.iter().all(|(_, w)| w.device == Some(DISK)), "{:?}", run.writes);
    let reaction = run.entered(State::Protect, 5).unwrap();
    assert!(reaction <= s(5) + Duration::from_secs(1), "{reaction:?}");
}
