//! What a copy did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

/// The summary of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes that were read and written.
    pub bytes: u64,
    /// Files that were made, including reflinked, linked and special ones.
    pub files: u64,
    /// Files among them that share their blocks with the source.
    pub reflinked: u64,
    /// Their bytes.
    pub reflinked_bytes: u64,
    /// Files among them that were written to a pipe, a terminal or a device such as /dev/null. No
    /// disk has their data.
    pub streamed: u64,
    /// Bytes of holes, which occupy nothing.
    pub hole_bytes: u64,
    /// Bytes of part files that were continued.
    pub resumed_bytes: u64,
    /// Files that were finished before (resume).
    pub skipped: u64,
    /// Files that were read back and compared.
    pub verified: u64,
    /// The time until all data was on the disk.
    pub elapsed: Duration,
    /// Attributes that could not be kept, by kind: `owner`, `mode`, …
    pub unkept: BTreeMap<&'static str, Unkept>,
}

impl Summary {
    /// Notes an attribute that could not be kept.
    pub(super) fn note_unkept(&mut self, what: &'static str, path: &Path, errno: Errno) {
        self.unkept
            .entry(what)
            .and_modify(|unkept| unkept.entries += 1)
            .or_insert_with(|| Unkept { entries: 1, first: path.to_owned(), errno });
    }
}

/// An attribute that could not be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// The number of entries.
    pub entries: u64,
    /// The first of them.
    pub first: PathBuf,
    /// The kernel's answer there.
    pub errno: Errno,
}
