//! The counters of a disk between two steps.

use std::time::Duration;

/// Least mean size of bulk writes. Writes of a commit are smaller.
const BULK_BYTES: u64 = 128 << 10;
/// So many operations tell their mean wait to about 18 %, if their waits spread as in a queue.
pub(super) const SURE: f64 = 32.0;
/// Resolution of the kernel's times (block/genhd.c `diskstats_show`).
const STEP: Duration = Duration::from_millis(1);

/// Requests that ended, and the sum of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// How many.
    pub ops: u64,
    /// Sum of their times, from the start of a request to its end.
    pub wait: Duration,
}

impl Waits {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { ops: self.ops + other.ops, wait: self.wait + other.wait }
    }

    /// Mean wait in seconds; none without an operation. The kernel tells whole milliseconds: a
    /// shorter sum is half of one.
    pub(super) fn mean_s(self) -> Option<f64> {
        (self.ops > 0).then(|| self.wait.max(STEP / 2).as_secs_f64() / self.ops as f64)
    }
}

/// A disk between two steps: the differences of its counters, and the command's own part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Time between the two.
    pub elapsed: Duration,
    /// Bytes of the command that reached the disk.
    pub own_bytes: u64,
    /// Ranges of the command's pieces that reached the disk, and the sum of their times from start
    /// to end.
    pub own: Waits,
    /// Those of [`Self::own_bytes`] whose time is not known: the kernel wrote them by itself.
    pub own_untimed_bytes: u64,
    /// Bytes of the command that are under way now.
    pub own_under_way: u64,
    /// Whether data of the command was under way all the time. Only then the disk took as much of
    /// it as it can.
    pub backlogged: bool,
    /// Flushes of the disk's cache. None ever ends on a disk without a volatile cache.
    pub flushes: Waits,
    /// Reads, ours among them.
    pub reads: Waits,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Bytes of them that are ours; negative where an earlier step counted too many.
    pub own_read_bytes: i64,
    /// Writes, those of the command included.
    pub writes: Waits,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Time with a request under way.
    pub busy: Duration,
    /// Requests under way now.
    pub in_flight: u64,
    /// Whether a guard tells that others wait for the disk.
    pub others_reported: bool,
    /// Bytes of the longest request, if the disk has no volatile cache (`write through` in its
    /// `queue/write_cache`). Commits then end without a flush, and small writes show them.
    pub flushless: Option<u64>,
}

impl Seen {
    /// Both together. A sum begins with the default, which is no time.
    pub(super) fn plus(&self, later: &Self) -> Self {
        if self.elapsed.is_zero() {
            return *later;
        }
        Self {
            elapsed: self.elapsed + later.elapsed,
            own_bytes: self.own_bytes + later.own_bytes,
            own: self.own.plus(later.own),
            own_untimed_bytes: self.own_untimed_bytes + later.own_untimed_bytes,
            backlogged: self.backlogged && later.backlogged,
            flushes: self.flushes.plus(later.flushes),
            reads: self.reads.plus(later.reads),
            read_bytes: self.read_bytes + later.read_bytes,
            own_read_bytes: self.own_read_bytes + later.own_read_bytes,
            writes: self.writes.plus(later.writes),
            written_bytes: self.written_bytes + later.written_bytes,
            busy: self.busy + later.busy,
            ..*later
        }
    }

    /// Bytes of the command's pieces per second under way: too few where several ranges were under
    /// way at a time. None if none ended.
    pub(super) fn own_rate(&self) -> Option<f64> {
        let bytes = self.own_bytes.saturating_sub(self.own_untimed_bytes);
        (!self.own.wait.is_zero()).then(|| bytes as f64 / self.own.wait.as_secs_f64())
    }

    /// Requests that another program may wait for, its operations: flushes, reads, and small writes
    /// of a disk where commits need no flush.
    pub(super) fn others(&self) -> Waits {
        self.flushes.plus(self.others_reads()).plus(self.small_writes())
    }

    /// How many they are.
    pub(super) fn others_ops(&self) -> f64 {
        self.others().ops as f64
    }

    /// Reads that are not ours: as large a part of all as of their bytes.
    pub(super) fn others_reads(&self) -> Waits {
        let own = self.own_read_bytes.max(0).cast_unsigned();
        if own == 0 {
            return self.reads;
        }
        let others = self.read_bytes.saturating_sub(own);
        let part = others as f64 / self.read_bytes.max(1) as f64;
        Waits { ops: (self.reads.ops as f64 * part) as u64, wait: self.reads.wait.mul_f64(part) }
    }

    /// Writes of others on a disk where commits need no flush; none if they are bulk writes.
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
        // The requests of a piece begin together and end one after the other: their mean time is
        // half of the piece's. That is too little for a piece of one request, so others seem to
        // wait longer than they do. This leaves a margin, since an array's cache hides their wait
        // until it is full. With the exact part, (n + 1) / 2n, the share rose until then.
        let of_piece = own.checked_div(self.own.ops).unwrap_or_default();
        let own_wait = self.own.wait * u32::try_from(of_piece).unwrap_or(u32::MAX) / 2;
        Waits { ops, wait: self.writes.wait.saturating_sub(own_wait) }
    }
}
