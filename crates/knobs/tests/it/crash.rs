//! Killed at any write, journal writes included, once or repeatedly: always back to the original
//! values.

use std::cell::Cell;

use floodwall_knobs::{Files, plan};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::fake::{World, change};

/// Values that a machine may have before, as plain writes.
const BEFORE: &[&[&str]] = &[
    &[],
    &["/proc/sys/vm/dirty_bytes=50000000", "/proc/sys/vm/dirty_background_bytes=10000000"],
    &["/proc/sys/vm/dirty_ratio=0"],
    &["queue/scheduler=bfq", "queue/iosched/slice_idle_us=500", "queue/nr_requests=64"],
    &["queue/scheduler=none", "queue/nr_requests=32", "queue/wbt_lat_usec=0"],
    &[
        "queue/nr_requests=100",
        "queue/iosched/async_depth=50",
        "queue/iosched/fifo_batch=4",
        "queue/read_ahead_kb=512",
    ],
    &["bdi/max_ratio_fine=25000", "bdi/min_ratio_fine=5000", "bdi/strict_limit=1"],
    &["queue/wbt_lat_usec=5000", "queue/max_sectors_kb=512", "queue/read_ahead_kb=64"],
    &["/proc/sys/vm/dirty_ratio=100", "/proc/sys/vm/dirty_background_ratio=50"],
    &[
        "/run/systemd/system.control/system.slice/b.service/memory.high=500000000",
        "/run/systemd/system.control/system.slice/b.service/io.max=8:0 rbps=9 wbps=max riops=max \
         wiops=max",
    ],
];

/// Changes to pick from; at most one of each group, so that no cell is named twice.
const CHANGES: &[&[&str]] = &[
    &[
        "vm.dirty_bytes=15MB",
        "vm.dirty_bytes=1GiB",
        "vm.dirty_ratio=40",
        "vm.dirty_ratio=5",
        "vm.dirty_ratio=20",
    ],
    &[
        "vm.dirty_background_bytes=5MB",
        "vm.dirty_background_ratio=3",
        "vm.dirty_background_bytes=1GiB",
    ],
    &["vm.dirty_expire_centisecs=100", "vm.dirty_expire_centisecs=6000"],
    &["vm.dirty_writeback_centisecs=0", "vm.dirty_writeback_centisecs=100"],
    &["scheduler=bfq", "scheduler=none", "scheduler=kyber", "scheduler=mq-deadline"],
    &["nr_requests=8", "nr_requests=2", "nr_requests=100"],
    &["max_sectors_kb=128", "max_sectors_kb=1024"],
    &["read_ahead_kb=129", "read_ahead_kb=4096"],
    &["wbt_lat_usec=0", "wbt_lat_usec=2ms", "wbt_lat_usec=-1", "wbt_lat_usec=100"],
    &["rq_affinity=2", "rq_affinity=0"],
    &["nomerges=2"],
    &["rotational=0"],
    &["write_cache=write-back"],
    &[
        "bdi.max_ratio_fine=30000",
        "bdi.max_ratio=50",
        "bdi.max_bytes=12MB",
        "bdi.max_ratio_fine=1000",
    ],
    &["bdi.min_ratio=1", "bdi.min_ratio_fine=20000"],
    &["bdi.strict_limit=1", "bdi.strict_limit=0"],
    &[
        "iosched.fifo_batch=1",
        "iosched.low_latency=0",
        "iosched.read_expire=101",
        "iosched.read_lat_nsec=1ms",
    ],
    &["iosched.async_depth=9", "iosched.strict_guarantees=1"],
    &["iosched.slice_idle_us=0", "iosched.slice_idle=4"],
    &["b:memory.high=100MiB", "b:memory.high=max", "b:memory.high=1GB"],
    &["b:io.max=wbps=5MB", "b:io.max=wbps=max riops=7", "b:io.max=rbps=max"],
];

/// Which value of each group, if any.
fn picks() -> impl Strategy<Value = Vec<Option<usize>>> {
    proptest::collection::vec(proptest::option::weighted(0.4, 0_usize..8), CHANGES.len())
}

fn world(before: usize, dirty_pages: u64) -> World {
    let world = World::new();
    for text in BEFORE[before % BEFORE.len()] {
        let (path, value) = text.split_once('=').unwrap();
        let path = path
            .replace("queue/", "/sys/dev/block/8:0/queue/")
            .replace("bdi/", "/sys/class/bdi/8:0/");
        world.kernel.write(&path, value).unwrap();
    }
    world.kernel.dirty_pages.set(dirty_pages);
    world.kernel.drains.set(dirty_pages / 20);
    world
}

