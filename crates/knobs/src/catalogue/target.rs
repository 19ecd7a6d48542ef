//! The owner of a knob (the machine, a device, or a control group), which determines its file.

use std::fmt;

use floodwall_host::{SysRoot, block, queue, task};
use floodwall_model::setting::VICTIM;
use floodwall_model::{DeviceId, Reading};
use serde::{Deserialize, Serialize};

use crate::catalogue::files::{CGROUPS, Files, read_line};
use crate::catalogue::systemd;
use crate::catalogue::{Knob, Scope};

/// Units are looked for this deep below it: a user's manager has its own some five levels down.
const DEEPEST_GROUP: u32 = 8;

/// A device can't be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No such device.
    #[error("no device is called '{name}' ({why}); lsblk lists them")]
    NoDevice {
        /// The given text.
        name: String,
        /// Why it was not found.
        why: String,
    },
    /// No such process.
    #[error("no process has the number {0}; ps lists them")]
    NoProcess(String),
    /// No such unit.
    #[error("no unit with the control group '{name}' runs (a stopped one has none); {instead}")]
    NoUnit {
        /// The given text.
        name: String,
        /// Where to look, or which units may be meant.
        instead: String,
    },
    /// The machine's control groups are of version 1.
    #[error(
        "the control groups of this machine are of version 1 ({CGROUPS}/cgroup.controllers is \
         missing), and \
         settings of '{0}' need version 2: boot with systemd.unified_cgroup_hierarchy=1 (floodwall \
         explain FW034); \
         without it raise the database instead: pid:NUMBER-OF-THE-DATABASE.ioprio=be/0"
    )]
    NoVersion2(String),
    /// Several control groups of one name.
    #[error("several control groups are called '{name}': {groups}; give the path of one")]
    SeveralUnits {
        /// The given text.
        name: String,
        /// Their paths.
        groups: String,
    },
    /// systemd runs and does not say whether it manages a group.
    #[error(
        "can't tell whether systemd manages '{group}': {why}; try again when systemctl status \
         answers"
    )]
    Systemd {
        /// The group's path.
        group: String,
        /// Why.
        why: String,
    },
    /// Not a control group below the mount.
    #[error(
        "'{0}' is not a control group: give its path below /sys/fs/cgroup, such as \
         system.slice/backup.service"
    )]
    NoGroup(String),
}

/// A whole disk, or a backing device without one: a network mount (`0:45`), a btrfs (`btrfs-1`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its number, as the kernel prints it: `8:0`. For a backing device without a disk, its name
    /// in /sys/class/bdi.
    pub number: String,
    /// Its name: `sda`; the number again where it has none.
    pub name: String,
    /// The kernel's count of disks (`diskseq`, since 5.15): another disk under the same number has
    /// another.
    pub instance: Option<u64>,
}

impl Device {
    /// Finds a device by its name (`sda`, `/dev/sda1`, `/dev/mapper/vg-root`) or number (`8:0`,
    /// `0:45`). A partition stands for its disk; mounts without a disk are named as in
    /// /sys/class/bdi.
    ///
    /// # Errors
    /// [`TargetError::NoDevice`].
    pub fn find(root: &SysRoot, name: &str) -> Result<Self, TargetError> {
        let given = match name.parse::<DeviceId>() {
            Ok(id) => Reading::Value(id),
            Err(_) if name.starts_with("/dev/") => block::by_path(root, name),
            Err(_) => block::by_path(root, &format!("/dev/{name}")),
        };
        if is_diskless(name) && root.exists(&format!("/sys/class/bdi/{name}")) {
            return Ok(Self { number: name.to_owned(), name: name.to_owned(), instance: None });
        }
        match given.and_then(|id| block::whole_disk(root, id)) {
            Reading::Value(id) => Ok(Self {
                number: id.to_string(),
                name: block::read_name(root, id).into_value().unwrap_or_else(|| id.to_string()),
                instance: root.parse(&format!("{}/diskseq", block::directory(id))).into_value(),
            }),
            other => Err(TargetError::NoDevice {
                name: name.to_owned(),
                why: other.why().unwrap_or_default(),
            }),
        }
    }

