//! The rate at which the disk takes the command's data while no other program waits.

use std::collections::VecDeque;
use std::time::Duration;

use super::seen::Seen;

/// The capacity before the first measurement, in bytes per second. A wrong guess costs the first
/// tenths of a second.
const GUESS: f64 = (64 << 20) as f64;
/// Length of one measurement.
const WINDOW: Duration = Duration::from_millis(250);
/// Measurements that are kept: ten seconds. Their median counts. The greatest one, as in BBR's
/// estimate of the bandwidth, would be the speed of the disk's cache.
const KEPT: usize = 40;
/// Factor of each step up of the guess, at most.
const RAISE: f64 = 1.1;

/// The median of the last measured rates.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    window: Seen,
    rates: VecDeque<f64>,
    /// Their median; a guess before the first one.
    bytes_per_s: f64,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { window: Seen::default(), rates: VecDeque::new(), bytes_per_s: GUESS }
    }
}

impl Capacity {
    /// In bytes per second.
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.bytes_per_s
    }

    /// Whether it is no guess.
    pub(super) fn is_measured(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Raises the guess towards the rate at which the disk took single pieces beside others. It
    /// takes at least as much while no other program waits.
    pub(super) fn raise(&mut self, to: f64) {
        if !self.is_measured() {
            self.bytes_per_s = to.clamp(self.bytes_per_s, self.bytes_per_s * RAISE);
        }
    }

    pub(super) fn observe(&mut self, seen: &Seen) {
        self.window = self.window.plus(seen);
        if self.window.elapsed < WINDOW {
            return;
        }
        let window = std::mem::take(&mut self.window);
        let rate = window.own_bytes as f64 / window.elapsed.as_secs_f64();
        // Without a backlog the command limited the rate. The disk takes at least as much.
        if rate > 0.0 && (window.backlogged || rate > self.bytes_per_s) {
            self.rates.push_back(rate);
            if self.rates.len() > KEPT {
                self.rates.pop_front();
            }
            let mut rates = Vec::from_iter(self.rates.iter().copied());
            rates.sort_by(f64::total_cmp);
            self.bytes_per_s = rates[rates.len() / 2];
        }
    }
}
