//! Configuration files that are fragments of shell: `NAME=value`, `NAME="value"`, `NAME+=" more"`.
//!
//! Only assignments are understood; a value that a shell would have to work out (`$x`, backquotes)
//! is kept as it stands.

use std::collections::BTreeMap;

/// A variable's value, and where it was set last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) value: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// The variables of one or more files; a later file's assignment replaces or extends an earlier
/// one's.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(BTreeMap<String, Variable>);

impl Variables {
    /// Adds a file's assignments.
    pub(super) fn add(&mut self, file: &str, text: &str) {
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim().trim_start_matches("export ");
            let Some((name, value)) = text.split_once('=') else { continue };
            let (name, more) = match name.strip_suffix('+') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                continue;
            }
            let mut value = unquoted(value);
            if let (true, Some(before)) = (more, self.0.get(name)) {
                value = format!("{} {value}", before.value);
            }
            self.0.insert(name.to_owned(), Variable { value, file: file.to_owned(), line });
        }
    }

    /// A variable.
    pub(super) fn get(&self, name: &str) -> Option<&Variable> {
        self.0.get(name)
    }

    /// A variable's value, or its default.
    pub(super) fn value<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, |variable| &variable.value)
    }
}

/// The first word, or the text between quotes; a comment behind it is left out.
fn unquoted(text: &str) -> String {
    let text = text.trim_start();
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default().trim().to_owned();
        }
    }
    text.split(char::is_whitespace).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_assignments_replace_and_extend() {
        let mut variables = Variables::default();
        variables.add("/a", "# A=0\nA=1 # one\nB=\"x y\"\n  export C='z'\nD =1\n");
        variables.add("/b", "\nB+=\" w\"\nA=2\n");
        assert_eq!(variables.value("A", ""), "2");
        assert_eq!(variables.value("B", ""), "x y w");
        assert_eq!(variables.value("C", ""), "z");
        assert_eq!(variables.value("D", "none"), "none");
        let place = variables.get("A").map(|v| (v.file.as_str(), v.line));
        assert_eq!(place, Some(("/b", 3)));
    }
}
