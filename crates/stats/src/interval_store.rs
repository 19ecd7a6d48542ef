//! The intervals of a phase in bounded memory, however long the phase lasts.
//!
//! ```text
//! push (one a second) ─▶ [1 1 1 1 1 1]  full ─▶ merge neighbours ─▶ [2 2 2]
//!                     ─▶ [2 2 2 2 2 2]  full ─▶ [4 4 4] …
//! ```
//!
//! Whenever the store is full it merges neighbours in pairs, and from then on collects twice as
//! many seconds in each interval. So all intervals of a phase have the same length (the last may be
//! shorter) and at most `limit` are kept.
//!
//! Merging loses resolution in time and nothing else. Latencies and bytes add exactly, and the
//! operations of each single second are kept (4 bytes a second). Counters of the host add; of its
//! gauges the last value stays. A counter that was unreadable in either half is unreadable in the
//! whole, because a partial sum would look like a small one.
//!
//! A second of a slow device takes about 2 KiB of memory. One of a busy victim takes up to about 15
//! KiB (three sparse histograms of some 600 buckets each). A merged interval takes more, because it
//! has seen more latencies. A number of intervals alone is therefore no bound: the store also
//! merges when its size exceeds a number of bytes.

use floodwall_model::trial::{DeviceSample, HostSample, Interval};

/// Down to this many intervals a store merges to save bytes: with fewer, nothing of a phase's
/// course is left.
pub const FEWEST: usize = 2;

/// Intervals of one phase, at most a given number of them and about a given number of bytes.
#[derive(Clone, Debug)]
pub struct IntervalStore {
    intervals: Vec<Interval>,
    limit: usize,
    max_bytes: usize,
    /// Pushed intervals that make up one stored interval.
    stride: u64,
    /// Pushed intervals in the last stored one.
    in_last: u64,
}

impl IntervalStore {
    /// An empty store of at most `limit` intervals; fewer than two are taken as two. It merges as
    /// soon as more than [`FEWEST`] of them take more than `max_bytes`.
    #[must_use]
    pub fn new(limit: usize, max_bytes: usize) -> Self {
        Self { intervals: Vec::new(), limit: limit.max(2), max_bytes, stride: 1, in_last: 0 }
    }

    /// Adds the interval that follows the last one.
    pub fn push(&mut self, interval: Interval) {
        match self.intervals.last_mut() {
            Some(last) if self.in_last < self.stride => {
                merge(last, &interval);
                self.in_last += 1;
            }
            _ => {
                if self.is_full() {
                    self.halve();
                    return self.push(interval);
                }
                self.intervals.push(interval);
                self.in_last = 1;
            }
        }
    }

    fn is_full(&self) -> bool {
        let count = self.intervals.len();
        count == self.limit || (count > FEWEST && self.memory_bytes() > self.max_bytes)
    }

    /// Bytes that the intervals take in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.intervals.iter().map(Interval::memory_bytes).sum()
    }

    /// The stored intervals, in order.
    #[must_use]
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The stored intervals, in order.
    #[must_use]
    pub fn into_intervals(self) -> Vec<Interval> {
        self.intervals
    }

    /// Merges neighbours in pairs. Called only when every stored interval is complete.
    fn halve(&mut self) {
        let count = self.intervals.len();
        let mut halved: Vec<Interval> = Vec::with_capacity(count / 2 + 1);
        for (i, interval) in std::mem::take(&mut self.intervals).into_iter().enumerate() {
            match halved.last_mut() {
                Some(last) if i % 2 == 1 => merge(last, &interval),
                _ => halved.push(interval),
            }
        }
        // Of an odd number the last pair has only its first half, and the next intervals complete
        // it.
        self.in_last = if count % 2 == 1 { self.stride } else { 2 * self.stride };
        self.stride *= 2;
        self.intervals = halved;
    }
}

/// Appends an interval to the one before it.
fn merge(first: &mut Interval, second: &Interval) {
    first.seconds += second.seconds;
    first.victim_ops.extend_from_slice(&second.victim_ops);
    first.latencies.merge(&second.latencies);
    first.victim_bytes += second.victim_bytes;
    first.flood_bytes += second.flood_bytes;
    first.host = merge_host(&first.host, &second.host);
}

