//! Why a setting can't be tried, or not put back.

use floodwall_knobs::journal::JournalError;
use floodwall_knobs::{ApplyError, ChangeError, PlanError};

use crate::options::SAME_GROUP;

/// A setting can't be tried, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A knob that there is not, or a value that it can't have.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A knob of the victims' or the floods' group, which the runner does not have.
    #[error(
        "{name} can't be set: the benchmark has no control group '{group}' here ({why}); leave {} \
         out",
        what_to_leave_out(why)
    )]
    NoGroup {
        /// The knob, as the setting names it.
        name: String,
        /// The group, as settings name it.
        group: String,
        /// The reason why it is missing.
        why: String,
    },
    /// The changes don't go together, or would do harm.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// They could not be made; everything is as before.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The journal can't be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A process that steers does not yield a knob.
    #[error("nothing was changed: {0}")]
    Held(String),
    /// Another program changed knobs while the trial ran.
    #[error("somebody else changed settings during the trial: {0}; what was measured says nothing")]
    ChangedMeanwhile(String),
    /// The machine is not as it was.
    #[error("the setting could not be put back: {0}; run floodwall rollback")]
    NotRestored(String),
    /// The kernel's files can't be opened.
    #[error("can't open the kernel's files: {0}")]
    Files(std::io::Error),
}

/// The option or knob to leave out where a group is missing.
fn what_to_leave_out(why: &str) -> &'static str {
    if why == SAME_GROUP { "--same-group or the knob" } else { "the knob" }
}

impl SettingError {
    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Apply(error) => error.lacks_privilege(),
            Self::Journal(error) => error.lacks_privilege(),
            Self::Plan(error) => matches!(error, PlanError::Unreadable { .. }),
            _ => false,
        }
    }
}
