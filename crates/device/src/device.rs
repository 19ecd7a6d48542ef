//! What a device model is: requests in, completions out, at modelled times.
//!
//! ```text
//! submit(now, request) ─▶ ┌────────┐
//! next_event() ◀───────── │ Device │ ─▶ advance(to) ─▶ completions with their exact times
//! powercut(now) ─────────▶└────────┘ ─▶ what was acknowledged and is gone
//! ```
//!
//! A model holds no contents. It says when a request is done and, for a power cut, which writes had
//! not reached anything that keeps them. Offsets and lengths are bytes, times are [`Nanos`].

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read `len` bytes.
    Read,
    /// Write `len` bytes; with `fua` (force unit access) it is not complete before it is stable.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Make everything stable whose completion was handed out before this was submitted.
    Flush,
    /// Forget the contents of a range.
    Discard,
    /// Write zeroes over a range without sending them.
    WriteZeroes,
}

impl Op {
    /// Whether it changes contents.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteZeroes)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names the request in its completion; unique among the requests in flight.
    pub id: u64,
    /// Orders writes: a later write has a higher version. Arrays and caches pass it on unchanged,
    /// so that a power cut can be reported in the caller's terms ([`LostExtent::since`]). The
    /// constructors take the id, so ids should ascend.
    pub version: u64,
    /// What to do.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; 0 for a flush.
    pub len: u64,
    /// Whether a process waits for it (the block layer's `REQ_SYNC`). A hint; no model here looks
    /// at it yet but the recorder does.
    pub sync: bool,
}

impl Request {
    /// Any request.
    #[must_use]
    pub const fn new(id: u64, op: Op, offset: u64, len: u64) -> Self {
        Self { id, version: id, op, offset, len, sync: false }
    }

    /// A read.
    #[must_use]
    pub const fn read(id: u64, offset: u64, len: u64) -> Self {
        Self::new(id, Op::Read, offset, len)
    }

    /// A write without FUA.
    #[must_use]
    pub const fn write(id: u64, offset: u64, len: u64) -> Self {
        Self::new(id, Op::Write { fua: false }, offset, len)
    }

    /// A flush.
    #[must_use]
    pub const fn flush(id: u64) -> Self {
        Self::new(id, Op::Flush, 0, 0)
    }

    /// The byte after the last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum IoError {
    /// The medium could not be read or written (`EIO`).
    #[error("medium error: the device could not read or write this range")]
    Medium,
    /// The range goes past the end of the device.
    #[error("range past the end of the device; stay within its capacity")]
    OutOfRange,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// When, in virtual time.
    pub at: Nanos,
    /// Whether it succeeded.
    pub result: Result<(), IoError>,
}

/// A range in which acknowledged writes were lost with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostExtent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Every write to this range whose version is this or higher is lost; the range holds its
    /// content from before again.
    pub since: u64,
}

/// What a power cut took. Ranges may overlap; the lowest `since` counts. Ranges of writes in flight
/// may be among them: a caller that applies a write when it is complete has nothing to take back
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostWrites {
    /// Lost ranges, in the order of their versions.
    pub extents: Vec<LostExtent>,
}

impl LostWrites {
    /// Ranges put into the order of their versions.
    #[must_use]
    pub fn new(mut extents: Vec<LostExtent>) -> Self {
        extents.sort_unstable_by_key(|e| (e.since, e.offset, e.len));
        extents.dedup();
        Self { extents }
    }
}

/// What a device is, as a block layer would ask it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Bytes that it exposes.
    pub capacity_bytes: u64,
    /// Whether neighbouring offsets are cheaper than far ones (`queue/rotational`).
    pub rotational: bool,
    /// Whether it reports a write cache that a FLUSH is needed for (`queue/write_cache` "write
    /// back").
    pub volatile_cache: bool,
    /// Requests that it can usefully hold at once (a hint, at least 1).
    pub queue_depth: u32,
    /// No read or write of any length is complete sooner than this after its submission.
    pub floor: Nanos,
    /// Bytes per second that it can never exceed in one direction (its link); infinite if there is
    /// no such bound.
    pub max_rate: f64,
}

