//! Cells that change along with a cell that a hold writes. Values that others had set before are
//! recognised, and restored afterwards.

use floodwall_model::Reading;

use super::{Hold, HoldError};
use crate::catalogue::Scope;
use crate::cell::State;
use crate::held::SCHEDULER;
use crate::journal::{Record, SavedAt, SavedEntry};
use crate::plan::{Entry, short};
use crate::run::Mode;
use crate::session::Session;

/// Other owners' entries that we put back after a write, and whether we were asked for them.
pub(super) type Lent = Vec<(usize, bool)>;

impl Session<'_> {
    /// Prepares a write of an entry that resets other cells. A cell that is not held is saved anew
    /// if it has changed. A held cell that another program has changed is given up. An elevator is
    /// not switched if that would take another owner's tunables away.
    ///
    /// Other owners' cells that have to be brought back afterwards are lent to us until then: after
    /// a crash in between the recovery brings them back.
    pub(super) fn settle_beside(
        &self,
        hold: &mut Hold,
        entry: &Entry,
        back: bool,
    ) -> Result<Lent, HoldError> {
        let (mut anew, mut lost, mut lent) = (Vec::new(), Vec::new(), Vec::new());
        for (at, other) in hold.transaction.entries.iter().enumerate().filter(|(_, e)| entry.resets(e)) {
            let transaction = &hold.transaction;
            let Reading::Value(now) = other.cell.read(self.files) else {
                // The tunable of a third elevator: the one that comes back does not have it.
                let is_stale = matches!(other.knob.scope, Scope::Elevator(_))
                    && other.old.is_some()
                    && !hold.holds_elevator(&other.target);
                if is_stale && transaction.yielded(at).is_none() {
                    anew.push(SavedAt { at, cell: SavedEntry { old: None, ..SavedEntry::from(other) } });
                }
                continue;
            };
            if let Some(asked) = transaction.yielded(at) {
                if entry.knob.name == SCHEDULER && !back {
                    let label = other.label();
                    return Err(HoldError::Theirs { found: short(&label, &now), label, asked });
                }
                lent.push((at, asked));
                anew.push(SavedAt { at, cell: SavedEntry { old: Some(now), ..SavedEntry::from(other) } });
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
        Ok(lent)
    }

    /// The cells that depend on an entry, with their states after a write of it. When the hold puts
    /// values back, these are the saved states of its own cells. Otherwise they are the present
    /// states, if the catalogue says that they are kept.
    pub(super) fn beside(&self, hold: &Hold, entry: &Entry, back: bool, lent: &Lent) -> Vec<(usize, State)> {
        let entries = hold.transaction.entries.iter().enumerate();
        let kept =
            |other: &Entry| entry.knob.resets.iter().any(|reset| reset.keep && reset.covers(other.knob));
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
                    (false, _) if kept(other) || lent.iter().any(|(its, _)| *its == at) => Some((at, now)),
                    (false, _) => None,
                }
            })
            .collect()
    }
}
