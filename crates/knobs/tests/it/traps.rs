//! The kernel's traps, one test each.

use floodwall_knobs::{ApplyError, PlanError, StepError, plan};
use rustix::io::Errno;

use crate::fake::{BDI, QUEUE, World, change};

fn refusal(world: &World, texts: &[&str]) -> String {
    world.apply(texts).unwrap_err().to_string()
}

fn notes(world: &World, texts: &[&str]) -> Vec<String> {
    let changes: Vec<_> = texts.iter().map(|text| change(text)).collect();
    plan(&changes, &world.kernel).unwrap().notes
}

#[test]
fn a_rising_hard_limit_goes_first_and_a_falling_one_last() {
    let world = World::new();
    world.apply(&["vm.dirty_background_ratio=30", "vm.dirty_ratio=50"]).unwrap();
    assert_eq!(world.writes(), ["dirty_ratio=50", "dirty_background_ratio=30"]);
    world.kernel.writes.borrow_mut().clear();
    world.apply(&["vm.dirty_bytes=64MiB", "vm.dirty_background_bytes=32MiB"]).unwrap();
    assert_eq!(world.writes(), ["dirty_background_bytes=33554432", "dirty_bytes=67108864"]);
    // And the other way round when it is undone.
    world.kernel.writes.borrow_mut().clear();
    world.session().rollback(1).unwrap();
    assert_eq!(world.writes(), ["dirty_ratio=51", "dirty_ratio=50", "dirty_background_ratio=30"]);
}

#[test]
fn a_hard_limit_falls_in_steps_and_never_below_what_is_dirty() {
    let world = World::new();
    // 2.4 GB dirty of a limit of 4.1 GB; 40 MB drain in each pause, less than a tenth of the limit.
    world.kernel.dirty_pages.set(600_000);
    world.kernel.drains.set(10_000);
    world.apply(&["vm.dirty_bytes=64MiB"]).unwrap();
    let limits: Vec<u64> = world
        .writes()
        .iter()
        .map(|write| write.strip_prefix("dirty_bytes=").unwrap().parse().unwrap())
        .collect();
    assert!(limits.len() > 10, "{limits:?}");
    let mut before = 1_000_000 * 4096;
    for limit in &limits[..limits.len() - 1] {
        assert!(*limit < before && *limit * 10 >= before * 9 - 4096 * 10, "{before} -> {limit}");
        before = *limit;
    }
    assert_eq!(limits.last(), Some(&67_108_864));
    assert_eq!(world.kernel.cut_below_dirty.get(), 0, "writers were stopped");
}

#[test]
fn a_device_that_does_not_drain_is_waited_for_only_so_long() {
    let world = World::new();
    world.kernel.dirty_pages.set(600_000);
    world.apply(&["vm.dirty_bytes=64MiB"]).unwrap();
    // 60 s of patience in pauses of 200 ms, and the steps.
    assert!((300..400).contains(&world.kernel.slept.get()), "{}", world.kernel.slept.get());
    assert_eq!(world.kernel.vm("dirty_bytes"), "67108864");
}

#[test]
fn nothing_dirty_means_one_write() {
    let world = World::new();
    world.apply(&["vm.dirty_bytes=64MiB"]).unwrap();
    assert_eq!(world.writes(), ["dirty_bytes=67108864"]);
    assert_eq!(world.kernel.slept.get(), 0);
}

#[test]
fn a_request_to_stop_while_a_limit_falls_puts_everything_back() {
    let world = World::new();
    world.kernel.dirty_pages.set(600_000);
    world.kernel.cancelled.set(true);
    let error = world.apply(&["vm.dirty_bytes=64MiB"]).unwrap_err();
    assert!(matches!(error, ApplyError::RolledBack { cause: StepError::Cancelled, .. }), "{error}");
    assert_eq!(
        (world.kernel.vm("dirty_bytes"), world.kernel.vm("dirty_ratio")),
        ("0".into(), "20".into())
    );
}

