//! Devices as a controller sees them: the device whose queue the writes meet, with everything
//! stacked on it.
//!
//! ```text
//! partitions ───────────────▶ their disk
//! dm, md, bcache (no queue) ─▶ the queues below; what shares a queue is one unit
//! dm-multipath, loop ────────▶ itself: it has a queue of its own
//! btrfs ─────────────────────▶ its members are one unit, its limits those of the filesystem
//! NFS and the like ──────────▶ a unit of limits alone
//! overlay, ZFS, tmpfs, FUSE ─▶ left out, with the reason
//! ```
//!
//! A unit of several queues or limits has the value that all of them have. A knob in which they
//! differ is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use floodwall_host::layout::Layout;
use floodwall_host::{SysRoot, bdi, block, locate, queue};
use floodwall_knobs::Device;
use floodwall_model::DeviceId;
use floodwall_model::plant::DeviceKind;

use crate::error::HostPlantError;
use crate::kind;

/// Which devices are to be steered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// All that have a queue or limits.
    #[default]
    All,
    /// Those with these names: a name (`sda`), a path below /dev, a number (`8:0`), or a directory
    /// on them.
    Named(Vec<String>),
}

/// A device as a controller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its number: the queue's if there is one, else the array's, else that of the mount (`0:45`).
    pub id: DeviceId,
    /// The kernel's name of it, or the mount's source.
    pub name: String,
    /// What its disks are.
    pub kind: DeviceKind,
    /// Every device that belongs to it, itself included.
    pub members: BTreeSet<DeviceId>,
    /// Those with a queue: their knobs are the unit's.
    pub queues: Vec<Device>,
    /// Backing devices whose limits are the unit's, as in /sys/class/bdi.
    pub limits: Vec<Device>,
    /// Where it is mounted, for people.
    pub mounts: Vec<String>,
}

/// A device or mount that is not steered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The device or mount point.
    pub what: String,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// All units of a machine at one moment.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// In the order of their numbers.
    pub units: Vec<Unit>,
    /// Devices and mounts that are not steered.
    pub left_out: Vec<LeftOut>,
    /// Names of devices that were to be steered and are absent ([`Units::read_again`]).
    pub absent: Vec<String>,
    /// Where the filesystems of named directories were mounted when last they counted.
    mounted: BTreeMap<String, PathBuf>,
    of: HashMap<DeviceId, usize>,
}

/// A whole disk as /sys/block has it.
struct Disk {
    name: String,
    /// Whether requests wait here, and not only below.
    has_queue: bool,
    below: Vec<DeviceId>,
}

