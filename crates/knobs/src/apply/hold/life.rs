//! A hold from its begin to its end: saved cells, records, and the way back.

use floodwall_model::Reading;

use super::{COMPACT_AT_ONCE_BYTES, COMPACT_BYTES, HeldCell, Hold, HoldError, describe};
use crate::apply::recover::{Recovery, Steered};
use crate::apply::run::{Mode, Run, append_owed};
use crate::apply::session::Session;
use crate::apply::undo::Undone;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::target::Target;
use crate::catalogue::{Knob, knobs};
use crate::journal::{self, JournalError, Record, SavedAt, Transaction};
use crate::plan::entry::{Entry, Step};
use crate::plan::order::order;

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
            return Err(HoldError::Unrecovered {
                id: stuck.id,
                why: stuck.to_string().replace('\n', "; "),
            });
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
    pub fn save(
        &self,
        hold: &mut Hold,
        cells: &[(&'static Knob, Target)],
    ) -> Result<(), HoldError> {
        self.save_cells(hold, cells, Mode::Apply)
    }

    pub(super) fn save_cells(
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
        let cells =
            saved.into_iter().enumerate().map(|(n, (_, _, cell))| SavedAt { at: first + n, cell });
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
    pub fn yield_cells(
        &self,
        hold: &mut Hold,
        of: impl Fn(&Knob, &Target) -> bool,
    ) -> Result<(), HoldError> {
        for at in 0..hold.transaction.entries.len() {
            let Some(entry) = hold.entry(at).filter(|entry| of(entry.knob, &entry.target)) else {
                continue;
            };
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

    pub(super) fn note(
        &self,
        hold: &mut Hold,
        record: Record,
        mode: Mode,
    ) -> Result<(), JournalError> {
        self.append(hold, record, mode, false)
    }

    /// Appends a record that counts even if there is no room for it: it is remembered then.
    pub(super) fn note_anyway(&self, hold: &mut Hold, record: Record) -> Result<(), JournalError> {
        let appended = self.try_append(hold, &record, false);
        if appended.is_err() {
            hold.owed.push(record.clone());
        }
        hold.transaction.push(record);
        appended
    }

    /// Appends a record. In [`Mode::Undo`] one that there is no room for is remembered.
    fn append(
        &self,
        hold: &mut Hold,
        record: Record,
        mode: Mode,
        synced: bool,
    ) -> Result<(), JournalError> {
        let appended = self.try_append(hold, &record, synced);
        if appended.is_err() {
            match mode {
                Mode::Apply => return appended,
                Mode::Undo => hold.owed.push(record.clone()),
            }
        }
        hold.transaction.push(record);
        Ok(())
    }

    /// Appends to the hold's file, behind the records that are owed.
    fn try_append(
        &self,
        hold: &mut Hold,
        record: &Record,
        synced: bool,
    ) -> Result<(), JournalError> {
        let line = record.line();
        hold.length += append_owed(self.store, &hold.name, &mut hold.owed)?;
        if synced {
            self.store.append_synced(&hold.name, line.as_bytes())?;
        } else {
            self.store.append(&hold.name, line.as_bytes())?;
        }
        hold.length += line.len() as u64;
        Ok(())
    }

    /// The hold's transaction, to be given back to it.
    pub(super) fn run_of(&self, hold: &mut Hold) -> Run<'_> {
        let nothing = Transaction::new(hold.transaction.begin.clone(), Vec::new());
        let owed = std::mem::take(&mut hold.owed);
        let transaction = std::mem::replace(&mut hold.transaction, nothing);
        Run { owed, ..self.run(hold.name.clone(), transaction, Mode::Apply) }
    }

    /// Writes a hold's file anew if it has grown: its begin, the saved entries, and the held ones.
    pub(super) fn compact(&self, hold: &mut Hold) -> Result<(), JournalError> {
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
        journal::write_whole(self.store, &hold.name, &text)?;
        let (transaction, _) = Transaction::parse(text.as_bytes())
            .map_err(|why| JournalError::Foreign { name: hold.name.clone(), why })?;
        (hold.transaction, hold.length, hold.owed) = (transaction, length, Vec::new());
        Ok(())
    }
}