/// How the cases went.
#[derive(Default)]
struct Counts {
    applied: Cell<u32>,
    killed: Cell<u32>,
    killed_undoing: Cell<u32>,
}

/// One case: apply is killed before its write number `kills[0]`, then two processes that undo
/// before theirs.
fn survives(
    before: usize,
    dirty_pages: u64,
    picks: &[Option<usize>],
    kills: [u64; 3],
    counts: &Counts,
) -> Result<(), TestCaseError> {
    let world = world(before, dirty_pages);
    let original = world.kernel.all();
    let texts =
        picks.iter().zip(CHANGES).filter_map(|(pick, group)| Some(group[(*pick)? % group.len()]));
    let mut changes: Vec<_> = texts.map(change).collect();
    // Changes that would be refused (a tunable of another elevator, a share above the limit) are
    // left out.
    while plan(&changes, &world.kernel).is_err() {
        changes.pop();
    }
    let fuse = &world.kernel.fuse;
    let count = |counter: &Cell<u32>| counter.set(counter.get() + 1);

    fuse.arm(Some(kills[0]));
    let outcome = world.session().apply(&changes, "crash");
    if fuse.is_blown() {
        count(&counts.killed);
    } else if outcome.is_ok_and(|done| done.id.is_some()) {
        count(&counts.applied);
    }
    for writes in &kills[1..] {
        fuse.arm(Some(*writes));
        let _ = world.session().rollback(0);
        if fuse.is_blown() {
            count(&counts.killed_undoing);
        }
    }
    fuse.arm(None);
    world.session().rollback(0).unwrap();
    prop_assert_eq!(world.kernel.all(), original, "{:?}", changes);
    // Nothing is left open.
    let (recovery, undone) = world.session().rollback(0).unwrap();
    prop_assert!(recovery.is_empty() && undone.is_empty());
    Ok(())
}

/// Some thousand cases of a seed.
fn many(seed: u8) {
    let counts = Counts::default();
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &[seed; 16]);
    let config = Config { cases: CASES_PER_SEED, failure_persistence: None, ..Config::default() };
    let dirty = prop_oneof![9 => Just(100_u64), 1 => Just(400_000)];
    let input = (0..BEFORE.len(), dirty, picks(), 0_u64..40, 0_u64..30, 0_u64..30);
    TestRunner::new_with_rng(config, rng)
        .run(&input, |(before, dirty, picks, first, second, third)| {
            survives(before, dirty, &picks, [first, second, third], &counts)
        })
        .unwrap();
    // The cases are worth something: many were cut short, many got through and were undone.
    let many = CASES_PER_SEED / 5;
    assert!(counts.killed.get() > many, "{} killed", counts.killed.get());
    assert!(counts.killed_undoing.get() > many, "{} killed undoing", counts.killed_undoing.get());
    assert!(counts.applied.get() > many, "{} applied", counts.applied.get());
}

/// 10,000 random plans and crash points in all, in tests that run beside each other.
const CASES_PER_SEED: u32 = 2_500;

#[test]
fn killed_at_any_write_of_any_plan_and_of_its_undoing_1() {
    many(1);
}

#[test]
fn killed_at_any_write_of_any_plan_and_of_its_undoing_2() {
    many(2);
}

#[test]
fn killed_at_any_write_of_any_plan_and_of_its_undoing_3() {
    many(3);
}

#[test]
fn killed_at_any_write_of_any_plan_and_of_its_undoing_4() {
    many(4);
}

#[test]
fn every_write_of_one_large_plan() {
    let texts = [
        "vm.dirty_bytes=15MB",
        "vm.dirty_background_bytes=5MB",
        "scheduler=bfq",
        "nr_requests=8",
        "max_sectors_kb=128",
        "wbt_lat_usec=0",
        "iosched.low_latency=0",
        "bdi.max_bytes=10MB",
        "bdi.strict_limit=1",
    ];
    let mut points = 0;
    loop {
        let world = world(5, 400_000);
        let original = world.kernel.all();
        world.kernel.fuse.arm(Some(points));
        let outcome = world.apply(&texts);
        if !world.kernel.fuse.is_blown() {
            outcome.unwrap();
            break;
        }
        world.kernel.fuse.arm(None);
        let recovery = world.session().recover().unwrap();
        assert_eq!(world.kernel.all(), original, "killed before write {points}: {recovery:?}");
        assert!(recovery.set_aside.is_empty());
        points += 1;
    }
    assert!(points > 60, "{points}");
}
