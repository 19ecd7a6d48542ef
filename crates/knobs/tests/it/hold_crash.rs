//! A process that steers, an administrator beside it, and a kill at any write of either: always
//! back to the original values.

use std::cell::Cell;

use floodwall_knobs::{Fate, Hold, Intention, Undone, plan};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::fake::{World, change};

/// An action of the process that steers.
const STEERED: &[&str] = &[
    "nr_requests=8",
    "nr_requests=16",
    "nr_requests=4",
    "max_sectors_kb=128",
    "max_sectors_kb=32",
    "bdi.max_ratio_fine=30000",
    "bdi.max_ratio_fine=5000",
    "bdi.strict_limit=1",
    "bdi.strict_limit=0",
    "wbt_lat_usec=0",
    "scheduler=bfq",
    "scheduler=none",
    "iosched.low_latency=0",
    "iosched.fifo_batch=1",
];

/// A change that an administrator applies beside it.
const APPLIED: &[&[&str]] = &[
    &["nr_requests=64"],
    &["nr_requests=8"],
    &["max_sectors_kb=512", "nr_requests=32"],
    &["bdi.max_ratio_fine=200000"],
    &["bdi.strict_limit=1"],
    &["scheduler=kyber"],
    &["wbt_lat_usec=5000", "read_ahead_kb=512"],
    &["scheduler=bfq", "nr_requests=16", "vm.dirty_expire_centisecs=100"],
];

/// One action of either.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize),
    /// A held cell goes back.
    Back(usize),
    /// In two halves, with something of the administrator's in between.
    Slowly(usize, usize),
    /// The process is asked for the knobs of a change, or of all of them.
    Yield(Option<usize>),
    Apply(usize),
    Rollback,
    /// The process ends, and another one takes its place.
    Restart,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..STEERED.len()).prop_map(Deed::Write),
        2 => (0_usize..8).prop_map(Deed::Back),
        1 => ((0..STEERED.len()), (0..APPLIED.len())).prop_map(|(a, b)| Deed::Slowly(a, b)),
        2 => (0..APPLIED.len()).prop_map(Deed::Apply),
        4 => proptest::option::of(0..APPLIED.len()).prop_map(Deed::Yield),
        1 => Just(Deed::Rollback),
        1 => Just(Deed::Restart),
    ]
}

const GUARD: u32 = 8;

#[derive(Default)]
struct Counts {
    killed: Cell<u32>,
    killed_steering: Cell<u32>,
    written: Cell<u32>,
    yielded: Cell<u32>,
    applied: Cell<u32>,
}

fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

struct Case<'a> {
    world: World,
    hold: Option<Hold>,
    counts: &'a Counts,
}

impl Case<'_> {
    fn apply(&self, which: usize) {
        let mut changes: Vec<_> = APPLIED[which].iter().map(|text| change(text)).collect();
        while plan(&changes, &self.world.kernel).is_err() {
            changes.pop();
        }
        if self.world.session().apply(&changes, "by hand").is_ok() {
            count(&self.counts.applied);
        }
    }

    fn steer(&mut self) {
        self.world.process(GUARD, 'S', 1);
        // Killed while it begins, it never steers.
        self.hold = self
            .world
            .session_of(GUARD, "floodwall guard")
            .hold("a guard")
            .ok()
            .map(|(hold, _)| hold);
    }

    fn do_it(&mut self, deed: &Deed) {
        let session = self.world.session_of(GUARD, "floodwall guard");
        match (deed, &mut self.hold) {
            (Deed::Write(which), Some(hold)) => {
                if session
                    .write(hold, &change(STEERED[*which]))
                    .is_ok_and(|written| written.is_some())
                {
                    count(&self.counts.written);
                }
            }
            (Deed::Back(nth), Some(hold)) => {
                let order = session.order_back(hold, |_, _| true);
                if let Some(index) = order.get(nth % order.len().max(1))
                    && let Ok(Some(prepared)) = session.prepare_back(hold, *index)
                {
                    let performed = prepared.perform(&self.world.kernel, &self.world.kernel);
                    let _ = session.finish(hold, prepared, performed);
                }
            }
            (Deed::Slowly(which, applied), Some(hold)) => {
                let prepared = session.prepare(hold, &change(STEERED[*which]));
                let blown = self.world.kernel.fuse.is_blown();
                if let Ok(Some(prepared)) = prepared
                    && !blown
                {
                    self.apply(*applied);
                    let performed = prepared.perform(&self.world.kernel, &self.world.kernel);
                    if let Some(hold) = &mut self.hold {
                        let session = self.world.session_of(GUARD, "floodwall guard");
                        let _ = session.finish(hold, prepared, performed);
                    }
                }
            }
            (Deed::Yield(which), Some(hold)) => {
                let changes: Vec<_> = which
                    .iter()
                    .flat_map(|which| APPLIED[*which].iter().map(|text| change(text)))
                    .collect();
                let of = which.map_or(Intention::Rollback(0), |_| Intention::Apply(&changes));
                if self.world.ask(&session, hold, of) {
                    count(&self.counts.yielded);
                }
            }
            (Deed::Apply(which), _) => self.apply(*which),
            (Deed::Rollback, _) => {
                let _ = self.world.session().rollback(0);
            }
            (Deed::Restart, Some(hold)) => {
                let _ = session.close(hold);
                self.world.process(GUARD, 'S', 0);
                if !self.world.kernel.fuse.is_blown() {
                    self.steer();
                }
            }
            (_, None) => {}
        }
    }

    /// Whether a kill at this deed hits the guard.
    fn is_the_guards(deed: &Deed) -> bool {
        !matches!(deed, Deed::Apply(_) | Deed::Rollback)
    }
}

