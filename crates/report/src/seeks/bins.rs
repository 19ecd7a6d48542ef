//! Rates and times over slices of equal length, for the lower panels.
//!
//! What asks for the device (requests, seeks) counts where it arrived; what the device did (bytes,
//! queue and service times) counts where it was completed.

use super::recording::{Operation, Recording};
use super::span::Span;

/// Requests in a slice, on average: percentiles of fewer say little.
const REQUESTS: usize = 20;
/// The fewest and the most slices of a picture: enough to see when something changes, not more than
/// lines can show.
const FEWEST: usize = 10;
const MOST: usize = 120;

/// One slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bin {
    pub(super) start_us: f64,
    pub(super) requests_per_s: f64,
    pub(super) seeks_per_s: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) written_bytes_per_s: f64,
    /// `None` if nothing was completed.
    pub(super) times: Option<Times>,
}

/// Percentiles of a slice, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) queue_p50_us: f64,
    pub(super) queue_p99_us: f64,
    pub(super) service_p50_us: f64,
    pub(super) service_p99_us: f64,
}

/// The slices of a span.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bins {
    pub(super) width_us: f64,
    pub(super) bins: Vec<Bin>,
}

impl Bins {
    /// Counts.
    pub(super) fn new(recording: &Recording, span: &Span) -> Self {
        let shown = recording.requests.iter().filter(|r| span.contains(r.time_us)).count();
        let slices = (shown / REQUESTS).clamp(FEWEST, MOST);
        let width_us = (span.end_us - span.start_us) / slices as f64;
        // Rounding must not carry the last moment past the last slice.
        let slice = |time_us: f64| {
            span.contains(time_us)
                .then(|| (((time_us - span.start_us) / width_us) as usize).min(slices - 1))
        };
        let mut bins: Vec<Bin> = (0..slices)
            .map(|i| Bin { start_us: span.start_us + width_us * i as f64, ..Bin::default() })
            .collect();
        let mut queues: Vec<Vec<f64>> = vec![Vec::new(); slices];
        let mut services = queues.clone();
        let per_s = 1e6 / width_us;
        let mut end_of_last = None;
        for request in &recording.requests {
            let seeks =
                request.transfers() && end_of_last.is_some_and(|end| end != request.offset_bytes);
            if request.transfers() {
                end_of_last = Some(request.offset_bytes + request.size_bytes);
            }
            if let Some(bin) = slice(request.time_us).and_then(|i| bins.get_mut(i)) {
                bin.requests_per_s += per_s;
                bin.seeks_per_s += if seeks { per_s } else { 0.0 };
            }
            let Some(i) = slice(request.completed_us()) else { continue };
            let (Some(bin), Some(queue), Some(service)) =
                (bins.get_mut(i), queues.get_mut(i), services.get_mut(i))
            else {
                continue;
            };
            queue.push(request.queue_us);
            service.push(request.service_us);
            let bytes_per_s = if request.ok { request.size_bytes as f64 * per_s } else { 0.0 };
            match request.operation {
                Operation::Read => bin.read_bytes_per_s += bytes_per_s,
                Operation::Write => bin.written_bytes_per_s += bytes_per_s,
                Operation::Flush | Operation::Discard => {}
            }
        }
        for (bin, (queue, service)) in bins.iter_mut().zip(queues.iter_mut().zip(&mut services)) {
            bin.times = times(queue, service);
        }
        Self { width_us, bins }
    }

    /// The largest of a figure over all slices.
    pub(super) fn max(&self, of: impl Fn(&Bin) -> f64) -> f64 {
        self.bins.iter().map(of).fold(0.0, f64::max)
    }
}

fn times(queue: &mut [f64], service: &mut [f64]) -> Option<Times> {
    queue.sort_by(f64::total_cmp);
    service.sort_by(f64::total_cmp);
    Some(Times {
        queue_p50_us: percentile(queue, 50)?,
        queue_p99_us: percentile(queue, 99)?,
        service_p50_us: percentile(service, 50)?,
        service_p99_us: percentile(service, 99)?,
    })
}

/// The smallest value that so many percent do not exceed (nearest rank); of less than a hundred,
/// p99 is the largest.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{recording, request};
    use super::super::{Operation, View};
    use super::*;

    fn bins(requests: Vec<super::super::Request>) -> Bins {
        let recording = recording(requests);
        Bins::new(&recording, &Span::new(&recording, None, &View::default()).unwrap())
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([50, 99].map(|p| percentile(&values, p)), [Some(100.0), Some(198.0)]);
        assert_eq!([50, 99].map(|p| percentile(&[7.0, 9.0], p)), [Some(7.0), Some(9.0)]);
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn a_request_that_does_not_go_on_where_the_last_ended_is_a_seek() {
        let mut requests: Vec<_> = (0..100u32)
            .map(|i| request(f64::from(i) * 1e4, Operation::Read, u64::from(i % 50) * 4096))
            .collect();
        // A flush has no place.
        requests.push(request(5e3, Operation::Flush, 0));
        let bins = bins(requests);
        let total =
            |of: fn(&Bin) -> f64| bins.bins.iter().map(of).sum::<f64>() * bins.width_us / 1e6;
        assert!((total(|b| b.seeks_per_s) - 1.0).abs() < 1e-6);
        assert!((total(|b| b.requests_per_s) - 101.0).abs() < 1e-6);
        assert!((total(|b| b.read_bytes_per_s) - 100.0 * 4096.0).abs() < 1e-3);
        assert_eq!(bins.max(|b| b.written_bytes_per_s), 0.0);
    }

    #[test]
    fn bytes_count_when_they_are_done_and_failed_ones_do_not() {
        let slow = super::super::Request { service_us: 9e5, ..request(0.0, Operation::Write, 0) };
        let failed = super::super::Request { ok: false, ..request(1e3, Operation::Write, 0) };
        let bins = bins(vec![slow, failed]);
        assert_eq!(bins.bins[0].written_bytes_per_s, 0.0);
        assert!(bins.bins[FEWEST - 1].written_bytes_per_s > 0.0);
        assert_eq!(bins.bins[FEWEST - 1].times.map(|t| t.service_p50_us), Some(9e5));
        assert_eq!(bins.bins[FEWEST / 2].times, None);
    }
}