/// Counters since the device was built, and levels of this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Requests submitted and not yet complete (level).
    pub queue_depth: u64,
    /// Reads, writes (and write-zeroes), flushes and discards submitted.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// See `reads`.
    pub flushes: u64,
    /// See `reads`.
    pub discards: u64,
    /// Bytes of the reads submitted.
    pub read_bytes: u64,
    /// Bytes of the writes submitted.
    pub write_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Time with at least one request in the device, up to the last completion handed out.
    pub busy_ns: u64,
    /// Bytes written and acknowledged that still wait in caches for the medium (level).
    pub cache_bytes: u64,
    /// Bytes that these caches can hold.
    pub cache_size_bytes: u64,
    /// Writes that wait for space in a full cache (level).
    pub cache_waiting: u64,
    /// Bytes read from the medium, internal copies included, over all members.
    pub media_read_bytes: u64,
    /// Bytes written to the medium, mirrors, parity and internal copies included.
    pub media_write_bytes: u64,
    /// Time that heads or dies were at work, summed over them.
    pub media_busy_ns: u64,
    /// Times that a head had to move to another cylinder.
    pub seeks: u64,
    /// How far, in bytes of address space.
    pub seek_bytes: u64,
}

impl DeviceStats {
    /// Adds a part's cache and medium figures (not the host's) to these.
    pub fn add_part(&mut self, part: &Self) {
        self.cache_bytes += part.cache_bytes;
        self.cache_size_bytes += part.cache_size_bytes;
        self.cache_waiting += part.cache_waiting;
        self.media_read_bytes += part.media_read_bytes;
        self.media_write_bytes += part.media_write_bytes;
        self.media_busy_ns += part.media_busy_ns;
        self.seeks += part.seeks;
        self.seek_bytes += part.seek_bytes;
    }
}

/// A storage device in virtual time.
///
/// Three rules bind caller and model:
/// - Time does not run backwards. Before `submit(now, …)` the caller has collected everything due
///   before `now` with `advance`. A device from [`DeviceSpec::build`](crate::DeviceSpec::build)
///   does this itself.
/// - `advance(to)` hands out completions up to `to`, in the order of their times.
/// - A submitted request is completed exactly once, unless the power fails.
pub trait Device: Send {
    /// Hands over a request at `now`.
    fn submit(&mut self, now: Nanos, request: Request);

    /// When something next happens inside (not always a completion); `None` while nothing is under
    /// way.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets time pass up to and including `to`; appends what completes, in the order of time.
    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>);

    /// Its description.
    fn profile(&self) -> Profile;

    /// Counters and levels.
    fn stats(&self) -> DeviceStats;

    /// Counters and levels as of `now`, to which the device has been advanced: a model may count
    /// planned work before its time comes.
    fn stats_at(&self, now: Nanos) -> DeviceStats {
        let _ = now;
        self.stats()
    }

    /// The power fails and comes back at `now`. Requests in flight never complete; unacknowledged
    /// writes have not happened; completions due by `now` and not yet collected are still handed
    /// out. Returns which acknowledged writes are lost.
    fn powercut(&mut self, now: Nanos) -> LostWrites;

    /// The lowest version of a write that a power cut at this moment could still take; `None` if no
    /// write is at risk. A caller that keeps old contents for a power cut may drop those of lower
    /// versions.
    fn oldest_volatile(&self) -> Option<u64>;

    /// Bytes that it exposes.
    fn capacity(&self) -> u64 {
        self.profile().capacity_bytes
    }

    /// Whether it reports a volatile write cache (what `WCE` would say).
    fn volatile_cache(&self) -> bool {
        self.profile().volatile_cache
    }
}
