//! Stalls: what a victim's worst seconds were like.
//!
//! ```text
//! Phase ─ windows ─▶ [Window: about one second each]
//!   ─ assess(iops alone) ─▶ dead seconds, stalls, worst second
//! ```
//!
//! A **dead second** is a one-second window in which the victim got less than 10 % of its IOPS
//! alone. A mean hides them. A victim that runs at full speed for nine seconds and stands still for
//! the tenth keeps 90 % of its IOPS. It loses every client with a timeout under a second. A
//! **stall** is a run of dead seconds without a break.
//!
//! Windows are as long as the intervals that were measured. A longer one, taken late because the
//! machine itself stood still, counts as the whole seconds that it lasted. A rest of less than half
//! a second doesn't count.

use floodwall_model::trial::Phase;
use serde::{Deserialize, Serialize};

use crate::estimate::Ratio;
use crate::share;

/// A second is dead when the victim gets less than this share of its IOPS alone in it.
pub const DEAD_BELOW: f64 = 0.10;

/// About one second of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Start, in seconds since the phase's measured part began.
    pub start_s: f64,
    /// Length in seconds.
    pub seconds: f64,
    /// Victim operations completed in it.
    pub ops: f64,
}

impl Window {
    /// Operations a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        if self.seconds > 0.0 { self.ops / self.seconds } else { 0.0 }
    }

    /// The whole seconds that it stands for.
    #[must_use]
    pub fn whole_seconds(&self) -> u64 {
        self.seconds.round() as u64
    }

    /// Whether it is dead, given the victim's IOPS alone.
    #[must_use]
    pub fn is_dead(&self, iops_alone: f64) -> bool {
        self.iops() < DEAD_BELOW * iops_alone
    }
}

/// Seconds of each round that are dead, and all of them.
pub(crate) fn dead(rounds: &[Vec<Window>], iops_alone: f64) -> Vec<(f64, f64)> {
    let seconds = |w: &Window| (if w.is_dead(iops_alone) { w.seconds } else { 0.0 }, w.seconds);
    let sum = |round: &Vec<Window>| {
        round
            .iter()
            .map(seconds)
            .fold((0.0, 0.0), |sum, window| (sum.0 + window.0, sum.1 + window.1))
    };
    rounds.iter().map(sum).collect()
}

/// The lowest and the highest end of an interval that depends on the rate alone, over all values
/// that this rate may have: it is measured as well. One round of it has no interval; it is taken as
/// known within a factor of 2.
pub(crate) fn over_alone(
    alone: &Ratio,
    miss: f64,
    ends: impl Fn(f64) -> Option<(f64, f64)>,
) -> Option<(f64, f64)> {
    let (slow, fast) = alone.ends(miss).unwrap_or((alone.value / 2.0, alone.value * 2.0));
    let all = [slow, alone.value, fast].map(ends).into_iter().collect::<Option<Vec<_>>>()?;
    all.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The ends of the interval of the share of dead seconds that misses the truth with a chance of
/// `miss`; `None` of one round.
pub(crate) fn dead_ends(rounds: &[Vec<Window>], alone: &Ratio, miss: f64) -> Option<(f64, f64)> {
    over_alone(alone, miss, |iops| share::ends(&dead(rounds, iops), miss))
}

/// The windows of a phase, in order. An interval into which several seconds were merged gives that
/// many windows.
#[must_use]
pub fn windows(phase: &Phase) -> Vec<Window> {
    let of_interval = |i: &floodwall_model::Interval| {
        let (start, each) = (i.start_s, i.seconds / i.victim_ops.len().max(1) as f64);
        i.victim_ops
            .iter()
            .enumerate()
            .map(|(k, ops)| Window {
                start_s: start + k as f64 * each,
                seconds: each,
                ops: f64::from(*ops),
            })
            .collect::<Vec<_>>()
    };
    phase.intervals.iter().flat_map(of_interval).collect()
}

/// A run of dead seconds without a break.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Start, in seconds since the phase's measured part began.
    pub start_s: f64,
    /// Length in whole seconds.
    pub seconds: u64,
}

