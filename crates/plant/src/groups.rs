//! Control groups whose flood a controller may pace.
//!
//! ```text
//! /proc/PID/cgroup ─▶ the group of each process that waits or writes
//! dirtied bytes, and where ─▶ the unit of a group, and its disk
//! /sys/fs/cgroup/GROUP/{io.max,memory.high} ─▶ GROUP:io.max, GROUP:memory.high as the unit's knobs
//! /sys/fs/cgroup/GROUP/memory.stat ─▶ its part of the unit's backlog, where debugfs leaves it out
//! ```
//!
//! `io.max` has a line for each disk. The line is that of the disk to which the probe's requests
//! go: below LVM the disk, not the logical volume. The kernel keeps a request's group on its way
//! down (block/blk-cgroup.c `bio_clone_blkg_association`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use floodwall_host::{SysRoot, cgroup, task};
use floodwall_knobs::catalogue::{Knob, find};
use floodwall_knobs::cell::Cell;
use floodwall_knobs::{Device, Files, Target};
use floodwall_model::control_group::is_in;
use floodwall_model::{DeviceId, Reading, Setting};

use crate::owner::{Owner, owner};

/// A process's group is read again after this: a process may be moved.
const REREAD: Duration = Duration::from_secs(1);
/// A process, or a group without writes, is forgotten after this.
const FORGET: Duration = Duration::from_secs(60);
/// Bytes that a group dirties between two looks before its limits are read: a program that writes
/// less is no flood.
const LEAST: u64 = 1 << 20;
/// The limits that pace a flood. The first has a line for each device.
const LIMITS: [&str; 2] = ["io.max", "memory.high"];

/// A process's group when it was last read.
struct Member {
    group: Option<String>,
    read: Duration,
    seen: Duration,
}

/// Where a group's writes go.
struct Home {
    unit: DeviceId,
    device: Device,
    dirtied: Duration,
}

/// The groups of processes, and those that dirty much.
pub(crate) struct Groups {
    /// The controller's group, which is never paced.
    own: Option<String>,
    members: HashMap<u32, Member>,
    homes: BTreeMap<String, Home>,
}

/// The bytes that a group dirtied on a unit between two looks, with the disk.
#[derive(Default)]
pub(crate) struct Dirtied(BTreeMap<String, BTreeMap<DeviceId, (u64, DeviceId)>>);

impl Dirtied {
    /// `on`: the disk to which the requests go.
    pub(crate) fn add(&mut self, group: &str, unit: DeviceId, on: DeviceId, bytes: u64) {
        let (sum, device) =
            self.0.entry(group.to_owned()).or_default().entry(unit).or_insert((0, on));
        *sum += bytes;
        *device = on;
    }
}

/// A group's path below its mount, as knobs has it.
fn below_mount(group: &str) -> String {
    group.trim_matches('/').to_owned()
}

impl Groups {
    pub(crate) fn new(root: &SysRoot) -> Self {
        let own = task::read_group(root, "self").into_value().map(|group| below_mount(&group));
        Self { own, members: HashMap::new(), homes: BTreeMap::new() }
    }

    /// The group of a process; empty for the root group. A process that has ended keeps the last
    /// one that was read.
    pub(crate) fn of(&mut self, root: &SysRoot, pid: u32, at: Duration) -> Option<String> {
        let member = self.members.entry(pid).or_insert(Member { group: None, read: at, seen: at });
        if member.group.is_none() || at.saturating_sub(member.read) >= REREAD {
            member.read = at;
            if let Reading::Value(group) = task::read_group(root, pid) {
                member.group = Some(below_mount(&group));
            }
        }
        member.seen = at;
        member.group.clone()
    }

