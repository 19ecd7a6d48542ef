//! A hold: the transaction of a process that lives on and steers, writing the same knobs again and again.
//!
//! ```text
//! hold      ─▶ begin (fsynced)                                       once
//! save      ─▶ what the cells hold (fsynced)                         ahead of the first write, so that no write waits for a disk
//! prepare   ─▶ is it still ours? ─▶ intent      ┐
//! perform   ─▶ kernel write, as long as it takes ├ as often as it likes; back to what was saved too
//! finish    ─▶ read back ─▶ done                ┘
//! close     ─▶ what is still ours is put back ─▶ closed
//! ```
//!
//! - The journal's lock is held while something is prepared or finished, for a moment, and not in between: a write of `nr_requests` waits until the queue
//!   has run dry. Everybody else can change and roll back settings meanwhile.
//! - Nothing is fsynced for a write: what comes after `save` matters within this boot alone, and a killed process's appends stay in the page cache.
//! - A hold whose process lives ([`is_alive`]) is left alone by recovery; one whose process is gone is undone, before all other transactions: a hold
//!   is always on top, because whoever changes one of its cells takes it over.
//! - *Taking over*: a change that is applied to a held cell, or rolled back below one, first notes what the cell reads as its own, then has the hold yield, then
//!   writes. What it will put back is what the hold had saved. At each of these points a crash leaves somebody who puts the right value back.
//! - A cell that does not read what the hold wrote belongs to somebody else: it is given up, and neither written nor put back.
//! - The file is written anew when it has grown ([`COMPACT_BYTES`]); with it goes what is over.

use floodwall_model::Reading;

use crate::catalogue::{Knob, Scope, knobs};
use crate::cell::{Cell, State};
use crate::change::Change;
use crate::clock::Clock;
use crate::files::{Files, read_line};
use crate::journal::{Begin, JournalError, Record, SavedAt, SavedEntry, Transaction};
use crate::limits::Memory;
use crate::order::order;
use crate::plan::{Entry, PlanError, Step, short};
use crate::refuse;
use crate::run::{Mode, Run, StepError, readings, write};
use crate::session::{Recovery, Session, Steered};
use crate::target::Target;
use crate::undo::Undone;

/// A hold's file is written anew when it is larger than this and nothing is held, in bytes: some hundred writes.
pub const COMPACT_BYTES: u64 = 128 << 10;
/// … and when it is larger than this whatever is held: well below what a journal may have.
const COMPACT_AT_ONCE_BYTES: u64 = 2 << 20;

/// A process steers, or something keeps it from doing so.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The journal. Nothing was written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another process steers.
    #[error("settings are steered by {by} already; stop that first")]
    Steered {
        /// Which hold.
        id: u64,
        /// Whose.
        by: String,
    },
    /// An earlier, interrupted change could not be undone.
    #[error(
        "change {id} was interrupted and could not be undone ({why}); settle that first, with floodwall rollback"
    )]
    Unrecovered {
        /// Which.
        id: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A value that would do harm.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Somebody else has set the knob while it was held: it is theirs.
    #[error("{label} is left alone: {}", theirs(found, *to_change))]
    Theirs {
        /// The knob.
        label: String,
        /// What it reads.
        found: String,
        /// The change that took it over, if it was one of Floodwall's.
        to_change: Option<u64>,
    },
    /// Its device is gone, or another one.
    #[error("{label} is left alone: {why}")]
    Gone {
        /// The knob.
        label: String,
        /// What is there instead.
        why: String,
    },
    /// The kernel refused the value, or took another one; the one before is in force.
    #[error(transparent)]
    Step(#[from] StepError),
}

fn theirs(found: &str, to_change: Option<u64>) -> String {
    match to_change {
        Some(id) => format!("change {id} has set it, to {found}; floodwall rollback ends that"),
        None => format!("it reads {found}, which somebody else has set"),
    }
}

impl HoldError {
    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Journal(error) => error.lacks_privilege(),
            Self::Step(error) => error.lacks_privilege(),
            Self::Plan(error) => matches!(error, PlanError::Unreadable { .. }),
            _ => false,
        }
    }
}

/// A hold of this process. Its file is the journal's; what is kept here is what it says.
#[derive(Clone, Debug)]
pub struct Hold {
    name: String,
    transaction: Transaction,
    /// Bytes of its file, as we left it: others append when they take a cell over.
    length: u64,
}

