//! TuneD: the lines of its active profile that set a knob.
//!
//! ```text
//! /etc/tuned/active_profile, post_loaded_profile → files, included ones first → lines → claims
//! ```
//!
//! A profile is a file of sections; `include=` in `[main]` loads others before it, and a later line
//! replaces an earlier one (tuned/profiles/loader.py, merger.py, locator.py). Values of variables
//! and functions (`${…}`) are not worked out. TuneD sets its values when it starts and when the
//! profile changes. After the `[sysctl]` sections it applies /run/sysctl.d, /etc/sysctl.d and
//! /etc/sysctl.conf over them, unless `reapply_sysctl` is off in tuned-main.conf
//! (tuned/plugins/plugin_sysctl.py `_apply_system_sysctl`).

use floodwall_model::managers::{Claim, Kind, Place, Standing, cell};

use super::found::Found;
use super::{reach, service};

/// Of falling precedence. A profile may include its namesake of a later directory.
const DIRECTORIES: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
const ACTIVE: [&str; 2] = ["/etc/tuned/active_profile", "/etc/tuned/post_loaded_profile"];
const MAIN: &str = "/etc/tuned/tuned-main.conf";
pub(super) const PID: &str = "/run/tuned/tuned.pid";
const UNIT: &str = "tuned.service";
/// More than any profile includes; a bound for captured trees that hold anything.
const MOST_FILES: usize = 64;
/// Options that are read besides knobs.
const OPTIONS: [&str; 6] = ["include", "devices", "enabled", "replace", "drop", "reapply_sysctl"];
/// What sysctl.d files TuneD applies over its own, by the beginning of their paths.
const REAPPLIED: [&str; 3] = ["/run/sysctl.d/", "/etc/sysctl.d/", "/etc/sysctl.conf"];

/// An option of a section.
struct Line {
    file: String,
    number: u32,
    section: String,
    key: String,
    value: String,
}

/// Collects what the active profile sets.
pub(super) fn read(found: &mut Found<'_>) {
    let active: Vec<String> = ACTIVE.iter().filter_map(|file| found.text(file)).collect();
    let names: Vec<&str> = active.iter().flat_map(|text| text.split_whitespace()).collect();
    let standing = match service::is_started(found.root, UNIT) {
        _ if service::runs(found.root, PID, &["tuned", "python", "platform-python"]) => {
            Standing::Wins
        }
        Some(true) => Standing::Wins,
        Some(false) => return,
        None => Standing::Uncertain {
            why: "TuneD does not run; whether it is started at boot can't be told".to_owned(),
        },
    };
    let mut lines = Vec::new();
    load(found, &names, &mut Vec::new(), &mut lines);
    // A section is applied where it comes first, with the options of all files.
    let sections: Vec<String> = lines.iter().map(|line| line.section.clone()).collect();
    lines.sort_by_key(|line| sections.iter().position(|section| *section == line.section));
    let main = found.text(MAIN).map(|text| options(MAIN, &text)).unwrap_or_default();
    let reapplies = !main.iter().any(|line| line.key == "reapply_sysctl" && is_off(&line.value));
    for line in lines.iter().filter(|line| !["main", "variables"].contains(&line.section.as_str()))
    {
        let doubt =
            lines.iter().find(|other| other.section == line.section && casts_doubt(other, line));
        let standing = match (&standing, doubt) {
            (Standing::Wins, Some(Line { key, value, section, .. })) => {
                Standing::Uncertain { why: format!("it depends on {key}={value} in [{section}]") }
            }
            (standing, _) => standing.clone(),
        };
        for (knob, place, value) in sets(found, line) {
            if reapplies && is_reapplied(found, line, &knob) {
                continue;
            }
            let written = value.as_ref().map(|_| line.value.clone());
            found.claim(Claim {
                by: Kind::Tuned,
                who: format!("TuneD's profile {}", names.join(" ")),
                file: line.file.clone(),
                line: line.number,
                settle: format!(
                    "tuned-adm off, or set {knob} in a profile of yours with include={}",
                    names.first().unwrap_or(&"")
                ),
                knob,
                place,
                value,
                written: written.unwrap_or_else(|| format!("{}={}", line.key, line.value)),
                when: "when it starts and when the profile changes".to_owned(),
                standing: standing.clone(),
            });
        }
    }
}

/// Whether an option of a section may keep another one of it from being applied, or from being
/// applied to every disk.
fn casts_doubt(option: &Line, other: &Line) -> bool {
    match option.key.as_str() {
        "devices" => knob(&other.key).is_some_and(|knob| !knob.starts_with("vm.")),
        "enabled" => is_off(&option.value),
        // They take back what files before it say.
        "replace" | "drop" => option.file != other.file,
        _ => false,
    }
}

