//! What was seen of a disk between two steps.

use std::time::Duration;

/// Mean size from which writes are a bulk write's: a commit's are smaller.
const BULK_BYTES: u64 = 128 << 10;

/// Requests that ended, and how long they had waited together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// How many.
    pub ops: u64,
    /// Sum of their times, from the start of a request to its end.
    pub wait: Duration,
}

impl Waits {
    fn plus(self, other: Self) -> Self {
        Self { ops: self.ops + other.ops, wait: self.wait + other.wait }
    }

    /// Mean wait in seconds; none without an operation.
    #[must_use]
    pub(super) fn mean_s(self) -> Option<f64> {
        (self.ops > 0).then(|| self.wait.as_secs_f64() / self.ops as f64)
    }
}

/// A disk between two steps: the differences of its counters, and what we know of our own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Time between the two.
    pub elapsed: Duration,
    /// Bytes of ours that reached the disk.
    pub own_bytes: u64,
    /// Pieces of ours that reached the disk, and how long each took from its start.
    pub own: Waits,
    /// Bytes of ours that are under way now.
    pub own_under_way: u64,
    /// Whether something of ours was under way all the time: only then is `own_bytes` all that
    /// the disk took.
    pub backlogged: bool,
    /// Flushes of the disk's cache. None ever ends on a disk without a volatile cache.
    pub flushes: Waits,
    /// Reads.
    pub reads: Waits,
    /// Writes, ours among them.
    pub writes: Waits,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Time with a request under way.
    pub busy: Duration,
    /// Requests under way now.
    pub in_flight: u64,
    /// Bytes of the longest request, if commits end without a flush because the disk has no
    /// volatile cache (`write through` in its `queue/write_cache`): writes have to tell then.
    pub flushless: Option<u64>,
}

impl Seen {
    pub(super) fn plus(&self, later: &Self) -> Self {
        Self {
            elapsed: self.elapsed + later.elapsed,
            own_bytes: self.own_bytes + later.own_bytes,
            own: self.own.plus(later.own),
            backlogged: self.backlogged && later.backlogged,
            flushes: self.flushes.plus(later.flushes),
            reads: self.reads.plus(later.reads),
            writes: self.writes.plus(later.writes),
            written_bytes: self.written_bytes + later.written_bytes,
            busy: self.busy + later.busy,
            ..*later
        }
    }

    /// Operations that may be of somebody who waits: flushes, reads, and small writes of a disk
    /// where commits need no flush.
    pub(super) fn others_ops(&self) -> f64 {
        (self.flushes.ops + self.reads.ops + self.small_writes().ops) as f64
    }

    /// Writes that are not ours, on a disk where commits need no flush; none if they are long.
    pub(super) fn small_writes(&self) -> Waits {
        let Some(longest) = self.flushless.filter(|longest| *longest > 0) else {
            return Waits::default();
        };
        // A piece may begin and end inside of a request.
        let own = self.own_bytes / longest + self.own.ops;
        let ops = self.writes.ops.saturating_sub(own);
        let bytes = self.written_bytes.saturating_sub(self.own_bytes);
        if ops == 0 || bytes / ops >= BULK_BYTES {
            return Waits::default();
        }
        // The requests of a piece begin together and end one after the other.
        let of_piece = own.checked_div(self.own.ops).unwrap_or_default();
        let own_wait = self.own.wait * u32::try_from(of_piece).unwrap_or(u32::MAX) / 2;
        Waits { ops, wait: self.writes.wait.saturating_sub(own_wait) }
    }
}