    /// Whether the device is still there and the same one. `Err` names what was found instead.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn check(&self, files: &dyn Files) -> Result<(), String> {
        if is_diskless(&self.number) {
            let there = files.read(&format!("/sys/class/bdi/{}/max_ratio", self.number)).is_ok();
            return if there { Ok(()) } else { Err(format!("{} is gone", self.name)) };
        }
        let now = read_line(files, &format!("/sys/dev/block/{}/diskseq", self.number));
        match (self.instance, now) {
            (Some(then), Reading::Value(now)) if now != then.to_string() => {
                Err(format!("{} ({}) is another disk now", self.name, self.number))
            }
            (_, Reading::Value(_)) => Ok(()),
            // Before 5.15 there is no count: that the number still has a queue must do.
            (None, _) if files.read(&format!("/sys/dev/block/{}/dev", self.number)).is_ok() => {
                Ok(())
            }
            _ => Err(format!("{} ({}) is gone", self.name, self.number)),
        }
    }

    /// Its path in /dev, as the kernel names it.
    pub(crate) fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }

    fn queue_directory(&self) -> String {
        match self.number.parse::<DeviceId>() {
            Ok(id) => queue::directory(id),
            // A backing device without a disk has no queue: this file does not exist.
            Err(_) => format!("/sys/dev/block/{}/queue", self.number),
        }
    }
}

/// The path in /dev of a device by its number, as the kernel names it.
pub(crate) fn node_of(files: &dyn Files, number: &str) -> String {
    let uevent = files.read(&format!("/sys/dev/block/{number}/uevent")).unwrap_or_default();
    let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    name.map_or_else(|| format!("/dev/block/{number}"), |name| format!("/dev/{name}"))
}

/// Whether a text could be the name in /sys/class/bdi of a backing device without a disk: major 0,
/// or a filesystem's own name.
fn is_diskless(name: &str) -> bool {
    let own_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && name.contains('-')
    };
    name.parse::<DeviceId>().is_ok_and(|id| id.major == 0 && id.to_string() == name)
        || own_name(name)
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot: numbers are used again.
    pub start_ticks: u64,
}

impl Process {
    /// Finds a process by its number.
    ///
    /// # Errors
    /// [`TargetError::NoProcess`].
    pub fn find(root: &SysRoot, number: &str) -> Result<Self, TargetError> {
        let none = || TargetError::NoProcess(number.to_owned());
        let pid: u32 = number.parse().map_err(|_| none())?;
        let mut stat = Vec::new();
        root.read_attribute_into(&format!("/proc/{pid}/stat"), &mut stat).map_err(|_| none())?;
        Ok(Self { pid, start_ticks: task::start_ticks(&stat).ok_or_else(none)? })
    }

    fn check(self, files: &dyn Files) -> Result<(), String> {
        let text = files.read(&format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        match task::start_ticks(text.as_bytes()) {
            Some(start) if start == self.start_ticks => Ok(()),
            Some(_) => Err(format!("process {} is another one now", self.pid)),
            None => Err(format!("process {} has ended", self.pid)),
        }
    }
}

/// The owner of a knob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// The machine.
    Machine,
    /// A device.
    Device(Device),
    /// The threads of a process.
    Process(Process),
    /// The victims of a bench, while they run. The process that starts them sets their priority; a
    /// plan never has this target.
    Victims,
    /// A control group, and the device of a line in its files; no device stands for the line
    /// `default`.
    Group {
        /// The group's path below /sys/fs/cgroup; empty for the root group.
        path: String,
        /// The device.
        device: Option<Device>,
        /// Whether systemd manages it. Then its limits are properties of the unit that the last
        /// part of the path names.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        systemd: bool,
    },
}

