//! Loads and their tasks: what each does, where it is, and what it has counted.

use floodwall_device::Nanos;
use floodwall_model::scenario::{Access, SyncMethod};
use rand_pcg::Pcg64Mcg;

use super::choose::Chooser;
use super::meter::Meter;
use super::pace::{Limit, Tickets};
use super::read_ahead::ReadAhead;
use crate::fs::SyncJob;
use crate::page_cache::InodeId;
use crate::request::ProcessIndex;
use crate::throttle::Dirtier;
use crate::writeback::Pass;

/// What a thread does.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// A victim's operations.
    Victim(VictimProgram),
    /// A flood's stream.
    Flood(FloodProgram),
    /// Writes so many bytes in blocks of 1 MiB and ends.
    Burst { left: u64 },
    /// syncfs(2): everything that is dirty, file by file, then the journal.
    SyncAll { inode: u32 },
}

/// What a victim's thread does.
#[derive(Clone, Debug)]
pub(crate) struct VictimProgram {
    /// How writes are made stable.
    pub(crate) sync: SyncMethod,
    /// Writes go past the page cache.
    pub(crate) direct: bool,
    /// What the page cache does for reads.
    pub(crate) access: Access,
    pub(crate) chooser: Chooser,
}

/// What a flood's stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloodKind {
    /// From begin to end, over and over.
    Sequential,
    /// Random blocks.
    Random,
    /// Small files of so many bytes each.
    Files { bytes: u64 },
    /// From begin to end through a mapping.
    Mapped,
    /// Reads one file and writes another.
    Copy { source: InodeId },
}

/// See [`Program::Flood`].
#[derive(Clone, Debug)]
pub(crate) struct FloodProgram {
    pub(crate) kind: FloodKind,
    pub(crate) block: u64,
    /// Bytes in which it goes round.
    pub(crate) space: u64,
    pub(crate) cursor: u64,
    /// Bytes of a block that is not complete yet.
    pub(crate) partial: u64,
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// Not started, or over.
    Stopped,
    /// Chooses what to do next.
    Next,
    /// Waits until its next operation falls due.
    Due,
    /// Copies bytes into the page cache: pages `begin..end`.
    Copy { begin: u64, end: u64, bytes: u64 },
    /// Sleeps in `balance_dirty_pages`.
    Balance,
    /// Writes out for `balance_dirty_pages` (2.6).
    WriteOut(Pass),
    /// Its write is accepted.
    Written,
    /// Makes it stable.
    Sync(SyncJob),
    /// A direct write is on its way.
    DirectWrite,
    /// A read is on its way.
    Read,
    /// Pages are being read for it.
    ReadPages { page: u64, end: u64 },
}

/// What one operation of a victim touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) inode: InodeId,
    /// In bytes.
    pub(crate) offset: u64,
    pub(crate) is_read: bool,
    /// From when its latency counts: when it fell due, or when it began.
    pub(crate) since: Nanos,
    /// When its first call began.
    pub(crate) began: Nanos,
    /// When its data was in the page cache.
    #[cfg(test)]
    pub(crate) copied: Nanos,
    /// When its write call returned.
    pub(crate) written: Nanos,
}

/// A thread or stream.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) process: ProcessIndex,
    /// Index of its load.
    pub(crate) load: usize,
    pub(crate) who: Dirtier,
    pub(crate) program: Program,
    pub(crate) state: State,
    pub(crate) file: InodeId,
    pub(crate) op: Operation,
    pub(crate) rng: Pcg64Mcg,
    /// CPU time spent since the machine last knew of it: charged with the next copy.
    pub(crate) cpu: Nanos,
    /// CPU time in all.
    pub(crate) cpu_total: Nanos,
    pub(crate) read_ahead: ReadAhead,
    /// Time that the current operation slept in `balance_dirty_pages`, and since when it sleeps
    /// there.
    pub(crate) throttled: Nanos,
    pub(crate) throttled_since: Nanos,
    /// Whether an operation is under way.
    pub(crate) busy: bool,
}

/// A victim or flood.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) meter: Meter,
    /// Its tasks begin new operations.
    pub(crate) running: bool,
    pub(crate) began: Nanos,
    /// Number of its control group; 0 is the root group.
    pub(crate) group: u32,
    /// Bytes of each operation.
    pub(crate) block: u64,
    pub(crate) files: Vec<InodeId>,
    /// Where each log goes on, in records; shared by the threads that append to it.
    pub(crate) logs: Vec<u64>,
    /// An open loop's operations.
    pub(crate) tickets: Option<Tickets>,
    /// A flood's rate limit over all its streams.
    pub(crate) limit: Option<Limit>,
    /// A growing log is cut to nothing at the beginning of each lap.
    pub(crate) cuts_logs: bool,
    /// Its file can stay in the page cache.
    pub(crate) fits_in_memory: bool,
}
