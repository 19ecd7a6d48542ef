//! `floodwall guard restore`: puts back what a guard that was killed has left behind. Run by its
//! parent, by systemd (`ExecStopPost=`), or by hand.

use std::path::Path;
use std::time::Duration;

use super::config::default_journal;
use super::log::{Log, Priority};
use crate::exit::Exit;
use crate::output;

/// How long a process that was killed and is still at a write is waited for: the queue of a slow
/// disk takes its time to run dry.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same where somebody asks who may have forgotten that a guard runs.
const BY_HAND: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// A journal that can't be used.
pub(super) fn run(journal: Option<&Path>, by_parent: bool) -> anyhow::Result<Exit> {
    let journal = journal.map_or_else(default_journal, Path::to_owned);
    let restored = floodwall_plant::restore(&journal, if by_parent { PATIENCE } else { BY_HAND })?;
    let lines = restored.lines();
    if by_parent {
        let log = Log::open();
        lines.iter().for_each(|line| log.say(Priority::Notice, line));
        log.flush();
    } else if lines.is_empty() {
        output::result("nothing to put back\n")?;
    } else {
        lines.iter().try_for_each(|line| output::result(&format!("{line}\n")))?;
    }
    if !restored.steering.is_empty() && !by_parent {
        output::notice(
            "floodwall: a guard that runs puts everything back itself: floodwall guard pause, or stop it",
        );
    }
    Ok(if restored.is_complete() { Exit::Done } else { Exit::Failed })
}
