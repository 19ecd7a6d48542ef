//! Why a command can't be run.

use std::ffi::{OsStr, OsString};
use std::io;

use floodwall_model::printable::printable;
use rustix::io::Errno;
use rustix::process::Signal;

use super::strict::StrictError;

/// The reason why a command can't be run, in the words of a shell.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such program.
    #[error("{}: command not found", shown(.program))]
    NotFound {
        /// Its name on the command line.
        program: OsString,
    },
    /// The program exists and can't be run.
    #[error("can't run {}: {errno}", shown(.program))]
    NotExecutable {
        /// As it was called.
        program: OsString,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A signal that usually ends a process came before the command began.
    #[error("interrupted before the command began")]
    Interrupted(Signal),
    /// Signals can't be passed on to it.
    #[error("can't install signal handlers: {0}")]
    Signals(io::Error),
    /// The thread that writes its files back can't be started.
    #[error("can't start a thread: {0}")]
    Thread(io::Error),
    /// The thread that receives its system calls can't be ended.
    #[error("can't make a pipe: {0}")]
    Pipe(io::Error),
    /// Its system calls can't be intercepted.
    #[error("--strict is not possible: {0}")]
    Strict(#[from] StrictError),
    /// Its end can't be waited for.
    #[error("can't wait for {}: {errno}", shown(.program))]
    Wait {
        /// As it was called.
        program: OsString,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// The exit status if this program fails instead of the command, as of env(1) and timeout(1).
pub const FAILED: u8 = 125;

impl CommandError {
    /// The exit status of a shell for this error.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Interrupted(signal) => status_of(*signal),
            _ => FAILED,
        }
    }
}

/// The exit status of a shell for a signal.
pub(super) fn status_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(FAILED)
}

fn shown(program: &OsStr) -> String {
    printable(&program.to_string_lossy()).into_owned()
}
