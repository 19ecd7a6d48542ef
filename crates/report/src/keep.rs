//! How a recommendation can be kept whose knobs are named after the benchmark's own victims and
//! floods.
//!
//! ```text
//! flood:KNOB, victim:KNOB   a control group of the benchmark's   ─▶ unit:FLOOD.service:KNOB
//! victim.ioprio             its victims' threads                 ─▶ unit:VICTIM.service:ioprio
//! ```
//!
//! Only the user knows which units these are, so the commands have placeholders. The commands check
//! limits against what the unit uses, and name a disk by its identity; a text that is copied into a
//! drop-in would not.

use floodwall_model::Setting;
use floodwall_model::printable::shell_word as quoted;
use floodwall_model::setting::{self, JOURNAL_PRIORITY, VICTIMS_PRIORITY};
use serde::{Deserialize, Serialize};

use crate::words::person;

/// Stands for the unit that floods.
const FLOOD: &str = "FLOOD.service";
/// Stands for the unit that waits.
const VICTIM: &str = "VICTIM.service";
/// Stands for a device that is not known.
pub(crate) const DISK: &str = "DISK";
/// `floodwall persist` refuses it: systemd has no property for it.
const WEIGHT: &str = "io.bfq.weight";
/// `floodwall persist` refuses this one as well if no hard limit in bytes gives the share a base.
const SHARE: &str = "bdi.max_bytes";

/// What to do with a recommendation that is in part about units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The command that puts all of it in force, with placeholders for units.
    pub apply: String,
    /// The command that keeps it across boots, with the same placeholders; empty if no knob of it
    /// can be kept.
    #[serde(default)]
    pub persist: String,
    /// Knobs that `apply` sets and no file can keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_persisted: Vec<String>,
}

impl Keep {
    /// For a setting on a device, by the kernel's name. `None` if no knob belongs to victims or
    /// floods.
    #[must_use]
    pub fn of(setting: &Setting, device: Option<&str>) -> Option<Self> {
        if !setting.0.keys().any(|name| of_unit(name).is_some()) {
            return None;
        }
        let device = device.unwrap_or(DISK);
        let (kept, left): (Vec<_>, Vec<_>) =
            setting.0.clone().into_iter().partition(|(name, _)| can_be_kept(name, setting));
        let kept: Setting = kept.into_iter().collect();
        Some(Self {
            apply: command("apply", setting, Some(device), " "),
            persist: if kept.is_empty() {
                String::new()
            } else {
                command("persist", &kept, Some(device), " ")
            },
            not_persisted: left.into_iter().map(|(name, _)| of_floodwall(&name)).collect(),
        })
    }

    /// In words, a paragraph or a line of code each; lines of code are indented.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let whose = [
            (FLOOD, "the unit that floods (backup.service)"),
            (
                VICTIM,
                "the unit that waits (postgresql.service; Debian: postgresql@15-main.service)",
            ),
            (DISK, "the device's name"),
        ];
        let placeholders: Vec<String> = whose
            .into_iter()
            .filter(|(name, _)| self.apply.contains(name))
            .map(|(name, what)| format!("{name} by {what}"))
            .collect();
        let mut lines = vec![
            format!(
                "Part of it is about units that the search does not know. Replace {}:",
                placeholders.join(", ")
            ),
            format!("  {}", self.apply),
        ];
        if !self.persist.is_empty() {
            lines.push("It is kept across boots by:".to_owned());
            lines.push(format!("  {}", self.persist));
        }
        if !self.not_persisted.is_empty() {
            let names = self.not_persisted.join(", ");
            lines.push(format!(
                "Not kept across boots: {names}. floodwall persist says what to do instead."
            ));
        }
        lines
    }
}

/// Whether `floodwall persist` has a file for a knob of a setting.
fn can_be_kept(name: &str, setting: &Setting) -> bool {
    let moves = setting.0.keys().any(|knob| knob.ends_with(SHARE))
        && setting.get("vm.dirty_bytes").is_none();
    // A strict limit without its size would be another setting.
    let of_moving_share = name.contains("bdi.") && moves;
    // A mount option keeps the journal's priority, not a file of floodwall's.
    !(name.ends_with(WEIGHT) || name.ends_with(JOURNAL_PRIORITY) || of_moving_share)
}

/// The unit and its knob that a knob of a benchmark stands for; `None` for any other knob.
fn of_unit(name: &str) -> Option<(&'static str, &str)> {
    if name == VICTIMS_PRIORITY {
        return Some((VICTIM, "ioprio"));
    }
    let (group, knob) = name.split_once(':')?;
    match group {
        setting::FLOOD => Some((FLOOD, knob)),
        setting::VICTIM => Some((VICTIM, knob)),
        _ => None,
    }
}

