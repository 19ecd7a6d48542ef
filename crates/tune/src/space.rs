//! The search space: typed dimensions, built from the knobs of a host and device.
//!
//! ```text
//! Description (drain rate, schedulers, queue, wbt, strict limits …)
//!   ─▶ Space { dimensions of levels } ─▶ Point ─▶ Setting
//!        └ starts: settings known to matter
//! ```
//!
//! Level 0 of every dimension is "as it is": it names no knob, so point 0 is the setting in force.
//! Limits are drain rate × delay, because a victim waits for a time. There are two levers. Limits
//! of the machine, the device, or the flood's control group (which is then paced too) bound the
//! dirty pages in RAM. Queue geometry (elevator and its tunables, depth, request size, wbt) bounds
//! the requests ahead of a victim in the device's queue. It leaves the write cache alone. Mutually
//! exclusive choices form one dimension: elevators with their tunables; limits of the machine, of
//! the device, of the flood's group.
//!
//! A search begins with points that were good on that kind of device, those that freeze no queue
//! first (`space/known.rs`).

mod known;
#[cfg(test)]
mod tests;

use floodwall_model::Setting;
use floodwall_model::setting::VICTIMS_PRIORITY;
use floodwall_model::units::Rate;

pub use known::Kind;
use known::{PRIORITY, RECIPES, Recipe, TUNABLES, Tunables, Value, freezes};

use crate::objective::Reference;

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

/// The knobs of a host and a device. An absent or unknown knob gives no dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The device's kind; `None` if the kernel does not say.
    pub kind: Option<Kind>,
    /// Bytes a second at which the device drains.
    pub drain_bytes_per_s: f64,
    /// Bytes a second that the flood writes alone and the device takes.
    pub flood_bytes_per_s: f64,
    /// Whether victims and floods have separate control groups.
    pub groups: bool,
    /// Whether the flood can be paced: it has a separate control group, which the kernel charges
    /// for its writeback (cgroup v2).
    pub paced: bool,
    /// Memory that can be dirtied, in bytes; `None`: the hard limit is the kernel's default share
    /// of it.
    pub dirtyable_bytes: Option<u64>,
    /// The hard dirty limit in force; larger ones are not tried.
    pub hard_limit_bytes: Option<u64>,
    /// Hard dirty limits below this are not tried: something on the machine would hang.
    pub least_hard_bytes: Option<u64>,
    /// The prefix of a queue's knobs: nothing, or `sda.` for each of the disks below (a logical
    /// volume, an array).
    pub queues: Vec<String>,
    /// The elevator in use.
    pub scheduler: Option<String>,
    /// All that the device offers.
    pub schedulers: Vec<String>,
    /// Requests that the queue admits now.
    pub nr_requests: Option<u64>,
    /// Largest request now, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// The present target in microseconds; `None` where there is no writeback throttling.
    pub wbt_lat_us: Option<u64>,
    /// Whether the device can have a strict limit in bytes (`bdi.strict_limit`, `bdi.max_bytes`;
    /// Linux 6.2).
    pub strict_limit: bool,
    /// Whether limits in bytes exist (`vm.dirty_bytes`; after 2.6.24).
    pub byte_limits: bool,
    /// Whether the elevators' tunables and the victims' priority are choices too.
    pub tunables: bool,
    /// Whether bfq divides its tags among groups and priorities (CONFIG_BFQ_GROUP_IOSCHED). Where
    /// it does not, or that is not known (`None`), the victims' priority is tried last: without it
    /// best-effort 0 was slower in one run. It is tried last with [`Self::groups`] too: bfq
    /// divides by the groups' weights first.
    pub bfq_groups: Option<bool>,
    /// Whether a thread of ext4 commits the journal: it is raised along with the victims.
    pub ext4_journal: bool,
    /// Whether a victim reads.
    pub reads: bool,
    /// How many requests the device itself takes at once; `None` where that is not a knob
    /// (`device.queue_depth`).
    pub device_depth: Option<u64>,
}

