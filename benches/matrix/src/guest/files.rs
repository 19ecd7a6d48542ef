//! The kernel's files as they read, which is what floodwall's own reading is compared with.

use std::path::Path;

/// A file's text without its last line end; absent if it does not exist; an error is returned as a
/// text.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text.trim_end().to_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => Some(format!("({e})")),
    }
}

/// A file that holds a number.
pub(crate) fn number(path: impl AsRef<Path>) -> Option<f64> {
    read(path)?.parse().ok()
}

/// The choice in brackets.
pub(crate) fn chosen(text: &str) -> &str {
    text.split(['[', ']']).nth(1).unwrap_or(text)
}

/// The number behind a name, in a file of such lines (`MemTotal:  123 kB`, `nr_dirty 5`).
pub(crate) fn named(path: &str, name: &str) -> Option<f64> {
    let text = read(path)?;
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}
