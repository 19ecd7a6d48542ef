//! What the kernel's tracepoints say, as plain data, whatever reads them.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC; sizes are bytes; places on a device are sectors of 512
//! bytes.

use floodwall_model::DeviceId;

/// One event and the process that was running when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at_ns: u64,
    /// The process (thread group).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What.
    pub event: Event,
}

/// A system call that returns when something is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// sync_file_range(2).
    SyncFileRange,
    /// msync(2) with `MS_SYNC`.
    Msync,
    /// syncfs(2).
    Syncfs,
    /// sync(2): all filesystems.
    Sync,
    /// A write to a file opened with `O_SYNC` or `O_DSYNC`.
    SyncWrite,
    /// A write to a file opened with `O_DIRECT` that is not synchronous besides.
    DirectWrite,
}

impl Call {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Fsync,
        Self::Fdatasync,
        Self::SyncFileRange,
        Self::Msync,
        Self::Syncfs,
        Self::Sync,
        Self::SyncWrite,
        Self::DirectWrite,
    ];

    /// As it is written in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::SyncFileRange => "sync_file_range",
            Self::Msync => "msync",
            Self::Syncfs => "syncfs",
            Self::Sync => "sync",
            Self::SyncWrite => "sync_write",
            Self::DirectWrite => "direct_write",
        }
    }

    /// Whether it makes data stable; a direct write only reaches the device.
    #[must_use]
    pub fn commits(self) -> bool {
        !matches!(self, Self::DirectWrite)
    }
}

/// What a request is to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A read.
    Read,
    /// A write that a process waits for (`REQ_SYNC`).
    SyncWrite,
    /// A write that no process waits for: the flusher's.
    AsyncWrite,
    /// A cache flush.
    Flush,
    /// Discards and the rest.
    Other,
}

impl Class {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::SyncWrite, Self::AsyncWrite, Self::Flush, Self::Other];

    /// As it is written in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::SyncWrite => "sync_write",
            Self::AsyncWrite => "async_write",
            Self::Flush => "flush",
            Self::Other => "other",
        }
    }

    /// Parses the letters of a block event (block/blk-core.c `blk_fill_rwbs`): an `F` for a flush
    /// before, then the operation, then flags. The flags are `F` for forced unit access, `A`
    /// read-ahead, `S` sync, `M` metadata.
    ///
    /// `None` for an empty write that only asks for a flush: the flush itself has separate events.
    #[must_use]
    pub(crate) fn from_rwbs(rwbs: &[u8]) -> Option<Self> {
        let (preflush, operation, flags) = match rwbs {
            [b'F', operation, flags @ ..] => (true, *operation, flags),
            [operation, flags @ ..] => (false, *operation, flags),
            [] => return Some(Self::Other),
        };
        match operation {
            b'R' => Some(Self::Read),
            b'W' if flags.contains(&b'S') => Some(Self::SyncWrite),
            b'W' => Some(Self::AsyncWrite),
            b'F' => Some(Self::Flush),
            b'N' if preflush => None,
            _ => Some(Self::Other),
        }
    }
}

/// Which request: requests have no number, but no two outstanding ones begin at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The device.
    pub device: DeviceId,
    /// First sector; [`Place::FLUSH`] for a cache flush.
    pub sector: u64,
}

impl Place {
    /// Where a flush, which has no place, is taken to be. One is outstanding a device
    /// (block/blk-flush.c), or one a hardware queue.
    pub const FLUSH: u64 = u64::MAX;
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread called.
    Enter {
        /// What.
        call: Call,
        /// The file descriptor; `None` for a call without one.
        fd: Option<i32>,
    },
    /// The call returned.
    Exit {
        /// What.
        call: Call,
        /// Whether it succeeded.
        ok: bool,
    },
    /// A thread called write(2) or one of its kin.
    EnterWrite {
        /// The file descriptor.
        fd: i32,
    },
    /// The write returned.
    ExitWrite {
        /// Whether it succeeded.
        ok: bool,
    },
    /// A request was made, in the thread that asks for it.
    Queued {
        /// Which.
        place: Place,
        /// The kind of request.
        class: Class,
        /// How long it is.
        bytes: u64,
    },
    /// A request was handed to the driver.
    Issued {
        /// Which.
        place: Place,
        /// The kind of request.
        class: Class,
        /// How long it is.
        bytes: u64,
    },
    /// A request was merged into another.
    Merged {
        /// Which: where it began.
        place: Place,
    },
    /// A request is done.
    Done {
        /// Which.
        place: Place,
    },
    /// The thread made another thread or process.
    Forked {
        /// The new one's number.
        child: u32,
    },
    /// The thread ended.
    Ended,
    /// A writer was looked at because there is much dirty, and made to sleep or not.
    Balanced {
        /// The backing device; `None` if its name is no device's number.
        device: Option<DeviceId>,
        /// Milliseconds of sleep; 0 for none. The kernel counts in jiffies of 1 to 10 ms.
        pause_ms: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_say_what_a_request_is() {
        for (letters, class) in [
            ("R", Some(Class::Read)),
            ("RA", Some(Class::Read)),
            ("RSM", Some(Class::Read)),
            ("W", Some(Class::AsyncWrite)),
            ("WM", Some(Class::AsyncWrite)),
            ("WS", Some(Class::SyncWrite)),
            ("WFSM", Some(Class::SyncWrite)),
            ("FWFSM", Some(Class::SyncWrite)),
            ("FF", Some(Class::Flush)),
            ("F", Some(Class::Flush)),
            ("FN", None),
            ("D", Some(Class::Other)),
            ("DE", Some(Class::Other)),
            ("N", Some(Class::Other)),
            ("", Some(Class::Other)),
        ] {
            assert_eq!(Class::from_rwbs(letters.as_bytes()), class, "{letters}");
        }
    }
}
