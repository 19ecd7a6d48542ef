//! The binary `floodwall`: commands, progress, exit codes. Everything else is in the crates beside
//! it.
//!
//! ```text
//! main ─▶ args ─▶ commands/why     ─▶ probe, host    ─▶ report
//!               ├ commands/fix     ─▶ why's look     ─▶ settings
//!               ├ commands/bench, check ─▶ bench::HostRunner ─▶ stats ─▶ report
//!               ├ commands/pace    ─▶ pace
//!               ├ commands/status  ─▶ host           ─▶ report
//!               ├ commands/watch, record ─▶ frames   ─▶ screen, record
//!               ├ commands/guard   ─▶ daemon ─▶ guard ⇄ plant
//!               └ commands/settings ─▶ knobs
//! ```

mod ascii;
mod commands;
#[cfg(test)]
#[path = "../tests/documents/mod.rs"]
mod documents;
#[cfg(test)]
mod documents_tests;
mod exit;
#[cfg(test)]
mod help_tests;
mod input;
mod output;
mod progress;
mod signals;
mod terminal;
mod usage;

use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::why::WhyArgs;
use crate::exit::Exit;

/// What `--version` says; `-V` only the number.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit:   ",
    env!("BUILD_COMMIT"),
    "\nbuild:    ",
    env!("BUILD_SUMMARY"),
    "\nfeatures: ",
    env!("BUILD_FEATURES"),
);

/// Keeps a Linux machine's synchronous I/O fast while something else floods it with writes.
#[derive(Parser)]
#[command(name = "floodwall", version, long_version = LONG_VERSION, max_term_width = 80)]
#[command(after_help = "Examples:
  floodwall                          # who waits for a disk now, and why
  floodwall watch                    # a screen of who waits and who floods
  floodwall tune /var/lib/postgresql
  floodwall guard

Without a command: why.

Exit status: 0 done; 1 failed or interrupted, or for why a stall now, or for check a disk that is \
    too slow; 2 wrong usage; 3 measured but not conclusive; 4 a privilege or kernel feature is \
    missing.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Why(WhyArgs),
    Fix(commands::fix::FixArgs),
    Bench(Box<commands::bench::BenchArgs>),
    Check(commands::check::CheckArgs),
    Pace(Box<commands::pace::PaceArgs>),
    #[command(name = commands::pace::KEEPER_COMMAND, hide = true)]
    PaceKeeper,
    Compare(Box<commands::compare::CompareArgs>),
    Compat(Box<commands::compat::CompatArgs>),
    Tune(Box<commands::tune::TuneArgs>),
    Sim(Box<commands::sim::SimArgs>),
    Report(commands::report::ReportArgs),
    Hwdb(commands::hwdb::HwdbArgs),
    Status(commands::status::StatusArgs),
    Probe(commands::probe::ProbeArgs),
    Watch(commands::watch::WatchArgs),
    Record(commands::record::RecordArgs),
    Stalls(commands::stalls::StallsArgs),
    Dump(commands::dump::DumpArgs),
    Guard(Box<commands::guard::GuardArgs>),
    Apply(commands::settings::apply::ApplyArgs),
    Diff(commands::settings::diff::DiffArgs),
    Rollback(commands::settings::rollback::RollbackArgs),
    Log(commands::settings::log::LogArgs),
    Size(commands::settings::size::SizeArgs),
    Export(commands::settings::export::ExportArgs),
    Persist(commands::settings::persist::PersistArgs),
    Unpersist(commands::settings::unpersist::UnpersistArgs),
    Explain(commands::settings::explain::ExplainArgs),
    Man(commands::man::ManArgs),
    Completions(commands::completions::CompletionsArgs),
    #[command(name = commands::settings::timer::COMMAND, hide = true)]
    SettingsTimer(commands::settings::timer::TimerArgs),
    #[command(name = commands::guard::WORKER_COMMAND, hide = true)]
    GuardWorker,
    #[command(name = commands::bench::FLOOD_COMMAND, hide = true)]
    FloodProcess,
    #[command(name = commands::bench::SYNC_COMMAND, hide = true)]
    SyncProcess,
    Lab(Box<commands::lab::LabArgs>),
    #[command(name = commands::lab::SERVER_COMMAND, hide = true)]
    LabServer(commands::lab::ServerArgs),
    #[command(name = commands::lab::guest::COMMAND, hide = true)]
    LabGuest(commands::lab::GuestProcess),
}

fn main() -> ExitCode {
    let origin = Instant::now();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let result = match cli.command.unwrap_or(Command::Why(WhyArgs::default())) {
        Command::Why(args) => commands::why::run(&args),
        Command::Fix(args) => commands::fix::run(&args, origin),
        Command::Bench(args) => commands::bench::run(&args, origin),
        Command::Check(args) => commands::check::run(&args, origin),
        Command::Pace(args) => commands::pace::run(&args),
        Command::PaceKeeper => commands::pace::keep(),
        Command::Compare(args) => commands::compare::run(&args, origin),
        Command::Compat(args) => commands::compat::run(&args, origin),
        Command::Tune(args) => commands::tune::run(&args, origin),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Hwdb(args) => commands::hwdb::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::LabServer(args) => commands::lab::serve(&args),
        Command::LabGuest(args) => commands::lab::guest::process(&args),
        Command::Status(args) => commands::status::run(&args, origin),
        Command::Probe(args) => commands::probe::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Record(args) => commands::record::run(&args),
        Command::Stalls(args) => commands::stalls::run(&args),
        Command::Dump(args) => commands::dump::run(&args),
        Command::Guard(args) => commands::guard::run(&args),
        Command::FloodProcess => commands::bench::flood(),
        Command::SyncProcess => Ok(Exit::Of(floodwall_bench::drain::serve())),
        Command::GuardWorker => commands::guard::work(),
        Command::Apply(args) => commands::settings::apply::run(&args),
        Command::Diff(args) => commands::settings::diff::run(&args),
        Command::Rollback(args) => commands::settings::rollback::run(&args),
        Command::Log(args) => commands::settings::log::run(&args),
        Command::Size(args) => commands::settings::size::run(&args),
        Command::Export(args) => commands::settings::export::run(&args),
        Command::Persist(args) => commands::settings::persist::run(&args),
        Command::Unpersist(args) => commands::settings::unpersist::run(&args),
        Command::Explain(args) => commands::settings::explain::run(&args),
        Command::Man(args) => commands::man::run(&args, Cli::command()),
        Command::Completions(args) => commands::completions::run(&args, &Cli::command()),
        Command::SettingsTimer(args) => commands::settings::timer::run(&args),
    };
    let exit = result.unwrap_or_else(|error| {
        output::notice(&format!("floodwall: {}", output::message(&error)));
        Exit::of(&error)
    });
    exit.into()
}

/// The parsed command line; help and the version are printed at once.
fn parse() -> Result<Cli, Exit> {
    let arguments = commands::compat::by_name(std::env::args_os().collect());
    Cli::try_parse_from(&arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => help(&error),
        _ => {
            let arguments = arguments.iter().map(|text| text.to_string_lossy().into_owned());
            let why = usage::explain(&error, &arguments.collect::<Vec<_>>(), Cli::command());
            output::notice(&format!("floodwall: {why}"));
            Exit::Usage
        }
    })
}

/// Prints a help text.
fn help(error: &clap::Error) -> Exit {
    if ascii::is_utf8() {
        error.exit();
    }
    let text = error.render().to_string();
    if error.use_stderr() {
        output::notice(text.trim_end());
        return Exit::Usage;
    }
    // A closed stdout is the reader's choice.
    let _ = output::result(&text);
    Exit::Done
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
