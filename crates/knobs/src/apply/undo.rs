//! Undoing a transaction: only the values that it still owns, in a plan's order, each read back.

use std::fmt;

use floodwall_model::Reading;
use rustix::io::Errno;

use crate::apply::run::{Mode, Run, StepError};
use crate::catalogue::Scope;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::systemd::ask::in_words;
use crate::catalogue::target::Target;
use crate::journal::{Closing, Phase, Record, SavedAt, SavedEntry};
use crate::plan::entry::Entry;
use crate::plan::order::order;
use crate::plan::short;

/// The outcome for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It holds its old value again.
    Restored {
        /// The value.
        to: State,
    },
    /// It held its old value already.
    Unchanged,
    /// Another program has changed it since: left alone.
    Foreign {
        /// The value that Floodwall had set, if known.
        ours: Option<State>,
        /// Its value now.
        found: State,
    },
    /// It is not there any more.
    Vanished {
        /// In words.
        why: String,
    },
    /// It is not put back yet, because a process is inside a write that concerns it. The journal
    /// stays open.
    Waits {
        /// In words.
        why: String,
    },
    /// It could not be put back. The journal stays open.
    Failed {
        /// In words.
        why: String,
    },
}

/// The outcome of undoing a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The transaction.
    pub id: u64,
    /// Every entry by its knob's label.
    pub entries: Vec<(String, Fate)>,
    /// Whether the journal could be closed; if not, the next session finds nothing left to undo
    /// and closes it.
    pub closed: bool,
}

impl Undone {
    /// Whether nothing is left to be put back.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.has_failed() && !self.waits()
    }

    /// Whether something could not be put back, and will not be by itself.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.entries.iter().any(|(_, fate)| matches!(fate, Fate::Failed { .. }))
    }

    /// Whether an entry is put back only when another process's write is over.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.entries.iter().any(|(_, fate)| matches!(fate, Fate::Waits { .. }))
    }
}

impl Fate {
    /// The outcome for a knob, in words; empty for [`Self::Unchanged`].
    #[must_use]
    pub fn told(&self, label: &str) -> String {
        match self {
            Self::Restored { to } => format!("{label}: {} again", short(label, to)),
            Self::Unchanged => String::new(),
            Self::Foreign { ours: Some(ours), found } => {
                format!(
                    "{label}: left at {}, which somebody else has set since (we had set {})",
                    short(label, found),
                    short(label, ours)
                )
            }
            Self::Foreign { ours: None, found } => {
                format!("{label}: left at {}, which somebody else has set", short(label, found))
            }
            Self::Vanished { why } => format!("{label}: gone ({why})"),
            Self::Waits { why } => format!("{label}: not put back yet ({why})"),
            Self::Failed { why } => format!("{label}: not put back ({why})"),
        }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.entries.iter().filter(|(_, fate)| *fate != Fate::Unchanged);
        let mut lines = told.map(|(label, fate)| fate.told(label));
        match lines.next() {
            None => f.write_str("nothing to put back"),
            Some(first) => {
                f.write_str(&first)?;
                lines.try_for_each(|line| write!(f, "\n{line}"))
            }
        }
    }
}

/// How to undo one entry.
enum Decision {
    /// Write the old value, if the knob does not have it by then.
    Restore { changed: bool },
    /// Another program's value: leave it. If restoring another knob resets it, write it again.
    Keep { found: State, ours: Option<State>, told: bool },
    /// Nothing can be done.
    Over(Fate),
}