/// A cell that holds something else than it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCell {
    /// Its place in the hold.
    pub index: usize,
    /// The knob.
    pub knob: &'static Knob,
    /// What it belongs to.
    pub target: Target,
    /// As people write it: `sda.nr_requests`.
    pub label: String,
    /// What it is put back to.
    pub saved: Option<State>,
    /// What it was found to hold after the last write.
    pub now: Option<State>,
}

impl Hold {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.transaction.begin.id
    }

    /// The cells that hold something else than they did, by the last look at the journal, those that change along with others included.
    #[must_use]
    pub fn held(&self) -> Vec<HeldCell> {
        held(&self.transaction)
    }

    /// Whether a cell has been saved.
    #[must_use]
    pub fn has_saved(&self, knob: &Knob, target: &Target, files: &dyn Files) -> bool {
        self.index_of(&Cell::of(knob, target, files), target).is_some()
    }

    fn index_of(&self, cell: &Cell, target: &Target) -> Option<usize> {
        self.transaction.entries.iter().position(|entry| entry.cell == *cell && entry.target == *target)
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.transaction.entries.get(index)
    }

    /// What is to be kept of a cell. The tunable of an elevator that we have switched to goes with it: there is nothing to put back.
    fn saved(&self, knob: &Knob, target: &Target, now: State) -> SavedEntry {
        let ours = matches!(knob.scope, Scope::Elevator(_)) && self.holds_elevator(target);
        SavedEntry {
            knob: knob.name.to_owned(),
            target: target.clone(),
            old: (!ours).then_some(now),
            new: None,
        }
    }

    fn holds_elevator(&self, target: &Target) -> bool {
        let entries = self.transaction.entries.iter().enumerate();
        let mut elevators = entries.filter(|(_, e)| e.knob.name == "scheduler" && e.target == *target);
        elevators.any(|(index, _)| self.transaction.holds(index))
    }
}

/// What a hold holds, by its journal.
#[must_use]
pub fn held(transaction: &Transaction) -> Vec<HeldCell> {
    let entries = transaction.entries.iter().enumerate().filter(|(index, _)| transaction.holds(*index));
    entries
        .map(|(index, entry)| HeldCell {
            index,
            knob: entry.knob,
            target: entry.target.clone(),
            label: entry.label(),
            saved: entry.old.clone(),
            now: transaction.last_reading(index).cloned(),
        })
        .collect()
}

/// Whether the process that began a transaction lives. One that has been killed and is still at a write does; one that only waits to be reaped does not.
#[must_use]
pub fn is_alive(files: &dyn Files, begin: &Begin) -> bool {
    let directory = format!("/proc/{}", begin.pid);
    let stat = match read_line(files, &format!("{directory}/stat")) {
        Reading::Value(stat) => stat,
        Reading::Absent(_) => return false,
        // Who can't be looked at is not known to be gone.
        Reading::Unreadable(_) => return true,
    };
    // proc_pid_stat(5): fields 3 and 22. The name in field 2 may hold anything, so counting starts behind it.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    let mut fields = rest.split_whitespace();
    let state = fields.next().unwrap_or_default();
    let started: Option<u64> = fields.nth(18).and_then(|text| text.parse().ok());
    if started != Some(begin.pid_start_ticks) {
        return false;
    }
    // The leader is a zombie as soon as it has ended, its other threads may still be inside a write.
    !matches!(state, "Z" | "X" | "x") || files.list(&format!("{directory}/task")).len() > 1
}

/// A write that has been announced in the journal. It has to be [finished](Session::finish), whatever came of it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Prepared {
    index: usize,
    entry: Entry,
    /// What it holds.
    before: State,
    /// What it is to hold.
    to: State,
    /// The writes that really get there.
    way: Vec<State>,
    /// What depends on it, and is to hold afterwards.
    beside: Vec<(usize, State)>,
}

impl Prepared {
    /// Makes the write. Needs no lock, and takes as long as the queue takes to run dry.
    ///
    /// # Errors
    /// [`StepError::Write`], to be given to [`Session::finish`].
    pub fn perform(&self, files: &dyn Files, clock: &dyn Clock) -> Result<(), StepError> {
        self.way.iter().try_for_each(|state| write(files, clock, &self.entry, state))
    }

    /// Writes back what was there before, for when the journal can't be continued: [`Session::finish`] does it otherwise.
    ///
    /// # Errors
    /// [`StepError::Write`].
    pub fn retract(&self, files: &dyn Files, clock: &dyn Clock) -> Result<(), StepError> {
        let now = self.entry.cell.read(files).into_value();
        let way = self.entry.cell.way(now.as_ref(), &self.before);
        way.iter().try_for_each(|state| write(files, clock, &self.entry, state))
    }

