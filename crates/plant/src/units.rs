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

mod disks;
mod groups;
mod read;
mod unit;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use floodwall_host::{SysRoot, locate};
use floodwall_model::DeviceId;

use crate::error::HostPlantError;
pub(crate) use unit::devices_of;
pub use unit::{LeftOut, Unit};

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

impl Units {
    /// Reads the machine's devices and mounts.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        let (units, left_out) = read::read(root);
        let mut found = Self { units, left_out, ..Self::default() };
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
