//! A requested change: `sda.scheduler=bfq`, `vm.dirty_bytes=64MiB`,
//! `system.slice/backup.service:sda.io.max=wbps=50MB`.

use floodwall_host::SysRoot;
use floodwall_model::Setting;
use floodwall_model::setting::VICTIM;

use crate::catalogue::cell::Cell;
use crate::catalogue::files::Files;
use crate::catalogue::systemd;
use crate::catalogue::target::{Device, Process, Target, TargetError};
use crate::catalogue::value::{Form, ValueError, check};
use crate::catalogue::{Knob, Scope, find, knobs, nearest};
use crate::plan::entry::Entry;

/// Knobs that [`floodwall_host::settings_in_force`] records and that a stored setting does not
/// change: the kernel's view of a device's write cache. The kernel drops every flush of a cache
/// that it takes for "write through", and a power cut then loses data.
const RECORDED_ALONE: [&str; 1] = ["write_cache"];

/// One knob, where, and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The knob.
    pub knob: &'static Knob,
    /// The place that it belongs to.
    pub target: Target,
    /// Checked, in the file's own unit.
    pub value: String,
}

/// A text is not a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// No `=`.
    #[error(
        "'{0}' is not a setting: write KNOB=VALUE, such as vm.dirty_bytes=64MiB or \
         sda.scheduler=bfq"
    )]
    NoValue(String),
    /// Not in the catalogue.
    #[error("there is no knob '{name}'{}", hint(name, nearest))]
    UnknownKnob {
        /// The given name.
        name: String,
        /// Names like it.
        nearest: Vec<&'static str>,
    },
    /// A device's knob without its device.
    #[error("{knob} belongs to a device: write sda.{knob}=… or name the device")]
    NoDevice {
        /// The knob.
        knob: &'static str,
    },
    /// A machine's knob with a device, or a root group's elsewhere.
    #[error("{knob} does not belong to '{place}'; {remedy}")]
    WrongPlace {
        /// The knob.
        knob: &'static str,
        /// The given place.
        place: String,
        /// Correct spellings.
        remedy: &'static str,
    },
    /// A device whose limits systemd does not set.
    #[error("{label} can't be set: {why}")]
    OtherDevice {
        /// The knob.
        label: String,
        /// Why, and what to name instead.
        why: String,
    },
    /// The value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The device or group.
    #[error(transparent)]
    Target(#[from] TargetError),
}

fn hint(name: &str, nearest: &[&str]) -> String {
    // A list is split at its commas.
    let of = match name {
        "rbps" | "wbps" | "riops" | "wiops" => Some("io.max"),
        "target" => Some("io.latency"),
        _ => None,
    };
    if let Some(knob) = of {
        return format!(
            "; it is a key of {knob}; in a list of settings the keys of one knob are separated by \
             spaces: flood:io.max=wbps=40MB rbps=50MB"
        );
    }
    match nearest {
        [] => "; floodwall explain lists all".to_owned(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

impl Change {
    /// Parses what a person wrote. `device` is meant where a device's knob names none.
    ///
    /// # Errors
    /// [`ChangeError`]; the message says how to write it.
    pub fn parse(root: &SysRoot, device: Option<&Device>, text: &str) -> Result<Self, ChangeError> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| ChangeError::NoValue(text.to_owned()))?;
        let (knob, place) = split(name.trim())?;
        let target = place_of(root, device, knob, place)?;
        Ok(Self { knob, target, value: check(knob, value, Form::Person)? })
    }

    /// The entry of a plan for it.
    pub(crate) fn entry(&self, files: &dyn Files) -> Entry {
        let cell = Cell::of(self.knob, &self.target, files);
        Entry { knob: self.knob, target: self.target.clone(), cell, old: None, new: None }
    }

    /// The changes that lead to a stored setting, each with its name there. Values are what the
    /// kernel's files read. Of two names of one cell the one in force counts.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn from_setting(
        root: &SysRoot,
        device: Option<&Device>,
        setting: &Setting,
    ) -> Result<Vec<(String, Self)>, ChangeError> {
        let mut changes = Vec::new();
        for (name, value) in &setting.0 {
            if RECORDED_ALONE.contains(&name.as_str()) || is_other_name(setting, name, value) {
                continue;
            }
            let (knob, place) = split(name)?;
            let target = place_of(root, device, knob, place)?;
            let change = Self { knob, target, value: check(knob, value, Form::Kernel)? };
            changes.push((name.clone(), change));
        }
        Ok(changes)
    }

    /// As people write it: `sda.scheduler=bfq`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}={}", self.target.label(self.knob), self.value)
    }
}

