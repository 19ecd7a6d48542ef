//! Percentiles of counted latencies.
//!
//! ```text
//! LatencyCounts ─┬─ percentile_ns ──▶ Option<ns>         nearest rank, None with too few samples
//!                └─ Percentiles::of ▶ mean p50 … max      microseconds, as results print them
//! ```
//!
//! **Which percentile.** The nearest-rank definition (Hyndman & Fan 1996, definition 1): the
//! smallest latency with at least p % of the operations at or below it. It is always a latency that
//! happened (to within a bucket, 0.8 %), and it needs no interpolation between a fast and a stalled
//! operation. The bucket's upper end is reported, as HdrHistogram does, but never more than the
//! largest latency seen.
//!
//! **When a percentile is absent.** With fewer than 1 / (1 − p) samples the nearest rank is the
//! last one. The "percentile" would be the maximum under another name. So p99 takes 100 samples,
//! p99.9 takes 1,000. Below that the answer is `None`, and [`Tail`] gives the slowest under its own
//! name.
//!
//! Units: nanoseconds inside, microseconds in [`Percentiles`].

use floodwall_model::LatencyCounts;
use serde::{Deserialize, Serialize};

/// How many samples a percentile takes to be more than the maximum under another name: 1 / (1 − p),
/// 1 at 0 and 100 %.
#[must_use]
pub fn samples_needed(percent: f64) -> u64 {
    if percent <= 0.0 || percent >= 100.0 {
        return 1;
    }
    // 99.9 has no exact binary form: without the small allowance p99.9 would take 1,001 samples.
    (100.0 / (100.0 - percent) * (1.0 - 1e-9)).ceil() as u64
}

/// The latency, in nanoseconds, that `percent` % of the operations did not exceed: nearest rank,
/// upper end of its bucket, never more than the largest latency seen. `percent` is clamped to 0 …
/// 100; 100 is the exact maximum.
///
/// `None` with fewer than [`samples_needed`] operations.
#[must_use]
pub fn percentile_ns(counts: &LatencyCounts, percent: f64) -> Option<u64> {
    if counts.count() < samples_needed(percent) {
        return None;
    }
    counts.nearest_rank_ns(percent / 100.0)
}

/// The percentiles of a result, in microseconds. `None`: too few samples for that one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Median.
    pub p50: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p999: Option<f64>,
    /// The longest, exact.
    pub max: f64,
}

impl Percentiles {
    /// Of counted latencies; `None` when nothing was counted.
    #[must_use]
    pub fn of(counts: &LatencyCounts) -> Option<Self> {
        let at = |percent| percentile_ns(counts, percent).map(us);
        Some(Self {
            mean: counts.mean_ns()? / 1e3,
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            max: us(counts.max_ns()),
        })
    }

    /// Their slow end: p99, or the slowest of too few operations.
    #[must_use]
    pub fn tail(&self) -> Tail {
        Tail::from(self.p99, self.max)
    }
}

/// Which figure describes the slow end of some latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TailKind {
    /// The 99th percentile: of 100 operations or more.
    P99,
    /// The slowest operation: of fewer than 100.
    Slowest,
}

impl TailKind {
    /// As tables and sentences call it: `p99`, `slowest`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P99 => "p99",
            Self::Slowest => "slowest",
        }
    }
}

/// The slow end of some latencies. This type alone decides whether that is called p99 or slowest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Which figure it is.
    pub kind: TailKind,
    /// Its value, in microseconds.
    pub us: f64,
}

impl Tail {
    /// Of counted latencies; `None` when nothing was counted.
    #[must_use]
    pub fn of(counts: &LatencyCounts) -> Option<Self> {
        (!counts.is_empty())
            .then(|| Self::from(percentile_ns(counts, 99.0).map(us), us(counts.max_ns())))
    }