/// Whether a line of one of its files is read.
pub(super) fn is_read(path: &str, line: &str) -> bool {
    if ACTIVE.contains(&path) || line.trim().starts_with('[') {
        return true;
    }
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    OPTIONS.contains(&key) || knob(key).is_some() || reach::is_name(key)
}

/// Reads the options of profiles, those of included ones first. A missing profile is noted.
fn load(found: &mut Found<'_>, names: &[&str], files: &mut Vec<String>, lines: &mut Vec<Line>) {
    for name in names {
        // The last part alone, as the locator takes it.
        let name = name.rsplit('/').next().unwrap_or(name);
        let path = |directory: &&str| format!("{directory}/{name}/tuned.conf");
        let there: Vec<String> =
            DIRECTORIES.iter().map(path).filter(|path| found.root.exists(path)).collect();
        if there.is_empty() {
            found.unread(
                &format!("TuneD's profile {name}"),
                "absent: no tuned.conf of this name is there",
            );
            continue;
        }
        // If all of its files are being loaded already, it is a circle, which ends here.
        let Some(path) = there.into_iter().find(|path| !files.contains(path)) else { continue };
        files.push(path.clone());
        if files.len() > MOST_FILES {
            return;
        }
        let Some(text) = found.text(&path) else { continue };
        let options = options(&path, &text);
        let include = options.iter().find(|line| line.section == "main" && line.key == "include");
        if let Some(include) = include {
            let names: Vec<&str> = include
                .value
                .split([',', ';'])
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect();
            load(found, &names, files, lines);
        }
        lines.extend(options);
    }
}

fn options(file: &str, text: &str) -> Vec<Line> {
    let mut section = String::new();
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let text = [" #", "\t#"]
            .iter()
            .filter_map(|comment| text.find(comment))
            .min()
            .map_or(text, |at| &text[..at]);
        let text = text.trim();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
        } else if let Some((key, value)) = text.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            lines.push(Line {
                file: file.to_owned(),
                number,
                section: section.clone(),
                key,
                value,
            });
        }
    }
    lines
}

/// The knob of an option that is no path: a sysctl, or one of `[vm]` and `[disk]`.
fn knob(key: &str) -> Option<String> {
    match key {
        "elevator" => Some("scheduler".to_owned()),
        "readahead" | "readahead_multiply" => Some("read_ahead_kb".to_owned()),
        _ => reach::of_sysctl(key).pop().or_else(|| reach::of_sysctl(&format!("vm.{key}")).pop()),
    }
}

/// What an option sets, where, and to which value.
fn sets(found: &Found<'_>, line: &Line) -> Vec<(String, Place, Option<String>)> {
    // A value with `>` or `<` before it is only set if it is larger or smaller than the present
    // one.
    let plain = line.value.trim_start_matches(['>', '<']).trim().trim_matches(['"', '\'']);
    let value = (!plain.contains("${")).then(|| plain.to_owned());
    if let Some((knob, owner)) = reach::of_path(&line.key) {
        return found
            .places(&owner)
            .into_iter()
            .map(|place| (knob.clone(), place, value.clone()))
            .collect();
    }
    let Some(knob) = knob(&line.key) else { return Vec::new() };
    if knob.starts_with("vm.") {
        // `dirty_bytes=40%` is dirty_ratio (plugin_vm.py).
        return match plain.strip_suffix('%') {
            Some(percent) => {
                let percent = value.map(|_| percent.trim_end().to_owned());
                vec![(knob.replace("_bytes", "_ratio"), Place::Machine, percent)]
            }
            None => vec![(knob, Place::Machine, value)],
        };
    }
    // Read-ahead is in KiB, with a unit behind it in sectors.
    let is_known =
        line.key == "elevator" || line.key == "readahead" && plain.parse::<u64>().is_ok();
    let value = value.filter(|_| is_known);
    // TuneD takes no removable disks (plugin_disk.py).
    let is_fixed = |name: &str| {
        let removable = found.root.read_line(&format!("/sys/class/block/{name}/removable"));
        removable.value().is_none_or(|text| text != "1")
    };
    let disks = found.disks.iter().filter(|disk| is_fixed(&disk.name));
    disks.map(|disk| (knob.clone(), disk.place(), value.clone())).collect()
}

/// Whether TuneD applies a line of sysctl.d over an option of `[sysctl]`.
fn is_reapplied(found: &Found<'_>, line: &Line, knob: &str) -> bool {
    let is_over = |claim: &Claim| {
        claim.by == Kind::Sysctl
            && cell(&claim.knob) == cell(knob)
            && REAPPLIED.iter().any(|path| claim.file.starts_with(path))
    };
    !reach::of_sysctl(&line.key).is_empty() && found.managers.claims.iter().any(is_over)
}

/// Whether a value says no (tuned/utils/global_config.py `get_bool`).
fn is_off(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "n" | "off" | "f")
}
