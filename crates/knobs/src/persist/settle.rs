//! Turns changes into settings that a file can keep: identities for devices, shares for sizes. A
//! refusal names an alternative.

use floodwall_host::SysRoot;

use super::error::PersistError;
use super::identity::matches;
use super::removable::{self, RemovableError, is_removable};
use super::told_apart::identify;
use super::{Disk, Persisted, Unit, UnitValue, Value, rules, units};
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::Files;
use crate::catalogue::systemd;
use crate::catalogue::target::{Device, Target};
use crate::catalogue::{Knob, Scope, find};
use crate::plan::change::Change;
use crate::plan::dirty_limit::Memory;
use crate::plan::entry::Entry;
use crate::plan::refuse;
use crate::plan::{plan, short};

/// Where a systemd is.
const SYSTEMD: [&str; 3] =
    ["/run/systemd/system", "/usr/lib/systemd/systemd", "/lib/systemd/systemd"];

/// Settings that can be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// All that is kept then.
    pub settings: Persisted,
    /// The devices that were asked about.
    pub devices: Vec<Device>,
    /// What to know, for people.
    pub notes: Vec<String>,
    /// Kept settings that are not in force now: `sda.scheduler: none -> bfq`.
    pub not_in_force: Vec<String>,
}

/// The kept settings with changes added.
///
/// # Errors
/// [`PersistError`] for the first change that can't be kept: half a setting is another setting.
pub fn settle(
    root: &SysRoot,
    files: &dyn Files,
    kept: &Persisted,
    changes: &[Change],
) -> Result<Settled, PersistError> {
    let mut settled = Settled::default();
    let mut asked = Persisted::default();
    // The machine's first: shares of its limit need it.
    for change in changes.iter().filter(|change| change.target == Target::Machine) {
        let value = Value { knob: change.knob, value: change.value.clone() };
        asked = asked.with(&Persisted { machine: vec![value], ..Persisted::default() });
    }
    let machine = kept.with(&asked).machine;
    for change in changes {
        let device = match &change.target {
            Target::Machine => continue,
            Target::Process(_) | Target::Victims => {
                return Err(threads(change, "the process ends; keep the priority of its unit"));
            }
            Target::Device(_) if change.knob.scope == Scope::Journal => {
                return Err(threads(change, "mount the filesystem with journal_ioprio=…"));
            }
            Target::Group { path, device, .. } => {
                let unit = unit_of(root, change, path, device.as_ref())?;
                asked = asked.with(&Persisted { units: vec![unit], ..Persisted::default() });
                continue;
            }
            Target::Device(device) => device,
        };
        let disk = disk_of(root, kept, change, device, &mut settled)?;
        let value = settled_value(change, &machine, is_removable(root, device), files)?;
        let disks = vec![Disk { values: vec![value], ..disk }];
        asked = asked.with(&Persisted { disks, ..Persisted::default() });
    }
    let mut all = kept.with(&asked);
    with_shares(&mut all);
    with_elevators(root, files, &mut all, &mut settled);
    if !asked.disks.is_empty() && !rules::has_reader(root) {
        return Err(PersistError::NoUdev);
    }
    if !asked.units.is_empty() && !SYSTEMD.iter().any(|path| root.exists(path)) {
        return Err(PersistError::NoSystemd);
    }
    let of_units = changes.iter().filter(|change| matches!(change.target, Target::Group { .. }));
    check(root, files, &all, of_units.cloned().collect(), &mut settled)?;
    settled.settings = all;
    Ok(settled)
}

