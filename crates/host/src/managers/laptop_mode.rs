//! laptop-mode-tools: the dirty limits, the flusher's times, and read-ahead.
//!
//! /etc/laptop-mode/laptop-mode.conf has a set of values for laptop mode and one for without; both
//! are written, each when the machine goes into its mode
//! (usr/share/laptop-mode-tools/modules/laptop-mode). Whether laptop mode is on follows from the
//! power supply.

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Place, Standing};

use super::shell::{Variable, Variables};
use super::{Found, Source, Wanted, glob, service};

pub(super) const FILE: &str = "/etc/laptop-mode/laptop-mode.conf";
const PROGRAMS: [&str; 2] = ["/usr/sbin/laptop_mode", "/sbin/laptop_mode"];
const UNITS: [&str; 2] = ["laptop-mode.service", "laptop-mode-tools.service"];

/// The variables that are read.
pub(super) const VARIABLES: [&str; 16] = [
    "ENABLE_LAPTOP_MODE_TOOLS",
    "ENABLE_LAPTOP_MODE_ON_BATTERY",
    "ENABLE_LAPTOP_MODE_ON_AC",
    "LM_BATT_MAX_LOST_WORK_SECONDS",
    "LM_AC_MAX_LOST_WORK_SECONDS",
    "LM_DIRTY_RATIO",
    "LM_DIRTY_BACKGROUND_RATIO",
    "LM_READAHEAD",
    "NOLM_READAHEAD",
    "NOLM_DIRTY_RATIO",
    "NOLM_DIRTY_BACKGROUND_RATIO",
    "DEF_UPDATE",
    "DEF_MAX_AGE",
    "CONTROL_READAHEAD",
    "CONTROL_MOUNT_OPTIONS",
    "HD",
];