#[test]
fn limits_near_the_flushers_chunk_are_warned_of() {
    let world = World::new();
    let small = notes(&world, &["vm.dirty_bytes=6MiB", "vm.dirty_background_bytes=5B"]);
    insta::assert_snapshot!(small.join("\n"), @"
    a hard limit of 6 MiB is less than two of the flusher's chunks of 4 MiB: writers will often \
    stop; 64 MiB is a sound minimum
    a background limit of 4 KiB is less than one of the flusher's chunks of 4 MiB: it never rests
    ");
}

#[test]
fn a_background_limit_that_the_kernel_would_halve_is_warned_of() {
    let world = World::new();
    insta::assert_snapshot!(notes(&world, &["vm.dirty_bytes=15MB"]).join("\n"), @"the background \
        limit (2048 MB) is not below the hard limit (14.3 MiB): the kernel silently uses 7326 KiB");
}

#[test]
fn byte_mode_is_left_by_two_different_ratios() {
    let world = World::new();
    world.apply(&["vm.dirty_bytes=64MiB"]).unwrap();
    world.kernel.writes.borrow_mut().clear();
    world.apply(&["vm.dirty_ratio=100"]).unwrap();
    assert_eq!(world.writes(), ["dirty_ratio=99", "dirty_ratio=100"]);
    // Old kernels worked the rate limit out from the old bytes at the first of the two.
    assert_eq!(world.kernel.ratelimit_from.get(), "dirty_ratio");
}

#[test]
fn a_ratio_of_zero_comes_back_from_byte_mode() {
    let world = World::new();
    world.kernel.put("/proc/sys/vm/dirty_ratio", "0");
    world.apply(&["vm.dirty_bytes=64MiB"]).unwrap();
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.vm("dirty_bytes"), "0");
    assert_eq!(world.kernel.vm("dirty_ratio"), "0");
    insta::assert_snapshot!(refusal(&world, &["vm.dirty_ratio=0"]), @"vm.dirty_ratio is refused: a \
        hard limit of zero stops every writer; give at least 1");
}

#[test]
fn two_names_of_one_cell_are_one() {
    let world = World::new();
    insta::assert_snapshot!(refusal(&world, &["vm.dirty_bytes=64MiB", "vm.dirty_ratio=5"]), @"\
        vm.dirty_bytes and vm.dirty_ratio are two names of one limit: give one of them");
    insta::assert_snapshot!(refusal(&world, &["bdi.max_bytes=64MiB", "bdi.max_ratio=5"]), @"\
        sda.bdi.max_bytes and sda.bdi.max_ratio are two names of one limit: give one of them");
}

#[test]
fn max_bytes_becomes_a_ratio_of_the_limit_that_the_plan_ends_with() {
    let world = World::new();
    world.apply(&["bdi.max_bytes=16MiB", "vm.dirty_bytes=64MiB", "bdi.strict_limit=1"]).unwrap();
    assert_eq!(world.writes(), ["dirty_bytes=67108864", "max_ratio_fine=250000", "strict_limit=1"]);
    // Saved and restored as the fine ratio, which does not drift.
    world.kernel.writes.borrow_mut().clear();
    world.session().rollback(0).unwrap();
    assert_eq!(
        world.writes(),
        ["dirty_ratio=21", "dirty_ratio=20", "strict_limit=0", "max_ratio_fine=1000000"]
    );
}

#[test]
fn max_bytes_that_would_round_to_zero_exceed_the_limit_or_divide_by_zero_are_refused() {
    let world = World::new();
    insta::assert_snapshot!(refusal(&world, &["bdi.max_bytes=4KiB", "vm.dirty_ratio=100"]), @"\
        sda.bdi.max_bytes is refused: 4 KiB is less than a millionth of the hard limit of 19.1 GiB \
        and would become a share of zero; give at least 24 KiB");
    insta::assert_snapshot!(refusal(&world, &["bdi.max_bytes=100MiB", "vm.dirty_bytes=64MiB"]), @"\
        sda.bdi.max_bytes is refused: 100 MiB is more than the hard limit of 64 MiB; raise \
        vm.dirty_bytes or give less");
    world.kernel.put("/proc/sys/vm/dirty_ratio", "0");
    insta::assert_snapshot!(refusal(&world, &["bdi.max_bytes=64MiB"]), @"sda.bdi.max_bytes is \
        refused: the hard limit is zero; set vm.dirty_ratio or vm.dirty_bytes first");
    assert!(world.writes().is_empty());
}

#[test]
fn percent_is_saved_and_written_in_millionths() {
    let world = World::new();
    world.kernel.put(&format!("{BDI}/max_ratio_fine"), "25000");
    world.kernel.put(&format!("{BDI}/max_ratio"), "2");
    world.apply(&["bdi.max_ratio=50"]).unwrap();
    assert_eq!(world.writes(), ["max_ratio_fine=500000"]);
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.bdi("max_ratio_fine"), "25000");
    // Before 6.2 there is only the percentage.
    let old = World::new();
    for file in ["max_ratio_fine", "min_ratio_fine", "strict_limit"] {
        old.kernel.remove(&format!("{BDI}/{file}"));
    }
    let error = refusal(&old, &["bdi.max_bytes=64MiB"]);
    assert!(
        error.ends_with("max_ratio_fine does not exist; it needs max_ratio_fine (Linux 6.2)"),
        "{error}"
    );
}

