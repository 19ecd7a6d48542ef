//! Processes: the bios that they have to submit and those that they wait for.

use std::collections::VecDeque;

use crate::block::{Bio, Times};

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A workload's thread.
    Task(u32),
    /// pdflush, or the flusher of the writeback context with this number.
    Flusher(u32),
    /// kjournald, jbd2, or another process that writes the log.
    Journal,
    /// raid10d.
    Md,
    /// The worker that submits what `io.max` has held back.
    Kthrotld,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) role: Role,
    /// Number of its control group; 0 is the root group.
    pub(crate) group: u32,
    /// Bios that it has made and not submitted yet: it goes on when all are submitted.
    pub(super) fifo: VecDeque<Bio>,
    /// It sleeps for a slot or at the gate.
    pub(crate) blocked: bool,
    /// It was woken to try again.
    pub(crate) granted: bool,
    /// Submitted bios whose end it waits for.
    pub(crate) outstanding: u32,
    /// It sleeps until none is outstanding.
    pub(crate) waits: bool,
    /// Tells its timers that still count from those that do not.
    pub(crate) token: u32,
    /// When the last bio that it waited for passed each stage.
    pub(crate) last: Times,
}

impl Process {
    /// Adds a bio whose end is reported elsewhere.
    pub(crate) fn queue(&mut self, bio: Bio) {
        self.fifo.push_back(bio);
    }

    /// Adds many, the first first, behind those that it has.
    pub(crate) fn queue_all(&mut self, bios: VecDeque<Bio>) {
        match self.fifo.is_empty() {
            true => self.fifo = bios,
            false => self.fifo.extend(bios),
        }
    }
}