fn survives(
    deeds: &[Deed],
    kills: &[(usize, u64)],
    undoing: u64,
    counts: &Counts,
) -> Result<(), TestCaseError> {
    let mut case = Case { world: World::new(), hold: None, counts };
    for (path, value) in [
        ("nr_requests", "100"),
        ("iosched/fifo_batch", "4"),
        ("max_sectors_kb", "640"),
        ("read_ahead_kb", "256"),
    ] {
        floodwall_knobs::Files::write(
            &case.world.kernel,
            &format!("/sys/dev/block/8:0/queue/{path}"),
            value,
        )
        .unwrap();
    }
    let original = case.world.kernel.all();
    case.steer();
    for (at, deed) in deeds.iter().enumerate() {
        let kill = kills.iter().find(|(when, _)| *when == at).map(|(_, writes)| *writes);
        case.world.kernel.fuse.arm(kill);
        case.do_it(deed);
        if case.world.kernel.fuse.is_blown() {
            count(&counts.killed);
            case.world.kernel.fuse.arm(None);
            if Case::is_the_guards(deed) {
                count(&counts.killed_steering);
                case.world.process(GUARD, 'S', 0);
                case.hold = None;
                case.steer();
            }
        }
    }
    case.world.process(GUARD, 'S', 0);
    // The recovering process may be killed too.
    case.world.kernel.fuse.arm(Some(undoing));
    let _ = case.world.session().rollback(0);
    case.world.kernel.fuse.arm(None);
    let (recovery, undone) = case.world.session().rollback(0).unwrap();
    let fates = recovery.undone.iter().chain(&undone).flat_map(|undone: &Undone| &undone.entries);
    let foreign: Vec<_> = fates
        .filter(|(_, fate)| matches!(fate, Fate::Foreign { .. } | Fate::Failed { .. }))
        .collect();
    let now = case.world.kernel.all();
    let differs: Vec<_> = original
        .iter()
        .filter(|(path, value)| now.get(*path) != Some(*value))
        .map(|(path, value)| (path, value, now.get(path)))
        .collect();
    prop_assert!(differs.is_empty() && now.len() == original.len(), "{differs:?}\n{foreign:?}");
    let (recovery, undone) = case.world.session().rollback(0).unwrap();
    prop_assert!(recovery.is_empty() && undone.is_empty(), "{recovery:?} {undone:?}");
    Ok(())
}

fn many(seed: u8) {
    let counts = Counts::default();
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &[seed; 16]);
    let config = Config { cases: CASES_PER_SEED, failure_persistence: None, ..Config::default() };
    let kills = proptest::collection::vec((0_usize..12, 0_u64..12), 1..3);
    let input = (proptest::collection::vec(deed(), 1..12), kills, 0_u64..30);
    TestRunner::new_with_rng(config, rng)
        .run(&input, |(deeds, kills, undoing)| survives(&deeds, &kills, undoing, &counts))
        .unwrap();
    let few = CASES_PER_SEED / 10;
    for (what, counter) in [
        ("killed", &counts.killed),
        ("killed steering", &counts.killed_steering),
        ("written", &counts.written),
        ("yielded", &counts.yielded),
        ("applied", &counts.applied),
    ] {
        assert!(counter.get() > few, "{} {what}", counter.get());
    }
}

/// 4,000 lives in all.
const CASES_PER_SEED: u32 = 2_000;

#[test]
fn killed_at_any_write_of_a_life_1() {
    many(11);
}

#[test]
fn killed_at_any_write_of_a_life_2() {
    many(12);
}
