//! A disk as udev sees it: names, properties, attributes, parents; and whether a rule's matches
//! hold for it.
//!
//! Properties are those of the kernel's uevent and those that udev has stored
//! (/run/udev/data/bMAJ:MIN). What neither tells, and what udev would run a program for, is
//! answered with "maybe".

use std::collections::HashMap;

use floodwall_model::Reading;

use super::super::{Disk, glob};
use super::rule::{Operator, Rule, Token};
use crate::root::SysRoot;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    No,
    /// It can't be told; why not.
    Maybe(String),
    Yes,
}

impl Truth {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Maybe(why), _) | (_, Self::Maybe(why)) => Self::Maybe(why),
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Maybe(why), _) | (_, Self::Maybe(why)) => Self::Maybe(why),
            (Self::No, Self::No) => Self::No,
        }
    }

    fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Yes => Self::No,
            maybe => maybe,
        }
    }
}

/// A disk while rules are applied to it.
pub(super) struct Device<'a> {
    root: &'a SysRoot,
    disk: &'a Disk,
    directory: String,
    properties: HashMap<String, String>,
    /// Whether udev's own properties are known.
    has_database: bool,
    /// `S:` lines of the database.
    links: Vec<String>,
}

/// Properties that rules have set so far in this file; `None` where it can't be told.
pub(super) type Overlay = HashMap<String, Option<String>>;

impl<'a> Device<'a> {
    /// Reads the properties of a disk.
    pub(super) fn new(root: &'a SysRoot, disk: &'a Disk) -> Self {
        let directory = format!("/sys/class/block/{}", disk.name);
        let mut properties = HashMap::new();
        let mut links = Vec::new();
        let mut add = |line: &str| {
            if let Some((name, value)) = line.split_once('=') {
                properties.insert(name.to_owned(), value.to_owned());
            }
        };
        root.read(&format!("{directory}/uevent")).into_value().unwrap_or_default().lines().for_each(&mut add);
        let database = root.read(&format!("/run/udev/data/b{}", disk.id)).into_value();
        for line in database.as_deref().unwrap_or_default().lines() {
            match line.split_once(':') {
                Some(("E", property)) => add(property),
                Some(("S", link)) => links.push(link.to_owned()),
                _ => {}
            }
        }
        properties.entry("DEVTYPE".to_owned()).or_insert_with(|| "disk".to_owned());
        properties.insert("SUBSYSTEM".to_owned(), "block".to_owned());
        Self { root, disk, directory, properties, has_database: database.is_some(), links }
    }

