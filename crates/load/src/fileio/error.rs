//! Why requests over files can't be made.

use floodwall_model::Bytes;

use crate::error::LoadError;

/// A failure, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileIoError {
    /// A file is not there.
    #[error("there is no {name}; prepare the files first, in this directory")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A file is shorter than requests go.
    #[error(
        "{name} has {len}, {wanted} are needed; prepare with the same sizes and number of files"
    )]
    Short {
        /// Its name.
        name: String,
        /// Its length.
        len: Bytes,
        /// What it should be at least.
        wanted: Bytes,
    },
    /// The files do not fit.
    #[error("the files take {wanted} more and {free} are free here; make them smaller or fewer")]
    NoSpace {
        /// Bytes that are missing of them.
        wanted: Bytes,
        /// What the filesystem has left.
        free: Bytes,
    },
    /// A call failed, or a thread.
    #[error(transparent)]
    Load(#[from] LoadError),
}