/// The kept settings with those of all removable disks added.
///
/// # Errors
/// [`PersistError`] if this machine can't keep them.
pub fn settle_removable(
    root: &SysRoot,
    files: &dyn Files,
    kept: &Persisted,
    values: Vec<Value>,
) -> Result<Settled, PersistError> {
    if !rules::has_reader(root) {
        return Err(PersistError::NoUdev);
    }
    if !removable::has_strict_limit(root) {
        return Err(RemovableError::NoShare.into());
    }
    let settings = kept.with(&Persisted { removable: values, ..Persisted::default() });
    let mut settled = Settled { devices: removable::plugged_in(root), ..Settled::default() };
    let names: Vec<&str> = settled.devices.iter().map(|device| device.name.as_str()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    settled.notes.push(format!("removable disks that are plugged in now: {names}"));
    check(root, files, &settings, Vec::new(), &mut settled)?;
    settled.settings = settings;
    Ok(settled)
}

/// Refuses what an apply would refuse, of the machine, and of devices and units asked about.
fn check(
    root: &SysRoot,
    files: &dyn Files,
    all: &Persisted,
    of_units: Vec<Change>,
    settled: &mut Settled,
) -> Result<(), PersistError> {
    let changes = [all.changes(root, &settled.devices), of_units].concat();
    let entries = plan(&changes, files)?.entries;
    // A change also saves the kernel's side effects. They need no setting here.
    let asked: Vec<Entry> = entries.into_iter().filter(|entry| entry.new.is_some()).collect();
    settled.notes.extend(refuse::notes(&asked, files, &Memory::read(files)));
    settled.not_in_force = asked
        .iter()
        .map(|entry| {
            let label = entry.label();
            let shown = |state: &Option<State>| {
                state.as_ref().map_or("(not there)".to_owned(), |state| short(&label, state))
            };
            format!("{label}: {} -> {}", shown(&entry.old), shown(&entry.new))
        })
        .collect();
    Ok(())
}

/// The disk as our files know it, or as they are to know it.
fn disk_of(
    root: &SysRoot,
    kept: &Persisted,
    change: &Change,
    device: &Device,
    settled: &mut Settled,
) -> Result<Disk, PersistError> {
    let label = || change.target.label(change.knob);
    if device.number.starts_with("0:") || !device.number.contains(':') {
        return Err(PersistError::NoDisk { label: label(), device: device.name.clone() });
    }
    let known_as = device.name.clone();
    let is_new = !settled.devices.contains(device);
    if is_new {
        settled.devices.push(device.clone());
    }
    if let Some(known) = kept.disks.iter().find(|disk| matches(root, device, &disk.identity)) {
        return Ok(Disk { identity: known.identity.clone(), known_as, values: Vec::new() });
    }
    let (identity, also) = identify(root, device)
        .map_err(|source| PersistError::NoIdentity { label: label(), source })?;
    if is_new {
        let caution = identity.key.caution().map(|text| format!(": {text}")).unwrap_or_default();
        settled.notes.push(format!("{device} is known after a boot by {identity}{caution}"));
        if !also.is_empty() {
            let names = also.join(", ");
            settled.notes.push(format!(
                "{names} lead to the same disk as {device} and get its settings too"
            ));
        }
    }
    Ok(Disk { identity, known_as, values: Vec::new() })
}

/// A change's value as a file can keep it.
fn settled_value(
    change: &Change,
    machine: &[Value],
    is_removable: bool,
    files: &dyn Files,
) -> Result<Value, PersistError> {
    let as_it_is = || Ok(Value { knob: change.knob, value: change.value.clone() });
    if change.knob.name != "bdi.max_bytes" {
        return as_it_is();
    }
    let label = change.target.label(change.knob);
    let limit = machine.iter().find(|value| value.knob.name == "vm.dirty_bytes");
    // Its rule is carried out when it is plugged in, so the share is that of the limit then.
    if limit.is_none() && is_removable {
        return as_it_is();
    }
    let (Some(limit), Some(share)) = (limit, find("bdi.max_ratio_fine")) else {
        return Err(PersistError::MovingShare { label });
    };
    let state = State { path: Target::Machine.path(limit.knob), value: limit.value.clone() };
    let entry = Entry {
        knob: limit.knob,
        target: Target::Machine,
        cell: Cell::of(limit.knob, &Target::Machine, files),
        old: None,
        new: Some(state),
    };
    let ratio = refuse::share_of(change, &[entry], files, &Memory::read(files))?;
    Ok(Value { knob: share, value: ratio.value })
}

/// Turns the kept sizes of disks into shares of the machine's limit, if that is kept in bytes. A
/// size may have been kept before the limit was. A rule that is carried out before the limit is set
/// would take the size for a share of another limit.
fn with_shares(all: &mut Persisted) {
    let hard_limit_bytes = all.hard_limit_bytes();
    for value in all.disks.iter_mut().flat_map(|disk| &mut disk.values) {
        *value = removable::written(value, hard_limit_bytes);
    }
}

/// A tunable means something under its elevator alone: the one that runs is kept with it.
fn with_elevators(root: &SysRoot, files: &dyn Files, all: &mut Persisted, settled: &mut Settled) {
    let Some(scheduler) = find("scheduler") else { return };
    for device in settled.devices.clone() {
        let target = Target::Device(device.clone());
        for disk in all.disks.iter_mut().filter(|disk| matches(root, &device, &disk.identity)) {
            let has =
                |wanted: fn(&Knob) -> bool| disk.values.iter().any(|value| wanted(value.knob));
            if has(|knob| knob.name == "scheduler")
                || !has(|knob| matches!(knob.scope, Scope::Elevator(_)))
            {
                continue;
            }
            if let Some(now) = Cell::of(scheduler, &target, files).read(files).into_value() {
                settled.notes.push(format!(
                    "{device}.scheduler={} is kept with its tunables, which no other elevator has",
                    now.value
                ));
                disk.values.push(Value { knob: scheduler, value: now.value });
            }
        }
    }
}

fn threads(change: &Change, remedy: &str) -> PersistError {
    PersistError::Threads { label: change.label(), remedy: remedy.to_owned() }
}

/// A change as a setting of a unit.
fn unit_of(
    root: &SysRoot,
    change: &Change,
    path: &str,
    device: Option<&Device>,
) -> Result<Unit, PersistError> {
    let label = || change.label();
    if let Some(remedy) = units::refusal(root, change) {
        return Err(PersistError::Group { label: label(), remedy });
    }
    let name = systemd::unit_of(path).to_owned();
    let link = |device: &Device| {
        let none = || PersistError::NoLink {
            label: label(),
            device: device.name.clone(),
            unit: name.clone(),
        };
        units::link_to(root, device).ok_or_else(none)
    };
    let node = device.map(link).transpose()?;
    let value = Value { knob: change.knob, value: change.value.clone() };
    let unit = Unit { name: name.clone(), values: vec![UnitValue { node, value }] };
    let refused = |remedy: String| PersistError::Group { label: label(), remedy };
    match units::overruled(root, &unit).map_err(refused)? {
        Some(stronger) => Err(refused(format!("{stronger}, and is read later; change it there"))),
        None => Ok(unit),
    }
}
