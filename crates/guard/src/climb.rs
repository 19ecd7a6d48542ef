//! The score of levels. It is the score by which `tune` races settings, measured while the guard
//! steers.
//!
//! ```text
//! score = victims' speed × flood's speed × e^(−3 × share of dead time)
//! victims' speed = 1 / mean wait of an operation
//! ```
//!
//! Each speed is a share of the speed without the other side, where that was measured. It counts
//! from 0.1 to 100 %. With a goal of the administrator's the victims' factor is (goal / mean
//! wait)², at most 1: beyond the goal only the flood counts.

use std::collections::VecDeque;
use std::time::Duration;

use crate::estimate::Estimate;

/// Charge for the share of dead time, as a logarithm. It is the same as `tune`'s.
const DEAD_CHARGE: f64 = 3.0;
/// Time is dead if victims have less than this share of their speed alone, and not at all from
/// twice this share on. Between the two it is dead in part, because the speed alone is not known
/// exactly.
const DEAD_BELOW: f64 = 0.05;
/// The least share, because zero has no logarithm. It is lower than `tune`'s, whose trials are
/// longer: a flood that stands still must differ from one at a hundredth of its speed.
const LEAST_SHARE: f64 = 1e-3;
/// Exponent of goal over latency.
const GOAL_WEIGHT: f64 = 2.0;
/// The most slots that a level keeps.
const SLOTS: usize = 24;
/// How long a slot is kept: devices change by themselves. It is long enough for three times
/// [`crate::config::LAST_SLOTS`] of the longest slots, which [`Tally::slowdown`] compares.
const MEMORY: Duration = Duration::from_secs(40);
/// A slot lasts for so many operations of a victim that is alone …
const SLOT_OPERATIONS: f64 = 5.0;
/// … but not less and not more than this, in seconds.
const SHORTEST_SLOT: f64 = 0.5;
const LONGEST_SLOT: f64 = 2.0;

/// The references of the shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Whole {
    /// Mean wait of an operation without a flood, in seconds.
    pub(crate) wait_s: Option<f64>,
    /// The most that the device drains, in bytes a second.
    pub(crate) drain: Option<f64>,
    /// The administrator's goal, in seconds.
    pub(crate) goal_s: Option<f64>,
}

/// Stands for the drain rate while that is unknown, in bytes a second.
const UNKNOWN_DRAIN: f64 = 1e8;

fn share(value: f64) -> f64 {
    value.clamp(LEAST_SHARE, 1.0).ln()
}

/// Sums over a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// When it ended.
    at: Duration,
    seconds: f64,
    operations: f64,
    /// Seconds that operations waited, summed: those that ended, and all while they were under way.
    waited_s: f64,
    under_way_s: f64,
    flooded: f64,
}

impl Slot {
    fn add(&mut self, e: &Estimate) {
        self.seconds += e.tick.as_secs_f64();
        self.operations += e.ended as f64;
        self.waited_s += e.waited.as_secs_f64();
        self.under_way_s += e.under_way.as_secs_f64();
        self.flooded += e.flooded_bytes as f64;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            at: self.at.max(other.at),
            seconds: self.seconds + other.seconds,
            operations: self.operations + other.operations,
            waited_s: self.waited_s + other.waited_s,
            under_way_s: self.under_way_s + other.under_way_s,
            flooded: self.flooded + other.flooded,
        }
    }

    /// The mean wait of an operation, in seconds. It is the larger of two estimates. One is from
    /// operations that ended, the other from operations under way (Little's law), which also sees
    /// those that do not end. If none ended, half of one is assumed.
    fn wait_s(self) -> f64 {
        (self.waited_s.max(self.under_way_s) / self.operations.max(0.5)).max(1e-6)
    }

    fn flood(self) -> f64 {
        self.flooded / self.seconds.max(1e-6)
    }

    /// Which part of the slot was dead, from 0 to 1.
    fn dead(self, whole: &Whole) -> f64 {
        let share = whole.wait_s.map_or(1.0, |alone| alone / self.wait_s());
        (2.0 - share / DEAD_BELOW).clamp(0.0, 1.0)
    }

    /// Logarithm of the victims' factor.
    fn victims(self, whole: &Whole) -> f64 {
        match (whole.goal_s, whole.wait_s) {
            (Some(goal), _) => -GOAL_WEIGHT * (self.wait_s().max(goal) / goal).ln(),
            (None, Some(alone)) => share(alone / self.wait_s()),
            (None, None) => -self.wait_s().ln(),
        }
    }

    /// Logarithm of the score without the charge for dead time.
    fn worth(self, whole: &Whole) -> f64 {
        let drain = whole.drain.unwrap_or(UNKNOWN_DRAIN);
        self.victims(whole) + share(self.flood() / drain.max(1.0))
    }
}

/// The recent slots of a level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    slots: VecDeque<Slot>,
    open: Slot,
    /// Totals of this visit.
    fresh: Fresh,
}

