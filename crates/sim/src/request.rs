//! What travels between the block layer, the elevator and the device.

use floodwall_device::{Nanos, Op};

/// Names a process (a thread, in the kernel's sense) to elevators that keep a queue for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// What the submitter said about a request (`REQ_*` flags of `include/linux/blk_types.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Somebody waits for it (`REQ_SYNC`).
    pub sync: bool,
    /// More of the kind will follow at once (`REQ_IDLE`; up to 4.9 its inverse was `REQ_NOIDLE`).
    pub idle: bool,
    /// Background or periodic writeback (`REQ_BACKGROUND`).
    pub background: bool,
    /// Metadata (`REQ_META`).
    pub meta: bool,
}

/// The class of an I/O priority (`IOPRIO_CLASS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityClass {
    /// Before everybody else.
    RealTime,
    /// What every process has unless told otherwise.
    #[default]
    BestEffort,
    /// Only when nobody else wants the device.
    Idle,
}

/// A read or write (or flush, discard) on its way to the device: a bio at first, a request once it is in an elevator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRequest {
    /// Unique among the requests in flight, ascending.
    pub id: u64,
    /// What to do.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// What the submitter said about it.
    pub flags: Flags,
    /// Who submitted it (a flusher for background writeback).
    pub process: ProcessId,
    /// I/O priority class.
    pub class: PriorityClass,
    /// When it entered the elevator.
    pub queued: Nanos,
}

impl IoRequest {
    /// The byte after the last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether it is a read (the kernel's data direction).
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self.op, Op::Read)
    }
}
