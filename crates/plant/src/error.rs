//! Reasons why the host can't be steered.

use std::io;

use floodwall_host::root::RootError;
use floodwall_knobs::HoldError;
use floodwall_knobs::journal::JournalError;
use floodwall_probe::ProbeError;

/// The host can't be steered, or not be put back.
#[derive(Debug, thiserror::Error)]
pub enum HostPlantError {
    /// The sensors.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Another process steers, or an earlier one's changes can't be put back.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// /proc and /sys can't be opened.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The kernel's files can't be opened.
    #[error("can't open the kernel's files: {0}")]
    Files(io::Error),
    /// A device that was named and is not there, or can't be steered.
    #[error("can't steer '{name}': {why}")]
    Device {
        /// As it was named.
        name: String,
        /// Why not, and what to do.
        why: String,
    },
    /// There is nothing to steer.
    #[error("there is no device to steer: {0}")]
    Nothing(String),
}

impl HostPlantError {
    /// Whether a privilege or a kernel feature is missing: exit status 4.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            Self::Probe(error) => error.is_missing_requirement(),
            Self::Hold(error) => error.lacks_privilege(),
            Self::Journal(error) => error.lacks_privilege(),
            Self::Nothing(_) => true,
            Self::Root(_) | Self::Files(_) | Self::Device { .. } => false,
        }
    }

    /// Whether the caller asked for something impossible: exit status 2.
    #[must_use]
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Device { .. } | Self::Journal(JournalError::NotAbsolute(_)))
    }
}
