//! What a run or an interval of it counted, and the figures of it.

use std::time::Duration;

use floodwall_model::LatencyCounts;

pub(super) const MIB: f64 = 1_048_576.0;

/// One thread's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Events: reads, writes and, in 1.0, syncs between them.
    pub events: u64,
    /// The time that they took.
    pub event_ns: u64,
}

impl ThreadCounts {
    /// The growth.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            events: self.events.saturating_sub(before.events),
            event_ns: self.event_ns.saturating_sub(before.event_ns),
        }
    }
}

/// Operations of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs, those at the end included.
    pub syncs: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Counts {
    /// The growth.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            syncs: self.syncs.saturating_sub(before.syncs),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// A run, or an interval of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Its length, with the syncs at the end.
    pub elapsed: Duration,
    /// The counts of it.
    pub counts: Counts,
    /// Latencies of its events.
    pub latencies: LatencyCounts,
    /// The shortest of them; 0 if there are none.
    pub min_ns: u64,
    /// By thread.
    pub threads: Vec<ThreadCounts>,
}

impl Figures {
    pub(super) fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }

    /// A second.
    pub(super) fn rate(&self, count: u64) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// MiB a second.
    pub(super) fn mib_rate(&self, bytes: u64) -> f64 {
        self.rate(bytes) / MIB
    }

    pub(super) fn events(&self) -> u64 {
        self.latencies.count()
    }

    pub(super) fn average_ms(&self) -> f64 {
        self.latencies.mean_ns().unwrap_or(0.0) / 1e6
    }

    /// Mean and deviation of the threads' events, then of their time in seconds.
    pub(super) fn fairness(&self) -> [(f64, f64); 2] {
        let events = self.threads.iter().map(|thread| thread.events as f64);
        let seconds = self.threads.iter().map(|thread| thread.event_ns as f64 / 1e9);
        [spread(&events.collect::<Vec<_>>()), spread(&seconds.collect::<Vec<_>>())]
    }
}

/// Mean and deviation of a whole population.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_fairness() {
        let thread = |events, event_ns| ThreadCounts { events, event_ns };
        let figures = Figures {
            elapsed: Duration::from_millis(2500),
            counts: Counts { written_bytes: 5 << 20, ..Counts::default() },
            threads: vec![thread(54, 1_000_000_000), thread(46, 3_000_000_000)],
            ..Figures::default()
        };
        assert_eq!(figures.rate(1000), 400.0);
        assert_eq!(figures.mib_rate(figures.counts.written_bytes), 2.0);
        assert_eq!(figures.fairness(), [(50.0, 4.0), (2.0, 1.0)]);
        assert_eq!(Figures::default().rate(3), 0.0);
        assert_eq!(Figures::default().fairness(), [(0.0, 0.0); 2]);
    }
}
