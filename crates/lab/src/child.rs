//! The start of a lab's processes: the program runs itself again, with the arguments that lead to
//! its lab, and then `--role ROLE --state DIR`.

use std::path::Path;
use std::process::Command;

use crate::error::LabError;
use crate::state::Spec;
use crate::{guardian, server};

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

    pub(crate) fn command(self, spec: &Spec, state: &Path) -> Command {
        let mut command = Command::new(&spec.program);
        command.args(&spec.args).args(["--role", self.name(), "--state"]).arg(state);
        command
    }
}

/// Does a child process's work. The program that [`crate::Lab`] was told of calls this when it
/// finds `--role ROLE --state DIR` behind the arguments that it gave, and ends when it returns.
///
/// # Errors
/// Why the server could not start, or what the guardian could not take down. They are in the lab's
/// `log` and `error` files as well.
pub fn child(role: Role, state: &Path) -> Result<(), LabError> {
    match role {
        Role::Server => server::main(state),
        Role::Guardian => guardian::main(state),
    }
}
