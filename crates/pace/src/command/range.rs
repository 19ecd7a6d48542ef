//! A part of a file that is to be written back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A part of a file that is to be written back.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) file: Arc<OwnedFd>,
    pub(super) span: Span,
}

/// Which part, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// It was appended, so that all of it was dirtied.
    Grown { from: u64, to: u64 },
    /// What is dirty of the file up to here. The rest is another range.
    Dirty { to: u64 },
}
