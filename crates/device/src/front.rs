//! The outside of every built device: keeps the rules of [`Device`] and counts what the host sees.
//!
//! ```text
//! submit ─▶ due events first ─▶ in range? ─▶ counters ─▶ the model
//!                                  └─ no ─▶ IoError::OutOfRange at once
//! ```

use crate::device::{Completion, Device, DeviceStats, IoError, LostWrites, Op, Profile, Request};
use crate::events::or_never;
use crate::time::Nanos;

/// Wraps the outermost part of a device.
pub(crate) struct Front {
    inner: Box<dyn Device>,
    capacity: u64,
    /// The latest moment that the device has heard of.
    clock: Nanos,
    /// The latest moment up to which everything has happened.
    advanced: Nanos,
    /// Completions that came up before the caller asked for them.
    early: Vec<Completion>,
    stats: DeviceStats,
    busy_since: Nanos,
}

impl Front {
    /// `capacity` may be less than the model has.
    pub(crate) fn new(inner: Box<dyn Device>, capacity: u64) -> Self {
        Self {
            inner,
            capacity,
            clock: Nanos::ZERO,
            advanced: Nanos::ZERO,
            early: Vec::new(),
            stats: DeviceStats::default(),
            busy_since: Nanos::ZERO,
        }
    }

    /// Takes completions due by the clock from the model, before the caller asks for them.
    fn collect_early(&mut self) {
        let from = self.early.len();
        self.inner.advance(self.clock, &mut self.early);
        self.advanced = self.clock;
        let due = self.early.split_off(from);
        self.count_completions(&due);
        self.early.extend(due);
    }

    fn count_submission(&mut self, request: &Request) {
        if self.stats.queue_depth == 0 {
            self.busy_since = self.clock;
        }
        self.stats.queue_depth += 1;
        match request.op {
            Op::Read => {
                self.stats.reads += 1;
                self.stats.read_bytes += request.len;
            }
            Op::Write { .. } | Op::WriteZeroes => {
                self.stats.writes += 1;
                self.stats.write_bytes += request.len;
            }
            Op::Flush => self.stats.flushes += 1,
            Op::Discard => self.stats.discards += 1,
        }
    }

    fn count_completions(&mut self, completions: &[Completion]) {
        for c in completions {
            self.stats.queue_depth -= 1;
            self.stats.errors += u64::from(c.result.is_err());
            if self.stats.queue_depth == 0 {
                self.stats.busy_ns += c.at.since(self.busy_since).0;
            }
        }
    }
}

impl Device for Front {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.clock = self.clock.max(now);
        let now = self.clock;
        if self.inner.next_event().is_some_and(|t| t < now) {
            self.collect_early();
        }
        self.count_submission(&request);
        if request.op != Op::Flush
            && request.offset.checked_add(request.len).is_none_or(|end| end > self.capacity)
        {
            let refused = Completion { id: request.id, at: now, result: Err(IoError::OutOfRange) };
            self.count_completions(&[refused]);
            self.early.push(refused);
        } else {
            self.inner.submit(now, request);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let inner = self.inner.next_event();
        match self.early.first() {
            Some(c) => Some(c.at.min(or_never(inner))),
            None => inner,
        }
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        self.clock = self.clock.max(to);
        self.advanced = self.advanced.max(to);
        out.append(&mut self.early);
        let from = out.len();
        self.inner.advance(to, out);
        self.count_completions(&out[from..]);
    }

    fn profile(&self) -> Profile {
        Profile { capacity_bytes: self.capacity, ..self.inner.profile() }
    }

    fn stats(&self) -> DeviceStats {
        // A submission first collects everything due before it.
        let now = self.advanced.max(Nanos(self.clock.0.saturating_sub(1)));
        let mut stats = self.stats;
        stats.add_part(&self.inner.stats_at(now));
        stats
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.clock = self.clock.max(now);
        // Requests done by then are done; they are still to be collected.
        self.collect_early();
        if self.stats.queue_depth > 0 {
            self.stats.busy_ns += self.clock.since(self.busy_since).0;
        }
        self.stats.queue_depth = 0;
        self.inner.powercut(self.clock)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.inner.oldest_volatile()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::Null;

    #[test]
    fn a_range_past_the_end_is_refused_and_counted() {
        let mut device = Front::new(Box::new(Null::new(1 << 20, Nanos(5))), 4096);
        device.submit(Nanos(1), Request::read(1, 4096, 1));
        device.submit(Nanos(1), Request::read(2, u64::MAX, 2));
        device.submit(Nanos(1), Request::write(3, 0, 4096));
        let mut out = Vec::new();
        device.advance(Nanos(6), &mut out);
        let results: Vec<_> = out.iter().map(|c| (c.id, c.at, c.result)).collect();
        let refused = Err(IoError::OutOfRange);
        assert_eq!(
            results,
            [(1, Nanos(1), refused), (2, Nanos(1), refused), (3, Nanos(6), Ok(()))]
        );
        let stats = device.stats();
        assert_eq!(
            (stats.errors, stats.queue_depth, stats.write_bytes, stats.busy_ns),
            (2, 0, 4096, 5)
        );
    }

    #[test]
    fn a_caller_that_forgets_to_advance_still_gets_everything_in_order() {
        let mut device = Front::new(Box::new(Null::new(4096, Nanos(5))), 4096);
        device.submit(Nanos(0), Request::read(1, 0, 1));
        device.submit(Nanos(100), Request::read(2, 0, 1));
        assert_eq!(device.next_event(), Some(Nanos(5)));
        let mut out = Vec::new();
        device.advance(Nanos(200), &mut out);
        assert_eq!(out.iter().map(|c| (c.id, c.at.0)).collect::<Vec<_>>(), [(1, 5), (2, 105)]);
    }
}
