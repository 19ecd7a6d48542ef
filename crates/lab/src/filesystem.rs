//! Filesystems that the lab makes and mounts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floodwall_model::Bytes;
use rustix::mount::MountFlags;
use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// A filesystem that the lab can make and mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// xfs.
    Xfs,
    /// ext4.
    Ext4,
    /// btrfs.
    Btrfs,
}

impl Filesystem {
    /// As `mount -t` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
        }
    }

    /// The Debian package with its tools.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Self::Xfs => "xfsprogs",
            Self::Ext4 => "e2fsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    /// The smallest device that its mkfs takes (mkfs.xfs since xfsprogs 5.19; mkfs.btrfs with one
    /// device and its defaults; mke2fs with a journal of 1,024 blocks).
    #[must_use]
    pub const fn least(self) -> Bytes {
        match self {
            Self::Xfs => Bytes::mib(300),
            Self::Ext4 => Bytes::mib(2),
            Self::Btrfs => Bytes::mib(109),
        }
    }

    fn mkfs(self) -> String {
        format!("mkfs.{}", self.name())
    }

    /// mkfs is quiet and does not ask. It discards nothing, since the device is empty, and leaves
    /// nothing for later: ext4 would initialise its tables in the background, during the first
    /// minutes of a measurement.
    const fn mkfs_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Xfs => &["-q", "-f", "-K"],
            Self::Ext4 => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            Self::Btrfs => &["-q", "-f", "-K"],
        }
    }

    /// Where its mkfs is: root's `PATH` often lacks the sbin directories.
    fn find_mkfs(self) -> Result<PathBuf, LabError> {
        let name = self.mkfs();
        ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin"]
            .iter()
            .map(|dir| Path::new(dir).join(&name))
            .find(|path| path.exists())
            .ok_or(LabError::NoMkfs { program: name, package: self.package() })
    }

    /// Whether its mkfs is there.
    ///
    /// # Errors
    /// [`LabError::NoMkfs`], with the package.
    pub fn check(self) -> Result<(), LabError> {
        self.find_mkfs().map(drop)
    }

    /// Makes the filesystem on a device.
    pub(crate) fn make(self, device: &Path) -> Result<(), LabError> {
        let program = self.find_mkfs()?;
        let output = Command::new(&program)
            .args(self.mkfs_arguments())
            .arg(device)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| LabError::Command { command: program.display().to_string(), error })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let mut lines = said.lines().map(str::trim).filter(|l| !l.is_empty());
        // mkfs.xfs explains its options after the error, the others begin with their version.
        let telling = if self == Self::Xfs { lines.next() } else { lines.next_back() };
        let said = telling.map_or_else(|| output.status.to_string(), str::to_owned);
        Err(LabError::MkfsFailed { program: self.mkfs(), device: device.into(), said })
    }

    /// Mounts a device.
    pub(crate) fn mount(self, device: &Path, dir: &Path) -> Result<(), LabError> {
        rustix::mount::mount(device, dir, self.name(), MountFlags::empty(), None)
            .map_err(|e| LabError::io("mount", dir, e))
    }
}
