//! Why a recording can't be written or read.

use std::io;
use std::path::PathBuf;

use super::index::FORMAT;

/// What there is to do where nothing is recorded.
const RECORDS: &str = "'floodwall record', or the guard with record = true, makes recordings; \
    --dir names another directory";

/// Why a recording can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or the directory. If the disk is full, the recording is as it was before.
    #[error("can't {what} '{}'", path.display())]
    Io {
        /// The call, as a verb.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// There is no such directory.
    #[error("nothing is recorded in '{}': no such directory; {RECORDS}", .0.display())]
    NoDirectory(PathBuf),
    /// There is no frame.
    #[error("nothing is recorded in '{}'; {RECORDS}", .0.display())]
    Nothing(PathBuf),
    /// The file is no day of a recording.
    #[error("'{}' is no recording; name a recording's directory, or a file of one of its days \
        (2026-11-27.frames)", .0.display())]
    OtherFile(PathBuf),
    /// One of a day's two files is absent.
    #[error("there is no '{}'; a day of a recording is two files in one directory, DAY.frames and \
        DAY.index", .0.display())]
    NoDay(PathBuf),
    /// A recorder does not follow a symbolic link to its directory.
    #[error("'{}' is a symbolic link; name the directory that it leads to", .0.display())]
    Link(PathBuf),
    /// Another process records there.
    #[error("'{}' is written by another recorder{}; stop that one, or name another directory",
        directory.display(), of_process(*pid))]
    Busy {
        /// The directory.
        directory: PathBuf,
        /// The other process, if it can be told.
        pid: Option<u32>,
    },
    /// A later format.
    #[error("'{}' was written by a newer version of floodwall (format {format}, this one reads up \
        to {FORMAT}); update floodwall, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// A file that is no regular file: a symbolic link, a pipe.
    #[error("'{}' is not a regular file; move it away", .0.display())]
    NotAFile(PathBuf),
    /// A frame that can't be stored.
    #[error("can't record the frame of {at_unix_ms} ms since 1970: {why}")]
    Frame {
        /// The frame's moment.
        at_unix_ms: u64,
        /// The reason.
        why: &'static str,
    },
}

impl RecordError {
    /// Whether the filesystem, or the user's share of it, is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { source, .. } if kinds.contains(&source.kind()))
    }
}

fn of_process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}
