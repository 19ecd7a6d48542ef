//! sysctl.d files and /etc/sysctl.conf, by the precedence of sysctl.d(5) and sysctl(8).
//!
//! Files of all directories are read in the order of their names; of two of one name the earlier
//! directory's counts. A later line replaces an earlier one, by the same name or by the other name
//! of the same limit: they are written in that order. The `sysctl --system` of procps reads
//! /etc/sysctl.conf last; systemd-sysctl reads it only where a link in sysctl.d points to it.

use std::collections::BTreeSet;

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Place, Standing};

use super::drop_ins::{self, DropIn};
use super::{Found, Source, Wanted, glob, reach, redact};

pub(super) const DIRECTORIES: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];
pub(super) const MAIN: &str = "/etc/sysctl.conf";
/// Any of these says that systemd-sysctl(8) applies the files at boot.
const SYSTEMD: [&str; 3] =
    ["/run/systemd/system", "/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"];
const WHEN: &str = "at boot and at every sysctl --system";

/// Collects what the files set.
pub(super) fn read(found: &mut Found<'_>) {
    let systemd = SYSTEMD.iter().any(|path| found.root.exists(path));
    let mut lines = Vec::new();
    let mut is_linked = false;
    for file in drop_ins::list(found, &DIRECTORIES, ".conf") {
        if drop_ins::is_null(found, &file.path) {
            continue;
        }
        let main = links_to_main(found, &file.path);
        is_linked |= main && file.masked_by.is_none();
        let Some(text) = found.text(&file.path) else { continue };
        let name = if main { MAIN } else { &file.path };
        lines.extend(parse(&text).into_iter().map(|line| (name.to_owned(), masked(&file), line)));
    }
    if !is_linked && let Some(text) = found.text(MAIN) {
        let standing = if systemd {
            Standing::NotApplied {
                why: "systemd-sysctl reads /etc/sysctl.conf only through a link in /etc/sysctl.d, and there is none (sysctl -p does)".into(),
            }
        } else {
            Standing::Wins
        };
        lines.extend(parse(&text).into_iter().map(|line| (MAIN.to_owned(), standing.clone(), line)));
    }
    claim(found, lines);
    if found.managers.claims.iter().any(|claim| claim.by == Kind::Sysctl) {
        let how = if systemd { "systemd-sysctl" } else { "sysctl --system" };
        found.present(Manager {
            kind: Kind::Sysctl,
            name: format!("sysctl.d files, applied by {how}"),
            running: Reading::Absent("it runs at boot and when it is called".to_owned()),
            at_boot: Reading::Value(true),
        });
    }
}

/// The claims of all lines: those of patterns first, which leave out knobs set or excluded by name.
fn claim(found: &mut Found<'_>, lines: Vec<(String, Standing, Line)>) {
    let named: BTreeSet<&'static str> = lines
        .iter()
        .filter(|(_, standing, line)| *standing == Standing::Wins && !glob::is_pattern(&line.key))
        .filter_map(|(_, _, line)| reach::of_sysctl(&line.key))
        .collect();
    let (patterns, names): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|(_, _, line)| glob::is_pattern(&line.key));
    for (file, standing, line) in patterns.into_iter().chain(names) {
        let Some(value) = &line.value else { continue };
        let knobs = if glob::is_pattern(&line.key) {
            let mut knobs = reach::of_sysctl_pattern(&line.key);
            knobs.retain(|knob| !named.contains(knob));
            knobs
        } else {
            reach::of_sysctl(&line.key).into_iter().collect()
        };
        for knob in knobs {
            let source = Source {
                by: Kind::Sysctl,
                who: "sysctl",
                file: &file,
                line: Some(line.number),
                when: WHEN,
                settle: settle(&file, line.number),
            };
            let wanted = Wanted { knob, value: Some(value.clone()), written: value };
            found.claim(&source, Place::Machine, wanted, standing_of(knob, value, &standing));
        }
    }
}

/// The kernel refuses a byte limit of zero, and takes a ratio of zero in byte mode for no change:
/// neither sets anything.
fn standing_of(knob: &str, value: &str, standing: &Standing) -> Standing {
    let is_limit = knob.ends_with("_bytes") || knob.ends_with("_ratio");
    if is_limit && value.trim() == "0" && *standing == Standing::Wins {
        return Standing::NotApplied {
            why: "0 is what the kernel shows while the other name is in force, and sets nothing".to_owned(),
        };
    }
    standing.clone()
}

fn masked(file: &DropIn) -> Standing {
    match &file.masked_by {
        None => Standing::Wins,
        Some(by) => Standing::NotApplied { why: format!("{by} is read in its place") },
    }
}

fn links_to_main(found: &Found<'_>, path: &str) -> bool {
    let target = found.root.link_target(path).into_value();
    target.is_some_and(|target| target == MAIN || target == "../sysctl.conf")
}

fn settle(file: &str, line: u32) -> String {
    let later = "or keep the value of yours in a file of /etc/sysctl.d that sorts after it";
    format!("{}, {later}", drop_ins::how_to_settle(file, line, "/etc/sysctl.d", ""))
}

/// A line that sets or excludes something.
struct Line {
    number: u32,
    key: String,
    /// `None` for `-key`, which only excludes a key from patterns.
    value: Option<String>,
}

/// Whether a line sets one of Floodwall's knobs, or leaves one out.
pub(super) fn sets_a_knob(line: &str) -> bool {
    parse(line).first().is_some_and(|line| redact::is_knob(&line.key))
}

fn parse(text: &str) -> Vec<Line> {
    let line = |(number, text): (u32, &str)| {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim().trim_start_matches('-'), Some(value.trim().to_owned())),
            None => (text.strip_prefix('-')?.trim(), None),
        };
        Some(Line { number, key: key.to_owned(), value })
    };
    (1..).zip(text.lines()).filter_map(line).collect()
}
