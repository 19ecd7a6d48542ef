//! When operations are counted: all of them, or samples. Pure.
//!
//! ```text
//! wait       ├──── nothing that begins counts ────┤── a fifth: all that begins counts ──┤ look
//! operation            begun here: unknown           begun here: followed to its end
//! ```
//!
//! Only the beginning decides, so that slow operations are not left out. The sample lies before the
//! look: an operation under way at the look is known if it has begun within the sample. At the
//! rates at which samples are taken operations are shorter than that, or there are thousands of
//! threads.

use std::time::Duration;

use floodwall_model::LatencyCounts;

use crate::snapshot::ProcessUse;

/// The part of a wait that is sampled.
const SHARE: u32 = 5;
/// Sampling ends at so many tenths of the rate at which it begins.
const ENDS_AT_TENTHS: u64 = 8;

/// Nanoseconds of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covered {
    /// In which tracepoints were open.
    pub(crate) attached_ns: u64,
    /// Of these, in which operations that began were counted.
    pub(crate) counted_ns: u64,
}

/// Keeps the times.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Operations a second above which samples are taken; `None`: never.
    above: Option<u64>,
    is_sampling: bool,
    is_attached: bool,
    is_counting: bool,
    since_ns: u64,
    covered: Covered,
}

impl Samples {
    pub(crate) fn new(now_ns: u64, above: Option<u64>, is_attached: bool) -> Self {
        Self {
            above,
            is_sampling: false,
            is_attached,
            is_counting: is_attached,
            since_ns: now_ns,
            covered: Covered::default(),
        }
    }

    fn pass(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        self.covered.attached_ns += if self.is_attached { passed } else { 0 };
        self.covered.counted_ns += if self.is_attached && self.is_counting { passed } else { 0 };
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached
    }

    pub(crate) fn is_sampling(&self) -> bool {
        self.is_sampling
    }

    pub(crate) fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Tracepoints are open from now on, or are not. All that begins is counted.
    pub(crate) fn attach(&mut self, now_ns: u64, on: bool) {
        self.pass(now_ns);
        (self.is_attached, self.is_counting, self.is_sampling) = (on, on, false);
    }

    /// Operations that begin are counted from now on, or are not.
    pub(crate) fn count(&mut self, now_ns: u64, on: bool) {
        self.pass(now_ns);
        self.is_counting = on;
    }

    /// The time within a wait at which counting begins; `None`: it goes on all the time.
    pub(crate) fn begins_after(&self, wait: Duration) -> Option<Duration> {
        (self.is_attached && self.is_sampling).then(|| wait - wait / SHARE)
    }

    /// Ends a window in which so many operations were counted. Returns the time that it covers.
    pub(crate) fn end_window(&mut self, now_ns: u64, operations: u64) -> Covered {
        self.pass(now_ns);
        let covered = std::mem::take(&mut self.covered);
        if let Some(above) = self.above
            && covered.counted_ns > 0
        {
            let per_s = u128::from(operations) * 1_000_000_000 / u128::from(covered.counted_ns);
            let least = if self.is_sampling { above * ENDS_AT_TENTHS / 10 } else { above };
            self.is_sampling = per_s > u128::from(least);
        }
        covered
    }
}

impl Covered {
    /// By how much the counts of this window are smaller than what happened in the time in which
    /// tracepoints were open; `None`: all was counted.
    pub(crate) fn factor(self) -> Option<f64> {
        // A hundredth is what opening and closing takes.
        let is_sampled =
            self.counted_ns > 0 && self.counted_ns < self.attached_ns - self.attached_ns / 100;
        is_sampled.then(|| self.attached_ns as f64 / self.counted_ns as f64)
    }
}

/// So many times the operations, of the same latencies.
pub(crate) fn scaled(counts: &LatencyCounts, factor: f64) -> LatencyCounts {
    let times = |n: u64| (n as f64 * factor).round() as u64;
    LatencyCounts::from_buckets(
        counts.buckets().map(|(bucket, n)| (bucket, times(n))),
        times(counts.sum_ns()),
        counts.max_ns(),
    )
}

/// Scales what a process did. Its waits are those of one moment and stay; its sleeps are all seen.
pub(crate) fn scale(process: &mut ProcessUse, factor: f64) {
    process.calls.values_mut().for_each(|counts| *counts = scaled(counts, factor));
    process.reads = scaled(&process.reads, factor);
    process.read_bytes = (process.read_bytes as f64 * factor).round() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn above_its_rate_a_fifth_of_each_wait_is_sampled() {
        let mut samples = Samples::new(0, Some(5_000), true);
        let wait = Duration::from_millis(250);
        assert_eq!(samples.begins_after(wait), None);
        // 5,200 a second.
        let covered = samples.end_window(250 * MS, 1_300);
        assert_eq!((covered.attached_ns, covered.factor()), (250 * MS, None));
        assert_eq!(samples.begins_after(wait), Some(Duration::from_millis(200)));
        samples.count(250 * MS, false);
        samples.count(450 * MS, true);
        // 4,400 a second: it goes on.
        let covered = samples.end_window(500 * MS, 220);
        assert_eq!(covered, Covered { attached_ns: 250 * MS, counted_ns: 50 * MS });
        assert_eq!(covered.factor(), Some(5.0));
        assert!(samples.begins_after(wait).is_some());
        // 3,800 a second.
        samples.count(500 * MS, false);
        samples.count(700 * MS, true);
        samples.end_window(750 * MS, 190);
        assert_eq!(samples.begins_after(wait), None);
    }

    #[test]
    fn without_a_rate_everything_is_counted() {
        let mut samples = Samples::new(0, None, true);
        assert_eq!(samples.end_window(250 * MS, 1_000_000).factor(), None);
        assert_eq!(samples.begins_after(Duration::from_millis(250)), None);
    }

    #[test]
    fn detached_time_does_not_count() {
        let mut samples = Samples::new(0, Some(5_000), true);
        samples.attach(100 * MS, false);
        assert!(!samples.is_attached() && !samples.is_counting());
        samples.attach(200 * MS, true);
        let covered = samples.end_window(250 * MS, 10);
        assert_eq!(covered, Covered { attached_ns: 150 * MS, counted_ns: 150 * MS });
        assert_eq!(covered.factor(), None, "what happened while nothing was open stays unknown");
        samples.attach(250 * MS, false);
        let nothing = samples.end_window(500 * MS, 0);
        assert_eq!((nothing, nothing.factor()), (Covered::default(), None));
    }

    #[test]
    fn counts_are_scaled_and_latencies_are_not() {
        let counts = LatencyCounts::from_values([10_000, 10_000, 30_000]);
        let many = scaled(&counts, 5.0);
        assert_eq!((many.count(), many.sum_ns(), many.max_ns()), (15, 250_000, 30_000));
        assert_eq!(many.nearest_rank_ns(0.5), counts.nearest_rank_ns(0.5));
        assert_eq!(many.mean_ns(), counts.mean_ns());
    }
}
