//! The steps of a process with its hold, while the journal is locked.

use floodwall_model::Reading;

use super::{COMPACT_AT_ONCE_BYTES, COMPACT_BYTES, HeldCell, Hold, HoldError, Prepared, Written, describe};
use crate::catalogue::{Knob, knobs};
use crate::cell::{Cell, State};
use crate::change::Change;
use crate::journal::{JournalError, Reading as Found, Record, SavedAt, Transaction};
use crate::limits::Memory;
use crate::order::order;
use crate::plan::{Entry, PlanError, Step, short};
use crate::refuse;
use crate::run::{Mode, Run, StepError, append_owed, readings};
use crate::session::{Recovery, Session, Steered};
use crate::target::Target;
use crate::undo::Undone;

impl Session<'_> {
    /// Begins a hold. Nothing is saved yet. The changes of a crashed process are undone first.
    ///
    /// # Errors
    /// [`HoldError::Steered`] if another process has one, [`HoldError::Ending`],
    /// [`HoldError::Unrecovered`], [`HoldError::Journal`], [`HoldError::NoStartTime`].
    pub fn hold(&self, why: &str) -> Result<(Hold, Recovery), HoldError> {
        if self.who.pid_start_ticks == 0 {
            return Err(HoldError::NoStartTime);
        }
        let (recovery, listing) = self.recover_and_list()?;
        if let Some(Steered { transaction, occupied, .. }) = listing.steered.first() {
            let (id, by) = (transaction.begin.id, describe(transaction));
            return Err(match occupied {
                Some(_) => HoldError::Ending { id, by },
                None => HoldError::Steered { id, by },
            });
        }
        if let Some(stuck) = recovery.incomplete() {
            return Err(HoldError::Unrecovered { id: stuck.id, why: stuck.to_string().replace('\n', "; ") });
        }
        let mark = self.store.mark()?.ok_or(HoldError::Marked)?;
        let (name, transaction) = self.begin_transaction(Vec::new(), why, None, true)?;
        let length = self.store.length(&name)?;
        Ok((Hold { name, transaction, mark: Some(mark), length, owed: Vec::new() }, recovery))
    }

    /// Saves cells that may be written later, and the cells that the kernel changes beside them.
    /// Absent cells are left out; cells that are saved already stay as they are.
    ///
    /// # Errors
    /// [`HoldError::Journal`].
    pub fn save(&self, hold: &mut Hold, cells: &[(&'static Knob, Target)]) -> Result<(), HoldError> {
        self.save_cells(hold, cells, Mode::Apply)
    }

    fn save_cells(
        &self,
        hold: &mut Hold,
        cells: &[(&'static Knob, Target)],
        mode: Mode,
    ) -> Result<(), HoldError> {
        let mut saved = Vec::new();
        for (knob, target) in cells {
            let beside = knobs().filter(|other| knob.resets(other) && target.device().is_some());
            for knob in std::iter::once(*knob).chain(beside) {
                let cell = Cell::of(knob, target, self.files);
                let listed = |(other, of, _): &(Cell, Target, _)| *other == cell && of == target;
                if hold.index_of(&cell, target).is_some() || saved.iter().any(listed) {
                    continue;
                }
                if let Reading::Value(old) = cell.read(self.files) {
                    let entry = hold.saved(knob, target, old);
                    saved.push((cell, target.clone(), entry));
                }
            }
        }
        let first = hold.transaction.entries.len();
        let cells = saved.into_iter().enumerate().map(|(n, (_, _, cell))| SavedAt { at: first + n, cell });
        Ok(self.save_at(hold, cells.collect(), mode)?)
    }

    pub(super) fn save_at(
        &self,
        hold: &mut Hold,
        cells: Vec<SavedAt>,
        mode: Mode,
    ) -> Result<(), JournalError> {
        if cells.is_empty() {
            return Ok(());
        }
        self.append(hold, Record::Save { cells }, mode, true)
    }

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
            return Err(PlanError::NotThere { label: label(), why, needs: change.knob.needs }.into());
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
    pub fn prepare_back(&self, hold: &mut Hold, index: usize) -> Result<Option<Prepared>, HoldError> {
        let now = self.settle(hold, index)?;
        match hold.entry(index).and_then(|entry| entry.old.clone()) {
            Some(to) => self.announce(hold, index, now, to),
            None => Ok(None),
        }
    }

    /// The held cells of some knobs and targets in an order in which they can be put back. The
    /// others are not even read: a write to their queue may be under way.
    #[must_use]
    pub fn order_back(&self, hold: &Hold, of: impl Fn(&Knob, &Target) -> bool) -> Vec<usize> {
        let old = |cell: &HeldCell| Some((cell.index, cell.saved.clone()?));
        let held = hold.held();
        let wanted: Vec<(usize, State)> =
            held.iter().filter(|cell| of(cell.knob, &cell.target)).filter_map(old).collect();
        order(&hold.transaction.entries, &wanted, self.files).iter().map(Step::entry).collect()
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
        let Prepared { index, entry, before, to, beside, lent, back, .. } = prepared;
        let mut run = self.run_of(hold);
        if back {
            run.mode = Mode::Undo;
        }
        let mut outcome = read_back(&mut run, index, &entry, &to, performed);
        if let Err(cause) = outcome {
            // The value before has to come back, with the journal or without.
            run.mode = Mode::Undo;
            outcome = Err(match run.bring(index, &before) {
                Ok(()) => cause,
                Err(why) => {
                    let (label, before) = (entry.label(), short(&entry.label(), &before));
                    HoldError::NotBack { cause: Box::new(cause), label, before, why: Box::new(why) }
                }
            });
        }
        // The cells that the kernel changed along with it. A failure shows when that is read.
        for (at, state) in beside {
            if run.bring(at, &state).is_err() {
                let readings = readings(run.files, &run.transaction.entries, |(i, _)| i == at);
                let _ = run.note(Record::Done { readings });
            }
        }
        for (entry, asked) in lent {
            let _ = run.note(Record::Yield { entry, asked });
        }
        (hold.transaction, hold.owed) = (run.transaction, run.owed);
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

    /// Puts back the cells that the hold still owns, and closes it. The next recovery tries the
    /// failed ones again, once this process is gone.
    pub fn close(&self, hold: &mut Hold) -> Undone {
        let mut run = self.run_of(hold);
        let undone = run.undo();
        (hold.transaction, hold.owed) = (run.transaction, run.owed);
        if undone.closed {
            hold.mark = None;
        }
        undone
    }

    /// Yields the saved cells of some knobs and targets, which are back by now: they are neither
    /// written nor put back any more.
    ///
    /// # Errors
    /// [`HoldError::Held`] if one is not back; [`HoldError::Journal`].
    pub fn yield_cells(&self, hold: &mut Hold, of: impl Fn(&Knob, &Target) -> bool) -> Result<(), HoldError> {
        for at in 0..hold.transaction.entries.len() {
            let Some(entry) = hold.entry(at).filter(|entry| of(entry.knob, &entry.target)) else { continue };
            if hold.transaction.yielded(at).is_some() {
                continue;
            }
            if hold.transaction.holds(at) {
                return Err(HoldError::Held { label: entry.label() });
            }
            self.note(hold, Record::Yield { entry: at, asked: true }, Mode::Apply)?;
        }
        Ok(())
    }

    /// A cell's state, once it is certain that we may write it. A cell that another program has set
    /// while it was held is given up. A cell that changed while it was not held is saved anew.
    fn settle(&self, hold: &mut Hold, index: usize) -> Result<State, HoldError> {
        let Some(entry) = hold.entry(index).cloned() else {
            return Err(HoldError::Gone { label: String::new(), why: "it was never saved".to_owned() });
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
                if matches!(entry.target, Target::Group { .. }) || matches!(entry.cell, Cell::Priorities(_)) {
                    self.forget_gone(hold, index)?;
                }
                return Err(HoldError::Gone { label, why });
            }
            Reading::Unreadable(why) => {
                return Err(PlanError::Unreadable { label, why }.into());
            }
        };
        let theirs = |asked| HoldError::Theirs { label: label.clone(), found: short(&label, &now), asked };
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
        let lent = self.settle_beside(hold, &entry, back)?;
        let beside = self.beside(hold, &entry, back, &lent);
        for state in &way {
            self.note(hold, Record::Intent { entry: index, to: state.clone() }, mode)?;
        }
        Ok(Some(Prepared { index, entry, before: now, to, way, beside, lent, back }))
    }

    pub(super) fn note(&self, hold: &mut Hold, record: Record, mode: Mode) -> Result<(), JournalError> {
        self.append(hold, record, mode, false)
    }

    /// Appends a record, behind those that are owed. In [`Mode::Undo`] one that there is no room
    /// for is remembered.
    fn append(&self, hold: &mut Hold, record: Record, mode: Mode, synced: bool) -> Result<(), JournalError> {
        let line = record.line();
        let owed = append_owed(self.store, &hold.name, &mut hold.owed);
        let appended = owed.and_then(|bytes| {
            hold.length += bytes;
            if synced {
                self.store.append_synced(&hold.name, line.as_bytes())
            } else {
                self.store.append(&hold.name, line.as_bytes())
            }
        });
        match (appended, mode) {
            (Ok(()), _) => hold.length += line.len() as u64,
            (Err(error), Mode::Apply) => return Err(error),
            (Err(_), Mode::Undo) => hold.owed.push(record.clone()),
        }
        hold.transaction.push(record);
        Ok(())
    }

    /// The hold's transaction, to be given back to it.
    fn run_of(&self, hold: &mut Hold) -> Run<'_> {
        let nothing = Transaction::new(hold.transaction.begin.clone(), Vec::new());
        let owed = std::mem::take(&mut hold.owed);
        let transaction = std::mem::replace(&mut hold.transaction, nothing);
        Run { owed, ..self.run(hold.name.clone(), transaction, Mode::Apply) }
    }

    /// Writes a hold's file anew if it has grown: its begin, the saved entries, and the held ones.
    fn compact(&self, hold: &mut Hold) -> Result<(), JournalError> {
        if hold.length <= COMPACT_BYTES {
            return Ok(());
        }
        let calm = hold.held().is_empty();
        if !calm && hold.length <= COMPACT_AT_ONCE_BYTES {
            return Ok(());
        }
        // Devices that have gone since; while a write is under way every entry keeps its place.
        let is_there = |entry: &Entry| {
            let group_has_gone = matches!(entry.target, Target::Group { .. })
                && matches!(entry.cell.read(self.files), Reading::Absent(_));
            entry.target.check(self.files).is_ok() && !group_has_gone
        };
        let records = hold.transaction.compacted(|entry| !calm || is_there(entry));
        let text: String = records.iter().map(Record::line).collect();
        let length = text.len() as u64;
        // The saved entries of a thousand devices take their room.
        if length > hold.length / 2 {
            return Ok(());
        }
        let fresh = format!("{}.new", hold.name.trim_end_matches(".jsonl"));
        self.store.write_new(&fresh, text.as_bytes())?;
        self.store.rename(&fresh, &hold.name)?;
        let (transaction, _) = Transaction::parse(text.as_bytes())
            .map_err(|why| JournalError::Foreign { name: hold.name.clone(), why })?;
        (hold.transaction, hold.length, hold.owed) = (transaction, length, Vec::new());
        Ok(())
    }
}

/// Records an entry's value after a write, and whether it is the wanted one.
fn read_back(
    run: &mut Run<'_>,
    index: usize,
    entry: &Entry,
    to: &State,
    performed: Result<(), StepError>,
) -> Result<Written, HoldError> {
    let readings =
        readings(run.files, &run.transaction.entries, |(i, other)| i == index || entry.resets(other));
    let found = readings.iter().find(|reading| reading.entry == index).and_then(|r| r.state.clone());
    let noted = run.note(Record::Done { readings });
    performed?;
    noted?;
    let label = entry.label();
    match (found, entry.knob.adjusts) {
        (Some(found), _) if entry.cell.same(&found, to) => Ok(Written { found, adjusted: None }),
        (Some(found), Some(why)) => {
            let adjusted = format!("{label}: {} became {} ({why})", to.value, found.value);
            Ok(Written { found, adjusted: Some(adjusted) })
        }
        (found, _) => Err(StepError::NotTaken {
            wanted: short(&label, to),
            found: found.as_ref().map_or_else(|| "nothing".to_owned(), |found| short(&label, found)),
            label,
        }
        .into()),
    }
}
