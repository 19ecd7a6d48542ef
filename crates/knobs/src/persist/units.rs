//! Drop-ins of systemd's units: limits of their control groups, and the I/O priority of services.
//!
//! ```text
//! [Service]
//! MemoryHigh=1073741824
//! IOWriteBandwidthMax=/dev/disk/by-id/wwn-0x5000c500a1b2c3d4 50000000
//! ```
//!
//! - **Order.** systemd reads a unit's drop-ins in the order of their names alone
//!   (src/shared/dropin.c). Floodwall's comes before `50-PROPERTY.conf`, which `systemctl
//!   set-property` makes, so that `floodwall apply` has the last word until it is put back. A file
//!   of `systemctl edit` (`override.conf`) has it in any case.
//! - **Devices** are named by a link in /dev/disk that goes with the device.

use floodwall_host::SysRoot;

use super::value::Value;
use crate::catalogue::systemd::{self, IO_MAX, section, unit_of};
use crate::catalogue::target::{Device, Target};
use crate::catalogue::value::{Form, check};
use crate::catalogue::{Knob, Scope, find};
use crate::plan::change::Change;

/// Where administrators' drop-ins are.
const TOP: &str = "/etc/systemd/system";
/// Our drop-in of each unit.
const NAME: &str = "49-floodwall.conf";
/// Directories of names that go with a device, best first.
const LINKS: [&str; 2] = ["/dev/disk/by-id", "/dev/disk/by-path"];
/// Of transient units, which end with their processes.
const TRANSIENT: &str = "/run/systemd/transient";

/// Knobs with a device or without, the key in the knob's value, and the setting with the unit
/// behind its value (systemd.resource-control(5)).
const SETTINGS: [(&str, bool, &str, &str, &str); 8] = [
    ("memory.high", false, "", "MemoryHigh", ""),
    ("io.weight", false, "", "IOWeight", ""),
    ("io.weight", true, "", "IODeviceWeight", ""),
    ("io.max", true, IO_MAX[0].0, IO_MAX[0].1, ""),
    ("io.max", true, IO_MAX[1].0, IO_MAX[1].1, ""),
    ("io.max", true, IO_MAX[2].0, IO_MAX[2].1, ""),
    ("io.max", true, IO_MAX[3].0, IO_MAX[3].1, ""),
    ("io.latency", true, "target", "IODeviceLatencyTargetSec", "us"),
];
/// systemd.exec(5).
const CLASS: &str = "IOSchedulingClass";
const LEVEL: &str = "IOSchedulingPriority";
const CLASSES: [(&str, &str); 4] =
    [("rt", "realtime"), ("be", "best-effort"), ("idle", "idle"), ("none", "none")];

/// A setting of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitValue {
    /// The device's path, where the knob has a value for each device.
    pub node: Option<String>,
    /// The knob and its value.
    pub value: Value,
}

/// A unit's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its name, such as `backup.service`.
    pub name: String,
    /// Its knobs.
    pub values: Vec<UnitValue>,
}

impl Unit {
    /// Where its drop-in is.
    #[must_use]
    pub fn path(&self) -> String {
        path(&self.name)
    }

    /// Puts a value in the place of the one of the same cell. Keys that it does not name keep their
    /// values.
    pub(crate) fn put(&mut self, new: &UnitValue) {
        let same = |old: &&mut UnitValue| old.node == new.node && old.value.knob == new.value.knob;
        match self.values.iter_mut().find(same) {
            Some(old) => old.value.value = merged(&old.value.value, &new.value.value),
            None => self.values.push(new.clone()),
        }
    }

    /// The text below the file's first two lines.
    pub(crate) fn body(&self) -> String {
        let settings = self.values.iter().flat_map(|one| settings(&one.value, one.node.as_deref()));
        let lines = settings.map(|(name, value)| format!("{name}={value}\n"));
        format!("[{}]\n{}", section(&self.name).unwrap_or_default(), lines.collect::<String>())
    }
}

/// Where a unit's drop-in is.
fn path(unit: &str) -> String {
    format!("{TOP}/{unit}.d/{NAME}")
}

