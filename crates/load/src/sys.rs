//! The system calls that rustix lacks.
#![expect(unsafe_code, reason = "rustix has no sync_file_range(2) and no getrusage(2)")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// What sync_file_range(2) is to do with a range.
#[derive(Clone, Copy, Debug)]
pub enum RangeSync {
    /// Start writing its dirty pages, and return.
    Start,
    /// Wait until all that is dirty in it now is written.
    Wait,
}

impl RangeSync {
    /// The flags of the system call.
    pub(crate) fn flags(self) -> u32 {
        match self {
            Self::Start => libc::SYNC_FILE_RANGE_WRITE,
            Self::Wait => {
                libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER
            }
        }
    }
}

/// sync_file_range(2): data only, no metadata, no flush of the device's cache. `len` 0 means to the
/// end of the file.
///
/// # Errors
/// The kernel's answer; a call that a signal interrupted is repeated.
#[inline]
pub fn sync_file_range(
    fd: BorrowedFd<'_>,
    offset: u64,
    len: u64,
    sync: RangeSync,
) -> Result<(), Errno> {
    loop {
        // SAFETY: the call takes no pointer, and the descriptor is open as long as it is borrowed.
        let result = unsafe {
            libc::sync_file_range(
                fd.as_raw_fd(),
                offset.cast_signed(),
                len.cast_signed(),
                sync.flags(),
            )
        };
        if result == 0 {
            return Ok(());
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::INTR) => {}
            errno => return Err(errno.unwrap_or(Errno::IO)),
        }
    }
}

/// What the kernel counted of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time in user mode and in the kernel: microseconds.
    pub(crate) cpu_us: [u64; 2],
    /// Context switches of both kinds.
    pub(crate) switches: u64,
    /// Page faults that waited for I/O, and that did not.
    pub(crate) faults: [u64; 2],
}

/// getrusage(2) of the calling thread; zeros if it fails.
pub(crate) fn thread_usage() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes a whole rusage, for which zeros are a value as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let us = |time: libc::timeval| {
        time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned()
    };
    Usage {
        cpu_us: [us(usage.ru_utime), us(usage.ru_stime)],
        switches: (usage.ru_nvcsw + usage.ru_nivcsw).cast_unsigned(),
        faults: [usage.ru_majflt.cast_unsigned(), usage.ru_minflt.cast_unsigned()],
    }
}
