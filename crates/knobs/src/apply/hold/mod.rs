//! A hold: the transaction of a process that lives on and steers, writing the same knobs again and
//! again.
//!
//! ```text
//! hold      ─▶ begin (fsynced)                   once
//! save      ─▶ what the cells hold (fsynced)     ahead of the first write,
//!                                                so that no write waits for a disk
//! prepare   ─▶ is it still ours? ─▶ intent       ┐
//! perform   ─▶ kernel write, as long as it takes ├ as often as it likes; back to saved values too
//! finish    ─▶ read back ─▶ done                 ┘
//! close     ─▶ what is still ours is put back ─▶ closed
//! ```
//!
//! - The journal's lock is held during `prepare` and `finish`, which are short, but not during
//!   `perform`. A write of `nr_requests` waits there until the queue has run dry. Meanwhile other
//!   processes can change settings.
//! - Without the journal no new value is written. Held cells are still restored: a full disk must
//!   not keep wrong values in force. Records that did not fit are remembered and appended once
//!   there is room.
//! - A write causes no fsync. Records after `save` matter only within this boot. Appends of a
//!   killed process stay in the page cache.
//! - Recovery leaves a hold alone while its process lives ([`owner`](crate::journal::owner)). The
//!   hold of a process that is gone is undone before all other transactions. A hold is always
//!   the last change of a cell: its process yields the cell before another process changes it.
//! - A killed process may still be inside a write. Then all cells are put back except those that
//!   the write concerns.
//! - *Yielding*: the process is asked for a cell that it holds ([`Ask`](crate::Ask)). It puts the
//!   cell back and notes that it yields it. From then on it neither writes the cell nor puts it
//!   back.
//! - If a cell does not read what the hold wrote, another program has changed it. The hold gives it
//!   up and neither writes it nor puts it back.
//! - The file is rewritten once it exceeds [`COMPACT_BYTES`]; finished records are dropped.

mod life;
mod write;

use floodwall_model::printable::printable;

use crate::apply::run::StepError;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::target::Target;
use crate::catalogue::{Knob, Scope};
use crate::journal::{Begin, JournalError, Mark, Record, SavedEntry, Transaction};
use crate::plan::entry::Entry;
use crate::plan::error::PlanError;

pub use write::{Prepared, Written};

/// A hold's file is written anew when it is larger than this and nothing is held, in bytes: some
/// hundred writes.
pub const COMPACT_BYTES: u64 = 128 << 10;
/// … and beyond this size also while cells are held: some thousand writes.
const COMPACT_AT_ONCE_BYTES: u64 = 1 << 20;

/// The knob that brings other tunables with it.
pub(crate) const SCHEDULER: &str = "scheduler";

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
        /// Its owner.
        by: String,
    },
    /// A process that steered is about to end.
    #[error("a process that steered has not ended yet; try again")]
    Marked,
    /// A cell that is to be yielded and is not back.
    #[error("{label} is not put back yet")]
    Held {
        /// The knob.
        label: String,
    },
    /// A process that steered has been killed, and is still inside a write.
    #[error(
        "{by} has been killed and is still inside a write, so that change {id} can't be put back \
         as a whole; wait for its device to let go of it"
    )]
    Ending {
        /// Which hold.
        id: u64,
        /// Its owner.
        by: String,
    },
    /// An earlier, interrupted change could not be undone.
    #[error(
        "change {id} was interrupted and could not be undone ({why}); settle that first, with \
         floodwall rollback"
    )]
    Unrecovered {
        /// Which.
        id: u64,
        /// The fault.
        why: String,
    },
    /// Recovery tells by its start time whether a process lives; one that does not know its own
    /// would be taken for gone.
    #[error("can't read when this process started, in /proc/self/stat; mount /proc")]
    NoStartTime,
    /// A value that would do harm.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Another program has set the knob while it was held, or has asked for it, and owns it now.
    #[error("{label} is left alone: {}", theirs(found, *asked))]
    Theirs {
        /// The knob.
        label: String,
        /// Its present value.
        found: String,
        /// Whether this process was asked for it.
        asked: bool,
    },
    /// Its device is gone, or another one.
    #[error("{label} is left alone: {why}")]
    Gone {
        /// The knob.
        label: String,
        /// The value there instead.
        why: String,
    },
    /// The kernel refused the value, or took another one; the one before is in force.
    #[error(transparent)]
    Step(#[from] StepError),
    /// A write failed, and the value before it could not be brought back: the knob holds another
    /// one. The hold still has it, and puts it back in the end.
    #[error("{cause}; {label} can't be brought back to {before} either: {why}")]
    NotBack {
        /// Why the write failed.
        cause: Box<HoldError>,
        /// The knob.
        label: String,
        /// The value that it should have.
        before: String,
        /// Why it does not.
        why: Box<StepError>,
    },
}

