//! The estimates of every 200 ms: a device's bandwidth, the rate at which each of its writers may
//! dirty, and the hard limit in force.
//!
//! ```text
//! pages written ─▶ write_bandwidth (3 s) ─▶ avg_write_bandwidth (smoother) ─┐
//! pages dirtied ─▶ dirty_rate ──────────────────────────────────────────────┤
//! dirty_ratelimit ◀─ balanced_dirty_ratelimit ◀─────────────────────────────┘
//! ```
//!
//! Rates are pages per second, times jiffies.

use super::position::{Control, SHIFT};

/// What a new device is believed to do: 100 MB/s (`INIT_BW`, mm/backing-dev.c).
pub const INITIAL_BANDWIDTH: u64 = 100 << (20 - 12);

/// A device's estimates (`struct bdi_writeback`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Bandwidth over the last seconds.
    pub write_bandwidth: u64,
    /// The same, smoothed once more. At least 1 in 6.x.
    pub avg_write_bandwidth: u64,
    /// The rate at which one writer may dirty, while the position ratio is 1.
    pub dirty_ratelimit: u64,
    /// The last estimate of what that rate should be.
    pub balanced_dirty_ratelimit: u64,
    /// When the estimates were last updated.
    pub stamp: u64,
    /// `WB_DIRTIED` then.
    pub dirtied_stamp: u64,
    /// `WB_WRITTEN` then.
    pub written_stamp: u64,
}

impl Estimate {
    /// Of a device that is new at tick `now`.
    #[must_use]
    pub const fn new(now: u64) -> Self {
        Self {
            write_bandwidth: INITIAL_BANDWIDTH,
            avg_write_bandwidth: INITIAL_BANDWIDTH,
            dirty_ratelimit: INITIAL_BANDWIDTH,
            balanced_dirty_ratelimit: INITIAL_BANDWIDTH,
            stamp: now,
            dirtied_stamp: 0,
            written_stamp: 0,
        }
    }

    /// Follows the bandwidth (`wb_update_write_bandwidth`). `written`: pages written in total;
    /// `elapsed`: ticks since the last update, at least 1.
    ///
    /// An average over 2^n ≥ 3 s in which the time since the last update counts in proportion. A
    /// second stage follows only lasting movements in one direction, which removes spikes.
    pub fn update_bandwidth(&mut self, hz: u64, elapsed: u64, written: u64) {
        let period = (3 * hz).next_power_of_two();
        let (old, mut avg) = (self.write_bandwidth, self.avg_write_bandwidth);
        let done = written.saturating_sub(self.written_stamp) * hz;
        let bandwidth;
        if elapsed > period {
            bandwidth = done / elapsed;
            avg = bandwidth;
        } else {
            bandwidth = (done + old * (period - elapsed)) >> period.ilog2();
            if avg > old && old >= bandwidth {
                avg -= (avg - old) >> 3;
            }
            if avg < old && old <= bandwidth {
                avg += (old - avg) >> 3;
            }
        }
        self.write_bandwidth = bandwidth;
        self.avg_write_bandwidth = avg.max(1);
    }

    /// Moves the rate limit towards what would make all writers together dirty as fast as the
    /// device writes (`wb_update_dirty_ratelimit`). Returns what the tracepoint
    /// `bdi_dirty_ratelimit` shows besides: (dirty_rate, task_ratelimit).
    ///
    /// `ratio`: the position ratio, 1,024 = 1.0; `dirtied` in all; `elapsed` ticks since the last
    /// update.
    pub fn update_ratelimit(
        &mut self,
        rules: &RateRules,
        control: &Control,
        ratio: u64,
        dirtied: u64,
        elapsed: u64,
    ) -> (u64, u64) {
        let write_bw = self.avg_write_bandwidth;
        let rate = self.dirty_ratelimit;
        let dirty_rate = dirtied.wrapping_sub(self.dirtied_stamp) * rules.hz / elapsed;
        // What each writer was allowed in the last 200 ms; one more helps to get away from tiny
        // values.
        let task_rate = (rate.wrapping_mul(ratio) >> SHIFT) + 1;
        // N writers at task_rate were measured as dirty_rate, so write_bw / N is:
        let mut balanced = task_rate.wrapping_mul(write_bw) / (dirty_rate | 1);
        if rules.capped {
            balanced = balanced.min(write_bw);
        }
        let (dirty, setpoint) = if rules.strict {
            (control.wb_dirty, u64::midpoint(control.wb_thresh, control.wb_bg_thresh))
        } else {
            (control.dirty, control.thresholds.setpoint(control.limit))
        };
        // Only a step that also brings the dirty pages nearer to the setpoint, and not a larger one
        // than all three agree on.
        let step = if dirty < setpoint {
            self.balanced_dirty_ratelimit.min(balanced).min(task_rate).saturating_sub(rate)
        } else {
            rate.saturating_sub(self.balanced_dirty_ratelimit.max(balanced).max(task_rate))
        };
        let step = rules.damped(rate, step);
        let next = if rate < balanced { rate + step } else { rate.wrapping_sub(step) };
        self.dirty_ratelimit = next.max(1);
        self.balanced_dirty_ratelimit = balanced;
        (dirty_rate, task_rate)
    }
}