impl Units {
    /// Reads the machine's devices and mounts.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        let mut found = Self::default();
        let disks = disks(root, &mut found.left_out);
        let layout = Layout::read(root);
        let mut groups = Groups::default();
        let mut paths = BTreeSet::new();
        for (id, disk) in &disks {
            groups.add(*id);
            for below in &disk.below {
                if disk.has_queue {
                    paths.insert(*below);
                } else {
                    groups.join(*id, *below);
                }
            }
        }
        // btrfs: one limit for all members.
        let mut of_filesystem: BTreeMap<DeviceId, Vec<Device>> = BTreeMap::new();
        for row in layout.rows.iter().filter(|row| row.queue_device.is_none()) {
            let Some(name) = row.bdi.value() else { continue };
            let Ok(limits) = Device::find(root, name) else { continue };
            let members: Vec<DeviceId> = row
                .devices
                .iter()
                .filter_map(|id| block::whole_disk(root, *id).into_value())
                .collect();
            match members.as_slice() {
                [] => {
                    found.left_out.extend(unattributed(
                        &row.name,
                        row.mounts.first().map(|m| m.mountpoint.as_str()),
                    ));
                    found.units.push(Unit {
                        id: row.id,
                        name: row.name.clone(),
                        kind: DeviceKind::Unknown,
                        members: BTreeSet::from([row.id]),
                        queues: Vec::new(),
                        limits: vec![limits],
                        mounts: row.mounts.iter().map(|m| m.mountpoint.clone()).collect(),
                    });
                }
                [first, rest @ ..] => {
                    rest.iter().for_each(|other| groups.join(*first, *other));
                    of_filesystem.entry(*first).or_default().push(limits);
                }
            }
        }
        for members in groups.all() {
            // A path's requests come from the device above it, which has the queue.
            if members.iter().any(|id| paths.contains(id)) {
                let name = members
                    .iter()
                    .filter_map(|id| disks.get(id))
                    .map(|disk| disk.name.clone())
                    .next();
                found.left_out.push(LeftOut {
                    what: name.unwrap_or_default(),
                    why: "it is a path of a device above it, whose queue is steered".into(),
                });
                continue;
            }
            found.units.extend(unit(
                root,
                members,
                &disks,
                &of_filesystem,
                &layout,
                &mut found.left_out,
            ));
        }
        for elsewhere in &layout.elsewhere {
            let what = format!("{} ({})", elsewhere.mountpoint, elsewhere.filesystem);
            found.left_out.push(LeftOut { what, why: elsewhere.why.clone() });
        }
        found.index();
        found
    }

    /// Keeps the named units. `mounted` tells where the filesystems of named directories were
    /// mounted earlier ([`mount_points`]).
    ///
    /// # Errors
    /// [`HostPlantError::Device`] for a name that means nothing, or a device that can't be steered.
    pub fn named(
        mut self,
        root: &SysRoot,
        names: &[String],
        mounted: &BTreeMap<String, PathBuf>,
    ) -> Result<Self, HostPlantError> {
        self.mounted.clone_from(mounted);
        let mut wanted = BTreeSet::new();
        for name in names {
            let place = self.place(root, name);
            let wrong = |why| HostPlantError::Device { name: name.clone(), why };
            wanted.insert(place.map_err(wrong)?);
        }
        self.keep(&wanted);
        Ok(self)
    }

    /// Reads the devices again, on a machine whose devices come and go. Names without a device are
    /// [absent](Self::absent) and left out, and the others stay. A directory is absent while its
    /// filesystem is not mounted: the filesystem below it is another one. `None` if the machine's
    /// devices can't be read at all.
    #[must_use]
    pub fn read_again(&self, root: &SysRoot, which: &Which) -> Option<Self> {
        let directories = ["/sys/block", "/sys/dev/block"];
        directories.iter().find_map(|directory| root.list(directory).into_value())?;
        let mut units = Self::read(root);
        units.mounted.clone_from(&self.mounted);
        if let Which::Named(names) = which {
            let mut wanted = BTreeSet::new();
            for name in names {
                match units.place(root, name) {
                    Ok(index) => {
                        wanted.insert(index);
                    }
                    Err(why) => {
                        units.absent.push(name.clone());
                        units.left_out.push(LeftOut { what: name.clone(), why });
                    }
                }
            }
            units.keep(&wanted);
        }
        Some(units)
    }

    /// The index of the unit that a name means.
    fn place(&mut self, root: &SysRoot, name: &str) -> Result<usize, String> {
        let id = self.find(root, name)?;
        self.of(id).ok_or_else(|| {
            let known = self.left_out.iter().find(|left| left.what == name);
            known.map_or_else(
                || "it has neither a queue nor limits".to_owned(),
                |left| left.why.clone(),
            )
        })
    }

    fn keep(&mut self, wanted: &BTreeSet<usize>) {
        let mut index = 0;
        self.units.retain(|_| {
            index += 1;
            wanted.contains(&(index - 1))
        });
        self.index();
    }

    /// The device that a name means: a device's name or number, a mount's number, or a directory.
    fn find(&mut self, root: &SysRoot, name: &str) -> Result<DeviceId, String> {
        if let Ok(id) = name.parse::<DeviceId>()
            && self.of.contains_key(&id)
        {
            return Ok(id);
        }
        if is_directory(name) {
            let place = locate(root, Path::new(name)).map_err(|e| e.to_string())?;
            let now = &place.mount.mountpoint;
            if let Some(before) = self.mounted.get(name)
                && !now.starts_with(before)
            {
                let (now, before) = (now.display(), before.display());
                return Err(format!(
                    "it is on the filesystem at '{now}' now, no longer on that at '{before}'"
                ));
            }
            self.mounted.insert(name.to_owned(), now.clone());
            return Ok(place.queue_device.unwrap_or(place.mount.device));
        }
        floodwall_probe::device(root, name)
    }

    fn index(&mut self) {
        self.units.sort_by_key(|unit| unit.id);
        self.of.clear();
        for (index, unit) in self.units.iter().enumerate() {
            self.of.extend(unit.members.iter().map(|member| (*member, index)));
        }
    }

    /// The index of the unit that a device belongs to.
    #[must_use]
    pub fn of(&self, device: DeviceId) -> Option<usize> {
        self.of.get(&device).copied()
    }

    /// The unit of a number.
    #[must_use]
    pub fn get(&self, id: DeviceId) -> Option<&Unit> {
        self.units.get(self.of(id)?).filter(|unit| unit.id == id)
    }
}

