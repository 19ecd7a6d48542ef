//! `floodwall probe`: processes that wait for a disk or flood it, live.
//!
//! ```text
//! probe::Probe ─ wait an interval ─▶ Snapshot ─▶ text | json ─▶ stdout
//! again and again until interrupted
//! ```

mod json;
#[cfg(test)]
mod tests;
mod text;
mod users;
mod who;

pub(crate) use users::disk_users;
pub(crate) use who::{waiters, writers};

use std::sync::atomic::Ordering;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::units::parse_duration;
use floodwall_model::{DeviceId, printable};
use floodwall_probe::{Probe, SourceKind, device};

use crate::commands::{columns, cut};
use crate::exit::{Exit, MissingError, UsageError};
use crate::{ascii, output, signals, terminal};

/// A shorter interval holds too few operations for a percentile; a longer one is not watched live.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Watch who waits for which disk, and who floods it
///
/// Per process: how long fsync, fdatasync, msync, sync and synchronous writes took as the caller
/// saw it. Also its reads from the disk, the page cache that it dirtied, and the time that it slept
/// because too much was dirty. Per device: requests by kind, their time in the queue and in the
/// device. As root this comes from the kernel's tracepoints, else from counters in /proc, which
/// know less: what can't be seen is said first. Nothing is changed, and other tracers are not
/// disturbed.
#[derive(clap::Args, Debug)]
#[command(after_help = columns::PROBE_EXAMPLES, after_long_help = columns::probe())]
pub(crate) struct ProbeArgs {
    /// Show only these devices (sda, /dev/nvme0n1, 8:0) and who uses them; all that are used if
    /// none is named
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Show it every INTERVAL
    #[arg(long, value_name = "INTERVAL", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// End after N intervals instead of when interrupted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Where to look; auto takes the best that there is, the others fail where they can't
    #[arg(long, value_enum, default_value = "auto")]
    source: Wish,
}

/// A source, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wish {
    /// The best that there is
    Auto,
    /// Programs in the kernel that count there
    Bpf,
    /// Tracepoints through perf events
    Perf,
    /// Counters in /proc: no privilege, no latencies
    Proc,
}

impl Wish {
    fn kind(self) -> Option<SourceKind> {
        match self {
            Self::Auto => None,
            Self::Bpf => Some(SourceKind::Bpf),
            Self::Perf => Some(SourceKind::Perf),
            Self::Proc => Some(SourceKind::Proc),
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|e| e.to_string())?;
    if INTERVALS.contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("'{text}' is out of range: write 100ms to 1h"))
    }
}

/// Runs the command.
///
/// # Errors
/// A source that can't be used or was lost, an invalid device, stdout that can't be written.
pub(crate) fn run(args: &ProbeArgs) -> anyhow::Result<Exit> {
    let devices = devices(&args.devices)?;
    let stop = signals::stop_flag()?;
    let source = args.source.kind();
    let mut probe = Probe::open(source).map_err(|e| match source {
        // `auto` ends there by itself.
        Some(SourceKind::Perf | SourceKind::Bpf) if e.is_missing_requirement() => {
            MissingError(format!("{e}; --source proc works without")).into()
        }
        _ => anyhow::Error::from(e),
    })?;
    // A call may hang since before.
    probe.take_in_all_calls_under_way();
    output::notice(&format!("floodwall: looking through {}", text::source(probe.source())));
    for blind in probe.blind() {
        output::notice(&format!("floodwall: can't see {blind}"));
    }
    // One table alone may scroll.
    let is_redrawn = !args.json && args.count != Some(1);
    let mut shown = 0;
    while args.count.is_none_or(|count| shown < count) {
        probe.wait(args.interval, &stop)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut snapshot = probe.snapshot()?;
        if !devices.is_empty() {
            snapshot.devices.retain(|d| devices.contains(&d.id));
            snapshot.processes.retain(|p| p.device.is_some_and(|d| devices.contains(&d)));
        }
        let page = if args.json {
            printable::json(&json::line(&snapshot, probe.blind())?).into_owned()
        } else {
            let style = terminal::style();
            let page = text::page(&snapshot, style);
            let page = printable::lines(&page);
            let page = ascii::localised(&page);
            match terminal::height().filter(|_| is_redrawn) {
                Some(height) => {
                    // Room for the prompt after the last one.
                    let lines = height.saturating_sub(1);
                    format!("{}\n", cut::redrawn(&page, lines, style.width))
                }
                None => page.into_owned(),
            }
        };
        if !output::part_with(|out| Ok(out.write_all(page.as_bytes())?))? {
            break;
        }
        shown += 1;
    }
    Ok(Exit::Done)
}

fn devices(names: &[String]) -> anyhow::Result<Vec<DeviceId>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let root = SysRoot::live()?;
    names.iter().map(|name| device(&root, name).map_err(|why| UsageError(why).into())).collect()
}