    /// What the cell held when it was prepared.
    #[must_use]
    pub fn before(&self) -> &State {
        &self.before
    }
}

/// A write that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What the cell reads.
    pub found: State,
    /// What the kernel made of it, in words, if it is not what was written.
    pub adjusted: Option<String>,
}

impl Session<'_> {
    /// Begins a hold. Nothing is saved yet, and what a crash left is undone first.
    ///
    /// # Errors
    /// [`HoldError::Steered`] if another process has one, [`HoldError::Unrecovered`], [`HoldError::Journal`].
    pub fn hold(&self, why: &str) -> Result<(Hold, Recovery), HoldError> {
        let (recovery, listing) = self.recover_and_list()?;
        if let Some(Steered { transaction, .. }) = listing.steered.first() {
            let by = describe(transaction);
            return Err(HoldError::Steered { id: transaction.begin.id, by });
        }
        if let Some(stuck) = recovery.incomplete() {
            return Err(HoldError::Unrecovered { id: stuck.id, why: stuck.to_string().replace('\n', "; ") });
        }
        let (name, transaction) = self.begin_transaction(Vec::new(), why, None, true)?;
        let length = self.store.length(&name)?;
        Ok((Hold { name, transaction, length }, recovery))
    }

    /// Saves what cells hold, and what the kernel changes beside them, before they are written some time. What is not there is left out; what has been
    /// saved already is left as it is.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn save(&self, hold: &mut Hold, cells: &[(&'static Knob, Target)]) -> Result<(), JournalError> {
        self.refresh(hold)?;
        let mut saved = Vec::new();
        for (knob, target) in cells {
            let beside = knobs().filter(|other| knob.resets(other) && target.device().is_some());
            for knob in std::iter::once(*knob).chain(beside) {
                let cell = Cell::of(knob, target, self.files);
                let known = hold.index_of(&cell, target).is_some();
                let listed =
                    saved.iter().any(|(other, of, _): &(Cell, Target, _)| *other == cell && of == target);
                if let (false, Reading::Value(old)) = (known || listed, cell.read(self.files)) {
                    let entry = hold.saved(knob, target, old);
                    saved.push((cell, target.clone(), entry));
                }
            }
        }
        let first = hold.transaction.entries.len();
        let cells = saved.into_iter().enumerate().map(|(n, (_, _, cell))| SavedAt { at: first + n, cell });
        self.save_at(hold, cells.collect())
    }

    fn save_at(&self, hold: &mut Hold, cells: Vec<SavedAt>) -> Result<(), JournalError> {
        if cells.is_empty() {
            return Ok(());
        }
        let record = Record::Save { cells };
        let line = record.line();
        self.store.append_synced(&hold.name, line.as_bytes())?;
        hold.length += line.len() as u64;
        hold.transaction.push(record);
        Ok(())
    }

    /// Announces a write; `None` if the cell holds the value already. What has not been saved is saved first, which waits for the journal's disk.
    ///
    /// # Errors
    /// [`HoldError`]; nothing was written.
    pub fn prepare(&self, hold: &mut Hold, change: &Change) -> Result<Option<Prepared>, HoldError> {
        self.refresh(hold)?;
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
        self.announce(hold, index, now, to)
    }

    /// Announces that a cell is put back to what was saved; `None` if it holds that.
    ///
    /// # Errors
    /// [`HoldError`]; nothing was written.
    pub fn prepare_back(&self, hold: &mut Hold, index: usize) -> Result<Option<Prepared>, HoldError> {
        self.refresh(hold)?;
        let now = self.settle(hold, index)?;
        match hold.entry(index).and_then(|entry| entry.old.clone()) {
            Some(to) => self.announce(hold, index, now, to),
            None => Ok(None),
        }
    }

    /// The held cells in an order in which they can be put back.
    #[must_use]
    pub fn order_back(&self, hold: &Hold) -> Vec<usize> {
        let old = |cell: &HeldCell| Some((cell.index, cell.saved.clone()?));
        let wanted: Vec<(usize, State)> = hold.held().iter().filter_map(old).collect();
        order(&hold.transaction.entries, &wanted, self.files).iter().map(Step::entry).collect()
    }

    /// Reads back a write that was prepared, and what changes along with it; puts the value before back if the kernel did not take the new one.
    ///
    /// # Errors
    /// [`HoldError::Step`] or [`HoldError::Journal`]; what was there before is in force again, as far as the kernel lets us.
    pub fn finish(
        &self,
        hold: &mut Hold,
        prepared: Prepared,
        performed: Result<(), StepError>,
    ) -> Result<Written, HoldError> {
        let journal = self.refresh(hold);
        let Prepared { index, entry, before, to, beside, .. } = prepared;
        let mut run = self.run_of(hold);
        let outcome = read_back(&mut run, index, &entry, &to, performed, journal.map_err(StepError::from));
        let ended = match outcome {
            Ok(written) => {
                // What the kernel changed along with it. A failure shows when that is read.
                for (at, state) in beside {
                    let _ = run.bring(at, &state);
                }
                Ok(written)
            }
            Err(error) => {
                // The value before has to come back, with the journal or without.
                run.mode = Mode::Undo;
                let _ = run.bring(index, &before);
                Err(error)
            }
        };
        hold.transaction = run.transaction;
        hold.length = self.store.length(&hold.name)?;
        self.compact(hold)?;
        Ok(ended?)
    }

    /// One write from its announcement to its end, with the journal's lock held all the while. `None` if the cell holds the value already.
    ///
    /// # Errors
    /// [`HoldError`]; nothing has changed.
    pub fn write(&self, hold: &mut Hold, change: &Change) -> Result<Option<Written>, HoldError> {
        let Some(prepared) = self.prepare(hold, change)? else { return Ok(None) };
        let performed = prepared.perform(self.files, self.clock);
        self.finish(hold, prepared, performed).map(Some)
    }

    /// Puts back what is still ours and closes the hold. What could not be put back is tried again by the next recovery, once this process is gone.
    pub fn close(&self, hold: &mut Hold) -> Undone {
        // A journal that can't be read keeps nobody from putting back what is known here.
        let _ = self.refresh(hold);
        let mut run = self.run_of(hold);
        let undone = run.undo();
        hold.transaction = run.transaction;
        undone
    }

    /// Learns what others have noted in the hold since the last time.
    fn refresh(&self, hold: &mut Hold) -> Result<(), JournalError> {
        if self.store.length(&hold.name)? == hold.length {
            return Ok(());
        }
        let foreign = |why: String| JournalError::Foreign { name: hold.name.clone(), why };
        let bytes = self.store.read(&hold.name)?;
        let (transaction, whole) = Transaction::parse(&bytes).map_err(foreign)?;
        if transaction.begin.id != hold.id() || transaction.begin.pid != self.who.pid {
            return Err(foreign("it is another one's".to_owned()));
        }
        // A record of ours that did not fit on a full disk.
        if (bytes.len() as u64) > whole {
            self.store.truncate(&hold.name, whole)?;
        }
        hold.transaction = transaction;
        hold.length = whole;
        Ok(())
    }

    /// What a cell holds, once it is certain that it is ours to write. One that somebody else has set while it was held is given up; one that somebody has
    /// set while it was not is saved anew.
    fn settle(&self, hold: &mut Hold, index: usize) -> Result<State, HoldError> {
        let Some(entry) = hold.entry(index).cloned() else {
            return Err(HoldError::Gone { label: String::new(), why: "it was never saved".to_owned() });
        };
        let label = entry.label();
        if let Some(Err(why)) = entry.target.device().map(|device| device.check(self.files)) {
            return Err(HoldError::Gone { label, why });
        }
        let now = match entry.cell.read(self.files) {
            Reading::Value(now) => now,
            Reading::Absent(why) => return Err(HoldError::Gone { label, why }),
            Reading::Unreadable(why) => {
                return Err(PlanError::Unreadable { label, why }.into());
            }
        };
        let theirs =
            |to_change| HoldError::Theirs { label: label.clone(), found: short(&label, &now), to_change };
        if let Some(to_change) = hold.transaction.yielded(index) {
            return Err(theirs(to_change));
        }
        let is_old = entry.old.as_ref().is_some_and(|old| entry.cell.same(old, &now));
        if is_old {
            return Ok(now);
        }
        if hold.transaction.holds(index) {
            if hold.transaction.owns(index, &now) {
                return Ok(now);
            }
            self.note(hold, Record::Yield { entry: index, to_change: None })?;
            return Err(theirs(None));
        }
        let cell = hold.saved(entry.knob, &entry.target, now.clone());
        self.save_at(hold, vec![SavedAt { at: index, cell }])?;
        Ok(now)
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
        let way = entry.cell.way(Some(&now), &to);
        if way.is_empty() {
            return Ok(None);
        }
        if !back {
            let asked = Entry { old: Some(now.clone()), new: Some(to.clone()), ..entry.clone() };
            refuse::check(&[asked], self.files)?;
        }
        let beside = self.beside(hold, &entry, back);
        for state in &way {
            self.note(hold, Record::Intent { entry: index, to: state.clone() })?;
        }
        Ok(Some(Prepared { index, entry, before: now, to, way, beside }))
    }

    /// What depends on an entry, and is to hold after a write of it: on the way back what was saved, as far as it is ours; else what it holds, where
    /// the catalogue says that it is kept.
    fn beside(&self, hold: &Hold, entry: &Entry, back: bool) -> Vec<(usize, State)> {
        let entries = hold.transaction.entries.iter().enumerate();
        let kept =
            |other: &Entry| entry.knob.resets.iter().any(|reset| reset.keep && reset.covers(other.knob));
        entries
            .filter(|(_, other)| entry.resets(other))
            .filter_map(|(at, other)| {
                let Reading::Value(now) = other.cell.read(self.files) else {
                    // It comes back with its elevator, as the kernel boots it.
                    let comes_back = back && entry.knob.name == "scheduler";
                    let kept = comes_back && hold.transaction.yielded(at).is_none();
                    return other.old.clone().filter(|_| kept).map(|old| (at, old));
                };
                let ours = hold.transaction.yielded(at).is_none()
                    && hold.transaction.holds(at)
                    && hold.transaction.owns(at, &now);
                match (back, &other.old) {
                    (true, Some(old)) if ours => Some((at, old.clone())),
                    (true, _) => Some((at, now)),
                    (false, _) if kept(other) => Some((at, now)),
                    (false, _) => None,
                }
            })
            .collect()
    }

    fn note(&self, hold: &mut Hold, record: Record) -> Result<(), JournalError> {
        let line = record.line();
        self.store.append(&hold.name, line.as_bytes())?;
        hold.length += line.len() as u64;
        hold.transaction.push(record);
        Ok(())
    }

    fn run_of(&self, hold: &Hold) -> Run<'_> {
        self.run(hold.name.clone(), hold.transaction.clone(), Mode::Apply)
    }

    /// Writes a hold's file anew if it has grown: its begin, what is saved now, and what is held.
    fn compact(&self, hold: &mut Hold) -> Result<(), JournalError> {
        let calm = hold.held().is_empty();
        if hold.length <= COMPACT_AT_ONCE_BYTES && !(calm && hold.length > COMPACT_BYTES) {
            return Ok(());
        }
        let records = hold.transaction.compacted();
        let text: String = records.iter().map(Record::line).collect();
        let length = text.len() as u64;
        // What is saved of a thousand devices takes its room.
        if length > hold.length / 2 {
            return Ok(());
        }
        let fresh = format!("{}.new", hold.name.trim_end_matches(".jsonl"));
        self.store.write_new(&fresh, text.as_bytes())?;
        self.store.rename(&fresh, &hold.name)?;
        let (transaction, _) = Transaction::parse(text.as_bytes())
            .map_err(|why| JournalError::Foreign { name: hold.name.clone(), why })?;
        *hold = Hold { name: hold.name.clone(), transaction, length };
        Ok(())
    }
}

