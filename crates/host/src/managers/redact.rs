//! The part of a manager's configuration that is stored with a captured tree: the lines that are
//! read here, at their places, and nothing else.
//!
//! A line without a knob becomes an empty one, so that the others keep their line numbers. Serial
//! numbers, UUIDs and addresses by which a udev rule knows a disk are left out. Whether such a rule
//! fits is unknown in a captured tree, and reported as such.

use super::udev::{self, is_private};
use super::{OURS, laptop_mode, reach, sysctl, tlp, tmpfiles, tuned};

/// Replaces an identifier of a disk.
pub(super) const LEFT_OUT: &str = "left-out";

/// The part of a file that is stored. `kernel_name` gives a disk's name for one of /dev/disk/by-id.
pub(crate) fn redacted(path: &str, text: &str, kernel_name: &dyn Fn(&str) -> Option<String>) -> String {
    let below = |directories: &[&str]| directories.iter().any(|d| path.starts_with(&format!("{d}/")));
    let text = if below(&sysctl::DIRECTORIES) || path == sysctl::MAIN {
        lines(text, |line| sysctl::sets_a_knob(line).then(|| line.to_owned()))
    } else if below(&tmpfiles::DIRECTORIES) {
        lines(text, |line| tmpfiles::sets_a_knob(line).then(|| line.to_owned()))
    } else if below(&udev::DIRECTORIES) {
        udev::kept(text)
    } else if tlp::FILES.contains(&path) || below(&[tlp::DIRECTORY]) {
        lines(text, |line| assignment(line, &tlp::VARIABLES, kernel_name))
    } else if path == laptop_mode::FILE {
        lines(text, |line| assignment(line, &laptop_mode::VARIABLES, kernel_name))
    } else if path.starts_with("/etc/tuned/") || path.starts_with("/usr/lib/tuned/") {
        lines(text, |line| tuned::is_read(path, line).then(|| line.to_owned()))
    } else if path == tuned::PID {
        text.chars().filter(char::is_ascii_digit).collect()
    } else if path == super::command_line::FILE {
        let words = text.split_whitespace().filter(|word| word.starts_with(super::command_line::PARAMETER));
        words.collect::<Vec<_>>().join(" ")
    } else {
        // That it is there is all that is asked of it.
        String::new()
    };
    text.trim_end().to_owned() + if text.trim_end().is_empty() { "" } else { "\n" }
}

/// The lines that are kept, and empty ones in place of the others. The first line tells whether a
/// file is Floodwall's.
pub(super) fn lines(text: &str, keep: impl Fn(&str) -> Option<String>) -> String {
    let first = |at: usize, line: &str| at == 0 && OURS.iter().any(|(mark, _)| line.starts_with(mark));
    let line = |(at, line): (usize, &str)| {
        let kept = if first(at, line) { Some(line.to_owned()) } else { keep(line) };
        kept.unwrap_or_default() + "\n"
    };
    text.lines().enumerate().map(line).collect()
}

/// An assignment to one of these variables; disks of /dev/disk/by-id, whose names hold serial
/// numbers, by the kernel's names.
fn assignment(
    line: &str,
    variables: &[&str],
    kernel_name: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let (name, value) = line.trim().trim_start_matches("export ").split_once('=')?;
    if !variables.contains(&name.trim_end_matches('+')) {
        return None;
    }
    let is_quote = |c: char| c == '"' || c == '\'';
    let words = value.split(' ').map(|word| {
        let bare = word.trim_matches(is_quote);
        kernel_name(bare).map_or_else(|| word.to_owned(), |name| word.replace(bare, &name))
    });
    Some(format!("{name}={}", words.collect::<Vec<_>>().join(" ")))
}

/// Whether a sysctl's name, a path or an option's name is that of a knob.
pub(super) fn is_knob(name: &str) -> bool {
    reach::of_sysctl(name).is_some()
        || reach::of_sysctl(&format!("vm.{name}")).is_some()
        || !reach::of_sysctl_pattern(name).is_empty()
        || reach::of_path(name).is_some()
}

/// A match's or an assignment's value, unless it identifies a disk.
pub(super) fn value<'a>(attribute: Option<&str>, value: &'a str) -> &'a str {
    if attribute.is_some_and(is_private) || value.contains("/by-") { LEFT_OUT } else { value }
}
