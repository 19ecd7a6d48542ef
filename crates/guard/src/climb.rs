//! The score of levels, measured while the guard steers.
//!
//! ```text
//! protect: (goal / wait)^8 × flood's speed × e^(−10 × share of dead time)
//!          goal / wait at most 1
//! balance: victims' speed  × flood's speed × e^(−3 × share of dead time)
//!          as `tune` scores a setting
//! ```
//!
//! `wait` is the quantile that is compared with the goal ([`rank`]). A speed is a share of the
//! speed without the other side, where that was measured. It counts from 0.1 to 100 %. Victims'
//! speed is 1 / mean wait of an operation. In mode balance with a goal of the administrator's the
//! victims' factor is (goal / wait)².

use std::collections::VecDeque;
use std::time::Duration;

use floodwall_model::LatencyCounts;

use crate::config::{LEAST_SHARE as FLOOR, Mode, rank};
use crate::estimate::Estimate;

/// Charge for the share of dead time, as a logarithm, in mode balance. It is the same as `tune`'s.
const DEAD_CHARGE: f64 = 3.0;
/// The same in mode protect: a tenth of dead time costs as much as two thirds of the flood's speed.
const DEAD_CHARGE_PROTECT: f64 = 10.0;
/// Time is dead if victims have less than this share of their speed alone, and not at all from
/// twice this share on. Between the two it is dead in part, because the speed alone is not known
/// exactly.
const DEAD_BELOW: f64 = 0.05;
/// The least share, because zero has no logarithm. It is lower than `tune`'s, whose trials are
/// longer: a flood that stands still must differ from one at a hundredth of its speed.
const LEAST_SHARE: f64 = 1e-3;
/// Exponent of goal over latency in mode balance.
const GOAL_WEIGHT: f64 = 2.0;
/// The same in mode protect. A wait of a tenth above the goal costs as much as half of the flood's
/// speed, so the goal goes first.
const GOAL_WEIGHT_PROTECT: f64 = 8.0;
/// Exponent of the flood's share over its floor, below that floor.
const FLOOR_WEIGHT: f64 = 2.0;
/// The most slots that a level keeps.
const SLOTS: usize = 24;
/// How long a slot is kept: devices change by themselves. It is long enough for three times
/// [`crate::config::LAST_SLOTS`] of the longest slots, which [`Samples::slowdown`] compares.
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
    /// The most that the device drains, in bytes a second, or what stands for it.
    pub(crate) drain: f64,
    /// The goal, in seconds; `None` in mode balance without a goal of the administrator's.
    pub(crate) goal_s: Option<f64>,
    /// Whether the administrator has set the goal.
    pub(crate) goal_is_given: bool,
    pub(crate) mode: Mode,
}

impl Whole {
    fn protects(&self) -> bool {
        self.mode == Mode::Protect
    }
}

fn share(value: f64) -> f64 {
    value.clamp(LEAST_SHARE, 1.0).ln()
}

/// Sums over a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// When it ended.
    at: Duration,
    seconds: f64,
    /// Latencies of the operations that ended.
    ended: LatencyCounts,
    /// Seconds that operations were under way, summed.
    under_way_s: f64,
    flooded: f64,
}

impl Slot {
    fn add(&mut self, e: &Estimate) {
        self.seconds += e.tick.as_secs_f64();
        self.ended.merge(&e.ended);
        self.under_way_s += e.under_way.as_secs_f64();
        self.flooded += e.flooded_bytes as f64;
    }