impl Description {
    /// A machine with one queue whose settings at boot alone are known: knobs as they read back,
    /// the elevators on offer, RAM in bytes. Limits in bytes and writeback throttling are there if
    /// the setting names them. Strict limits are not in a setting.
    #[must_use]
    pub fn of_machine(
        in_force: &Setting,
        schedulers: Vec<String>,
        ram_bytes: u64,
        strict_limit: bool,
        reference: &Reference,
    ) -> Self {
        let number = |knob: &str| in_force.get(knob).and_then(|v| v.parse().ok());
        Self {
            drain_bytes_per_s: reference.drain_bytes_per_s,
            flood_bytes_per_s: reference.flood_bytes_per_s,
            // A fifth of what can be dirtied, which is nearly all of RAM on an idle machine.
            hard_limit_bytes: Some(ram_bytes / 5),
            least_hard_bytes: None,
            queues: vec![String::new()],
            scheduler: in_force.get("scheduler").map(str::to_owned),
            schedulers,
            nr_requests: number("nr_requests"),
            max_sectors_kb: number("max_sectors_kb"),
            wbt_lat_us: number("wbt_lat_usec"),
            strict_limit,
            byte_limits: in_force.get("vm.dirty_bytes").is_some(),
            ..Self::default()
        }
    }
}

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

/// A level for each dimension.
pub type Point = Vec<usize>;

/// Everything that can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// In a fixed order; none has a single level.
    pub dimensions: Vec<Dimension>,
    /// Where a search begins: the setting in force, then settings known to matter, the most
    /// promising first.
    pub starts: Vec<Point>,
    /// Whether bfq weighs a priority within a control group alone.
    pub(crate) bfq_groups: bool,
}

impl Space {
    /// The space of a host and device.
    #[must_use]
    pub fn of(d: &Description) -> Self {
        let all = [limits(d), elevators(d), depths(d), requests(d), wbt(d)];
        let dimensions: Vec<Dimension> =
            all.into_iter().filter(|dimension| dimension.levels.len() > 1).collect();
        let bfq_groups = d.bfq_groups == Some(true);
        let mut space = Self { dimensions, starts: Vec::new(), bfq_groups };
        space.starts = space.recipes(d);
        space
    }

    /// Leaves out the levels that are refused by themselves, and what begins with them. Gives their
    /// names, each with the reason.
    pub fn leave_out(
        &mut self,
        refusal: impl Fn(&Setting) -> Option<String>,
    ) -> Vec<(String, String)> {
        let starts: Vec<Setting> = self.starts.iter().map(|point| self.setting(point)).collect();
        let mut left_out = Vec::new();
        for levels in self.dimensions.iter_mut().map(|dimension| &mut dimension.levels) {
            levels.retain(|level| {
                let setting: Setting = level.knobs.iter().cloned().collect();
                let refused = if setting.is_empty() { None } else { refusal(&setting) };
                let stays = refused.is_none();
                left_out.extend(refused.map(|why| (level.name.clone(), why)));
                stays
            });
        }
        self.dimensions.retain(|dimension| dimension.levels.len() > 1);
        self.starts = starts.iter().filter_map(|setting| self.find(setting)).collect();
        left_out
    }

