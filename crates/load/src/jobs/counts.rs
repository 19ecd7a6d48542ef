//! What a job's thread counts.

use floodwall_model::latency::{BUCKETS, bucket_of};
use floodwall_model::{KeptRequest, LatencyCounts, Moments};

use super::plan::Keep;
use crate::error::LoadError;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timed {
    /// Exact.
    pub moments: Moments,
    /// By bucket; empty before the first.
    buckets: Vec<u64>,
    sum: u64,
}

impl Timed {
    pub(super) fn record(&mut self, ns: u64) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        self.moments.record(ns);
        self.buckets[bucket_of(ns)] += 1;
        self.sum = self.sum.saturating_add(ns);
    }

    /// By bucket.
    #[must_use]
    pub fn counts(&self) -> LatencyCounts {
        let counts = self.buckets.iter().copied().enumerate();
        LatencyCounts::from_buckets(counts, self.sum, self.moments.max)
    }
}

/// Reads or writes of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionCounts {
    /// Bytes.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Microseconds of the passes in which there were any.
    pub time_us: u64,
    /// From begin to submission, from there to completion, and both together.
    pub latencies: [Timed; 3],
    /// KiB/s of intervals.
    pub rates: Moments,
    /// Requests a second of intervals.
    pub request_rates: Moments,
}

/// The counts of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobCounts {
    /// Reads, then writes.
    pub directions: [DirectionCounts; 2],
    /// Syncs of both kinds.
    pub syncs: Timed,
    /// Those by fsync(2).
    pub full_syncs: u64,
    /// Requests in flight at each submission, with how often: syncs count.
    pub depths: Vec<u64>,
    /// Completions by how many came at a time.
    pub completions: Vec<u64>,
    /// Calls that submitted a request.
    pub submissions: u64,
    /// Single ones, if they are kept.
    pub kept: Vec<KeptRequest>,
    /// Microseconds of processor time in user mode and in the kernel.
    pub cpu_us: [u64; 2],
    /// Context switches of both kinds.
    pub switches: u64,
    /// Page faults that waited for I/O, and that did not.
    pub faults: [u64; 2],
    /// Microseconds from the end of the ramp, or the begin, to the end.
    pub run_us: u64,
    /// The kernel's number of the thread.
    pub thread: u32,
}

impl JobCounts {
    /// Keeps a request, of so many at most.
    pub(super) fn keep(
        &mut self,
        request: KeptRequest,
        keep: Keep,
        most: usize,
    ) -> Result<(), LoadError> {
        let is_full = self.kept.len() >= most;
        // Both directions of a millisecond are among the last two.
        let beside = self.kept.iter_mut().rev().take(2).find(|kept| kept.is_beside(&request));
        match beside {
            Some(kept) if keep == Keep::Milliseconds => kept.merge(&request),
            _ if is_full => return Err(LoadError::TooManyKept { most }),
            _ => self.kept.push(request),
        }
        Ok(())
    }
}

/// Counts one more in a list that grows.
pub(super) fn one_more(list: &mut Vec<u64>, at: usize) {
    if list.len() <= at {
        list.resize(at + 1, 0);
    }
    list[at] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_MANY: Result<(), LoadError> = Err(LoadError::TooManyKept { most: 3 });

    #[test]
    fn requests_of_a_millisecond_are_kept_as_one() {
        let request = |us: u64, is_write| KeptRequest {
            end_ns: us * 1000,
            requests: 1,
            is_write,
            bytes: 10,
            latencies_ns: [1, 2, 3],
        };
        let all = [(100, false), (200, true), (900, false), (1000, false), (1001, false)];
        let kept = |keep| {
            let mut counts = JobCounts::default();
            for (us, is_write) in all {
                counts.keep(request(us, is_write), keep, 5).unwrap();
            }
            assert_eq!(counts.keep(request(9000, false), keep, 3), TOO_MANY);
            counts.kept.iter().map(|kept| (kept.requests, kept.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(kept(Keep::Each), [(1, 10); 5]);
        assert_eq!(kept(Keep::Milliseconds), [(2, 20), (1, 10), (2, 20)]);
    }
}