/// Totals since the level was entered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fresh {
    pub(crate) slots: usize,
    pub(crate) seconds: f64,
    pub(crate) operations: f64,
}

impl Tally {
    /// One tick at the level.
    pub(crate) fn add(&mut self, now: Duration, e: &Estimate, whole: &Whole) {
        self.open.add(e);
        self.open.at = now;
        while self.slots.front().is_some_and(|slot| slot.at + MEMORY < now) {
            self.slots.pop_front();
        }
        let wanted = whole.wait_s.map_or(SHORTEST_SLOT, |alone| SLOT_OPERATIONS * alone);
        if self.open.seconds + 1e-3 >= wanted.clamp(SHORTEST_SLOT, LONGEST_SLOT) {
            let slot = std::mem::take(&mut self.open);
            if slot.operations < 1.0 && slot.under_way_s <= 0.0 {
                // No operation ended or waited in this slot.
                return;
            }
            self.fresh.slots += 1;
            self.fresh.seconds += slot.seconds;
            self.fresh.operations += slot.operations;
            self.slots.push_back(slot);
            if self.slots.len() > SLOTS {
                self.slots.pop_front();
            }
        }
    }

    /// Begins a visit to the level: its totals start at zero.
    pub(crate) fn enter(&mut self) {
        (self.open, self.fresh) = (Slot::default(), Fresh::default());
    }

    pub(crate) fn fresh(&self) -> Fresh {
        self.fresh
    }

    /// Dead seconds since the level was entered.
    pub(crate) fn dead_s(&self, whole: &Whole) -> f64 {
        self.slots.iter().rev().take(self.fresh.slots).map(|s| s.dead(whole) * s.seconds).sum()
    }

    /// The share of dead time, from 0 to 1.
    pub(crate) fn dead_share(&self, whole: &Whole) -> f64 {
        self.slots.iter().map(|s| s.dead(whole)).sum::<f64>() / (self.slots.len() as f64).max(1.0)
    }

    /// Keeps the last slots and forgets the rest.
    pub(crate) fn keep_last(&mut self, slots: usize) {
        while self.slots.len() > slots {
            self.slots.pop_front();
        }
    }

    fn sum(&self) -> Slot {
        self.slots.iter().fold(Slot::default(), |sum, slot| sum.plus(*slot))
    }

    /// Whether victims have a smaller share than the flood.
    pub(crate) fn victims_have_less(&self, whole: &Whole) -> bool {
        let sum = self.sum();
        sum.victims(whole) < sum.worth(whole) - sum.victims(whole)
    }

    /// The logarithm of the victims' factor alone; `None` without slots.
    pub(crate) fn victims(&self, whole: &Whole) -> Option<f64> {
        (!self.slots.is_empty()).then(|| self.sum().victims(whole))
    }

    /// The logarithm of the score with its standard error; `None` without slots.
    pub(crate) fn score(&self, whole: &Whole) -> Option<(f64, f64)> {
        if self.slots.is_empty() {
            return None;
        }
        let n = self.slots.len() as f64;
        let score = self.sum().worth(whole) - DEAD_CHARGE * self.dead_share(whole);
        let worths: Vec<f64> = self.slots.iter().map(|s| s.worth(whole)).collect();
        let mean = worths.iter().sum::<f64>() / n;
        let variance = worths.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Some((score, (variance / n).sqrt()))
    }

    /// The mean wait of an operation, and the flood's bytes a second.
    pub(crate) fn rates(&self) -> Option<(Duration, f64)> {
        let sum = self.sum();
        (sum.seconds > 0.0).then(|| (Duration::from_secs_f64(sum.wait_s().min(1e6)), sum.flood()))
    }

    /// How many times longer operations wait, and how many times longer the flood takes for a byte,
    /// in the last slots than in the first ones. As many slots between the two count for neither.
    /// Each factor is the one nearest to 1 among the last slots. It is below 1 if all became
    /// faster, and 1 if they disagree. `None` if there are too few slots, or no flood in the first
    /// ones.
    pub(crate) fn slowdown(&self, last: usize) -> Option<(f64, f64)> {
        let before = self.slots.len().checked_sub(2 * last).filter(|n| *n >= last)?;
        let old = self.slots.iter().take(before).fold(Slot::default(), |sum, slot| sum.plus(*slot));
        let new = || self.slots.iter().skip(before + last);
        let waits = new().map(|slot| slot.wait_s() / old.wait_s());
        let floods = new().map(|slot| old.flood() / slot.flood().max(1.0));
        (old.flooded > 0.0).then(|| (agreed(waits), agreed(floods)))
    }
}

/// The factor nearest to 1 if all are on one side of it, else 1.
fn agreed(factors: impl Iterator<Item = f64>) -> f64 {
    let (least, most) = factors.fold((f64::INFINITY, 0.0), |(a, b), f| (f.min(a), f.max(b)));
    if least > 1.0 {
        least
    } else if most < 1.0 {
        most
    } else {
        1.0
    }
}
