//! The part of a manager's configuration that is stored with a captured tree: the lines that are
//! read here, at their places, and nothing else.
//!
//! A line without a knob becomes an empty one, so that the others keep their line numbers. Serial
//! numbers, UUIDs and addresses by which a udev rule knows a disk are left out. Whether such a rule
//! fits is unknown in a captured tree, and reported as such.

use super::{found, power, sysctl, tmpfiles, tuned, udev};

/// The part of a file that is stored.
pub(crate) fn redacted(path: &str, text: &str) -> String {
    let below =
        |directories: &[&str]| directories.iter().any(|d| path.starts_with(&format!("{d}/")));
    let whole = |keep: bool, line: &str| keep.then(|| line.to_owned());
    let text = if below(&sysctl::DIRECTORIES) || path == sysctl::MAIN {
        lines(text, |_, line| whole(sysctl::sets_a_knob(line), line))
    } else if below(&tmpfiles::DIRECTORIES) {
        lines(text, |_, line| whole(tmpfiles::sets_a_knob(line), line))
    } else if below(&udev::DIRECTORIES) {
        let kept = udev::kept(text);
        lines(text, |number, _| kept.get(&number).cloned())
    } else if power::is_file(path) {
        lines(text, |_, line| power::kept(line))
    } else if path == tuned::PID {
        text.chars().filter(char::is_ascii_digit).collect()
    } else if path.starts_with("/etc/tuned/") || path.starts_with("/usr/lib/tuned/") {
        lines(text, |_, line| whole(tuned::is_read(path, line), line))
    } else {
        // That it is there is all that is asked of it.
        String::new()
    };
    text.trim_end().to_owned() + if text.trim_end().is_empty() { "" } else { "\n" }
}

/// The lines that are kept, and empty ones in place of the others. The first line tells whether a
/// file is Floodwall's.
fn lines(text: &str, keep: impl Fn(u32, &str) -> Option<String>) -> String {
    let line = |(number, line): (u32, &str)| {
        let is_mark = number == 1 && found::ours(line).is_some();
        let kept = if is_mark { Some(line.to_owned()) } else { keep(number, line) };
        kept.unwrap_or_default() + "\n"
    };
    (1..).zip(text.lines()).map(line).collect()
}
