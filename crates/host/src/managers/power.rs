//! TLP and laptop-mode-tools: shell variables that set the flusher's times, the dirty limits,
//! disks' elevators and read-ahead.
//!
//! Which of them are applied, to which disks and with which value depends on the power supply and
//! on many other variables. None of that is worked out: the last assignment of each *may* set its
//! knobs (tlp func.d/15-tlp-func-disk, laptop-mode-tools modules/laptop-mode).

use std::collections::BTreeMap;

use floodwall_model::managers::{Claim, Kind, Place, Standing};

use super::found::{Disk, Found};
use super::{drop_ins, service};

const TIMES: &[&str] = &["vm.dirty_writeback_centisecs", "vm.dirty_expire_centisecs"];

/// A program that sets knobs by the power supply.
struct Tool {
    kind: Kind,
    who: &'static str,
    /// Files and directories that are read before the main file: a later assignment replaces an
    /// earlier one.
    before: &'static [&'static str],
    drop_ins: &'static [&'static str],
    main: &'static str,
    programs: &'static [&'static str],
    /// Started at boot under one of these names.
    units: &'static [&'static str],
    when: &'static str,
    /// Variables, the knobs that each sets, and the value with which it sets nothing.
    variables: &'static [(&'static str, &'static [&'static str], &'static str)],
}

const TOOLS: [Tool; 2] = [
    Tool {
        kind: Kind::LaptopMode,
        who: "laptop-mode-tools",
        before: &[],
        drop_ins: &[],
        main: "/etc/laptop-mode/laptop-mode.conf",
        programs: &["/usr/sbin/laptop_mode", "/sbin/laptop_mode"],
        units: &["laptop-mode.service", "laptop-mode-tools.service"],
        when: "when the machine goes on battery or on mains",
        variables: &[
            ("LM_BATT_MAX_LOST_WORK_SECONDS", TIMES, ""),
            ("LM_AC_MAX_LOST_WORK_SECONDS", TIMES, ""),
            ("LM_DIRTY_RATIO", &["vm.dirty_ratio"], ""),
            ("LM_DIRTY_BACKGROUND_RATIO", &["vm.dirty_background_ratio"], ""),
            ("LM_READAHEAD", &["read_ahead_kb"], ""),
            ("DEF_UPDATE", &["vm.dirty_writeback_centisecs"], ""),
            ("DEF_MAX_AGE", &["vm.dirty_expire_centisecs"], ""),
            ("NOLM_DIRTY_RATIO", &["vm.dirty_ratio"], ""),
            ("NOLM_DIRTY_BACKGROUND_RATIO", &["vm.dirty_background_ratio"], ""),
            ("NOLM_READAHEAD", &["read_ahead_kb"], ""),
        ],
    },
    Tool {
        kind: Kind::Tlp,
        who: "TLP",
        // The first is from before TLP 1.3.
        before: &["/etc/default/tlp", "/usr/share/tlp/defaults.conf"],
        drop_ins: &["/etc/tlp.d"],
        main: "/etc/tlp.conf",
        programs: &["/usr/bin/tlp", "/usr/sbin/tlp"],
        units: &["tlp.service"],
        when: "at boot and when mains power comes or goes",
        variables: &[
            ("MAX_LOST_WORK_SECS_ON_BAT", TIMES, "0"),
            ("MAX_LOST_WORK_SECS_ON_AC", TIMES, "0"),
            ("DISK_IOSCHED", &["scheduler"], "keep keep"),
        ],
    },
];

/// Collects what they may set.
pub(super) fn read(found: &mut Found<'_>) {
    TOOLS.iter().for_each(|tool| tool.read(found));
}

/// Whether a file is one of theirs.
pub(super) fn is_file(path: &str) -> bool {
    let is_below = |directory: &&str| path.starts_with(*directory);
    let is_of = |tool: &Tool| {
        path == tool.main || tool.before.contains(&path) || tool.drop_ins.iter().any(is_below)
    };
    TOOLS.iter().any(is_of)
}

/// An assignment to a variable that is read, without the comment after it.
pub(super) fn kept(line: &str) -> Option<String> {
    let (name, value) = assignment(line)?;
    let is_read = |tool: &Tool| tool.variables.iter().any(|(other, ..)| *other == name);
    TOOLS.iter().any(is_read).then(|| format!("{name}=\"{value}\""))
}

impl Tool {
    fn read(&self, found: &mut Found<'_>) {
        let installed = self.programs.iter().any(|path| found.root.exists(path));
        let is_off = |unit: &&str| service::is_started(found.root, unit) == Some(false);
        if !installed || self.units.iter().all(is_off) {
            return;
        }
        let before = self.before.iter().map(|file| (*file).to_owned());
        let files = before.chain(drop_ins::list(found, self.drop_ins, ".conf"));
        // By name: the value, and where it is.
        let mut assigned: BTreeMap<String, (String, String, u32)> = BTreeMap::new();
        for file in files.chain([self.main.to_owned()]) {
            let text = found.text(&file).unwrap_or_default();
            for (line, text) in (1..).zip(text.lines()) {
                let Some((name, value)) = assignment(text) else { continue };
                assigned.insert(name.to_owned(), (value.to_owned(), file.clone(), line));
            }
        }
        let machine = vec![Place::Machine];
        let disks: Vec<Place> = found.disks.iter().map(Disk::place).collect();
        for (name, knobs, off) in self.variables {
            let Some((value, file, line)) = assigned.get(*name) else { continue };
            if value.split_whitespace().all(|word| off.contains(word)) {
                continue;
            }
            for knob in *knobs {
                for place in if knob.starts_with("vm.") { &machine } else { &disks } {
                    found.claim(Claim {
                        by: self.kind,
                        who: self.who.to_owned(),
                        file: file.clone(),
                        line: *line,
                        knob: (*knob).to_owned(),
                        place: place.clone(),
                        value: None,
                        written: format!("{name}={value}"),
                        when: self.when.to_owned(),
                        standing: Standing::Uncertain {
                            why: "it may depend on the power supply and on other settings"
                                .to_owned(),
                        },
                        settle: self.settle(name, off),
                    });
                }
            }
        }
    }

    fn settle(&self, name: &str, off: &str) -> String {
        let stop = format!("systemctl disable --now {}", self.units[0]);
        if off.is_empty() {
            format!("take {name} out of {}, or {stop}", self.main)
        } else {
            format!("set {name}=\"{off}\" in {}, or {stop}", self.main)
        }
    }
}

/// The name and the value of `NAME=value`, `NAME="value"` or `NAME+=value`; a comment behind it is
/// left out.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().trim_start_matches("export ").split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let value = match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        Some(quote) => value[1..].split(quote).next(),
        None => value.split(char::is_whitespace).next(),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_name).then_some((name, value.unwrap_or_default().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_of_a_shell() {
        for (line, expected) in [
            ("A=1 # one", Some(("A", "1"))),
            ("  export B='x y' # two", Some(("B", "x y"))),
            ("C+=\" w\"", Some(("C", "w"))),
            ("# A=0", None),
            ("D =1", None),
            ("E", None),
        ] {
            assert_eq!(assignment(line), expected, "{line}");
        }
    }
}
