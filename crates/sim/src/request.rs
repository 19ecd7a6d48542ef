//! What travels between the block layer, the elevator and the device.

use floodwall_device::{Nanos, Op};
use floodwall_model::Priority;

/// Names a process (a thread, in the kernel's sense) to elevators that keep a queue for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A process of the machine, by its place in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessIndex(pub(crate) u32);

/// What the submitter said about a request (`REQ_*` flags of `include/linux/blk_types.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// A process waits for it (`REQ_SYNC`).
    pub sync: bool,
    /// More of the kind will follow at once (`REQ_IDLE`; up to 4.9 its inverse was `REQ_NOIDLE`).
    pub idle: bool,
    /// Background or periodic writeback (`REQ_BACKGROUND`).
    pub background: bool,
    /// Metadata (`REQ_META`).
    pub meta: bool,
}

/// Levels of a priority class; 0 is served first (`IOPRIO_NR_LEVELS`).
pub const LEVELS: u8 = 8;
/// The level of a process at nice 0 that was given none (`IOPRIO_NORM`, `task_nice_ioprio`).
pub const NORMAL_LEVEL: u8 = 4;
/// Priorities that an elevator can tell apart: the idle class has no levels.
pub const PRIORITIES: usize = 2 * LEVELS as usize + 1;

/// The class of an I/O priority (`IOPRIO_CLASS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityClass {
    /// Before all other classes.
    RealTime,
    /// What every process has unless told otherwise.
    #[default]
    BestEffort,
    /// Only when no other class wants the device.
    Idle,
}

/// A read or write (or flush, discard) on its way to the device: a bio at first, a request once it
/// is in an elevator.
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
    /// The process that submitted it (a flusher for background writeback).
    pub process: ProcessId,
    /// I/O priority class.
    pub class: PriorityClass,
    /// Level within the class, 0 to 7; 0 is served first.
    pub level: u8,
    /// When it entered the elevator.
    pub queued: Nanos,
}

/// The class and level that a process of this priority submits with, at nice 0
/// (`__get_task_ioprio`).
#[must_use]
pub const fn class_and_level(priority: Priority) -> (PriorityClass, u8) {
    match priority {
        Priority::None => (PriorityClass::BestEffort, NORMAL_LEVEL),
        Priority::RealTime(level) => (PriorityClass::RealTime, level),
        Priority::BestEffort(level) => (PriorityClass::BestEffort, level),
        Priority::Idle => (PriorityClass::Idle, LEVELS - 1),
    }
}

impl IoRequest {
    /// The byte after the last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Class and level as one number below [`PRIORITIES`], the first served first.
    #[must_use]
    pub const fn priority(&self) -> usize {
        match self.class {
            PriorityClass::Idle => PRIORITIES - 1,
            class => class as usize * LEVELS as usize + self.level as usize,
        }
    }

    /// Whether it is a read (the kernel's data direction).
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self.op, Op::Read)
    }
}
