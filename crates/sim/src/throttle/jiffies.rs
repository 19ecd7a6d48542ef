//! The kernel's clock: ticks, and when timers set in ticks go off.

use floodwall_device::Nanos;

const SECOND_NS: u64 = 1_000_000_000;

/// Converts between virtual time and ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hz: u64,
    /// Timers go off one tick late or a little more, never early (the timer wheel since 4.8).
    rounds_up: bool,
}

impl Clock {
    /// A clock of `hz` ticks a second (0 counts as 1). `wheel_4_8`: with the timer wheel of 4.8 and
    /// later.
    #[must_use]
    pub fn new(hz: u32, wheel_4_8: bool) -> Self {
        Self { hz: u64::from(hz.max(1)), rounds_up: wheel_4_8 }
    }

    /// Ticks per second.
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.hz
    }

    /// Ticks that have passed at `now`. The first is number 0.
    #[must_use]
    pub fn jiffies(self, now: Nanos) -> u64 {
        let (whole, rest) = (now.0 / SECOND_NS, now.0 % SECOND_NS);
        whole * self.hz + rest * self.hz / SECOND_NS
    }

    /// The first moment that belongs to tick number `jiffies`.
    #[must_use]
    pub fn moment(self, jiffies: u64) -> Nanos {
        let (whole, rest) = (jiffies / self.hz, jiffies % self.hz);
        Nanos(whole.saturating_mul(SECOND_NS).saturating_add((rest * SECOND_NS).div_ceil(self.hz)))
    }

    /// When a task that calls `schedule_timeout(ticks)` at `now` runs again.
    ///
    /// Up to 4.7 a timer goes off at the tick that it names. Since then there is a timer wheel of
    /// levels, each eight times as coarse as the one below. It rounds up by one granule, so that no
    /// timer is early (`calc_index`, kernel/time/timer.c).
    #[must_use]
    pub fn timer(self, now: Nanos, ticks: u64) -> Nanos {
        let start = self.jiffies(now);
        let expires = start + ticks;
        if !self.rounds_up {
            return self.moment(expires);
        }
        // LVL_START(n) = (LVL_SIZE - 1) << ((n - 1) * LVL_CLK_SHIFT): 63, 504, 4032 … ticks.
        let mut shift = 0;
        while ticks >= 63 << shift && shift < 24 {
            shift += 3;
        }
        self.moment(((expires >> shift) + 1) << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_moments_agree_at_every_rate() {
        for hz in [100, 250, 300, 1000] {
            let clock = Clock::new(hz, true);
            for tick in [0, 1, 2, 3, 299, 300, 301, 1_000_003] {
                let moment = clock.moment(tick);
                assert_eq!(clock.jiffies(moment), tick, "{hz} Hz, tick {tick}");
                if tick > 0 {
                    assert_eq!(
                        clock.jiffies(Nanos(moment.0 - 1)),
                        tick - 1,
                        "{hz} Hz, before tick {tick}"
                    );
                }
            }
        }
    }

    #[test]
    fn timers_of_old_kernels_are_exact_to_the_tick_and_new_ones_never_early() {
        let now = Nanos::from_millis(1_001); // tick 250 at 250 Hz, 1 ms into it
        // Old: 250 + 5 = tick 255 = 1,020 ms, i.e. 19 ms of the 20.
        assert_eq!(Clock::new(250, false).timer(now, 5), Nanos::from_millis(1_020));
        // New: one tick more, 1,024 ms.
        assert_eq!(Clock::new(250, true).timer(now, 5), Nanos::from_millis(1_024));
        // 200 ms at 1,000 Hz is 200 ticks: level 1, granules of 8 ticks. So 1,001 + 200 = 1,201 →
        // (1,201 / 8 + 1) * 8 = 1,208.
        assert_eq!(Clock::new(1_000, true).timer(now, 200), Nanos::from_millis(1_208));
    }
}
