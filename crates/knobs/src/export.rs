//! Settings in other programs' formats: sysctl.d, udev rules, TuneD profiles, systemd-tmpfiles.
//!
//! ```text
//! changes ─▶ in the catalogue's order (an elevator before its tunables) ─▶ one format's lines
//! ```
//!
//! Pure. What a format can't say is refused and never left out: half a setting is another setting.

use crate::catalogue::{Scope, knobs};
use crate::change::Change;
use crate::target::{Device, Target};

/// Begins every exported file; a file that does not begin so is somebody else's.
pub const MARK: &str = "# Written by floodwall export";

/// Whose format.
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
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Sysctl => "sysctl",
            Self::Udev => "udev",
            Self::Tuned => "tuned",
            Self::SystemdTmpfiles => "systemd-tmpfiles",
        }
    }

    /// Where such a file goes, and what reads it there.
    fn place(self) -> &'static str {
        match self {
            Self::Sysctl => "/etc/sysctl.d/99-floodwall.conf, then: sysctl --system",
            Self::Udev => {
                "/etc/udev/rules.d/99-floodwall.rules, then: udevadm control --reload && udevadm trigger --action=change --subsystem-match=block"
            }
            Self::Tuned => {
                "/etc/tuned/profiles/floodwall/tuned.conf (before TuneD 2.24 /etc/tuned/floodwall/tuned.conf), then: tuned-adm profile floodwall"
            }
            Self::SystemdTmpfiles => {
                "/etc/tmpfiles.d/floodwall.conf, then: systemd-tmpfiles --create /etc/tmpfiles.d/floodwall.conf"
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
    pub why: &'static str,
}

/// What the changes are in a format, with a head that says what it is and where it goes.
///
/// # Errors
/// [`ExportError`] for the first change that the format can't say.
pub fn export(changes: &[Change], format: Format) -> Result<String, ExportError> {
    let mut ordered: Vec<&Change> = changes.iter().collect();
    ordered.sort_by_key(|change| knobs().position(|knob| knob.name == change.knob.name));
    for change in &ordered {
        check(change, format)?;
    }
    let machine = || ordered.iter().filter(|change| change.target == Target::Machine);
    let files = || ordered.iter().filter_map(|change| Some((file(change)?, change.value.as_str())));
    let mut lines = vec![format!("{MARK}; for {}", format.place())];
    if ordered.iter().any(|change| change.target.device().is_some()) {
        lines.push(
            "# Disks are named as they are now; the kernel may name them otherwise after a boot.".to_owned(),
        );
    }
    match format {
        Format::Sysctl => lines.extend(machine().map(|c| format!("{} = {}", c.knob.name, c.value))),
        Format::Udev => lines.extend(rules(&ordered)),
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

fn check(change: &Change, format: Format) -> Result<(), ExportError> {
    let why = match (&change.target, format) {
        (Target::Machine, Format::Udev) => "a rule is about a device; use --format sysctl for it",
        (Target::Device(_), Format::Sysctl) => "a sysctl is the machine's; use --format udev for it",
        (Target::Group { .. }, _) => {
            "groups belong to who makes them; set IOReadBandwidthMax=, IOWriteBandwidthMax= or IOWeight= in the unit"
        }
        (Target::Device(device), _) if device.number.starts_with("0:") || !device.number.contains(':') => {
            "it has no disk, and another number after the next mount"
        }
        _ if change.knob.name == "bdi.max_bytes" => {
            "the kernel makes it a share of the limit at that moment; export bdi.max_ratio_fine"
        }
        _ => return Ok(()),
    };
    Err(ExportError { label: change.target.label(change.knob), format: format.name(), why })
}

/// The name in /sys/block, where a slash is an exclamation mark (`cciss!c0d0`).
fn block_name(device: &Device) -> String {
    device.name.replace('/', "!")
}

/// A knob's file below its disk's directory in /sys/block.
fn below_disk(change: &Change) -> Option<String> {
    let directory = match change.knob.scope {
        Scope::Queue => "queue",
        Scope::Elevator(_) => "queue/iosched",
        Scope::Bdi => "bdi",
        Scope::Global | Scope::Cgroup | Scope::RootCgroup => return None,
    };
    Some(format!("{directory}/{}", change.knob.file_name()))
}

/// A knob's file under a name that holds longer than a device number.
fn file(change: &Change) -> Option<String> {
    match &change.target {
        Target::Machine => Some(change.target.path(change.knob)),
        Target::Device(device) => Some(format!("/sys/block/{}/{}", block_name(device), below_disk(change)?)),
        Target::Group { .. } => None,
    }
}

/// One rule for each disk; its assignments are carried out in their order.
fn rules(changes: &[&Change]) -> Vec<String> {
    let mut disks: Vec<(String, String)> = Vec::new();
    for change in changes {
        let (Some(device), Some(file)) = (change.target.device(), below_disk(change)) else { continue };
        let name = block_name(device);
        let assignment = format!(", ATTR{{{file}}}=\"{}\"", change.value);
        match disks.iter_mut().find(|(disk, _)| *disk == name) {
            Some((_, rule)) => rule.push_str(&assignment),
            None => disks.push((name, assignment)),
        }
    }
    let rule = |(name, assignments): (String, String)| {
        format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", KERNEL==\"{name}\"{assignments}"
        )
    };
    disks.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{machine, root_of};

    fn exported(format: Format, texts: &[&str]) -> Result<String, String> {
        let (_dir, root) = root_of(&machine());
        let changes: Vec<Change> =
            texts.iter().map(|text| Change::parse(&root, None, text).unwrap()).collect();
        let text = export(&changes, format).map_err(|e| e.to_string())?;
        assert!(text.starts_with(MARK) && text.ends_with('\n'), "{text}");
        Ok(text.lines().skip(1).filter(|line| !line.starts_with("# Disks")).collect::<Vec<_>>().join("\n"))
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
        assert_eq!(
            exported(Format::Udev, DISK).unwrap(),
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNEL==\"sda\", \
             ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/iosched/fifo_batch}=\"8\", ATTR{bdi/strict_limit}=\"1\""
        );
        let both = [MACHINE, DISK].concat();
        assert_eq!(
            exported(Format::Tuned, &both).unwrap(),
            "[main]\nsummary=Limits of dirty data and of disks' queues\n\
             [sysctl]\nvm.dirty_bytes=67108864\nvm.dirty_background_bytes=16777216\n\
             [sysfs]\n/sys/block/sda/queue/scheduler=mq-deadline\n/sys/block/sda/queue/iosched/fifo_batch=8\n\
             /sys/block/sda/bdi/strict_limit=1"
        );
        assert_eq!(
            exported(Format::SystemdTmpfiles, &both).unwrap(),
            "w /proc/sys/vm/dirty_bytes - - - - 67108864\nw /proc/sys/vm/dirty_background_bytes - - - - 16777216\n\
             w /sys/block/sda/queue/scheduler - - - - mq-deadline\nw /sys/block/sda/queue/iosched/fifo_batch - - - - 8\n\
             w /sys/block/sda/bdi/strict_limit - - - - 1"
        );
    }

    #[test]
    fn what_a_format_can_not_say_is_refused() {
        for (format, text, why) in [
            (Format::Sysctl, "sda.nr_requests=8", "use --format udev"),
            (Format::Udev, "vm.dirty_bytes=64MiB", "use --format sysctl"),
            (Format::Tuned, "a.slice:sda.io.max=wbps=5MB", "in the unit"),
            (Format::Udev, "sda.bdi.max_bytes=64MiB", "export bdi.max_ratio_fine"),
        ] {
            let error = exported(format, &[text]).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
