//! Failures of a copy, each with a remedy.

use std::path::{Path, PathBuf};

use floodwall_model::Bytes;
use rustix::io::Errno;

use super::summary::Summary;

/// Why a file could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A system call on a source failed.
    #[error("can't {operation} {path}: {errno}{}", advice_on_source(*.errno))]
    Source {
        /// The operation, as a verb: `open`, `read`, …
        operation: &'static str,
        /// The source.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A system call on a destination failed.
    #[error("can't {operation} {path}: {errno}{}", advice(*.errno))]
    Io {
        /// The operation, as a verb: `create`, `write`, …
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Written data did not reach the disk. The kernel tells this only once.
    #[error("can't {operation} {path}: {errno}{}", advice(*.errno))]
    Lost {
        /// The operation, as a verb: `write back`, `sync`, …
        operation: &'static str,
        /// A file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Several sources, and a destination that is no directory.
    #[error("{path} is not a directory; several sources need one to be copied into")]
    NotADirectory {
        /// The destination.
        path: PathBuf,
    },
    /// The directory of a destination is missing.
    #[error("there is no directory {path}; make it first (mkdir -p)")]
    NoDirectory {
        /// The missing directory.
        path: PathBuf,
    },
    /// A directory is copied only on request.
    #[error("{path} is a directory; copy it with -r, or with -a to keep its attributes")]
    NeedsRecursive {
        /// The source.
        path: PathBuf,
    },
    /// Source and destination are one file.
    #[error("{source_path} and {destination} are the same file; choose another destination")]
    Same {
        /// The source.
        source_path: PathBuf,
        /// The destination.
        destination: PathBuf,
    },
    /// A directory would be copied into itself.
    #[error(
        "can't copy the directory {source_path} into itself ({destination}); choose a destination \
         outside of it"
    )]
    IntoItself {
        /// The source.
        source_path: PathBuf,
        /// The destination.
        destination: PathBuf,
    },
    /// Two sources have the same name.
    #[error("two sources would both become {destination}; copy them to different directories")]
    Twice {
        /// The destination.
        destination: PathBuf,
    },
    /// The destination exists and is of another kind.
    #[error(
        "can't replace {destination}, {existing}, with {source_path}, {new}; remove it, or choose \
         another destination"
    )]
    Kinds {
        /// The source.
        source_path: PathBuf,
        /// The source's kind: `a directory`, …
        new: &'static str,
        /// The destination.
        destination: PathBuf,
        /// The kind of the existing entry.
        existing: &'static str,
    },
    /// The destination is a block device.
    #[error(
        "{path} is a block device, which a copy never overwrites; name a file or a directory on a \
         filesystem"
    )]
    BlockDevice {
        /// The device.
        path: PathBuf,
    },
    /// The destination is a symlink whose target is missing.
    #[error("{path} is a symlink to a file that does not exist; remove it, or name the file")]
    Dangling {
        /// The symlink.
        path: PathBuf,
    },
    /// The sources don't fit.
    #[error(
        "{directory} has {available} free and the copy needs {needed}; free space there, or choose \
         another disk"
    )]
    NoSpace {
        /// The destination's directory.
        directory: PathBuf,
        /// Space that the sources occupy.
        needed: Bytes,
        /// Space that is free for this user.
        available: Bytes,
    },
    /// Another process writes the same file.
    #[error("another copy is writing {path}; wait for it, or end it")]
    Busy {
        /// The part file.
        path: PathBuf,
    },
    /// The copy differs from the source.
    #[error(
        "{destination} differs from {source_path} at byte {offset}, read back from the disk; \
         unless something writes to the source, a disk or the memory is faulty (dmesg)"
    )]
    Differs {
        /// The source.
        source_path: PathBuf,
        /// The destination.
        destination: PathBuf,
        /// The first byte that differs.
        offset: u64,
    },
    /// Some entries could not be copied, and each was reported before. All others were copied.
    #[error("{failed} of the sources' entries could not be copied")]
    Partly {
        /// How many.
        failed: u64,
        /// The first failure.
        first: Box<CopyError>,
        /// What was copied.
        summary: Box<Summary>,
    },
    /// The caller's stop flag was raised.
    #[error("interrupted")]
    Interrupted,
}

impl CopyError {
    /// A failed system call on a source.
    pub(super) fn source(
        operation: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Source { operation, path: path.as_ref().to_owned(), errno }
    }

    /// A failed system call on a destination.
    pub(super) fn io(
        operation: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Io { operation, path: path.as_ref().to_owned(), errno }
    }

    /// A failed writeback or sync.
    pub(super) fn lost(
        operation: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Lost { operation, path: path.as_ref().to_owned(), errno }
    }

    /// Whether written data is lost or wrong: an unfinished copy must not be continued.
    pub(super) fn is_of_data(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Differs { .. })
    }

    /// Whether the failure concerns one entry alone, so that the next ones can be copied.
    pub(super) fn is_of_one_entry(&self) -> bool {
        match self {
            Self::Source { .. } | Self::Kinds { .. } | Self::Same { .. } | Self::Twice { .. } => {
                true
            }
            // The name, the kind or the size of this entry, or its permissions.
            Self::Io { errno, .. } => matches!(
                *errno,
                Errno::ACCESS
                    | Errno::FBIG
                    | Errno::ILSEQ
                    | Errno::INVAL
                    | Errno::ISDIR
                    | Errno::LOOP
                    // Directories in directories, open at the same time.
                    | Errno::MFILE
                    | Errno::NAMETOOLONG
                    | Errno::NOTSUP
                    | Errno::PERM
            ),
            _ => false,
        }
    }
}

/// The remedy for an error of a source.
fn advice_on_source(errno: Errno) -> &'static str {
    match errno {
        Errno::IO => "; the device reported an error: see the kernel's log (dmesg)",
        Errno::ACCESS | Errno::PERM => "; copy as a user who may read it",
        Errno::MFILE | Errno::NFILE => "; raise the limit of open files (ulimit -n)",
        Errno::LOOP | Errno::INVAL => "; something replaced it while the copy ran",
        _ => "",
    }
}

/// The remedy for an error of a destination.
fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC => "; the filesystem is out of space (df -h) or of inodes (df -i): free some",
        Errno::DQUOT => "; free space of this user there, or raise the quota",
        Errno::IO => "; the device reported an error: see the kernel's log (dmesg)",
        Errno::ROFS => {
            "; the filesystem is read-only: the kernel may have made it so after an error (dmesg)"
        }
        Errno::ACCESS | Errno::PERM => "; choose a place that you may write to",
        Errno::MFILE | Errno::NFILE => "; raise the limit of open files (ulimit -n)",
        Errno::FBIG => "; the filesystem's or this process's largest file (ulimit -f) is smaller",
        Errno::NAMETOOLONG => "; shorten the name",
        Errno::LOOP => "; a symlink was put there while the copy ran",
        _ => "",
    }
}
