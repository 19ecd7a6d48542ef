//! Ranges of files to write back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A file and the part of it to write back.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) file: Arc<OwnedFd>,
    pub(super) span: Span,
}

/// A part of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// An appended part. All of it was dirtied.
    Grown { from: u64, to: u64 },
    /// The dirty pages up to this offset. Another range has the rest.
    Dirty { to: u64 },
}
