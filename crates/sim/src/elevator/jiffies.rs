//! The kernel's clock tick: elevators count time in jiffies, so their behaviour depends on `HZ`.

use floodwall_device::Nanos;

/// How long before the simulation the machine was booted, in seconds: everything that compares with
/// "never" has long expired by then.
const UPTIME_S: u64 = 300;

/// Converts virtual time to ticks and back. A tick is `1 s / HZ`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    hz: u64,
    tick_ns: u64,
}

impl Clock {
    /// A clock with `hz` ticks a second; `hz` divides 1000 (`build` has checked it).
    pub(crate) const fn new(hz: u32) -> Self {
        let hz = if hz == 0 { 1 } else { hz as u64 };
        Self { hz, tick_ns: 1_000_000_000 / hz }
    }

    /// Ticks a second.
    pub(crate) const fn hz(self) -> u64 {
        self.hz
    }

    /// `jiffies` at this moment.
    pub(crate) const fn jiffies(self, now: Nanos) -> u64 {
        now.0 / self.tick_ns + UPTIME_S * self.hz
    }

    /// The first moment at which `jiffies` has this value.
    pub(crate) const fn at(self, jiffies: u64) -> Nanos {
        Nanos(jiffies.saturating_sub(UPTIME_S * self.hz).saturating_mul(self.tick_ns))
    }

    /// `msecs_to_jiffies`: rounded up.
    pub(crate) const fn ticks(self, ms: u64) -> u64 {
        ms.saturating_mul(self.hz).div_ceil(1000)
    }

    /// `jiffies_to_msecs`.
    pub(crate) const fn to_ms(self, jiffies: u64) -> u64 {
        jiffies * 1000 / self.hz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_back() {
        let clock = Clock::new(250);
        assert_eq!(clock.jiffies(Nanos::ZERO), 75_000);
        assert_eq!(clock.jiffies(Nanos::from_micros(3_999)), 75_000);
        assert_eq!(clock.jiffies(Nanos::from_millis(4)), 75_001);
        assert_eq!(clock.at(75_001), Nanos::from_millis(4));
        assert_eq!(clock.ticks(6), 2, "6 ms need two ticks of 4 ms");
        assert_eq!(clock.to_ms(2), 8);
    }
}
