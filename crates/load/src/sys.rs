//! The one system call that rustix lacks.
#![expect(unsafe_code, reason = "rustix has no sync_file_range(2)")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// What sync_file_range(2) is to do with a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RangeSync {
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

/// sync_file_range(2): data only, no metadata, no flush of the device's cache.
#[inline]
pub(crate) fn sync_file_range(
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
