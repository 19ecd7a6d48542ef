//! Spaces of hosts and devices, and where a search in them begins.

use super::*;
use crate::testing::disk;

fn array() -> Description {
    Description { drain_bytes_per_s: 250e6, strict_limit: true, ..disk() }
}

#[test]
fn limits_are_drain_rate_times_delay_around_the_published_ones() {
    let space = Space::of(&array());
    let limits = &space.dimensions[0];
    let names: Vec<&str> = limits.levels.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "",
            "limit 0.06 s (14 MiB)",
            "limit 0.125 s (30 MiB)",
            "limit 0.25 s (60 MiB)",
            "limit 0.5 s (119 MiB)",
            "limit 1.5 s (358 MiB)",
            "strict 0.25 s (60 MiB)",
            "strict 1 s (238 MiB)"
        ]
    );
    assert_eq!(limits.levels[3].knobs[1], ("vm.dirty_bytes".to_owned(), (60u64 << 20).to_string()));
}

#[test]
fn limits_that_would_hang_something_are_not_tried() {
    let space = Space::of(&Description { least_hard_bytes: Some(119 << 20), ..array() });
    let names: Vec<&str> = space.dimensions[0].levels.iter().map(|l| l.name.as_str()).collect();
    let left = [
        "limit 0.5 s (119 MiB)",
        "limit 1.5 s (358 MiB)",
        "strict 0.25 s (60 MiB)",
        "strict 1 s (238 MiB)",
    ];
    assert_eq!(names[1..], left);
}

#[test]
fn both_levers_are_among_the_starts_and_the_setting_in_force_is_first() {
    let space = Space::of(&array());
    assert!(space.setting(&space.starts[0]).is_empty());
    let settings: Vec<Setting> = space.starts.iter().map(|p| space.setting(p)).collect();
    let short_queue = settings
        .iter()
        .any(|s| s.get("nr_requests").is_some() && s.get("vm.dirty_bytes").is_none());
    let small_limit = settings
        .iter()
        .any(|s| s.get("vm.dirty_bytes").is_some() && s.get("nr_requests").is_none());
    let together = settings
        .iter()
        .any(|s| s.get("vm.dirty_bytes").is_some() && s.get("nr_requests").is_some());
    assert!(short_queue && small_limit && together, "{settings:?}");
    assert_eq!(space.size(), 8 * 4 * 5 * 4 * 3);
    assert_eq!(space.name(&space.starts[1]), "bfq + 8 requests + 128 KiB + wbt off");
}

#[test]
fn what_a_device_lacks_is_no_dimension() {
    let network =
        Description { drain_bytes_per_s: 100e6, byte_limits: true, ..Description::default() };
    let space = Space::of(&network);
    assert_eq!(space.dimensions.len(), 1);
    let nothing = Space::of(&Description::default());
    assert_eq!((nothing.size(), nothing.starts.len()), (1, 1));
    // 3 MB/s: the smallest delays all come to the least limit, which is there once.
    let stick = Space::of(&Description { drain_bytes_per_s: 3e6, ..network });
    assert_eq!(stick.dimensions[0].levels.len(), 2);
}

#[test]
fn small_machines_get_no_limit_above_their_own() {
    let small = Space::of(&Description { hard_limit_bytes: Some(100 << 20), ..array() });
    assert_eq!(small.dimensions[0].levels.len(), 1 + 3 + 1);
}

/// A machine with every lever, on a disk.
fn everything() -> Description {
    Description {
        kind: Some(Kind::Disk),
        flood_bytes_per_s: 200e6,
        paced: true,
        dirtyable_bytes: Some(20 << 30),
        tunables: true,
        bfq_groups: Some(true),
        ext4_journal: true,
        reads: true,
        device_depth: Some(32),
        ..array()
    }
}

fn level<'a>(space: &'a Space, name: &str) -> Option<&'a Level> {
    space.dimensions.iter().flat_map(|d| &d.levels).find(|l| l.name == name)
}

fn names(space: &Space) -> Vec<String> {
    space.starts.iter().map(|p| space.name(p)).collect()
}

#[test]
fn a_paced_flood_has_a_share_of_its_own_rate_and_dirty_pages_of_its_own() {
    let space = Space::of(&everything());
    let paced = level(&space, "paced 0.87 (174 MB/s)").unwrap();
    let knobs = [("flood:io.max", "wbps=174000000"), ("flood:memory.high", "134217728")];
    assert_eq!(paced.knobs, knobs.map(|(k, v)| (k.to_owned(), v.to_owned())));
    // Where a hundredth of memory may be dirty, a tenth of a second of 174 MB/s is a hundredth of
    // 1,740 MB.
    let tight = Description {
        hard_limit_bytes: Some(100 << 20),
        dirtyable_bytes: Some(10_000 << 20),
        ..everything()
    };
    let memory = level(&Space::of(&tight), "paced 0.87 (174 MB/s)").unwrap().knobs[1].1.clone();
    assert_eq!(memory, (1_659u64 << 20).to_string());
    // A fast device: a tenth of a second of 2 GB/s is a fifth of 1 GB.
    let fast = Description { flood_bytes_per_s: 2e9 / 0.75, ..everything() };
    let memory = level(&Space::of(&fast), "paced 0.75 (2.00 GB/s)").unwrap().knobs[1].1.clone();
    assert_eq!(memory, (954u64 << 20).to_string());
    let alone = Space::of(&Description { paced: false, ..everything() });
    assert!(level(&alone, "paced 0.87 (174 MB/s)").is_none());
}

