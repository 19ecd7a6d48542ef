//! When events fall due: at random moments, so many a second on average.
//!
//! ```text
//! a thread of its own: sleep until the next moment ─▶ queue ─▶ threads that make the requests
//! ```
//!
//! An event's latency counts from when it is in the queue, as in sysbench. So what the thread
//! oversleeps is in none. A victim of `bench` counts from the moment itself.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::buffer::rng;
use crate::error::LoadError;
use crate::lock::lock;
use crate::pace::sleep_until;
use crate::running::Worker;

/// Keeps these random numbers apart from those of the offsets.
const PURPOSE: u64 = 1 << 32;

/// How long a waiting thread may overlook that it is told to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Events that fell due and that no thread serves yet.
#[derive(Debug, Default)]
pub(super) struct Queue {
    due: Mutex<VecDeque<Instant>>,
    moved: Condvar,
}

impl Queue {
    /// The thread that fills it, until it is told to stop.
    pub(super) fn fill(
        &self,
        mut arrivals: Arrivals,
        worker: &mut Worker<'_>,
    ) -> Result<(), LoadError> {
        let Some(begin) = worker.arrive() else { return Ok(()) };
        while let Some(moment) = begin.checked_add(arrivals.take())
            && sleep_until(moment, worker.stop_flag())
        {
            lock(&self.due).push_back(Instant::now());
            self.moved.notify_one();
        }
        Ok(())
    }

    /// Waits for the next event. `None`: the thread is told to stop.
    pub(super) fn take(&self, worker: &Worker<'_>) -> Option<Instant> {
        let mut due = lock(&self.due);
        loop {
            if worker.stopping() {
                return None;
            }
            if let Some(event) = due.pop_front() {
                return Some(event);
            }
            let waited = self.moved.wait_timeout(due, LOOK);
            due = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A Poisson process: exponential times from one event to the next, after the begin.
#[derive(Debug)]
pub(super) struct Arrivals {
    rate_per_s: f64,
    rng: Pcg64Mcg,
    next_s: f64,
}

impl Arrivals {
    pub(super) fn new(rate_per_s: f64, seed: u64) -> Self {
        Self { rate_per_s, rng: rng(seed, PURPOSE), next_s: 0.0 }
    }

    /// When the next event falls due.
    fn take(&mut self) -> Duration {
        // In (0, 1]: its logarithm is finite.
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.next_s -= uniform.ln() / self.rate_per_s;
        Duration::try_from_secs_f64(self.next_s).unwrap_or(Duration::from_secs(u64::from(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_at_the_rate_and_as_irregularly_as_a_poisson_process_does() {
        let mut arrivals = Arrivals::new(100.0, 1);
        let times: Vec<f64> = (0..20_000).map(|_| arrivals.take().as_secs_f64()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 100.0 - 1.0).abs() < 0.03, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{variance}");
    }
}
