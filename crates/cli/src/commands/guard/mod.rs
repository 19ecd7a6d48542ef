//! `floodwall guard`: the daemon, and those who ask it.
//!
//! ```text
//! args, config ─▶ supervisor ─ pipe ─▶ worker ─▶ steward ─▶ guard::Guard over ledger over machine (host | sim)
//!                    │  ▲                 │         ▲
//!                    │  └ beats           │         └ serve ◀─ socket (protocol) ◀─ client: status, history, pause, resume
//!                    │                    │                ◀─ HTTP (metrics)   ◀─ Prometheus
//!                    └ restore, when the worker dies or hangs
//! ```

mod args;
mod client;
mod config;
mod document;
mod host;
mod ledger;
mod log;
mod machine;
mod metrics;
mod notify;
mod pipe;
mod place;
mod protocol;
mod restore;
mod serve;
mod steward;
mod supervisor;
mod text;
mod worker;

pub(crate) use args::GuardArgs;
use args::{GuardCommand, RunArgs};
pub(crate) use worker::{COMMAND as WORKER_COMMAND, run as work};

use crate::exit::Exit;

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &GuardArgs) -> anyhow::Result<Exit> {
    match &args.command {
        None => supervisor::run(&args.run),
        Some(GuardCommand::Status { reach, json }) => client::status(reach, *json),
        Some(GuardCommand::History { reach, last, json }) => client::history(reach, *last, *json),
        Some(GuardCommand::Pause { reach, time }) => client::pause(reach, *time),
        Some(GuardCommand::Resume { reach }) => client::resume(reach),
        Some(GuardCommand::Restore { by_parent, journal }) => restore::run(journal.as_deref(), *by_parent),
    }
}
