//! The log-linear buckets in which every latency is counted.
//!
//! ```text
//! 0 ≤ ns < 256         one bucket a nanosecond
//! 256·2^k ≤ ns         128 buckets an octave: a bucket is at most 1/128 (0.8 %) of its value wide
//! ns > MAX_NS          counted in the last bucket; the exact maximum is kept beside
//! ```
//!
//! The layout is that of an HdrHistogram with two significant digits (<http://hdrhistogram.org>),
//! so converting to one loses nothing. It is fixed, so that counters can be allocated once, shared
//! between threads and merged by addition.

/// Values below this have a bucket each.
const LINEAR: u64 = 256;
/// Buckets in each octave above [`LINEAR`].
const PER_OCTAVE: usize = 128;
/// Octaves above [`LINEAR`].
const OCTAVES: usize = 34;

/// How many buckets there are.
pub const BUCKETS: usize = LINEAR as usize + PER_OCTAVE * OCTAVES;
/// The largest latency that has its own bucket: 2^42 − 1 ns, about 73 minutes.
pub const MAX_NS: u64 = (LINEAR << OCTAVES) - 1;

/// The bucket in which a latency is counted.
#[must_use]
#[inline]
pub fn bucket_of(ns: u64) -> usize {
    let ns = if ns > MAX_NS { MAX_NS } else { ns };
    if ns < LINEAR {
        return ns as usize;
    }
    // 8 significant bits: the octave's number and the 7 bits after the leading one.
    let shift = (63 - ns.leading_zeros()) - 7;
    let within = (ns >> shift) as usize - PER_OCTAVE;
    LINEAR as usize + (shift as usize - 1) * PER_OCTAVE + within
}

/// The smallest latency, in nanoseconds, that falls into a bucket.
#[must_use]
pub fn bucket_low_ns(bucket: usize) -> u64 {
    let bucket = bucket.min(BUCKETS - 1);
    if bucket < LINEAR as usize {
        return bucket as u64;
    }
    let above = bucket - LINEAR as usize;
    let shift = above / PER_OCTAVE + 1;
    ((above % PER_OCTAVE + PER_OCTAVE) as u64) << shift
}

/// The largest latency, in nanoseconds, that falls into a bucket.
#[must_use]
pub fn bucket_high_ns(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS { MAX_NS } else { bucket_low_ns(bucket + 1) - 1 }
}