#[test]
fn a_strict_limit_of_zero_is_refused() {
    let world = World::new();
    insta::assert_snapshot!(refusal(&world, &["bdi.max_ratio=0", "bdi.strict_limit=1"]), @"\
        sda.bdi.max_ratio is refused: a strict limit of zero stops every writer to the device; \
        give a bdi.max_ratio_fine above 0");
    world.kernel.put(&format!("{BDI}/strict_limit"), "1");
    assert!(world.apply(&["bdi.max_ratio=0"]).is_err());
}

#[test]
fn the_lower_share_never_passes_the_upper_one() {
    let world = World::new();
    world.kernel.put(&format!("{BDI}/max_ratio_fine"), "10000");
    // Up: the upper one first; down: the lower one first. The kernel would refuse the other order.
    world.apply(&["bdi.min_ratio_fine=50000", "bdi.max_ratio_fine=90000"]).unwrap();
    assert_eq!(world.writes(), ["max_ratio_fine=90000", "min_ratio_fine=50000"]);
    world.kernel.writes.borrow_mut().clear();
    world.apply(&["bdi.max_ratio_fine=8000", "bdi.min_ratio_fine=5000"]).unwrap();
    assert_eq!(world.writes(), ["min_ratio_fine=5000", "max_ratio_fine=8000"]);
    world.session().rollback(0).unwrap();
    assert_eq!(
        (world.kernel.bdi("max_ratio_fine"), world.kernel.bdi("min_ratio_fine")),
        ("10000".into(), "0".into())
    );
    insta::assert_snapshot!(refusal(&world, &["bdi.min_ratio_fine=50000"]), @"\
        sda.bdi.min_ratio_fine is refused: the device's lower bound would be above its upper \
        bound; change both");
}

#[test]
fn a_kernel_that_scales_min_ratio_twice_is_noticed_and_everything_put_back() {
    let world = World::new();
    world.kernel.scales_twice.set(true);
    world.kernel.put("/proc/sys/kernel/osrelease", "6.5.0-35-generic");
    insta::assert_snapshot!(refusal(&world, &["bdi.min_ratio=1", "bdi.max_ratio=50"]), @"the \
        kernel refused sda.bdi.min_ratio = 10000: invalid; Linux 6.2 to 6.7 take only 0, and all \
        devices' shares must stay below 100 %; everything is as before");
    // A small number of millionths is taken as percent: read back, and put back.
    insta::assert_snapshot!(refusal(&world, &["bdi.min_ratio_fine=20"]), @"the kernel took \
        sda.bdi.min_ratio_fine = 20 and holds 200000; everything is as before");
    assert_eq!(
        (world.kernel.bdi("min_ratio_fine"), world.kernel.bdi("max_ratio_fine")),
        ("0".into(), "1000000".into())
    );
    // A value that it could not take back is not touched.
    world.kernel.put(&format!("{BDI}/min_ratio_fine"), "200000");
    insta::assert_snapshot!(refusal(&world, &["bdi.min_ratio_fine=0"]), @"sda.bdi.min_ratio_fine \
        is refused: this kernel (6.2 to 6.7) could not take the present value back; it scales \
        bdi.min_ratio twice");
}

#[test]
fn the_elevator_goes_before_what_it_resets() {
    let world = World::new();
    let texts = [
        "wbt_lat_usec=1000",
        "iosched.low_latency=0",
        "nr_requests=8",
        "max_sectors_kb=128",
        "scheduler=bfq",
    ];
    world.apply(&texts).unwrap();
    assert_eq!(
        world.writes(),
        [
            "scheduler=bfq",
            "nr_requests=8",
            "low_latency=0",
            "max_sectors_kb=128",
            "read_ahead_kb=64",
            "wbt_lat_usec=1001",
            "wbt_lat_usec=1000"
        ]
    );
    assert_eq!(world.kernel.queue("wbt_lat_usec"), "1000");
}

#[test]
fn what_an_elevator_resets_is_saved_and_comes_back() {
    let world = World::new();
    world.apply(&["nr_requests=64"]).unwrap();
    world.apply(&["iosched.fifo_batch=4", "iosched.async_depth=30"]).unwrap();
    let before = world.kernel.all();
    let applied = world.apply(&["scheduler=bfq"]).unwrap();
    assert_eq!(world.kernel.queue("wbt_lat_usec"), "0");
    assert_eq!(world.kernel.queue("nr_requests"), "256");
    insta::assert_snapshot!(applied.plan.notes.join("\n"), @"the kernel resets what depends on \
        sda.scheduler: it is saved with it");
    world.session().rollback(2).unwrap();
    assert_eq!(world.kernel.all(), before);
}

