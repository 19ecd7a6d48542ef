//! Changes carried out, and put back on request.
//!
//! ```text
//! apply:    recover → refused where a hold is in the way → plan → may we write? → begin (fsynced)
//!             → steps, each: intent → write → read back → done → commit
//!             any failure: undo what was done
//! rollback: recover → standing transactions, newest first: undo
//! undo:     every value still ours → the order of a plan → write → read back → closed
//!           what others have changed is left and said, what a hold has on top waits
//! ```

use crate::apply::recover::{Listing, Recovery, holder, occupier};
use crate::apply::run::{Mode, Run, StepError};
use crate::apply::session::Session;
use crate::apply::undo::Undone;
use crate::catalogue::files::Files;
use crate::journal::{JournalError, Record, Transaction};
use crate::plan::change::Change;
use crate::plan::entry::Entry;
use crate::plan::error::PlanError;
use crate::plan::{Plan, plan};

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The transaction; none if everything was as asked for already.
    pub id: Option<u64>,
    /// The plan that was carried out.
    pub plan: Plan,
    /// Values that the kernel made another one of, in words.
    pub adjusted: Vec<String>,
    /// The transactions recovered first.
    pub recovery: Recovery,
}

/// Settings could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The journal. Nothing has been changed.
    #[error("nothing was changed: {0}")]
    Journal(#[from] JournalError),
    /// A file that may not be written. Nothing has been changed.
    #[error("nothing was changed: {0}")]
    MayNotWrite(StepError),
    /// An earlier, interrupted change could not be undone.
    #[error(
        "nothing was changed: change {id} was interrupted and could not be undone ({why}); settle \
         that first, with floodwall rollback"
    )]
    Unrecovered {
        /// Which.
        id: u64,
        /// The defect.
        why: String,
    },
    /// A value that another change holds for a time. When that one ends, what it found must be what
    /// it left behind.
    #[error(
        "nothing was changed: {label} is set for a time by change {id}; floodwall rollback --to \
         {before} ends it",
        before = .id.saturating_sub(1)
    )]
    Temporary {
        /// The knob.
        label: String,
        /// Which change.
        id: u64,
    },
    /// A value that a process that steers holds. It has to be asked first
    /// ([`Session::in_the_way`]).
    #[error("nothing was changed: {label} is held by {by}; pause or stop that first")]
    Steered {
        /// The knob.
        label: String,
        /// The process.
        by: String,
    },
    /// A value of a queue at which a process that steered, and has been killed, is still inside a
    /// write.
    #[error(
        "nothing was changed: {label} can't be set, because {by} has been killed and is still \
         inside a write to its queue; try again when the device has let go of it"
    )]
    Occupied {
        /// The knob.
        label: String,
        /// The process.
        by: String,
    },
    /// A step failed; what had been done was undone.
    #[error("{cause}; \
        {}", if undone.is_complete() { "everything is as before" } else {
        "not everything could be put back: run floodwall rollback" })]
    RolledBack {
        /// The failed step.
        cause: StepError,
        /// How far it was undone.
        undone: Undone,
    },
}

impl ApplyError {
    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Plan(PlanError::Unreadable { .. }) => true,
            Self::Journal(error) => error.lacks_privilege(),
            Self::MayNotWrite(error) | Self::RolledBack { cause: error, .. } => {
                error.lacks_privilege()
            }
            Self::Plan(_)
            | Self::Unrecovered { .. }
            | Self::Temporary { .. }
            | Self::Steered { .. }
            | Self::Occupied { .. } => false,
        }
    }
}

/// Refuses to change what another transaction holds for a time: put back out of turn, the older
/// value would come back with the newer change's end.
fn not_held<'a>(
    mut entries: impl Iterator<Item = &'a Entry>,
    standing: &[(String, Transaction)],
) -> Result<(), ApplyError> {
    let change_of = |entry: &Entry| {
        let holds = |t: &Transaction| t.entries.iter().any(|held| held.cell == entry.cell);
        let temporary = |t: &Transaction| t.begin.expires_at_unix_s.is_some();
        standing.iter().map(|(_, t)| t).find(|t| temporary(t) && holds(t)).map(|t| t.begin.id)
    };
    let held = entries.find_map(|entry| Some((entry.label(), change_of(entry)?)));
    held.map_or(Ok(()), |(label, id)| Err(ApplyError::Temporary { label, id }))
}

