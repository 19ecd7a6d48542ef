//! Where a stream of a flood writes, and how.

use floodwall_model::scenario::WriteMode;
use rustix::fs::OFlags;

use crate::dir::Dir;
use crate::file::NamedFile;

/// Where one stream writes.
#[derive(Debug)]
pub(super) struct Place {
    /// Bytes within which it stays.
    pub(super) space: u64,
    /// Bytes of each write.
    pub(super) block: u64,
    /// How it writes.
    pub(super) mode: WriteMode,
    /// Its target: a file, or the directory of its small files.
    pub(super) target: Target,
}

#[derive(Debug)]
pub(super) enum Target {
    /// Begins empty and is cut to nothing when the flood is discarded.
    Grown(NamedFile),
    /// Written beforehand over its whole length.
    Filled(NamedFile),
    /// A copy's source and destination.
    Pair { source: NamedFile, destination: NamedFile },
    /// The directory of many small files of this many bytes each.
    Directory { dir: Dir, file: u64 },
}

/// How a file is opened for a mode.
pub(super) fn flags(mode: WriteMode) -> OFlags {
    match mode {
        WriteMode::Direct => OFlags::DIRECT,
        WriteMode::Dsync => OFlags::DSYNC,
        WriteMode::Buffered | WriteMode::DontCache | WriteMode::SyncFileRange => OFlags::empty(),
    }
}
