//! Families of levers, one setting each. They are named here once, before anything is measured;
//! none is chosen by what a cell gave.

use floodwall_model::Setting;

use crate::cells::{Cell, Pace, Place};

/// The flood's group gets these shares of what the device takes from the flood alone.
const GAINS: [(&str, f64); 3] = [("paced 87 %", 0.87), ("paced 75 %", 0.75), ("paced 50 %", 0.5)];

/// A family's name and its setting, as kernel files take it.
pub(crate) type Family = (&'static str, Setting);

/// Knobs and values.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A loop device begins without an elevator, where a disk has mq-deadline.
const DISK: Pairs<'_> = &[("scheduler", "mq-deadline")];
const LIMITS: Pairs<'_> =
    &[("vm.dirty_bytes", "15000000"), ("vm.dirty_background_bytes", "5000000")];
const SHORT: Pairs<'_> =
    &[("scheduler", "mq-deadline"), ("nr_requests", "8"), ("max_sectors_kb", "128")];
const TUNED_DEADLINE: Pairs<'_> = &[
    ("scheduler", "mq-deadline"),
    ("iosched.writes_starved", "8"),
    ("iosched.fifo_batch", "1"),
    ("iosched.read_expire", "50"),
];
const BFQ: Pairs<'_> = &[("scheduler", "bfq")];
const TUNED_BFQ: Pairs<'_> =
    &[("scheduler", "bfq"), ("iosched.timeout_sync", "8"), ("iosched.low_latency", "0")];
const FIRST: Pairs<'_> = &[("victim.ioprio", "be/0")];

/// The families of a place; the first is what the others are compared with. `flood_bytes_per_s` is
/// what the device takes from the flood alone.
pub(crate) fn of(cell: &Cell, flood_bytes_per_s: f64) -> Vec<Family> {
    let family = |name, parts: &[Pairs<'_>]| {
        let pairs = parts.iter().copied().flatten();
        (name, pairs.map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())).collect())
    };
    match cell.place {
        Place::Host => vec![
            family("default", &[DISK]),
            family("15 MB", &[DISK, LIMITS]),
            family("short queue", &[SHORT]),
            family("mq-deadline tuned", &[TUNED_DEADLINE]),
            family("bfq", &[BFQ]),
            family("bfq tuned", &[TUNED_BFQ]),
            family("priority", &[BFQ, FIRST]),
            family("priority and 15 MB", &[BFQ, FIRST, LIMITS]),
        ],
        Place::Guest => {
            let paced = GAINS.map(|(name, gain)| {
                let rate = format!("wbps={:.0}", gain * flood_bytes_per_s);
                family(name, &[&[("flood:io.max", &rate), ("flood:memory.high", "134217728")]])
            });
            let others = [("default", &[][..]), ("15 MB", &[LIMITS]), ("short queue", &[SHORT])];
            others.into_iter().map(|(name, parts)| family(name, parts)).chain(paced).collect()
        }
    }
}

/// About how long a cell takes in the lab. Every setting has a phase of both; victim and flood
/// alone run under the first only.
pub(crate) fn minutes(cell: &Cell, pace: Pace) -> u32 {
    let phases = of(cell, 1.0).len() as u32 + 2;
    (phases * pace.rounds * (pace.measure_s + 10) + 60).div_ceil(60)
}
