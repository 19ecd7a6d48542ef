//! Why a benchmark can't start or go on.

use std::path::PathBuf;

use floodwall_host::locate::LocateError;
use floodwall_load::LoadError;
use floodwall_model::setting::VICTIMS_PRIORITY;

use crate::device_lock::LockError;
use crate::scratch::ScratchError;

/// Why a benchmark can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no such directory, it is something else, or it can't be told where it is.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// It can't be written in.
    #[error("'{dir}' is on a read-only filesystem (mounted at '{mountpoint}'); name a directory \
        that can be written", dir = dir.display(), mountpoint = mountpoint.display())]
    ReadOnly {
        /// The directory.
        dir: PathBuf,
        /// Where its filesystem is mounted.
        mountpoint: PathBuf,
    },
    /// Its filesystem has no writeback to measure.
    #[error("'{dir}' is on {filesystem}: {reason}; name a directory on a disk, or use --force to \
        measure it all the same", dir = dir.display())]
    NoWriteback {
        /// The directory.
        dir: PathBuf,
        /// Type of the filesystem.
        filesystem: String,
        /// Why that is no place to measure.
        reason: String,
    },
    /// Another setting than the one in force was asked for.
    #[error("this runner can't change settings: {0} is not what is in force")]
    SettingNotInForce(String),
    /// Rounds or durations that make no sense.
    #[error("scenario '{scenario}': {problem}")]
    Timing {
        /// Its name.
        scenario: String,
        /// The fault, and a correct value.
        problem: String,
    },
    /// A victim's rate is still a share ([`floodwall_model::scenario::settle_rates`]).
    #[error("{0}")]
    Unsettled(String),
    /// The user or the system asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The device is taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The scratch directory can't be made or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A victim or flood failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel lost pages on their way to the device.
    #[error(
        "writeback failed: {0}; the device or its filesystem lost written data (see the kernel \
         log), so nothing measured on it counts"
    )]
    Writeback(std::io::Error),
    /// The victims can't have the I/O priority that the setting gives them.
    #[error(
        "can't start victims at {VICTIMS_PRIORITY}={priority}: {source}; rt needs CAP_SYS_NICE"
    )]
    Priority {
        /// The priority.
        priority: String,
        /// Why.
        source: std::io::Error,
    },
    /// This process can't go from the victims' group to the floods' or back: its writes would count
    /// as another's.
    #[error(
        "can't move between the bench's own control groups: {0}; did somebody remove them? \
         --same-group measures without"
    )]
    Groups(std::io::Error),
    /// A phase broke off; the message says why.
    #[error("{0}")]
    CutShort(String),
}