/// Whether a name of a stored setting is the one of its cell that does not count: the zero of a
/// pair, or the coarser of two units.
fn is_other_name(setting: &Setting, name: &str, value: &str) -> bool {
    let partner = match name {
        "vm.dirty_bytes" => "vm.dirty_ratio",
        "vm.dirty_ratio" => "vm.dirty_bytes",
        "vm.dirty_background_bytes" => "vm.dirty_background_ratio",
        "vm.dirty_background_ratio" => "vm.dirty_background_bytes",
        "bdi.max_ratio" => return setting.get("bdi.max_ratio_fine").is_some(),
        "bdi.min_ratio" => return setting.get("bdi.min_ratio_fine").is_some(),
        "iosched.slice_idle" => return setting.get("iosched.slice_idle_us").is_some(),
        _ => return false,
    };
    let bytes = name.ends_with("_bytes");
    // Both zero is legal: the ratio is in force then.
    value == "0" && setting.get(partner).is_some_and(|other| bytes || other != "0")
}

/// Splits `system.slice:sda.io.max` into the knob `io.max` and `system.slice:sda`.
fn split(name: &str) -> Result<(&'static Knob, &str), ChangeError> {
    if let Some(knob) = find(name) {
        return Ok((knob, ""));
    }
    let ends = |knob: &&Knob| {
        name.strip_suffix(knob.name)
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with(['.', ':']))
            || name.strip_suffix(knob.name) == Some(":")
    };
    match knobs().filter(ends).max_by_key(|knob| knob.name.len()) {
        Some(knob) => {
            let rest = &name[..name.len() - knob.name.len()];
            Ok((knob, if rest.ends_with(':') { rest } else { rest.trim_end_matches('.') }))
        }
        None => Err(ChangeError::UnknownKnob { name: name.to_owned(), nearest: nearest(name) }),
    }
}

/// The advice if the root group is given.
const NOT_ON_ROOT: &str = "the root group has none: name the group whose processes flood";

/// … and where that would be every process of the machine.
const NOT_OF_ALL: &str = "the root group has every process: name the group of those who wait";

/// Splits `system.slice/a.service:sda` and `unit:a.service:sda` into the group and the device,
/// which may be empty. A unit may go without the last colon.
fn group_and_device(place: &str) -> Option<(&str, &str)> {
    match place.strip_prefix(UNIT) {
        Some(rest) if !rest.contains(':') => Some((place, "")),
        _ => place.rsplit_once(':'),
    }
}

/// The group of a path, or of `unit:NAME`; `None` for the root group.
fn group_of(
    root: &SysRoot,
    group: &str,
    device: Option<Device>,
) -> Result<Option<Target>, TargetError> {
    let target = match group.strip_prefix(UNIT) {
        Some(name) => Target::unit(root, name, device)?,
        None => Target::group(group, device)?,
    };
    Ok(if matches!(&target, Target::Group { path, .. } if path.is_empty()) {
        None
    } else {
        Some(target)
    })
}

/// A group whose limits are set.
fn limited(root: &SysRoot, knob: &Knob, group: Target) -> Result<Target, ChangeError> {
    let group = group.through_systemd(root)?;
    if let Target::Group { device: Some(device), systemd: true, .. } = &group
        && systemd::sets(knob.name, true)
        && let Some(why) = systemd::ask::takes_another(root, device)
    {
        return Err(ChangeError::OtherDevice { label: group.label(knob), why });
    }
    Ok(group)
}

/// Before a unit's name.
const UNIT: &str = "unit:";

