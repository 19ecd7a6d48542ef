//! TuneD profiles: found, included, merged.
//!
//! A profile is a file of sections, its *units*; `include=` in `[main]` loads others before it. A
//! unit of the same name in a later profile changes single options, or drops the earlier unit with
//! `replace=1` (tuned/profiles/loader.py, merger.py, locator.py).

use super::super::Found;

/// Of falling precedence. A profile may include its namesake of a later directory.
const DIRECTORIES: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// More than any profile includes; a bound for captured trees that hold anything.
const MOST_FILES: usize = 64;

/// One option of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// A section, merged from all profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) name: String,
    /// In the order in which they are applied.
    pub(super) entries: Vec<Entry>,
}

impl Unit {
    /// An option.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// What works on it: `type=`, or its name.
    pub(super) fn plugin(&self) -> &str {
        self.get("type").map_or(&self.name, |entry| &entry.value)
    }
}

/// Loads profiles and all that they include, and merges their units. A missing profile is noted.
pub(super) fn load(found: &mut Found<'_>, names: &[String]) -> Vec<Unit> {
    let mut loaded = Vec::new();
    let mut files = Vec::new();
    load_into(found, names, &mut files, &mut loaded);
    let mut units = merge(loaded);
    expand(&mut units);
    units
}

fn load_into(found: &mut Found<'_>, names: &[String], files: &mut Vec<String>, loaded: &mut Vec<Vec<Unit>>) {
    for name in names {
        // The last part alone, as the locator takes it.
        let name = name.rsplit('/').next().unwrap_or(name);
        let paths: Vec<String> =
            DIRECTORIES.iter().map(|directory| format!("{directory}/{name}/tuned.conf")).collect();
        let there: Vec<&String> = paths.iter().filter(|path| found.root.exists(path)).collect();
        let Some(path) = there.iter().find(|path| !files.contains(path)) else {
            // All of its files are being loaded already: a circle, which ends here.
            if there.is_empty() {
                found.unread(
                    &format!("TuneD's profile {name}"),
                    "absent: no tuned.conf of this name is there",
                );
            }
            continue;
        };
        let path = (*path).clone();
        files.push(path.clone());
        if files.len() > MOST_FILES {
            return;
        }
        let Some(text) = found.text(&path) else { continue };
        let units = parse(&path, &text);
        let included = units.iter().find(|unit| unit.name == "main").and_then(|main| main.get("include"));
        if let Some(include) = included {
            let names: Vec<String> = include
                .value
                .split([',', ';'])
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect();
            load_into(found, &names, files, loaded);
        }
        loaded.push(units);
    }
}

fn merge(loaded: Vec<Vec<Unit>>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for unit in loaded.into_iter().flatten() {
        let replaces = unit.get("replace").is_some_and(|entry| !is_off(&entry.value));
        match units.iter_mut().find(|other| other.name == unit.name) {
            Some(other) if replaces => *other = unit,
            Some(other) => {
                for entry in unit.entries {
                    other.entries.retain(|earlier| earlier.key != entry.key);
                    other.entries.push(entry);
                }
            }
            None => units.push(unit),
        }
    }
    units
}

/// Puts the `[variables]` into the values; what TuneD would have to work out (`${f:…}`) stays as it
/// is.
fn expand(units: &mut [Unit]) {
    let variables: Vec<(String, String)> = units
        .iter()
        .filter(|unit| unit.name == "variables")
        .flat_map(|unit| &unit.entries)
        .map(|entry| (format!("${{{}}}", entry.key), entry.value.clone()))
        .collect();
    for entry in units.iter_mut().flat_map(|unit| &mut unit.entries) {
        // Variables may name earlier ones: as many times as there are variables is enough.
        for _ in 0..variables.len().min(MOST_FILES) {
            let Some((name, value)) = variables.iter().find(|(name, _)| entry.value.contains(name)) else {
                break;
            };
            entry.value = entry.value.replacen(name.as_str(), value, 1);
        }
    }
}

/// The sections of a file.
fn parse(file: &str, text: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = without_comment(text).trim();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let name = name.trim().to_owned();
            // A section that comes twice goes on.
            let at = units.iter().position(|unit| unit.name == name);
            let unit = at.map_or_else(|| Unit { name, ..Unit::default() }, |at| units.remove(at));
            units.push(unit);
        } else if let (Some((key, value)), Some(unit)) = (text.split_once('='), units.last_mut()) {
            let key = key.trim().to_owned();
            unit.entries.retain(|entry| entry.key != key);
            unit.entries.push(Entry { key, value: value.trim().to_owned(), file: file.to_owned(), line });
        }
    }
    units
}