/// Units that have a directory of drop-ins.
fn with_drop_ins(root: &SysRoot) -> Vec<String> {
    let names = root.list(TOP).into_value().unwrap_or_default();
    let units = names.iter().filter_map(|name| name.strip_suffix(".d"));
    units.filter(|unit| section(unit).is_some()).map(str::to_owned).collect()
}

/// The directories of units' drop-ins.
pub(super) fn directories(root: &SysRoot) -> Vec<String> {
    with_drop_ins(root).iter().map(|unit| format!("{TOP}/{unit}.d")).collect()
}

/// Units that have a drop-in of this name, and its path.
pub(super) fn all(root: &SysRoot) -> Vec<(String, String)> {
    let all = with_drop_ins(root).into_iter().map(|unit| (path(&unit), unit));
    all.filter(|(path, _)| root.exists(path)).map(|(path, unit)| (unit, path)).collect()
}

/// Merges two lists of `key=value`; the new one wins.
fn merged(old: &str, new: &str) -> String {
    if !new.contains('=') {
        return new.to_owned();
    }
    let key = |pair: &&str| pair.split('=').next().unwrap_or_default().to_owned();
    let replaced = |pair: &&str| new.split(' ').any(|other| key(&other) == key(pair));
    let kept = old.split(' ').filter(|pair| !replaced(pair));
    kept.chain(new.split(' ')).collect::<Vec<_>>().join(" ")
}

/// The settings that a value comes to, in the order of the table; none if systemd has none for it.
pub(crate) fn settings(value: &Value, node: Option<&str>) -> Vec<(&'static str, String)> {
    if value.knob.scope == Scope::Threads {
        let (class, level) = value.value.split_once('/').unwrap_or((&value.value, ""));
        let class =
            CLASSES.iter().find(|(short, _)| *short == class).map_or("none", |(_, name)| *name);
        let mut all = vec![(CLASS, class.to_owned())];
        if !level.is_empty() {
            all.push((LEVEL, level.to_owned()));
        }
        return all;
    }
    let of_key = |key: &str| match key {
        "" => Some(value.value.as_str()),
        _ => value.value.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')),
    };
    let mine = SETTINGS
        .iter()
        .filter(|(name, device, ..)| *name == value.knob.name && *device == node.is_some());
    mine.filter_map(|(_, _, key, name, unit)| {
        let value = match of_key(key)? {
            "max" => "infinity".to_owned(),
            value => format!("{value}{unit}"),
        };
        Some((*name, node.map_or_else(|| value.clone(), |node| format!("{node} {value}"))))
    })
    .collect()
}

/// Parses the output of [`Unit::body`].
///
/// # Errors
/// A line that it did not write.
pub(super) fn parse(unit: &str, body: &str) -> Result<Unit, String> {
    let mut read = Unit { name: unit.to_owned(), values: Vec::new() };
    let head = format!("[{}]\n", section(unit).unwrap_or_default());
    let lines = body.strip_prefix(&head).ok_or("its section is not understood")?;
    for line in lines.lines() {
        let one = line.split_once('=').and_then(|(name, value)| parse_line(&read, name, value));
        read.put(&one.ok_or_else(|| format!("'{line}' is not understood"))?);
    }
    Ok(read)
}

/// A setting, behind those that are read already.
fn parse_line(read: &Unit, name: &str, value: &str) -> Option<UnitValue> {
    let of = |knob: &'static Knob, value: &str, node: Option<&str>| {
        let value = Value { knob, value: check(knob, value, Form::Kernel).ok()? };
        Some(UnitValue { node: node.map(str::to_owned), value })
    };
    if name == CLASS {
        let (short, _) = CLASSES.iter().find(|(_, long)| *long == value)?;
        // The next line has the level.
        let level = if matches!(*short, "rt" | "be") { "/0" } else { "" };
        return of(find("ioprio")?, &format!("{short}{level}"), None);
    }
    if name == LEVEL {
        let class = read.values.iter().find(|one| one.value.knob.scope == Scope::Threads)?;
        let (class, _) = class.value.value.split_once('/')?;
        return of(find("ioprio")?, &format!("{class}/{value}"), None);
    }
    let (knob, device, key, _, unit) =
        SETTINGS.iter().find(|(_, _, _, setting, _)| *setting == name)?;
    let (node, value) = if *device { value.rsplit_once(' ')? } else { ("", value) };
    let value = if value == "infinity" { "max" } else { value.strip_suffix(unit)? };
    let value = if key.is_empty() { value.to_owned() } else { format!("{key}={value}") };
    of(find(knob)?, &value, device.then_some(node))
}