fn place_of(
    root: &SysRoot,
    device: Option<&Device>,
    knob: &'static Knob,
    place: &str,
) -> Result<Target, ChangeError> {
    let named = |name: &str| -> Result<Option<Device>, ChangeError> {
        if name.is_empty() { Ok(device.cloned()) } else { Ok(Some(Device::find(root, name)?)) }
    };
    let wrong = |remedy: &'static str| ChangeError::WrongPlace {
        knob: knob.name,
        place: place.to_owned(),
        remedy,
    };
    match knob.scope {
        Scope::Global if place.is_empty() => Ok(Target::Machine),
        Scope::Global => Err(wrong("it is the whole machine's: write it without a device")),
        Scope::Queue | Scope::Elevator(_) | Scope::Bdi | Scope::Scsi | Scope::Journal => {
            named(place)?.map(Target::Device).ok_or(ChangeError::NoDevice { knob: knob.name })
        }
        Scope::Cgroup => {
            let (group, name) = group_and_device(place).ok_or_else(|| {
                wrong(
                    "write GROUP:DEVICE.KNOB=… or unit:NAME:DEVICE.KNOB=…, such as \
                     system.slice:sda.io.max=…",
                )
            })?;
            let device =
                if name.is_empty() && knob.has_default_line() { None } else { named(name)? };
            if device.is_none() && !knob.has_default_line() {
                return Err(ChangeError::NoDevice { knob: knob.name });
            }
            limited(root, knob, group_of(root, group, device)?.ok_or_else(|| wrong(NOT_ON_ROOT))?)
        }
        Scope::CgroupValue => match group_and_device(place) {
            Some((group, "")) => {
                limited(root, knob, group_of(root, group, None)?.ok_or_else(|| wrong(NOT_ON_ROOT))?)
            }
            _ => Err(wrong(
                "write GROUP:KNOB=… or unit:NAME:KNOB=…, such as unit:backup.service:memory.high=…",
            )),
        },
        Scope::Threads if place == VICTIM => Ok(Target::Victims),
        Scope::Threads => match (place.strip_prefix("pid:"), group_and_device(place)) {
            (Some(pid), _) => Ok(Target::Process(Process::find(root, pid)?)),
            (None, Some((group, ""))) => {
                group_of(root, group, None)?.ok_or_else(|| wrong(NOT_OF_ALL))
            }
            _ => Err(wrong(
                "write pid:NUMBER.ioprio=… or unit:NAME:ioprio=…, such as \
                 unit:postgresql.service:ioprio=be/0",
            )),
        },
        Scope::RootCgroup => {
            let name = place.trim_start_matches(':');
            if name.contains(['/', ':']) {
                return Err(wrong("it is the root group's: write DEVICE.KNOB=…"));
            }
            let device = named(name)?.ok_or(ChangeError::NoDevice { knob: knob.name })?;
            Ok(Target::group("", Some(device))?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DISK, machine, root_of};

    fn label(text: &str) -> String {
        let (_dir, root) = root_of(&machine());
        let sda = Device::find(&root, "sda").unwrap();
        match Change::parse(&root, Some(&sda), text) {
            Ok(change) => change.label(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn knobs_are_named_with_their_device_or_group() {
        for (text, expected) in [
            ("vm.dirty_bytes=64MiB", "vm.dirty_bytes=67108864"),
            ("scheduler=bfq", "sda.scheduler=bfq"),
            ("sda.scheduler=bfq", "sda.scheduler=bfq"),
            ("/dev/sda.scheduler=bfq", "sda.scheduler=bfq"),
            ("8:0.iosched.fifo_batch=8", "sda.iosched.fifo_batch=8"),
            ("sda.bdi.max_bytes=64MiB", "sda.bdi.max_bytes=67108864"),
            ("a.slice/b.service:sda.io.max=wbps=5MB", "a.slice/b.service:sda.io.max=wbps=5000000"),
            ("a.slice:io.weight=50", "a.slice:io.weight=50"),
            ("sda.io.cost.qos=enable=1", "sda.io.cost.qos=enable=1"),
            (":sda.io.cost.qos=enable=1", "sda.io.cost.qos=enable=1"),
        ] {
            assert_eq!(label(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_a_remedy() {
        insta::assert_snapshot!(label("vm.dirty_byte=1MB"), @"there is no knob 'vm.dirty_byte'; \
            did you mean vm.dirty_bytes or vm.dirty_background_bytes or vm.dirty_ratio?");
        insta::assert_snapshot!(label("rbps=50MB"), @"there is no knob 'rbps'; it is a key of \
            io.max; in a list of settings the keys of one knob are separated by spaces: \
            flood:io.max=wbps=40MB rbps=50MB");
        assert!(label("target=25ms").contains("it is a key of io.latency"));
        insta::assert_snapshot!(label("64MiB"), @"'64MiB' is not a setting: write KNOB=VALUE, such \
            as vm.dirty_bytes=64MiB or sda.scheduler=bfq");
        insta::assert_snapshot!(label("sdz.scheduler=bfq"), @"no device is called 'sdz' (absent: \
            /sys/class/block/sdz/dev does not exist); lsblk lists them");
        insta::assert_snapshot!(label("sda.vm.dirty_ratio=5"), @"vm.dirty_ratio does not belong to \
            'sda'; it is the whole machine's: write it without a device");
        insta::assert_snapshot!(label("io.max=wbps=5MB"), @"io.max does not belong to ''; write \
            GROUP:DEVICE.KNOB=… or unit:NAME:DEVICE.KNOB=…, such as system.slice:sda.io.max=…");
        insta::assert_snapshot!(label("../a:sda.io.max=wbps=5MB"), @"'../a' is not a control \
            group: give its path below /sys/fs/cgroup, such as system.slice/backup.service");
    }

    #[test]
    fn threads_are_named_by_their_process_or_unit() {
        let mut tree = machine();
        let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
        put("/proc/4711/stat", "4711 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 815 0");
        put("/sys/fs/cgroup/cgroup.procs", "");
        put("/sys/fs/cgroup/cgroup.controllers", "io memory");
        put("/sys/fs/cgroup/system.slice/cgroup.procs", "");
        put("/sys/fs/cgroup/system.slice/pg.service/cgroup.procs", "4711");
        put("/sys/fs/cgroup/system.slice/redis@7.service/cgroup.procs", "");
        put("/sys/fs/cgroup/system.slice/redis@8.service/cgroup.procs", "");
        put("/sys/fs/cgroup/user.slice/cgroup.procs", "");
        put("/sys/fs/cgroup/user.slice/twice.scope/cgroup.procs", "");
        put("/sys/fs/cgroup/system.slice/twice.scope/cgroup.procs", "");
        let (_dir, root) = root_of(&tree);
        let sda = Device::find(&root, "sda").unwrap();
        let label = |text: &str| match Change::parse(&root, Some(&sda), text) {
            Ok(change) => change.label(),
            Err(e) => e.to_string(),
        };
        assert_eq!(label("pid:4711.ioprio=be/0"), "pid:4711.ioprio=be/0");
        for text in ["unit:pg.service:ioprio=rt/7", "unit:pg:ioprio=rt/7", "unit:pg.ioprio=rt/7"] {
            assert_eq!(label(text), "system.slice/pg.service:ioprio=rt/7");
        }
        assert_eq!(
            label("system.slice/pg.service:ioprio=idle"),
            "system.slice/pg.service:ioprio=idle"
        );
        assert_eq!(
            label("unit:pg.service:sda.io.max=wbps=5MB"),
            "system.slice/pg.service:sda.io.max=wbps=5000000"
        );
        // The device that is meant where none is named.
        assert_eq!(
            label("unit:pg.io.max=wbps=5MB"),
            "system.slice/pg.service:sda.io.max=wbps=5000000"
        );
        assert_eq!(
            label("unit:pg:memory.high=1GiB"),
            "system.slice/pg.service:memory.high=1073741824"
        );
        assert_eq!(label("journal.ioprio=be/0"), "sda.journal.ioprio=be/0");
        insta::assert_snapshot!(label("pid:4712.ioprio=be/0"), @"no process has the number 4712; \
            ps lists them");
        insta::assert_snapshot!(label("ioprio=be/0"), @"ioprio does not belong to ''; write \
            pid:NUMBER.ioprio=… or unit:NAME:ioprio=…, such as \
            unit:postgresql.service:ioprio=be/0");
        insta::assert_snapshot!(label(":ioprio=be/0"), @"ioprio does not belong to ':'; the root \
            group has every process: name the group of those who wait");
        insta::assert_snapshot!(label("pid:4711.ioprio=be/8"), @"ioprio: 'be/8' is not an I/O \
            priority; give none, be/0 to be/7 (0 goes first), rt/0 to rt/7 or idle");
        insta::assert_snapshot!(label("unit:mysql:ioprio=be/0"), @"no unit with the control group \
            'mysql.service' runs (a stopped one has none); systemctl status lists units; to limit \
            its next start: systemctl set-property mysql.service IOWriteBandwidthMax='/dev/DISK \
            60M' MemoryHigh=256M");
        insta::assert_snapshot!(label("unit:gone.scope:memory.high=1GiB"), @"no unit with the \
            control group 'gone.scope' runs (a stopped one has none); systemctl status lists \
            units");
        // An empty wrapper of several instances, as Debian's postgresql.service.
        insta::assert_snapshot!(label("unit:redis:ioprio=be/0"), @"no unit with the control group \
            'redis.service' runs (a stopped one has none); these of its name do: redis@7.service, \
            redis@8.service");
        insta::assert_snapshot!(label("unit:twice.scope:ioprio=be/0"), @"several control groups \
            are called 'twice.scope': system.slice/twice.scope, user.slice/twice.scope; give the \
            path of one");
    }

    #[test]
    fn a_unit_of_version_1_is_refused_with_what_to_use_instead() {
        let mut tree = machine();
        for hierarchy in ["memory", "systemd"] {
            for group in ["", "/system.slice", "/system.slice/pg.service"] {
                tree.insert(
                    format!("/sys/fs/cgroup/{hierarchy}{group}/cgroup.procs"),
                    "\n".to_owned(),
                );
            }
        }
        let (_dir, root) = root_of(&tree);
        let refused =
            Change::parse(&root, None, "unit:pg:memory.high=1GiB").unwrap_err().to_string();
        insta::assert_snapshot!(refused, @"the control groups of this machine are of version 1 \
            (/sys/fs/cgroup/cgroup.controllers is missing), and settings of 'pg.service' need \
            version 2: boot with systemd.unified_cgroup_hierarchy=1 (floodwall explain FW034); \
            without it raise the database instead: pid:NUMBER-OF-THE-DATABASE.ioprio=be/0");
    }

    #[test]
    fn a_partition_stands_for_its_disk() {
        assert_eq!(label("sda1.nr_requests=8"), "sda.nr_requests=8");
        let (_dir, root) = root_of(&machine());
        assert_eq!(Device::find(&root, "sda1").unwrap().number, DISK);
        assert_eq!(Device::find(&root, "sda1").unwrap().instance, Some(11));
    }

    #[test]
    fn mounts_without_a_disk_have_limits_alone() {
        let mut tree = machine();
        for name in ["0:45", "btrfs-1"] {
            tree.insert(format!("/sys/class/bdi/{name}/max_ratio"), "100\n".into());
        }
        let (_dir, root) = root_of(&tree);
        let label = |text: &str| Change::parse(&root, None, text).map(|change| change.label());
        assert_eq!(label("0:45.bdi.max_ratio=5"), Ok("0:45.bdi.max_ratio=5".to_owned()));
        assert_eq!(label("btrfs-1.bdi.max_ratio=5"), Ok("btrfs-1.bdi.max_ratio=5".to_owned()));
        assert!(label("btrfs-2.bdi.max_ratio=5").is_err());
        assert!(label("../x-1.bdi.max_ratio=5").is_err());
    }

    #[test]
    fn a_stored_setting_keeps_the_names_in_force_alone() {
        let (_dir, root) = root_of(&machine());
        let sda = Device::find(&root, "sda").unwrap();
        let stored: Setting = [
            ("vm.dirty_bytes", "0"),
            ("vm.dirty_ratio", "20"),
            ("vm.dirty_background_bytes", "5000000"),
            ("vm.dirty_background_ratio", "0"),
            ("bdi.max_ratio", "2"),
            ("bdi.max_ratio_fine", "25000"),
            ("scheduler", "bfq"),
            ("write_cache", "write back"),
        ]
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
        let changes = Change::from_setting(&root, Some(&sda), &stored).unwrap();
        let labels: Vec<String> = changes.iter().map(|(_, change)| change.label()).collect();
        assert_eq!(
            labels,
            [
                "sda.bdi.max_ratio_fine=25000",
                "sda.scheduler=bfq",
                "vm.dirty_background_bytes=5000000",
                "vm.dirty_ratio=20"
            ]
        );
    }
}
