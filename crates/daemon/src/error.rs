//! Errors that keep a guard from running, or from answering.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use floodwall_device::SpecError;
use floodwall_model::plant::PlantError;
use floodwall_plant::HostPlantError;
use floodwall_sim::LifeError;

/// Why a guard does not run, or can't be asked.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A flag or the configuration asks for something that can't be.
    #[error("{0}")]
    Usage(String),
    /// A privilege or a kernel feature is missing.
    #[error("{0}")]
    Missing(String),
    /// Something is in the way, such as another guard.
    #[error("{0}")]
    Failed(String),
    /// A system call failed.
    #[error("{what}")]
    Io {
        /// The failed operation.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// No guard runs that could be asked.
    #[error("no guard runs here (nobody listens at '{}'); start one with floodwall \
        guard, or name the socket of one with --socket", .socket.display())]
    NoGuard {
        /// Where it was asked.
        socket: PathBuf,
    },
    /// A guard that runs gave no answer that is understood.
    #[error(
        "the guard at '{}' gave no answer; one that hangs is started again within seconds, ask \
         again",
        .socket.display()
    )]
    NoAnswer {
        /// Where it was asked.
        socket: PathBuf,
        /// The actual answer.
        source: Box<dyn Error + Send + Sync>,
    },
    /// This machine can't be steered, or not be put back.
    #[error(transparent)]
    Host(#[from] HostPlantError),
    /// The machine's sensors or knobs are lost.
    #[error(transparent)]
    Plant(#[from] PlantError),
    /// A simulated machine's device.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A simulated machine.
    #[error(transparent)]
    Sim(#[from] LifeError),
}

impl DaemonError {
    /// Whether a privilege or a kernel feature is missing.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            Self::Missing(_) => true,
            Self::Host(error) => error.is_missing_requirement(),
            _ => false,
        }
    }

    /// Whether something was asked for that can't be.
    #[must_use]
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Usage(_) => true,
            Self::Host(error) => error.is_wrong_use(),
            _ => false,
        }
    }
}

/// Says what was being done when a system call failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, DaemonError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, DaemonError> {
        self.map_err(|source| DaemonError::Io { what: what(), source: source.into() })
    }
}
