//! What there is to choose from: typed dimensions, built from what a host and device have.
//!
//! ```text
//! Description (drain rate, schedulers, queue, wbt, strict limits …) ─▶ Space { dimensions of levels } ─▶ Point ─▶ Setting
//!                                                                       └ starts: settings known to matter
//! ```
//!
//! Level 0 of every dimension is "as it is": it names no knob, so point 0 is the setting in force. Limits are drain rate × delay, because what a
//! victim waits for is time. Both levers are there: dirty limits bound what waits in RAM, queue geometry (elevator, depth, request size, wbt) what
//! stands in the device's queue ahead of a victim; the latter leaves the write cache alone.

use floodwall_model::Setting;

use crate::objective::Reference;

/// Delays by which limits are tried, in seconds of the drain rate, before writers are made to wait.
const DELAYS_S: [f64; 5] = [0.06, 0.125, 0.25, 0.5, 1.5];
/// The background limit's share of the hard one: the flusher starts early enough that writers seldom meet the hard limit.
const BACKGROUND: f64 = 0.25;
/// Two of the flusher's chunks (fs/fs-writeback.c `writeback_chunk_size`): below, every chunk stops all writers.
const LEAST_LIMIT: u64 = 8 << 20;
/// Delays of a device's own, strict limit.
const STRICT_DELAYS_S: [f64; 2] = [0.25, 1.0];
/// Depths that are tried below the present one.
const DEPTHS: [u64; 4] = [8, 16, 32, 64];
/// Request sizes that are tried below the present one, in KiB.
const REQUESTS_KIB: [u64; 3] = [128, 256, 512];
/// Writeback throttling's targets: off, and the kernel's own for what does not seek and what does, in microseconds (block/blk-wbt.c).
const WBT_US: [u64; 3] = [0, 2_000, 75_000];

/// What a host and device have. What is absent or unknown gives no dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Bytes a second at which the device drains.
    pub drain_bytes_per_s: f64,
    /// The hard dirty limit in force; larger ones are not tried.
    pub hard_limit_bytes: Option<u64>,
    /// Hard dirty limits below this are not tried: something on the machine would hang.
    pub least_hard_bytes: Option<u64>,
    /// What is before a queue's knobs: nothing, or `sda.` for each of the disks below (a logical volume, an array).
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
    /// Whether the device can have a strict limit of its own in bytes (`bdi.strict_limit`, `bdi.max_bytes`; Linux 6.2).
    pub strict_limit: bool,
    /// Whether limits in bytes exist (`vm.dirty_bytes`; after 2.6.24).
    pub byte_limits: bool,
}

impl Description {
    /// A machine of which only what it boots with is known, with one queue: knobs as they read back, the elevators it offers, RAM in bytes. Limits in bytes
    /// and writeback throttling are there if the setting names them; strict limits are not in a setting.
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
        }
    }
}

/// One choice of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// For people; empty for "as it is".
    pub name: String,
    /// What it sets.
    pub knobs: Vec<(String, String)>,
    /// Where it lies among its dimension's levels: how much alike two of them should be.
    pub place: Place,
}

/// A place among levels: octaves along an axis. Levels of different axes (elevators, kinds of limit) are only as alike as any two choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Which axis.
    pub axis: u8,
    /// The logarithm, to base 2, of whatever the level chooses.
    pub octave: f64,
}

impl Eq for Place {}

/// Choices of which exactly one holds.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// In a fixed order; none has a single level.
    pub dimensions: Vec<Dimension>,
    /// Where a search begins: the setting in force, then settings known to matter, the most promising first.
    pub starts: Vec<Point>,
}

impl Space {
    /// The space of a host and device.
    #[must_use]
    pub fn of(d: &Description) -> Self {
        let all = [limits(d), schedulers(d), depths(d), requests(d), wbt(d)];
        let dimensions: Vec<Dimension> =
            all.into_iter().filter(|dimension| dimension.levels.len() > 1).collect();
        let mut space = Self { dimensions, starts: Vec::new() };
        space.starts = space.recipes();
        space
    }

