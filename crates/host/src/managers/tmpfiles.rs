//! tmpfiles.d lines that write to files of /sys and /proc/sys:
//! `w /sys/block/sda/queue/scheduler - - - - bfq` (tmpfiles.d(5)).
//!
//! Unlike elsewhere, of several lines for one path the *first* counts, in the order of the files'
//! names; lines with patterns are applied after those without.

use floodwall_model::managers::{Claim, Kind, Standing};

use super::found::Found;
use super::{drop_ins, glob, reach};

pub(super) const DIRECTORIES: [&str; 5] = [
    "/etc/tmpfiles.d",
    "/run/tmpfiles.d",
    "/usr/local/lib/tmpfiles.d",
    "/usr/lib/tmpfiles.d",
    "/lib/tmpfiles.d",
];

/// A line that writes a knob.
struct Line {
    file: String,
    number: u32,
    path: String,
    value: String,
}

/// Collects what the files write.
pub(super) fn read(found: &mut Found<'_>) {
    let mut lines: Vec<Line> = Vec::new();
    for file in drop_ins::list(found, &DIRECTORIES, ".conf") {
        let Some(text) = found.text(&file) else { continue };
        for (number, text) in (1..).zip(text.lines()) {
            let Some((path, value)) = parse(text) else { continue };
            if !lines.iter().any(|line| line.path == path) {
                lines.push(Line { file: file.clone(), number, path, value });
            }
        }
    }
    lines.sort_by_key(|line| glob::is_pattern(&line.path));
    for Line { file, number, path, value } in lines {
        let Some((knob, owner)) = reach::of_path(&path) else { continue };
        for place in found.places(&owner) {
            found.claim(Claim {
                by: Kind::Tmpfiles,
                who: "systemd-tmpfiles".to_owned(),
                file: file.clone(),
                line: number,
                knob: knob.clone(),
                place,
                value: Some(value.clone()),
                written: value.clone(),
                when: "at boot".to_owned(),
                standing: Standing::Wins,
                settle: drop_ins::how_to_settle(&file, number, "/etc/tmpfiles.d", ""),
            });
        }
    }
}

/// Whether a line writes one of Floodwall's knobs.
pub(super) fn sets_a_knob(line: &str) -> bool {
    parse(line).is_some_and(|(path, _)| reach::of_path(&path).is_some())
}

/// The path and the argument of a line that writes.
fn parse(text: &str) -> Option<(String, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [kind, path, _, _, _, _, value @ ..] = words.as_slice() else { return None };
    let writes = kind.starts_with('w') || kind.starts_with('f') && kind.contains('+');
    let value = value.join(" ").replace("\\n", "");
    (writes && !matches!(value.as_str(), "" | "-"))
        .then(|| (path.trim_matches(['"', '\'']).to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_write() {
        let own = |path: &str, value: &str| Some((path.to_owned(), value.to_owned()));
        assert_eq!(parse("w /sys/a - - - - 1"), own("/sys/a", "1"));
        assert_eq!(parse("w! \"/sys/a\" -  - - -   two words "), own("/sys/a", "two words"));
        assert_eq!(parse("w+ /sys/a - - - - 1\\n"), own("/sys/a", "1"));
        assert_eq!(parse("f+ /sys/a 0644 root root - 1"), own("/sys/a", "1"));
        for text in [
            "",
            "# w /sys/a - - - - 1",
            "d /run/x 0755 root root -",
            "f /sys/a - - - - 1",
            "w /sys/a",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
