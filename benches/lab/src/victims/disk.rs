//! The device of a trial.

use std::path::PathBuf;

/// A device and its mount point.
pub(super) struct Disk {
    /// `/dev/loopN`.
    pub(super) path: PathBuf,
    /// Where it is mounted.
    pub(super) dir: PathBuf,
    /// The control group (cgroup v2) that the flood is put into; this program's without it.
    pub(super) flood: Option<PathBuf>,
}
