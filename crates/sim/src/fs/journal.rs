//! The journal: its commits and its place on the device. `commit.rs` has the steps of a commit.

use std::collections::VecDeque;

use super::kind::FsKind;
use crate::kernel::Generation;
use crate::request::{Flags, ProcessIndex};

/// A block of the journal.
pub(super) const BLOCK: u64 = 4096;

/// What the journal's thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// ext3: dirty data of the file with this number, from this page on.
    Data {
        inode: u32,
        page: u64,
    },
    /// ext3: waits for the data of the file with this number.
    DataWait {
        inode: u32,
    },
    Blocks,
    Record,
    Written,
}

/// A record on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) commit: u64,
    pub(super) written: bool,
}

/// The state of a filesystem's journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(super) process: ProcessIndex,
    pub(super) kind: FsKind,
    pub(super) generation: Generation,
    /// Number of the commit that changes join now.
    pub(super) running: u64,
    /// Whether anything has joined it.
    pub(super) dirty: bool,
    /// Metadata blocks in it.
    pub(super) blocks: u64,
    /// The last that is stable.
    pub(super) committed: u64,
    /// The last that a process waits for.
    pub(super) requested: u64,
    pub(super) phase: Phase,
    /// The commit that the thread works on, and its blocks.
    pub(super) current: (u64, u64),
    /// Whether a process waits for it.
    pub(super) synchronous: bool,
    pub(super) records: VecDeque<Record>,
    pub(super) waiters: Vec<(ProcessIndex, u64)>,
    /// First byte and length of the journal, and where it goes on.
    pub(super) area: (u64, u64),
    head: u64,
    /// Bytes of records and blocks made so far.
    #[cfg(test)]
    bytes: u64,
}

impl Journal {
    pub(super) fn new(
        kind: FsKind,
        generation: Generation,
        capacity: u64,
        process: ProcessIndex,
    ) -> Self {
        let len = (capacity / 64).clamp(4 << 20, 128 << 20) / BLOCK * BLOCK;
        let begin = match kind {
            // Inode 8 of the first group.
            FsKind::Ext3 | FsKind::Ext3Writeback => 0,
            // The middle of the device (mkfs.xfs, mke2fs since 1.41.10).
            _ => capacity / 2 / BLOCK * BLOCK,
        };
        let begin = begin.min(capacity.saturating_sub(len));
        Self {
            process,
            kind,
            generation,
            running: 1,
            dirty: false,
            blocks: 0,
            committed: 0,
            requested: 0,
            phase: Phase::Idle,
            current: (0, 0),
            synchronous: false,
            records: VecDeque::new(),
            waiters: Vec::new(),
            area: (begin, len),
            head: 0,
            #[cfg(test)]
            bytes: 0,
        }
    }

    /// The process that writes the journal.
    pub(crate) fn process(&self) -> ProcessIndex {
        self.process
    }

    /// Room for the next bytes of the journal.
    pub(super) fn next_offset(&mut self, bytes: u64) -> u64 {
        if self.head + bytes > self.area.1 {
            self.head = 0;
        }
        let at = self.area.0 + self.head;
        self.head += bytes;
        #[cfg(test)]
        {
            self.bytes += bytes;
        }
        at
    }

    /// Bytes of records and blocks made so far.
    #[cfg(test)]
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes
    }

    /// What journal writes say of themselves: exempt from wbt where they are synchronous and idle
    /// (xfs always; jbd2 since 6.8).
    pub(super) fn flags(&self) -> Flags {
        let (idle, meta) = (self.generation.exempts_journals(), self.generation.has_sync_writes());
        let sync = idle || meta && (self.synchronous || self.kind == FsKind::Xfs);
        Flags { sync, idle, meta, background: false }
    }

    /// Whether records carry PREFLUSH and FUA: always, but for ext3, whose barriers are off by
    /// default.
    pub(super) fn has_barriers(&self) -> bool {
        !matches!(self.kind, FsKind::Ext3 | FsKind::Ext3Writeback)
    }
}