    /// How many points it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.dimensions.iter().map(|d| d.levels.len()).product()
    }

    /// All of them, the setting in force first: a grid.
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
        points
    }

    /// What a point sets.
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

    /// Points that differ in one dimension.
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
        all
    }

    /// The point at which a stored setting lies, if it is one of this space.
    #[must_use]
    pub fn find(&self, setting: &Setting) -> Option<Point> {
        let mut point = self.origin();
        for (i, dimension) in self.dimensions.iter().enumerate() {
            let holds = |level: &Level| level.knobs.iter().all(|(k, v)| setting.get(k) == Some(v.as_str()));
            // The level that says most: "as it is" holds always.
            let best = (0..dimension.levels.len()).filter(|l| holds(&dimension.levels[*l]));
            point[i] = best.max_by_key(|l| dimension.levels[*l].knobs.len()).unwrap_or(0);
        }
        (self.setting(&point) == *setting).then_some(point)
    }

    /// Points made of levels by name; a recipe whose levels are not all here is left out, but one with `*` may be as it is.
    fn recipes(&self) -> Vec<Point> {
        // What was best, or near it, somewhere: in the lab a short queue under bfq with default limits had the fewest dead seconds and small limits the
        // published gains; in the league's grids (docs/league.md) short queues won under each elevator, by device and victim.
        let recipes: [&[&str]; 19] = [
            &[],
            &["bfq", "8 requests*", "128 KiB", "wbt off*"],
            &["mq-deadline*", "16 requests*", "128 KiB", "wbt off*"],
            &["bfq", "8 requests*", "128 KiB", "wbt 75 ms*"],
            &["kyber", "8 requests*", "128 KiB", "wbt off*"],
            &["bfq", "16 requests*"],
            &["none", "16 requests*", "128 KiB", "wbt 75 ms*"],
            &["bfq", "wbt 2 ms*"],
            &["limit 0.25 s"],
            &["bfq", "128 KiB"],
            &["none", "8 requests*", "128 KiB", "wbt off*", "strict 0.25 s"],
            &["none", "wbt 75 ms*"],
            &["bfq", "8 requests*", "128 KiB", "wbt off*", "strict 1 s"],
            &["limit 0.06 s"],
            &["mq-deadline*", "16 requests*", "256 KiB*", "limit 0.5 s"],
            &["limit 1.5 s"],
            &["cfq"],
            &["deadline", "8 requests*", "128 KiB"],
            &["strict 0.25 s"],
        ];
        let mut points: Vec<Point> = Vec::new();
        for recipe in recipes {
            let Some(point) = self.recipe(recipe) else { continue };
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
        Some(point)
    }
}

/// What is in force, at its place; unknown ones are like any other.
fn as_it_is(value: Option<f64>) -> Level {
    let place = value.map_or(Place { axis: u8::MAX, octave: 0.0 }, at);
    Level { name: String::new(), knobs: Vec::new(), place }
}

/// A place on the first axis.
fn at(value: f64) -> Place {
    Place { axis: 0, octave: value.max(1e-9).log2() }
}

/// A target of writeback throttling in octaves of milliseconds: to be off is like a target that nothing misses.
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
            let knobs =
                vec![("bdi.max_bytes".into(), bytes.to_string()), ("bdi.strict_limit".into(), "1".into())];
            let place = Place { axis: 1, ..at(*delay) };
            levels.push(Level { name: format!("strict {delay} s ({} MiB)", bytes >> 20), knobs, place });
        }
    }
    Dimension { name: "limit", levels }
}

/// A level that sets one knob of every queue.
fn of_queues(d: &Description, name: String, knob: &str, value: &str, place: Place) -> Level {
    let knobs = d.queues.iter().map(|queue| (format!("{queue}{knob}"), value.to_owned())).collect();
    Level { name, knobs, place }
}

