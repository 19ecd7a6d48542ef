//! Drops the pages of a written file from the page cache as they reach the disk.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use super::source::drop_cached;

/// Bytes that are dropped at once.
const STEP: u64 = 8 << 20;

/// The written part of one file.
pub(super) struct Behind {
    /// Bytes of this file that were pushed so far.
    pushed: u64,
    /// Ends of some pushed ranges: `pushed` at that time, and the offset in the file.
    marks: VecDeque<(u64, u64)>,
    last_mark: u64,
    /// The offset up to which pages were dropped.
    dropped: u64,
}

impl Behind {
    /// For a file that is written from an offset on.
    pub(super) fn new(at: u64) -> Self {
        Self { pushed: 0, marks: VecDeque::new(), last_mark: 0, dropped: at }
    }

    /// Notes that `len` bytes up to `end` were pushed. The last `under_way` pushed bytes, of any
    /// files, may not be on the disk yet.
    pub(super) fn pushed(&mut self, file: BorrowedFd<'_>, end: u64, len: u64, under_way: u64) {
        self.pushed += len;
        if self.pushed >= self.last_mark + STEP {
            self.last_mark = self.pushed;
            self.marks.push_back((self.pushed, end));
        }
        while let Some(&(pushed, end)) = self.marks.front()
            && pushed + under_way <= self.pushed
        {
            drop_cached(file, self.dropped, end - self.dropped);
            self.dropped = end;
            self.marks.pop_front();
        }
    }
}
