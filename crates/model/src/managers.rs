//! Other managers of the same knobs: their claims, where each is written, and which one wins. Plain
//! data.
//!
//! ```text
//! host (configuration files) → Managers { claims, unread } → apply, diff, persist, findings
//! ```
//!
//! A *claim* is one line of one file that sets one knob of the machine or of one device. Knobs are
//! named as in a [`Setting`](crate::Setting) (`vm.dirty_ratio`, `scheduler`, `iosched.fifo_batch`,
//! `bdi.max_bytes`); values are in the unit of the knob's kernel file.

use std::fmt;

use serde::Serialize;

use crate::status::Missing;
use crate::units::DeviceId;

/// The findings about other managers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Managers {
    /// Every line that sets, or may set, a knob of this machine. They are ordered by [`Kind`]; of
    /// one manager they have the order in which it applies them.
    pub claims: Vec<Claim>,
    /// Files and directories that may set knobs and could not be read or understood.
    pub unread: Vec<Missing>,
}

/// Kinds of managers, in the order in which they have their say at boot: of two that set one knob,
/// the later one's value stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// udev rules.
    Udev,
    /// sysctl.d files and /etc/sysctl.conf.
    Sysctl,
    /// tmpfiles.d files.
    Tmpfiles,
    /// laptop-mode-tools.
    LaptopMode,
    /// TLP.
    Tlp,
    /// TuneD.
    Tuned,
}

/// One line that sets, or may set, one knob in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Which kind of manager reads the line.
    pub by: Kind,
    /// The owner, for people: `TuneD's profile throughput-performance`, `a udev rule`, `sysctl`.
    pub who: String,
    /// The file, absolute.
    pub file: String,
    /// The line in it, from 1.
    pub line: u32,
    /// The knob.
    pub knob: String,
    /// The machine or device that the knob belongs to.
    pub place: Place,
    /// The claimed value, as the kernel's file takes it; `None` where the line does not tell it.
    pub value: Option<String>,
    /// The value as the file has it (`40%`, `$min_ratio`).
    pub written: String,
    /// When the manager sets it, as the rest of a sentence: `at boot and by sysctl --system`.
    pub when: String,
    /// Whether it has the last word.
    pub standing: Standing,
    /// What to do about it: a sentence or a command, for people.
    pub settle: String,
}

/// The machine or device of a claim's knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The machine's.
    Machine,
    /// A whole disk's that is here.
    Device {
        /// Its name (`sda`).
        name: String,
        /// Its number.
        id: DeviceId,
    },
}

/// How a claim fares among the others about the same knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Of those that are known to be applied, it is the last.
    Wins,
    /// Another one is applied after it.
    Overridden {
        /// Which: its file and line.
        by: String,
    },
    /// The file alone does not tell whether it is applied.
    Uncertain {
        /// Why not.
        why: String,
    },
}

/// The two names of each dirty limit: writing one zeroes the other (mm/page-writeback.c), and the
/// two names of a backing device's share.
const CELLS: [(&str, &str); 6] = [
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ("bdi.max_ratio", "bdi.max_bytes"),
    ("bdi.max_ratio_fine", "bdi.max_bytes"),
    ("bdi.min_ratio_fine", "bdi.min_ratio"),
    ("bdi.min_bytes", "bdi.min_ratio"),
];

/// One name for all names of what the kernel keeps once: `vm.dirty_bytes` for `vm.dirty_ratio` too.
#[must_use]
pub fn cell(knob: &str) -> &str {
    CELLS.iter().find(|(name, _)| *name == knob).map_or(knob, |(_, cell)| cell)
}

impl Managers {
    /// Claims about what a knob sets, by any of its names, on the machine or on a device, the
    /// strongest last. `device` is a whole disk's number.
    pub fn about<'a>(
        &'a self,
        knob: &'a str,
        device: Option<DeviceId>,
    ) -> impl Iterator<Item = &'a Claim> {
        self.claims
            .iter()
            .filter(move |claim| cell(&claim.knob) == cell(knob) && claim.place.is(device))
    }
}

impl Place {
    /// The device; `None` for the machine.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        match self {
            Self::Machine => None,
            Self::Device { id, .. } => Some(*id),
        }
    }

    /// Whether it is the machine (no device) or this device.
    #[must_use]
    pub fn is(&self, device: Option<DeviceId>) -> bool {
        self.device() == device
    }
}

impl Claim {
    /// Whether the line is certain to be applied: `sets`, or `may set`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        if matches!(self.standing, Standing::Uncertain { .. }) { "may set" } else { "sets" }
    }

    /// Where it is written: `/etc/sysctl.d/10-x.conf:3`.
    #[must_use]
    pub fn source(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// The knob with its place, as people write it: `sda.scheduler`, `vm.dirty_ratio`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.place {
            Place::Machine => self.knob.clone(),
            Place::Device { name, .. } => format!("{name}.{}", self.knob),
        }
    }
}

/// `TuneD's profile x (/usr/lib/tuned/x/tuned.conf:24) sets vm.dirty_ratio=40 when it starts`.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) {} {}", self.who, self.source(), self.verb(), self.label())?;
        match &self.value {
            Some(value) => write!(f, "={value}")?,
            None => write!(f, " ({})", self.written)?,
        }
        write!(f, " {}", self.when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(knob: &str, place: Place, standing: Standing) -> Claim {
        Claim {
            by: Kind::Sysctl,
            who: "sysctl".into(),
            file: "/etc/sysctl.d/9.conf".into(),
            line: 3,
            knob: knob.into(),
            place,
            value: Some("40".into()),
            written: "40".into(),
            when: "at boot".into(),
            standing,
            settle: "edit it".into(),
        }
    }

    fn sda() -> Place {
        Place::Device { name: "sda".into(), id: DeviceId { major: 8, minor: 0 } }
    }

    #[test]
    fn claims_are_found_by_any_name_of_a_cell() {
        let claims = vec![
            claim("vm.dirty_ratio", Place::Machine, Standing::Wins),
            claim("scheduler", sda(), Standing::Wins),
        ];
        let managers = Managers { claims, ..Managers::default() };
        let labels =
            |knob, device| managers.about(knob, device).map(Claim::label).collect::<Vec<_>>();
        assert_eq!(labels("vm.dirty_bytes", None), ["vm.dirty_ratio"]);
        assert_eq!(labels("scheduler", sda().device()), ["sda.scheduler"]);
        assert!(labels("scheduler", None).is_empty());
        assert!(labels("vm.dirty_background_bytes", None).is_empty());
    }

    #[test]
    fn a_claim_reads_as_a_sentence() {
        let mut claim = claim("scheduler", sda(), Standing::Wins);
        assert_eq!(
            claim.to_string(),
            "sysctl (/etc/sysctl.d/9.conf:3) sets sda.scheduler=40 at boot"
        );
        claim.value = None;
        claim.written = "a program decides".into();
        claim.standing = Standing::Uncertain { why: "a condition".into() };
        assert_eq!(
            claim.to_string(),
            "sysctl (/etc/sysctl.d/9.conf:3) may set sda.scheduler (a program decides) at boot"
        );
    }
}
