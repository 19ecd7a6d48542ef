//! From a mounted filesystem to the devices that drain its dirty pages.
//!
//! ```text
//! mount ─ filesystem's devices ─ whole disk ─┬─ slaves (dm, md, bcache) ─ whole disk … ─ leaf
//!         (btrfs has several)                └─ backing file (loop) ─ mount … ─ leaf
//! ```
//!
//! Dirty pages are counted for the backing device (bdi) of the first whole disk, whatever lies
//! below it; the leaves do the writing.

use std::collections::BTreeSet;
use std::path::Path;

use floodwall_model::{DeviceId, Reading};

use crate::block::{self, BlockDevice, Kind};
use crate::mounts::{self, Mount};
use crate::root::SysRoot;

/// The devices of a filesystem, and what the kernel calls its backing device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The block devices that the filesystem was made on (partitions included). Empty for network
    /// filesystems.
    pub devices: Vec<DeviceId>,
    /// The reason for an empty list.
    pub why_none: Option<String>,
    /// Name in /sys/class/bdi: the whole disk's number, `btrfs-1`, or `0:NN`.
    pub bdi: Reading<String>,
}

/// Finds a filesystem's devices.
#[must_use]
pub fn backing(root: &SysRoot, mount: &Mount) -> Backing {
    if mount.fs_type == "fuseblk" {
        // fs/fuse/inode.c fuse_bdi_init
        let bdi = Reading::Value(format!("{}-fuseblk", mount.device));
        return Backing { devices: vec![mount.device], why_none: None, bdi };
    }
    if mount.device.major != 0 {
        let bdi = block::whole_disk(root, mount.device).map(|disk| disk.to_string());
        return Backing { devices: vec![mount.device], why_none: None, bdi };
    }
    if mount.fs_type == "btrfs" {
        return btrfs_backing(root, mount);
    }
    let id = mount.device.to_string();
    let name = if mount.fs_type.starts_with("fuse") { format!("{id}-fuse") } else { id };
    let bdi = if root.exists(&format!("/sys/class/bdi/{name}")) {
        Reading::Value(name)
    } else {
        Reading::Absent(format!("/sys/class/bdi/{name} does not exist"))
    };
    let why_none = Some(format!("{} has no block device", mount.fs_type));
    Backing { devices: Vec::new(), why_none, bdi }
}

/// btrfs reports an anonymous device number. Its real devices are those of the filesystem in
/// /sys/fs/btrfs that holds the mount's source.
fn btrfs_backing(root: &SysRoot, mount: &Mount) -> Backing {
    let source = mount.source.as_deref().unwrap_or_default();
    let first = match block::by_path(root, source) {
        Reading::Value(id) => id,
        other => {
            let why = other.why().unwrap_or_default();
            return Backing {
                devices: Vec::new(),
                why_none: Some(why),
                bdi: other.map(|id| id.to_string()),
            };
        }
    };
    for uuid in root.list("/sys/fs/btrfs").into_value().unwrap_or_default() {
        let dir = format!("/sys/fs/btrfs/{uuid}");
        let names = root.list(&format!("{dir}/devices")).into_value().unwrap_or_default();
        let devices: Vec<DeviceId> = names
            .iter()
            .filter_map(|n| root.parse(&format!("{dir}/devices/{n}/dev")).into_value())
            .collect();
        if devices.contains(&first) {
            return Backing { devices, why_none: None, bdi: root.link_name(&format!("{dir}/bdi")) };
        }
    }
    let bdi = Reading::Absent("/sys/fs/btrfs does not list this filesystem".into());
    Backing { devices: vec![first], why_none: None, bdi }
}

/// The devices below one block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Every device passed, whole disks only, from the top down; each once.
    pub devices: Vec<BlockDevice>,
    /// Those that nothing lies below: they drain.
    pub leaves: Vec<DeviceId>,
    /// Which is directly below which.
    pub below: Vec<(DeviceId, DeviceId)>,
    /// The devices that could not be followed, and why.
    pub notes: Vec<String>,
}

/// Follows a block device down to the devices that drain. Every device is visited once, so a cycle
/// in a damaged tree ends.
#[must_use]
pub fn stack(root: &SysRoot, mounts: &[Mount], top: DeviceId) -> Stack {
    let mut stack = Stack::default();
    let mut seen = BTreeSet::new();
    let mut to_visit = vec![(None, top)];
    while let Some((above, id)) = to_visit.pop() {
        let disk = match block::whole_disk(root, id) {
            Reading::Value(disk) => disk,
            other => {
                stack.notes.push(format!("{id}: {}", other.why().unwrap_or_default()));
                continue;
            }
        };
        if let Some(above) = above {
            stack.below.push((above, disk));
        }
        if !seen.insert(disk) {
            continue;
        }
        let device = match block::read_device(root, disk) {
            Reading::Value(device) => device,
            other => {
                stack.notes.push(format!("{disk}: {}", other.why().unwrap_or_default()));
                continue;
            }
        };
        let below = below(root, mounts, &device, &mut stack.notes);
        if below.is_empty() {
            stack.leaves.push(disk);
        }
        // Last in, first out: the reverse keeps the order of the names.
        to_visit.extend(below.into_iter().rev().map(|id| (Some(disk), id)));
        stack.devices.push(device);
    }
    stack
}