    /// Whether a value with substitutions is about this device: `%k`, `$kernel`, `$name`, or its
    /// own name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        matches!(name, "%k" | "$kernel" | "$name" | "%D" | "$devnode") || name == self.disk.name
    }

    /// Whether all matches of a rule hold at an event.
    pub(super) fn fits(&self, rule: &Rule, action: &str, overlay: &Overlay) -> Truth {
        let mut truth = Truth::Yes;
        let mut of_parents = Vec::new();
        for token in rule.matches() {
            if matches!(token.key.as_str(), "KERNELS" | "SUBSYSTEMS" | "DRIVERS" | "ATTRS" | "TAGS") {
                of_parents.push(token);
                continue;
            }
            truth = truth.and(self.holds(token, action, overlay));
            if truth == Truth::No {
                return truth;
            }
        }
        if of_parents.is_empty() { truth } else { truth.and(self.some_parent(&of_parents)) }
    }

    fn holds(&self, token: &Token, action: &str, overlay: &Overlay) -> Truth {
        let text = |text: &str| self.compare(token, text);
        let attribute = token.attribute.as_deref().unwrap_or_default();
        match token.key.as_str() {
            "ACTION" => text(action),
            "SUBSYSTEM" => text("block"),
            "KERNEL" | "NAME" => text(&self.disk.name),
            "DRIVER" => text(""),
            "DEVPATH" => self.disk.path.as_deref().map_or_else(|| self.unknown(token), text),
            "ENV" => match (overlay.get(attribute), self.properties.get(attribute)) {
                (Some(Some(value)), _) | (None, Some(value)) => text(value),
                (Some(None), _) => self.unknown(token),
                (None, None) if self.has_database => text(""),
                (None, None) => self.unknown(token),
            },
            "ATTR" => self.attribute(token, &self.directory, attribute),
            "SYMLINK" if self.has_database => {
                let any = self.links.iter().fold(Truth::No, |truth, link| truth.or(self.plain(token, link)));
                if token.operator == Operator::IsNot { any.not() } else { any }
            }
            "TEST" if !token.value.contains(['$', '%', '[']) => {
                let path = if token.value.starts_with('/') {
                    token.value.clone()
                } else {
                    format!("{}/{}", self.directory, token.value)
                };
                Truth::of(self.root.exists(&path) == (token.operator == Operator::Is))
            }
            _ => self.unknown(token),
        }
    }

    /// Whether the device or one of its parents has all that is asked for of parents.
    fn some_parent(&self, tokens: &[&Token]) -> Truth {
        let Some(path) = &self.disk.path else {
            return tokens.first().map_or(Truth::Yes, |t| self.unknown(t));
        };
        let mut truth = Truth::No;
        let mut here = path.as_str();
        while here.len() > "/devices".len() {
            let directory = format!("/sys{here}");
            let name = here.rsplit('/').next().unwrap_or_default();
            let all = tokens.iter().fold(Truth::Yes, |all, token| {
                all.and(match token.key.as_str() {
                    "KERNELS" => self.compare(token, name),
                    "SUBSYSTEMS" => self.link(token, &format!("{directory}/subsystem")),
                    "DRIVERS" => self.link(token, &format!("{directory}/driver")),
                    "ATTRS" => {
                        self.attribute(token, &directory, token.attribute.as_deref().unwrap_or_default())
                    }
                    _ => self.unknown(token),
                })
            });
            truth = truth.or(all);
            if truth == Truth::Yes {
                return truth;
            }
            here = here.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
        truth
    }

    /// An attribute's file; one that is not there fits nothing, not even `!=`. A captured tree does
    /// not hold every attribute.
    fn attribute(&self, token: &Token, directory: &str, attribute: &str) -> Truth {
        if attribute.contains(['$', '%', '[']) {
            return self.unknown(token);
        }
        match self.root.read(&format!("{directory}/{attribute}")) {
            // White space at the end counts only if the pattern has some (udev(7)).
            Reading::Value(text) if token.value.ends_with(char::is_whitespace) => {
                self.compare(token, text.trim_end_matches('\n'))
            }
            Reading::Value(text) => self.compare(token, text.trim_end()),
            Reading::Absent(_) if self.root.is_live() || attribute.starts_with("queue/") => Truth::No,
            Reading::Absent(_) | Reading::Unreadable(_) => self.unknown(token),
        }
    }

    /// What a link points to; none is an empty name on the live machine.
    fn link(&self, token: &Token, path: &str) -> Truth {
        match self.root.link_name(path) {
            Reading::Value(name) => self.compare(token, &name),
            Reading::Absent(_) if self.root.is_live() => self.compare(token, ""),
            Reading::Absent(_) | Reading::Unreadable(_) => self.unknown(token),
        }
    }

    fn compare(&self, token: &Token, text: &str) -> Truth {
        let plain = self.plain(token, text);
        if token.operator == Operator::IsNot { plain.not() } else { plain }
    }

    fn plain(&self, token: &Token, text: &str) -> Truth {
        if token.value.contains('$') {
            return self.unknown(token);
        }
        Truth::of(if token.ignore_case {
            glob::matches_any(&token.value.to_lowercase(), &text.to_lowercase())
        } else {
            glob::matches_any(&token.value, text)
        })
    }

    fn unknown(&self, token: &Token) -> Truth {
        Truth::Maybe(format!("whether {} holds for {} can't be told", shown(token), self.disk.name))
    }
}

/// A token as it is written.
pub(super) fn shown(token: &Token) -> String {
    let operator = match token.operator {
        Operator::Is => "==",
        Operator::IsNot => "!=",
        Operator::Set => "=",
        Operator::Remove => "-=",
    };
    match &token.attribute {
        Some(attribute) => format!("{}{{{attribute}}}{operator}\"{}\"", token.key, token.value),
        None => format!("{}{operator}\"{}\"", token.key, token.value),
    }
}
