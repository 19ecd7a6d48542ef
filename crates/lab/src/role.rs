//! The start of a lab's processes: the program runs itself again, with the arguments that lead to
//! its lab, and then `--role ROLE --state DIR`.

use std::process::{Child, Command, Stdio};

use crate::error::LabError;
use crate::state::{Spec, StateDir};

/// What a child process of a lab does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves the device.
    Server,
    /// Waits for the server's end and takes the device down.
    Guardian,
}

impl Role {
    /// As it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Guardian => "guardian",
        }
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Server, Self::Guardian].into_iter().find(|r| r.name() == name)
    }

    /// Starts such a process in the background.
    pub(crate) fn start(self, state: &StateDir, spec: &Spec) -> Result<Child, LabError> {
        Command::new(&spec.program)
            .args(&spec.args)
            .args(["--role", self.name(), "--state"])
            .arg(state.path())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(state.log()?)
            .spawn()
            .map_err(|error| LabError::Command {
                command: spec.program.display().to_string(),
                error,
            })
    }
}
