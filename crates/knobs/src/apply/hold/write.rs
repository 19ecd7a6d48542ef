//! One write of a hold.
//!
//! ```text
//! prepare: is it still ours? ─▶ refusals ─▶ intent   journal locked
//! Prepared::perform: the kernel's files              no lock, as long as it takes
//! finish: read back ─▶ done                          journal locked; the value before if it failed
//! ```
//!
//! Cells that change along with the written one are saved before. Values that others had set are
//! recognised, and restored afterwards.

use floodwall_model::Reading;

use super::{Hold, HoldError, SCHEDULER};
use crate::apply::clock::Clock;
use crate::apply::run::{Mode, StepError};
use crate::apply::session::Session;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::Files;
use crate::catalogue::target::Target;
use crate::catalogue::{Knob, Scope};
use crate::journal::{JournalError, Reading as Found, Record, SavedAt, SavedEntry};
use crate::plan::change::Change;
use crate::plan::dirty_limit::Memory;
use crate::plan::entry::Entry;
use crate::plan::error::PlanError;
use crate::plan::refuse;
use crate::plan::short;

/// Other owners' entries that we put back after a write, and whether we were asked for them.
type Borrowed = Vec<(usize, bool)>;

/// A write that has been announced in the journal. It has to be [finished](crate::Session::finish),
/// even if it failed.
#[derive(Clone, Debug)]
#[must_use]
pub struct Prepared {
    index: usize,
    entry: Entry,
    /// The state before.
    before: State,
    /// The wanted state.
    to: State,
    /// The writes that lead there.
    way: Vec<State>,
    /// The cells that depend on it, with their values afterwards.
    beside: Vec<(usize, State)>,
    /// The ones among these that belong to other owners: we put them back until the write is over.
    borrowed: Borrowed,
    /// It goes back to what was saved: with the journal or without.
    back: bool,
}

impl Prepared {
    /// Makes the write. Needs no lock, and takes as long as the queue takes to run dry.
    ///
    /// # Errors
    /// [`StepError::Write`], to be given to [`crate::Session::finish`].
    pub fn perform(&self, files: &dyn Files, clock: &dyn Clock) -> Result<(), StepError> {
        self.way.iter().try_for_each(|state| self.entry.write(state, files, clock))
    }

    /// Writes back what was there before, for when the journal can't be continued:
    /// [`crate::Session::finish`] does it otherwise.
    ///
    /// # Errors
    /// [`StepError::Write`].
    pub fn retract(&self, files: &dyn Files, clock: &dyn Clock) -> Result<(), StepError> {
        let now = self.entry.cell.read(files).into_value();
        let way = self.entry.cell.way(now.as_ref(), &self.before);
        way.iter().try_for_each(|state| self.entry.write(state, files, clock))
    }

    /// Whether it is put back to what was saved.
    #[must_use]
    pub fn is_back(&self) -> bool {
        self.back
    }

    /// The target and the knob.
    #[must_use]
    pub fn of(&self) -> (&Target, &'static Knob) {
        (&self.entry.target, self.entry.knob)
    }

    /// The cell's value when the write was prepared.
    #[must_use]
    pub fn before(&self) -> &State {
        &self.before
    }
}

/// A write that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The cell's value.
    pub found: State,
    /// The kernel's value, in words, if it differs from the written one.
    pub adjusted: Option<String>,
}

