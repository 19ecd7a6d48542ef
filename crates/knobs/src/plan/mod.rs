//! Plans: from requested changes to ordered writes, with the other knobs to save, and refusals.
//!
//! ```text
//! changes → cells, current states → refusals (a limit that would stop writers, a wrong elevator …)
//!         → entries: what is changed, and what the kernel changes with it (saved too)
//!         → order → steps          → notes for people
//! ```
//!
//! Reads and never writes; a `--dry-run` prints [`Plan::writes`].
//!
//! ```text
//! change       "sda.scheduler=bfq" → knob, target, checked value
//! defaults     the kernel's defaults as changes
//! entry        what a plan is made of; order: which write comes first
//! refuse       changes that would do harm, and notes about the others; error: refusals in words
//! dirty_limit  the machine's memory and its limits in pages; size: limits from bandwidth × delay
//! rivals       other managers that will fight a plan
//! ```

pub mod change;
mod defaults;
pub(crate) mod dirty_limit;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod order;
pub(crate) mod refuse;
pub mod rivals;
pub mod size;

pub use defaults::defaults;

use std::collections::BTreeSet;
use std::fmt;

use floodwall_host::queue::choices;
use floodwall_model::{Bytes, Reading};

use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::{CGROUPS, Files, read_line};
use crate::catalogue::target::{Device, Target, TargetError};
use crate::catalogue::{Scope, knobs};
use crate::plan::change::Change;
use crate::plan::dirty_limit::Memory;
use crate::plan::entry::{Entry, Step};
use crate::plan::error::PlanError;
use crate::plan::order::order;

/// The steps of a change, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The cells that change.
    pub entries: Vec<Entry>,
    /// The writes.
    pub steps: Vec<Step>,
    /// What to know, for people.
    pub notes: Vec<String>,
}

impl Plan {
    /// Whether everything is as asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether both plans change the same cells, and find the same values in them. New values may
    /// differ between two plans of the same changes: a share of the dirty limit follows the free
    /// memory.
    #[must_use]
    pub fn finds_the_same_as(&self, other: &Self) -> bool {
        let found = |plan: &Self| -> Vec<(String, Option<State>)> {
            plan.entries.iter().map(|entry| (entry.label(), entry.old.clone())).collect()
        };
        found(self) == found(other)
    }

    /// The exact writes, one a line, as they would be made now.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &self.steps {
            let Some(entry) = self.entries.get(step.entry()) else { continue };
            if let Step::Lower { limit_bytes, .. } = step {
                let limit = Bytes(*limit_bytes);
                lines.push(format!(
                    "# in steps of at most 10 % each 200 ms while more than {limit} is dirty, then:"
                ));
            }
            let line = |state: &State| match entry.cell {
                Cell::Priorities(_) => {
                    format!(
                        "# ioprio_set(2) of every thread of {}: {}",
                        entry.target.owner(),
                        state.value
                    )
                }
                Cell::Property { .. } => entry.systemctl(state),
                _ => format!("echo {state}"),
            };
            lines.extend(entry.cell.way(entry.old.as_ref(), step.to()).iter().map(line));
        }
        lines
    }
}

/// Makes a plan of changes.
///
/// # Errors
/// [`PlanError`]. Nothing is ever written here.
pub fn plan(changes: &[Change], files: &dyn Files) -> Result<Plan, PlanError> {
    let memory = Memory::read(files);
    let mut asked: Vec<Entry> = Vec::new();
    for change in changes {
        asked.push(entry_of(change, changes, &asked, files)?);
    }
    // Shares of the hard limit need the limit that the plan ends with.
    for (index, change) in changes.iter().enumerate() {
        if change.knob.name == "bdi.max_bytes" {
            let wanted = refuse::share_of(change, &asked, files, &memory)?;
            if let Some(entry) = asked.get_mut(index) {
                entry.new = Some(wanted);
            }
        }
    }
    refuse::check(&asked, files)?;
    refuse::servers::check(&asked, files)?;
    let entries = with_side_effects(keep_what_changes(asked), files);
    let wanted: Vec<(usize, State)> = entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, wanted_state(entry, &entries)?)))
        .collect();
    let steps = order(&entries, &wanted, files);
    let notes = refuse::notes(&entries, files, &memory);
    Ok(Plan { entries, steps, notes })
}