/// Why nothing keeps the settings of a group that is no unit.
pub(crate) fn no_unit(path: &str) -> String {
    format!(
        "{path} is no unit of systemd's, and no format keeps its settings; run its processes as a \
         unit, or write the value where the group is made"
    )
}

/// Why a unit's settings can't be kept in a drop-in: what to do instead. `None` if they can.
pub(crate) fn refusal(root: &SysRoot, change: &Change) -> Option<String> {
    let Target::Group { path, device, .. } = &change.target else { return None };
    let unit = unit_of(path);
    let value = Value { knob: change.knob, value: change.value.clone() };
    let all = settings(&value, device.as_ref().map(|_| "DEVICE"));
    let wanted: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let wanted = wanted.join(" ");
    if all.is_empty() {
        return Some(
            "systemd has no setting for it; run floodwall apply from a unit at boot".to_owned(),
        );
    }
    let Some(section) = section(unit) else { return Some(no_unit(path)) };
    if let Some(manager) = manager_of(path) {
        return Some(if manager.starts_with("user@") {
            format!("{unit} is a user's; run systemctl --user edit {unit}, and set {wanted}")
        } else {
            format!(
                "{unit} belongs to a container or another manager, {manager}; set {wanted} there"
            )
        });
    }
    match section {
        "Scope" => Some(format!(
            "a scope ends with its processes; set {wanted} where it is made, or in its slice"
        )),
        _ if root.exists(&format!("{TRANSIENT}/{unit}")) => Some(format!(
            "{unit} is transient; set {wanted} where it is made, as in systemd-run -p"
        )),
        _ if change.knob.scope == Scope::Threads && section != "Service" => {
            Some(format!("a priority is a service's; set {wanted} in the services of {unit}"))
        }
        _ => device.as_ref().and_then(|device| systemd::ask::takes_another(root, device)),
    }
}

/// The unit below which a group is, if that is no slice: systemd's own units are in slices alone.
fn manager_of(group: &str) -> Option<&str> {
    let (above, _) = group.rsplit_once('/')?;
    above.split('/').find(|part| section(part) != Some("Slice"))
}

/// A drop-in of a unit that is read after Floodwall's and sets the same property, as systemd lists
/// them.
///
/// # Errors
/// Why systemd does not tell them.
pub(super) fn overruled(root: &SysRoot, unit: &Unit) -> Result<Option<String>, String> {
    let all = unit.values.iter().flat_map(|one| settings(&one.value, one.node.as_deref()));
    let names: Vec<&str> = all.map(|(name, _)| name).collect();
    let drop_ins = systemd::ask::lasting_drop_ins(root, &unit.name)?;
    let read = |path: &str| root.read(path).into_value().unwrap_or_default();
    Ok(systemd::stronger(drop_ins.iter().map(String::as_str), read, |_| NAME.to_owned(), &names))
}

/// A path in /dev/disk that goes with a device; `None` if nothing there leads to it.
pub(crate) fn link_to(root: &SysRoot, device: &Device) -> Option<String> {
    let is_plain = |name: &&String| {
        name.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '%' | '"' | '\'' | '\\'))
    };
    let leads_there = |path: &String| {
        root.link_target(path)
            .value()
            .is_some_and(|to| to.rsplit('/').next() == Some(device.name.as_str()))
    };
    LINKS.iter().find_map(|directory| {
        let names = root.list(directory).into_value().unwrap_or_default();
        names.iter().filter(is_plain).map(|name| format!("{directory}/{name}")).find(leads_there)
    })
}
