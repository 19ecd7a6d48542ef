//! Taking over what a process that steers holds: for a change that is applied to it, and for one
//! that is rolled back below it.
//!
//! ```text
//! the change's begin (fsynced): what it puts back is what the hold had saved
//!   → intent {what the cells read}  in the change's journal: they are ours
//!   → yield                         in the hold's: they are not its own any more
//!   → the change's own writes
//! ```
//!
//! A crash in between leaves two owners of one value, both of which would put the same value back.
//! It never leaves none. The journal's lock keeps the hold's process from writing meanwhile; a cell
//! that it is writing at this moment is not taken over.

use crate::catalogue::{Scope, find};
use crate::cell::State;
use crate::change::Change;
use crate::files::Files;
use crate::hold;
use crate::journal::{Record, Transaction};
use crate::plan::{Entry, Plan};
use crate::run::{Mode, Run, StepError};
use crate::session::{ApplyError, Session, Steered, occupier};
use crate::target::Target;
use crate::undo::{Fate, Undone};

/// The knob that brings other tunables with it.
const SCHEDULER: &str = "scheduler";

/// A held cell that a change takes over.
pub(crate) struct TakenOver {
    /// The hold's file.
    name: String,
    /// Its place there.
    held: usize,
    /// Its place among the change's entries.
    entry: usize,
    /// The cell's value; `None` if the cell is missing.
    now: Option<State>,
    /// In words; empty for what goes along with another one.
    pub(crate) told: String,
}

impl Steered {
    /// The hold's saved value of a cell, with its place; `None` if the cell is not, or no longer,
    /// the hold's.
    fn saved(&self, entry: &Entry) -> Option<(usize, Option<&State>)> {
        let same = |other: &Entry| other.cell == entry.cell && other.target == entry.target;
        let at = self.transaction.entries.iter().position(same)?;
        let entry = self.transaction.entries.get(at).filter(|_| self.transaction.yielded(at).is_none())?;
        Some((at, entry.old.as_ref()))
    }

    /// Whether it has switched a device's elevator for now.
    fn has_switched(&self, target: &Target) -> bool {
        let mut entries = self.transaction.entries.iter().enumerate();
        entries.any(|(at, e)| e.knob.name == SCHEDULER && e.target == *target && self.transaction.holds(at))
    }

    /// The place of a held cell, with its value; `Err` if it is being written.
    fn holds(&self, entry: &Entry, files: &dyn Files) -> Result<Option<(usize, State)>, ()> {
        let Some((held, _)) = self.saved(entry) else { return Ok(None) };
        if self.transaction.is_under_way(held) {
            return Err(());
        }
        let now = entry.cell.read(files).into_value();
        Ok(now
            .filter(|now| self.transaction.holds(held) && self.transaction.owns(held, now))
            .map(|now| (held, now)))
    }
}