/// Notes what an entry reads after a write, and whether that is what was wanted.
fn read_back(
    run: &mut Run<'_>,
    index: usize,
    entry: &Entry,
    to: &State,
    performed: Result<(), StepError>,
    journal: Result<(), StepError>,
) -> Result<Written, StepError> {
    let readings =
        readings(run.files, &run.transaction.entries, |(i, other)| i == index || entry.resets(other));
    let found = readings.iter().find(|reading| reading.entry == index).and_then(|r| r.state.clone());
    let noted = run.note(Record::Done { readings });
    performed?;
    journal?;
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
        }),
    }
}

/// What a cell would hold if nobody steered: what the hold had saved whose value is found there, else what is found.
#[must_use]
pub fn beneath<'a>(steering: &'a [Transaction], entry: &Entry, found: &'a State) -> &'a State {
    let saved = |hold: &'a Transaction| {
        let same = |other: &Entry| other.cell == entry.cell && other.target == entry.target;
        let at = hold.entries.iter().position(same)?;
        let is_its = hold.holds(at) && hold.owns(at, found);
        hold.entries.get(at).filter(|_| is_its)?.old.as_ref()
    };
    steering.iter().find_map(saved).unwrap_or(found)
}

/// Whose a hold is: `pid 4711 (floodwall guard)`.
#[must_use]
pub fn describe(transaction: &Transaction) -> String {
    let Begin { pid, command, .. } = &transaction.begin;
    format!("pid {pid} ({})", command.escape_debug())
}
