//! The steps of a copy that wait until data is on the disk.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Stat;

use super::folder::{FileId, Folder, Place};

/// A step that waits until data is on the disk.
pub(super) enum Pending {
    /// A file whose data was pushed.
    File { from: Place, to: Place, part: OsString, id: FileId, size: u64 },
    /// A hard link to the copy `id`, made before at the path `first` below the destination.
    Link { first: PathBuf, id: FileId, from: Place, stat: Stat, to: Place },
    /// A directory's attributes, which new entries in it would change.
    Folder { from: Arc<Folder>, to: Arc<Folder>, stat: Stat, added: u32 },
}