/// Whether a name is that of a directory, not of a device.
fn is_directory(name: &str) -> bool {
    name.starts_with('/') && !name.starts_with("/dev/")
}

/// Where the filesystems of those names that are directories of this machine are mounted. Without a
/// filesystem that was unmounted, a directory is on another disk.
#[must_use]
pub fn mount_points(names: &[String]) -> BTreeMap<String, PathBuf> {
    let Ok(root) = SysRoot::live() else { return BTreeMap::new() };
    let directories = names.iter().filter(|name| is_directory(name));
    let place = |name: &String| {
        let place = locate(&root, Path::new(name)).ok()?;
        Some((name.clone(), place.mount.mountpoint))
    };
    directories.filter_map(place).collect()
}

fn unattributed(name: &str, mount: Option<&str>) -> Option<LeftOut> {
    let what = mount.map_or_else(|| name.to_owned(), |mount| format!("{mount} ({name})"));
    let why =
        "it has no queue: its limits alone can be steered, and who waits for it can't be told"
            .to_owned();
    Some(LeftOut { what, why })
}

/// Whole disks by number. Disks in memory are left out with a reason, disks without a medium or
/// file without one.
fn disks(root: &SysRoot, left_out: &mut Vec<LeftOut>) -> BTreeMap<DeviceId, Disk> {
    let mut disks = BTreeMap::new();
    for (name, directory) in directories(root) {
        let Some(id) = root.parse::<DeviceId>(&format!("{directory}/dev")).into_value() else {
            continue;
        };
        if root.parse::<u64>(&format!("{directory}/size")).into_value() == Some(0) {
            continue;
        }
        if name.starts_with("zram") || name.starts_with("ram") {
            left_out.push(LeftOut { what: name, why: "it is memory".to_owned() });
            continue;
        }
        let slaves = block::slaves(root, id);
        let below: Vec<DeviceId> =
            slaves.iter().filter_map(|id| block::whole_disk(root, *id).into_value()).collect();
        // Up to 6.7 a device that is built on bios has the file too, but no hardware queues.
        let has_queue = root.exists(&format!("{}/nr_requests", queue::directory(id)))
            && (below.is_empty() || root.exists(&format!("{directory}/mq")));
        disks.insert(id, Disk { name: name.replace('!', "/"), has_queue, below });
    }
    disks
}

/// Whole disks' names and directories. A captured tree has them by number alone.
fn directories(root: &SysRoot) -> Vec<(String, String)> {
    if let Some(names) = root.list("/sys/block").into_value() {
        return names
            .into_iter()
            .map(|name| (name.clone(), format!("/sys/block/{name}")))
            .collect();
    }
    let numbers = root.list("/sys/dev/block").into_value().unwrap_or_default();
    let disk = |number: String| {
        let directory = format!("/sys/dev/block/{number}");
        let is_disk = !root.exists(&format!("{directory}/partition"));
        is_disk.then(|| (root.link_name(&directory).into_value().unwrap_or(number), directory))
    };
    numbers.into_iter().filter_map(disk).collect()
}

