//! The data and the holes of a file, by SEEK_DATA and SEEK_HOLE of lseek(2).

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A part of a file that is data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The offset of its end.
    pub(super) end: u64,
    /// True for data, false for a hole.
    pub(super) is_data: bool,
}

/// The segment from `start` on, up to `last` at most. Moves the descriptor's position.
pub(super) fn segment(file: BorrowedFd<'_>, start: u64, last: u64) -> Segment {
    let (end, is_data) = match seek(file, SeekFrom::Data(start)) {
        Ok(data) if data > start => (data, false),
        Ok(_) => (seek(file, SeekFrom::Hole(start)).unwrap_or(last), true),
        // No data up to the file's end.
        Err(Errno::NXIO) => (last, false),
        // The filesystem has no SEEK_DATA.
        Err(_) => (last, true),
    };
    // A hole that was punched between the two calls begins at `start`. It is read as zeros.
    if end <= start {
        return Segment { end: last, is_data: true };
    }
    Segment { end: end.min(last), is_data }
}
