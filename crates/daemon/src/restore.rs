//! Puts back the knobs of a worker that was killed. A separate process does this, so that no write
//! can block the supervisor. The supervisor, systemd (`ExecStopPost=`) or the user starts it.

use std::path::Path;
use std::time::Duration;

use floodwall_plant::Restored;

use crate::error::DaemonError;
use crate::log::{Log, Priority};

/// The command under which the program runs itself for this; a journal's directory follows.
pub const COMMAND: [&str; 4] = ["guard", "restore", "--by-parent", "--journal"];
/// How long a process that was killed and is still at a write is waited for: the queue of a slow
/// disk takes its time to run dry.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for a call by hand, where the user may have forgotten that a guard runs.
const BY_HAND: Duration = Duration::from_secs(1);

/// Puts everything back, and returns the outcome.
///
/// # Errors
/// A journal that can't be used.
pub fn by_hand(journal: &Path) -> Result<Restored, DaemonError> {
    Ok(floodwall_plant::restore(journal, BY_HAND)?)
}

/// Puts everything back, tells the log, and says whether nothing is left.
///
/// # Errors
/// A journal that can't be used.
pub fn for_parent(journal: &Path) -> Result<bool, DaemonError> {
    let restored = floodwall_plant::restore(journal, PATIENCE)?;
    let log = Log::open();
    restored.lines().iter().for_each(|line| log.say(Priority::Notice, line));
    log.flush();
    Ok(restored.is_complete())
}
