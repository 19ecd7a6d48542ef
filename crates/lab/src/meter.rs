//! How long requests took by the model, and how late the lab answered them.
//!
//! *Service* is modelled: from a request's submission to the completion time that the model gave.
//! *Lateness* is real: from a request's arrival to its submission, and from its modelled completion
//! to the moment at which the answer was in the kernel's hands. A lab whose lateness is not small
//! beside its service times measures the machine it runs on. Everything is counted in the buckets
//! of [`floodwall_model::latency`], nanoseconds.

use std::collections::BTreeMap;

use floodwall_device::Op;
use floodwall_model::histogram::Histogram;
use floodwall_model::latency::{LatencyCounts, bucket_high_ns};
use serde::{Deserialize, Serialize};

/// A finished histogram with the figures that people read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Requests counted.
    pub count: u64,
    /// Arithmetic mean, microseconds; absent when nothing was counted.
    pub mean_us: Option<f64>,
    /// Half of the requests took at most this, microseconds.
    pub p50_us: Option<f64>,
    /// 99 % took at most this, microseconds.
    pub p99_us: Option<f64>,
    /// The longest, microseconds.
    pub max_us: Option<f64>,
    /// `(bucket, count)` in the order of buckets, those of `floodwall_model::latency`; empty ones
    /// left out.
    pub buckets: Vec<(u32, u64)>,
}

impl From<&LatencyCounts> for Timing {
    fn from(counts: &LatencyCounts) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            count: counts.count(),
            mean_us: counts.mean_ns().map(|ns| ns / 1e3),
            p50_us: counts.nearest_rank_ns(0.50).map(us),
            p99_us: counts.nearest_rank_ns(0.99).map(us),
            max_us: (!counts.is_empty()).then(|| us(counts.max_ns())),
            buckets: counts.buckets().map(|(b, n)| (b as u32, n)).collect(),
        }
    }
}

impl Timing {
    fn since(&self, earlier: &Self) -> LatencyCounts {
        let mut counts = BTreeMap::<usize, u64>::new();
        for &(bucket, n) in &self.buckets {
            *counts.entry(bucket as usize).or_default() += n;
        }
        for &(bucket, n) in &earlier.buckets {
            if let Some(count) = counts.get_mut(&(bucket as usize)) {
                *count = count.saturating_sub(n);
            }
        }
        counts.retain(|_, n| *n > 0);
        let sum_ns = counts
            .iter()
            .map(|(bucket, n)| bucket_high_ns(*bucket).saturating_mul(*n))
            .fold(0, u64::saturating_add);
        let max_ns = counts.last_key_value().map_or(0, |(bucket, _)| bucket_high_ns(*bucket));
        LatencyCounts::from_buckets(counts, sum_ns, max_ns)
    }
}

/// Histograms of one lab device since it came up. A copy is a snapshot, for readers without haste.
#[derive(Clone, Default)]
pub(crate) struct Meter {
    read: Histogram,
    write: Histogram,
    flush: Histogram,
    other: Histogram,
    lateness: Histogram,
}

impl Meter {
    pub(crate) fn count(&mut self, op: Op, service_ns: u64, late_ns: u64) {
        let histogram = match op {
            Op::Read => &mut self.read,
            Op::Write { .. } => &mut self.write,
            Op::Flush => &mut self.flush,
            Op::Discard | Op::WriteZeroes => &mut self.other,
        };
        histogram.record(service_ns);
        self.lateness.record(late_ns);
    }

    pub(crate) fn timings(&self) -> Timings {
        let [read, write, flush, other] =
            [&self.read, &self.write, &self.flush, &self.other].map(Histogram::counts);
        Timings::of([read, write, flush, other], &self.lateness.counts())
    }
}

/// Whether p99 of lateness is at most a tenth of p50 of service; `None` when nothing was counted or
/// the model takes no time at all.
fn kept_up(lateness: &LatencyCounts, service: &LatencyCounts) -> Option<bool> {
    let (late, service) = (lateness.nearest_rank_ns(0.99)?, service.nearest_rank_ns(0.50)?);
    (service > 0).then_some(late as f64 <= service as f64 * 0.1)
}

/// Service by kind of request, and lateness of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Modelled service of reads.
    pub read: Timing,
    /// Modelled service of writes.
    pub write: Timing,
    /// Modelled service of flushes.
    pub flush: Timing,
    /// Modelled service of discards and write-zeroes.
    pub other: Timing,
    /// How late answers were against the model.
    pub lateness: Timing,
    /// Whether lateness (p99) stayed within a tenth of service (p50); absent when that can't be
    /// said.
    pub kept_up: Option<bool>,
}

impl Timings {
    /// From service by kind (reads, writes, flushes, others) and lateness.
    fn of(service: [LatencyCounts; 4], lateness: &LatencyCounts) -> Self {
        let mut all = LatencyCounts::default();
        service.iter().for_each(|kind| all.merge(kind));
        let [read, write, flush, other] = service.each_ref().map(Timing::from);
        Self {
            kept_up: kept_up(lateness, &all),
            read,
            write,
            flush,
            other,
            lateness: lateness.into(),
        }
    }

    /// The counts since `earlier`, a snapshot of the same device: a run on a device that has
    /// been up for long is judged by itself. Means and maxima are then those of buckets, at most
    /// 0.8 % above the exact ones.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let service = [
            self.read.since(&earlier.read),
            self.write.since(&earlier.write),
            self.flush.since(&earlier.flush),
            self.other.since(&earlier.other),
        ];
        Self::of(service, &self.lateness.since(&earlier.lateness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_keeps_up_while_lateness_is_a_tenth_of_service() {
        let mut meter = Meter::default();
        assert_eq!(meter.timings().kept_up, None);
        for _ in 0..99 {
            meter.count(Op::Read, 1_000_000, 90_000);
        }
        assert_eq!(meter.timings().kept_up, Some(true));
        for _ in 0..2 {
            meter.count(Op::Flush, 1_000_000, 500_000);
        }
        let timings = meter.timings();
        assert_eq!(timings.kept_up, Some(false));
        assert_eq!((timings.read.count, timings.flush.count, timings.lateness.count), (99, 2, 101));
        assert_eq!(timings.lateness.max_us, Some(500.0));
        assert!(timings.lateness.p50_us.is_some_and(|us| (90.0..91.0).contains(&us)));
    }

    #[test]
    fn a_run_is_judged_by_itself() {
        let mut meter = Meter::default();
        (0..100).for_each(|_| meter.count(Op::Read, 1_000_000, 500_000));
        let before = meter.timings();
        assert_eq!(before.kept_up, Some(false));
        assert_eq!(before.since(&before).kept_up, None);
        (0..100_000).for_each(|_| meter.count(Op::Flush, 2_000_000, 10_000));
        let run = meter.timings().since(&before);
        assert_eq!((run.read.count, run.flush.count, run.lateness.count), (0, 100_000, 100_000));
        assert_eq!(run.kept_up, Some(true));
        let p99_us = run.lateness.p99_us.unwrap();
        assert!((10.0..10.1).contains(&p99_us), "{p99_us}");
        // And the other way round: a long good time before does not hide it.
        let before = meter.timings();
        (0..50).for_each(|_| meter.count(Op::Read, 1_000_000, 500_000));
        assert_eq!(meter.timings().kept_up, Some(true));
        assert_eq!(meter.timings().since(&before).kept_up, Some(false));
    }

    #[test]
    fn a_device_without_service_time_says_nothing_about_keeping_up() {
        let mut meter = Meter::default();
        meter.count(Op::Read, 0, 5_000);
        assert_eq!(meter.timings().kept_up, None);
    }
}
