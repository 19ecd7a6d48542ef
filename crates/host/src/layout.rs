//! The backing devices of mounted filesystems, each once, with their mounts and the devices below.
//!
//! The kernel counts dirty pages per backing device (bdi). Filesystems on partitions of one disk
//! share the disk's; btrfs and network filesystems bring their own. So the rows of a status are
//! backing devices.

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
    /// Controllers mounted as hierarchies of version 1.
    pub cgroup_v1_controllers: Vec<String>,
    /// Where version 2 is mounted.
    pub cgroup_v2: Option<String>,
    /// Everything that is mounted.
    pub mounts: Vec<Mount>,
}

/// One backing device.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number; `0:NN` without a block device, or with several.
    pub id: DeviceId,
    /// The kernel's name, or the source given to mount.
    pub name: String,
    /// Its kind, for people.
    pub kind: String,
    /// Its name in /sys/class/bdi.
    pub bdi: Reading<String>,
    /// Its mounts.
    pub mounts: Vec<MountedOn>,
    /// The disk whose queue its writes meet first, if there is exactly one.
    pub queue_device: Option<DeviceId>,
    /// The block devices that the filesystem is on; for btrfs its members, else the whole disk.
    pub devices: Vec<DeviceId>,
    /// The devices below, one for each of `devices`.
    pub stacks: Vec<Stack>,
    /// Whether its filesystem is on a server.
    pub is_network: bool,
    /// The server's address, as the mount tells it.
    pub address: Option<String>,
}

impl Layout {
    /// Reads mounts and follows each to its devices.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        let mounts = match mounts::read_mounts(root) {
            Reading::Value(mounts) => mounts,
            other => return Self { missing: other.why(), ..Self::default() },
        };
        let mut layout = Self {
            cgroup: cgroup(&mounts),
            cgroup_v1_controllers: v1_controllers(&mounts),
            cgroup_v2: mounts
                .iter()
                .find(|m| m.fs_type == "cgroup2")
                .map(|m| m.mountpoint.display().to_string()),
            ..Self::default()
        };
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
        drop(backings);
        layout.mounts = mounts;
        layout
    }
}

/// Read-only images, memory and the kernel's own interfaces hold no dirty pages that anyone would
/// look for.
fn worth_a_line(mount: &Mount) -> bool {
    let in_memory =
        matches!(mount.fs_type.as_str(), "tmpfs" | "ramfs" | "rootfs" | "hugetlbfs" | "shm");
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

/// Controllers of version 1 are named among the filesystem's options (kernel/cgroup/cgroup-v1.c
/// `cgroup1_show_options`).
fn v1_controllers(mounts: &[Mount]) -> Vec<String> {
    const CONTROLLERS: [&str; 13] = [
        "blkio",
        "cpu",
        "cpuacct",
        "cpuset",
        "devices",
        "freezer",
        "hugetlb",
        "memory",
        "net_cls",
        "net_prio",
        "perf_event",
        "pids",
        "rdma",
    ];
    let v1 = || mounts.iter().filter(|m| m.fs_type == "cgroup").flat_map(|m| &m.options);
    CONTROLLERS
        .iter()
        .filter(|name| v1().any(|o| o == *name))
        .map(|name| (*name).to_owned())
        .collect()
}

/// Filesystems on a server.
fn is_network(fs_type: &str) -> bool {
    matches!(fs_type, "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "afs")
}

fn row(root: &SysRoot, mounts: &[Mount], mount: &Mount, backing: &Backing) -> Row {
    // btrfs keeps dirty pages for the filesystem, whatever its members are; all others for the
    // disk.
    let for_filesystem = mount.device.major == 0;
    let stacks: Vec<Stack> =
        backing.devices.iter().map(|id| topology::stack(root, mounts, *id)).collect();
    let top = stacks.first().and_then(Stack::top);
    let (id, name, kind) = match top {
        Some(top) if !for_filesystem => (top.id, top.name.clone(), describe(top)),
        _ => {
            let name = if backing.devices.is_empty() {
                mount.source.clone()
            } else {
                backing.bdi.value().cloned()
            };
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
        is_network: is_network(&mount.fs_type),
        address: mount.options.iter().find_map(|o| o.strip_prefix("addr=")).map(str::to_owned),
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
        options: mount.options.iter().filter(|o| !mounts::is_private_option(o)).cloned().collect(),
    }
}