impl Session<'_> {
    /// Undoes a change. If a hold has overwritten a cell of this change, the change first takes the
    /// cell over, so that it can be put back.
    pub(crate) fn undo(&self, name: String, transaction: Transaction, steered: &mut [Steered]) -> Undone {
        let mut run = self.run(name, transaction, Mode::Undo);
        let mut taken = Vec::new();
        let failed = |entry: &Entry, why: String| Undone {
            id: run.transaction.begin.id,
            entries: vec![(entry.label(), Fate::Failed { why })],
            closed: false,
        };
        let entries = &run.transaction.entries;
        for (index, entry) in entries.iter().enumerate() {
            let has_elevator =
                entries.iter().any(|other| other.knob.name == SCHEDULER && other.target == entry.target);
            if let Some(by) = occupier(steered, entry) {
                let why = format!("{by} has been killed and is still inside a write to its queue");
                return Undone {
                    id: run.transaction.begin.id,
                    entries: vec![(entry.label(), Fate::Waits { why })],
                    closed: false,
                };
            }
            for hold in steered.iter() {
                let by = hold::describe(&hold.transaction);
                let beneath = hold.saved(entry).and_then(|(_, old)| old);
                let held = hold.holds(entry, self.files);
                // An elevator's tunables can't be put back under another elevator.
                let depends = find(SCHEDULER).is_some_and(|scheduler| scheduler.resets(entry.knob));
                if depends
                    && !has_elevator
                    && hold.has_switched(&entry.target)
                    && (matches!(held, Ok(Some(_))) || entry.cell.read(self.files).value().is_none())
                {
                    let why =
                        format!("{by} has switched its elevator for now; run it again once that has ended");
                    return failed(entry, why);
                }
                match held {
                    // The hold would put back a value of this change, which lies below it. Or a
                    // crash cut the taking over short.
                    Ok(Some((held, now)))
                        if beneath.is_some_and(|old| run.transaction.owns(index, old))
                            || run.transaction.owns(index, &now) =>
                    {
                        let (name, told) = (hold.name.clone(), String::new());
                        taken.push(TakenOver { name, held, entry: index, now: Some(now), told });
                    }
                    Ok(_) => {}
                    Err(()) => {
                        return failed(entry, format!("{by} is changing it at this moment; run it again"));
                    }
                }
            }
        }
        // Putting back goes on without a journal.
        let _ = self.take_over(&mut run, &taken, steered);
        run.undo()
    }

    /// Moves cells of a hold to a change. The change records them first, so that a crash in between
    /// leaves an owner that puts them back.
    pub(crate) fn take_over(
        &self,
        run: &mut Run<'_>,
        taken: &[TakenOver],
        steered: &mut [Steered],
    ) -> Result<(), StepError> {
        if taken.is_empty() {
            return Ok(());
        }
        // As a write under way: what the change itself has set before stays its own too.
        for one in taken {
            if let Some(to) = one.now.clone() {
                run.note(Record::Intent { entry: one.entry, to })?;
            }
        }
        let to_change = Some(run.transaction.begin.id);
        for one in taken {
            let record = Record::Yield { entry: one.held, to_change };
            self.store.append(&one.name, record.line().as_bytes())?;
            // The next change to be undone has to know.
            if let Some(hold) = steered.iter_mut().find(|hold| hold.name == one.name) {
                hold.transaction.push(record);
            }
        }
        Ok(())
    }

    /// Finds held cells that a plan changes. Their entries inherit the hold's saved values to put
    /// back. A held cell that already has the requested value joins the plan, because the hold
    /// would undo it.
    pub(crate) fn adopt(
        &self,
        plan: &mut Plan,
        changes: &[Change],
        steered: &[Steered],
    ) -> Result<Vec<TakenOver>, ApplyError> {
        let mut taken = Vec::new();
        for hold in steered {
            let by = hold::describe(&hold.transaction);
            for change in changes {
                let entry = change.entry(self.files);
                let known = plan.entries.iter().any(|other| other.cell == entry.cell);
                if known {
                    continue;
                }
                match hold.holds(&entry, self.files) {
                    Ok(Some((_, now))) => plan.entries.push(Entry { new: Some(now), ..entry }),
                    Ok(None) => {}
                    Err(()) => return Err(ApplyError::Steered { label: entry.label(), by }),
                }
            }
            for (index, entry) in plan.entries.iter_mut().enumerate() {
                match hold.holds(entry, self.files) {
                    Ok(Some((held, now))) => {
                        entry.old = hold.transaction.entries.get(held).and_then(|other| other.old.clone());
                        // A cell that goes along with another one needs no message.
                        let told = entry.new.as_ref().map_or_else(String::new, |_| {
                            format!("{}: {by} had set it, and leaves it alone from now on", entry.label())
                        });
                        let (name, now) = (hold.name.clone(), Some(now));
                        taken.push(TakenOver { name, held, entry: index, now, told });
                    }
                    Ok(None) => {}
                    Err(()) => return Err(ApplyError::Steered { label: entry.label(), by }),
                }
            }
            self.adopt_tunables(plan, hold, &mut taken);
        }
        Ok(taken)
    }

    /// If an elevator is taken over, its tunables go with it. Those of the elevator before the hold
    /// are put back later.
    fn adopt_tunables(&self, plan: &mut Plan, hold: &Steered, taken: &mut Vec<TakenOver>) {
        let elevators: Vec<Target> = taken
            .iter()
            .filter(|one| one.name == hold.name)
            .filter_map(|one| plan.entries.get(one.entry))
            .filter(|entry| entry.knob.name == SCHEDULER)
            .map(|entry| entry.target.clone())
            .collect();
        let depends = |entry: &Entry| {
            matches!(entry.knob.scope, Scope::Elevator(_)) && elevators.contains(&entry.target)
        };
        for entry in plan.entries.iter_mut().filter(|entry| depends(entry)) {
            entry.old = hold.saved(entry).and_then(|(_, old)| old.cloned());
        }
        for saved in hold.transaction.entries.iter().filter(|entry| depends(entry) && entry.old.is_some()) {
            let Some((held, _)) = hold.saved(saved) else { continue };
            let known = plan.entries.iter().position(|other| other.cell == saved.cell);
            if known.is_some_and(|at| taken.iter().any(|one| one.entry == at)) {
                continue;
            }
            let entry = known.unwrap_or_else(|| {
                plan.entries.push(Entry { new: None, ..saved.clone() });
                plan.entries.len() - 1
            });
            let now = saved.cell.read(self.files).into_value();
            taken.push(TakenOver { name: hold.name.clone(), held, entry, now, told: String::new() });
        }
    }
}
