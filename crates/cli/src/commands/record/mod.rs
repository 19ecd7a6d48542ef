//! `floodwall record`: keeps what `watch` shows, for days.
//!
//! ```text
//! Frames ─ a window ─▶ condensed ─▶ Frame ─┬▶ keeper's thread ─▶ daily files
//!    ▲                                     ├▶ outlets: metrics
//!    └─ 1 s while a process ◀──────────────┤
//!       waits long, else 5 s               └▶ Watch ─▶ stall ─┬▶ outlets: metrics, command
//!                                                            ├▶ systemd's journal, else stderr
//!                                                            └▶ keeper's thread ─▶ stall log
//! ```
//!
//! All of them get the frame as it is recorded, and one detector finds the stalls: so they agree.
//!
//! A second thread writes the files. A write may have to wait for the very disk that is flooded,
//! and the recorder goes on looking meanwhile.

mod hook;
mod keeper;
mod outlets;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::Bytes;
use floodwall_model::frame::Frame;
use floodwall_model::stall::Stall;
use floodwall_model::units::parse_duration;
use floodwall_record::stall::{Event, Watch, journal};
use floodwall_record::{Limits, condensed};
use floodwall_report::stalls::sentence;
use jiff::tz::TimeZone;

use crate::commands::frames::Frames;
use crate::exit::Exit;
use crate::{output, signals};
use keeper::Keeper;
use outlets::{OutletArgs, Outlets};

/// Where recordings are kept.
pub(crate) const DIRECTORY: &str = "/var/log/floodwall";

/// Bounds of the interval. A longer window would hide a stall.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);
/// The window while a process waits long: a stall is told to the second.
const CLOSE: Duration = Duration::from_secs(1);
/// So long after the last long wait windows are long again.
const CALM: Duration = Duration::from_secs(10);

/// Record who waits for which disk and who floods it, day and night
///
/// A frame every five seconds, and every second while a process waits long: what floodwall watch
/// shows, for watch --replay, dump, stalls and report --from. One daily file and its index are
/// written in the directory; the oldest days are removed. A full disk loses the frames that do not
/// fit, a kill the one that is being written. Without root there are no waits, and the recording
/// says so.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall record
  floodwall record --dir ~/stalls --interval 1s
  floodwall record --keep-days 7 --keep-size 500MB")]
pub(crate) struct RecordArgs {
    /// Write here
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    dir: PathBuf,
    /// A frame every INTERVAL (1s to 60s) while nothing waits long
    #[arg(long, value_name = "INTERVAL", default_value = "5s", value_parser = interval)]
    interval: Duration,
    /// Keep so many days before this one
    #[arg(long, value_name = "N", default_value_t = Limits::default().days)]
    keep_days: u32,
    /// Keep no more than this, all days together
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    keep_size: Bytes,
    #[command(flatten)]
    outlets: OutletArgs,
    /// End with the process that has started this one: a guard
    #[arg(long, hide = true)]
    with_parent: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|e| e.to_string())?;
    if INTERVALS.contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("'{text}' is out of range: write 1s to 60s"))
    }
}

/// Runs the command.
///
/// # Errors
/// The directory can't be written, another recorder is there, the probe is lost, or the thread that
/// writes is.
pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    if args.with_parent && !signals::end_with_parent()? {
        return Ok(Exit::Failed);
    }
    let limits = Limits { days: args.keep_days, bytes: args.keep_size.0 };
    let mut keeper = Keeper::start(&args.dir, limits)?;
    let outlets = Outlets::open(&args.outlets, say)?;
    let mut watch = Watch::new();
    let root = SysRoot::live()?;
    let mut frames = Frames::open(&root)?;
    say(&format!("recording in '{}'", args.dir.display()));
    let mut since_wait = CALM;
    let mut record = || {
        loop {
            let window = if since_wait < CALM { CLOSE.min(args.interval) } else { args.interval };
            let Some(frame) = frames.next(window, &stop)?.map(condensed) else { return Ok(()) };
            since_wait = if waits(&frame) { Duration::ZERO } else { since_wait + window };
            outlets.frame(&frame);
            tell(&watch.frame(&frame), &outlets);
            let said = keeper.keep(frame, &mut watch)?;
            outlets.frames_lost(said.lost);
            said.lines.iter().for_each(|line| say(line));
        }
    };
    let ended: anyhow::Result<()> = record();
    // However it ended: what waits is written, and the open stalls are logged.
    tell(&watch.finish(), &outlets);
    keeper.finish(watch.lines()).lines.iter().for_each(|line| say(line));
    ended.map(|()| Exit::Done)
}

/// A line of the log.
fn say(line: &str) {
    output::notice(&format!("floodwall: {line}"));
}

/// Tells of stalls that began and ended.
fn tell(events: &[Event], outlets: &Outlets) {
    for event in events {
        match event {
            Event::Began(stall) => outlets.stall_began(stall),
            Event::Ended(stall) => {
                outlets.stall_ended(stall);
                log(stall);
            }
        }
    }
}

/// One message of a stall that is over: to systemd's journal with its fields, and to stderr if
/// there is no journal or a user looks on.
fn log(stall: &Stall) {
    let sentence = sentence(stall, &TimeZone::system());
    let is_sent = journal::send(Path::new(journal::JOURNAL), stall, &sentence).unwrap_or(false);
    if !is_sent || io::stderr().is_terminal() {
        say(&sentence);
    }
}

/// Whether a process waits long.
fn waits(frame: &Frame) -> bool {
    frame.processes.iter().any(|process| process.is_victim)
}
