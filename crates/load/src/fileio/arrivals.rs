//! When events fall due: at random moments, so many a second on average.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::buffer::rng;

/// Keeps these random numbers apart from those of the offsets.
const PURPOSE: u64 = 1 << 32;

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

    /// When the next event that no thread serves yet falls due.
    pub(super) fn take(&mut self) -> Duration {
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
