//! The words of a command line, sorted into options and others.

use floodwall_model::toml_text::nearest;

use super::error::OptionError;
use super::kinds::{Command, Dialect};
use super::table::{In, KNOWN, Known, Takes, instead, known};

/// The words, sorted.
pub(super) struct Line {
    pub(super) options: Vec<(&'static Known, Option<String>)>,
    /// Words that are no options: the test in 1.0, the command.
    words: Vec<String>,
}

impl Line {
    pub(super) fn split<S: AsRef<str>>(words: &[S]) -> Result<Self, OptionError> {
        let mut line = Self { options: Vec::new(), words: Vec::new() };
        for word in words.iter().map(AsRef::as_ref) {
            let Some(option) = word.strip_prefix('-') else {
                line.words.push(word.to_owned());
                continue;
            };
            let (name, value) = match option.strip_prefix('-').unwrap_or_default().split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option.strip_prefix('-').unwrap_or_default(), None),
            };
            // The tool takes both signs in a name.
            let name = name.replace('_', "-");
            let Some(known) = known(&name) else { return Err(refused(word, &name)) };
            if known.takes == Takes::Value && value.is_none() {
                let wanted = "a value; write --NAME=VALUE";
                return Err(OptionError::Value {
                    option: known.name,
                    value: String::new(),
                    wanted,
                });
            }
            line.options.push((known, value));
        }
        Ok(line)
    }

    /// The value of an option that was written, the last one.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(option, _)| option.name == name);
        found.and_then(|(_, value)| value.as_deref())
    }

    /// As named; else 0.4 by `--test` without an option that only 1.0 has.
    pub(super) fn dialect(&self) -> Result<Dialect, OptionError> {
        match self.value("dialect") {
            Some("1.0") => return Ok(Dialect::V1_0),
            Some("0.4") => return Ok(Dialect::V0_4),
            Some(value) => {
                let (option, wanted) = ("dialect", "1.0 or 0.4");
                return Err(OptionError::Value { option, value: value.to_owned(), wanted });
            }
            None => {}
        }
        let has_new = self.options.iter().any(|(option, _)| option.known_in == In::New);
        let is_old = self.value("test").is_some() && !has_new;
        Ok(if is_old { Dialect::V0_4 } else { Dialect::V1_0 })
    }

    /// The test may be named twice.
    pub(super) fn check_test(&self) -> Result<(), OptionError> {
        let first = self.words.first().filter(|_| self.words.len() > 1 || self.no_command());
        let named = self.value("test").or(first.map(String::as_str));
        match named {
            Some("fileio") => Ok(()),
            Some(other) => Err(OptionError::Test(other.to_owned())),
            None => Err(OptionError::NoTest),
        }
    }

    fn no_command(&self) -> bool {
        self.words.last().is_none_or(|word| Command::parse(word).is_none())
    }

    pub(super) fn command(&self) -> Result<Command, OptionError> {
        let mut words = self.words.iter().map(String::as_str).peekable();
        words.next_if(|word| *word == "fileio");
        let Some(word) = words.next() else { return Err(OptionError::NoCommand) };
        if let Some(more) = words.next() {
            return Err(OptionError::Word(more.to_owned()));
        }
        Command::parse(word).ok_or_else(|| OptionError::Word(word.to_owned()))
    }
}

/// An option that is not supported, with the nearest that is.
fn refused(word: &str, name: &str) -> OptionError {
    let option = word.split('=').next().unwrap_or_default().to_owned();
    if let Some(nearest) = instead(name) {
        return OptionError::Unsupported { what: option, nearest: nearest.to_owned() };
    }
    let near = nearest(name, KNOWN.iter().map(|known| known.name));
    let nearest = near.map_or_else(
        || "docs/compat.md lists those supported".to_owned(),
        |near| format!("--{near}"),
    );
    OptionError::Unknown { option, nearest }
}