    /// How many combinations of levels it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.dimensions.iter().map(|d| d.levels.len()).product()
    }

    /// All of them that differ in effect, the setting in force first: a grid.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Vec::new()];
        for dimension in &self.dimensions {
            let extend = |p: Point| {
                (0..dimension.levels.len())
                    .map(move |level| p.iter().copied().chain([level]).collect::<Point>())
            };
            points = points.into_iter().flat_map(extend).collect();
        }
        points.retain(|point| !self.is_moot(point));
        points
    }

    /// Whether a point does what a simpler one does. Its `async_depth` is not below its
    /// `nr_requests`, so it limits nothing (block/mq-deadline.c `dd_limit_depth`). Or it raises the
    /// victims under a bfq with group support and puts the flood into another group: bfq weighs a
    /// priority within its group (block/bfq-cgroup.c `bfq_init_entity`).
    fn is_moot(&self, point: &Point) -> bool {
        let knobs = || self.levels(point).flat_map(|level| &level.knobs);
        let number = |knob: &str| {
            let found = knobs().find(|(name, _)| name.ends_with(knob));
            found.and_then(|(_, value)| value.parse::<u64>().ok())
        };
        let sets = |prefix: &str| knobs().any(|(name, _)| name.starts_with(prefix));
        number(ASYNC_DEPTH).zip(number("nr_requests")).is_some_and(|(limit, depth)| limit >= depth)
            || (self.bfq_groups && sets(VICTIMS_PRIORITY) && sets(FLOODS_GROUP))
    }

    /// The setting of a point.
    #[must_use]
    pub fn setting(&self, point: &Point) -> Setting {
        self.levels(point).flat_map(|level| level.knobs.iter().cloned()).collect()
    }

    /// A point's name: its levels' names.
    #[must_use]
    pub fn name(&self, point: &Point) -> String {
        let names: Vec<&str> =
            self.levels(point).map(|l| l.name.as_str()).filter(|n| !n.is_empty()).collect();
        if names.is_empty() { "default".into() } else { names.join(" + ") }
    }

    fn levels<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = &'a Level> {
        self.dimensions.iter().zip(point).filter_map(|(d, level)| d.levels.get(*level))
    }

    /// The setting in force.
    #[must_use]
    pub fn origin(&self) -> Point {
        vec![0; self.dimensions.len()]
    }

    /// Points that differ in one dimension, and in effect.
    #[must_use]
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let mut all = Vec::new();
        for (i, dimension) in self.dimensions.iter().enumerate() {
            for level in (0..dimension.levels.len()).filter(|level| point.get(i) != Some(level)) {
                let mut other = point.clone();
                other[i] = level;
                all.push(other);
            }
        }
        all.retain(|point| !self.is_moot(point));
        all
    }

    /// The point at which a stored setting lies, if it is one of this space.
    #[must_use]
    pub fn find(&self, setting: &Setting) -> Option<Point> {
        let mut point = self.origin();
        for (i, dimension) in self.dimensions.iter().enumerate() {
            let holds =
                |level: &Level| level.knobs.iter().all(|(k, v)| setting.get(k) == Some(v.as_str()));
            // The level that says most: "as it is" holds always.
            let best = (0..dimension.levels.len()).filter(|l| holds(&dimension.levels[*l]));
            point[i] = best.max_by_key(|l| dimension.levels[*l].knobs.len()).unwrap_or(0);
        }
        (self.setting(&point) == *setting).then_some(point)
    }

    /// Points made of named levels: first the setting in force, then the recipes that are known to
    /// be good on such a device, then the other recipes. Of both, those that freeze no queue come
    /// first. A priority that bfq may not honour comes last.
    fn recipes(&self, d: &Description) -> Vec<Point> {
        let known = |recipe: &Recipe| match d.kind {
            Some(kind) => recipe.good_on.contains(&kind),
            None => !recipe.good_on.is_empty(),
        };
        let mut found: Vec<((bool, bool, bool), Point)> = RECIPES
            .iter()
            .filter_map(|recipe| {
                let point = self.recipe(recipe.levels)?;
                let setting = self.setting(&point);
                let raised = setting.get(VICTIMS_PRIORITY).is_some();
                let doubtful = raised && (d.groups || d.bfq_groups != Some(true));
                let freezing = setting.0.keys().any(|knob| freezes(knob));
                Some(((doubtful, !known(recipe), freezing), point))
            })
            .collect();
        found.sort_by_key(|(order, _)| *order);
        let mut points = vec![self.origin()];
        for (_, point) in found {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    fn recipe(&self, names: &[&str]) -> Option<Point> {
        let mut point = self.origin();
        for name in names {
            let optional = name.ends_with('*');
            let name = name.trim_end_matches('*');
            let found = self.dimensions.iter().enumerate().find_map(|(i, d)| {
                let level = d
                    .levels
                    .iter()
                    .position(|l| l.name == name || l.name.starts_with(&format!("{name} (")))?;
                Some((i, level))
            });
            match found {
                Some((i, level)) => point[i] = level,
                None if optional => {}
                None => return None,
            }
        }
        (!self.is_moot(&point)).then_some(point)
    }
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

fn limits(d: &Description) -> Dimension {
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
const FLOODS_GROUP: &str = "flood:";
/// Requests that all but synchronous reads hold at most under mq-deadline.
const ASYNC_DEPTH: &str = "iosched.async_depth";
/// How much less alike each further choice of tunables of an elevator is, in octaves: far less than
/// another elevator is.
const TUNABLES_OCTAVES: f64 = 0.1;
/// The axis of the victims' priority, which makes another thing of an elevator than its tunables
/// do.
const PRIORITY_AXIS: u8 = u8::MAX - 1;

/// Every elevator as it boots and under each choice of its tunables.
fn elevators(d: &Description) -> Dimension {
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
    let everywhere = tunables.on.len() == known::KINDS;
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
fn depths(d: &Description) -> Dimension {
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

fn requests(d: &Description) -> Dimension {
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

fn wbt(d: &Description) -> Dimension {
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
