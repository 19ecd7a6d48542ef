//! The request of a copy, and its progress.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CopyError;

/// Sources, a destination and options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Files or directories.
    pub sources: Vec<PathBuf>,
    /// A directory to copy into, or the name of the one copy.
    pub destination: PathBuf,
    /// The options.
    pub options: Options,
}

/// How files are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-r`: directories with all their entries. Symlinks, FIFOs, sockets and device nodes are
    /// copied as such. Without it the data behind them is read.
    pub recursive: bool,
    /// `-a`: recursive. Owner, mode, times, extended attributes (also ACLs) and hard links are
    /// kept.
    pub archive: bool,
    /// Unfinished copies are continued, and kept if this copy fails.
    pub resume: bool,
    /// Each copy is read back from the disk and compared before it gets its name.
    pub verify: bool,
}

impl Options {
    /// Whether directories are copied.
    pub(super) fn is_deep(self) -> bool {
        self.recursive || self.archive
    }
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Bytes that are finished: copied, reflinked, holes, or present before. With verification each
    /// byte counts a second time once it is compared.
    pub bytes_done: u64,
    /// All of them; none if not known.
    pub bytes_total: Option<u64>,
    /// Bytes among them that were read and written, or read and compared.
    pub bytes_moved: u64,
    /// Files that are finished. Every entry but a directory is one.
    pub files_done: u64,
    /// All of them.
    pub files_total: u64,
    /// The source being copied; empty beside a failure, which names its own.
    pub path: &'a Path,
    /// Time since the copy began.
    pub elapsed: Duration,
    /// Why the last entry could not be copied, if several are to be copied. Each is told once.
    pub failure: Option<&'a CopyError>,
}

impl Progress<'_> {
    /// Bytes moved per second since the copy began; none in its first instant.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (seconds > 0.0).then(|| self.bytes_moved as f64 / seconds)
    }

    /// The remaining time at this rate; none without a rate or a total.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.bytes_total?.saturating_sub(self.bytes_done) as f64;
        let rate = self.rate().filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(left / rate).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_what_was_moved() {
        let progress = Progress {
            bytes_done: 700,
            bytes_total: Some(1000),
            bytes_moved: 200,
            files_done: 0,
            files_total: 1,
            path: Path::new("a"),
            elapsed: Duration::from_secs(2),
            failure: None,
        };
        assert_eq!(progress.rate(), Some(100.0));
        assert_eq!(progress.remaining(), Some(Duration::from_secs(3)));
        assert_eq!(Progress { bytes_total: None, ..progress }.remaining(), None);
        assert_eq!(Progress { bytes_moved: 0, ..progress }.remaining(), None);
    }
}
