//! udev rules that set a disk's queue, elevator or backing device, or a sysctl.
//!
//! ```text
//! rules.d files (by name, masked by directory) → rule::parse → for every disk and event: device::fits → assignments
//!                                                              GOTO, LABEL and ENV are followed within a file
//! ```
//!
//! Rules are applied when a device appears and at each of its "change" events, so they come back
//! without a reboot. Of several rules for one attribute the last one's value stays. A rule that
//! depends on something unknown here (a program's result) is one that *may* apply.

mod command;
mod device;
mod rule;

use std::collections::HashSet;

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Place, Standing};

use self::device::{Device, Overlay, Truth};
use self::rule::{Operator, Rule};
use super::drop_ins::{self, DropIn};
use super::{Found, Source, Wanted, reach, redact, shipped};

pub(super) const DIRECTORIES: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];
/// A file without any of these sets no knob of Floodwall's.
const SIGNS: [&str; 3] = ["queue/", "bdi/", "dirty_"];
/// The events at which rules are applied: a device appears (or is there at boot), and something
/// about it changes.
const ACTIONS: [&str; 2] = ["add", "change"];
const WHEN: &str = "when the device appears and at each of its change events";

/// Collects what the rules set.
pub(super) fn read(found: &mut Found<'_>) {
    let mut any = false;
    let files = drop_ins::list(found, &DIRECTORIES, ".rules");
    let disks = found.disks.clone();
    let mut devices: Option<Vec<Device<'_>>> = None;
    for file in files {
        if drop_ins::is_null(found, &file.path) {
            continue;
        }
        let Some(text) = found.text(&file.path) else { continue };
        if !SIGNS.iter().chain(&shipped::PROGRAMS).any(|sign| text.contains(sign)) {
            continue;
        }
        let (rules, wrong) = rule::parse(&text);
        for (line, why) in wrong {
            found.unread(
                &format!("{}:{line}", file.path),
                &format!("unreadable: udev ignores the rule: {why}"),
            );
        }
        let root = found.root;
        let devices =
            devices.get_or_insert_with(|| disks.iter().map(|disk| Device::new(root, disk)).collect());
        any |= claim(found, &file, &rules, devices, &disks);
    }
    if any {
        found.present(Manager {
            kind: Kind::Udev,
            name: "udev rules".to_owned(),
            running: Reading::Absent("rules are applied at devices' events".to_owned()),
            at_boot: Reading::Value(true),
        });
    }
}

/// One knob that a rule sets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    line: u32,
    knob: String,
    machine: bool,
    /// The disk that a command names; `None` for the event's own.
    disk: Option<String>,
    value: Option<String>,
    written: String,
}

/// What of a file is stored with a captured tree: rules that set knobs, those that decide whether
/// they are reached, each on its first line.
pub(super) fn kept(text: &str) -> String {
    let mut kept: Vec<(u32, String)> = Vec::new();
    if SIGNS.iter().chain(&shipped::PROGRAMS).any(|sign| text.contains(sign)) {
        let (rules, _) = rule::parse(text);
        let lines =
            rules.iter().filter_map(|rule| Some((rule.line, rule.kept(|token| decides(rule, token))?)));
        kept.extend(lines);
    }
    let at = |number: u32| kept.iter().find(|(line, _)| *line == number).map(|(_, text)| text.clone());
    let mut number = 0;
    let comments = redact::lines(text, |_| Some(String::new()));
    let lines = comments.lines().map(|line| {
        number += 1;
        at(number).unwrap_or_else(|| line.to_owned()) + "\n"
    });
    lines.collect()
}

/// Whether an assignment sets a knob, or decides which other rules are reached.
fn decides(rule: &Rule, token: &rule::Token) -> bool {
    let alone = Rule { line: rule.line, tokens: vec![token.clone()] };
    matches!(token.key.as_str(), "GOTO" | "LABEL" | "ENV") || !settings(&alone).is_empty()
}

