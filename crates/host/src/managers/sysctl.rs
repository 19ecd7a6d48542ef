//! sysctl.d files and /etc/sysctl.conf, by the precedence of sysctl.d(5) and sysctl(8).
//!
//! Files of all directories are read in the order of their names; of two of one name the earlier
//! directory's counts. A later line replaces an earlier one, by the same name or by the other name
//! of the same limit: they are written in that order. The `sysctl --system` of procps reads
//! /etc/sysctl.conf last; systemd-sysctl reads it only where a link in sysctl.d points to it.

use floodwall_model::managers::{Claim, Kind, Place, Standing};

use super::found::Found;
use super::{drop_ins, glob, reach};

pub(super) const DIRECTORIES: [&str; 5] = [
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];
pub(super) const MAIN: &str = "/etc/sysctl.conf";
/// Any of these says that systemd-sysctl(8) applies the files at boot.
const SYSTEMD: [&str; 3] =
    ["/run/systemd/system", "/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"];

/// A line that sets or excludes something.
struct Line {
    file: String,
    number: u32,
    key: String,
    /// `None` for `-key`, which only excludes a key from patterns.
    value: Option<String>,
}

/// Collects what the files set.
pub(super) fn read(found: &mut Found<'_>) {
    let mut files = drop_ins::list(found, &DIRECTORIES, ".conf");
    for file in &mut files {
        let target = found.root.link_target(file).into_value();
        if target.is_some_and(|target| target == MAIN || target == "../sysctl.conf") {
            MAIN.clone_into(file);
        }
    }
    let systemd = SYSTEMD.iter().any(|path| found.root.exists(path));
    if !systemd && !files.iter().any(|file| file == MAIN) {
        files.push(MAIN.to_owned());
    }
    let mut lines = Vec::new();
    for file in &files {
        lines.extend(found.text(file).into_iter().flat_map(|text| parse(file, &text)));
    }
    // Patterns come first, and leave out what another line sets or excludes by name.
    let (patterns, names): (Vec<Line>, Vec<Line>) =
        lines.into_iter().partition(|line| glob::is_pattern(&line.key));
    let named: Vec<String> = names.iter().flat_map(|line| reach::of_sysctl(&line.key)).collect();
    for line in patterns {
        for knob in reach::of_sysctl(&line.key).into_iter().filter(|knob| !named.contains(knob)) {
            claim(found, &line, knob);
        }
    }
    for line in names {
        reach::of_sysctl(&line.key).into_iter().for_each(|knob| claim(found, &line, knob));
    }
}

fn claim(found: &mut Found<'_>, line: &Line, knob: String) {
    let Some(value) = &line.value else { return };
    // The kernel refuses a byte limit of zero, and takes a ratio of zero in byte mode for no
    // change: neither sets anything.
    if value == "0" && (knob.ends_with("_bytes") || knob.ends_with("_ratio")) {
        return;
    }
    let later = "or keep the value of yours in a file of /etc/sysctl.d that sorts after it";
    let edit = drop_ins::how_to_settle(&line.file, line.number, "/etc/sysctl.d", "");
    found.claim(Claim {
        by: Kind::Sysctl,
        who: "sysctl".to_owned(),
        file: line.file.clone(),
        line: line.number,
        knob,
        place: Place::Machine,
        value: Some(value.clone()),
        written: value.clone(),
        when: "at boot and at every sysctl --system".to_owned(),
        standing: Standing::Wins,
        settle: format!("{edit}, {later}"),
    });
}

/// Whether a line sets one of Floodwall's knobs, or leaves one out.
pub(super) fn sets_a_knob(line: &str) -> bool {
    parse("", line).first().is_some_and(|line| reach::is_name(&line.key))
}

fn parse(file: &str, text: &str) -> Vec<Line> {
    let line = |(number, text): (u32, &str)| {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => {
                (key.trim().trim_start_matches('-'), Some(value.trim().to_owned()))
            }
            None => (text.strip_prefix('-')?.trim(), None),
        };
        Some(Line { file: file.to_owned(), number, key: key.to_owned(), value })
    };
    (1..).zip(text.lines()).filter_map(line).collect()
}