/// An entry's value at the end: the requested one, or the old one if a neighbour resets it and it
/// is to be kept.
fn wanted_state(entry: &Entry, entries: &[Entry]) -> Option<State> {
    if entry.new.is_some() {
        return entry.new.clone();
    }
    let kept = entries
        .iter()
        .any(|other| other.knob.resets.iter().any(|reset| reset.keep && reset.covers(entry.knob)));
    if kept { entry.old.clone() } else { None }
}

fn entry_of(
    change: &Change,
    all: &[Change],
    before: &[Entry],
    files: &dyn Files,
) -> Result<Entry, PlanError> {
    let label = change.target.label(change.knob);
    if change.target == Target::Victims {
        let why = "compare and tune alone have victims; name a process (pid:NUMBER.ioprio=…) or a \
            unit (unit:NAME:ioprio=…)";
        return Err(PlanError::Refused { label, why: why.to_owned() });
    }
    if let Scope::Elevator(elevators) = change.knob.scope {
        check_elevator(change, all, elevators, files)?;
    }
    let cell = Cell::of(change.knob, &change.target, files);
    if let Some(other) = before.iter().find(|other| other.cell == cell) {
        return Err(PlanError::SameCell { first: other.label(), second: label });
    }
    let old = match cell.read(files) {
        Reading::Value(state) => Some(state),
        // A tunable of the elevator that the plan switches to: checked above.
        Reading::Absent(_)
            if matches!(change.knob.scope, Scope::Elevator(_)) && switches(change, all) =>
        {
            None
        }
        Reading::Absent(why) => {
            if let Target::Group { path, .. } = &change.target
                && files.list(&format!("{CGROUPS}/{path}")).is_empty()
            {
                let group = path.clone();
                return Err(if files.read(&format!("{CGROUPS}/cgroup.controllers")).is_ok() {
                    PlanError::NoGroup { label, group }
                } else {
                    PlanError::NoVersion2 { label, why: TargetError::NoVersion2(group) }
                });
            }
            return Err(PlanError::NotThere { label, why, needs: change.knob.needs });
        }
        // systemd does not answer, or has not been asked: no privilege is missing.
        Reading::Unreadable(why) if matches!(cell, Cell::Property { .. }) => {
            return Err(PlanError::Refused { label, why });
        }
        Reading::Unreadable(why) => return Err(PlanError::Unreadable { label, why }),
    };
    if change.knob.name == "scheduler" {
        check_available(change, files)?;
    }
    let new = Some(cell.wanted(change.knob, &change.target, &change.value, old.as_ref()));
    Ok(Entry { knob: change.knob, target: change.target.clone(), cell, old, new })
}

/// The elevator that the plan switches this change's device to.
fn planned_elevator<'a>(change: &Change, all: &'a [Change]) -> Option<&'a str> {
    all.iter()
        .find(|other| other.knob.name == "scheduler" && other.target == change.target)
        .map(|other| other.value.as_str())
}

fn switches(change: &Change, all: &[Change]) -> bool {
    planned_elevator(change, all).is_some()
}

