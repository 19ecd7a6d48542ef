//! One sync of one process: its range, its stage, and the time that it has waited.

use floodwall_device::Nanos;

use crate::block::Times;
use crate::page_cache::InodeId;

/// How far making a range stable goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Data alone: sync_file_range.
    Data,
    /// What reading the data back takes: fdatasync, O_DSYNC.
    DataSync,
    /// All: fsync, O_SYNC.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Submit { page: u64 },
    Wait,
    Waited,
    Commit,
    Committed { covered: bool },
    Flush,
    Flushed,
}

/// One sync of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncJob {
    pub(super) inode: InodeId,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Pages that it answers for: what the process itself has written.
    pub(super) own: (u64, u64),
    /// Some of them could not go out because they were under writeback with their old content.
    pub(super) skipped: bool,
    pub(super) extent: Extent,
    pub(super) stage: Stage,
    /// When its last stage began.
    since: Nanos,
    /// Time waited for pages, for the commit, for the flush.
    pub(crate) waited: [Nanos; 3],
    /// When the pages that arrived last passed each stage.
    pub(crate) critical: Times,
}

impl SyncJob {
    /// For the pages that the process has written, or the `whole` file with them, as fsync does.
    pub(crate) fn new(
        inode: InodeId,
        own: (u64, u64),
        whole: bool,
        extent: Extent,
        now: Nanos,
    ) -> Self {
        let (begin, end) = if whole { (0, u64::MAX) } else { own };
        Self {
            inode,
            begin,
            end,
            own,
            skipped: false,
            extent,
            stage: Stage::Submit { page: begin },
            since: now,
            waited: [Nanos::ZERO; 3],
            critical: Times::default(),
        }
    }

    /// For a write that went to the device directly: its data needs no separate step.
    pub(crate) fn after_direct(inode: InodeId, extent: Extent, now: Nanos) -> Self {
        Self { stage: Stage::Commit, ..Self::new(inode, (0, 0), false, extent, now) }
    }

    /// Whether it had pages to wait for.
    pub(crate) fn waited_for_pages(&self) -> bool {
        self.waited[0] > Nanos::ZERO
    }

    /// The time since its last stage began belongs to this kind of wait.
    pub(super) fn note(&mut self, now: Nanos, kind: usize) {
        self.waited[kind] += now.since(self.since);
        self.since = now;
    }
}
