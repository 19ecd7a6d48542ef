//! Where a file has data and where it has holes: SEEK_DATA, SEEK_HOLE.

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// What a file has from some offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Where it ends.
    pub(super) end: u64,
    /// Whether it is data; else a hole.
    pub(super) is_data: bool,
}

/// The segment from `start` up to `last`, which is beyond it. Moves the descriptor's position.
pub(super) fn segment(file: BorrowedFd<'_>, start: u64, last: u64) -> Segment {
    let (end, is_data) = match seek(file, SeekFrom::Data(start)) {
        Ok(data) if data > start => (data, false),
        Ok(_) => (seek(file, SeekFrom::Hole(start)).unwrap_or(last), true),
        // No data up to the file's end.
        Err(Errno::NXIO) => (last, false),
        // The filesystem doesn't tell.
        Err(_) => (last, true),
    };
    // A hole that was punched between the two calls starts here: it reads as zeros.
    if end <= start {
        return Segment { end: last, is_data: true };
    }
    Segment { end: end.min(last), is_data }
}
