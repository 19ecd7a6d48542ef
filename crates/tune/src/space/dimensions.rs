//! The dimensions of a host and device: what limits, elevators and queues may be set to.

use floodwall_model::units::Rate;

use super::description::Description;
use super::known::{KINDS, PRIORITY, TUNABLES, Tunables, Value};

/// Delays by which limits are tried, in seconds of the drain rate, before writers are made to wait.
const DELAYS_S: [f64; 5] = [0.06, 0.125, 0.25, 0.5, 1.5];
/// The background limit's share of the hard one: the flusher starts early enough that writers
/// seldom meet the hard limit.
const BACKGROUND: f64 = 0.25;
/// Two of the flusher's chunks (fs/fs-writeback.c `writeback_chunk_size`): below, every chunk stops
/// all writers.
const LEAST_LIMIT: u64 = 8 << 20;
/// Shares of the flood's rate alone at which a paced flood may write: below 1 the backlog waits in
/// the flood's dirty pages and not in the device.
const PACES: [f64; 3] = [0.5, 0.75, 0.87];
/// `memory.high` of a paced flood at least.
const PACED_MEMORY: u64 = 128 << 20;
/// How long the dirty pages of a paced flood last at its rate, in seconds: `io.max` lets a tenth of
/// a second through at once (block/blk-throttle.c `DFL_THROTL_SLICE`).
const PACED_S: f64 = 0.1;
/// The share of memory that may be dirty as the kernel boots (`vm.dirty_ratio`).
const DIRTY_RATIO: f64 = 0.2;
/// Delays of a device's own, strict limit.
const STRICT_DELAYS_S: [f64; 2] = [0.25, 1.0];
/// Depths that are tried below the present one.
const DEPTHS: [u64; 4] = [8, 16, 32, 64];
/// Depths of a SCSI device's own queue that are tried below the present one; 1 switches a SATA
/// disk's command queueing off.
const DEVICE_DEPTHS: [u64; 3] = [1, 4, 8];
/// Request sizes that are tried below the present one, in KiB.
const REQUESTS_KIB: [u64; 3] = [128, 256, 512];
/// Writeback throttling's targets: off, and the kernel's own for what does not seek and what does,
/// in microseconds (block/blk-wbt.c).
const WBT_US: [u64; 3] = [0, 2_000, 75_000];

/// One choice of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// For people; empty for "as it is".
    pub name: String,
    /// Knobs and values.
    pub knobs: Vec<(String, String)>,
    /// Where it lies among its dimension's levels: how much alike two of them should be.
    pub place: Place,
}

/// A place among levels: octaves along an axis. Levels of different axes (elevators, kinds of
/// limit) are only as alike as any two choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Which axis.
    pub axis: u8,
    /// The logarithm, to base 2, of the level's value.
    pub octave: f64,
}

impl Eq for Place {}

/// Exclusive choices: exactly one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// For people.
    pub name: &'static str,
    /// Level 0 sets nothing.
    pub levels: Vec<Level>,
}

/// The value in force, at its place; unknown values are like any other.
fn as_it_is(value: Option<f64>) -> Level {
    let place = value.map_or(Place { axis: u8::MAX, octave: 0.0 }, at);
    Level { name: String::new(), knobs: Vec::new(), place }
}

/// A place on the first axis.
fn at(value: f64) -> Place {
    Place { axis: 0, octave: value.max(1e-9).log2() }
}

/// A target of writeback throttling in octaves of milliseconds: to be off is like a target that
/// nothing misses.
fn wbt_place(us: u64) -> Place {
    at(if us == 0 { 256.0 } else { us as f64 / 1e3 })
}

fn whole_mib(bytes: f64) -> u64 {
    ((bytes / f64::from(1 << 20)).round() as u64) << 20
}

