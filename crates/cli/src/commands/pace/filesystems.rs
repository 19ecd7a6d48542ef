//! The filesystems whose files are paced: those on the disk of one directory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_host::block::whole_disk;
use floodwall_host::locate::locate;
use floodwall_host::mounts::{Mount, read_mounts};
use floodwall_host::topology::backing;
use floodwall_model::{DeviceId, Reading};

/// The filesystems on the disk of a directory, by the `st_dev` of their files.
#[derive(Debug)]
pub(super) struct Filesystems {
    root: SysRoot,
    /// The directory's own `st_dev`.
    own: u64,
    /// None if the directory's filesystem has no disk.
    disk: Option<DeviceId>,
    /// The answers so far.
    known: Mutex<BTreeMap<u64, bool>>,
}

impl Filesystems {
    pub(super) fn of(root: &SysRoot, directory: &Path) -> anyhow::Result<Self> {
        let metadata = directory
            .metadata()
            .with_context(|| format!("can't look at '{}'", directory.display()))?;
        let disk = locate(root, directory)?.queue_device;
        Ok(Self { root: root.clone(), own: metadata.dev(), disk, known: Mutex::default() })
    }

    /// Whether a file's filesystem is one of them.
    pub(super) fn has(&self, dev: u64) -> bool {
        if dev == self.own {
            return true;
        }
        let Some(disk) = self.disk else { return false };
        let id = DeviceId { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(dev).or_insert_with(|| is_on(&self.root, disk, id))
    }
}

/// Whether the filesystem of files with this `st_dev` is on a disk.
pub(super) fn is_on(root: &SysRoot, disk: DeviceId, dev: DeviceId) -> bool {
    let is_disk = |id: &DeviceId| whole_disk(root, *id) == Reading::Value(disk);
    if dev.major != 0 {
        return is_disk(&dev);
    }
    let mounts = read_mounts(root).into_value().unwrap_or_default();
    let is_below = |mount: &Mount| backing(root, mount).devices.iter().any(is_disk);
    if let Some(mount) = mounts.iter().find(|mount| mount.device == dev) {
        return is_below(mount);
    }
    // The number of a btrfs subvolume is no mount's. It does not name the filesystem.
    let mut btrfs = mounts.iter().filter(|mount| mount.fs_type == "btrfs").peekable();
    btrfs.peek().is_some() && btrfs.all(is_below)
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn filesystems_of_the_same_disk_count() {
        const BTRFS: &str = "24 1 0:40 /sub /home rw - btrfs /dev/sda3 rw\n";
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let put = |path: &str, text: &str| put(&dir.path().join(path), text);
        for (disk, major) in [("sda", 8), ("sdb", 9)] {
            put(&format!("sys/devices/{disk}/dev"), &format!("{major}:0\n"));
            put(&format!("sys/dev/block/{major}:0"), &format!("->../../devices/{disk}"));
            for n in 1..4 {
                let part = format!("sys/devices/{disk}/{disk}{n}");
                put(&format!("{part}/partition"), &format!("{n}\n"));
                put(&format!("{part}/dev"), &format!("{major}:{n}\n"));
                let device = format!("../../devices/{disk}/{disk}{n}");
                put(&format!("sys/dev/block/{major}:{n}"), &format!("->{device}"));
                put(&format!("sys/class/block/{disk}{n}"), &format!("->{device}"));
            }
        }
        let other = "25 1 0:41 / /mnt rw - btrfs /dev/sdb3 rw\n26 1 0:42 / /tmp rw - tmpfs t rw\n";
        let on_sda = |dev: &str| is_on(&root, "8:0".parse().unwrap(), dev.parse().unwrap());
        put("proc/self/mountinfo", BTRFS);
        assert!(on_sda("8:1") && on_sda("8:2") && on_sda("0:40"));
        assert!(!on_sda("9:1") && !on_sda("7:0"));
        assert!(on_sda("0:99"), "a subvolume");
        put("proc/self/mountinfo", &format!("{BTRFS}{other}"));
        assert!(on_sda("0:40") && !on_sda("0:41") && !on_sda("0:42"));
        assert!(!on_sda("0:99"), "a subvolume of one of two filesystems");
    }

    #[test]
    fn a_directorys_own_filesystem_counts_on_any_disk() {
        let dir = tempfile::tempdir().unwrap();
        let filesystems = Filesystems::of(&SysRoot::live().unwrap(), dir.path()).unwrap();
        assert!(filesystems.has(dir.path().metadata().unwrap().dev()));
        let proc = Path::new("/proc").metadata().unwrap().dev();
        assert!(!filesystems.has(proc) && !filesystems.has(proc));
    }
}