    /// Slots as one.
    fn sum<'a>(slots: impl Iterator<Item = &'a Self>) -> Self {
        slots.fold(Self::default(), |mut sum, slot| {
            sum.at = sum.at.max(slot.at);
            sum.seconds += slot.seconds;
            sum.ended.merge(&slot.ended);
            sum.under_way_s += slot.under_way_s;
            sum.flooded += slot.flooded;
            sum
        })
    }

    fn operations(&self) -> f64 {
        self.ended.count() as f64
    }

    /// Seconds under way for each operation that ended (Little's law), which also sees operations
    /// that do not end. If none ended, half of one is assumed.
    fn under_way_each_s(&self) -> f64 {
        self.under_way_s / self.operations().max(0.5)
    }

    /// The mean wait of an operation, in seconds.
    fn wait_s(&self) -> f64 {
        let ended = self.ended.sum_ns() as f64 / 1e9 / self.operations().max(0.5);
        ended.max(self.under_way_each_s()).max(1e-6)
    }

    /// The wait that is compared with the goal, in seconds.
    fn tail_s(&self, whole: &Whole) -> f64 {
        let rank = rank(whole.goal_is_given, self.ended.count());
        let ended = self.ended.nearest_rank_ns(rank).unwrap_or(0) as f64 / 1e9;
        ended.max(self.under_way_each_s()).max(1e-6)
    }

    fn flood(&self) -> f64 {
        self.flooded / self.seconds.max(1e-6)
    }

    /// Which part of the slot was dead, from 0 to 1.
    fn dead(&self, whole: &Whole) -> f64 {
        let share = whole.wait_s.map_or(1.0, |alone| alone / self.wait_s());
        (2.0 - share / DEAD_BELOW).clamp(0.0, 1.0)
    }

    /// Logarithm of the victims' share of their goal, or of their speed alone.
    fn victims(&self, whole: &Whole) -> f64 {
        match (whole.goal_s, whole.wait_s) {
            (Some(goal), _) => -(self.tail_s(whole).max(goal) / goal).ln(),
            (None, Some(alone)) => share(alone / self.wait_s()),
            (None, None) => -self.wait_s().ln(),
        }
    }

    /// Logarithm of the flood's share of what the device drains.
    fn floods(&self, whole: &Whole) -> f64 {
        share(self.flood() / whole.drain.max(1.0))
    }

    /// Logarithm of the score, before dead seconds lower it. In mode protect a flood that gets less
    /// than [`FLOOR`] of the drain rate loses [`FLOOR_WEIGHT`] times as much again.
    fn worth(&self, whole: &Whole) -> f64 {
        let (victims, floods) = (self.victims(whole), self.floods(whole));
        if whole.protects() {
            let below_floor = (floods - FLOOR.ln()).min(0.0);
            return floods + GOAL_WEIGHT_PROTECT * victims + FLOOR_WEIGHT * below_floor;
        }
        floods + if whole.goal_s.is_some() { GOAL_WEIGHT * victims } else { victims }
    }
}

/// The recent slots of a level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
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

impl Samples {
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
            if slot.ended.is_empty() && slot.under_way_s <= 0.0 {
                // No operation ended or waited in this slot.
                return;
            }
            self.fresh.slots += 1;
            self.fresh.seconds += slot.seconds;
            self.fresh.operations += slot.operations();
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
        Slot::sum(self.slots.iter())
    }

    /// Whether victims have a smaller share than the flood.
    pub(crate) fn victims_have_less(&self, whole: &Whole) -> bool {
        let sum = self.sum();
        sum.victims(whole) < sum.floods(whole)
    }

    /// The logarithm of the victims' share; `None` without slots.
    pub(crate) fn victims(&self, whole: &Whole) -> Option<f64> {
        (!self.slots.is_empty()).then(|| self.sum().victims(whole))
    }

    /// The logarithm of the score with its standard error; `None` without slots.
    pub(crate) fn score(&self, whole: &Whole) -> Option<(f64, f64)> {
        if self.slots.is_empty() {
            return None;
        }
        let n = self.slots.len() as f64;
        let charge = if whole.protects() { DEAD_CHARGE_PROTECT } else { DEAD_CHARGE };
        let score = self.sum().worth(whole) - charge * self.dead_share(whole);
        let worths: Vec<f64> = self.slots.iter().map(|s| s.worth(whole)).collect();
        let mean = worths.iter().sum::<f64>() / n;
        let variance = worths.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Some((score, (variance / n).sqrt()))
    }

    /// The wait of an operation by which the level is judged, and the flood's bytes a second.
    pub(crate) fn rates(&self, whole: &Whole) -> Option<(Duration, f64)> {
        let sum = self.sum();
        let wait = if whole.goal_s.is_some() { sum.tail_s(whole) } else { sum.wait_s() };
        (sum.seconds > 0.0).then(|| (Duration::from_secs_f64(wait.min(1e6)), sum.flood()))
    }

    /// The same of the last slots: the wait in seconds that is compared with the goal, and the
    /// flood's bytes a second. `None` without slots.
    pub(crate) fn last(&self, slots: usize, whole: &Whole) -> Option<(f64, f64)> {
        let slots = slots.min(self.slots.len());
        let sum = Slot::sum(self.slots.iter().rev().take(slots));
        (slots > 0).then(|| (sum.tail_s(whole), sum.flood()))
    }

    /// How many times longer operations wait, and how many times longer the flood takes for a byte,
    /// in the last slots than in the first ones. As many slots between the two count for neither.
    /// Each factor is the one nearest to 1 among the last slots. It is below 1 if all became
    /// faster, and 1 if they disagree. `None` if there are too few slots, or no flood in the first
    /// ones.
    pub(crate) fn slowdown(&self, last: usize) -> Option<(f64, f64)> {
        let before = self.slots.len().checked_sub(2 * last).filter(|n| *n >= last)?;
        let old = Slot::sum(self.slots.iter().take(before));
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