impl Target {
    /// A control group by its path, with or without /sys/fs/cgroup before it.
    ///
    /// # Errors
    /// [`TargetError::NoGroup`] for a path that leaves the mount.
    pub fn group(path: &str, device: Option<Device>) -> Result<Self, TargetError> {
        let below = path.strip_prefix(CGROUPS).unwrap_or(path).trim_matches('/');
        if below.split('/').any(|part| part == ".." || part == ".") || below.contains('\n') {
            return Err(TargetError::NoGroup(path.to_owned()));
        }
        Ok(Self::Group { path: below.to_owned(), device, systemd: false })
    }

    /// A control group by the name of its unit, such as `backup.service`, wherever it is.
    ///
    /// # Errors
    /// [`TargetError::NoUnit`]; [`TargetError::SeveralUnits`], as of users' managers;
    /// [`TargetError::NoVersion2`].
    pub fn unit(root: &SysRoot, name: &str, device: Option<Device>) -> Result<Self, TargetError> {
        let full = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
        let called = |is_it: &dyn Fn(&str) -> bool| {
            let mut found = Vec::new();
            groups_called(root, CGROUPS, is_it, DEEPEST_GROUP, &mut found);
            found
        };
        let found = called(&|name| name == full);
        match found.as_slice() {
            // Version 1 has a unit once in each hierarchy.
            [] | [_, _, ..] if !root.exists(&format!("{CGROUPS}/cgroup.controllers")) => {
                Err(TargetError::NoVersion2(full))
            }
            [] => {
                // The processes of postgresql.service run in postgresql@15-main.service on Debian.
                let (stem, kind) = full.rsplit_once('.').unwrap_or((&full, ""));
                let is_instance = |name: &str| {
                    name.strip_prefix(stem)
                        .is_some_and(|rest| rest.starts_with('@') && rest.ends_with(kind))
                };
                let instances = called(&is_instance);
                let names = instances.iter().map(|path| path.rsplit('/').next().unwrap_or(path));
                let names: Vec<&str> = names.collect();
                let instead = if names.is_empty() {
                    format!("systemctl status lists units{}", for_next_start(&full))
                } else {
                    format!("these of its name do: {}", names.join(", "))
                };
                Err(TargetError::NoUnit { name: full, instead })
            }
            [path] => Self::group(path, device),
            several => {
                let below = |path: &String| {
                    path.trim_start_matches(CGROUPS).trim_start_matches('/').to_owned()
                };
                let groups = several.iter().map(below).collect::<Vec<_>>().join(", ");
                Err(TargetError::SeveralUnits { name: full, groups })
            }
        }
    }

