//! Why settings can't be kept, and what to do instead.

use std::path::PathBuf;

use super::removable::RemovableError;
use super::rules;
use super::told_apart::NoIdentity;
use crate::plan::error::PlanError;

/// Settings can't be kept. Nothing has been written unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// A priority of threads.
    #[error("{label} can't be kept: {remedy}")]
    Threads {
        /// The change.
        label: String,
        /// A means to keep it.
        remedy: String,
    },
    /// Settings of removable disks.
    #[error(transparent)]
    Removable(#[from] RemovableError),
    /// A control group's knob.
    #[error("{label} can't be kept: {remedy}")]
    Group {
        /// The knob.
        label: String,
        /// What to use instead.
        remedy: String,
    },
    /// A mount without a disk.
    #[error(
        "{label} can't be kept: {device} has no disk, and another number after the next mount; run \
         floodwall apply from a unit that starts after the mount"
    )]
    NoDisk {
        /// The knob.
        label: String,
        /// The backing device.
        device: String,
    },
    /// A disk that would not be known again.
    #[error("{label} can't be kept: {source}")]
    NoIdentity {
        /// The knob.
        label: String,
        /// Why.
        source: NoIdentity,
    },
    /// A size where the kernel keeps a share, and nothing to hold the share's base.
    #[error(
        "{label} can't be kept: the kernel keeps it as a share of the hard limit, which in percent \
         moves with memory; persist vm.dirty_bytes with it, or give bdi.max_ratio_fine"
    )]
    MovingShare {
        /// The knob.
        label: String,
    },
    /// A device that has no name that goes with it.
    #[error(
        "{label} can't be kept: nothing in /dev/disk/by-id leads to {device}, and its name may be \
         another's after a boot; name a path of it in the unit: systemctl edit {unit}"
    )]
    NoLink {
        /// The change.
        label: String,
        /// The device.
        device: String,
        /// The unit.
        unit: String,
    },
    /// No systemd is installed.
    #[error(
        "a unit's settings can't be kept: there is no systemd here to set them; run floodwall \
         apply at boot"
    )]
    NoSystemd,
    /// No udev would read the rules.
    #[error(
        "a disk's settings can't be kept: there is no udev here to set them ({RULES} would have no \
         reader); run floodwall apply at boot, or give the machine's knobs \
         alone", RULES = rules::PATH
    )]
    NoUdev,
    /// The plan of the settings is refused.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Not our file, or not any more.
    #[error("'{path}' {why}; move it away or remove it, then run this \
        again", path = path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The file's origin.
        why: String,
    },
    /// A symbolic link in the path.
    #[error("'{path}' is a symbolic link or no directory; files are written to real directories \
        alone", path = .0.display())]
    NoDirectory(PathBuf),
    /// Another process is writing them.
    #[error("another floodwall is changing what is kept; run this again when it has ended")]
    Held,
    /// An operation failed.
    #[error("nothing was written: can't {what} '{path}': {source}", path = path.display())]
    Io {
        /// `write`, `rename`, …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The second file failed, and the first one could not be put back.
    #[error("'{path}' is written and could not be put back: {source}; run this \
        again", path = path.display())]
    HalfWritten {
        /// The first file.
        path: PathBuf,
        /// Why the second one failed.
        source: std::io::Error,
    },
}

impl PersistError {
    /// Whether a privilege, a writable filesystem or udev is missing.
    #[must_use]
    pub fn lacks_requirement(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::NoUdev
            | Self::NoSystemd
            | Self::Removable(RemovableError::NoShare)
            | Self::Plan(PlanError::NotThere { .. } | PlanError::Unreadable { .. }) => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
            }
            _ => false,
        }
    }

    /// Whether something else should have been asked for.
    #[must_use]
    pub fn is_wrong_use(&self) -> bool {
        !self.lacks_requirement()
            && !matches!(self, Self::Io { .. } | Self::Held | Self::HalfWritten { .. })
    }
}
