//! What the disk takes of ours while nobody else waits for it.

use std::collections::VecDeque;
use std::time::Duration;

use super::seen::Seen;

/// Until the first measurement: a disk's, in bytes per second. A wrong guess costs the first tenths
/// of a second.
const GUESS: f64 = (64 << 20) as f64;
/// Length of one measurement.
const WINDOW: Duration = Duration::from_millis(250);
/// Measurements of which the greatest counts: ten seconds. BBR's bandwidth is a maximum as well:
/// noise only lowers a measurement.
const KEPT: usize = 40;
/// Each step up of the guess.
const RAISE: f64 = 1.1;

/// The greatest rate of the last ten seconds.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    window: Seen,
    rates: VecDeque<f64>,
    /// Until the first measurement.
    guess: f64,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { window: Seen::default(), rates: VecDeque::new(), guess: GUESS }
    }
}

impl Capacity {
    /// In bytes per second.
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.rates.iter().copied().reduce(f64::max).unwrap_or(self.guess)
    }

    /// The disk took all of the greatest share, and others did not mind: a guess was too low.
    pub(super) fn raise(&mut self) {
        self.guess *= RAISE;
    }

    pub(super) fn observe(&mut self, seen: &Seen) {
        self.window = if self.window.elapsed.is_zero() { *seen } else { self.window.plus(seen) };
        if self.window.elapsed < WINDOW {
            return;
        }
        let window = std::mem::take(&mut self.window);
        let rate = window.own_bytes as f64 / window.elapsed.as_secs_f64();
        // Without a backlog the command was the slower one. It still took at least that much.
        if rate > 0.0 && (window.backlogged || rate > self.bytes_per_s()) {
            self.rates.push_back(rate);
            if self.rates.len() > KEPT {
                self.rates.pop_front();
            }
        }
    }
}
