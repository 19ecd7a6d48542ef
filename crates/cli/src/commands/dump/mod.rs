//! `floodwall dump`: recorded frames for other programs.
//!
//! ```text
//! Recording ─ range ─▶ Frame ─▶ select: a disk, a unit ─┬▶ a line of JSON
//!                                                       ├▶ csv: rows
//!                                                       └▶ openmetrics: samples, at the end
//! ```
//!
//! JSON and CSV are written frame by frame. OpenMetrics wants all samples of a series together.

mod csv;
mod openmetrics;
mod select;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::{ArgGroup, Args};
use floodwall_model::counts::whole;
use floodwall_model::frame::Frame;
use floodwall_model::printable;
use floodwall_record::{RecordError, Recording};
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::commands::record::DIRECTORY;
use crate::commands::recorded::{local, no_disk, nothing_then};
use crate::commands::span::asked;
use crate::exit::{Exit, UsageError};
use crate::output;
use openmetrics::Series;
use select::Selection;

/// Print recorded frames as JSON, CSV or OpenMetrics
///
/// A frame is a window of floodwall record: memory, disks, the processes that waited for a disk or
/// wrote to it, and the guard. Without a format the number of frames is printed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall dump --last 10m --json
  floodwall dump --from 03:00 --to 03:20 --device sda --csv > night.csv
  floodwall dump --last 2h --unit postgresql --openmetrics > night.om

A frame without the disk or the unit is left out. Moments: 03:10 (the last one),
'2026-11-26 03:10', 2026-11-26T03:10:00Z, 'yesterday 03:10', '10 minutes ago',
10m, now. Prometheus takes the metrics with
promtool tsdb create-blocks-from openmetrics FILE DIR.")]
#[command(group(ArgGroup::new("format").args(["json", "csv", "openmetrics"])))]
pub(crate) struct DumpArgs {
    /// Frames of so long before now (90s, 10m, 24h, 7d); all if no time is named
    #[arg(long, value_name = "SPAN", conflicts_with = "from")]
    last: Option<String>,
    /// Frames from this moment on
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// Frames before this moment; now if it is not given
    #[arg(long, value_name = "MOMENT", requires = "from")]
    to: Option<String>,
    /// This disk (sda, /dev/nvme0n1, 8:0) and the processes that used it, nothing else
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Processes whose unit, container or pod has NAME in its name, and the disks that they used
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
    /// Print JSON, a frame a line
    #[arg(long)]
    json: bool,
    /// Print CSV, a row for each process, disk and frame
    #[arg(long)]
    csv: bool,
    /// Print the metrics that floodwall record serves, with timestamps
    #[arg(long)]
    openmetrics: bool,
    /// Where the recording is: its directory, or a day's file in it (2026-11-27.frames) for that
    /// day
    #[arg(long, value_name = "PATH", default_value = DIRECTORY)]
    dir: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A wrong moment or disk, a recording that can't be read, or nothing to print.
pub(crate) fn run(args: &DumpArgs) -> anyhow::Result<Exit> {
    let now = Zoned::now();
    let time = asked(args.last.as_deref(), args.from.as_deref(), args.to.as_deref(), &now)?;
    let (from, to) = time.unwrap_or((0, u64::MAX));
    let selection = Selection::new(args.device.as_deref(), args.unit.as_deref());
    let mut recording = Recording::open(&args.dir)?;
    let mut found = Found::default();
    let mut failed = None;
    output::result_with(|out| {
        let mut frames = recording.between(from, to).map_while(|read| match read {
            Ok(frame) => Some(frame),
            Err(e) => {
                failed = Some(e);
                None
            }
        });
        let selected = frames.by_ref().filter_map(|frame| found.selected(frame, &selection));
        print(args, selected, out)
    })?;
    if let Some(e) = failed {
        return Err(e.into());
    }
    let zone = now.time_zone();
    if found.frames == 0 {
        return Err(nothing(&mut recording, args, &found, zone));
    }
    if !(args.json || args.csv || args.openmetrics) {
        output::result(&found.summary(zone))?;
    }
    let damage = recording.damage();
    if damage.frames > 0 {
        let lost = whole(damage.frames);
        output::notice(&format!("floodwall: frames that can't be read: {lost} ({})", damage.why));
    }
    Ok(Exit::Done)
}

/// Writes frames in the format that was asked for.
fn print(
    args: &DumpArgs,
    frames: impl Iterator<Item = Frame>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if args.openmetrics {
        let mut series = Series::default();
        frames.for_each(|frame| series.add(&frame));
        if series.left_out() > 0 {
            let frames = whole(series.left_out());
            let why = "the clock was set back, and samples of a series have to follow each other";
            output::notice(&format!("floodwall: {frames} frames are left out: {why}"));
        }
        return Ok(series.write(out)?);
    }
    for (at, frame) in frames.enumerate() {
        if args.json {
            writeln!(out, "{}", printable::json(&serde_json::to_string(&frame)?))?;
        } else if args.csv {
            if at == 0 {
                csv::header(out)?;
            }
            csv::rows(&frame, out)?;
        }
    }
    Ok(())
}

/// The frames that were found.
#[derive(Default)]
struct Found {
    /// Of the time that was asked for.
    in_range: u64,
    /// Of those, the selected ones.
    frames: u64,
    /// The moments of the first and the last selected one, in milliseconds since 1970.
    span: Option<(u64, u64)>,
    /// Names of the disks in those of the time, as long as the selected one is not there.
    disks: BTreeSet<String>,
    has_disk: bool,
}

impl Found {
    fn selected(&mut self, frame: Frame, selection: &Selection) -> Option<Frame> {
        self.in_range += 1;
        self.has_disk |= selection.has_disk(&frame);
        if !self.has_disk {
            self.disks.extend(frame.disks.iter().map(|disk| disk.name.clone()));
        }
        let frame = selection.of(frame)?;
        self.frames += 1;
        let first = self.span.map_or(frame.at_unix_ms, |(first, _)| first);
        self.span = Some((first, frame.at_unix_ms));
        Some(frame)
    }

    fn summary(&self, zone: &TimeZone) -> String {
        let (first, last) = self.span.unwrap_or_default();
        let (first, last) = (local(first, zone), local(last, zone));
        let frames = whole(self.frames);
        format!("{frames} frames, {first} to {last}; --json, --csv or --openmetrics prints them\n")
    }
}

/// Why nothing was printed.
fn nothing(
    recording: &mut Recording,
    args: &DumpArgs,
    found: &Found,
    zone: &TimeZone,
) -> anyhow::Error {
    let known = match recording.span() {
        Ok(Some(known)) => known,
        Ok(None) => return RecordError::Nothing(args.dir.clone()).into(),
        Err(error) => return error.into(),
    };
    if found.in_range == 0 {
        return nothing_then(&args.dir, known, zone);
    }
    let frames = whole(found.in_range);
    if let Some(device) = args.device.as_deref().filter(|_| !found.has_disk) {
        let why = no_disk(device, &format!("{frames} frames"), &found.disks);
        return UsageError(format!("--device: {why}")).into();
    }
    let device = args.device.iter().map(|device| format!("the disk '{device}'"));
    let unit = args.unit.iter().map(|unit| format!("a unit, container or pod with '{unit}' in it"));
    let wanted: Vec<String> = device.chain(unit).collect();
    anyhow!("none of {frames} frames has {}; check its name", wanted.join(" and "))
}