#[test]
fn tunables_come_with_their_elevator_and_for_whom_they_are() {
    let space = Space::of(&everything());
    let knobs = |space: &Space, name: &str| level(space, name).map(|l| l.knobs.clone());
    let setting = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>())
    };
    let raised = [("victim.ioprio", "be/0"), ("journal.ioprio", "be/0"), ("scheduler", "bfq")];
    assert_eq!(knobs(&space, "bfq: victims be/0"), setting(&raised));
    assert_eq!(
        knobs(&space, "mq-deadline: async_depth"),
        setting(&[("iosched.async_depth", "64")])
    );
    let xfs = Space::of(&Description { ext4_journal: false, ..everything() });
    assert_eq!(knobs(&xfs, "bfq: victims be/0"), setting(&[raised[0], raised[2]]));
    // A disk gains by one request at a time, an SSD by no idling; only readers by what is for
    // them.
    let has = |space: &Space, name| level(space, name).is_some();
    let ssd =
        Space::of(&Description { kind: Some(Kind::SolidState), reads: false, ..everything() });
    assert!(has(&space, "bfq: strict_guarantees") && !has(&ssd, "bfq: strict_guarantees"));
    assert!(!has(&space, "bfq: slice_idle 0") && has(&ssd, "bfq: slice_idle 0"));
    assert!(
        has(&space, "mq-deadline: read_expire 100 ms")
            && !has(&ssd, "mq-deadline: read_expire 100 ms")
    );
    let without = Space::of(&Description { tunables: false, ..everything() });
    assert!(!without.dimensions.iter().flat_map(|d| &d.levels).any(|l| l.name.contains(':')));
    // Real-time classes are used only on request.
    let all = || space.dimensions.iter().flat_map(|d| &d.levels).flat_map(|l| &l.knobs);
    assert!(all().any(|(_, v)| v == "be/0") && !all().any(|(_, v)| v.starts_with("rt/")));
    let disks = Description { queues: vec!["sda.".into(), "sdb.".into()], ..everything() };
    let both = knobs(&Space::of(&disks), "bfq: low_latency 0").unwrap();
    assert_eq!(both.len(), 4);
    assert!(both.contains(&("sdb.iosched.low_latency".into(), "0".into())));
}

#[test]
fn a_search_begins_with_what_is_known_for_the_device_and_freezes_no_queue() {
    let disk = names(&Space::of(&everything()));
    let order = [
        "default",
        // Known to be good on a disk: without a freeze, and with one.
        "paced 0.5 (100 MB/s)",
        "paced 0.75 (150 MB/s)",
        "bfq: victims be/0 + wbt off",
        "bfq + 8 requests + 128 KiB + wbt off",
        "16 requests + 128 KiB + wbt off",
        "bfq + 8 requests + 128 KiB + wbt 75 ms",
        "kyber + 8 requests + 128 KiB + wbt off",
        "bfq + 16 requests",
        "none + 16 requests + 128 KiB + wbt 75 ms",
        "bfq",
        // The others: without, and with.
        "limit 0.25 s (60 MiB)",
        "paced 0.87 (174 MB/s)",
        "device queue 4",
        "limit 0.06 s (14 MiB)",
        "limit 1.5 s (358 MiB)",
        "strict 0.25 s (60 MiB)",
        "mq-deadline: async_depth",
    ];
    assert_eq!(disk[..order.len()], order);
    // Under bfq a priority touches no queue.
    let in_use = Description { scheduler: Some("bfq".into()), wbt_lat_us: None, ..everything() };
    assert_eq!(names(&Space::of(&in_use))[3], "bfq: victims be/0");
    // An SSD is not a disk: a priority is good on disks alone.
    let ssd = names(&Space::of(&Description { kind: Some(Kind::SolidState), ..everything() }));
    assert_eq!(
        ssd[1..4],
        ["paced 0.5 (100 MB/s)", "paced 0.75 (150 MB/s)", "bfq + 8 requests + 128 KiB + wbt off"]
    );
    assert!(ssd.iter().position(|name| name.starts_with("bfq: victims")) > Some(4));
}