fn unit(
    root: &SysRoot,
    members: BTreeSet<DeviceId>,
    disks: &BTreeMap<DeviceId, Disk>,
    of_filesystem: &BTreeMap<DeviceId, Vec<Device>>,
    layout: &Layout,
    left_out: &mut Vec<LeftOut>,
) -> Option<Unit> {
    let queues: Vec<DeviceId> = members
        .iter()
        .copied()
        .filter(|id| disks.get(id).is_some_and(|disk| disk.has_queue))
        .collect();
    // A process that waits for a device with several queues waits for that one device.
    let id = match queues.as_slice() {
        [one] => *one,
        [] => *members.first()?,
        _ => {
            let covers =
                |id: &&DeviceId| below(**id, disks).is_superset(&queues.iter().copied().collect());
            members.iter().find(covers).copied().or_else(|| queues.first().copied())?
        }
    };
    let name = disks.get(&id).map_or_else(|| id.to_string(), |disk| disk.name.clone());
    let has_limits = |id: &&DeviceId| root.exists(&bdi::directory(&id.to_string()));
    let find = |id: &DeviceId| Device::find(root, &id.to_string()).ok();
    // Dirty pages are counted for a device that a filesystem is on, and for a device that is
    // written directly. No device is stacked on the latter.
    let is_below = |id: &DeviceId| {
        members.iter().any(|top| disks.get(top).is_some_and(|disk| disk.below.contains(id)))
    };
    let is_mounted = |id: &DeviceId| layout.rows.iter().any(|row| row.queue_device == Some(*id));
    let holds_pages = |id: &&DeviceId| !is_below(id) || is_mounted(id);
    let mut limits: Vec<Device> =
        members.iter().filter(holds_pages).filter(has_limits).filter_map(find).collect();
    let filesystems: Vec<Device> =
        members.iter().filter_map(|id| of_filesystem.get(id)).flatten().cloned().collect();
    if !filesystems.is_empty() {
        limits = filesystems;
    }
    let queues: Vec<Device> = queues.iter().filter_map(find).collect();
    if queues.is_empty() && limits.is_empty() {
        left_out.push(LeftOut { what: name, why: "it has neither a queue nor limits".to_owned() });
        return None;
    }
    let on = |row: &&floodwall_host::layout::Row| {
        row.devices.iter().chain(&row.queue_device).any(|id| members.contains(id))
    };
    let mounts = layout.rows.iter().filter(on).flat_map(|row| &row.mounts);
    let mut mounts: Vec<String> = mounts.map(|mount| mount.mountpoint.clone()).collect();
    mounts.sort_unstable();
    mounts.dedup();
    let kind = kind::kind(root, &queues);
    Some(Unit { id, name, kind, members, queues, limits, mounts })
}

/// The queues that a device's requests may go to.
fn below(id: DeviceId, disks: &BTreeMap<DeviceId, Disk>) -> BTreeSet<DeviceId> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut to_visit = vec![id];
    while let Some(id) = to_visit.pop() {
        let Some(disk) = disks.get(&id).filter(|_| seen.insert(id)) else { continue };
        if disk.has_queue {
            found.insert(id);
        } else {
            to_visit.extend(&disk.below);
        }
    }
    found
}

/// Which devices belong together.
#[derive(Default)]
struct Groups(BTreeMap<DeviceId, DeviceId>);

impl Groups {
    fn add(&mut self, id: DeviceId) {
        self.0.entry(id).or_insert(id);
    }

    fn root(&self, id: DeviceId) -> DeviceId {
        let mut at = id;
        while let Some(next) = self.0.get(&at).filter(|next| **next != at) {
            at = *next;
        }
        at
    }

    /// The lower number stands for both.
    fn join(&mut self, a: DeviceId, b: DeviceId) {
        self.add(a);
        self.add(b);
        let (a, b) = (self.root(a), self.root(b));
        self.0.insert(a.max(b), a.min(b));
    }

    fn all(&self) -> Vec<BTreeSet<DeviceId>> {
        let mut groups: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
        for id in self.0.keys() {
            groups.entry(self.root(*id)).or_default().insert(*id);
        }
        groups.into_values().collect()
    }
}

/// The units of this machine, all or those that were named.
pub(crate) fn read_units(
    root: &SysRoot,
    which: &Which,
    mounted: &BTreeMap<String, PathBuf>,
) -> Result<Units, HostPlantError> {
    let units = Units::read(root);
    match which {
        Which::All => Ok(units),
        Which::Named(names) => units.named(root, names, mounted),
    }
}

/// A unit's queues and backing devices.
pub(crate) fn devices_of(unit: &Unit) -> impl Iterator<Item = &Device> {
    unit.queues.iter().chain(&unit.limits)
}
