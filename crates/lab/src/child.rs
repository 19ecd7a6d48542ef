//! What the program does when a lab has started it again.

use std::path::Path;

use crate::error::LabError;
use crate::role::Role;
use crate::{guardian, server};

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
