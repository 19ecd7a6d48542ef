//! `floodwall unpersist`: removes exactly the files that `persist` has written.

use floodwall_knobs::persist::{self, Etc, FileState, Persisted, Written};

use super::persist::{as_root, below, reload, told};
use super::{PlaceArgs, ask};
use crate::exit::Exit;
use crate::output::{self, notice};

/// Keep no settings across boots any more
///
/// Removes the files that floodwall persist has written. One that was changed by hand since is
/// left, and said; status 1. Nothing is changed in the kernel: what the files have set stays until
/// the next boot.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall unpersist --dry-run
  floodwall unpersist")]
pub(crate) struct UnpersistArgs {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print what would be removed and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &UnpersistArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    let kept = persist::read(&place.root);
    let files: Vec<(&str, &FileState)> = kept.files().collect();
    let left = |state: &FileState| !matches!(state, FileState::Absent | FileState::Ours);
    if files.iter().all(|(_, state)| **state == FileState::Absent) {
        output::result("nothing is kept\n")?;
        return Ok(Exit::Done);
    }
    let lines = kept.settings.difference(&Persisted::default());
    output::result(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    let ours = files.iter().any(|(_, state)| **state == FileState::Ours);
    if args.dry_run || !ours {
        for (path, state) in &files {
            match state {
                FileState::Absent => {}
                FileState::Ours => {
                    output::result(&format!(
                        "{} would be removed\n",
                        below(&place, path).display()
                    ))?;
                }
                state => {
                    notice(&told(&place, &Written::Left((*path).to_owned(), (*state).clone())))
                }
            }
        }
        return Ok(if files.iter().any(|(_, state)| left(state)) {
            Exit::Failed
        } else {
            Exit::Done
        });
    }
    if !args.yes && !ask::confirm("Remove it?")? {
        notice("nothing was removed");
        return Ok(Exit::Failed);
    }
    let removed = Etc::open(&place.root).and_then(|etc| etc.remove()).map_err(as_root)?;
    for one in &removed {
        notice(&told(&place, one));
    }
    reload(&place, &removed);
    Ok(if removed.iter().any(|one| matches!(one, Written::Left(..))) {
        Exit::Failed
    } else {
        Exit::Done
    })
}
