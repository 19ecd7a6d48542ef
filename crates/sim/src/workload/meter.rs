//! What a load has done since it was last asked: operations, bytes, latencies in the buckets that
//! all results share.

use floodwall_device::Nanos;
use floodwall_model::LatencyCounts;
use floodwall_model::histogram::Histogram;
use floodwall_model::trial::OpLatencies;
use floodwall_stats::recorder::Delta;

/// A kind of operation, as [`OpLatencies`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Commit,
    Write,
    Sync,
    Read,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    kinds: [Histogram; 4],
    read_calls: Histogram,
    ops: u64,
    bytes: u64,
    /// Operations since the load was started.
    pub(crate) since_start: u64,
}

impl Meter {
    /// Counts how long something took; commits and reads are whole operations.
    pub(crate) fn record(&mut self, kind: Kind, latency: Nanos) {
        self.ops += u64::from(matches!(kind, Kind::Commit | Kind::Read));
        self.kinds[kind as usize].record(latency.0);
    }

    /// Counts a read: how long it took since it was due, and since its call.
    pub(crate) fn record_read(&mut self, since_due: Nanos, since_call: Nanos) {
        self.record(Kind::Read, since_due);
        self.read_calls.record(since_call.0);
    }

    /// Counts bytes moved.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts operations that no process waits for.
    pub(crate) fn add_untimed(&mut self, ops: u64, bytes: u64) {
        self.ops += ops;
        self.bytes += bytes;
    }

    /// The counts since the last call.
    pub(crate) fn take(&mut self) -> Delta {
        self.take_with_read_calls().0
    }

    /// The same, and reads as a tracer sees them: from the call, where a [`Delta`] has them from
    /// when they were due.
    pub(crate) fn take_with_read_calls(&mut self) -> (Delta, LatencyCounts) {
        let [commit, write, sync, read] = &mut self.kinds;
        let latencies = OpLatencies {
            commit: commit.take(),
            write: write.take(),
            sync: sync.take(),
            read: read.take(),
        };
        self.since_start += self.ops;
        let (ops, bytes) = (std::mem::take(&mut self.ops), std::mem::take(&mut self.bytes));
        (Delta { ops, bytes, latencies }, self.read_calls.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_holds_what_was_added_since_the_last() {
        let mut meter = Meter::default();
        meter.record(Kind::Commit, Nanos(5_000));
        meter.record(Kind::Write, Nanos(1_000));
        meter.add_bytes(4096);
        let first = meter.take();
        assert_eq!((first.ops, first.bytes), (1, 4096));
        assert_eq!(first.latencies.commit, LatencyCounts::from_values([5_000]));
        meter.add_untimed(4, 4096);
        meter.record(Kind::Read, Nanos(7));
        let second = meter.take();
        assert_eq!(
            (second.ops, second.latencies.commit.count(), second.latencies.read.max_ns()),
            (5, 0, 7)
        );
        assert_eq!(meter.take(), Delta::default());
    }
}
