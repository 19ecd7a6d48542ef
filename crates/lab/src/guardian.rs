//! The guardian: starts a lab's server, waits for its end however it comes, and takes down the
//! rest.
//!
//! ```text
//! up ─▶ guardian ─▶ server              (parent and child: no server is ever without a guardian)
//!          └─ wait ─▶ the server is gone ─▶ take the lab down
//! ```
//!
//! When a server dies, however it dies, the kernel closes its `/dev/fuse` and fails everything that
//! waits for it. What remains is a filesystem over a loop device over a dead file; the guardian
//! takes these away in that order. It holds no file of the lab's open itself, and is not chosen
//! when memory runs out.

use std::path::Path;
use std::time::Duration;

use crate::error::LabError;
use crate::process;
use crate::role::Role;
use crate::state::StateDir;
use crate::teardown::{self, By};

/// How long a guardian waits for a lock that should be free.
const START: Duration = Duration::from_secs(10);

/// Runs until the lab is gone.
///
/// # Errors
/// When the server can't be started (said in the state directory too), or the lab can't be taken
/// down.
pub(crate) fn main(state: &Path) -> Result<(), LabError> {
    let state = StateDir::new(state);
    // Another session: the terminal's signals are not meant for it.
    let _ = rustix::process::setsid();
    process::survive_memory_shortage();
    let spec = state.spec()?;
    let starting = state.lock_to_start(START)?;
    let server = state.enter("guardian").and_then(|()| Role::Server.start(&state, &spec));
    let mut server = server.inspect_err(|e| state.leave_error(e))?;
    drop(starting);
    // This fails for a process that is not a child of this one; the server is a child.
    let _ = server.wait();
    // A server that never began left word why, for `up`, which takes the rest down.
    if state.error().is_some() {
        return Ok(());
    }
    teardown::take_down(&state, By::Guardian(&spec.token))
}
