//! The backlog of a command: bytes that it dirtied and that are not written yet. Pure.
//!
//! It is `dirtied − written − settled`. Bytes of no known file settle at the pacer's rate: they are
//! metadata, direct I/O, or those of files that were not found.

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
    /// The backlog, from all bytes that were dirtied and written so far.
    pub(super) fn left(&self, dirtied: u64, written: u64) -> u64 {
        self.difference(dirtied, written).max(0).cast_unsigned()
    }

    fn difference(&self, dirtied: u64, written: u64) -> i64 {
        dirtied.cast_signed() - written.cast_signed() - self.settled
    }

    /// The same, after bytes of no known file have settled: `drain` is the most of them that was
    /// written meanwhile.
    pub(super) fn step(&mut self, dirtied: u64, written: u64, drain: u64) -> u64 {
        let left = self.difference(dirtied, written);
        // Another program's bytes in the same files, or bytes of a deleted file.
        self.settled += left.min(0);
        let left = left.max(0).cast_unsigned();
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
        assert_eq!(backlog.step(1000, 0, 0), 1000);
        assert_eq!((backlog.left(1000, 900), backlog.left(800, 900)), (100, 0));
        assert_eq!(backlog.step(1000, 900, 0), 100);
        assert_eq!(backlog.step(1000, 900, bytes_in(Duration::from_millis(10), 4000.0)), 60);
        assert_eq!(backlog.step(1000, 900, 100), 0);
        assert_eq!(backlog.unfound, 100);
        assert_eq!(backlog.step(1500, 900, 0), 500);
    }

    #[test]
    fn more_written_than_dirtied_is_no_credit() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.step(100, 700, 0), 0);
        assert_eq!(backlog.step(150, 700, 0), 50);
        // A file was deleted before it was written.
        assert_eq!(backlog.step(110, 700, 0), 10);
        assert_eq!(backlog.step(90, 700, 0), 0);
        assert_eq!((backlog.step(91, 700, 0), backlog.unfound), (1, 0));
    }
}
