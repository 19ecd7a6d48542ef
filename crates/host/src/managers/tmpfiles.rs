//! tmpfiles.d lines that write to files of /sys and /proc/sys:
//! `w /sys/block/sda/queue/scheduler - - - - bfq` (tmpfiles.d(5)).
//!
//! Unlike elsewhere, of several lines for one path the *first* counts, in the order of the files'
//! names; lines with patterns are applied after those without.

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Standing};

use super::drop_ins;
use super::{Found, Source, Wanted, glob, reach};

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
    standing: Standing,
}

/// Collects what the files write.
pub(super) fn read(found: &mut Found<'_>) {
    let mut lines: Vec<Line> = Vec::new();
    for file in drop_ins::list(found, &DIRECTORIES, ".conf") {
        if drop_ins::is_null(found, &file.path) {
            continue;
        }
        let Some(text) = found.text(&file.path) else { continue };
        for (number, text) in (1..).zip(text.lines()) {
            let Some((path, value)) = parse(text) else { continue };
            if reach::of_path(&path).is_none() {
                continue;
            }
            let earlier = lines.iter().find(|line| line.path == path && line.standing == Standing::Wins);
            let standing = match (&file.masked_by, earlier) {
                (Some(by), _) => Standing::NotApplied { why: format!("{by} is read in its place") },
                (None, Some(first)) => {
                    Standing::Overridden { by: format!("{}:{}", first.file, first.number) }
                }
                (None, None) => Standing::Wins,
            };
            lines.push(Line { file: file.path.clone(), number, path, value, standing });
        }
    }
    if !lines.is_empty() {
        found.present(Manager {
            kind: Kind::Tmpfiles,
            name: "tmpfiles.d files".to_owned(),
            running: Reading::Absent("systemd-tmpfiles runs at boot and when it is called".to_owned()),
            at_boot: Reading::Value(true),
        });
    }
    let (patterns, names): (Vec<Line>, Vec<Line>) =
        lines.into_iter().partition(|line| glob::is_pattern(&line.path));
    for line in names.iter().chain(&patterns) {
        let Some((knob, owner)) = reach::of_path(&line.path) else { continue };
        let source = Source {
            by: Kind::Tmpfiles,
            who: "systemd-tmpfiles",
            file: &line.file,
            line: Some(line.number),
            when: "at boot",
            settle: drop_ins::how_to_settle(&line.file, line.number, "/etc/tmpfiles.d", ""),
        };
        for place in found.places(&owner) {
            let wanted = Wanted { knob: &knob, value: Some(line.value.clone()), written: &line.value };
            found.claim_at(&source, place, wanted, line.standing.clone());
        }
    }
}

/// Whether a line writes one of Floodwall's knobs.
pub(super) fn sets_a_knob(line: &str) -> bool {
    parse(line).is_some_and(|(path, _)| reach::of_path(&path).is_some())
}

/// The path and the argument of a line that writes.
fn parse(text: &str) -> Option<(String, String)> {
    let mut rest = text.trim_start();
    let mut fields = Vec::new();
    while fields.len() < 6 {
        let (field, after) = next_field(rest)?;
        fields.push(field);
        rest = after.trim_start();
    }
    let mut kind = fields.first()?.chars();
    let writes = match kind.next()? {
        'w' => true,
        'f' => kind.any(|modifier| modifier == '+'),
        _ => false,
    };
    let argument = rest.trim_end().replace("\\n", "");
    (writes && !argument.is_empty() && argument != "-")
        .then(|| (fields.swap_remove(1), argument.trim().to_owned()))
}

/// A field, which may be in quotes, and what follows it.
fn next_field(text: &str) -> Option<(String, &str)> {
    if text.is_empty() || text.starts_with('#') {
        return None;
    }
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let (field, after) = rest.split_once(quote)?;
            return Some((field.to_owned(), after));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    Some((text[..end].to_owned(), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_write() {
        let own = |path: &str, value: &str| Some((path.to_owned(), value.to_owned()));
        assert_eq!(parse("w /sys/a - - - - 1"), own("/sys/a", "1"));
        assert_eq!(parse("w! \"/sys/a b\" -  - - -   two words "), own("/sys/a b", "two words"));
        assert_eq!(parse("w+ /sys/a - - - - 1\\n"), own("/sys/a", "1"));
        assert_eq!(parse("f+ /sys/a 0644 root root - 1"), own("/sys/a", "1"));
        for text in
            ["", "# w /sys/a - - - - 1", "d /run/x 0755 root root -", "f /sys/a - - - - 1", "w /sys/a"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