fn schedulers(d: &Description) -> Dimension {
    let mut levels = vec![as_it_is(None)];
    if !d.queues.is_empty() {
        let others = d.schedulers.iter().filter(|s| Some(*s) != d.scheduler.as_ref());
        let of =
            |(axis, s): (u8, &String)| of_queues(d, s.clone(), "scheduler", s, Place { axis, octave: 0.0 });
        levels.extend((0..u8::MAX).zip(others).map(of));
    }
    Dimension { name: "scheduler", levels }
}

fn depths(d: &Description) -> Dimension {
    let mut levels = vec![as_it_is(d.nr_requests.map(|n| n as f64))];
    for n in
        DEPTHS.into_iter().filter(|n| !d.queues.is_empty() && d.nr_requests.is_some_and(|now| n * 2 <= now))
    {
        levels.push(of_queues(d, format!("{n} requests"), "nr_requests", &n.to_string(), at(n as f64)));
    }
    Dimension { name: "depth", levels }
}

fn requests(d: &Description) -> Dimension {
    let mut levels = vec![as_it_is(d.max_sectors_kb.map(|n| n as f64))];
    for n in REQUESTS_KIB
        .into_iter()
        .filter(|n| !d.queues.is_empty() && d.max_sectors_kb.is_some_and(|now| *n < now))
    {
        levels.push(of_queues(d, format!("{n} KiB"), "max_sectors_kb", &n.to_string(), at(n as f64)));
    }
    Dimension { name: "request", levels }
}

fn wbt(d: &Description) -> Dimension {
    let mut levels = vec![Level { place: d.wbt_lat_us.map_or(at(1.0), wbt_place), ..as_it_is(None) }];
    for us in
        WBT_US.into_iter().filter(|us| !d.queues.is_empty() && d.wbt_lat_us.is_some_and(|now| now != *us))
    {
        let name = if us == 0 { "wbt off".to_owned() } else { format!("wbt {} ms", us / 1_000) };
        levels.push(of_queues(d, name, "wbt_lat_usec", &us.to_string(), wbt_place(us)));
    }
    Dimension { name: "wbt", levels }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn array() -> Description {
        Description {
            drain_bytes_per_s: 250e6,
            hard_limit_bytes: Some(4 << 30),
            least_hard_bytes: None,
            queues: vec![String::new()],
            scheduler: Some("mq-deadline".into()),
            schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(String::from).to_vec(),
            nr_requests: Some(256),
            max_sectors_kb: Some(1024),
            wbt_lat_us: Some(2_000),
            strict_limit: true,
            byte_limits: true,
        }
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
        let short_queue =
            settings.iter().any(|s| s.get("nr_requests").is_some() && s.get("vm.dirty_bytes").is_none());
        let small_limit =
            settings.iter().any(|s| s.get("vm.dirty_bytes").is_some() && s.get("nr_requests").is_none());
        let together =
            settings.iter().any(|s| s.get("vm.dirty_bytes").is_some() && s.get("nr_requests").is_some());
        assert!(short_queue && small_limit && together, "{settings:?}");
        assert_eq!(space.size(), 8 * 4 * 5 * 4 * 3);
        assert_eq!(space.name(&space.starts[1]), "bfq + 8 requests + 128 KiB + wbt off");
    }

    #[test]
    fn what_a_device_lacks_is_no_dimension() {
        let network = Description { drain_bytes_per_s: 100e6, byte_limits: true, ..Description::default() };
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

    #[test]
    fn knobs_of_disks_below_are_named_with_them() {
        let space = Space::of(&Description { queues: vec!["sda.".into(), "sdb.".into()], ..array() });
        let setting = space.setting(&space.starts[1]);
        assert_eq!(setting.get("sda.scheduler"), Some("bfq"));
        assert_eq!(setting.get("sdb.nr_requests"), Some("8"));
    }

    #[test]
    fn settings_lead_back_to_their_points() {
        let space = Space::of(&array());
        for point in space.starts.iter().flat_map(|p| space.neighbours(p)) {
            assert_eq!(space.find(&space.setting(&point)), Some(point));
        }
        let foreign = [("vm.dirty_bytes".to_owned(), "1".to_owned())].into_iter().collect();
        assert_eq!(space.find(&foreign), None);
    }
}
