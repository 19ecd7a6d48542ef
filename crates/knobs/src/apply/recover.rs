//! Recovery: what a crash, a kill or an earlier boot left open.
//!
//! ```text
//! recover:  holds whose process is gone → what was cut short, newest first: undo
//!           a hold whose process lives is left alone
//!           a killed process still inside a write: of its hold everything is undone but what
//!           has to do with that write
//! ```

use crate::apply::hold::{self, in_the_way};
use crate::apply::run::Mode;
use crate::apply::session::Session;
use crate::apply::undo::Undone;
use crate::journal::owner::{Life, Occupied, life};
use crate::journal::{Closing, JournalError, Phase, Transaction, log, prune};
use crate::plan::entry::Entry;

/// The findings of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Transactions of an earlier boot, closed without a write.
    pub earlier_boots: Vec<u64>,
    /// Transactions that a crash had cut short, undone now.
    pub undone: Vec<Undone>,
    /// Expired transactions that no process had put back, undone now.
    pub expired: Vec<Undone>,
    /// Invalid journals, and why; renamed to `.bad`.
    pub set_aside: Vec<(String, String)>,
}

impl Recovery {
    /// Whether there is anything to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A change that could not be put back as a whole, if there is one.
    #[must_use]
    pub fn incomplete(&self) -> Option<&Undone> {
        self.undone.iter().chain(&self.expired).find(|undone| !undone.is_complete())
    }

    /// A transaction with an entry that could not be put back, if there is one.
    #[must_use]
    pub fn failed(&self) -> Option<&Undone> {
        self.undone.iter().chain(&self.expired).find(|undone| undone.has_failed())
    }
}

/// A hold whose process lives, or has been killed and is still inside a write.
pub(crate) struct Steered {
    /// Its transaction.
    pub(crate) transaction: Transaction,
    /// The files that the killed process is writing; `None` if it lives.
    pub(crate) occupied: Option<Occupied>,
}

/// The open transactions after a recovery.
#[derive(Default)]
pub(crate) struct Listing {
    /// Changes that stand, newest first.
    pub(crate) standing: Vec<(String, Transaction)>,
    /// Holds whose process is not gone.
    pub(crate) steered: Vec<Steered>,
}

/// The killed process whose unfinished write keeps an entry from being touched.
pub(super) fn occupier(steered: &[Steered], entry: &Entry) -> Option<String> {
    let covers =
        |hold: &&Steered| hold.occupied.as_ref().is_some_and(|occupied| occupied.covers(entry));
    steered.iter().find(covers).map(|hold| hold::describe(&hold.transaction))
}

/// The living process that holds a cell in the way of an entry.
pub(super) fn holder(steered: &[Steered], entry: &Entry) -> Option<String> {
    let mut living = steered.iter().filter(|hold| hold.occupied.is_none());
    let hold = living.find(|hold| in_the_way(&hold.transaction, entry).next().is_some())?;
    Some(hold::describe(&hold.transaction))
}

/// Why an entry must not be put back now.
fn obstacle(steered: &[Steered], entry: &Entry) -> Option<String> {
    let killed = occupier(steered, entry)
        .map(|by| format!("{by} has been killed and is still inside a write to its queue"));
    killed
        .or_else(|| Some(format!("{} holds it; pause or stop that first", holder(steered, entry)?)))
}

/// Whether the journal was tidied up. On a read-only filesystem that is left, and values are put
/// back all the same.
fn is_done(tidied: Result<(), JournalError>) -> Result<bool, JournalError> {
    match tidied {
        Ok(()) => Ok(true),
        Err(error) if error.is_read_only() => Ok(false),
        Err(error) => Err(error),
    }
}

impl Session<'_> {
    /// Closes the journals of earlier boots, undoes what a crash cut short, and sets aside what is
    /// not to be believed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn recover(&self) -> Result<Recovery, JournalError> {
        self.recover_and_list().map(|(recovery, _)| recovery)
    }

    /// Recovers, and lists standing changes and holds. Removes surplus closed journals.
    pub(crate) fn recover_and_list(&self) -> Result<(Recovery, Listing), JournalError> {
        let mut recovery = Recovery::default();
        let mut listing = Listing::default();
        let mut closed = Vec::new();
        let (mut left_holds, mut left) = (Vec::new(), Vec::new());
        let now_unix_s = self.clock.now_unix_s();
        // Newest first, as always when undoing.
        for logged in log(self.store)?.into_iter().rev() {
            let transaction = match logged.transaction {
                Ok(transaction) => transaction,
                Err(why) => {
                    let aside = format!("{}.bad", logged.name);
                    if is_done(self.store.rename(&logged.name, &aside))? {
                        recovery.set_aside.push((logged.name, why));
                    }
                    continue;
                }
            };
            let phase = transaction.phase();
            if matches!(phase, Phase::Closed(_)) {
                closed.push(logged.name);
                continue;
            }
            if logged.length > logged.whole {
                is_done(self.store.truncate(&logged.name, logged.whole))?;
            }
            let (id, name) = (transaction.begin.id, logged.name);
            if transaction.begin.boot_id != self.boot_id {
                if is_done(self.run(name, transaction, Mode::Undo).close(Closing::EarlierBoot))? {
                    recovery.earlier_boots.push(id);
                }
            } else if transaction.begin.steers {
                match life(self.files, self.store, &transaction.begin)? {
                    Life::Gone => left_holds.push((name, transaction, None)),
                    Life::Ending(occupied) => {
                        let occupied = occupied.of(&transaction.entries);
                        left_holds.push((name, transaction, Some(occupied)));
                    }
                    Life::Lives => listing.steered.push(Steered { transaction, occupied: None }),
                }
            } else {
                left.push((name, transaction, phase));
            }
        }
        // A hold is on top of every change.
        for (name, transaction, occupied) in left_holds {
            let mut run = self.run(name, transaction, Mode::Undo);
            let why = format!(
                "{} has been killed and is still inside a write",
                hold::describe(&run.transaction)
            );
            let undone = run.undo_around(|entry| {
                occupied.as_ref().is_some_and(|of| of.covers(entry)).then(|| why.clone())
            });
            if occupied.is_some() && !undone.closed {
                listing.steered.push(Steered { transaction: run.transaction, occupied });
            }
            recovery.undone.push(undone);
        }
        for (name, transaction, phase) in left {
            if phase != Phase::Standing {
                recovery.undone.push(self.undo(name, transaction, &listing.steered));
            } else if transaction.has_expired(now_unix_s) {
                recovery.expired.push(self.undo(name, transaction, &listing.steered));
            } else {
                listing.standing.push((name, transaction));
            }
        }
        prune(self.store, &closed);
        Ok((recovery, listing))
    }

    /// Undoes a change, except for what a hold has on top, and what a killed process is writing.
    pub(super) fn undo(
        &self,
        name: String,
        transaction: Transaction,
        steered: &[Steered],
    ) -> Undone {
        self.run(name, transaction, Mode::Undo).undo_around(|entry| obstacle(steered, entry))
    }
}