/// Whether an attribute or a property identifies a disk or its owner.
pub(super) fn is_private(name: &str) -> bool {
    const PARTS: [&str; 7] = ["serial", "wwid", "wwn", "uuid", "label", "address", "eui"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

/// Notes the claims of a file. Says whether there were any.
fn claim(
    found: &mut Found<'_>,
    file: &DropIn,
    rules: &[Rule],
    devices: &[Device<'_>],
    disks: &[super::Disk],
) -> bool {
    let settings: Vec<(&Rule, Vec<Setting>)> = rules
        .iter()
        .map(|rule| (rule, settings(rule)))
        .filter(|(_, settings)| !settings.is_empty())
        .collect();
    if settings.is_empty() {
        return false;
    }
    if let Some(by) = &file.masked_by {
        for (rule, setting) in settings.iter().flat_map(|(rule, all)| all.iter().map(move |s| (*rule, s))) {
            let standing = Standing::NotApplied { why: format!("{by} is read in its place") };
            note(found, file, setting, Place::Matching(matches_of(rule)), standing);
        }
        return true;
    }
    // Rules of the machine's knobs are applied by every device that fits; noted once.
    let mut noted: HashSet<(u32, String)> = HashSet::new();
    for (device, disk) in devices.iter().zip(disks) {
        let reached = walk(rules, device);
        for ((_, all), truth) in
            settings.iter().zip(settings.iter().map(|(rule, _)| reached_at(&reached, rule.line)))
        {
            for setting in all {
                let elsewhere = setting.disk.as_deref().is_some_and(|name| !device.is_called(name));
                let standing = match &truth {
                    Truth::No => continue,
                    _ if elsewhere => continue,
                    Truth::Maybe(why) => Standing::Uncertain { why: why.clone() },
                    Truth::Yes => Standing::Wins,
                };
                let first = noted.insert((setting.line, setting.knob.clone()));
                if setting.machine && !first {
                    continue;
                }
                let place = if setting.machine { Place::Machine } else { disk.place() };
                note(found, file, setting, place, standing);
            }
        }
    }
    for (rule, setting) in settings.iter().flat_map(|(rule, all)| all.iter().map(move |s| (*rule, s))) {
        if !noted.contains(&(setting.line, setting.knob.clone())) {
            let standing = Standing::NotApplied { why: super::NO_DEVICE.to_owned() };
            note(found, file, setting, Place::Matching(matches_of(rule)), standing);
        }
    }
    true
}

fn note(found: &mut Found<'_>, file: &DropIn, setting: &Setting, place: Place, standing: Standing) {
    let source = Source {
        by: Kind::Udev,
        who: "a udev rule",
        file: &file.path,
        line: Some(setting.line),
        when: WHEN,
        settle: drop_ins::how_to_settle(
            &file.path,
            setting.line,
            "/etc/udev/rules.d",
            ", then run udevadm control --reload",
        ),
    };
    let wanted = Wanted { knob: &setting.knob, value: setting.value.clone(), written: &setting.written };
    found.claim(&source, place, wanted, standing);
}

/// What a rule sets.
fn settings(rule: &Rule) -> Vec<Setting> {
    let mut all = Vec::new();
    for token in rule.assignments() {
        let attribute = token.attribute.as_deref().unwrap_or_default();
        // A value with substitutions is put together at the event.
        let value = (!token.value.contains(['$', '%'])).then(|| token.value.trim().to_owned());
        let setting = |knob: &str, machine, value, disk| Setting {
            line: rule.line,
            knob: knob.to_owned(),
            machine,
            disk,
            value,
            written: token.value.clone(),
        };
        match token.key.as_str() {
            "ATTR" => {
                all.extend(reach::of_attribute(attribute).map(|knob| setting(&knob, false, value, None)));
            }
            "SYSCTL" => {
                all.extend(reach::of_sysctl(attribute).map(|knob| setting(knob, true, value, None)));
            }
            "RUN" if attribute != "builtin" => {
                let effects = command::effects(&token.value).into_iter();
                all.extend(effects.map(|e| setting(&e.knob, e.disk.is_none(), e.value, e.disk)));
            }
            _ => {}
        }
    }
    all
}

/// How far the rules of a file are reached and fit, by line, over all events.
fn walk(rules: &[Rule], device: &Device<'_>) -> Vec<(u32, Truth)> {
    let mut reached: Vec<(u32, Truth)> = Vec::new();
    for action in ACTIONS {
        for (line, truth) in walk_once(rules, device, action) {
            match reached.iter_mut().find(|(at, _)| *at == line) {
                Some((_, known)) => *known = known.clone().or(truth),
                None => reached.push((line, truth)),
            }
        }
    }
    reached
}

fn reached_at(reached: &[(u32, Truth)], line: u32) -> Truth {
    reached.iter().find(|(at, _)| *at == line).map_or(Truth::No, |(_, truth)| truth.clone())
}

fn walk_once(rules: &[Rule], device: &Device<'_>, action: &str) -> Vec<(u32, Truth)> {
    let mut overlay = Overlay::new();
    let mut reached = Vec::new();
    // A jump that is certain, and labels of jumps that may have been taken, with the reason.
    let mut jumping_to: Option<&str> = None;
    let mut doubts: Vec<(&str, String)> = Vec::new();
    for rule in rules {
        if let Some(label) = rule.set("LABEL") {
            doubts.retain(|(to, _)| *to != label);
            if jumping_to == Some(label) {
                jumping_to = None;
            }
        }
        if jumping_to.is_some() {
            continue;
        }
        let doubt = doubts.first().map_or(Truth::Yes, |(_, why)| Truth::Maybe(why.clone()));
        let truth = device.fits(rule, action, &overlay).and(doubt);
        if truth == Truth::No {
            continue;
        }
        for token in rule.tokens.iter().filter(|t| t.key == "ENV" && t.operator == Operator::Set) {
            let certain = truth == Truth::Yes && !token.value.contains(['$', '%']);
            let value = certain.then(|| token.value.clone());
            overlay.insert(token.attribute.clone().unwrap_or_default(), value);
        }
        match (rule.set("GOTO"), &truth) {
            (Some(label), Truth::Yes) => jumping_to = Some(label),
            (Some(label), Truth::Maybe(why)) => doubts.push((label, why.clone())),
            _ => {}
        }
        reached.push((rule.line, truth));
    }
    reached
}

/// What a rule asks of a device, without what every rule asks.
fn matches_of(rule: &Rule) -> String {
    let said =
        |token: &&rule::Token| token.key != "ACTION" && !(token.key == "SUBSYSTEM" && token.value == "block");
    let matches: Vec<String> = rule.matches().filter(said).map(device::shown).collect();
    if matches.is_empty() { "any name".to_owned() } else { matches.join(", ") }
}
