//! Where the writes of a directory end up: mount, filesystem, devices, backing device.

use std::io;
use std::path::{Path, PathBuf};

use floodwall_model::{Bytes, DeviceId, Reading};

use crate::block::{self, BlockDevice};
use crate::mounts::{self, Mount};
use crate::root::SysRoot;
use crate::topology::{self, Stack};

/// A directory's place can't be told.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The directory can't be opened.
    #[error("can't use the directory '{path}': {source}", path = path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a file.
    #[error("'{path}' is not a directory; name one", path = path.display())]
    NotADirectory {
        /// Which.
        path: PathBuf,
    },
    /// Mounts can't be read.
    #[error("can't tell which filesystem '{path}' is on: {why}", path = path.display())]
    Mounts {
        /// Which directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No mount covers it.
    #[error("no mount covers '{path}': this is a chroot whose root is not a mount point; use a \
        directory on a mount of its own", path = path.display())]
    NotCovered {
        /// Which directory.
        path: PathBuf,
    },
}

/// Where a directory's writes end up.
#[derive(Clone, Debug)]
pub struct Location {
    /// The directory, absolute, without symbolic links.
    pub directory: PathBuf,
    /// The mount that it is on: mount point, filesystem type, source, options.
    pub mount: Mount,
    /// The filesystem's block device, a partition as often as not; the first of several (btrfs).
    /// `None` without one (NFS, tmpfs).
    pub device: Option<DeviceId>,
    /// The whole disk of `device`: the one whose queue and backing device the writes meet first.
    pub queue_device: Option<DeviceId>,
    /// The whole disks of all the filesystem's devices, `queue_device` first; several for btrfs,
    /// none without a block device.
    pub queue_devices: Vec<DeviceId>,
    /// The devices that really drain, at the bottom of dm, md and loop; `queue_device` itself if
    /// nothing lies below it.
    pub leaves: Vec<BlockDevice>,
    /// From `device` down, as `dm-0 → md0 → sda + sdb`; empty without a block device.
    pub path: String,
    /// The backing device's name in /sys/class/bdi.
    pub bdi: Reading<String>,
    /// Why dirty pages are not written back to a device or server of the filesystem's own (tmpfs,
    /// overlay …); `None` if they are.
    pub without_writeback: Option<&'static str>,
    /// Whether nothing can be written.
    pub read_only: bool,
    /// The devices that could not be followed, and why.
    pub notes: Vec<String>,
}

impl Location {
    /// Whether the filesystem's dirty pages are written back to its device or server.
    #[must_use]
    pub fn has_own_writeback(&self) -> bool {
        self.without_writeback.is_none()
    }
}

/// Finds out where a directory's writes end up.
///
/// On the live machine the directory must exist and its symbolic links are followed. In a captured
/// tree an absolute path is taken as it is.
///
/// # Errors
/// [`LocateError`].
pub fn locate(root: &SysRoot, directory: &Path) -> Result<Location, LocateError> {
    let directory = if root.is_live() { existing(directory)? } else { directory.to_owned() };
    let mounts = match mounts::read_mounts(root) {
        Reading::Value(mounts) => mounts,
        other => {
            return Err(LocateError::Mounts {
                path: directory,
                why: other.why().unwrap_or_default(),
            });
        }
    };
    let Some(mount) = mounts::covering(&mounts, &directory) else {
        return Err(LocateError::NotCovered { path: directory });
    };
    Ok(below(root, &mounts, mount, directory))
}

fn existing(directory: &Path) -> Result<PathBuf, LocateError> {
    let real = directory
        .canonicalize()
        .map_err(|source| LocateError::Directory { path: directory.to_owned(), source })?;
    if real.is_dir() { Ok(real) } else { Err(LocateError::NotADirectory { path: real }) }
}

fn below(root: &SysRoot, mounts: &[Mount], mount: &Mount, directory: PathBuf) -> Location {
    let backing = topology::backing(root, mount);
    let stacks: Vec<Stack> =
        backing.devices.iter().map(|id| topology::stack(root, mounts, *id)).collect();
    let mut leaves: Vec<BlockDevice> = Vec::new();
    for stack in &stacks {
        for leaf in stack.leaves.iter().filter_map(|id| stack.device(*id)) {
            if !leaves.iter().any(|l| l.id == leaf.id) {
                leaves.push(leaf.clone());
            }
        }
    }
    let mut queue_devices: Vec<DeviceId> = Vec::new();
    for disk in backing.devices.iter().filter_map(|id| block::whole_disk(root, *id).into_value()) {
        if !queue_devices.contains(&disk) {
            queue_devices.push(disk);
        }
    }
    let device = backing.devices.first().copied();
    Location {
        directory,
        device,
        queue_device: device.and_then(|id| block::whole_disk(root, id).into_value()),
        queue_devices,
        leaves,
        path: stacks
            .iter()
            .map(Stack::path)
            .filter(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join("; "),
        bdi: backing.bdi,
        without_writeback: mounts::without_own_writeback(mount),
        read_only: mount.read_only,
        notes: stacks.into_iter().flat_map(|s| s.notes).collect(),
        mount: mount.clone(),
    }
}

/// Space on a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free for this user, without the space reserved for root.
    pub available: Bytes,
    /// In all.
    pub total: Bytes,
}

/// How much space the filesystem of a directory of the live machine has (statvfs(3)).
///
/// # Errors
/// [`LocateError::Directory`].
pub fn free_space(directory: &Path) -> Result<Space, LocateError> {
    let fs = rustix::fs::statvfs(directory)
        .map_err(|e| LocateError::Directory { path: directory.to_owned(), source: e.into() })?;
    Ok(Space {
        available: Bytes(fs.f_bavail.saturating_mul(fs.f_frsize)),
        total: Bytes(fs.f_blocks.saturating_mul(fs.f_frsize)),
    })
}
