//! The backlog of a command: bytes that it dirtied and that are not written yet. Pure.
//!
//! It is `dirtied − written − settled − deleted`. Bytes of no known file settle at the pacer's
//! rate. They are metadata, direct I/O, or those of files that were not found. Bytes of deleted
//! files are dirty and stay so.

use std::time::Duration;

/// The backlog of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    /// Bytes of no known file that count as written. Negative if more was written than the command
    /// dirtied.
    settled: i64,
    /// Bytes of no known file so far.
    pub(super) unfound: u64,
}

impl Backlog {
    /// The backlog, from all bytes that were dirtied and written so far, and from those of deleted
    /// files, which need not be written.
    pub(super) fn left(&self, dirtied: u64, written: u64, deleted: u64) -> u64 {
        self.difference(dirtied, written).max(0).cast_unsigned().saturating_sub(deleted)
    }

    fn difference(&self, dirtied: u64, written: u64) -> i64 {
        dirtied.cast_signed() - written.cast_signed() - self.settled
    }

    /// The same, after bytes of no known file have settled: `drain` is the most of them that was
    /// written meanwhile.
    pub(super) fn step(&mut self, dirtied: u64, written: u64, deleted: u64, drain: u64) -> u64 {
        // Another program's bytes in the same files, or bytes of a file that was deleted later.
        self.settled += self.difference(dirtied, written).min(0);
        let left = self.left(dirtied, written, deleted);
        let drained = left.min(drain);
        self.settled += drained.cast_signed();
        self.unfound += drained;
        left - drained
    }
}

/// The bytes of a time, at a rate in bytes per second.
pub(super) fn bytes_in(time: Duration, per_s: f64) -> u64 {
    (per_s * time.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_explains_settles_in_time() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.step(1000, 0, 0, 0), 1000);
        assert_eq!((backlog.left(1000, 900, 0), backlog.left(800, 900, 0)), (100, 0));
        assert_eq!(backlog.step(1000, 900, 0, 0), 100);
        assert_eq!(backlog.step(1000, 900, 0, bytes_in(Duration::from_millis(10), 4000.0)), 60);
        assert_eq!(backlog.step(1000, 900, 0, 100), 0);
        assert_eq!(backlog.unfound, 100);
        assert_eq!(backlog.step(1500, 900, 0, 0), 500);
    }

    #[test]
    fn more_written_than_dirtied_is_no_credit() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.step(100, 700, 0, 0), 0);
        assert_eq!(backlog.step(150, 700, 0, 0), 50);
        // A file was deleted before it was written.
        assert_eq!(backlog.step(110, 700, 0, 0), 10);
        assert_eq!(backlog.step(90, 700, 0, 0), 0);
        assert_eq!((backlog.step(91, 700, 0, 0), backlog.unfound), (1, 0));
    }

    #[test]
    fn bytes_of_deleted_files_do_not_count_and_leave_nothing_behind() {
        let mut backlog = Backlog::default();
        assert_eq!((backlog.left(120, 0, 100), backlog.step(120, 0, 100, 0)), (20, 20));
        // The file's size is newer than the counters.
        assert_eq!(backlog.step(120, 0, 130, 0), 0);
        assert_eq!(backlog.step(140, 20, 130, 10), 0);
        // It is closed, and the kernel cancels its pages.
        assert_eq!(backlog.step(20, 20, 0, 10), 0);
        assert_eq!((backlog.step(50, 20, 0, 0), backlog.unfound), (30, 0));
    }
}
