//! Which backing devices hold mounted filesystems, each once, with what is mounted on them and what lies below.
//!
//! The kernel counts dirty pages per backing device (bdi). Filesystems on partitions of one disk share the disk's; btrfs and network
//! filesystems bring their own. So the rows of a status are backing devices.

use std::collections::BTreeMap;

use floodwall_model::status::{Elsewhere, MountedOn};
use floodwall_model::{DeviceId, Reading};

use crate::block::{self, BlockDevice, Kind};
use crate::mounts::{self, Mount};
use crate::root::SysRoot;
use crate::topology::{self, Backing, Stack};

/// The mounted filesystems of a machine by backing device.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// In the order in which their first filesystem was mounted.
    pub rows: Vec<Row>,
    /// Filesystems whose dirty pages no row holds.
    pub elsewhere: Vec<Elsewhere>,
    /// Why there is nothing at all, if mounts could not be read.
    pub missing: Option<String>,
    /// Hierarchies of control groups that are mounted.
    pub cgroup: Option<&'static str>,
}

/// One backing device.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number; `0:NN` without a block device, or with several.
    pub id: DeviceId,
    /// The kernel's name, or the source given to mount.
    pub name: String,
    /// What it is, for people.
    pub kind: String,
    /// Its name in /sys/class/bdi.
    pub bdi: Reading<String>,
    /// What is mounted on it.
    pub mounts: Vec<MountedOn>,
    /// The disk whose queue its writes meet first, if there is exactly one.
    pub queue_device: Option<DeviceId>,
    /// The block devices that the filesystem is on; for btrfs its members, else the whole disk.
    pub devices: Vec<DeviceId>,
    /// What lies below, one for each of `devices`.
    pub stacks: Vec<Stack>,
}

impl Layout {
    /// Reads mounts and follows each to its devices.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        let mounts = match mounts::read_mounts(root) {
            Reading::Value(mounts) => mounts,
            other => return Self { missing: other.why(), ..Self::default() },
        };
        let mut layout = Self { cgroup: cgroup(&mounts), ..Self::default() };
        let mut place_of: BTreeMap<String, usize> = BTreeMap::new();
        let mut backings: BTreeMap<(DeviceId, Option<&str>), Backing> = BTreeMap::new();
        for mount in &mounts {
            if let Some(why) = mounts::without_own_writeback(mount) {
                if worth_a_line(mount) {
                    layout.elsewhere.push(Elsewhere {
                        mountpoint: mount.mountpoint.display().to_string(),
                        filesystem: mount.fs_type.clone(),
                        why: why.to_owned(),
                    });
                }
                continue;
            }
            // Containers mount one filesystem many times over.
            let backing = backings
                .entry((mount.device, mount.source.as_deref()))
                .or_insert_with(|| topology::backing(root, mount));
            let key = backing.bdi.value().cloned().unwrap_or_else(|| mount.device.to_string());
            let place = *place_of.entry(key).or_insert_with(|| {
                layout.rows.push(row(root, &mounts, mount, backing));
                layout.rows.len() - 1
            });
            if let Some(row) = layout.rows.get_mut(place) {
                let on = mounted_on(root, row, mount, backing);
                if !row.mounts.contains(&on) {
                    row.mounts.push(on);
                }
            }
        }
        layout
    }
}

/// Read-only images, memory and the kernel's own interfaces hold no dirty pages that anyone would look for.
fn worth_a_line(mount: &Mount) -> bool {
    let in_memory = matches!(mount.fs_type.as_str(), "tmpfs" | "ramfs" | "rootfs" | "hugetlbfs" | "shm");
    !in_memory && !mount.read_only && !mounts::is_kernel_interface(&mount.fs_type)
}

fn cgroup(mounts: &[Mount]) -> Option<&'static str> {
    let any = |fs_type: &str| mounts.iter().any(|m| m.fs_type == fs_type);
    match (any("cgroup"), any("cgroup2")) {
        (true, true) => Some("v1 and v2"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    }
}

fn row(root: &SysRoot, mounts: &[Mount], mount: &Mount, backing: &Backing) -> Row {
    // btrfs keeps dirty pages for the filesystem, whatever its members are; all others for the disk.
    let for_filesystem = mount.device.major == 0;
    let stacks: Vec<Stack> = backing.devices.iter().map(|id| topology::stack(root, mounts, *id)).collect();
    let top = stacks.first().and_then(Stack::top);
    let (id, name, kind) = match top {
        Some(top) if !for_filesystem => (top.id, top.name.clone(), describe(top)),
        _ => {
            let name =
                if backing.devices.is_empty() { mount.source.clone() } else { backing.bdi.value().cloned() };
            (mount.device, name.unwrap_or_else(|| mount.device.to_string()), mount.fs_type.clone())
        }
    };
    let whole = |id: &DeviceId| block::whole_disk(root, *id).into_value().unwrap_or(*id);
    Row {
        id,
        name,
        kind,
        bdi: backing.bdi.clone(),
        mounts: Vec::new(),
        queue_device: top.filter(|_| !for_filesystem).map(|top| top.id),
        devices: if for_filesystem {
            backing.devices.clone()
        } else {
            backing.devices.iter().map(whole).collect()
        },
        stacks,
    }
}

/// A device in a word or two.
fn describe(device: &BlockDevice) -> String {
    match &device.kind {
        Kind::Disk | Kind::Partition => "disk".to_owned(),
        Kind::Md { level } => level.clone().unwrap_or_else(|| "md".to_owned()),
        Kind::Loop { backing_file } => format!("loop over {backing_file}"),
        Kind::DeviceMapper { name, subsystem } => {
            let subsystem = subsystem.as_deref().unwrap_or("dm").to_lowercase();
            match name {
                Some(name) => format!("{subsystem} '{name}'"),
                None => subsystem,
            }
        }
    }
}

fn mounted_on(root: &SysRoot, row: &Row, mount: &Mount, backing: &Backing) -> MountedOn {
    let through = match backing.devices.as_slice() {
        // Not where the row is the device itself.
        [device] if *device != row.id => block::read_name(root, *device).into_value(),
        _ => None,
    };
    MountedOn {
        mountpoint: mount.mountpoint.display().to_string(),
        filesystem: mount.fs_type.clone(),
        through,
        read_only: mount.read_only,
    }
}