impl Run<'_> {
    /// Puts back every value that is still the transaction's. Goes on after failures.
    pub(crate) fn undo(&mut self) -> Undone {
        self.undo_around(|_| None)
    }

    /// The same, except for entries that another process blocks, each with the reason in words.
    /// Those are not even read.
    pub(crate) fn undo_around(&mut self, obstacle: impl Fn(&Entry) -> Option<String>) -> Undone {
        self.mode = Mode::Undo;
        // Once for all attempts. In undo mode a record that can't be written is not an error.
        if self.transaction.phase() != Phase::Undoing {
            let _ = self.note(Record::Undo { at_unix_s: self.clock.now_unix_s() });
        }
        let entries = self.transaction.entries.clone();
        let waits: Vec<Option<String>> = entries.iter().map(obstacle).collect();
        // Each question to a systemd that does not answer takes its whole time again.
        let timeout = in_words(Errno::TIMEDOUT);
        let mut is_silent = false;
        let decisions: Vec<Decision> = entries
            .iter()
            .zip(&waits)
            .enumerate()
            .map(|(index, (entry, waits))| match waits {
                // A hold saves more than it writes.
                Some(why) if self.transaction.holds(index) => {
                    Decision::Over(Fate::Waits { why: why.clone() })
                }
                Some(_) => Decision::Over(Fate::Unchanged),
                None if is_silent && matches!(entry.cell, Cell::Property { .. }) => {
                    Decision::Over(Fate::Failed { why: timeout.clone() })
                }
                None => {
                    let decision = self.judge(index, entry, &entries);
                    is_silent |= matches!(&decision, Decision::Over(Fate::Failed { why })
                            if *why == timeout);
                    decision
                }
            })
            .collect();
        let wanted: Vec<(usize, State)> = decisions
            .iter()
            .enumerate()
            .filter_map(|(index, decision)| {
                Some((index, self.goal(index, decision, &decisions, &entries)?))
            })
            .collect();
        // Another program's values that this undoing resets. They are noted in the journal, so that
        // a later undoing brings them back too.
        let kept = wanted
            .iter()
            .filter(|(index, _)| matches!(decisions.get(*index), Some(Decision::Keep { .. })));
        let cells: Vec<SavedAt> = kept
            .filter_map(|(at, found)| {
                let cell =
                    SavedEntry { old: Some(found.clone()), ..SavedEntry::from(entries.get(*at)?) };
                Some(SavedAt { at: *at, cell })
            })
            .collect();
        if !cells.is_empty() {
            let _ = self.note(Record::Save { cells });
        }
        let mut failures: Vec<Option<String>> = vec![None; entries.len()];
        for step in order(&entries, &wanted, self.files) {
            let is_systemds = entries
                .get(step.entry())
                .is_some_and(|entry| matches!(entry.cell, Cell::Property { .. }));
            let failed = if is_silent && is_systemds {
                Some(timeout.clone())
            } else {
                let error = self.perform(&step).err();
                is_silent |= is_systemds && error.as_ref().is_some_and(StepError::is_timeout);
                error.map(|error| error.to_string())
            };
            if let Some(failure) = failures.get_mut(step.entry()) {
                *failure = failed.or(failure.take());
            }
        }
        let fates: Vec<(String, Fate)> = decisions
            .into_iter()
            .zip(&entries)
            .zip(failures)
            .enumerate()
            .map(|(index, ((decision, entry), failure))| {
                let fate = match failure {
                    Some(why) if is_silent && matches!(entry.cell, Cell::Property { .. }) => {
                        Fate::Failed { why }
                    }
                    failure => self.fate(index, entry, decision, failure),
                };
                (entry.label(), fate)
            })
            .collect();
        let mut undone = Undone { id: self.transaction.begin.id, entries: fates, closed: false };
        let is_over = undone.is_complete() && waits.iter().all(Option::is_none);
        undone.closed = is_over && self.close(Closing::Undone).is_ok();
        undone
    }

    fn judge(&self, index: usize, entry: &Entry, entries: &[Entry]) -> Decision {
        if let Err(why) = entry.target.check(self.files) {
            if self.transaction.begin.steers && matches!(entry.target, Target::Process(_)) {
                // A hold has raised whoever came. A process that has ended needs nothing back.
                return Decision::Over(Fate::Unchanged);
            }
            let left = entry.old.as_ref().and_then(|old| entry.cell.left_behind(old, self.files));
            return match left {
                Some(left)
                    if left.as_ref().is_none_or(|limit| self.transaction.owns(index, limit)) =>
                {
                    Decision::Restore { changed: true }
                }
                _ => Decision::Over(Fate::Vanished { why }),
            };
        }
        let Some(old) = &entry.old else {
            // The tunable of an elevator that came with the change goes with it.
            return Decision::Over(Fate::Unchanged);
        };
        let yielded = self.transaction.yielded(index);
        let found = entry.cell.read(self.files);
        let is_silent = found.why().is_some_and(|why| why == in_words(Errno::TIMEDOUT));
        if !matches!(found, Reading::Value(_))
            && !is_silent
            && yielded.is_none()
            && entry.cell.rest(self.files).is_some_and(|rest| self.transaction.owns(index, &rest))
        {
            return Decision::Restore { changed: true };
        }
        match found {
            // The process that asked for a cell reports it.
            Reading::Value(found) if yielded.is_some() => {
                Decision::Keep { found, ours: None, told: yielded == Some(false) }
            }
            Reading::Value(found) if entry.cell.same(&found, old) => {
                Decision::Restore { changed: false }
            }
            Reading::Value(found)
                if self.transaction.owns(index, &found) || self.has_ours(index, entry, &found) =>
            {
                Decision::Restore { changed: true }
            }
            Reading::Value(found) => {
                // A hold saves more than it writes.
                let told = !self.transaction.begin.steers || self.transaction.is_touched(index);
                Decision::Keep { found, ours: self.transaction.last_reading(index).cloned(), told }
            }
            Reading::Absent(_) if yielded.is_some() => Decision::Over(Fate::Unchanged),
            Reading::Absent(why) => {
                let scheduler = entries.iter().enumerate().find(|(_, other)| {
                    other.knob.name == "scheduler" && other.target == entry.target
                });
                let comes_back = matches!(entry.knob.scope, Scope::Elevator(_))
                    && scheduler.is_some_and(|(at, other)| {
                        // One that is back already brings nothing any more.
                        let is_to_be_switched = |now: &State| {
                            self.transaction.yielded(at).is_none()
                                && self.transaction.owns(at, now)
                                && !other.old.as_ref().is_some_and(|old| other.cell.same(old, now))
                        };
                        other.cell.read(self.files).value().is_some_and(is_to_be_switched)
                    });
                // It went and comes with its elevator; only its value is checked.
                if comes_back {
                    Decision::Restore { changed: false }
                } else {
                    Decision::Over(Fate::Vanished { why })
                }
            }
            Reading::Unreadable(why) => Decision::Over(Fate::Failed { why }),
        }
    }

    /// Whether some threads still have the transaction's priority.
    fn has_ours(&self, index: usize, entry: &Entry, found: &State) -> bool {
        entry.cell.has_ours(found, |state| self.transaction.owns(index, state))
    }

    fn fate(
        &self,
        index: usize,
        entry: &Entry,
        decision: Decision,
        failure: Option<String>,
    ) -> Fate {
        match decision {
            Decision::Over(fate) => fate,
            Decision::Keep { told: false, .. } => Fate::Unchanged,
            Decision::Keep { found, ours, .. } => Fate::Foreign { ours, found },
            Decision::Restore { changed } => {
                let now = entry.cell.read(self.files);
                match (&entry.old, now.value()) {
                    // Another program has set the other threads.
                    (Some(old), Some(now))
                        if !entry.cell.same(old, now)
                            && matches!(entry.cell, Cell::Priorities(_))
                            && !self.has_ours(index, entry, now) =>
                    {
                        Fate::Foreign {
                            ours: self.transaction.last_reading(index).cloned(),
                            found: now.clone(),
                        }
                    }
                    (Some(old), Some(now))
                        if entry.cell.same(old, now)
                            || (failure.is_none() && entry.cell.reaches(now, old, self.files)) =>
                    {
                        if changed {
                            // A unit's files may have been changed meanwhile.
                            let to =
                                if matches!(entry.cell, Cell::Property { .. }) { now } else { old };
                            Fate::Restored { to: to.clone() }
                        } else {
                            Fate::Unchanged
                        }
                    }
                    (_, Some(now)) => Fate::Failed {
                        why: failure
                            .unwrap_or_else(|| format!("it holds {}", short(&entry.label(), now))),
                    },
                    (_, None) => Fate::Failed { why: failure.or(now.why()).unwrap_or_default() },
                }
            }
        }
    }

    /// Where an entry is to be brought.
    fn goal(
        &self,
        index: usize,
        decision: &Decision,
        decisions: &[Decision],
        entries: &[Entry],
    ) -> Option<State> {
        let entry = entries.get(index)?;
        match decision {
            Decision::Restore { .. } => {
                let old = entry.old.as_ref()?;
                let is_ours = |state: &State| self.transaction.owns(index, state);
                Some(match entry.cell.read(self.files) {
                    Reading::Value(now) => entry.cell.back(old, &now, is_ours),
                    _ => old.clone(),
                })
            }
            Decision::Keep { found, .. } => {
                let reset = entries.iter().zip(decisions).any(|(other, decision)| {
                    matches!(decision, Decision::Restore { changed: true }) && other.resets(entry)
                });
                reset.then(|| found.clone())
            }
            Decision::Over(_) => None,
        }
    }
}