    /// Takes in what groups dirtied since the last look. A group belongs to the unit where it
    /// dirties most. It is forgotten some time after its last write, but not while a limit of it is
    /// `in_use`, nor does it move to another unit meanwhile.
    pub(crate) fn look(
        &mut self,
        root: &SysRoot,
        at: Duration,
        dirtied: Dirtied,
        in_use: &BTreeSet<Owner>,
    ) {
        let is_used = |group: &str, home: &Home| {
            owners(group, &home.device).any(|owner| in_use.contains(&owner))
        };
        for (group, by_unit) in dirtied.0 {
            let most = by_unit.into_iter().max_by_key(|(_, (bytes, _))| *bytes);
            let Some((unit, (bytes, on))) = most else { continue };
            if bytes == 0 || group.is_empty() || self.own.as_ref() == Some(&group) {
                continue;
            }
            match self.homes.get_mut(&group) {
                // However little: a flood may be held to little.
                Some(home) if home.unit == unit => home.dirtied = at,
                Some(home) if is_used(&group, home) => {}
                _ if bytes < LEAST => {}
                _ => {
                    if let Ok(device) = Device::find(root, &on.to_string()) {
                        self.homes.insert(group, Home { unit, device, dirtied: at });
                    }
                }
            }
        }
        self.members.retain(|_, member| at.saturating_sub(member.seen) < FORGET);
        self.homes
            .retain(|group, home| at.saturating_sub(home.dirtied) < FORGET || is_used(group, home));
    }

    /// Forgets the groups of a unit that has gone. Returns their limits.
    pub(crate) fn unit_gone(&mut self, unit: DeviceId) -> Vec<Owner> {
        let mut left = Vec::new();
        self.homes.retain(|group, home| {
            if home.unit == unit {
                left.extend(owners(group, &home.device));
            }
            home.unit != unit
        });
        left
    }

    /// Adds the limits of a unit's groups to its knobs: `GROUP:io.max` without the device's number
    /// before it. A limit that is absent is left out.
    /// Of a limit that is being written the value is the one that it is about to have.
    pub(crate) fn read_knobs(
        &self,
        unit: DeviceId,
        files: &dyn Files,
        pending: &dyn Fn(&Owner) -> Option<String>,
        knobs: &mut Setting,
    ) {
        for (group, home) in self.homes.iter().filter(|(_, home)| home.unit == unit) {
            for (knob, target) in limits(group, &home.device) {
                if let Reading::Value(value) = read(knob, &target, files, pending) {
                    knobs.0.insert(format!("{group}:{}", knob.name), value);
                }
            }
        }
    }

    /// One of the same limits.
    pub(crate) fn read_knob(
        &self,
        unit: DeviceId,
        name: &str,
        files: &dyn Files,
        pending: &dyn Fn(&Owner) -> Option<String>,
    ) -> Reading<String> {
        let gone =
            || Reading::Absent("the group does not write to this device any more".to_owned());
        self.limit(unit, name)
            .map_or_else(gone, |(knob, target)| read(knob, &target, files, pending))
    }

    /// Bytes of a unit's groups: dirty, and under writeback. A group's file counts the groups below
    /// it, too (mm/memcontrol.c `memory_stat_format`).
    pub(crate) fn backlog(&self, root: &SysRoot, unit: DeviceId) -> (u64, u64) {
        let its =
            || self.homes.iter().filter(|(_, home)| home.unit == unit).map(|(group, _)| group);
        let is_below = |group: &str| its().any(|other| other != group && is_in(group, other));
        let mut sum = (0, 0);
        for group in its().filter(|group| !is_below(group)) {
            let its = cgroup::read_backlog(root, &format!("/sys/fs/cgroup/{group}")).into_value();
            let its = its.unwrap_or_default();
            sum.0 += its.dirty_bytes;
            sum.1 += its.writeback_bytes;
        }
        sum
    }

    /// The unit to which a group writes.
    pub(crate) fn unit(&self, group: &str) -> Option<DeviceId> {
        self.homes.get(group).map(|home| home.unit)
    }

    /// The knob and the target of a name that [`Self::read_knobs`] gave. `None` if the unit has no
    /// such group.
    pub(crate) fn limit(&self, unit: DeviceId, name: &str) -> Option<(&'static Knob, Target)> {
        let (group, knob) = name.rsplit_once(':')?;
        let home = self.homes.get(group).filter(|home| home.unit == unit)?;
        limits(group, &home.device).find(|(its, _)| its.name == knob)
    }
}