/// A knob's name as `floodwall apply` takes it.
fn of_floodwall(name: &str) -> String {
    of_unit(name).map_or_else(|| name.to_owned(), |(unit, knob)| format!("unit:{unit}:{knob}"))
}

/// The command line of a command that takes a setting (`apply`, `persist`), `between` before each
/// knob.
pub(crate) fn command(
    name: &str,
    setting: &Setting,
    device: Option<&str>,
    between: &str,
) -> String {
    let device = device.map_or_else(String::new, |name| format!(" --device {}", quoted(name)));
    let knob = |(name, value): (&String, &String)| {
        format!("{between}{}", quoted(&person(&of_floodwall(name), value)))
    };
    let knobs: Vec<String> = setting.0.iter().map(knob).collect();
    format!("floodwall {name}{device}{}", knobs.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(knobs: &[(&str, &str)], device: Option<&str>) -> String {
        let setting: Setting =
            knobs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Keep::of(&setting, device)
            .map_or_else(|| "nothing".to_owned(), |keep| keep.lines().join("\n"))
    }

    #[test]
    fn a_paced_flood_is_a_unit_with_two_limits() {
        let paced = [("flood:io.max", "wbps=180000000"), ("flood:memory.high", "134217728")];
        insta::assert_snapshot!(kept(&paced, Some("sda")), @"
Part of it is about units that the search does not know. Replace FLOOD.service by the unit that \
floods (backup.service):
  floodwall apply --device sda unit:FLOOD.service:io.max=wbps=180000000B \
unit:FLOOD.service:memory.high=134217728B
It is kept across boots by:
  floodwall persist --device sda unit:FLOOD.service:io.max=wbps=180000000B \
unit:FLOOD.service:memory.high=134217728B
        ");
        // As it reads back, and of a named disk.
        let read_back = [("flood:sdb.io.max", "rbps=max wbps=180000000 riops=max wiops=max")];
        insta::assert_snapshot!(kept(&read_back, Some("sda")), @"
Part of it is about units that the search does not know. Replace FLOOD.service by the unit that \
floods (backup.service):
  floodwall apply --device sda 'unit:FLOOD.service:sdb.io.max=rbps=max wbps=180000000B riops=max \
wiops=max'
It is kept across boots by:
  floodwall persist --device sda 'unit:FLOOD.service:sdb.io.max=rbps=max wbps=180000000B riops=max \
wiops=max'
        ");
    }

    #[test]
    fn knobs_that_no_file_keeps_are_named() {
        let raised = [("victim.ioprio", "be/0"), ("journal.ioprio", "be/0"), ("scheduler", "bfq")];
        insta::assert_snapshot!(kept(&raised, Some("sda")), @"
Part of it is about units that the search does not know. Replace VICTIM.service by the unit that \
waits (postgresql.service; Debian: postgresql@15-main.service):
  floodwall apply --device sda journal.ioprio=be/0 scheduler=bfq unit:VICTIM.service:ioprio=be/0
It is kept across boots by:
  floodwall persist --device sda scheduler=bfq unit:VICTIM.service:ioprio=be/0
Not kept across boots: journal.ioprio. floodwall persist says what to do instead.
        ");
        let weight = kept(&[("flood:io.bfq.weight", "10")], Some("sda"));
        assert!(!weight.contains("floodwall persist --"), "{weight}");
        // A size of a strict limit is a share of the hard one, which must be in bytes.
        let strict =
            [("bdi.max_bytes", "8388608"), ("bdi.strict_limit", "1"), ("victim.ioprio", "be/0")];
        let left = |knobs: &[(&str, &str)]| {
            let setting: Setting =
                knobs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Keep::of(&setting, None).unwrap().not_persisted
        };
        assert_eq!(left(&strict), ["bdi.max_bytes", "bdi.strict_limit"]);
        assert!(left(&[strict.as_slice(), &[("vm.dirty_bytes", "16777216")]].concat()).is_empty());
    }

    #[test]
    fn what_belongs_to_the_machine_needs_no_unit() {
        assert_eq!(kept(&[("scheduler", "bfq"), ("sda.nr_requests", "8")], Some("sda")), "nothing");
        let nowhere = kept(&[("flood:io.max", "wbps=8000000")], None);
        assert!(nowhere.contains(", DISK by the device's name:"), "{nowhere}");
        assert_eq!(nowhere.matches(" --device DISK ").count(), 2, "{nowhere}");
        assert_eq!(kept(&[("unit:x.service:memory.high", "8388608")], None), "nothing");
    }
}