/// What differs between generations and devices in [`Estimate::update_ratelimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRules {
    /// Ticks per second.
    pub hz: u64,
    /// The device has a strict limit: its own position decides on the direction.
    pub strict: bool,
    /// The balanced rate is at most the bandwidth, and shifts beyond a word's width give 0 (3.2
    /// did neither).
    pub capped: bool,
}

impl RateRules {
    /// The nearer the goal, the smaller the step: full rate matching is impossible, the goal itself
    /// fluctuates.
    fn damped(&self, rate: u64, step: u64) -> u64 {
        let shift = rate / (2 * step + 1);
        // Before 3.11 a shift of 64 and more was undefined; x86 takes it modulo 64.
        let step = if self.capped && shift >= 64 { 0 } else { step.wrapping_shr(shift as u32) };
        step.div_ceil(8)
    }
}

/// The hard limit in force: it follows the threshold up at once and down slowly, so that pages that
/// were allowed stay below it (`update_dirty_limit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyLimit {
    /// Pages.
    pub limit: u64,
    /// When it was last updated.
    pub stamp: u64,
}

impl DirtyLimit {
    /// Follows, if 200 ms (`interval` ticks) have passed (`domain_update_dirty_limit`).
    pub fn update(&mut self, now: u64, interval: u64, thresh: u64, dirty: u64) {
        if now < self.stamp + interval {
            return;
        }
        self.stamp = now;
        if self.limit < thresh {
            self.limit = thresh;
        } else {
            self.limit -= self.limit.saturating_sub(thresh.max(dirty)) >> 5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Thresholds;

    const HZ: u64 = 250;

    fn rules(capped: bool) -> RateRules {
        RateRules { hz: HZ, strict: false, capped }
    }

    #[test]
    fn bandwidth_is_averaged_over_4_seconds() {
        let mut e = Estimate::new(0);
        // 3 * 250 = 750, the next power of two is 1,024 ticks. With 2,000 pages in 50 ticks:
        // (2,000 * 250 + 25,600 * 974) >> 10 = 24,838.
        e.update_bandwidth(HZ, 50, 2_000);
        assert_eq!(e.write_bandwidth, 24_838);
        // The average only moves when two steps go the same way.
        assert_eq!(e.avg_write_bandwidth, 25_600);
        e.written_stamp = 2_000;
        e.update_bandwidth(HZ, 50, 4_000);
        // (500,000 + 24,838 * 974) >> 10 = 24,113; 25,600 - (25,600 - 24,838) / 8 = 25,505.
        assert_eq!((e.write_bandwidth, e.avg_write_bandwidth), (24_113, 25_505));
    }

    #[test]
    fn the_average_comes_nearer_while_the_bandwidth_stands_still_and_waits_while_it_comes_itself() {
        // 25,600 pages/s for 1,024 ticks are 104,858 pages: (104,858 * 250) >> 10 = 25,600.
        let after = |avg, pages| {
            let mut e = Estimate { avg_write_bandwidth: avg, ..Estimate::new(0) };
            e.update_bandwidth(HZ, 1_024, pages);
            e.avg_write_bandwidth
        };
        assert_eq!(after(33_600, 104_858), 32_600);
        assert_eq!(after(17_600, 104_858), 18_600);
        // 30,000 or 20,000 pages/s instead: towards the average, which stays.
        assert_eq!(after(33_600, 122_880), 33_600);
        assert_eq!(after(17_600, 81_920), 17_600);
    }

    #[test]
    fn after_a_long_gap_only_the_gap_counts() {
        let mut e = Estimate::new(0);
        e.update_bandwidth(HZ, 2_000, 80_000);
        assert_eq!((e.write_bandwidth, e.avg_write_bandwidth), (10_000, 10_000));
        // A count lower than before (redirtied pages) gives 0, and the average stays above 0.
        e.written_stamp = 80_000;
        e.update_bandwidth(HZ, 2_000, 70_000);
        assert_eq!((e.write_bandwidth, e.avg_write_bandwidth), (0, 1));
    }

    #[test]
    fn the_rate_moves_towards_the_bandwidth_only_if_that_helps_the_position() {
        let thresholds = Thresholds { dirty: 200_000, background: 100_000 };
        let control = Control { thresholds, limit: 200_000, dirty: 190_000, ..Control::default() };
        let mut e = Estimate { avg_write_bandwidth: 10_000, ..Estimate::new(0) };
        // Above the setpoint the ratio is 0.5; 4,000 pages in 50 ticks = 20,000/s. Rate of the
        // task = 12,801; balanced = 12,801 * 10,000 / 20,001 = 6,400. Step: 25,600 - max(25,600
        // (previous), 6,400, 12,801) = 0: the first time only remembers.
        let shown = e.update_ratelimit(&rules(true), &control, 512, 4_000, 50);
        assert_eq!(
            (shown, e.dirty_ratelimit, e.balanced_dirty_ratelimit),
            ((20_000, 12_801), 25_600, 6_400)
        );
        // Again: step = 25,600 - 12,801 = 12,799; shift = 25,600 / 25,599 = 1; (12,799 >> 1) =
        // 6,399, / 8 rounded up = 800.
        e.dirtied_stamp = 4_000;
        e.update_ratelimit(&rules(true), &control, 512, 8_000, 50);
        assert_eq!(e.dirty_ratelimit, 24_800);
        // Below the setpoint a lower rate would not help: it stays.
        let below = Control { dirty: 160_000, ..control };
        e.dirtied_stamp = 8_000;
        e.update_ratelimit(&rules(true), &below, 512, 12_000, 50);
        assert_eq!(e.dirty_ratelimit, 24_800);
    }

    #[test]
    fn the_balanced_rate_is_capped_since_3_11_or_so_and_never_below_1() {
        let thresholds = Thresholds { dirty: 200_000, background: 100_000 };
        let control = Control { thresholds, limit: 200_000, dirty: 160_000, ..Control::default() };
        let mut new = Estimate { avg_write_bandwidth: 10_000, ..Estimate::new(0) };
        let mut old = new;
        // No pages were dirtied: 25,601 * 10,000 / 1.
        new.update_ratelimit(&rules(true), &control, 1_024, 0, 50);
        old.update_ratelimit(&rules(false), &control, 1_024, 0, 50);
        assert_eq!(
            (new.balanced_dirty_ratelimit, old.balanced_dirty_ratelimit),
            (10_000, 256_010_000)
        );
        let mut tiny = Estimate {
            dirty_ratelimit: 1,
            balanced_dirty_ratelimit: 0,
            avg_write_bandwidth: 1,
            ..Estimate::new(0)
        };
        tiny.update_ratelimit(&rules(true), &Control { dirty: 190_000, ..control }, 0, 100_000, 50);
        assert_eq!(tiny.dirty_ratelimit, 1);
    }

    #[test]
    fn the_limit_follows_up_at_once_and_down_by_a_32nd() {
        let mut limit = DirtyLimit { limit: 1_000, stamp: 0 };
        limit.update(49, 50, 2_000, 0);
        assert_eq!(limit.limit, 1_000);
        limit.update(50, 50, 2_000, 0);
        assert_eq!(limit.limit, 2_000);
        // Down towards the dirty pages, if those are above the threshold: 2,000 - (2,000 - 1,360)
        // / 32.
        limit.update(100, 50, 1_000, 1_360);
        assert_eq!(limit.limit, 1_980);
        limit.update(150, 50, 1_000, 3_000);
        assert_eq!(limit.limit, 1_980);
    }
}