fn theirs(found: &str, asked: bool) -> String {
    if asked {
        "another command has asked for it".to_owned()
    } else {
        format!("it reads {found}, which somebody else has set")
    }
}

impl HoldError {
    /// The first thing that went wrong.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::NotBack { cause, .. } => cause.root(),
            other => other,
        }
    }

    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Journal(error) => error.lacks_privilege(),
            Self::Step(error) => error.lacks_privilege(),
            Self::Plan(error) => matches!(error, PlanError::Unreadable { .. }),
            Self::NotBack { cause, .. } => cause.lacks_privilege(),
            _ => false,
        }
    }
}

/// A hold of this process: its file in the journal, as it was read or written last.
#[derive(Debug)]
pub struct Hold {
    name: String,
    transaction: Transaction,
    /// The kernel's proof that this process lives.
    mark: Option<Mark>,
    /// Bytes of its file, as we left it.
    length: u64,
    /// Records that its file had no room for: what was put back meanwhile.
    owed: Vec<Record>,
}

/// A cell that holds something else than it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCell {
    /// Its place in the hold.
    pub index: usize,
    /// The knob.
    pub knob: &'static Knob,
    /// The place that it belongs to.
    pub target: Target,
    /// As people write it: `sda.nr_requests`.
    pub label: String,
    /// The state that it is put back to.
    pub saved: Option<State>,
    /// Its state after the last write.
    pub now: Option<State>,
}

impl Hold {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.transaction.begin.id
    }

    /// The cells that hold something else than they did, by the last look at the journal, those
    /// that change along with others included.
    #[must_use]
    pub fn held(&self) -> Vec<HeldCell> {
        held(&self.transaction)
    }

    fn index_of(&self, cell: &Cell, target: &Target) -> Option<usize> {
        self.transaction
            .entries
            .iter()
            .position(|entry| entry.cell == *cell && entry.target == *target)
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.transaction.entries.get(index)
    }

    /// The entry that saves a cell. The tunable of an elevator that we have switched to goes with
    /// it: there is nothing to put back.
    fn saved(&self, knob: &Knob, target: &Target, now: State) -> SavedEntry {
        let ours = matches!(knob.scope, Scope::Elevator(_)) && self.holds_elevator(target);
        let (knob, target) = (knob.name.to_owned(), target.clone());
        SavedEntry { knob, target, old: (!ours).then_some(now), new: None }
    }

    fn holds_elevator(&self, target: &Target) -> bool {
        let entries = self.transaction.entries.iter().enumerate();
        let mut elevators =
            entries.filter(|(_, e)| e.knob.name == "scheduler" && e.target == *target);
        elevators.any(|(index, _)| self.transaction.holds(index))
    }
}

/// The cells of a hold, by its journal.
#[must_use]
pub fn held(transaction: &Transaction) -> Vec<HeldCell> {
    let entries =
        transaction.entries.iter().enumerate().filter(|(index, _)| transaction.holds(*index));
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

/// The state that a cell would have without any hold: the saved state of the hold whose value it
/// has, else its present state.
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

/// The places of a hold's cells that are in the way of an entry. These are its own cell, the cells
/// that a write of it changes, and for a tunable its elevator.
pub(crate) fn in_the_way<'a>(
    hold: &'a Transaction,
    entry: &'a Entry,
) -> impl Iterator<Item = usize> + 'a {
    let is_in_the_way = |held: &Entry| {
        held.cell == entry.cell && held.target == entry.target
            || entry.resets(held)
            || held.knob.name == SCHEDULER && held.resets(entry)
    };
    let entries = hold.entries.iter().enumerate();
    entries.filter(move |(at, held)| hold.holds(*at) && is_in_the_way(held)).map(|(at, _)| at)
}

/// The owner of a hold: `pid 4711 (floodwall guard)`.
#[must_use]
pub fn describe(transaction: &Transaction) -> String {
    let Begin { pid, command, .. } = &transaction.begin;
    format!("pid {pid} ({})", printable(command))
}
