//! `floodwall guard restore`: puts back the knobs of a killed guard. Run by its parent, by systemd
//! (`ExecStopPost=`), or by hand.

use std::path::Path;

use floodwall_daemon::restore;

use super::args;
use crate::exit::Exit;
use crate::output;

/// Runs the command.
///
/// # Errors
/// A journal that can't be used.
pub(super) fn run(journal: Option<&Path>, by_parent: bool) -> anyhow::Result<Exit> {
    let journal = args::journal(journal);
    let is_complete = if by_parent { restore::for_parent(&journal)? } else { by_hand(&journal)? };
    Ok(if is_complete { Exit::Done } else { Exit::Failed })
}

fn by_hand(journal: &Path) -> anyhow::Result<bool> {
    let restored = restore::by_hand(journal)?;
    let lines = restored.lines();
    if lines.is_empty() {
        output::result("nothing to put back\n")?;
    } else {
        lines.iter().try_for_each(|line| output::result(&format!("{line}\n")))?;
    }
    if !restored.steering.is_empty() {
        output::notice(
            "floodwall: a guard that runs puts everything back itself: floodwall guard pause, or \
             stop it",
        );
    }
    Ok(restored.is_complete())
}