/// Filesystem type of the FUSE mount that a lab's loop device stands on.
const LAB: &str = "fuse.floodwall-lab";

/// The devices directly below one.
fn below(
    root: &SysRoot,
    mounts: &[Mount],
    device: &BlockDevice,
    notes: &mut Vec<String>,
) -> Vec<DeviceId> {
    if let Kind::Loop { backing_file } = &device.kind {
        // A deleted file stays open, and its path is all that is left of it (drivers/block/loop.c,
        // d_path).
        let path = backing_file.strip_suffix(" (deleted)").unwrap_or(backing_file);
        let Some(mount) = mounts::covering(mounts, Path::new(path)) else {
            notes.push(format!("{}: no mount covers its backing file '{path}'", device.name));
            return Vec::new();
        };
        let backing = backing(root, mount);
        // Below a lab's device there is no device that could be missing: the lab itself is the
        // disk.
        if let Some(why) = backing.why_none.filter(|_| mount.fs_type != LAB) {
            notes.push(format!(
                "{}: its backing file '{path}' is on {}: {why}",
                device.name, mount.fs_type
            ));
        }
        return backing.devices;
    }
    block::slaves(root, device.id)
}

impl Stack {
    /// The whole disk that the path begins with; `None` if it could not be read.
    #[must_use]
    pub fn top(&self) -> Option<&BlockDevice> {
        self.devices.first()
    }

    /// A device of the stack by its number.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<&BlockDevice> {
        self.devices.iter().find(|d| d.id == id)
    }

    /// The devices on one line, `dm-1 → dm-0 → md0 → sda + sdb`: one level after the other.
    #[must_use]
    pub fn path(&self) -> String {
        let Some(top) = self.top() else { return String::new() };
        let mut shown = BTreeSet::from([top.id]);
        let mut level = vec![top.id];
        let mut text = top.name.clone();
        loop {
            let next: Vec<&BlockDevice> = self
                .below
                .iter()
                .filter(|(above, _)| level.contains(above))
                .filter_map(|(_, id)| self.device(*id))
                .filter(|d| shown.insert(d.id))
                .collect();
            if next.is_empty() {
                return text;
            }
            text.push_str(" → ");
            text.push_str(&next.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(" + "));
            level = next.iter().map(|d| d.id).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::{put, tree};

    fn id(text: &str) -> DeviceId {
        text.parse().unwrap()
    }

    /// One block device; `below` are the names of its slaves.
    fn add(dir: &Path, name: &str, number: &str, below: &[&str]) {
        let at = |p: String| dir.join(p);
        put(&at(format!("sys/dev/block/{number}")), &format!("->../../devices/{name}"));
        put(&at(format!("sys/devices/{name}/dev")), number);
        put(&at(format!("sys/devices/{name}/uevent")), &format!("DEVNAME={name}\n"));
        for slave in below {
            put(&at(format!("sys/devices/{name}/slaves/{slave}")), &format!("->../../{slave}"));
        }
    }

    #[test]
    fn a_diamond_is_walked_once_and_a_cycle_ends() {
        let (dir, root) = tree(&[]);
        add(dir.path(), "dm-0", "253:0", &["dm-1", "dm-2"]);
        add(dir.path(), "dm-1", "253:1", &["sda"]);
        add(dir.path(), "dm-2", "253:2", &["sda", "dm-0"]);
        add(dir.path(), "sda", "8:0", &[]);
        let stack = stack(&root, &[], id("253:0"));
        assert_eq!(stack.leaves, [id("8:0")]);
        assert_eq!(stack.path(), "dm-0 → dm-1 + dm-2 → sda");
        assert_eq!(stack.devices.len(), 4);
    }

    #[test]
    fn what_can_not_be_followed_is_said() {
        let (dir, root) = tree(&[]);
        add(dir.path(), "loop0", "7:0", &[]);
        put(&dir.path().join("sys/devices/loop0/loop/backing_file"), "/srv/gone.img (deleted)\n");
        let alone = stack(&root, &[], id("7:0"));
        assert_eq!(alone.notes, ["loop0: no mount covers its backing file '/srv/gone.img'"]);
        assert_eq!(alone.leaves, [id("7:0")]);
        for (fs_type, said) in [("fuse.sshfs", 1), ("fuse.floodwall-lab", 0)] {
            let mounts = mounts::parse(&format!(
                "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:54 / /srv rw - {fs_type} x rw\n"
            ));
            let stack = stack(&root, &mounts, id("7:0"));
            assert_eq!((stack.notes.len(), stack.leaves), (said, vec![id("7:0")]), "{fs_type}");
        }
        let nothing = stack(&root, &[], id("9:9"));
        assert_eq!(nothing.notes, ["9:9: absent: /sys/dev/block/9:9/dev does not exist"]);
        assert!(nothing.top().is_none() && nothing.path().is_empty());
    }
}
