//! `floodwall stalls`: the stalls of the last days, with who waited and why.
//!
//! ```text
//! --last | --from, --to ─▶ record::stall::find ─▶ report::stalls ─▶ a table and sums, or JSON
//! ```

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use floodwall_record::stall::{Found, find, gaps_in};
use floodwall_record::{RecordError, Recording};
use floodwall_report::stalls::{Listing, json, text};
use jiff::Zoned;

use crate::commands::record::DIRECTORY;
use crate::commands::recorded::{LOOKED_AT, bare, find_disk, no_disk, nothing_then};
use crate::commands::span::{asked, last};
use crate::exit::{Exit, UsageError};
use crate::{output, terminal};

/// The time before now if none is given.
const USUAL: &str = "7d";

/// List stalls: who waited, for how long, and who flooded
///
/// A stall is a time in which processes waited too long for a disk, for more than a second.
/// floodwall record logs each one. Of a time whose log is missing, stalls are found in the recorded
/// frames by the same rule.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall stalls
  floodwall stalls --last 24h --device sda
  floodwall stalls --from 'yesterday 22:00' --to 06:00
  floodwall stalls --last 30d --json")]
#[command(after_long_help = "Examples:
  floodwall stalls
  floodwall stalls --last 24h --device sda
  floodwall stalls --from 'yesterday 22:00' --to 06:00
  floodwall stalls --last 30d --json

Columns:
  WHEN LASTED   its beginning, and how long it lasted; >= if its end was not
                seen
  WHO WAITED    the process that waited longest, and how many more
  LONGEST FOR   its slowest wait, and the call
  WHO FLOODED   the process that dirtied most, or holds most of the backlog
  OF            what each of both runs in: unit, container or pod
  DIRTIED       page cache that all floods dirtied within it; before: 93 % is
                the share of the backlog that the first one wrote before it
  BACKLOG DRAINS IN
                the most that was dirty for the disk, and how long that took
  GUARD         its state at the slowest wait
Columns for which the terminal has no room are left out.
floodwall report --from shows the same as a page.")]
pub(crate) struct StallsArgs {
    /// Stalls of so long before now: 90m, 24h, 30d; without this and --from 7d, or all of a day's
    /// file
    #[arg(long, value_name = "SPAN", conflicts_with = "from")]
    last: Option<String>,
    /// Stalls from this moment on: 03:10, 'yesterday 22:00', '2026-11-26 03:10'
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// Stalls before this moment; now if it is not given
    #[arg(long, value_name = "MOMENT", requires = "from")]
    to: Option<String>,
    /// Stalls of this disk alone (sda, /dev/nvme0n1, 8:0)
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the recording is: its directory, or a day's file in it (2026-11-27.frames) for that
    /// day
    #[arg(long, value_name = "PATH", default_value = DIRECTORY)]
    dir: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A wrong moment or disk, nothing recorded in that time, or a recording that can't be read.
pub(crate) fn run(args: &StallsArgs) -> anyhow::Result<Exit> {
    let now = Zoned::now();
    let time = asked(args.last.as_deref(), args.from.as_deref(), args.to.as_deref(), &now)?;
    let (from_unix_ms, to_unix_ms) = match time {
        Some(time) => time,
        None if args.dir.is_file() => {
            let day = Recording::open(&args.dir)?.moments();
            (day.start, day.end)
        }
        None => last(USUAL, &now)?,
    };
    let mut found = find(&args.dir, from_unix_ms, to_unix_ms)?;
    let known = found.known.ok_or_else(|| RecordError::Nothing(args.dir.clone()))?;
    let time = from_unix_ms..to_unix_ms;
    let named = args.device.as_deref().map(|text| disk(text, &args.dir, &found, time));
    let disk = named.transpose()?;
    found.stalls.retain(|stall| disk.as_ref().is_none_or(|disk| stall.disk == *disk));
    let gaps = match found.stalls.is_empty() {
        true => gaps_in(&args.dir, from_unix_ms, to_unix_ms, known)?,
        false => Some(Vec::new()),
    };
    let gaps = gaps.ok_or_else(|| nothing_then(&args.dir, known, now.time_zone()))?;
    let listing = Listing {
        stalls: &found.stalls,
        from_unix_ms,
        to_unix_ms,
        disk: disk.as_deref(),
        known: Some(known),
        gaps: &gaps,
        damaged: found.damaged,
        zone: now.time_zone(),
    };
    if args.json {
        output::json(&(json(&listing)? + "\n"))?;
        return Ok(Exit::Done);
    }
    output::result(&text(&listing, terminal::style()))?;
    if found.damaged > 0 {
        let lost = found.damaged;
        output::notice(&format!("floodwall: {lost} frames or lines of the log can't be read"));
    }
    Ok(Exit::Done)
}

/// The kernel's name of the disk that a user names: of stalls, or else of frames.
fn disk(text: &str, directory: &Path, found: &Found, time: Range<u64>) -> anyhow::Result<String> {
    let name = bare(text);
    let mut others: BTreeSet<String> =
        found.stalls.iter().map(|stall| stall.disk.clone()).collect();
    if others.contains(name) {
        return Ok(name.to_owned());
    }
    let start = found.known.map_or(0, |(first, _)| first).max(time.start);
    let mut recording = Recording::open(directory)?;
    let found = find_disk(&mut recording, name, start..time.end, &mut others)?;
    let none = || UsageError(format!("--device: {}", no_disk(text, LOOKED_AT, &others)));
    Ok(found.ok_or_else(none)?)
}