#[test]
fn a_priority_comes_last_where_bfq_may_not_honour_it() {
    for (bfq_groups, groups) in [(Some(false), false), (None, false), (Some(true), true)] {
        let starts = names(&Space::of(&Description { bfq_groups, groups, ..everything() }));
        assert_eq!(starts.last().map(String::as_str), Some("bfq: victims be/0 + wbt off"));
    }
}

#[test]
fn a_priority_is_not_tried_where_the_flood_has_a_group_that_bfq_knows() {
    let both = |bfq_groups| {
        let space = Space::of(&Description { bfq_groups, ..everything() });
        let raised = level(&space, "bfq: victims be/0").unwrap();
        let has = |point: &Point, name: &str| {
            let setting = space.setting(point);
            setting.0.keys().any(|knob| knob.starts_with(name))
        };
        let both = |point: &Point| has(point, "victim.ioprio") && has(point, "flood:");
        let alone = space.points().into_iter().find(|p| space.name(p) == raised.name).unwrap();
        (space.points().iter().any(both), space.neighbours(&alone).iter().any(both))
    };
    assert_eq!(both(Some(true)), (false, false));
    assert_eq!(both(Some(false)), (true, true));
    assert_eq!(both(None), (true, true));
}

#[test]
fn what_is_refused_is_left_out_with_what_begins_with_it() {
    let mut space = Space::of(&everything());
    let before = names(&space);
    let refusal = |s: &Setting| {
        s.0.keys().any(|k| k.starts_with("flood:") || k == "nr_requests").then(|| "no".to_owned())
    };
    let left_out = space.leave_out(refusal);
    assert_eq!(left_out.len(), 3 + 4, "{left_out:?}");
    assert!(left_out.contains(&("8 requests".into(), "no".into())));
    let kept =
        before.into_iter().filter(|name| !name.contains("paced") && !name.contains(" requests"));
    assert_eq!(names(&space), kept.collect::<Vec<_>>());
    assert!(space.starts.iter().all(|p| refusal(&space.setting(p)).is_none()));
    // A dimension without levels goes, and points keep their meaning.
    let dimensions = space.dimensions.len();
    space.leave_out(|s| s.get("max_sectors_kb").map(|_| "no".to_owned()));
    assert_eq!(space.dimensions.len(), dimensions - 1);
    assert!(names(&space).contains(&"bfq: victims be/0 + wbt off".to_owned()));
    for point in &space.starts {
        assert_eq!(space.find(&space.setting(point)).as_ref(), Some(point));
    }
}

#[test]
fn knobs_of_disks_below_are_named_with_them() {
    let space = Space::of(&Description { queues: vec!["sda.".into(), "sdb.".into()], ..array() });
    let setting = space.setting(&space.starts[1]);
    assert_eq!(setting.get("sda.scheduler"), Some("bfq"));
    assert_eq!(setting.get("sdb.nr_requests"), Some("8"));
}

#[test]
fn async_depth_is_a_quarter_of_the_depth_that_mq_deadline_has_and_below_the_chosen_one() {
    let async_depth = |scheduler: &str, nr_requests| {
        let device = Description {
            scheduler: Some(scheduler.into()),
            nr_requests: Some(nr_requests),
            ..everything()
        };
        let level =
            level(&Space::of(&device), "mq-deadline: async_depth").unwrap().knobs[0].clone();
        assert_eq!(level.0, "iosched.async_depth");
        level.1
    };
    // A SATA disk and an NVMe drive under none: 2 x 32 and 2 x 128 after the switch.
    assert_eq!([async_depth("none", 32), async_depth("none", 1_023)], ["16", "64"]);
    assert_eq!([async_depth("bfq", 64), async_depth("mq-deadline", 256)], ["16", "64"]);
    // 64 of 256 limit something, and nothing of 64 and less.
    let space = Space::of(&everything());
    let depths: std::collections::BTreeSet<Option<String>> = space
        .points()
        .iter()
        .map(|point| space.setting(point))
        .filter(|setting| setting.get("iosched.async_depth").is_some())
        .map(|setting| setting.get("nr_requests").map(str::to_owned))
        .collect();
    assert_eq!(depths, [None].into());
    let alone = space.starts.iter().find(|p| space.name(p) == "mq-deadline: async_depth").unwrap();
    let beside = space.neighbours(alone);
    assert!(beside.iter().all(|p| !space.name(p).contains("async_depth + 8 requests")));
    assert!(beside.iter().any(|p| space.name(p).contains("async_depth + device queue 4")));
}

#[test]
fn settings_lead_back_to_their_points() {
    let space = Space::of(&everything());
    for point in space.starts.iter().flat_map(|p| space.neighbours(p)) {
        assert_eq!(space.find(&space.setting(&point)), Some(point));
    }
    let foreign = [("vm.dirty_bytes".to_owned(), "1".to_owned())].into_iter().collect();
    assert_eq!(space.find(&foreign), None);
}
