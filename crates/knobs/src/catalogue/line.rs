//! A line of a control group's file: the keys and values of one device.

use std::collections::BTreeMap;
use std::fmt;

/// `8:0 rbps=max wbps=50000000` or `default 100`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: String,
    /// Values without a key, such as a weight.
    plain: Option<String>,
    pairs: BTreeMap<String, String>,
    /// The order in which the keys came.
    order: Vec<String>,
}

impl Line {
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let key = words.next().unwrap_or_default().to_owned();
        let mut line = Self { key, plain: None, pairs: BTreeMap::new(), order: Vec::new() };
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => line.set(name, value),
                None => line.plain = Some(word.to_owned()),
            }
        }
        line
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        if self.pairs.insert(name.to_owned(), value.to_owned()).is_none() {
            self.order.push(name.to_owned());
        }
    }

    /// This line with the keys of another one replaced.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut line = self.clone();
        line.plain = other.plain.clone().or(line.plain);
        for name in other.names() {
            if let Some(value) = other.pairs.get(&name) {
                line.set(&name, value);
            }
        }
        line
    }

    /// Its keys with their values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(String::as_str)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.order.clone();
        names.extend(self.pairs.keys().filter(|name| !self.order.contains(name)).cloned());
        names
    }

    /// Under `ctrl=auto` the kernel chooses the parameters: they are not state, and writing one
    /// would end `auto`.
    pub(crate) fn settled(mut self) -> Self {
        if self.pairs.get("ctrl").is_some_and(|ctrl| ctrl == "auto") {
            self.pairs.retain(|name, _| matches!(name.as_str(), "enable" | "ctrl"));
            self.order.retain(|name| matches!(name.as_str(), "enable" | "ctrl"));
        }
        self
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        let alike = |a: &String, b: &String| {
            a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
        };
        let within = |few: &Self, many: &Self| {
            few.pairs.iter().all(|(name, a)| many.pairs.get(name).is_some_and(|b| alike(a, b)))
        };
        // The kernel shows every key of a line, also those that were not named when it was written.
        self.key == other.key
            && self.plain == other.plain
            && (within(self, other) || within(other, self))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(plain) = &self.plain {
            write!(f, " {plain}")?;
        }
        for name in self.names() {
            if let Some(value) = self.pairs.get(&name) {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}