/// A variable, the knobs that it sets, and by how much its number is multiplied.
type Row = (&'static str, &'static [&'static str], u64);

/// Variables that count in laptop mode, on battery …
const BATTERY: [Row; 3] = [
    ("LM_BATT_MAX_LOST_WORK_SECONDS", &["vm.dirty_writeback_centisecs", "vm.dirty_expire_centisecs"], 100),
    ("LM_DIRTY_RATIO", &["vm.dirty_ratio"], 1),
    ("LM_DIRTY_BACKGROUND_RATIO", &["vm.dirty_background_ratio"], 1),
];
/// … on mains …
const MAINS: [Row; 3] = [
    ("LM_AC_MAX_LOST_WORK_SECONDS", &["vm.dirty_writeback_centisecs", "vm.dirty_expire_centisecs"], 100),
    ("LM_DIRTY_RATIO", &["vm.dirty_ratio"], 1),
    ("LM_DIRTY_BACKGROUND_RATIO", &["vm.dirty_background_ratio"], 1),
];
/// … and without it.
const WITHOUT: [Row; 4] = [
    ("DEF_UPDATE", &["vm.dirty_writeback_centisecs"], 100),
    ("DEF_MAX_AGE", &["vm.dirty_expire_centisecs"], 100),
    ("NOLM_DIRTY_RATIO", &["vm.dirty_ratio"], 1),
    ("NOLM_DIRTY_BACKGROUND_RATIO", &["vm.dirty_background_ratio"], 1),
];

/// Collects what laptop-mode-tools sets.
pub(super) fn read(found: &mut Found<'_>) {
    let Some(text) = found.text(FILE) else { return };
    let mut variables = Variables::default();
    variables.add(FILE, &text);
    let at_boot = UNITS.iter().map(|unit| service::at_boot(found.root, unit)).reduce(|a, b| match (&a, &b) {
        (Reading::Value(false), Reading::Value(true)) => b,
        _ => a,
    });
    let at_boot = at_boot.unwrap_or(Reading::Value(false));
    let installed = PROGRAMS.iter().any(|path| found.root.exists(path));
    let not_applied = |why: &str| Standing::NotApplied { why: why.to_owned() };
    let standing = match &at_boot {
        _ if !installed => not_applied("laptop-mode-tools is configured, but not installed"),
        _ if variables.value("ENABLE_LAPTOP_MODE_TOOLS", "1") == "0" => {
            not_applied("ENABLE_LAPTOP_MODE_TOOLS is 0")
        }
        Reading::Value(false) => not_applied("laptop-mode.service is not started at boot"),
        Reading::Value(true) => Standing::Wins,
        Reading::Absent(why) | Reading::Unreadable(why) => Standing::Uncertain { why: why.clone() },
    };
    found.present(Manager {
        kind: Kind::LaptopMode,
        name: "laptop-mode-tools".to_owned(),
        running: Reading::Absent("it runs at boot and when mains power comes or goes".to_owned()),
        at_boot,
    });
    modes(found, &variables, &standing);
}

/// The values of each mode that the machine can be in.
fn modes(found: &mut Found<'_>, variables: &Variables, standing: &Standing) {
    let is_on = |name: &str, default: &str| variables.value(name, default) != "0";
    let on_battery = service::on_mains(found.root).value() == Some(&false);
    let (battery, mains) =
        (is_on("ENABLE_LAPTOP_MODE_ON_BATTERY", "1"), is_on("ENABLE_LAPTOP_MODE_ON_AC", "0"));
    let now = if on_battery { battery } else { mains };
    let on_mains = "when the machine goes on mains";
    let sets = [
        Mode {
            rows: &BATTERY,
            read_ahead: "LM_READAHEAD",
            can_be: battery,
            is: now && on_battery,
            when: "when the machine goes on battery",
        },
        Mode {
            rows: &MAINS,
            read_ahead: "LM_READAHEAD",
            can_be: mains,
            is: now && !on_battery,
            when: on_mains,
        },
        Mode {
            rows: &WITHOUT,
            read_ahead: "NOLM_READAHEAD",
            can_be: !battery || !mains,
            is: !now,
            when: "when laptop mode ends",
        },
    ];
    // The mode of now has the last word, so it comes last.
    let mut sets: Vec<Mode> = sets.into_iter().filter(|mode| mode.can_be).collect();
    sets.sort_by_key(|mode| mode.is);
    for mode in sets {
        let standing = match standing {
            Standing::Wins if !mode.is => {
                Standing::Uncertain { why: "it counts in another mode than this moment's".to_owned() }
            }
            other => other.clone(),
        };
        for (name, knobs, factor) in mode.rows {
            let Some(variable) = variables.get(name) else { continue };
            for knob in *knobs {
                let value = variable.value.parse::<u64>().ok();
                let value = value.map(|n| n.saturating_mul(*factor).to_string());
                let wanted = Wanted { knob, value, written: &variable.value };
                let source = source(variable, name, mode.when);
                found.claim(&source, Place::Machine, wanted, standing.clone());
            }
        }
        read_ahead(found, variables, &mode, &standing);
    }
}

/// A mode that the machine can be in.
struct Mode {
    /// The values written when it enters the mode.
    rows: &'static [Row],
    /// The variable of its read-ahead.
    read_ahead: &'static str,
    /// Whether the configuration lets it come to that.
    can_be: bool,
    /// Whether it is in it now.
    is: bool,
    when: &'static str,
}

/// Read-ahead of the rotating disks that it controls, in KiB.
fn read_ahead(found: &mut Found<'_>, variables: &Variables, mode: &Mode, standing: &Standing) {
    let Some(variable) = variables.get(mode.read_ahead) else { return };
    if ["CONTROL_READAHEAD", "CONTROL_MOUNT_OPTIONS"].iter().any(|name| variables.value(name, "1") == "0") {
        return;
    }
    let patterns = variables.value("HD", "/dev/[hs]d[abcdefgh]");
    let is_controlled = |disk: &&super::Disk| {
        let node = format!("/dev/{}", disk.name);
        let rotational = format!("/sys/class/block/{}/queue/rotational", disk.name);
        patterns.split_whitespace().any(|pattern| glob::matches(pattern, &node))
            && found.root.read_line(&rotational).value().is_some_and(|text| text == "1")
    };
    let places: Vec<Place> = found.disks.iter().filter(is_controlled).map(super::Disk::place).collect();
    for place in places {
        let value = variable.value.parse::<u64>().ok().map(|n| n.to_string());
        let wanted = Wanted { knob: "read_ahead_kb", value, written: &variable.value };
        found.claim(&source(variable, mode.read_ahead, mode.when), place, wanted, standing.clone());
    }
}

fn source<'a>(variable: &'a Variable, name: &str, when: &'a str) -> Source<'a> {
    Source {
        by: Kind::LaptopMode,
        who: "laptop-mode-tools",
        file: &variable.file,
        line: Some(variable.line),
        when,
        settle: format!("set {name} in {FILE}, or systemctl disable --now {}", UNITS[0]),
    }
}
