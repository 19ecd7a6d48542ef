//! Settings in other programs' formats: sysctl.d, udev rules, TuneD profiles, systemd-tmpfiles,
//! drop-ins of systemd's units.
//!
//! ```text
//! changes ─▶ in the catalogue's order (an elevator before its tunables) ─▶ one format's lines
//! ```
//!
//! A udev rule knows a disk by its identity, as those of [`crate::persist`] do. A TuneD profile and
//! tmpfiles.d lines know paths alone: they name disks as they are named now. Reads, and writes
//! nothing. A change that a format can't express is refused, never left out: half a setting is
//! another setting.

use floodwall_host::SysRoot;

use crate::catalogue::systemd::{section, unit_of};
use crate::catalogue::target::{Device, Target};
use crate::catalogue::{Scope, knobs};
use crate::persist::rules::{self, below_disk};
use crate::persist::{Disk, Unit, UnitValue, Value, identify, units};
use crate::plan::change::Change;

/// Begins every exported file. A file with another beginning is not from `export`.
pub const MARK: &str = "# Written by floodwall export";

/// The program that reads the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// sysctl.d(5): the machine's knobs alone.
    Sysctl,
    /// udev(7) rules: a disk's knobs alone.
    Udev,
    /// A TuneD profile: plugins `sysctl` and `sysfs`.
    Tuned,
    /// tmpfiles.d(5), lines of type `w`.
    SystemdTmpfiles,
    /// A drop-in of one unit (systemd.unit(5)).
    SystemdDropIn,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Sysctl => "sysctl",
            Self::Udev => "udev",
            Self::Tuned => "tuned",
            Self::SystemdTmpfiles => "systemd-tmpfiles",
            Self::SystemdDropIn => "systemd-drop-in",
        }
    }

    /// Where such a file goes, and which program reads it there.
    fn place(self) -> &'static str {
        match self {
            Self::SystemdDropIn => {
                "the directory of the unit's drop-ins, as systemctl edit makes it; then: systemctl \
                 daemon-reload"
            }
            Self::Sysctl => "/etc/sysctl.d/99-floodwall.conf, then: sysctl --system",
            Self::Udev => {
                "/etc/udev/rules.d/99-floodwall.rules, then: udevadm control --reload && udevadm \
                 trigger --action=add --subsystem-match=block"
            }
            Self::Tuned => {
                "/etc/tuned/profiles/floodwall/tuned.conf (before TuneD 2.24 \
                 /etc/tuned/floodwall/tuned.conf), then: tuned-adm profile floodwall"
            }
            Self::SystemdTmpfiles => {
                "/etc/tmpfiles.d/floodwall.conf, then: systemd-tmpfiles --create \
                 /etc/tmpfiles.d/floodwall.conf"
            }
        }
    }
}

/// A change that a format can't say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{label} can't be exported as {format}: {why}")]
pub struct ExportError {
    /// The knob.
    pub label: String,
    /// The format.
    pub format: &'static str,
    /// Why not, and what to do instead.
    pub why: String,
}