pub(super) fn limits(d: &Description) -> Dimension {
    let delay_in_force = d.hard_limit_bytes.map(|b| b as f64 / d.drain_bytes_per_s.max(1.0));
    let mut levels = vec![as_it_is(delay_in_force)];
    let in_force = d.hard_limit_bytes.unwrap_or(u64::MAX);
    let known = d.drain_bytes_per_s.is_finite() && d.drain_bytes_per_s > 0.0;
    for delay in DELAYS_S.iter().filter(|_| known && d.byte_limits) {
        let hard = whole_mib(d.drain_bytes_per_s * delay).max(LEAST_LIMIT);
        let knobs = vec![
            (
                "vm.dirty_background_bytes".into(),
                whole_mib(hard as f64 * BACKGROUND).max(1 << 20).to_string(),
            ),
            ("vm.dirty_bytes".into(), hard.to_string()),
        ];
        // A slow device's smallest delays all come to the least limit.
        let hangs = d.least_hard_bytes.is_some_and(|least| hard < least);
        if !hangs && hard < in_force / 5 * 4 && !levels.iter().any(|l: &Level| l.knobs == knobs) {
            let name = format!("limit {delay} s ({} MiB)", hard >> 20);
            levels.push(Level { name, knobs, place: at(*delay) });
        }
    }
    for delay in STRICT_DELAYS_S.iter().filter(|_| known && d.strict_limit) {
        let bytes = whole_mib(d.drain_bytes_per_s * delay).max(LEAST_LIMIT);
        if bytes < in_force / 5 * 4 {
            let knobs = vec![
                ("bdi.max_bytes".into(), bytes.to_string()),
                ("bdi.strict_limit".into(), "1".into()),
            ];
            let place = Place { axis: 1, ..at(*delay) };
            levels.push(Level {
                name: format!("strict {delay} s ({} MiB)", bytes >> 20),
                knobs,
                place,
            });
        }
    }
    levels.extend(paces(d));
    Dimension { name: "limit", levels }
}

/// The flood's group gets a rate below what the device takes, and a dirty limit. So its backlog is
/// neither in the device nor counted for others. Without `memory.high` the machine's limit would
/// stop all writers.
fn paces(d: &Description) -> impl Iterator<Item = Level> {
    let possible = d.paced && d.flood_bytes_per_s.is_finite() && d.flood_bytes_per_s > 0.0;
    // A group's dirty pages are the same share of its memory as the machine's of all that can be
    // dirtied (mm/page-writeback.c `domain_dirty_limits`).
    let share = d
        .hard_limit_bytes
        .zip(d.dirtyable_bytes)
        .map_or(DIRTY_RATIO, |(limit, of)| limit as f64 / of.max(1) as f64);
    PACES.into_iter().filter(move |_| possible).map(move |pace| {
        let rate = ((d.flood_bytes_per_s * pace / 1e5).round() * 1e5).max(1e5);
        let dirty = (PACED_S * rate).max(2.0 * LEAST_LIMIT as f64);
        let memory = whole_mib(dirty / share.clamp(1e-6, 1.0)).max(PACED_MEMORY);
        let knobs = vec![
            ("flood:io.max".into(), format!("wbps={rate}")),
            ("flood:memory.high".into(), memory.to_string()),
        ];
        let name = format!("paced {pace} ({})", Rate(rate));
        Level { name, knobs, place: Place { axis: 2, octave: pace.log2() } }
    })
}

/// A level that sets one knob of every queue.
fn of_queues(d: &Description, name: String, knob: &str, value: &str, place: Place) -> Level {
    let knobs = d.queues.iter().map(|queue| (format!("{queue}{knob}"), value.to_owned())).collect();
    Level { name, knobs, place }
}

/// How knobs of the flood's control group begin.
pub(super) const FLOODS_GROUP: &str = "flood:";
/// Requests that all but synchronous reads hold at most under mq-deadline.
pub(super) const ASYNC_DEPTH: &str = "iosched.async_depth";
/// How much less alike each further choice of tunables of an elevator is, in octaves: far less than
/// another elevator is.
const TUNABLES_OCTAVES: f64 = 0.1;
/// The axis of the victims' priority, which makes another thing of an elevator than its tunables
/// do.
const PRIORITY_AXIS: u8 = u8::MAX - 1;

/// Every elevator as it boots and under each choice of its tunables.
pub(super) fn elevators(d: &Description) -> Dimension {
    let mut levels = vec![as_it_is(None)];
    let offered = d.schedulers.iter().filter(|_| !d.queues.is_empty());
    for (i, name) in (0..PRIORITY_AXIS).zip(offered) {
        let in_use = Some(name) == d.scheduler.as_ref();
        let axis = if in_use { levels[0].place.axis } else { i };
        if !in_use {
            levels.push(of_queues(d, name.clone(), "scheduler", name, Place { axis, octave: 0.0 }));
        }
        let requests = d.nr_requests.map(|now| requests_under(d, in_use, now));
        let choices =
            TUNABLES.iter().filter(|t| d.tunables && t.elevator == name && is_tried(d, t));
        for (n, tunables) in (1u32..).zip(choices) {
            let Some(mut level) = of_tunables(d, tunables, requests) else { continue };
            if !in_use {
                level
                    .knobs
                    .extend(of_queues(d, String::new(), "scheduler", name, level.place).knobs);
            }
            level.place = match tunables.name {
                PRIORITY => Place { axis: PRIORITY_AXIS, octave: 0.0 },
                _ => Place { axis, octave: TUNABLES_OCTAVES * f64::from(n) },
            };
            levels.push(level);
        }
    }
    Dimension { name: "scheduler", levels }
}

