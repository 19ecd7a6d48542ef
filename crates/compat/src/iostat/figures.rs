//! Figures of an interval: differences of two samples, by second, by request or in percent.
//!
//! Rates divide by the interval in hundredths of a second, because the original does: a second that
//! took 1.01 s shows in each rate.

use super::sample::{Counters, Cpu, Kind};

/// Milliseconds are counted in 32 bits (block/genhd.c, `diskstats_show`).
const MILLISECOND_BITS: u32 = 32;
/// Hundredths of a second in a second.
const PER_SECOND: f64 = 100.0;
/// Milliseconds in a hundredth of a second.
const MS_PER_CS: f64 = 10.0;
const SECTORS_PER_KB: f64 = 2.0;

/// Counts of an interval.
pub(super) struct Interval {
    /// The counts of it.
    pub(super) counts: Counters,
    /// Its length, at least 1.
    cs: f64,
}

impl Interval {
    /// Between two readings of a device, `cs` hundredths of a second apart. Without a first reading
    /// it counts from zero, as does a device whose requests fell: it was removed and came back.
    pub(super) fn between(before: Option<&Counters>, now: &Counters, cs: u64) -> Self {
        let before = before.filter(|before| before.requests() <= now.requests());
        let counts = difference(&before.copied().unwrap_or_default(), now);
        Self { counts, cs: cs.max(1) as f64 }
    }

    /// A second.
    pub(super) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.cs * PER_SECOND
    }

    /// The average number of requests in flight.
    pub(super) fn queue(&self) -> f64 {
        self.counts.weighted_ms as f64 / self.cs / MS_PER_CS
    }

    /// Percent of the time with a request in flight.
    pub(super) fn utilisation(&self) -> f64 {
        self.counts.busy_ms as f64 / self.cs / MS_PER_CS * 100.0
    }
}

impl Kind {
    /// Percent of requests that were merged into others.
    pub(super) fn merged_percent(&self) -> f64 {
        ratio(self.merged, self.merged.saturating_add(self.requests)) * 100.0
    }

    /// Milliseconds a request.
    pub(super) fn wait_ms(&self) -> f64 {
        ratio(self.ms, self.requests)
    }

    /// Kilobytes a request.
    pub(super) fn size_kb(&self) -> f64 {
        ratio(self.sectors, self.requests) / SECTORS_PER_KB
    }
}

/// A quotient; 0 without a divisor.
pub(super) fn ratio(of: u64, by: u64) -> f64 {
    if by == 0 { 0.0 } else { of as f64 / by as f64 }
}

/// Percent of the processors' time: user, nice, system, iowait, steal, idle.
pub(super) fn processors(before: &Cpu, now: &Cpu) -> [f64; 6] {
    let parts = |cpu: &Cpu| [cpu.user, cpu.nice, cpu.system, cpu.iowait, cpu.steal, cpu.idle];
    let (before, now) = (parts(before), parts(now));
    let mut spent = [0; 6];
    for ((spent, before), now) in spent.iter_mut().zip(before).zip(now) {
        // The kernel corrects iowait and idle downwards now and then (proc(5)).
        *spent = now.saturating_sub(before);
    }
    let all = spent.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
    spent.map(|part| ratio(part, all) * 100.0)
}

fn difference(before: &Counters, now: &Counters) -> Counters {
    let kind = |before: &Kind, now: &Kind| Kind {
        requests: now.requests.saturating_sub(before.requests),
        merged: now.merged.saturating_sub(before.merged),
        sectors: now.sectors.saturating_sub(before.sectors),
        ms: milliseconds(before.ms, now.ms),
    };
    Counters {
        read: kind(&before.read, &now.read),
        write: kind(&before.write, &now.write),
        discard: kind(&before.discard, &now.discard),
        flushes: now.flushes.saturating_sub(before.flushes),
        flush_ms: milliseconds(before.flush_ms, now.flush_ms),
        busy_ms: milliseconds(before.busy_ms, now.busy_ms),
        weighted_ms: milliseconds(before.weighted_ms, now.weighted_ms),
    }
}

/// A difference across the end of 32 bits, after 49 days.
fn milliseconds(before: u64, now: u64) -> u64 {
    match now.checked_sub(before) {
        Some(difference) => difference,
        None if before >> MILLISECOND_BITS == 0 => now + (1 << MILLISECOND_BITS) - before,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_came_back_counts_from_zero_and_clocks_wrap() {
        let now = Counters {
            read: Kind { requests: 3, merged: 1, sectors: 48, ms: 6 },
            busy_ms: 5,
            weighted_ms: 9,
            ..Counters::default()
        };
        let before = Counters { flushes: 4, busy_ms: 2, ..Counters::default() };
        let interval = Interval::between(Some(&before), &now, 200);
        assert_eq!(interval.counts, now);
        assert_eq!(interval.rate(3), 1.5);
        assert_eq!(now.read.merged_percent(), 25.0);
        assert_eq!((now.read.wait_ms(), now.read.size_kb()), (2.0, 8.0));
        let before = Counters { busy_ms: (1 << 32) - 5, ..Counters::default() };
        let interval = Interval::between(Some(&before), &now, 1);
        assert_eq!((interval.counts.busy_ms, interval.utilisation()), (10, 100.0));
        assert_eq!(interval.queue(), 0.9);
    }

    #[test]
    fn processors_spend_what_both_samples_differ_by() {
        let before = Cpu { user: 10, iowait: 9, idle: 100, ..Cpu::default() };
        let now = Cpu { user: 40, system: 20, iowait: 8, idle: 150, ..before };
        assert_eq!(processors(&before, &now), [30.0, 0.0, 20.0, 0.0, 0.0, 50.0]);
        assert_eq!(processors(&now, &now), [0.0; 6]);
    }
}
