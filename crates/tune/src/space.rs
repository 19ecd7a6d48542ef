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

mod description;
mod dimensions;
mod known;
#[cfg(test)]
mod tests;

use floodwall_model::Setting;
use floodwall_model::setting::VICTIMS_PRIORITY;

use dimensions::{ASYNC_DEPTH, FLOODS_GROUP, depths, elevators, limits, requests, wbt};
use known::{RECIPES, Recipe, freezes};

pub use description::Description;
pub use dimensions::{Dimension, Level, Place};
pub use known::Kind;

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