/// A limit without its device's number.
fn read(
    knob: &'static Knob,
    target: &Target,
    files: &dyn Files,
    pending: &dyn Fn(&Owner) -> Option<String>,
) -> Reading<String> {
    Cell::of(knob, target, files).read(files).map(|state| {
        let line = match target.device() {
            Some(device) => state.value.trim_start_matches(&device.number).trim(),
            None => state.value.as_str(),
        };
        pending(&owner(knob, target)).unwrap_or_else(|| line.to_owned())
    })
}

/// The owners of a group's limits.
fn owners(group: &str, device: &Device) -> impl Iterator<Item = Owner> {
    limits(group, device).map(|(knob, target)| owner(knob, &target))
}

/// The limits of a group on a device.
fn limits(group: &str, device: &Device) -> impl Iterator<Item = (&'static Knob, Target)> {
    LIMITS.iter().filter_map(move |name| {
        let of_device = (*name == LIMITS[0]).then(|| device.clone());
        Some((find(name)?, Target::group(group, of_device).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use floodwall_knobs::KernelFiles;

    use super::*;
    use crate::testing::put;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
    const SDB: DeviceId = DeviceId { major: 8, minor: 16 };
    const MIB: u64 = 1 << 20;

    fn machine() -> (tempfile::TempDir, SysRoot) {
        let directory = tempfile::tempdir().unwrap();
        let put = |path: &str, line: &str| put(directory.path(), path, line);
        put("proc/self/cgroup", "0::/system.slice/floodwall.service");
        put("proc/7/cgroup", "4:memory:/a\n0::/system.slice/backup.service");
        put("proc/8/cgroup", "0::/");
        put("proc/9/cgroup", "0::/system.slice/floodwall.service");
        for (number, name) in [("8:0", "sda"), ("8:16", "sdb")] {
            put(&format!("sys/dev/block/{number}/dev"), number);
            put(&format!("sys/dev/block/{number}/diskseq"), "1");
            put(&format!("sys/dev/block/{number}/uevent"), &format!("DEVNAME={name}"));
        }
        for group in ["backup.service", "floodwall.service"] {
            put(
                &format!("sys/fs/cgroup/system.slice/{group}/io.max"),
                "8:0 rbps=max wbps=5000000 riops=max wiops=7",
            );
            put(&format!("sys/fs/cgroup/system.slice/{group}/memory.high"), "max");
        }
        let root = SysRoot::new(directory.path()).unwrap();
        (directory, root)
    }

    /// A look in which each of these processes has dirtied so many MiB on a device.
    fn look(groups: &mut Groups, root: &SysRoot, at: u64, writes: &[(u32, DeviceId, u64)]) {
        let at = Duration::from_secs(at);
        let mut dirtied = Dirtied::default();
        for (pid, unit, mib) in writes {
            let group = groups.of(root, *pid, at).unwrap();
            dirtied.add(&group, *unit, *unit, mib * MIB);
        }
        groups.look(root, at, dirtied, &BTreeSet::new());
    }

    fn knobs(groups: &Groups, root: &SysRoot, unit: DeviceId) -> Vec<(String, String)> {
        let mut knobs = Setting::default();
        groups.read_knobs(unit, &KernelFiles::new(root).unwrap(), &|_| None, &mut knobs);
        knobs.0.into_iter().collect()
    }

    #[test]
    fn the_limits_of_a_group_that_dirties_much_are_knobs_of_its_device() {
        let (_directory, root) = machine();
        let mut groups = Groups::new(&root);
        look(&mut groups, &root, 1, &[(7, SDA, 20), (8, SDA, 90), (9, SDA, 90)]);
        let text = |knob: &str, value: &str| {
            (format!("system.slice/backup.service:{knob}"), value.to_owned())
        };
        assert_eq!(
            knobs(&groups, &root, SDA),
            [text("io.max", "rbps=max wbps=5000000 riops=max wiops=7"), text("memory.high", "max")],
            "neither the root group nor the controller's"
        );
        assert!(knobs(&groups, &root, SDB).is_empty());
        let (knob, target) = groups.limit(SDA, "system.slice/backup.service:io.max").unwrap();
        assert_eq!(target.path(knob), "/sys/fs/cgroup/system.slice/backup.service/io.max");
        assert_eq!(target.device().unwrap().number, "8:0");
        let (_, target) = groups.limit(SDA, "system.slice/backup.service:memory.high").unwrap();
        assert_eq!(target.device(), None);
        assert!(groups.limit(SDB, "system.slice/backup.service:io.max").is_none());
        assert!(groups.limit(SDA, "system.slice/backup.service:io.weight").is_none());
    }

    #[test]
    fn a_group_belongs_to_one_device_at_a_time_and_is_forgotten() {
        let (_directory, root) = machine();
        let mut groups = Groups::new(&root);
        let limits = ["io.max", "memory.high"]
            .map(|knob| Some(format!("/system.slice/backup.service/{knob}")));
        look(&mut groups, &root, 1, &[(7, SDA, 20), (7, SDB, 2)]);
        assert!(!knobs(&groups, &root, SDA).is_empty() && knobs(&groups, &root, SDB).is_empty());
        let in_use = BTreeSet::from([limits[0].clone()]);
        let mut more = Dirtied::default();
        more.add("system.slice/backup.service", SDB, SDB, 20 * MIB);
        groups.look(&root, Duration::from_secs(2), more, &in_use);
        assert!(!knobs(&groups, &root, SDA).is_empty(), "a limit of it is held");
        look(&mut groups, &root, 3, &[(7, SDB, 20)]);
        assert!(knobs(&groups, &root, SDA).is_empty(), "it writes elsewhere now");
        // However little it writes, it stays.
        let mut dirtied = Dirtied::default();
        dirtied.add("system.slice/backup.service", SDB, SDB, 4096);
        groups.look(&root, Duration::from_secs(50), dirtied, &BTreeSet::new());
        look(&mut groups, &root, 109, &[]);
        assert!(!knobs(&groups, &root, SDB).is_empty());
        groups.look(&root, Duration::from_secs(200), Dirtied::default(), &in_use);
        assert!(!knobs(&groups, &root, SDB).is_empty(), "a limit of it is held");
        look(&mut groups, &root, 201, &[]);
        assert!(knobs(&groups, &root, SDB).is_empty());
        look(&mut groups, &root, 202, &[(7, SDA, 20)]);
        assert_eq!(groups.unit_gone(SDA), limits);
    }

    #[test]
    fn the_backlog_of_groups_counts_each_page_once() {
        let (directory, root) = machine();
        let mut groups = Groups::new(&root);
        put(directory.path(), "proc/5/cgroup", "0::/system.slice/backup.service/worker");
        look(&mut groups, &root, 1, &[(7, SDA, 20), (5, SDA, 20)]);
        assert_eq!(groups.backlog(&root, SDA), (0, 0), "no memory controller");
        let group = "sys/fs/cgroup/system.slice/backup.service";
        let stat = |dirty: u64| format!("file 90\nfile_dirty {dirty}\nfile_writeback 7\n");
        put(directory.path(), &format!("{group}/memory.stat"), &stat(50));
        put(directory.path(), &format!("{group}/worker/memory.stat"), &stat(40));
        assert_eq!(groups.backlog(&root, SDA), (50, 7));
        assert_eq!(groups.backlog(&root, SDB), (0, 0));
    }

    #[test]
    fn a_process_that_has_ended_keeps_its_group() {
        let (directory, root) = machine();
        let mut groups = Groups::new(&root);
        let mut of = |pid, at| groups.of(&root, pid, Duration::from_secs(at));
        assert_eq!(of(7, 1).as_deref(), Some("system.slice/backup.service"));
        assert_eq!(of(8, 1).as_deref(), Some(""));
        assert_eq!(of(5, 1), None);
        fs::remove_dir_all(directory.path().join("proc/7")).unwrap();
        assert_eq!(of(7, 3).as_deref(), Some("system.slice/backup.service"));
    }
}