    /// The p99 where there is one, else the slowest; both in microseconds.
    #[must_use]
    pub fn from(p99_us: Option<f64>, slowest_us: f64) -> Self {
        match p99_us {
            Some(us) => Self { kind: TailKind::P99, us },
            None => Self { kind: TailKind::Slowest, us: slowest_us },
        }
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use floodwall_model::hdr::to_histogram;
    use floodwall_model::latency::MAX_NS;
    use proptest::prelude::*;

    use super::*;

    /// The definition, on raw values.
    fn nearest_rank(sorted: &[u64], percent: f64) -> u64 {
        let rank = (percent * sorted.len() as f64 / 100.0 - 1e-9).ceil().max(1.0) as usize;
        sorted[rank - 1]
    }

    #[test]
    fn p99_takes_100_samples_and_p999_takes_1000() {
        for (percent, needed) in
            [(50.0, 2), (90.0, 10), (99.0, 100), (99.9, 1_000), (99.99, 10_000), (100.0, 1)]
        {
            assert_eq!(samples_needed(percent), needed, "{percent}");
            let few = LatencyCounts::from_values(1..needed);
            assert_eq!(percentile_ns(&few, percent), None, "{percent}");
            let enough = LatencyCounts::from_values(1..=needed);
            assert!(percentile_ns(&enough, percent).is_some(), "{percent}");
        }
    }

    #[test]
    fn with_just_enough_samples_a_percentile_is_not_the_maximum() {
        let mut values = vec![10u64; 999];
        values.push(5_000_000_000);
        let counts = LatencyCounts::from_values(values);
        assert_eq!(percentile_ns(&counts, 99.9), Some(10));
        assert_eq!(percentile_ns(&counts, 100.0), Some(5_000_000_000));
    }

    #[test]
    fn the_slow_end_is_called_p99_from_100_operations_on() {
        let of = |n: u64| {
            Tail::of(&LatencyCounts::from_values((1..=n).map(|ms| ms * 1_000_000))).unwrap()
        };
        assert_eq!(of(99), Tail { kind: TailKind::Slowest, us: 99_000.0 });
        // Buckets are up to 0.8 % wide.
        let p99 = of(100);
        assert_eq!(p99.kind, TailKind::P99);
        assert!((p99.us / 99_000.0 - 1.0).abs() < 0.009, "{p99:?}");
        assert_eq!(Tail::of(&LatencyCounts::default()), None);
        assert_eq!([TailKind::P99, TailKind::Slowest].map(TailKind::name), ["p99", "slowest"]);
    }

    #[test]
    fn nothing_counted_has_no_percentiles() {
        assert_eq!(Percentiles::of(&LatencyCounts::default()), None);
        assert_eq!(percentile_ns(&LatencyCounts::from_values([1, 2, 3]), f64::NAN), None);
    }

    #[test]
    fn a_percentile_never_exceeds_the_largest_latency_seen() {
        // 1,000,003 is at the lower end of a bucket 4,096 wide.
        let counts = LatencyCounts::from_values(vec![1_000_003; 1_000]);
        let p = Percentiles::of(&counts).unwrap();
        assert_eq!((p.p50, p.p999, p.max), (Some(1000.003), Some(1000.003), 1000.003));
        assert_eq!(p.mean, 1000.003);
    }

    #[test]
    fn what_is_beyond_the_range_reports_the_exact_maximum() {
        let counts = LatencyCounts::from_values(vec![2 * MAX_NS; 10]);
        assert_eq!(percentile_ns(&counts, 50.0), Some(2 * MAX_NS));
    }

    /// Latencies from nanoseconds to minutes, with repeats.
    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        let one = prop_oneof![
            0u64..300,
            1_000u64..2_000_000,
            1_000_000u64..100_000_000_000,
            Just(MAX_NS)
        ];
        prop::collection::vec(one, 1..2_500)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn percentiles_agree_with_sorted_values_to_within_a_bucket(
            mut values in latencies(),
            percent in prop_oneof![Just(50.0), Just(90.0), Just(99.0), Just(99.9), 0.0..100.0f64],
        ) {
            let counts = LatencyCounts::from_values(values.iter().copied());
            values.sort_unstable();
            if let Some(found) = percentile_ns(&counts, percent) {
                let exact = nearest_rank(&values, percent);
                prop_assert!(found >= exact && found - exact <= exact / 128, "{found} for {exact}");
                prop_assert!(found <= *values.last().unwrap());
            } else {
                prop_assert!((values.len() as f64) < 100.0 / (100.0 - percent));
            }
        }

        #[test]
        fn percentiles_agree_with_hdrhistogram(values in latencies(), percent in 1.0..100.0f64) {
            let counts = LatencyCounts::from_values(values.iter().copied());
            let histogram = to_histogram(&counts).unwrap();
            prop_assert_eq!(histogram.len(), counts.count());
            if let Some(found) = percentile_ns(&counts, percent) {
                let theirs = histogram.value_at_quantile(percent / 100.0);
                prop_assert_eq!(found, theirs.min(counts.max_ns()));
            }
        }
    }
}