fn merge_host(a: &HostSample, b: &HostSample) -> HostSample {
    HostSample {
        dirty_bytes: b.dirty_bytes,
        writeback_bytes: b.writeback_bytes,
        dirty_threshold_bytes: b.dirty_threshold_bytes,
        background_threshold_bytes: b.background_threshold_bytes,
        psi_io_some_us: sum(a.psi_io_some_us, b.psi_io_some_us),
        psi_io_full_us: sum(a.psi_io_full_us, b.psi_io_full_us),
        steal_ms: sum(a.steal_ms, b.steal_ms),
        device: a.device.zip(b.device).map(|(a, b)| DeviceSample {
            busy_ms: a.busy_ms + b.busy_ms,
            in_flight: b.in_flight,
            ..a.beside(b)
        }),
    }
}

/// The sum of a counter over both halves; `None` if either is unknown.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a + b)
}

#[cfg(test)]
mod tests {
    use floodwall_model::LatencyCounts;
    use proptest::prelude::*;

    use super::*;

    fn second(i: u32) -> Interval {
        let mut interval = Interval {
            start_s: f64::from(i),
            seconds: 1.0,
            victim_ops: vec![i],
            victim_bytes: 4096 * u64::from(i),
            flood_bytes: 7,
            host: HostSample {
                dirty_bytes: Some(1000 + u64::from(i)),
                psi_io_some_us: Some(10),
                device: Some(DeviceSample {
                    write_ops: 3,
                    in_flight: u64::from(i),
                    ..DeviceSample::default()
                }),
                ..HostSample::default()
            },
            ..Interval::default()
        };
        interval.latencies.commit = LatencyCounts::from_values([u64::from(i), 1_000_000]);
        interval
    }

    fn stored(n: u32, limit: usize) -> Vec<Interval> {
        let mut store = IntervalStore::new(limit, usize::MAX);
        (0..n).for_each(|i| store.push(second(i)));
        store.into_intervals()
    }

    #[test]
    fn a_short_phase_is_kept_as_it_was() {
        assert_eq!(stored(6, 6), (0..6).map(second).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_store_merges_neighbours() {
        let merged = stored(7, 6);
        assert_eq!(
            merged.iter().map(|i| i.victim_ops.clone()).collect::<Vec<_>>(),
            [vec![0, 1], vec![2, 3], vec![4, 5], vec![6]]
        );
        assert_eq!((merged[1].start_s, merged[1].seconds), (2.0, 2.0));
        let host = &merged[1].host;
        assert_eq!(
            (host.dirty_bytes, host.psi_io_some_us),
            (Some(1003), Some(20)),
            "gauge: last; counter: sum"
        );
        assert_eq!(host.device.map(|d| (d.write_ops, d.in_flight)), Some((6, 3)));
    }

    #[test]
    fn half_a_counter_is_no_counter() {
        let mut blind = second(1);
        blind.host.psi_io_some_us = None;
        blind.host.device = None;
        let mut store = IntervalStore::new(2, usize::MAX);
        for i in [second(0), blind, second(2)] {
            store.push(i);
        }
        assert_eq!(store.intervals()[0].host.psi_io_some_us, None);
        assert_eq!(store.intervals()[0].host.device, None);
    }

    #[test]
    fn wide_histograms_are_merged_before_there_are_many() {
        let mut store = IntervalStore::new(1_000, 64 << 10);
        for i in 0..500 {
            let mut busy = second(i);
            // 500 buckets, moving with time: merging two makes a wider one.
            let values = (0..500).map(|k| 1_000 * (1 + u64::from(i)) + k * 97);
            busy.latencies.commit = LatencyCounts::from_values(values);
            let one = busy.memory_bytes();
            store.push(busy);
            assert!(
                store.intervals().len() <= FEWEST || store.memory_bytes() <= (64 << 10) + 2 * one
            );
        }
        assert!(store.intervals().len() >= FEWEST);
        let count: u64 = store.intervals().iter().map(|i| i.latencies.commit.count()).sum();
        assert_eq!(count, 250_000);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_limit_holds(n in 0u32..500, limit in 0usize..20) {
            let kept = stored(n, limit);
            prop_assert!(kept.len() <= limit.max(2));
            let ops: Vec<u32> = kept.iter().flat_map(|i| i.victim_ops.clone()).collect();
            prop_assert_eq!(ops, (0..n).collect::<Vec<_>>());
            let latencies: u64 = kept.iter().map(|i| i.latencies.commit.count()).sum();
            prop_assert_eq!(latencies, 2 * u64::from(n));
            for pair in kept.windows(2) {
                prop_assert_eq!(pair[0].start_s + pair[0].seconds, pair[1].start_s);
                prop_assert!(pair[1].seconds <= pair[0].seconds);
                prop_assert!(pair[0].seconds == kept[0].seconds);
            }
        }
    }
}
