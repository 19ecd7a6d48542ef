//! `floodwall pace`: a copy, or any command, that other users of its disk hardly notice.
//!
//! ```text
//! words ─▶ own copy (cp, cat) ─▶ pace::copy ────┐
//!      └─▶ any command ───────▶ pace::command ──┴▶ pace::Pacer ─▶ progress, summary
//!                      a running guard ─▶ guarded ──┤
//!           the disk that gets the data ─▶ disks ────┘
//! ```

mod args;
mod command;
mod copy;
mod destination;
mod disks;
mod filesystems;
mod guarded;
mod lines;
mod waiters;

use args::Own;
pub(crate) use args::PaceArgs;
pub(crate) use command::KEEPER_COMMAND;

use crate::exit::{Exit, UsageError};

/// Runs the command.
///
/// # Errors
/// Any failure of a copy, or of the start of a command; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &PaceArgs) -> anyhow::Result<Exit> {
    if args.strict && args.own.is_some() {
        let why = "--strict is for a command after '--': cp and cat pace their own writes";
        return Err(UsageError(why.to_owned()).into());
    }
    if args.dir.is_some() && args.own.is_some() {
        let why =
            "--dir is for a command after '--': the disk of cp and cat is that of their output";
        return Err(UsageError(why.to_owned()).into());
    }
    match &args.own {
        Some(Own::Cp(cp)) => copy::cp(args, cp),
        Some(Own::Cat(cat)) => copy::cat(args, cat),
        None => command::run(args),
    }
}

/// [`KEEPER_COMMAND`].
///
/// # Errors
/// Of its socket.
pub(crate) fn keep() -> anyhow::Result<Exit> {
    command::keep()
}
