//! `floodwall guard`: runs the daemon, and asks one that runs.
//!
//! ```text
//! args ─▶ Flags ─▶ daemon: supervisor, worker
//!      └▶ client ─▶ daemon: socket ─▶ text
//! ```

mod args;
mod client;
mod explain;
mod left;
mod restore;
mod text;

pub(crate) use args::GuardArgs;
use args::GuardCommand;
use floodwall_daemon::supervisor::{self, End};
use floodwall_daemon::worker;
pub(crate) use floodwall_daemon::worker::COMMAND as WORKER_COMMAND;

use crate::exit::Exit;
use crate::{output, signals};

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &GuardArgs) -> anyhow::Result<Exit> {
    match &args.command {
        None if args.run.check => {
            output::result(&match args.run.flags().check()? {
                Some(file) => format!("'{}' has no errors\n", file.display()),
                None => "no configuration file: every key has its default\n".to_owned(),
            })?;
            Ok(Exit::Done)
        }
        None => {
            if args.run.with_parent && !signals::end_with_parent()? {
                return Ok(Exit::Failed);
            }
            let flags = args.run.flags();
            // A dry run puts nothing back, and takes present values for the administrator's.
            if let Some(left) = left::told(Some(&flags.journal)).filter(|_| flags.dry_run) {
                output::notice(&format!("{left}; the dry run takes the present values for yours"));
            }
            Ok(match supervisor::run(&flags)? {
                End::Done => Exit::Done,
                End::Failed => Exit::Failed,
                End::NotBegun(status) => of_worker(status),
            })
        }
        Some(GuardCommand::Status { reach, json }) => client::status(reach, *json),
        Some(GuardCommand::History { reach, last, json }) => client::history(reach, *last, *json),
        Some(GuardCommand::Pause { reach, time }) => client::pause(reach, *time),
        Some(GuardCommand::Resume { reach }) => client::resume(reach),
        Some(GuardCommand::Restore { by_parent, journal }) => {
            restore::run(journal.as_deref(), *by_parent)
        }
    }
}

/// Runs as the daemon's worker.
///
/// # Errors
/// The error that keeps it from steering; its parent finds it in the status ([`of_worker`]).
pub(crate) fn work() -> anyhow::Result<Exit> {
    worker::run()?;
    Ok(Exit::Done)
}

/// The meaning of the status of a worker that could not begin: its parent ends with the same.
fn of_worker(status: Option<i32>) -> Exit {
    match status {
        Some(2) => Exit::Usage,
        Some(4) => Exit::Missing,
        _ => Exit::Failed,
    }
}