/// Opens every file that a plan writes, without writing: half a plan is worse than none.
///
/// # Errors
/// [`ApplyError::MayNotWrite`].
pub fn may_write(plan: &Plan, files: &dyn Files) -> Result<(), ApplyError> {
    for step in &plan.steps {
        let Some(entry) = plan.entries.get(step.entry()) else { continue };
        // The tunable of an elevator that is yet to be switched to.
        if entry.old.is_none() {
            continue;
        }
        let to = step.to();
        files
            .may_write(&to.path)
            .map_err(|error| ApplyError::MayNotWrite(StepError::write(files, entry, to, error)))?;
    }
    Ok(())
}

impl Session<'_> {
    /// Carries out changes that stand until they are put back.
    ///
    /// # Errors
    /// [`ApplyError`], which says whether anything was changed.
    pub fn apply(&self, changes: &[Change], why: &str) -> Result<Applied, ApplyError> {
        self.apply_until(changes, why, None)
    }

    /// Carries out changes. At `expires_at_unix_s` the caller is to run [`Self::rollback_one`];
    /// otherwise the next session puts them back. Until then no other change may cover them.
    ///
    /// # Errors
    /// [`ApplyError`], which says whether anything was changed.
    pub fn apply_until(
        &self,
        changes: &[Change],
        why: &str,
        expires_at_unix_s: Option<u64>,
    ) -> Result<Applied, ApplyError> {
        let (recovery, Listing { standing, steered }) = self.recover_and_list()?;
        if let Some(stuck) = recovery.failed() {
            return Err(ApplyError::Unrecovered { id: stuck.id, why: stuck.to_string() });
        }
        // Planning reads the knob, and that read blocks while a write is pending.
        let asked: Vec<Entry> = changes.iter().map(|change| change.entry(self.files)).collect();
        for entry in &asked {
            if let Some(by) = occupier(&steered, entry) {
                return Err(ApplyError::Occupied { label: entry.label(), by });
            }
            if let Some(by) = holder(&steered, entry) {
                return Err(ApplyError::Steered { label: entry.label(), by });
            }
        }
        let plan = plan(changes, self.files)?;
        // A value that is as asked for may be so for a time only.
        not_held(asked.iter().chain(&plan.entries), &standing)?;
        if plan.is_empty() {
            return Ok(Applied { id: None, plan, adjusted: Vec::new(), recovery });
        }
        may_write(&plan, self.files)?;
        let mut run = self.begin(&plan, why, expires_at_unix_s)?;
        for step in &plan.steps {
            if let Err(cause) = run.perform(step) {
                return Err(ApplyError::RolledBack { cause, undone: run.undo() });
            }
        }
        let readings = run.transaction.readings(self.files);
        if let Err(cause) = run.note(Record::Commit { readings }) {
            return Err(ApplyError::RolledBack { cause, undone: run.undo() });
        }
        let adjusted = run.adjusted();
        Ok(Applied { id: Some(run.transaction.begin.id), plan, adjusted, recovery })
    }

    /// Undoes every standing transaction above a number, newest first; 0 undoes all. Stops at one
    /// that could not be undone completely.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn rollback(&self, to: u64) -> Result<(Recovery, Vec<Undone>), JournalError> {
        let (recovery, Listing { standing, steered }) = self.recover_and_list()?;
        let mut all = Vec::new();
        // An older change is not put back before the changes on top of it.
        let standing = standing.into_iter().filter(|_| recovery.failed().is_none());
        for (name, transaction) in standing.filter(|(_, t)| t.begin.id > to) {
            let undone = self.undo(name, transaction, &steered);
            let complete = undone.is_complete();
            all.push(undone);
            if !complete {
                break;
            }
        }
        Ok((recovery, all))
    }

    /// Undoes one standing transaction, even if others follow it; `None` if it does not, or no
    /// longer, stand.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn rollback_one(&self, id: u64) -> Result<(Recovery, Option<Undone>), JournalError> {
        let (recovery, Listing { standing, steered }) = self.recover_and_list()?;
        let found = standing.into_iter().find(|(_, transaction)| transaction.begin.id == id);
        let undone = found.map(|(name, transaction)| self.undo(name, transaction, &steered));
        Ok((recovery, undone))
    }

    fn begin(
        &self,
        plan: &Plan,
        why: &str,
        expires_at_unix_s: Option<u64>,
    ) -> Result<Run<'_>, JournalError> {
        let (name, transaction) =
            self.begin_transaction(plan.entries.clone(), why, expires_at_unix_s, false)?;
        Ok(self.run(name, transaction, Mode::Apply))
    }
}