#[test]
fn throttling_that_an_elevator_switched_off_is_switched_on_in_spite_of_the_same_value() {
    let world = World::new();
    world.apply(&["scheduler=bfq"]).unwrap();
    // The target is still 2000: writing 2000 alone would change nothing.
    world.apply(&["wbt_lat_usec=2ms"]).unwrap();
    assert_eq!(world.kernel.queue("wbt_lat_usec"), "2000");
}

#[test]
fn read_ahead_survives_a_change_of_the_request_size() {
    let world = World::new();
    world.apply(&["max_sectors_kb=512"]).unwrap();
    assert_eq!(world.writes(), ["max_sectors_kb=512", "read_ahead_kb=64"]);
    world.session().rollback(0).unwrap();
    assert_eq!(
        (world.kernel.queue("max_sectors_kb"), world.kernel.queue("read_ahead_kb")),
        ("1280".into(), "64".into())
    );
}

#[test]
fn strict_guarantees_give_back_the_idle_time_that_they_took() {
    let world = World::new();
    world.apply(&["scheduler=bfq"]).unwrap();
    world.apply(&["iosched.slice_idle_us=500"]).unwrap();
    world.apply(&["iosched.strict_guarantees=1"]).unwrap();
    assert_eq!(world.kernel.queue("iosched/slice_idle_us"), "8000");
    world.session().rollback(2).unwrap();
    assert_eq!(world.kernel.queue("iosched/slice_idle_us"), "500");
}

#[test]
fn busy_is_tried_again() {
    let world = World::new();
    world.kernel.busy.set(3);
    world.apply(&["nr_requests=8"]).unwrap();
    assert_eq!((world.kernel.queue("nr_requests"), world.kernel.slept.get()), ("8".into(), 3));
    world.kernel.busy.set(1000);
    let error = refusal(&world, &["nr_requests=16"]);
    assert!(error.contains("it stayed busy"), "{error}");
}

#[test]
fn values_that_the_kernel_adjusts_are_told() {
    let world = World::new();
    let applied = world.apply(&["nr_requests=2", "read_ahead_kb=129", "wbt_lat_usec=-1"]).unwrap();
    insta::assert_snapshot!(applied.adjusted.join("\n"), @"
    sda.nr_requests: 2 became 4 (numbers below 4 become 4)
    sda.read_ahead_kb: 129 became 128 (cut to whole pages)
    sda.wbt_lat_usec: -1 became 75000 (-1 becomes the default for the medium; some elevators and \
    io.cost switch it off)
    ");
    // The value read back is Floodwall's, so it is put back.
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.queue("nr_requests"), "256");
}

#[test]
fn tunables_need_their_elevator() {
    let world = World::new();
    insta::assert_snapshot!(refusal(&world, &["iosched.low_latency=0"]), @"sda.iosched.low_latency \
        belongs to bfq, and sda runs mq-deadline; add sda.scheduler=bfq");
    insta::assert_snapshot!(refusal(&world, &["iosched.fifo_batch=1", "scheduler=kyber"]), @"\
        sda.iosched.fifo_batch belongs to mq-deadline, and sda runs kyber; add \
        sda.scheduler=mq-deadline");
    insta::assert_snapshot!(refusal(&world, &["scheduler=cfq"]), @"sda has no scheduler 'cfq'; it \
        has none, mq-deadline, kyber, bfq");
}

#[test]
fn an_elevator_that_is_neither_listed_nor_a_module_is_told_with_those_that_are_there() {
    let world = World::new();
    // Not listed, but mainline: the kernel may load it. Here it can't.
    world.kernel.refuses.borrow_mut().insert(format!("{QUEUE}/scheduler"), Errno::INVAL);
    let changes = [change("scheduler=bfq")];
    assert!(plan(&changes, &world.kernel).is_ok());
    let error = refusal(&world, &["scheduler=bfq"]);
    assert!(error.contains("no such elevator; it has none, mq-deadline, kyber, bfq"), "{error}");
}

#[test]
fn a_queue_without_throttling_has_no_target() {
    let world = World::new();
    for file in ["nr_requests", "scheduler"] {
        world.kernel.remove(&format!("{QUEUE}/{file}"));
    }
    let error = world.apply(&["nr_requests=8"]).unwrap_err();
    assert!(matches!(error, ApplyError::Plan(PlanError::NotThere { .. })), "{error}");
}