/// How many operations took how long: a sparse histogram with exact count, sum and maximum.
///
/// Merging is exact: buckets, count and sum add, the larger maximum stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    /// `(bucket, count)`, ascending, without zero counts.
    buckets: Vec<(u16, u32)>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl LatencyCounts {
    /// From bucket counts in ascending order; zero counts are left out.
    ///
    /// `max_ns` is the exact maximum; it is widened to the highest bucket's low end if a reader of
    /// live counters caught it too early.
    #[must_use]
    pub fn from_buckets(
        counts: impl IntoIterator<Item = (usize, u64)>,
        sum_ns: u64,
        max_ns: u64,
    ) -> Self {
        let mut out = Self { sum_ns, max_ns, ..Self::default() };
        for (bucket, mut n) in counts {
            debug_assert!(bucket < BUCKETS);
            out.count += n;
            if n > 0 {
                out.max_ns = out.max_ns.max(bucket_low_ns(bucket));
            }
            // More than 2^32 - 1 operations of one latency in one interval take several entries.
            while n > 0 {
                let part = n.min(u64::from(u32::MAX)) as u32;
                out.buckets.push((bucket as u16, part));
                n -= u64::from(part);
            }
        }
        // Histograms are kept for a whole run, and growing by doubling leaves up to half of the
        // memory unused.
        out.buckets.shrink_to_fit();
        out
    }

    /// Bytes that it holds on the heap: 8 for each bucket in use, at most some 37 KB.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<(u16, u32)>()
    }

    /// From single latencies in nanoseconds, in any order.
    #[must_use]
    pub fn from_values(values: impl IntoIterator<Item = u64>) -> Self {
        let mut dense = vec![0u64; BUCKETS];
        let (mut sum, mut max) = (0u64, 0u64);
        for ns in values {
            dense[bucket_of(ns)] += 1;
            sum = sum.saturating_add(ns);
            max = max.max(ns);
        }
        Self::from_buckets(dense.into_iter().enumerate(), sum, max)
    }

    /// `(bucket, count)` pairs, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.buckets.iter().map(|&(b, n)| (usize::from(b), u64::from(n)))
    }

    /// How many operations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sum of all latencies in nanoseconds, exact.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The longest latency in nanoseconds, exact; 0 when nothing was counted.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Arithmetic mean in nanoseconds; `None` when nothing was counted.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The latency that at least this fraction of the operations did not exceed, in nanoseconds. It
    /// is the nearest rank (Hyndman & Fan 1996, definition 1): the upper end of its bucket, never
    /// more than the largest latency seen. A fraction of 1 and above gives the exact maximum, 0 and
    /// below the smallest bucket in use.
    ///
    /// `None` when nothing was counted, or for a NaN. Whether there are enough operations for a
    /// tail is for the caller to say.
    #[must_use]
    pub fn nearest_rank_ns(&self, fraction: f64) -> Option<u64> {
        if self.is_empty() || fraction.is_nan() {
            return None;
        }
        if fraction >= 1.0 {
            return Some(self.max_ns);
        }
        // 0.99 has no exact binary form: without the small allowance p99 of 100 operations could
        // take the 100th.
        let rank = ((fraction * self.count as f64) * (1.0 - 1e-12)).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.buckets().find_map(|(bucket, n)| {
            seen += n;
            (seen >= rank).then_some(bucket)
        });
        // The last bucket also holds latencies beyond the range; of that only the maximum is known.
        let high = bucket.filter(|b| b + 1 < BUCKETS).map_or(self.max_ns, bucket_high_ns);
        Some(high.min(self.max_ns))
    }

    /// Adds another histogram's counts to this one's.
    pub fn merge(&mut self, other: &Self) {
        if other.buckets.is_empty() {
            return;
        }
        let (mut merged, mut mine, mut theirs) = (
            Vec::with_capacity(self.buckets.len() + other.buckets.len()),
            self.buckets().peekable(),
            other.buckets().peekable(),
        );
        loop {
            let next = match (mine.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.0 <= b.0 => mine.next(),
                (_, Some(_)) => theirs.next(),
                (Some(_), None) => mine.next(),
                (None, None) => break,
            };
            let Some((bucket, n)) = next else { break };
            match merged.last_mut() {
                Some((last, total)) if *last == bucket => *total += n,
                _ => merged.push((bucket, n)),
            }
        }
        drop(mine);
        let (sum, max) = (self.sum_ns.saturating_add(other.sum_ns), self.max_ns.max(other.max_ns));
        *self = Self::from_buckets(merged, sum, max);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_tile_the_range_without_gap_or_overlap() {
        assert_eq!(bucket_low_ns(0), 0);
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bucket_low_ns(bucket)), bucket);
            assert_eq!(bucket_of(bucket_high_ns(bucket)), bucket);
        }
        assert_eq!(bucket_high_ns(BUCKETS - 1), MAX_NS);
    }

    #[test]
    fn what_is_beyond_the_range_keeps_its_exact_maximum() {
        let counts = LatencyCounts::from_values([u64::MAX / 2]);
        assert_eq!(counts.max_ns(), u64::MAX / 2);
        assert_eq!(counts.count(), 1);
    }

    #[test]
    fn no_memory_is_kept_for_buckets_that_are_not_used() {
        let mut counts = LatencyCounts::from_values((0..1_000).map(|i| i * 1_000));
        assert_eq!(counts.heap_bytes(), 8 * counts.buckets().count());
        counts.merge(&LatencyCounts::from_values((0..1_000).map(|i| 1_000_000 + i * 7_000)));
        assert_eq!(counts.heap_bytes(), 8 * counts.buckets().count());
    }

    #[test]
    fn a_rank_is_the_nearest_and_the_last_is_exact() {
        let counts = LatencyCounts::from_values(1..=100);
        let rank = |fraction| counts.nearest_rank_ns(fraction);
        assert_eq!([0.0, 0.5, 0.99, 0.991, 1.0].map(rank), [1, 50, 99, 100, 100].map(Some));
        assert_eq!(rank(f64::NAN), None);
        assert_eq!(LatencyCounts::default().nearest_rank_ns(0.5), None);
        let beyond = LatencyCounts::from_values([2 * MAX_NS]);
        assert_eq!(beyond.nearest_rank_ns(0.5), Some(2 * MAX_NS));
    }

    proptest! {
        #[test]
        fn a_bucket_is_at_most_one_128th_of_its_value_wide(ns in 0..=MAX_NS) {
            let bucket = bucket_of(ns);
            let width = bucket_high_ns(bucket) - bucket_low_ns(bucket);
            prop_assert!(bucket_low_ns(bucket) <= ns && ns <= bucket_high_ns(bucket));
            prop_assert!(width * 128 <= ns.max(1) || width == 0);
        }

        #[test]
        fn merging_equals_counting_together(
            a in prop::collection::vec(0u64..10_000_000_000, 0..50),
            b in prop::collection::vec(0u64..10_000_000_000, 0..50),
        ) {
            let mut merged = LatencyCounts::from_values(a.iter().copied());
            merged.merge(&LatencyCounts::from_values(b.iter().copied()));
            prop_assert_eq!(merged, LatencyCounts::from_values(a.into_iter().chain(b)));
        }
    }
}
