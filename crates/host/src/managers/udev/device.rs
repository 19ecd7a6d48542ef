//! A disk as udev sees it, and whether a rule fits it, as far as that is cheap to tell.
//!
//! The event's action, the disk's name, its attributes and its properties are compared. Properties
//! are those of the kernel's uevent and those that udev has stored (/run/udev/data/bMAJ:MIN). All
//! other conditions (parents but USB, links, programs) are open.

use std::collections::HashMap;

use floodwall_model::Reading;

use super::super::found::Disk;
use super::super::glob;
use super::rule::{Operator, Rule, Token};
use crate::block;
use crate::root::SysRoot;

/// A disk while rules are applied to it.
pub(super) struct Device<'a> {
    root: &'a SysRoot,
    pub(super) disk: Disk,
    directory: String,
    properties: HashMap<String, String>,
    /// Whether udev's own properties are known.
    has_database: bool,
}

/// Properties that rules have set so far in this file; `None` where that is open.
pub(super) type Overlay = HashMap<String, Option<String>>;

impl<'a> Device<'a> {
    /// Reads the properties of a disk.
    pub(super) fn new(root: &'a SysRoot, disk: &Disk) -> Self {
        let directory = format!("/sys/class/block/{}", disk.name);
        let uevent = root.read(&format!("{directory}/uevent")).into_value().unwrap_or_default();
        let database = root.read(&format!("/run/udev/data/b{}", disk.id)).into_value();
        let stored = database.as_deref().unwrap_or_default().lines();
        let stored = stored.filter_map(|line| line.strip_prefix("E:"));
        let properties =
            ["DEVTYPE=disk", "SUBSYSTEM=block"].into_iter().chain(uevent.lines()).chain(stored);
        let properties = properties.filter_map(|line| line.split_once('='));
        Self {
            root,
            disk: disk.clone(),
            directory,
            properties: properties
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            has_database: database.is_some(),
        }
    }

    /// Whether all matches of a rule hold at an event; `None` where that is open.
    pub(super) fn fits(&self, rule: &Rule, action: &str, overlay: &Overlay) -> Option<bool> {
        let mut fits = Some(true);
        for token in rule.matches() {
            match self.holds(token, action, overlay) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => fits = None,
            }
        }
        fits
    }

    fn holds(&self, token: &Token, action: &str, overlay: &Overlay) -> Option<bool> {
        let text = match token.key.as_str() {
            // One device of the chain up from the disk has to fit. The disk itself fits `!=`.
            "SUBSYSTEMS" if token.value == "usb" => {
                let is_it = token.operator == Operator::Is;
                return if is_it {
                    block::is_on_usb(self.root, &self.directory)
                } else {
                    Some(true)
                };
            }
            "ACTION" => action.to_owned(),
            "SUBSYSTEM" => "block".to_owned(),
            "KERNEL" | "NAME" => self.disk.name.clone(),
            "ENV" => match (overlay.get(&token.attribute), self.properties.get(&token.attribute)) {
                (Some(set), _) => set.clone()?,
                (None, Some(value)) => value.clone(),
                (None, None) if self.has_database => String::new(),
                (None, None) => return None,
            },
            "ATTR" if !token.attribute.contains(['$', '%', '[']) => {
                match self.root.read(&format!("{}/{}", self.directory, token.attribute)) {
                    Reading::Value(text) => text.trim_end().to_owned(),
                    // One that is not there fits nothing, not even `!=`. A captured tree does not
                    // hold every attribute.
                    Reading::Absent(_)
                        if self.root.is_live() || token.attribute.starts_with("queue/") =>
                    {
                        return Some(false);
                    }
                    Reading::Absent(_) | Reading::Unreadable(_) => return None,
                }
            }
            _ => return None,
        };
        // White space at the end counts only if the pattern has some (udev(7)).
        if token.value.contains('$') || token.value.ends_with(char::is_whitespace) {
            return None;
        }
        let holds = if token.ignore_case {
            glob::matches_any(&token.value.to_lowercase(), &text.to_lowercase())
        } else {
            glob::matches_any(&token.value, &text)
        };
        Some(holds == (token.operator == Operator::Is))
    }
}