fn is_tried(d: &Description, tunables: &Tunables) -> bool {
    let everywhere = tunables.on.len() == KINDS;
    d.kind.map_or(everywhere, |kind| tunables.on.contains(&kind))
        && (d.reads || !tunables.for_reads)
}

/// `nr_requests` under an elevator, from that now. A switch from `none`, which has the device's own
/// depth, gives twice as many, of 128 at most (block/blk-mq-sched.c `blk_mq_init_sched`). From
/// another elevator it gives what that began with.
fn requests_under(d: &Description, in_use: bool, now: u64) -> u64 {
    let from_none = !in_use && d.scheduler.as_deref() == Some("none");
    if from_none { 2 * now.min(128) } else { now }
}

/// A level of an elevator's tunables; `None` if a value is not known.
fn of_tunables(d: &Description, tunables: &Tunables, requests: Option<u64>) -> Option<Level> {
    let mut level = as_it_is(None);
    level.name = format!("{}: {}", tunables.elevator, tunables.name);
    for (knob, value) in tunables.knobs {
        let value = match value {
            Value::Is(value) => (*value).to_owned(),
            Value::QuarterOfRequests => (requests? / 4).max(1).to_string(),
        };
        if knob.starts_with("iosched.") {
            level.knobs.extend(of_queues(d, String::new(), knob, &value, level.place).knobs);
        } else {
            level.knobs.push(((*knob).to_owned(), value));
        }
    }
    if tunables.name == PRIORITY && d.ext4_journal {
        level.knobs.push(("journal.ioprio".into(), "be/0".into()));
    }
    Some(level)
}

/// How many requests stand ahead of a victim: fewer in all, or fewer of them in the device.
pub(super) fn depths(d: &Description) -> Dimension {
    let mut levels = vec![as_it_is(d.nr_requests.map(|n| n as f64))];
    for n in DEPTHS
        .into_iter()
        .filter(|n| !d.queues.is_empty() && d.nr_requests.is_some_and(|now| n * 2 <= now))
    {
        levels.push(of_queues(
            d,
            format!("{n} requests"),
            "nr_requests",
            &n.to_string(),
            at(n as f64),
        ));
    }
    for n in DEVICE_DEPTHS
        .into_iter()
        .filter(|n| !d.queues.is_empty() && d.device_depth.is_some_and(|now| n * 2 <= now))
    {
        let place = Place { axis: 1, ..at(n as f64) };
        levels.push(of_queues(
            d,
            format!("device queue {n}"),
            "device.queue_depth",
            &n.to_string(),
            place,
        ));
    }
    Dimension { name: "depth", levels }
}

pub(super) fn requests(d: &Description) -> Dimension {
    let mut levels = vec![as_it_is(d.max_sectors_kb.map(|n| n as f64))];
    for n in REQUESTS_KIB
        .into_iter()
        .filter(|n| !d.queues.is_empty() && d.max_sectors_kb.is_some_and(|now| *n < now))
    {
        levels.push(of_queues(
            d,
            format!("{n} KiB"),
            "max_sectors_kb",
            &n.to_string(),
            at(n as f64),
        ));
    }
    Dimension { name: "request", levels }
}

pub(super) fn wbt(d: &Description) -> Dimension {
    let mut levels =
        vec![Level { place: d.wbt_lat_us.map_or(at(1.0), wbt_place), ..as_it_is(None) }];
    for us in WBT_US
        .into_iter()
        .filter(|us| !d.queues.is_empty() && d.wbt_lat_us.is_some_and(|now| now != *us))
    {
        let name = if us == 0 { "wbt off".to_owned() } else { format!("wbt {} ms", us / 1_000) };
        levels.push(of_queues(d, name, "wbt_lat_usec", &us.to_string(), wbt_place(us)));
    }
    Dimension { name: "wbt", levels }
}
