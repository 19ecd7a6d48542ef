//! Latencies being counted: the sparse form of the [buckets](crate::latency), growing one operation
//! at a time.
//!
//! Dense counters would take 37 KB each, and the probe has one for each process, device and kind of
//! operation; real latencies fill a few hundred buckets.

use crate::latency::{LatencyCounts, bucket_of};

/// A histogram that grows.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// `(bucket, count)`, ascending.
    buckets: Vec<(u16, u64)>,
    sum_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// Counts one operation.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        let bucket = bucket_of(ns) as u16;
        match self.buckets.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => self.buckets[at].1 += 1,
            Err(at) => self.buckets.insert(at, (bucket, 1)),
        }
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> LatencyCounts {
        let buckets = self.buckets.iter().map(|(b, n)| (usize::from(*b), *n));
        LatencyCounts::from_buckets(buckets, self.sum_ns, self.max_ns)
    }

    /// The counts so far; begins again.
    pub fn take(&mut self) -> LatencyCounts {
        let counts = self.counts();
        self.buckets.clear();
        (self.sum_ns, self.max_ns) = (0, 0);
        counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counting_one_by_one_equals_counting_together(
            values in prop::collection::vec(0u64..20_000_000_000, 0..200)
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|ns| histogram.record(*ns));
            prop_assert_eq!(histogram.take(), LatencyCounts::from_values(values));
            prop_assert!(histogram.take().is_empty());
        }
    }
}