/// The changes in a format, with a head that names the settings and the file's place.
///
/// # Errors
/// [`ExportError`] for the first change that the format can't say.
pub fn export(root: &SysRoot, changes: &[Change], format: Format) -> Result<String, ExportError> {
    let mut ordered: Vec<&Change> = changes.iter().collect();
    ordered.sort_by_key(|change| knobs().position(|knob| knob.name == change.knob.name));
    for change in &ordered {
        check(root, change, format)?;
    }
    if format == Format::SystemdDropIn {
        return drop_in(root, &ordered);
    }
    let machine = || ordered.iter().filter(|change| change.target == Target::Machine);
    let files = || ordered.iter().filter_map(|change| Some((file(change)?, change.value.as_str())));
    let mut lines = vec![format!("{MARK}; for {}", format.place())];
    if format != Format::Udev && ordered.iter().any(|change| change.target.device().is_some()) {
        lines.push(
            "# Disks are named as they are now; the kernel may name them otherwise after a boot."
                .to_owned(),
        );
    }
    match format {
        Format::Sysctl => lines.extend(machine().map(|c| format!("{} = {}", c.knob.name, c.value))),
        // Has been made above.
        Format::SystemdDropIn => {}
        Format::Udev => {
            return Ok(format!(
                "{}\n{}",
                lines.concat(),
                rules::body(&[], None, &disks(root, &ordered)?)
            ));
        }
        Format::Tuned => {
            lines.extend([
                "[main]".to_owned(),
                "summary=Limits of dirty data and of disks' queues".to_owned(),
            ]);
            if machine().next().is_some() {
                lines.push("[sysctl]".to_owned());
                lines.extend(machine().map(|c| format!("{}={}", c.knob.name, c.value)));
            }
            if files().any(|(path, _)| path.starts_with("/sys/")) {
                lines.push("[sysfs]".to_owned());
                let sysfs = files().filter(|(path, _)| path.starts_with("/sys/"));
                lines.extend(sysfs.map(|(path, value)| format!("{path}={value}")));
            }
        }
        Format::SystemdTmpfiles => {
            lines.extend(files().map(|(path, value)| format!("w {path} - - - - {value}")));
        }
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// One unit's drop-in.
fn drop_in(root: &SysRoot, changes: &[&Change]) -> Result<String, ExportError> {
    let format = Format::SystemdDropIn;
    let mut unit: Option<Unit> = None;
    let mut named_as_now = "";
    for change in changes {
        let Target::Group { path, device, .. } = &change.target else { continue };
        let name = unit_of(path);
        let node = device.as_ref().map(|device| {
            units::link_to(root, device).unwrap_or_else(|| {
                named_as_now =
                    "# Disks are named as they are now; the kernel may name them otherwise after a \
                     boot.\n";
                device.node()
            })
        });
        let unit = unit.get_or_insert_with(|| Unit { name: name.to_owned(), values: Vec::new() });
        if unit.name != name {
            let why = format!("a drop-in is of one unit; export those of {} alone", unit.name);
            return Err(ExportError { label: change.label(), format: format.name(), why });
        }
        unit.put(&UnitValue {
            node,
            value: Value { knob: change.knob, value: change.value.clone() },
        });
    }
    let body = unit.map(|unit| unit.body()).unwrap_or_default();
    Ok(format!("{MARK}; for {}\n{named_as_now}{body}", format.place()))
}

fn check(root: &SysRoot, change: &Change, format: Format) -> Result<(), ExportError> {
    let refused = |why: String| {
        let label = change.target.label(change.knob);
        Err(ExportError { label, format: format.name(), why })
    };
    let why = match (&change.target, format) {
        (Target::Group { .. }, Format::SystemdDropIn) => {
            return units::refusal(root, change).map_or(Ok(()), refused);
        }
        (Target::Machine | Target::Device(_), Format::SystemdDropIn) => {
            "it is not a unit's; use --format sysctl or udev for it"
        }
        (Target::Machine, Format::Udev) => "a rule is about a device; use --format sysctl for it",
        (Target::Device(_), Format::Sysctl) => {
            "a sysctl is the machine's; use --format udev for it"
        }
        (Target::Process(_) | Target::Victims, _) => {
            "a process ends; set IOSchedulingClass= and IOSchedulingPriority= in its unit"
        }
        _ if change.knob.scope == Scope::Journal => "it is no file; mount with journal_ioprio=…",
        (Target::Group { path, .. }, _) if section(unit_of(path)).is_none() => {
            return refused(units::no_unit(path));
        }
        (Target::Group { .. }, _) => "it is a unit's; use --format systemd-drop-in for it",
        (Target::Device(device), _)
            if device.number.starts_with("0:") || !device.number.contains(':') =>
        {
            "it has no disk, and another number after the next mount"
        }
        _ if change.knob.name == "bdi.max_bytes" => {
            "the kernel makes it a share of the limit at that moment; export bdi.max_ratio_fine"
        }
        _ => return Ok(()),
    };
    refused(why.to_owned())
}

/// The name in /sys/block, where a slash is an exclamation mark (`cciss!c0d0`).
fn block_name(device: &Device) -> String {
    device.name.replace('/', "!")
}

/// A knob's file under a name that holds longer than a device number.
fn file(change: &Change) -> Option<String> {
    match &change.target {
        Target::Machine => Some(change.target.path(change.knob)),
        Target::Device(device) => {
            Some(format!("/sys/block/{}/{}", block_name(device), below_disk(change.knob)?))
        }
        Target::Group { .. } | Target::Process(_) | Target::Victims => None,
    }
}

/// The settings by disk.
fn disks(root: &SysRoot, changes: &[&Change]) -> Result<Vec<Disk>, ExportError> {
    let mut disks: Vec<Disk> = Vec::new();
    for change in changes {
        let Some(device) = change.target.device() else { continue };
        let value = Value { knob: change.knob, value: change.value.clone() };
        if let Some(disk) = disks.iter_mut().find(|disk| disk.known_as == device.name) {
            disk.values.push(value);
            continue;
        }
        let (identity, _) = identify(root, device).map_err(|e| ExportError {
            label: change.target.label(change.knob),
            format: Format::Udev.name(),
            why: e.to_string(),
        })?;
        disks.push(Disk { identity, known_as: device.name.clone(), values: vec![value] });
    }
    Ok(disks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{machine, root_of};

    fn exported(format: Format, texts: &[&str]) -> Result<String, String> {
        let mut tree = machine();
        tree.insert("/sys/devices/sda/serial".into(), "S1\n".into());
        let (_dir, root) = root_of(&tree);
        let changes: Vec<Change> =
            texts.iter().map(|text| Change::parse(&root, None, text).unwrap()).collect();
        let text = export(&root, &changes, format).map_err(|e| e.to_string())?;
        assert!(text.starts_with(MARK) && text.ends_with('\n'), "{text}");
        Ok(text
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("# Disks"))
            .collect::<Vec<_>>()
            .join("\n"))
    }

    const MACHINE: &[&str] = &["vm.dirty_bytes=64MiB", "vm.dirty_background_bytes=16MiB"];
    /// The tunable is named before its elevator.
    const DISK: &[&str] =
        &["sda.iosched.fifo_batch=8", "sda.bdi.strict_limit=1", "sda.scheduler=mq-deadline"];

    #[test]
    fn each_format_says_it_its_own_way_with_an_elevator_before_its_tunables() {
        assert_eq!(
            exported(Format::Sysctl, MACHINE).unwrap(),
            "vm.dirty_bytes = 67108864\nvm.dirty_background_bytes = 16777216"
        );
        let rules = exported(Format::Udev, DISK).unwrap();
        let lines: Vec<&str> = rules.lines().filter(|line| line.contains("FLOODWALL")).collect();
        assert_eq!(
            lines,
            [
                "ATTR{serial}==\"S1\", ENV{.FLOODWALL}=\"1\"",
                "ENV{.FLOODWALL}==\"1\", ATTR{queue/scheduler}=\"mq-deadline\"",
                "ENV{.FLOODWALL}==\"1\", ATTR{queue/iosched/fifo_batch}=\"8\"",
                "ENV{.FLOODWALL}==\"1\", ATTR{bdi/strict_limit}=\"1\"",
            ]
        );
        let both = [MACHINE, DISK].concat();
        assert_eq!(
            exported(Format::Tuned, &both).unwrap(),
            "[main]\nsummary=Limits of dirty data and of disks' queues\n\
             [sysctl]\nvm.dirty_bytes=67108864\nvm.dirty_background_bytes=16777216\n\
             [sysfs]\n/sys/block/sda/queue/scheduler=mq-deadline\n\
             /sys/block/sda/queue/iosched/fifo_batch=8\n\
             /sys/block/sda/bdi/strict_limit=1"
        );
        assert_eq!(
            exported(Format::SystemdTmpfiles, &both).unwrap(),
            "w /proc/sys/vm/dirty_bytes - - - - 67108864\n\
             w /proc/sys/vm/dirty_background_bytes - - - - 16777216\n\
             w /sys/block/sda/queue/scheduler - - - - mq-deadline\n\
             w /sys/block/sda/queue/iosched/fifo_batch - - - - 8\n\
             w /sys/block/sda/bdi/strict_limit - - - - 1"
        );
    }

    #[test]
    fn a_drop_in_is_of_one_unit() {
        let all =
            ["a.slice:sda.io.max=wbps=5MB", "a.slice:io.weight=50", "a.slice:memory.high=1GiB"];
        // The catalogue's order.
        assert_eq!(
            exported(Format::SystemdDropIn, &all).unwrap(),
            "[Slice]\nMemoryHigh=1073741824\nIOWriteBandwidthMax=/dev/sda 5000000\nIOWeight=50"
        );
        // No unit of this path runs.
        assert_eq!(
            exported(Format::SystemdDropIn, &["system.slice/backup.service:memory.high=1GiB"])
                .unwrap(),
            "[Service]\nMemoryHigh=1073741824"
        );
        for (text, why) in [
            ("b.slice:memory.high=1GiB", "a drop-in is of one unit; export those of b.slice alone"),
            ("vm.dirty_bytes=64MiB", "it is not a unit's"),
            ("a.slice:sda.io.bfq.weight=50", "systemd has no setting for it"),
        ] {
            let error = exported(Format::SystemdDropIn, &[all[1], text]).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_rule_for_a_disk_without_an_identity_is_refused() {
        let (_dir, root) = root_of(&machine());
        let change = Change::parse(&root, None, "sda.nr_requests=8").unwrap();
        let error = export(&root, &[change], Format::Udev).unwrap_err().to_string();
        assert!(
            error.starts_with("sda.nr_requests can't be exported as udev: sda has no serial"),
            "{error}"
        );
    }

    #[test]
    fn what_a_format_can_not_say_is_refused() {
        for (format, text, why) in [
            (Format::Sysctl, "sda.nr_requests=8", "use --format udev"),
            (Format::Udev, "vm.dirty_bytes=64MiB", "use --format sysctl"),
            (Format::Tuned, "a.slice:sda.io.max=wbps=5MB", "use --format systemd-drop-in"),
            (Format::Udev, "sda.bdi.max_bytes=64MiB", "export bdi.max_ratio_fine"),
        ] {
            let error = exported(format, &[text]).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        // No format has a group that is no unit.
        for format in [
            Format::Sysctl,
            Format::Udev,
            Format::Tuned,
            Format::SystemdTmpfiles,
            Format::SystemdDropIn,
        ] {
            let error = exported(format, &["a.slice/b:memory.high=1GiB"]).unwrap_err();
            let why = "a.slice/b is no unit of systemd's, and no format keeps its settings; run \
                       its processes as a unit, or write the value where the group is made";
            assert!(error.ends_with(why), "{error}");
        }
    }
}
