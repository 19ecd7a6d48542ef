//! Bios that a filesystem submits to the block layer, and their completions.

use floodwall_device::{Nanos, Op};

use crate::page_cache::InodeId;
use crate::request::{Flags, ProcessIndex};

/// The receiver of a bio's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Pages of a file leave writeback.
    Pages { inode: InodeId, begin: u64, pages: u32 },
    /// A process has one less to wait for.
    Process(ProcessIndex),
    /// Pages of a file have been read.
    Fill { inode: InodeId, begin: u64, pages: u32 },
    /// NFS: the server has committed a file.
    Committed(InodeId),
    /// The record of a journal's commit is written.
    Record(u64),
}

/// When a bio passed each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// First tried.
    pub(crate) asked: Nanos,
    /// Through the wbt gate.
    pub(crate) gated: Nanos,
    /// Part of a request.
    pub(crate) queued: Nanos,
    /// Sent to the device.
    pub(crate) dispatched: Nanos,
    /// Done.
    pub(crate) done: Nanos,
}

/// A filesystem's bio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bio {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) flags: Flags,
    /// Everything that was complete before must be stable first (`REQ_PREFLUSH`).
    pub(crate) preflush: bool,
    /// Its group's `io.max` has let it through, and is not asked again (`BIO_BPS_THROTTLED`).
    pub(crate) let_through: bool,
    /// The process that gives it its priority (`bio_set_ioprio`), if the worker of `io.max` may
    /// submit it again.
    pub(crate) submitter: Option<ProcessIndex>,
    /// The process in whose context the kernel submits it, if the model uses another.
    pub(crate) on_behalf_of: Option<ProcessIndex>,
    pub(crate) end: End,
    pub(crate) times: Times,
}

impl Bio {
    pub(crate) fn new(op: Op, offset: u64, len: u64, flags: Flags, end: End) -> Self {
        Self {
            op,
            offset,
            len,
            flags,
            preflush: false,
            let_through: false,
            submitter: None,
            on_behalf_of: None,
            end,
            times: Times::default(),
        }
    }
}

/// A bio that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) end: End,
    pub(crate) times: Times,
}
