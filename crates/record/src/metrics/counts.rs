//! What one workload did to one device: in a frame, and since it has been counted.

use floodwall_model::frame::Process;

/// A span of the slowest wait's memory, in milliseconds; there are [`SPANS`] of them.
const SPAN_MS: u64 = 5_000;
/// A minute of spans.
const SPANS: usize = 12;

/// Sums that never fall. They stop at their type's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) commits: Waited,
    pub(super) reads: Waited,
    /// `None` until the kernel has told any.
    pub(super) dirtied_bytes: Option<u64>,
    pub(super) throttled_ms: u64,
    /// Time that its threads waited in stalls that are over.
    pub(super) stalled_us: u64,
    /// Bytes that it dirtied in stalls that are over.
    pub(super) flooded_bytes: u64,
}

/// Waits that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) count: u64,
    pub(super) sum_us: u64,
}

impl Waited {
    fn add(&mut self, count: u64, sum_us: u64) {
        self.count = self.count.saturating_add(count);
        self.sum_us = self.sum_us.saturating_add(sum_us);
    }
}

impl Counts {
    pub(super) fn add(&mut self, more: &Self) {
        self.commits.add(more.commits.count, more.commits.sum_us);
        self.reads.add(more.reads.count, more.reads.sum_us);
        if let Some(bytes) = more.dirtied_bytes {
            self.dirtied_bytes = Some(self.dirtied_bytes.unwrap_or(0).saturating_add(bytes));
        }
        self.throttled_ms = self.throttled_ms.saturating_add(more.throttled_ms);
        self.stalled_us = self.stalled_us.saturating_add(more.stalled_us);
        self.flooded_bytes = self.flooded_bytes.saturating_add(more.flooded_bytes);
    }
}

/// Its values in the newest frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    /// Its slowest wait that ended, or the oldest under way if that is longer; 0: none.
    pub(super) slowest_us: u64,
    pub(super) is_victim: bool,
    pub(super) is_flood: bool,
    pub(super) backlog_percent: Option<f32>,
}

impl Now {
    pub(super) fn add(&mut self, more: &Self) {
        self.slowest_us = self.slowest_us.max(more.slowest_us);
        self.is_victim |= more.is_victim;
        self.is_flood |= more.is_flood;
        if let Some(percent) = more.backlog_percent {
            self.backlog_percent = Some(self.backlog_percent.unwrap_or(0.0) + percent);
        }
    }
}

/// Both, of one frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    pub(super) counts: Counts,
    pub(super) now: Now,
}

impl Use {
    pub(super) fn add_process(&mut self, process: &Process) {
        let mut counts = Counts {
            dirtied_bytes: process.dirtied_bytes,
            throttled_ms: process.throttled_ms,
            ..Counts::default()
        };
        for waits in &process.waits {
            let kind = if waits.call == "read" { &mut counts.reads } else { &mut counts.commits };
            kind.add(waits.count, waits.sum_us);
        }
        self.counts.add(&counts);
        self.now.add(&Now {
            slowest_us: process.slowest_us(),
            is_victim: process.is_victim,
            is_flood: process.is_flood,
            backlog_percent: process.backlog_percent,
        });
    }
}

/// The slowest wait of the last minute, to five seconds. Scrapes are rarer than frames, and a wait
/// of one frame is to be seen by each.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowest {
    /// The number of a span, and its slowest wait in microseconds.
    spans: [(u64, u64); SPANS],
}

impl Slowest {
    pub(super) fn add(&mut self, at_ms: u64, slowest_us: u64) {
        let number = at_ms / SPAN_MS;
        let span = &mut self.spans[(number % SPANS as u64) as usize];
        let before = if span.0 == number { span.1 } else { 0 };
        *span = (number, before.max(slowest_us));
    }

    /// `None` without a wait.
    pub(super) fn us(&self, at_ms: u64) -> Option<u64> {
        let number = at_ms / SPAN_MS;
        let is_recent = |span: &&(u64, u64)| span.1 > 0 && number - span.0 < SPANS as u64;
        self.spans.iter().filter(is_recent).map(|span| span.1).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_wait_is_forgotten_after_a_minute() {
        let mut slowest = Slowest::default();
        assert_eq!(slowest.us(0), None);
        slowest.add(1_000, 900);
        slowest.add(30_000, 500);
        slowest.add(31_000, 400);
        assert_eq!(slowest.us(59_000), Some(900));
        assert_eq!(slowest.us(61_000), Some(500));
        slowest.add(70_000, 0);
        assert_eq!(slowest.us(91_000), None, "zero is no wait");
        slowest.add(3_600_000, 7);
        assert_eq!(slowest.us(3_600_000), Some(7), "an hour later the first span is another");
    }
}