fn check_elevator(
    change: &Change,
    all: &[Change],
    elevators: &[&'static str],
    files: &dyn Files,
) -> Result<(), PlanError> {
    let Some(device) = change.target.device() else { return Ok(()) };
    let current = match planned_elevator(change, all) {
        Some(planned) => planned.to_owned(),
        None => match scheduler_of(device, files) {
            Some(current) => current,
            None => return Ok(()),
        },
    };
    if elevators.contains(&current.as_str()) {
        return Ok(());
    }
    Err(PlanError::WrongElevator {
        label: change.target.label(change.knob),
        elevators: elevators.join(" or "),
        first: elevators.first().copied().unwrap_or_default(),
        device: device.to_string(),
        current,
    })
}

fn scheduler_of(device: &Device, files: &dyn Files) -> Option<String> {
    let knob = knobs().find(|knob| knob.name == "scheduler")?;
    let target = Target::Device(device.clone());
    let state = Cell::of(knob, &target, files).read(files).into_value()?;
    Some(state.value)
}

/// Elevators that mainline builds as modules: listed only once loaded, and loaded by the kernel
/// when named.
const LOADABLE: [&str; 3] = ["mq-deadline", "kyber", "bfq"];

fn check_available(change: &Change, files: &dyn Files) -> Result<(), PlanError> {
    let listed =
        read_line(files, &change.target.path(change.knob)).into_value().unwrap_or_default();
    if choices(&listed).any(|name| name == change.value)
        || LOADABLE.contains(&change.value.as_str())
    {
        return Ok(());
    }
    Err(PlanError::UnknownElevator {
        device: change.target.device().map(ToString::to_string).unwrap_or_default(),
        name: change.value.clone(),
        available: choices(&listed).collect::<Vec<_>>().join(", "),
    })
}

/// Drops entries that are as asked for already, unless one that is not resets them.
fn keep_what_changes(asked: Vec<Entry>) -> Vec<Entry> {
    let changing: Vec<Entry> = asked.iter().filter(|entry| entry.is_changed()).cloned().collect();
    asked
        .into_iter()
        .filter(|entry| entry.is_changed() || changing.iter().any(|other| other.resets(entry)))
        .collect()
}

/// Adds what the kernel changes beside the entries, so that it is saved with them.
fn with_side_effects(mut entries: Vec<Entry>, files: &dyn Files) -> Vec<Entry> {
    let mut index = 0;
    let mut seen: BTreeSet<String> = entries.iter().map(Entry::label).collect();
    while let Some(cause) = entries.get(index).cloned() {
        index += 1;
        let Some(device) = cause.target.device() else { continue };
        let target = Target::Device(device.clone());
        for knob in knobs().filter(|knob| cause.knob.resets(knob)) {
            let cell = Cell::of(knob, &target, files);
            if seen.contains(&target.label(knob)) || entries.iter().any(|other| other.cell == cell)
            {
                continue;
            }
            if let Reading::Value(old) = cell.read(files) {
                seen.insert(target.label(knob));
                entries.push(Entry {
                    knob,
                    target: target.clone(),
                    cell,
                    old: Some(old),
                    new: None,
                });
            }
        }
    }
    entries
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.entries.iter().filter(|entry| entry.new.is_some()) {
            let label = entry.label();
            let shown = |state: &Option<State>| {
                state.as_ref().map_or("(not there)".to_owned(), |state| short(&label, state))
            };
            writeln!(f, "{label}: {} -> {}", shown(&entry.old), shown(&entry.new))?;
        }
        Ok(())
    }
}

/// A state behind its knob's label: the value, with its file's name where a knob is kept in
/// several: `bfq`, `dirty_ratio 20`.
#[must_use]
pub fn short(label: &str, state: &State) -> String {
    let file = state.path.rsplit('/').next().unwrap_or_default();
    let one_of_several = file.ends_with("_bytes") || file.ends_with("_ratio");
    let named = label.strip_suffix(file).is_some_and(|before| before.ends_with(['.', ':']));
    if named && !one_of_several { state.value.clone() } else { format!("{file} {}", state.value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{machine, root_of};
    use crate::{Device, KernelFiles};

    /// A plan on the small machine, some of whose files read otherwise.
    fn plan_with(files: &[(&str, &str)]) -> Plan {
        let mut tree = machine();
        tree.extend(files.iter().map(|(path, text)| ((*path).to_owned(), format!("{text}\n"))));
        let (_dir, root) = root_of(&tree);
        let sda = Device::find(&root, "sda").unwrap();
        let changes = [Change::parse(&root, Some(&sda), "bdi.max_bytes=64MiB").unwrap()];
        plan(&changes, &KernelFiles::new(&root).unwrap()).unwrap()
    }

    #[test]
    fn free_memory_alone_does_not_make_plans_differ() {
        let first = plan_with(&[]);
        let less = "nr_free_pages 2000000\nnr_inactive_file 1000000\nnr_dirty_threshold 600000";
        let second = plan_with(&[("/proc/vmstat", less)]);
        assert_ne!(first.entries, second.entries);
        assert!(first.finds_the_same_as(&second));
        let changed = plan_with(&[("/sys/class/bdi/8:0/max_ratio_fine", "500000")]);
        assert!(!first.finds_the_same_as(&changed));
    }
}
