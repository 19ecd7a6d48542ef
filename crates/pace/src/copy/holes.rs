//! The data and the holes of a file, by SEEK_DATA and SEEK_HOLE of lseek(2).

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, fstat, fstatfs, seek};
use rustix::io::Errno;

/// Filesystems without holes: FAT, exFAT, HFS and HFS+ (linux/magic.h, and their own sources).
const SOLID: [u32; 4] = [0x4d44, 0x2011_bab0, 0x4244, 0x482b];

/// A part of a file that is data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The offset of its end.
    pub(super) end: u64,
    /// True for data, false for a hole.
    pub(super) is_data: bool,
}

/// The segment from `start` on, up to `last` at most. Moves the descriptor's position.
pub(super) fn next_segment(file: BorrowedFd<'_>, start: u64, last: u64) -> Segment {
    let (end, is_data) = match seek(file, SeekFrom::Data(start)) {
        Ok(data) if data > start => (data, false),
        Ok(_) => (seek(file, SeekFrom::Hole(start)).unwrap_or(last), true),
        // No data up to the file's end, which may be before `last` by now.
        Err(Errno::NXIO) => match fstat(file) {
            Ok(stat) => (u64::try_from(stat.st_size).unwrap_or(0).min(last), false),
            Err(_) => (last, true),
        },
        // The filesystem has no SEEK_DATA.
        Err(_) => (last, true),
    };
    // A hole that was punched between the two calls begins at `start`. It is read as zeros. Behind
    // the file's end nothing is read.
    if end <= start {
        return Segment { end: last, is_data: true };
    }
    Segment { end: end.min(last), is_data }
}

/// Whether a file on this filesystem can have holes. Where it can't, a write behind the file's end
/// writes zeros up to there, all in one call (`cont_write_begin`, fs/buffer.c).
pub(super) fn can_have(file: BorrowedFd<'_>) -> bool {
    // The kernel's numbers have 32 bits.
    fstatfs(file).map_or(true, |filesystem| !SOLID.contains(&(filesystem.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_hole_ends_where_a_shortened_file_ends() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let found = next_segment(file.as_fd(), 0, 2 << 20);
        assert_eq!(found, Segment { end: 1 << 20, is_data: false });
        // A read there finds the end.
        let found = next_segment(file.as_fd(), 1 << 20, 2 << 20);
        assert_eq!(found, Segment { end: 2 << 20, is_data: true });
    }
}
