//! p99 of several rounds with its interval.
//!
//! ```text
//! latencies of each round ─▶ for each latency x: share of all operations slower than x,
//!                            with its error between rounds
//!                         ─▶ every x whose share may be 1 % ─▶ interval
//! ```
//!
//! A p99 of few rounds has no usable error: on a device with two states it jumps from one to the
//! other. The share of operations that are slower than x has one. It is a ratio of two sums over
//! rounds, as in [`crate::estimate`]. The test is inverted (Woodruff 1952; Francisco & Fuller
//! 1991). So x belongs to the interval if that share differs from 1 % by at most t × its error on a
//! log scale. The ratio of two p99 has the interval that follows from both (Zou & Donner 2008), as
//! if they were independent.
//!
//! Where rounds differ as wholes, one of them holds all of the slowest 1 %, and that share says
//! nothing of the rounds to come. So the interval of a ratio also reaches over that of the typical
//! round: t on the logarithms of the rounds' own p99, paired as in [`crate::estimate`]. It leaves
//! "no difference" out only if both do.
//!
//! References: R. S. Woodruff, J. Am. Stat. Assoc. 47 (1952) 635; C. A. Francisco & W. A. Fuller,
//! Ann. Statist. 19 (1991) 454; G. Y. Zou & A. Donner, Stat. Med. 27 (2008) 1693.

use std::collections::BTreeMap;

use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_high_ns;

use crate::estimate::{Pairing, mean_difference};
use crate::quantiles::{self, samples_needed};
use crate::share;
use crate::student::critical_t;
use crate::variance::variance_of_sum;

/// Share of the operations that are slower than the p99.
const SLOWER: f64 = 0.01;

/// The test of that share is made this much stricter than 5 %. Few events hold the slowest 1 %, so
/// its error is underestimated where there were fewer of them than usual. The test in `coverage`
/// counts what that comes to.
const CAUTION: f64 = 0.1;

/// Latencies of several rounds, side by side.
pub(crate) struct Tails {
    /// Logarithms of the rounds' own p99, in microseconds; of fewer than 100 operations of their
    /// slowest, which is no shorter.
    of_rounds: Vec<f64>,
    /// p99 of all operations, in microseconds.
    pub(crate) p99_us: f64,
    steps: Vec<Step>,
}

/// A latency that occurred.
struct Step {
    us: f64,
    /// Of the operations that are slower: logarithm of their share over 1 %, and its standard
    /// error; `None` of the slowest.
    slower: Option<(f64, f64)>,
}

impl Tails {
    /// Of the operations of each round; `None` of fewer than 100 in all, which have no p99.
    pub(crate) fn of(rounds: &[LatencyCounts]) -> Option<Self> {
        let totals: Vec<f64> = rounds.iter().map(|round| round.count() as f64).collect();
        let all: f64 = totals.iter().sum();
        if all < samples_needed(99.0) as f64 {
            return None;
        }
        let mut buckets = BTreeMap::<usize, Vec<f64>>::new();
        for (round, counts) in rounds.iter().enumerate() {
            for (bucket, n) in counts.buckets() {
                buckets.entry(bucket).or_insert_with(|| vec![0.0; rounds.len()])[round] += n as f64;
            }
        }
        let slowest = rounds.iter().map(LatencyCounts::max_ns).max()?;
        let mut slower = vec![0.0; rounds.len()];
        let mut p99_us = None;
        let mut steps = Vec::with_capacity(buckets.len());
        for (bucket, counts) in buckets.into_iter().rev() {
            let sum: f64 = slower.iter().sum();
            let residuals =
                slower.iter().zip(&totals).map(|(slow, total)| slow / sum - total / all);
            let error = variance_of_sum(&residuals.collect::<Vec<_>>()).sqrt();
            let us = bucket_high_ns(bucket).min(slowest) as f64 / 1e3;
            steps
                .push(Step { us, slower: (sum > 0.0).then(|| ((sum / all / SLOWER).ln(), error)) });
            slower.iter_mut().zip(counts).for_each(|(slow, n)| *slow += n);
            // Nearest rank: one in a hundred may be slower, and no more.
            if p99_us.is_none() && slower.iter().sum::<f64>() > (all * SLOWER).floor() {
                p99_us = Some(us);
            }
        }
        let of_rounds =
            rounds.iter().filter_map(quantiles::Tail::of).map(|tail| tail.us.ln()).collect();
        Some(Self { of_rounds, p99_us: p99_us?, steps })
    }

    /// The ends of the interval of [`Self::p99_us`] that misses the truth with a chance of `miss`;
    /// `None` of one round.
    fn ends(&self, miss: f64) -> Option<(f64, f64)> {
        let rounds = self.of_rounds.len();
        let t = critical_t(
            miss * CAUTION,
            rounds.checked_sub(1).filter(|freedom| *freedom > 0)? as f64,
        );
        let may_be = |step: &Step| step.slower.is_some_and(|(away, error)| away.abs() <= t * error);
        let slow = self.steps.iter().position(may_be);
        let fast = self.steps.iter().rposition(may_be);
        // Between this latency and the next slower one the share is the same.
        let high = slow.map_or(self.p99_us, |i| self.steps[i.saturating_sub(1)].us);
        let low = fast.map_or(self.p99_us, |i| self.steps[i].us);
        Some((low.min(self.p99_us), high.max(self.p99_us)))
    }
}

/// The ends of the interval of the ratio of two p99 that misses the truth with a chance of `miss`;
/// `None` with one round.
pub(crate) fn ratio_ends(
    ours: &Tails,
    theirs: &Tails,
    pairing: Pairing,
    miss: f64,
) -> Option<(f64, f64)> {
    let log = |ends: (f64, f64)| (ends.0.ln(), ends.1.ln());
    let (x, y) = (log(ours.ends(miss)?), log(theirs.ends(miss)?));
    let (low, high) = share::difference(ours.p99_us.ln(), x, theirs.p99_us.ln(), y);
    let (typical, error, freedom) = mean_difference(&ours.of_rounds, &theirs.of_rounds, pairing)?;
    let half = critical_t(miss, freedom) * error;
    Some((low.min(typical - half).exp(), high.max(typical + half).exp()))
}