/// What the worst seconds of a phase were like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Dead one-second windows.
    pub dead_seconds: u64,
    /// Of this many.
    pub of_seconds: u64,
    /// IOPS of the slowest window of at least half a second, and when it began; `None` without
    /// one.
    pub worst: Option<Window>,
    /// In order of time.
    pub stalls: Vec<Stall>,
}

impl Stalls {
    /// Length of the longest stall in seconds, 0 without one.
    #[must_use]
    pub fn longest_s(&self) -> u64 {
        self.stalls.iter().map(|s| s.seconds).max().unwrap_or(0)
    }
}

/// Finds dead seconds and stalls.
#[must_use]
pub fn assess(windows: &[Window], iops_alone: f64) -> Stalls {
    let mut found = Stalls { worst: worst(windows), ..Stalls::default() };
    let mut stalled = false;
    for window in windows.iter().filter(|w| w.whole_seconds() > 0) {
        let seconds = window.whole_seconds();
        found.of_seconds += seconds;
        let dead = window.is_dead(iops_alone);
        if dead {
            found.dead_seconds += seconds;
            match found.stalls.last_mut() {
                Some(stall) if stalled => stall.seconds += seconds,
                _ => found.stalls.push(Stall { start_s: window.start_s, seconds }),
            }
        }
        stalled = dead;
    }
    found
}

/// The slowest window of at least half a second, the first of several.
#[must_use]
pub fn worst(windows: &[Window]) -> Option<Window> {
    windows
        .iter()
        .filter(|w| w.whole_seconds() > 0)
        .min_by(|a, b| a.iops().total_cmp(&b.iops()))
        .copied()
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::{Interval, OpLatencies, PhaseKind, Warmup};

    use super::*;

    fn seconds(ops: &[u32]) -> Vec<Window> {
        ops.iter()
            .enumerate()
            .map(|(i, n)| Window { start_s: i as f64, seconds: 1.0, ops: f64::from(*n) })
            .collect()
    }

    #[test]
    fn a_second_under_a_tenth_is_dead() {
        let found = assess(&seconds(&[1000, 100, 99, 0, 1200]), 1000.0);
        assert_eq!((found.dead_seconds, found.of_seconds), (2, 5), "exactly a tenth is not dead");
        assert_eq!(found.stalls, [Stall { start_s: 2.0, seconds: 2 }]);
        assert_eq!(found.worst.map(|w| (w.start_s, w.iops())), Some((3.0, 0.0)));
    }

    #[test]
    fn a_break_ends_a_stall() {
        let found = assess(&seconds(&[0, 0, 0, 500, 0, 500, 0]), 1000.0);
        let lengths: Vec<_> = found.stalls.iter().map(|s| (s.start_s, s.seconds)).collect();
        assert_eq!(lengths, [(0.0, 3), (4.0, 1), (6.0, 1)]);
        assert_eq!(found.longest_s(), 3);
    }

    #[test]
    fn nothing_is_dead_beside_nothing() {
        let found = assess(&seconds(&[0, 0]), 0.0);
        assert_eq!((found.dead_seconds, found.longest_s()), (0, 0));
        assert_eq!(assess(&[], 1000.0), Stalls::default());
    }

    #[test]
    fn a_window_counts_as_the_whole_seconds_that_it_lasted() {
        let mut w = seconds(&[1000, 0, 1000, 0]);
        w[1].seconds = 3.2;
        w[3].seconds = 0.3;
        let found = assess(&w, 1000.0);
        assert_eq!((found.dead_seconds, found.of_seconds), (3, 5));
        assert_eq!(found.longest_s(), 3);
    }

    #[test]
    fn merged_intervals_keep_their_seconds() {
        let interval = |start_s, ops: &[u32]| Interval {
            start_s,
            seconds: ops.len() as f64,
            victim_ops: ops.to_vec(),
            ..Interval::default()
        };
        let phase = Phase {
            kind: PhaseKind::Both,
            start_s: 9.0,
            seconds: 4.0,
            warmup: Warmup::default(),
            intervals: vec![interval(0.0, &[5, 6]), interval(2.0, &[7]), interval(3.0, &[8])],
            overrun: OpLatencies::default(),
            victims: vec![],
            floods: vec![],
            burst: None,
            cut_short: None,
        };
        assert_eq!(windows(&phase), seconds(&[5, 6, 7, 8]));
    }
}
