//! Shares of recent events with periods of events: lib/proportions.c (2.6.24 to 3.6), as writeback
//! uses it for devices and for tasks.
//!
//! A period is over when so many pages have been counted as half a power of two around the hard
//! limit; then every count is halved. Time plays no part: a machine that does nothing keeps its
//! shares.

/// 1.0 of a `max_frac` (`PROP_FRAC_BASE`).
pub const FRAC_BASE: u64 = 1 << 10;

/// Largest shift (`PROP_MAX_SHIFT`).
const MAX_SHIFT: u32 = 48;

/// All events.
#[derive(Clone, Copy, Debug)]
pub struct Global {
    /// log2 of twice the period.
    shift: u32,
    events: u64,
}

/// One device's or task's events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local {
    shift: u32,
    /// The start of the period up to which `events` has been halved.
    period: u64,
    events: u64,
}

impl Global {
    /// For a hard limit of so many pages (`calc_period_shift`).
    #[must_use]
    pub fn new(dirty_pages: u64) -> Self {
        Self { shift: shift_for(dirty_pages), events: 0 }
    }

    /// The hard limit has changed (`prop_change_shift`).
    pub fn resize(&mut self, dirty_pages: u64) {
        let shift = shift_for(dirty_pages);
        self.events = rescaled(self.events, self.shift, shift);
        self.shift = shift;
    }

    const fn period(&self) -> u64 {
        1 << (self.shift - 1)
    }

    /// Counts `n` events of `local`, while its share is not above `max_frac` of 1,024
    /// (`__prop_inc_percpu_max`, `__prop_inc_single`).
    pub fn add(&mut self, local: &mut Local, max_frac: u64, n: u64) {
        let mut left = n;
        while left > 0 {
            local.normalise(self);
            // A share and a period can only change when the global count passes into the next
            // period, so whole stretches are counted at once.
            let mut step = left.min(self.period() - self.events % self.period());
            if max_frac < FRAC_BASE {
                if local.events > (self.denominator() * max_frac) >> 10 {
                    return;
                }
                step = 1;
            }
            local.events += step;
            self.events += step;
            left -= step;
        }
    }

    const fn denominator(&self) -> u64 {
        self.period() + self.events % self.period()
    }

    /// A share as numerator and denominator (`prop_fraction_percpu`, `prop_fraction_single`).
    #[must_use]
    pub fn fraction(&self, local: &Local) -> (u64, u64) {
        let mut local = *local;
        local.normalise(self);
        (local.events, self.denominator())
    }
}

impl Local {
    /// Halves the count once for every period that has passed (`prop_norm_percpu`).
    fn normalise(&mut self, global: &Global) {
        let current = global.events - global.events % global.period();
        if self.shift != global.shift {
            self.period = rescaled(self.period, self.shift.max(1), global.shift);
            self.shift = global.shift;
        }
        let missed = current.saturating_sub(self.period) >> (global.shift - 1);
        self.events = if missed < 64 { self.events >> missed } else { 0 };
        self.period = current;
    }
}

/// `calc_period_shift`: 2 + log2(limit - 1).
fn shift_for(dirty_pages: u64) -> u32 {
    (2 + dirty_pages.saturating_sub(1).max(1).ilog2()).min(MAX_SHIFT)
}

const fn rescaled(n: u64, from: u32, to: u32) -> u64 {
    if to >= from { n << (to - from) } else { n >> (from - to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_about_twice_the_hard_limit() {
        // 2 + log2(999) = 11: a period is 2^10 events.
        assert_eq!(Global::new(1_000).period(), 1_024);
        assert_eq!(Global::new(1_025).period(), 2_048);
        assert_eq!(Global::new(0).period(), 2);
    }

    #[test]
    fn counts_are_halved_when_a_period_has_been_counted() {
        let (mut all, mut a, mut b) = (Global::new(1_000), Local::default(), Local::default());
        all.add(&mut a, FRAC_BASE, 512);
        assert_eq!(all.fraction(&a), (512, 1_536));
        all.add(&mut b, FRAC_BASE, 512);
        // 1,024 events: a new period, and all counts are halved.
        assert_eq!(all.fraction(&a), (256, 1_024));
        assert_eq!(all.fraction(&b), (256, 1_024));
        all.add(&mut a, FRAC_BASE, 1_024);
        assert_eq!(all.fraction(&b), (128, 1_024));
    }

    #[test]
    fn counting_in_one_go_is_counting_one_by_one() {
        let (mut at_once, mut one_by_one) = (Global::new(100), Global::new(100));
        let (mut a, mut b) = (Local::default(), Local::default());
        at_once.add(&mut a, FRAC_BASE, 1_000);
        for _ in 0..1_000 {
            one_by_one.add(&mut b, FRAC_BASE, 1);
        }
        assert_eq!(at_once.fraction(&a), one_by_one.fraction(&b));
    }

    #[test]
    fn one_alone_approaches_all_and_a_capped_one_its_cap() {
        let (mut all, mut a) = (Global::new(1_000), Local::default());
        all.add(&mut a, FRAC_BASE, 100_000);
        let (n, d) = all.fraction(&a);
        assert!(n * 100 / d >= 99, "{n}/{d}");
        let (mut all, mut a, mut b) = (Global::new(1_000), Local::default(), Local::default());
        for _ in 0..1_000 {
            all.add(&mut b, FRAC_BASE, 10);
            all.add(&mut a, FRAC_BASE / 10, 10);
        }
        let (n, d) = all.fraction(&a);
        assert!((5..=10).contains(&(n * 100 / d)), "{n}/{d}");
    }

    #[test]
    fn another_limit_keeps_the_shares() {
        let (mut all, mut a, mut b) = (Global::new(1_000), Local::default(), Local::default());
        for _ in 0..1_000 {
            all.add(&mut a, FRAC_BASE, 30);
            all.add(&mut b, FRAC_BASE, 10);
        }
        let share = |all: &Global, l: &Local| {
            let (n, d) = all.fraction(l);
            n * 100 / d
        };
        assert!((70..=76).contains(&share(&all, &a)), "{}", share(&all, &a));
        all.resize(500);
        for _ in 0..1_000 {
            all.add(&mut a, FRAC_BASE, 30);
            all.add(&mut b, FRAC_BASE, 10);
        }
        assert!((70..=76).contains(&share(&all, &a)), "{}", share(&all, &a));
    }
}
