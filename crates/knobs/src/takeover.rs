//! Taking over what a process that steers holds: for a change that is applied to it, and for one that is rolled back below it.
//!
//! ```text
//! the change's begin (fsynced): what it puts back is what the hold had saved
//!   → done {what the cells read}    in the change's journal: they are ours
//!   → yield                         in the hold's: they are not its own any more
//!   → the change's own writes
//! ```
//!
//! A crash in between leaves two owners of one value, who would both put the same one back, never none. The journal's lock keeps the hold's process from writing
//! meanwhile; a cell that it is writing at this moment is not taken over.

use crate::cell::{Cell, State};
use crate::change::Change;
use crate::files::Files;
use crate::hold;
use crate::journal::{Reading, Record, Transaction};
use crate::plan::{Entry, Plan};
use crate::run::{Mode, Run, StepError};
use crate::session::{ApplyError, Session, Steered};
use crate::undo::{Fate, Undone};

/// A held cell that a change takes over.
pub(crate) struct TakenOver {
    /// The hold's file.
    name: String,
    /// Its place there.
    held: usize,
    /// Its place among the change's entries.
    entry: usize,
    /// What it reads.
    now: State,
    /// In words.
    pub(crate) told: String,
}

impl Steered {
    /// The place of a cell that is held, with what it reads; `Err` if it is being written.
    fn holds(&self, entry: &Entry, files: &dyn Files) -> Result<Option<(usize, State)>, ()> {
        let same = |other: &Entry| other.cell == entry.cell && other.target == entry.target;
        let Some(held) = self.transaction.entries.iter().position(same) else { return Ok(None) };
        if self.transaction.yielded(held).is_some() {
            return Ok(None);
        }
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
    /// Undoes a change. What it has set and a hold has written over is taken over first, so that it can be put back.
    pub(crate) fn undo(&self, name: String, transaction: Transaction, steered: &[Steered]) -> Undone {
        let mut run = self.run(name, transaction, Mode::Undo);
        let mut taken = Vec::new();
        for (index, entry) in run.transaction.entries.iter().enumerate() {
            for hold in steered {
                let beneath =
                    |held: usize| hold.transaction.entries.get(held).and_then(|other| other.old.as_ref());
                match hold.holds(entry, self.files) {
                    // What the hold would put back is ours: it is below it.
                    Ok(Some((held, now)))
                        if beneath(held).is_some_and(|old| run.transaction.owns(index, old)) =>
                    {
                        let (name, told) = (hold.name.clone(), String::new());
                        taken.push(TakenOver { name, held, entry: index, now, told });
                    }
                    Ok(_) => {}
                    Err(()) => {
                        let by = hold::describe(&hold.transaction);
                        let why = format!("{by} is changing it at this moment; run it again");
                        let entries = vec![(entry.label(), Fate::Failed { why })];
                        return Undone { id: run.transaction.begin.id, entries, closed: false };
                    }
                }
            }
        }
        // Putting back goes on without a journal.
        let _ = self.take_over(&mut run, &taken);
        run.undo()
    }

    /// Makes cells of a hold a change's own: noted there first, so that somebody puts them back whatever happens in between.
    pub(crate) fn take_over(&self, run: &mut Run<'_>, taken: &[TakenOver]) -> Result<(), StepError> {
        if taken.is_empty() {
            return Ok(());
        }
        let reading = |one: &TakenOver| Reading { entry: one.entry, state: Some(one.now.clone()) };
        run.note(Record::Done { readings: taken.iter().map(reading).collect() })?;
        let to_change = Some(run.transaction.begin.id);
        for one in taken {
            let record = Record::Yield { entry: one.held, to_change };
            self.store.append(&one.name, record.line().as_bytes())?;
        }
        Ok(())
    }

    /// Finds what a plan changes and a hold holds. What such an entry is to be put back to is what the hold had saved. A cell that holds what is asked for,
    /// but only for as long as it is held, joins the plan.
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
                let cell = Cell::of(change.knob, &change.target, self.files);
                let (knob, target) = (change.knob, change.target.clone());
                let entry = Entry { knob, target, cell, old: None, new: None };
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
                        let told =
                            format!("{}: {by} had set it, and leaves it alone from now on", entry.label());
                        taken.push(TakenOver { name: hold.name.clone(), held, entry: index, now, told });
                    }
                    Ok(None) => {}
                    Err(()) => return Err(ApplyError::Steered { label: entry.label(), by }),
                }
            }
        }
        Ok(taken)
    }
}
