//! A flusher's lists, and how far a pass over them has come.

use std::collections::VecDeque;

use floodwall_device::Nanos;

use crate::limits::flush::Periodic;
use crate::page_cache::InodeId;
use crate::request::ProcessIndex;

/// The flusher's lists and state.
#[derive(Debug)]
pub(crate) struct Flusher {
    pub(crate) process: ProcessIndex,
    pub(super) b_dirty: VecDeque<InodeId>,
    pub(super) b_io: VecDeque<InodeId>,
    pub(super) b_more_io: VecDeque<InodeId>,
    pub(super) pass: Option<Pass>,
    pub(super) periodic: Periodic,
    /// It sleeps and any process may wake it.
    pub(super) idle: bool,
    /// Its timer is set.
    pub(super) armed: bool,
    /// Background writeback was asked for.
    pub(super) background: bool,
    /// 2.6.18: when the next pass over old data begins.
    pub(super) next_kupdate: Nanos,
    pub(super) pass_began: Nanos,
}

impl Flusher {
    pub(crate) fn new(process: ProcessIndex) -> Self {
        Self {
            process,
            b_dirty: VecDeque::new(),
            b_io: VecDeque::new(),
            b_more_io: VecDeque::new(),
            pass: None,
            periodic: Periodic::default(),
            idle: true,
            armed: false,
            background: false,
            next_kupdate: Nanos::ZERO,
            pass_began: Nanos::ZERO,
        }
    }

    /// Whether it is writing (`writeback_in_progress`).
    pub(crate) fn is_working(&self) -> bool {
        self.pass.is_some()
    }

    /// Whether no file's chunk was used up.
    pub(super) fn nothing_more(&self) -> bool {
        self.b_more_io.is_empty()
    }

    pub(super) fn has_dirty(&self) -> bool {
        !(self.b_dirty.is_empty() && self.b_io.is_empty() && self.b_more_io.is_empty())
    }
}

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Over the background limit.
    Background,
    /// Old data.
    Periodic,
    /// A writer of 2.6 over the hard limit writes for itself.
    Throttled,
}

/// How far a pass came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It sleeps, and its process is stepped when it can go on.
    Blocked,
    /// pdflush does not sleep for a slot: it comes back when the queue is no longer congested.
    Congested,
    /// It is over.
    Finished,
}

/// One process's way through the dirty files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Number of the writeback context whose files it goes over.
    pub(super) wb: usize,
    pub(crate) why: Why,
    /// Pages that it may still write.
    pub(super) left: u64,
    /// Pages submitted, as the kernel counts them.
    pub(crate) written: u64,
    pub(super) older_than: Option<Nanos>,
    pub(super) visit: Option<Visit>,
    /// Pages submitted when the lists were last refilled; `None` before the first time.
    pub(super) round: Option<u64>,
}

/// The file that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) inode: InodeId,
    /// Pages of its chunk that are left.
    pub(super) left: u64,
    /// What the chunk was in the kernel's count.
    pub(super) chunk: u64,
    /// Used up of it in that count.
    pub(super) counted: u64,
    /// From here on (`writeback_index`).
    pub(super) cursor: u64,
}

impl Pass {
    pub(crate) fn new(wb: usize, why: Why, pages: u64, older_than: Option<Nanos>) -> Self {
        Self { wb, why, left: pages, written: 0, older_than, visit: None, round: None }
    }
}