/// A `#` begins a comment at the beginning of a line and behind white space.
fn without_comment(text: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| *at == 0 || text[..*at].ends_with(char::is_whitespace);
    match text.match_indices(['#', ';']).find(|found| begins(found) && (found.1 == "#" || found.0 == 0)) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// Whether an option of tuned-main.conf is on.
pub(super) fn is_on(text: &str, key: &str, default: bool) -> bool {
    let value = text.lines().map(without_comment).filter_map(|line| line.split_once('='));
    let value = value.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back();
    value.map_or(default, |value| !is_off(value))
}

/// Whether a value says no (tuned/utils/global_config.py `get_bool`).
pub(super) fn is_off(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "n" | "off" | "f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    fn shown(files: &[(&str, &str)], names: &[&str]) -> (String, usize) {
        let (_dir, root) = tree(files);
        let mut found = Found::new(&root);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let units = load(&mut found, &names);
        let lines = units.iter().flat_map(|unit| {
            unit.entries
                .iter()
                .map(|e| format!("[{}] {}={} {}:{}", unit.name, e.key, e.value, e.file, e.line))
        });
        (
            lines.filter(|line| !line.starts_with("[main]")).collect::<Vec<_>>().join("\n"),
            found.managers.unread.len(),
        )
    }

    #[test]
    fn included_profiles_come_first_and_single_options_are_changed() {
        let (shown, unread) = shown(
            &[
                (
                    "usr/lib/tuned/base/tuned.conf",
                    "[sysctl]\nvm.dirty_ratio = 40 # percent\nvm.swappiness=10\n[disk]\nelevator=none\n",
                ),
                ("usr/lib/tuned/other/tuned.conf", "[vm]\ndirty_background_bytes=10%\n"),
                (
                    "etc/tuned/mine/tuned.conf",
                    "[main]\ninclude=base, other\n[variables]\nscheduler=bfq\n[sysctl]\nvm.dirty_ratio=30\n[disk]\nreplace=1\nelevator=${scheduler}\n",
                ),
            ],
            &["mine"],
        );
        insta::assert_snapshot!(shown, @"
        [sysctl] vm.swappiness=10 /usr/lib/tuned/base/tuned.conf:3
        [sysctl] vm.dirty_ratio=30 /etc/tuned/mine/tuned.conf:6
        [disk] replace=1 /etc/tuned/mine/tuned.conf:8
        [disk] elevator=bfq /etc/tuned/mine/tuned.conf:9
        [vm] dirty_background_bytes=10% /usr/lib/tuned/other/tuned.conf:2
        [variables] scheduler=bfq /etc/tuned/mine/tuned.conf:4
        ");
        assert_eq!(unread, 0);
    }

    #[test]
    fn circles_end_and_a_namesake_may_be_included() {
        let (shown, unread) = shown(
            &[
                ("etc/tuned/profiles/a/tuned.conf", "[main]\ninclude=a\n[vm]\ndirty_ratio=1\n"),
                (
                    "usr/lib/tuned/profiles/a/tuned.conf",
                    "[main]\ninclude=b\n[vm]\ndirty_ratio=2\ndirty_bytes=3\n",
                ),
                ("usr/lib/tuned/b/tuned.conf", "[main]\ninclude=a\n[vm]\ndirty_ratio=4\n"),
            ],
            &["a"],
        );
        insta::assert_snapshot!(shown, @"
        [vm] dirty_bytes=3 /usr/lib/tuned/profiles/a/tuned.conf:5
        [vm] dirty_ratio=1 /etc/tuned/profiles/a/tuned.conf:4
        ");
        assert_eq!(unread, 0);
    }

    #[test]
    fn a_profile_that_is_not_there_is_told() {
        assert_eq!(shown(&[], &["none"]).1, 1);
    }

    #[test]
    fn variables_that_go_round_end() {
        let (shown, _) = shown(
            &[("etc/tuned/a/tuned.conf", "[variables]\nx=${y}\ny=${x}\n[vm]\ndirty_ratio=${x}\n")],
            &["a"],
        );
        assert!(shown.contains("[vm] dirty_ratio=${"), "{shown}");
    }

    #[test]
    fn options_of_the_main_file() {
        assert!(is_on("", "reapply_sysctl", true));
        assert!(!is_on("# reapply_sysctl = 1\nreapply_sysctl = 0\n", "reapply_sysctl", true));
        assert!(is_on("reapply_sysctl = True # yes\n", "reapply_sysctl", false));
    }
}