impl Session<'_> {
    /// Announces a write; `None` if the cell holds the value already. A cell that has not been
    /// saved is saved first, which waits for the journal's disk.
    ///
    /// # Errors
    /// [`HoldError`]; nothing was written.
    pub fn prepare(&self, hold: &mut Hold, change: &Change) -> Result<Option<Prepared>, HoldError> {
        let cell = Cell::of(change.knob, &change.target, self.files);
        if hold.index_of(&cell, &change.target).is_none() {
            self.save(hold, &[(change.knob, change.target.clone())])?;
        }
        let label = || change.target.label(change.knob);
        let Some(index) = hold.index_of(&cell, &change.target) else {
            let why = cell.read(self.files).why().unwrap_or_default();
            return Err(
                PlanError::NotThere { label: label(), why, needs: change.knob.needs }.into()
            );
        };
        let now = self.settle(hold, index)?;
        let to = if change.knob.name == "bdi.max_bytes" {
            refuse::share_of(change, &[], self.files, &Memory::read(self.files))?
        } else {
            cell.wanted(change.knob, &change.target, &change.value, Some(&now))
        };
        let entry = Entry {
            knob: change.knob,
            target: change.target.clone(),
            cell,
            old: Some(now.clone()),
            new: Some(to.clone()),
        };
        refuse::servers::check(&[entry], self.files)?;
        self.announce(hold, index, now, to)
    }

    /// Announces that a cell is put back to what was saved; `None` if it holds that. A journal that
    /// can't be continued keeps nothing from being put back.
    ///
    /// # Errors
    /// [`HoldError`]; nothing was written.
    pub fn prepare_back(
        &self,
        hold: &mut Hold,
        index: usize,
    ) -> Result<Option<Prepared>, HoldError> {
        let now = self.settle(hold, index)?;
        match hold.entry(index).and_then(|entry| entry.old.clone()) {
            Some(to) => self.announce(hold, index, now, to),
            None => Ok(None),
        }
    }

    /// Reads back a prepared write, and the cells that change along with it. Puts the old value
    /// back if the kernel did not take the new one.
    ///
    /// # Errors
    /// [`HoldError::Step`] or [`HoldError::Journal`]: the value before is in force again. A way
    /// back does not fail for the journal. [`HoldError::NotBack`] around one of these: the kernel
    /// refused that value too.
    pub fn finish(
        &self,
        hold: &mut Hold,
        prepared: Prepared,
        performed: Result<(), StepError>,
    ) -> Result<Written, HoldError> {
        let Prepared { index, entry, before, to, beside, borrowed, back, .. } = prepared;
        let (readings, found) = hold.transaction.read_back(index, self.files);
        let noted = self.note_anyway(hold, Record::Done { readings });
        let noted = if back { Ok(()) } else { noted };
        let written = performed.and(noted.map_err(StepError::from)).map_err(HoldError::from);
        let mut outcome = written.and_then(|()| judge(&entry, found, &to));
        if outcome.is_err() || !beside.is_empty() {
            let mut run = self.run_of(hold);
            if back || outcome.is_err() {
                run.mode = Mode::Undo;
            }
            if let Err(cause) = outcome {
                // The value before has to come back, with the journal or without.
                outcome = Err(match run.bring(index, &before) {
                    Ok(()) => cause,
                    Err(why) => {
                        let (label, before) = (entry.label(), short(&entry.label(), &before));
                        HoldError::NotBack {
                            cause: Box::new(cause),
                            label,
                            before,
                            why: Box::new(why),
                        }
                    }
                });
            }
            // The cells that the kernel changed along with it. A failure shows when that is read.
            for (at, state) in beside {
                if run.bring(at, &state).is_err() {
                    let readings = run.transaction.reading(at, self.files).into_iter().collect();
                    let _ = run.note(Record::Done { readings });
                }
            }
            (hold.transaction, hold.owed) = (run.transaction, run.owed);
        }
        for (entry, asked) in borrowed {
            let _ = self.note_anyway(hold, Record::Yield { entry, asked });
        }
        // The write is over: what the journal can't do now it does later.
        if let Ok(length) = self.store.length(&hold.name) {
            hold.length = length;
        }
        let _ = self.compact(hold);
        outcome
    }

    /// One write from its announcement to its end, with the journal's lock held all the while.
    /// `None` if the cell holds the value already.
    ///
    /// # Errors
    /// [`HoldError`]; nothing has changed.
    pub fn write(&self, hold: &mut Hold, change: &Change) -> Result<Option<Written>, HoldError> {
        let Some(prepared) = self.prepare(hold, change)? else { return Ok(None) };
        let performed = prepared.perform(self.files, self.clock);
        self.finish(hold, prepared, performed).map(Some)
    }

    /// A cell's state, once it is certain that we may write it. A cell that another program has set
    /// while it was held is given up. A cell that changed while it was not held is saved anew.
    fn settle(&self, hold: &mut Hold, index: usize) -> Result<State, HoldError> {
        let Some(entry) = hold.entry(index).cloned() else {
            return Err(HoldError::Gone {
                label: String::new(),
                why: "it was never saved".to_owned(),
            });
        };
        let label = entry.label();
        if let Err(why) = entry.target.check(self.files) {
            if matches!(entry.target, Target::Process(_)) {
                self.forget_gone(hold, index)?;
            }
            return Err(HoldError::Gone { label, why });
        }
        let now = match entry.cell.read(self.files) {
            Reading::Value(now) => now,
            Reading::Absent(why) => {
                if matches!(entry.target, Target::Group { .. })
                    || matches!(entry.cell, Cell::Priorities(_))
                {
                    self.forget_gone(hold, index)?;
                }
                return Err(HoldError::Gone { label, why });
            }
            Reading::Unreadable(why) => {
                return Err(PlanError::Unreadable { label, why }.into());
            }
        };
        let theirs =
            |asked| HoldError::Theirs { label: label.clone(), found: short(&label, &now), asked };
        if let Some(asked) = hold.transaction.yielded(index) {
            return Err(theirs(asked));
        }
        let is_old = entry.old.as_ref().is_some_and(|old| entry.cell.same(old, &now));
        if is_old {
            return Ok(now);
        }
        if hold.transaction.holds(index) {
            if hold.transaction.owns(index, &now) {
                return Ok(now);
            }
            self.note(hold, Record::Yield { entry: index, asked: false }, Mode::Undo)?;
            return Err(theirs(false));
        }
        let cell = hold.saved(entry.knob, &entry.target, now.clone());
        self.save_at(hold, vec![SavedAt { at: index, cell }], Mode::Apply)?;
        Ok(now)
    }

    /// A control group's limits went with it, a process's or journal's priority with its threads. A
    /// unit that starts again has a group of the same path, without the hold's limit.
    fn forget_gone(&self, hold: &mut Hold, index: usize) -> Result<(), JournalError> {
        if !hold.transaction.holds(index) {
            return Ok(());
        }
        let readings = vec![Found { entry: index, state: None }];
        self.note(hold, Record::Done { readings }, Mode::Undo)
    }

    fn announce(
        &self,
        hold: &mut Hold,
        index: usize,
        now: State,
        to: State,
    ) -> Result<Option<Prepared>, HoldError> {
        let Some(entry) = hold.entry(index).cloned() else { return Ok(None) };
        let back = entry.old.as_ref().is_some_and(|old| entry.cell.same(old, &to));
        let mode = if back { Mode::Undo } else { Mode::Apply };
        // The cells that it resets may be newer than its entry: another elevator's tunables.
        self.save_cells(hold, &[(entry.knob, entry.target.clone())], mode)?;
        let way = entry.cell.way(Some(&now), &to);
        if way.is_empty() {
            return Ok(None);
        }
        if !back {
            let asked = Entry { old: Some(now.clone()), new: Some(to.clone()), ..entry.clone() };
            refuse::check(&[asked], self.files)?;
        }
        let borrowed = self.settle_beside(hold, &entry, back)?;
        let beside = self.beside(hold, &entry, back, &borrowed);
        for state in &way {
            self.note(hold, Record::Intent { entry: index, to: state.clone() }, mode)?;
        }
        Ok(Some(Prepared { index, entry, before: now, to, way, beside, borrowed, back }))
    }

    /// Prepares a write of an entry that resets other cells. A cell that is not held is saved anew
    /// if it has changed. A held cell that another program has changed is given up. An elevator is
    /// not switched if that would take another owner's tunables away.
    ///
    /// Other owners' cells that have to be brought back afterwards are borrowed until then: after
    /// a crash in between the recovery brings them back.
    fn settle_beside(
        &self,
        hold: &mut Hold,
        entry: &Entry,
        back: bool,
    ) -> Result<Borrowed, HoldError> {
        let (mut anew, mut lost, mut borrowed) = (Vec::new(), Vec::new(), Vec::new());
        for (at, other) in
            hold.transaction.entries.iter().enumerate().filter(|(_, e)| entry.resets(e))
        {
            let transaction = &hold.transaction;
            let Reading::Value(now) = other.cell.read(self.files) else {
                // The tunable of a third elevator: the one that comes back does not have it.
                let is_stale = matches!(other.knob.scope, Scope::Elevator(_))
                    && other.old.is_some()
                    && !hold.holds_elevator(&other.target);
                if is_stale && transaction.yielded(at).is_none() {
                    anew.push(SavedAt {
                        at,
                        cell: SavedEntry { old: None, ..SavedEntry::from(other) },
                    });
                }
                continue;
            };
            if let Some(asked) = transaction.yielded(at) {
                if entry.knob.name == SCHEDULER && !back {
                    let label = other.label();
                    return Err(HoldError::Theirs { found: short(&label, &now), label, asked });
                }
                borrowed.push((at, asked));
                anew.push(SavedAt {
                    at,
                    cell: SavedEntry { old: Some(now), ..SavedEntry::from(other) },
                });
                continue;
            }
            let is_old = other.old.as_ref().is_some_and(|old| other.cell.same(old, &now));
            if !is_old && !transaction.holds(at) {
                anew.push(SavedAt { at, cell: hold.saved(other.knob, &other.target, now) });
            } else if !is_old && !transaction.owns(at, &now) {
                lost.push(at);
            }
        }
        let mode = if back { Mode::Undo } else { Mode::Apply };
        self.save_at(hold, anew, mode)?;
        for entry in lost {
            self.note(hold, Record::Yield { entry, asked: false }, mode)?;
        }
        Ok(borrowed)
    }

    /// The cells that depend on an entry, with their states after a write of it. When the hold puts
    /// values back, these are the saved states of the hold's cells. Otherwise they are the present
    /// states, if the catalogue says that they are kept.
    fn beside(
        &self,
        hold: &Hold,
        entry: &Entry,
        back: bool,
        borrowed: &Borrowed,
    ) -> Vec<(usize, State)> {
        let entries = hold.transaction.entries.iter().enumerate();
        let kept = |other: &Entry| {
            entry.knob.resets.iter().any(|reset| reset.keep && reset.covers(other.knob))
        };
        entries
            .filter(|(_, other)| entry.resets(other))
            .filter_map(|(at, other)| {
                let switches = entry.knob.name == SCHEDULER;
                let Reading::Value(now) = other.cell.read(self.files) else {
                    // It comes back with its elevator, as the kernel boots it.
                    let kept = back && switches && hold.transaction.yielded(at).is_none();
                    return other.old.clone().filter(|_| kept).map(|old| (at, old));
                };
                // It goes with the elevator that is left.
                if switches && matches!(other.knob.scope, Scope::Elevator(_)) {
                    return None;
                }
                let ours = hold.transaction.yielded(at).is_none()
                    && hold.transaction.holds(at)
                    && hold.transaction.owns(at, &now);
                match (back, &other.old) {
                    (true, Some(old)) if ours => Some((at, old.clone())),
                    (true, _) => Some((at, now)),
                    (false, _) if kept(other) || borrowed.iter().any(|(its, _)| *its == at) => {
                        Some((at, now))
                    }
                    (false, _) => None,
                }
            })
            .collect()
    }
}

/// Whether a value found after a write is the wanted one, or what the kernel makes of it.
fn judge(entry: &Entry, found: Option<State>, to: &State) -> Result<Written, HoldError> {
    match (found, entry.knob.adjusts) {
        (Some(found), _) if entry.cell.same(&found, to) => Ok(Written { found, adjusted: None }),
        (Some(found), Some(why)) => {
            let adjusted =
                format!("{}: {} became {} ({why})", entry.label(), to.value, found.value);
            Ok(Written { found, adjusted: Some(adjusted) })
        }
        (found, _) => Err(StepError::not_taken(entry, to, found.as_ref()).into()),
    }
}
