//! Shares of recent events with periods of time: lib/flex_proportions.c (3.6 and later), as
//! writeback uses it (`wb_domain_writeout_add`).
//!
//! Every device counts its completions, a domain counts all. Every three seconds all counts are
//! halved, so a share is an average over the last seconds, the newest counting most. A device
//! without completions falls to nothing in about a minute.

use super::jiffies::Clock;

/// 1.0 of a `max_frac` (`FPROP_FRAC_BASE`).
pub const FRAC_BASE: u64 = 1 << 10;

/// Seconds after which counts are halved (`VM_COMPLETIONS_PERIOD_LEN`).
const PERIOD_S: u64 = 3;

/// All events of a domain.
#[derive(Clone, Copy, Debug)]
pub struct Global {
    /// Never below 1 while there is something to age, so that shares have a denominator.
    events: u64,
    period: u64,
    /// The tick at which the current period ends; `None` while nothing has happened for so long
    /// that nothing is left to be aged.
    ends: Option<u64>,
}

impl Default for Global {
    fn default() -> Self {
        Self { events: 1, period: 0, ends: None }
    }
}

/// One device's events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local {
    events: u64,
    period: u64,
}

impl Global {
    /// Ends the periods that are over at tick `now` (`writeout_period`, whose timer this stands
    /// for).
    pub fn advance(&mut self, clock: Clock, now: u64) {
        let length = PERIOD_S * clock.hz();
        while let Some(ends) = self.ends
            && now >= ends
        {
            // fprop_new_period: without events nothing is aged, and the timer stops until the next
            // one.
            if self.events <= 1 {
                self.ends = None;
            } else {
                self.events >>= 1;
                self.period += 1;
                self.ends = Some(ends + length);
            }
        }
    }

    /// Counts `n` events of `local` as long as its share stays at or below `max_frac` of 1,024
    /// (`__fprop_add_percpu_max`). Call [`Global::advance`] first.
    pub fn add(&mut self, local: &mut Local, max_frac: u64, n: u64, clock: Clock, now: u64) {
        local.reflect(self);
        let n = if max_frac < FRAC_BASE { self.addable(local, max_frac, n) } else { n };
        local.events += n;
        self.events += n;
        if self.ends.is_none() {
            self.ends = Some(now + PERIOD_S * clock.hz());
        }
    }

    /// How many of `n` events may be counted before the share is above `max_frac`.
    fn addable(&self, local: &Local, max_frac: u64, n: u64) -> u64 {
        let (numerator, denominator) = self.fraction(local);
        let room = (denominator * max_frac) as i64 - (numerator * FRAC_BASE) as i64;
        let each = FRAC_BASE - max_frac;
        match u64::try_from(room) {
            Err(_) => 0,
            // Just enough for the share to reach the maximum.
            Ok(room) if room < n * each => room.div_ceil(each),
            Ok(_) => n,
        }
    }

    /// A device's share as numerator and denominator, at most 1 (`fprop_fraction_percpu`). Call
    /// [`Global::advance`] first.
    #[must_use]
    pub fn fraction(&self, local: &Local) -> (u64, u64) {
        let numerator = local.at(self.period);
        if self.events <= numerator {
            (numerator, numerator.max(1))
        } else {
            (numerator, self.events)
        }
    }
}

impl Local {
    /// Its events as they count in a later period.
    const fn at(&self, period: u64) -> u64 {
        let missed = period - self.period;
        if missed < 64 { self.events >> missed } else { 0 }
    }

    const fn reflect(&mut self, global: &Global) {
        self.events = self.at(global.period);
        self.period = global.period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK_HZ: u32 = 250;
    /// Ticks of a period: 3 s at 250 Hz.
    const PERIOD: u64 = 750;

    fn clock() -> Clock {
        Clock::new(CLOCK_HZ, true)
    }

    #[test]
    fn shares_follow_completions() {
        let (mut all, mut a, mut b) = (Global::default(), Local::default(), Local::default());
        all.add(&mut a, FRAC_BASE, 300, clock(), 0);
        all.add(&mut b, FRAC_BASE, 100, clock(), 0);
        assert_eq!(all.fraction(&a), (300, 401));
        assert_eq!(all.fraction(&b), (100, 401));
        // A period later all counts are halved, so only `a` has grown.
        all.advance(clock(), PERIOD);
        all.add(&mut a, FRAC_BASE, 50, clock(), PERIOD);
        assert_eq!(all.fraction(&a), (200, 250));
        assert_eq!(all.fraction(&b), (50, 250));
    }

    #[test]
    fn a_device_alone_has_all_but_the_first_event() {
        let (mut all, mut a) = (Global::default(), Local::default());
        assert_eq!(all.fraction(&a), (0, 1));
        all.add(&mut a, FRAC_BASE, 1, clock(), 0);
        assert_eq!(all.fraction(&a), (1, 2));
        // 401 → 200 → 100 → … : the first event is aged away and the share is 1.
        all.add(&mut a, FRAC_BASE, 399, clock(), 0);
        all.advance(clock(), PERIOD);
        assert_eq!(all.fraction(&a), (200, 200));
    }

    #[test]
    fn missed_periods_age_as_if_each_had_been_seen_and_then_aging_stops() {
        let (mut all, mut a) = (Global::default(), Local::default());
        all.add(&mut a, FRAC_BASE, 1_000_000, clock(), 0);
        let mut step_by_step = all;
        for period in 1..=5 {
            step_by_step.advance(clock(), period * PERIOD);
        }
        all.advance(clock(), 5 * PERIOD);
        assert_eq!((all.events, all.period), (step_by_step.events, step_by_step.period));
        assert_eq!(all.fraction(&a), (31_250, 31_250));
        // 2^20 > 1,000,001: after 19 halvings one event is left, and the 20th period ends the
        // aging.
        all.advance(clock(), 1_000 * PERIOD);
        assert_eq!((all.events, all.ends), (1, None));
    }

    #[test]
    fn a_share_stops_at_its_maximum() {
        let (mut all, mut a, mut b) = (Global::default(), Local::default(), Local::default());
        all.add(&mut b, FRAC_BASE, 900, clock(), 0);
        // 10 % of 1024 is 102 (floored as the kernel does): a/(901 + a) <= 102/1024 gives a <=
        // 99.7, and the last one is rounded up.
        all.add(&mut a, 102, 1_000, clock(), 0);
        assert_eq!(all.fraction(&a), (100, 1_001));
        all.add(&mut a, 102, 1_000, clock(), 0);
        assert_eq!(all.fraction(&a), (100, 1_001));
        // A device whose maximum is 0 gets nothing.
        let mut c = Local::default();
        all.add(&mut c, 0, 1_000, clock(), 0);
        assert_eq!(all.fraction(&c), (0, 1_001));
    }
}
