//! `floodwall hwdb`: submissions of others → `60-floodwall.hwdb`, and its entries as first guesses.
//!
//! ```text
//! DIR/*.json ─ read, checked ─▶ hwdb::merge ─▶ 60-floodwall.hwdb: stdout, or --out FILE
//!                  └ refused ─────┴ candidates ─▶ stderr
//! ```

mod first_guess;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use floodwall_hwdb::{Evidence, MOST_BYTES, Merged, Submission, digest, merge};
use jiff::Zoned;
use jiff::civil::Date;

use crate::exit::{Exit, UsageError};
use crate::{input, output};

pub(crate) use first_guess::FirstGuess;

/// How a submission's name ends.
const ENDING: &str = "json";

/// Merge results of several machines into settings by device model
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall hwdb merge evidence --out 60-floodwall.hwdb")]
pub(crate) struct HwdbArgs {
    #[command(subcommand)]
    command: HwdbCommand,
}

#[derive(Subcommand, Debug)]
enum HwdbCommand {
    Merge(MergeArgs),
}

/// Merge the submissions of a directory into 60-floodwall.hwdb, systemd's format
///
/// Each *.json of the directory is one submission, as floodwall report --submit writes it. A value
/// is taken if results of two sources or more agree, and more than half of all; the others stay
/// candidates and are listed on stderr. A submission that is refused is named there with the
/// reason, and the merge goes on.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall hwdb merge evidence
  floodwall hwdb merge evidence --out 60-floodwall.hwdb

Install the file as /etc/udev/hwdb.d/60-floodwall.hwdb: status, tune and the guard read it there \
instead of the entries that Floodwall ships.")]
struct MergeArgs {
    /// The directory of submissions.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Write the merged file; stdout if not given.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Take results of the simulator, too: nothing confirms them, so only your own ones.
    #[arg(long)]
    models: bool,
}

/// Runs the command.
///
/// # Errors
/// If the directory can't be read, has no submission or refused ones alone, or if the file can't be
/// written.
pub(crate) fn run(args: &HwdbArgs) -> anyhow::Result<Exit> {
    let HwdbCommand::Merge(args) = &args.command;
    if let Some(out) = &args.out {
        output::check_writable(out)?;
    }
    let evidence = read_all(args, Zoned::now().date())?;
    let Merged { database, candidates } = merge(&evidence);
    for candidate in &candidates {
        output::notice(&format!("floodwall: {candidate}"));
    }
    let text = database.to_text();
    match &args.out {
        None => output::document(&text)?,
        Some(out) => output::write_file(out, |file| Ok(file.write_all(text.as_bytes())?))?,
    }
    output::notice(&format!(
        "floodwall: {} of {} submissions, {} candidates",
        entries(database.entries().len()),
        evidence.len(),
        candidates.len()
    ));
    Ok(Exit::Done)
}

fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// All submissions of a directory, in the order of their names. Refused files are named on stderr.
fn read_all(args: &MergeArgs, today: Date) -> anyhow::Result<Vec<Evidence>> {
    let dir = &args.dir;
    let listed = fs::read_dir(dir).with_context(|| format!("can't read '{}'", dir.display()))?;
    let mut paths = Vec::new();
    for entry in listed {
        let path = entry.with_context(|| format!("can't read '{}'", dir.display()))?.path();
        paths.extend(path.extension().is_some_and(|it| it == ENDING).then_some(path));
    }
    if paths.is_empty() {
        let why = "has no submission (*.json); floodwall report RESULT.json --submit FILE.json \
            writes one";
        return Err(UsageError(format!("'{}' {why}", dir.display())).into());
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        match read(&path, today, args.models) {
            Ok(evidence) => all.push(evidence),
            Err(why) => {
                output::notice(&format!("floodwall: '{}' is refused: {why}", path.display()));
            }
        }
    }
    if all.is_empty() {
        anyhow::bail!("'{}': every submission is refused, so nothing is written", dir.display());
    }
    Ok(all)
}

fn read(path: &Path, today: Date, models: bool) -> Result<Evidence, String> {
    let bytes = input::small(path, MOST_BYTES as u64).map_err(|e| e.to_string())?;
    let submission = Submission::read(&bytes, today).map_err(|e| e.to_string())?;
    if submission.modelled_by.is_some() && !models {
        return Err("it is a model's result, which needs --models".to_owned());
    }
    Ok(Evidence { hash: digest(&bytes), submission })
}
