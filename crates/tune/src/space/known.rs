//! Known levers: tunables that are worth trying under each elevator, and settings that were good
//! on some device.
//!
//! Both are tables. A row says for which kinds of device it is meant; the comment above it says
//! where that is known from.

use floodwall_model::setting::FREEZING;

/// A device's kind, as far as the kernel says. A RAID card with disks behind it is a disk to the
/// kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One queue, and it seeks: a disk, a RAID card, most USB sticks.
    Disk,
    /// Several devices below one (md, LVM).
    Array,
    /// It does not seek.
    SolidState,
}

/// How many kinds there are.
pub(super) const KINDS: usize = ALL.len();

const ALL: &[Kind] = &[Kind::Disk, Kind::Array, Kind::SolidState];
const SEEKS: &[Kind] = &[Kind::Disk, Kind::Array];
const DISK: &[Kind] = &[Kind::Disk];
const DISK_OR_SOLID: &[Kind] = &[Kind::Disk, Kind::SolidState];
const NOT_A_DISK: &[Kind] = &[Kind::Array, Kind::SolidState];
/// Best nowhere that is known of.
const NOWHERE: &[Kind] = &[];

/// A tunable's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// This, as the kernel's file takes it.
    Is(&'static str),
    /// A quarter of `nr_requests`.
    QuarterOfRequests,
}

/// Tunables of an elevator that are set together.
pub(super) struct Tunables {
    pub(super) elevator: &'static str,
    /// For people, after the elevator's name.
    pub(super) name: &'static str,
    pub(super) knobs: &'static [(&'static str, Value)],
    /// On which devices they are tried.
    pub(super) on: &'static [Kind],
    /// Whether only reading victims can gain.
    pub(super) for_reads: bool,
}

/// The victims' priority among the tunables of bfq, which alone divides its tags by it
/// (block/bfq-iosched.c `bfqq_request_over_limit`), among processes of one control group. Best
/// effort: real time can starve writeback, so it runs only where `--set` names it.
pub(super) const PRIORITY: &str = "victims be/0";

const BASE: Tunables =
    Tunables { elevator: "bfq", name: "", knobs: &[], on: ALL, for_reads: false };

pub(super) const TUNABLES: &[Tunables] = &[
    Tunables { name: PRIORITY, knobs: &[("victim.ioprio", Value::Is("be/0"))], ..BASE },
    // An async queue has the largest budget and is charged threefold, so its slot is about a third
    // of this (block/bfq-iosched.c `bfq_calc_max_budget`, `bfq_async_charge_factor`); 125 ms by
    // default.
    Tunables {
        name: "timeout_sync 40 ms",
        knobs: &[("iosched.timeout_sync", Value::Is("40"))],
        ..BASE
    },
    // 1 MiB at a time; by default what the device moves in timeout_sync (`bfq_calc_max_budget`).
    Tunables {
        name: "max_budget 1 MiB",
        knobs: &[("iosched.max_budget", Value::Is("2048"))],
        ..BASE
    },
    // Documentation/block/bfq-iosched.rst: for devices with an internal queue, and arrays.
    Tunables {
        name: "slice_idle 0",
        knobs: &[("iosched.slice_idle_us", Value::Is("0"))],
        on: NOT_A_DISK,
        ..BASE
    },
    // The flood can't be taken for an interactive program and gain weight
    // (`bfq_bfqq_handle_idle_busy_switch`).
    Tunables { name: "low_latency 0", knobs: &[("iosched.low_latency", Value::Is("0"))], ..BASE },
    // One request in the device at a time (`__bfq_dispatch_request`): too few for what serves
    // several at once.
    Tunables {
        name: "strict_guarantees",
        knobs: &[("iosched.strict_guarantees", Value::Is("1"))],
        on: DISK,
        ..BASE
    },
    // All but synchronous reads hold at most so many requests (block/mq-deadline.c
    // `dd_limit_depth`).
    Tunables {
        elevator: "mq-deadline",
        name: "async_depth",
        knobs: &[("iosched.async_depth", Value::QuarterOfRequests)],
        for_reads: true,
        ..BASE
    },
    // Eight batches of reads before one of writes, and small ones (`__dd_dispatch_request`).
    Tunables {
        elevator: "mq-deadline",
        name: "writes_starved 8",
        knobs: &[("iosched.writes_starved", Value::Is("8"))],
        for_reads: true,
        ..BASE
    },
    Tunables {
        elevator: "mq-deadline",
        name: "fifo_batch 2",
        knobs: &[("iosched.fifo_batch", Value::Is("2"))],
        for_reads: true,
        ..BASE
    },
    Tunables {
        elevator: "mq-deadline",
        name: "read_expire 100 ms",
        knobs: &[("iosched.read_expire", Value::Is("100"))],
        for_reads: true,
        ..BASE
    },
    // A kind's depth shrinks while another misses its target and it meets its own: reads small,
    // writes large (block/kyber-iosched.c `kyber_timer_fn`).
    Tunables {
        elevator: "kyber",
        name: "reads 0.5 ms, writes 100 ms",
        knobs: &[
            ("iosched.read_lat_nsec", Value::Is("500000")),
            ("iosched.write_lat_nsec", Value::Is("100000000")),
        ],
        for_reads: true,
        ..BASE
    },
];

