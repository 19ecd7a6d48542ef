//! What levels are worth, and which to try next: the score by which `tune` races settings, measured
//! while the levers are pulled.
//!
//! ```text
//! score = victims' speed × flood's speed × e^(−3 × share of dead time)      speed of victims: 1 / what an operation waits for
//! ```
//!
//! Each speed is a share of what was seen while nobody disturbed the other, where that was seen,
//! between 0.1 and 100 %. With a goal of the administrator's the victims' factor is (goal / what
//! they wait)², at most 1: beyond the goal only the flood counts.

use std::collections::VecDeque;
use std::time::Duration;

use crate::estimate::Estimate;

/// Charged for each share of dead time, as a logarithm; as `tune` does.
const DEAD_CHARGE: f64 = 3.0;
/// Time is dead with less than this share of what a victim has alone, and not at all with twice it:
/// what it has alone is not known that well.
const DEAD_BELOW: f64 = 0.05;
/// A share of nothing has no logarithm. Lower than `tune`'s, whose trials are longer: a flood that
/// stands still is to be told from one that has a hundredth.
const LEAST_SHARE: f64 = 1e-3;
/// Exponent of goal over latency.
const GOAL_WEIGHT: f64 = 2.0;
/// Slots that are remembered of a level.
const SLOTS: usize = 24;
/// … and for how long: devices change by themselves. Long enough for three times
/// [`crate::config::LAST_SLOTS`] of the longest slots, by which it is told that they have.
const MEMORY: Duration = Duration::from_secs(40);
/// A slot is long enough for so many operations of a victim that is alone …
const SLOT_OPERATIONS: f64 = 5.0;
/// … and no shorter nor longer than this, in seconds.
const SHORTEST_SLOT: f64 = 0.5;
const LONGEST_SLOT: f64 = 2.0;

/// What shares are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Whole {
    /// What an operation waits for alone, in seconds.
    pub(crate) wait_s: Option<f64>,
    /// Bytes a second that the device drains by itself.
    pub(crate) drain: Option<f64>,
    /// The administrator's goal, in seconds.
    pub(crate) goal_s: Option<f64>,
}

/// Bytes a second that stand for what a device drains while nothing is known of it.
const UNKNOWN_DRAIN: f64 = 1e8;

fn share(value: f64) -> f64 {
    value.clamp(LEAST_SHARE, 1.0).ln()
}

/// What happened within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// When it ended.
    at: Duration,
    seconds: f64,
    operations: f64,
    /// Seconds that operations waited, all together: of those that ended, and of all while they
    /// were under way.
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

    /// What an operation waited for, in seconds: by those that ended, or, if others don't end, by
    /// how many were under way (J. D. C. Little's law). Of none that ended, as if one were about
    /// to.
    fn wait_s(self) -> f64 {
        (self.waited_s.max(self.under_way_s) / self.operations.max(0.5)).max(1e-6)
    }

    fn flood(self) -> f64 {
        self.flooded / self.seconds.max(1e-6)
    }

    /// How dead it was, from 0 to 1.
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

    /// Logarithm of what it is worth, without what dead time is charged.
    fn worth(self, whole: &Whole) -> f64 {
        let drain = whole.drain.unwrap_or(UNKNOWN_DRAIN);
        self.victims(whole) + share(self.flood() / drain.max(1.0))
    }
}

/// What a level has been worth lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    slots: VecDeque<Slot>,
    open: Slot,
    /// What was seen on this visit.
    fresh: Fresh,
}

/// What was seen of a level since it was entered.
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
                // Nobody was there to wait.
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

    /// The level is entered: what is seen from now on is of this visit.
    pub(crate) fn enter(&mut self) {
        (self.open, self.fresh) = (Slot::default(), Fresh::default());
    }

    pub(crate) fn fresh(&self) -> Fresh {
        self.fresh
    }

    /// Dead seconds of what was seen since it was entered.
    pub(crate) fn dead_s(&self, whole: &Whole) -> f64 {
        self.slots.iter().rev().take(self.fresh.slots).map(|s| s.dead(whole) * s.seconds).sum()
    }

    /// Which share of its time was dead, from 0 to 1.
    pub(crate) fn dead_share(&self, whole: &Whole) -> f64 {
        self.slots.iter().map(|s| s.dead(whole)).sum::<f64>() / (self.slots.len() as f64).max(1.0)
    }

    /// The last slots only, as a tally of its own; the rest is forgotten.
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

    /// The logarithm of the victims' factor alone; `None` of nothing.
    pub(crate) fn victims(&self, whole: &Whole) -> Option<f64> {
        (!self.slots.is_empty()).then(|| self.sum().victims(whole))
    }

    /// The logarithm of its score, and how uncertain that is (one standard error); `None` of
    /// nothing.
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

    /// What an operation waited for, and bytes a second of the flood; for people, and for what
    /// changes about a device.
    pub(crate) fn rates(&self) -> Option<(Duration, f64)> {
        let sum = self.sum();
        (sum.seconds > 0.0).then(|| (Duration::from_secs_f64(sum.wait_s().min(1e6)), sum.flood()))
    }

    /// By which factors what an operation waits for and the flood's time a byte are longer in each
    /// of the last slots, at least, than in those before, with as many between that belong to
    /// neither; below 1: shorter in each. `None` if there are too few.
    pub(crate) fn slowdown(&self, last: usize) -> Option<(f64, f64)> {
        let before = self.slots.len().checked_sub(2 * last).filter(|n| *n >= last)?;
        let old = self.slots.iter().take(before).fold(Slot::default(), |sum, slot| sum.plus(*slot));
        let new = || self.slots.iter().skip(before + last);
        let waits = new().map(|slot| slot.wait_s() / old.wait_s());
        let floods = new().map(|slot| old.flood() / slot.flood().max(1.0));
        (old.flooded > 0.0).then(|| (agreed(waits), agreed(floods)))
    }
}

/// The factor nearest to 1 if all are on one side of it.
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
