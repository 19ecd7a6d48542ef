//! How latencies and interval figures are distributed.
//!
//! ```text
//! record(ns) ─────────┬▶ Moments: n, min, max, mean, deviation
//!                     └▶ bins: 0 ≤ ns < 128 one a nanosecond, then 64 an octave
//! LatencyCounts, Moments ─▶ Distribution: two of their buckets are one bin
//! ```

use floodwall_model::latency::bucket_low_ns;
use floodwall_model::{LatencyCounts, Moments};

/// Bins of an octave, as a power of two.
const BITS: u32 = 6;
/// Bins: 2^6 for each of 29 groups. The last one ends at 2^34 ns, 17 s.
const BINS: usize = 29 << BITS;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Their moments, exact.
    pub moments: Moments,
    /// Counts by bin; empty before the first.
    bins: Vec<u64>,
}

impl Distribution {
    /// From counts in finer buckets, and the moments that those lack.
    #[must_use]
    pub fn new(moments: Moments, counts: &LatencyCounts) -> Self {
        let mut distribution = Self { moments, bins: Vec::new() };
        for (bucket, n) in counts.buckets() {
            distribution.count(bucket_low_ns(bucket), n);
        }
        distribution
    }

    /// Adds a latency.
    pub fn record(&mut self, ns: u64) {
        self.moments.record(ns);
        self.count(ns, 1);
    }

    /// Adds another's latencies.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        for (bin, n) in other.bins() {
            self.count(bin_value(bin), n);
        }
    }

    /// Without its bins: extremes, mean and deviation are known, percentiles are not.
    #[must_use]
    pub fn without_bins(moments: Moments) -> Self {
        Self { moments, bins: Vec::new() }
    }

    fn count(&mut self, ns: u64, n: u64) {
        if self.bins.is_empty() {
            self.bins = vec![0; BINS];
        }
        if let Some(bin) = self.bins.get_mut(bin_of(ns)) {
            *bin += n;
        }
    }

    fn bins(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.bins.iter().copied().enumerate().filter(|(_, n)| *n > 0)
    }

    /// Counts by value, ascending: each value stands for its bin, and is about its middle.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bins().map(|(bin, n)| (bin_value(bin), n))
    }

    /// The value of the bin in which each percentile lies, for percentiles in ascending order.
    #[must_use]
    pub fn percentiles(&self, list: &[f64]) -> Vec<u64> {
        // In whole numbers: 99.9 is a little more than its name says, so that of 1,000 latencies
        // the last one is meant and not that before.
        let scale = 1_u64 << 52;
        let total: u64 = self.bins().map(|(_, n)| n).sum();
        let (mut bins, mut seen, mut value) = (self.values(), 0_u64, 0);
        let one = |percent: &f64| {
            let wanted = (percent * scale as f64) as u128 * u128::from(total);
            while seen == 0 || u128::from(seen) * 100 * u128::from(scale) < wanted {
                let Some((at, n)) = bins.next() else { break };
                (seen, value) = (seen + n, at);
            }
            value
        };
        list.iter().map(one).collect()
    }
}

fn bin_of(ns: u64) -> usize {
    let highest = 63_u32.saturating_sub(ns.leading_zeros());
    if highest <= BITS {
        return ns as usize;
    }
    let shift = highest - BITS;
    let base = (shift as usize + 1) << BITS;
    let within = (ns >> shift) as usize & ((1 << BITS) - 1);
    (base + within).min(BINS - 1)
}

/// The value that stands for a bin.
fn bin_value(bin: usize) -> u64 {
    if bin < 2 << BITS {
        return bin as u64;
    }
    let shift = (bin >> BITS) as u32 - 1;
    let within = (bin & ((1 << BITS) - 1)) as u64;
    (1_u64 << (shift + BITS)) + (within << shift) + (1_u64 << (shift - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values that fio 3.33 printed as percentiles or as bins.
    #[test]
    fn bins_are_those_of_recorded_runs() {
        for value in [540, 660, 1_832, 2_352, 7_328, 13_632, 22_912, 12_224, 454, 286] {
            assert_eq!(bin_value(bin_of(value)), value);
        }
        assert_eq!(bin_value(bin_of(13_592)), 13_632, "the maximum of a run and its percentile");
        assert_eq!(bin_of(u64::MAX), BINS - 1);
    }

    proptest! {
        #[test]
        fn a_bins_value_lies_within_it(ns in 0_u64..1 << 34) {
            let value = bin_value(bin_of(ns));
            prop_assert_eq!(bin_of(value), bin_of(ns));
            prop_assert!(value.abs_diff(ns) * 128 <= ns);
        }

        #[test]
        fn counts_of_finer_buckets_are_the_same(ns in prop::collection::vec(0_u64..1 << 34, 1..9)) {
            let mut one = Distribution::default();
            ns.iter().for_each(|ns| one.record(*ns));
            let counts = LatencyCounts::from_values(ns);
            prop_assert_eq!(&Distribution::new(one.moments, &counts), &one);
        }

        #[test]
        fn merged_parts_are_the_whole(
            a in prop::collection::vec(0_u64..1 << 30, 0..20),
            b in prop::collection::vec(0_u64..1 << 30, 0..20),
        ) {
            let of = |values: &[u64]| {
                let mut all = Distribution::default();
                values.iter().for_each(|ns| all.record(*ns));
                all
            };
            let whole = of(&[a.clone(), b.clone()].concat());
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(&merged.bins, &whole.bins);
            let (m, w) = (merged.moments, whole.moments);
            prop_assert_eq!((m.n, m.min, m.max), (w.n, w.min, w.max));
            prop_assert!((m.mean - w.mean).abs() <= 1e-6 * w.mean.max(1.0));
            prop_assert!((m.squares - w.squares).abs() <= 1e-6 * w.squares.max(1.0));
        }
    }

    #[test]
    fn percentiles_are_the_first_bins_that_reach_them() {
        let mut four = Distribution::default();
        [10, 20, 30, 40].into_iter().for_each(|ns| four.record(ns));
        assert_eq!(four.percentiles(&[1.0, 25.0, 26.0, 75.0, 99.99]), [10, 10, 20, 30, 40]);
        assert_eq!(Distribution::default().percentiles(&[50.0]), [0]);
        let mut many = Distribution::default();
        (0..999).for_each(|_| many.record(1));
        many.record(100);
        assert_eq!(many.percentiles(&[99.0, 99.5, 99.9]), [1, 1, 100], "as fio 3.33");
        assert!((four.moments.deviation() - 12.91).abs() < 0.01);
    }
}