    /// Whether it is still there and the same one. `Err` names what was found instead.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn check(&self, files: &dyn Files) -> Result<(), String> {
        match self {
            Self::Process(process) => process.check(files),
            Self::Machine | Self::Device(_) | Self::Victims | Self::Group { .. } => {
                self.device().map_or(Ok(()), |device| device.check(files))
            }
        }
    }

    /// Whether its parts are what [`Device::find`] and [`Target::group`] make: a journal is not
    /// believed further than that.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let group = match self {
            Self::Group { path, device, systemd } => {
                let by_file =
                    Self::Group { path: path.clone(), device: device.clone(), systemd: false };
                Self::group(path, device.clone()) == Ok(by_file)
                    && (!systemd || systemd::section(systemd::unit_of(path)).is_some())
            }
            Self::Machine | Self::Device(_) | Self::Process(_) => true,
            Self::Victims => false,
        };
        let number = |device: &Device| {
            is_diskless(&device.number)
                || device.number.parse::<DeviceId>().is_ok_and(|id| id.to_string() == device.number)
        };
        group && self.device().is_none_or(number)
    }

    /// The device, if there is one.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        match self {
            Self::Machine | Self::Process(_) | Self::Victims => None,
            Self::Device(device) => Some(device),
            Self::Group { device, .. } => device.as_ref(),
        }
    }

    /// Whether knobs of this scope belong to such a target.
    #[must_use]
    pub fn suits(&self, scope: Scope) -> bool {
        match scope {
            Scope::Global => matches!(self, Self::Machine),
            Scope::Queue | Scope::Elevator(_) | Scope::Bdi | Scope::Scsi | Scope::Journal => {
                matches!(self, Self::Device(_))
            }
            Scope::Threads => {
                matches!(self, Self::Process(_) | Self::Victims | Self::Group { device: None, .. })
            }
            Scope::Cgroup => matches!(self, Self::Group { .. }),
            Scope::CgroupValue => matches!(self, Self::Group { device: None, .. }),
            Scope::RootCgroup => {
                matches!(self, Self::Group { path, device: Some(_), .. } if path.is_empty())
            }
        }
    }

    /// The file of a knob here.
    #[must_use]
    pub fn path(&self, knob: &Knob) -> String {
        let directory = match self {
            Self::Machine => "/proc/sys/vm".to_owned(),
            Self::Device(device) => match knob.scope {
                Scope::Bdi => format!("/sys/class/bdi/{}", device.number),
                Scope::Scsi => format!("/sys/dev/block/{}/device", device.number),
                Scope::Journal => format!("/sys/dev/block/{}/journal", device.number),
                Scope::Elevator(_) => format!("{}/iosched", device.queue_directory()),
                _ => device.queue_directory(),
            },
            Self::Process(process) => format!("/proc/{}", process.pid),
            Self::Victims => VICTIM.to_owned(),
            Self::Group { path, .. } if path.is_empty() => CGROUPS.to_owned(),
            Self::Group { path, .. } => format!("{CGROUPS}/{path}"),
        };
        format!("{directory}/{}", knob.file_name())
    }

    /// The owner of the threads that a priority here applies to, for people.
    #[must_use]
    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Machine => "the machine".to_owned(),
            Self::Device(device) => format!("the journals on {device}"),
            Self::Process(process) => format!("process {}", process.pid),
            Self::Victims => "the victims".to_owned(),
            Self::Group { path, .. } => format!("the processes in {path}"),
        }
    }

    /// A knob here, as people write it: `vm.dirty_bytes`, `sda.scheduler`,
    /// `system.slice:sda.io.max`.
    #[must_use]
    pub fn label(&self, knob: &Knob) -> String {
        match self {
            Self::Machine => knob.name.to_owned(),
            Self::Process(process) => format!("pid:{}.{}", process.pid, knob.name),
            Self::Victims => format!("{VICTIM}.{}", knob.name),
            Self::Device(device) => format!("{device}.{}", knob.name),
            Self::Group { device: Some(device), .. } if knob.scope == Scope::RootCgroup => {
                format!("{device}.{}", knob.name)
            }
            Self::Group { path, device: Some(device), .. } => {
                format!("{path}:{device}.{}", knob.name)
            }
            Self::Group { path, device: None, .. } => format!("{path}:{}", knob.name),
        }
    }
}

/// How to limit a unit that does not run; empty for what can't be prepared.
fn for_next_start(unit: &str) -> String {
    // A scope is made anew each time.
    if systemd::section(unit).is_none_or(|section| section == "Scope") {
        return String::new();
    }
    format!(
        "; to limit its next start: systemctl set-property {unit} IOWriteBandwidthMax='/dev/DISK \
         60M' MemoryHigh=256M"
    )
}

/// The directories of this name, up to `deep` levels below one.
fn groups_called(
    root: &SysRoot,
    directory: &str,
    is_it: &dyn Fn(&str) -> bool,
    deep: u32,
    found: &mut Vec<String>,
) {
    for entry in root.list(directory).into_value().unwrap_or_default() {
        let path = format!("{directory}/{entry}");
        if !root.exists(&format!("{path}/cgroup.procs")) {
            continue;
        }
        if is_it(&entry) {
            found.push(path);
        } else if deep > 0 {
            groups_called(root, &path, is_it, deep - 1, found);
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}