/// Levels by name that make a setting.
pub(super) struct Recipe {
    /// `*` marks an optional level. A recipe without a required level is skipped.
    pub(super) levels: &'static [&'static str],
    /// Where it was best, or near it.
    pub(super) good_on: &'static [Kind],
}

const fn recipe(levels: &'static [&'static str], good_on: &'static [Kind]) -> Recipe {
    Recipe { levels, good_on }
}

/// Where a search begins, beside the setting in force.
pub(super) const RECIPES: &[Recipe] = &[
    // docs/frontier.md: kernel 6.1, xfs, a victim that asks for a third of its rate alone. With
    // the flood at half the drain rate the victim kept its full rate on four of six devices.
    // At three quarters it did so on a cloud volume and an NVMe drive.
    recipe(&["paced 0.5"], ALL),
    recipe(&["paced 0.75"], ALL),
    // The lab's raid10-bbwc-2010, kernel 6.18, in one run of 20 s: ten times the commits of bfq
    // alone, with victim and flood in one control group.
    recipe(&["bfq: victims be/0", "wbt off*"], SEEKS),
    // From here on: the league's grids (docs/league.md), by device and victim.
    recipe(&["bfq", "8 requests*", "128 KiB", "wbt off*"], ALL),
    recipe(&["mq-deadline*", "16 requests*", "128 KiB", "wbt off*"], DISK_OR_SOLID),
    recipe(&["bfq", "8 requests*", "128 KiB", "wbt 75 ms*"], ALL),
    recipe(&["kyber", "8 requests*", "128 KiB", "wbt off*"], DISK_OR_SOLID),
    recipe(&["bfq", "16 requests*"], ALL),
    recipe(&["none", "16 requests*", "128 KiB", "wbt 75 ms*"], DISK_OR_SOLID),
    recipe(&["bfq", "wbt 2 ms*"], DISK),
    // Best nowhere that is known of, and each unlike the others. The first is the published one
    // (preset 2010-15MB).
    recipe(&["limit 0.25 s"], NOWHERE),
    recipe(&["paced 0.87"], NOWHERE),
    recipe(&["device queue 4"], NOWHERE),
    recipe(&["bfq", "128 KiB"], NOWHERE),
    recipe(&["none", "8 requests*", "128 KiB", "wbt off*", "strict 0.25 s"], NOWHERE),
    recipe(&["none", "wbt 75 ms*"], NOWHERE),
    recipe(&["bfq", "8 requests*", "128 KiB", "wbt off*", "strict 1 s"], NOWHERE),
    recipe(&["limit 0.06 s"], NOWHERE),
    recipe(&["mq-deadline*", "16 requests*", "256 KiB*", "limit 0.5 s"], NOWHERE),
    recipe(&["limit 1.5 s"], NOWHERE),
    recipe(&["cfq"], NOWHERE),
    recipe(&["deadline", "8 requests*", "128 KiB"], NOWHERE),
    recipe(&["strict 0.25 s"], NOWHERE),
    recipe(&["mq-deadline: async_depth*"], NOWHERE),
];

/// Whether each write to a knob drains and freezes a queue.
pub(super) fn freezes(knob: &str) -> bool {
    FREEZING.iter().any(|name| {
        knob.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}
