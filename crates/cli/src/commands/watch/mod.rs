//! `floodwall watch`: a screen of who waits for which disk and who floods it.
//!
//! ```text
//! source: live | sim | replay ─▶ Frame ─▶ screen::Screen ─▶ terminal
//! keys ─▶ Screen ─▶ Command ─▶ actions: a command of floodwall's, a page, files of a process
//! ```
//!
//! A second thread makes the frames, so that a key is answered at once.

mod actions;
mod live;
mod replay;
mod sim;
mod source;
mod terminal;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_model::units::parse_duration;
use floodwall_screen::{Command, Mode, Options, Screen};
use jiff::tz::TimeZone;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::commands::record::DIRECTORY;
use crate::commands::recorded::bare;
use crate::commands::why::target::disk;
use crate::exit::{Exit, UsageError};
use crate::signals;
use actions::Runner;
use source::{Next, Source};
use terminal::Terminal;

/// A shorter interval holds too few operations; a longer one is not watched.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(3600);
/// How long the screen waits for a key before it looks for a frame, and for a signal.
const PATIENCE: Duration = Duration::from_millis(50);
/// The same until the first frame is there.
const IMPATIENCE: Duration = Duration::from_millis(10);

/// Show each disk's waiting and flooding processes, and the guard
///
/// A line a disk: how fast it drains, what waits for it and how long that takes. Below, the
/// processes that wait and those that flood, with their unit, container or pod. Enter shows more of
/// one, ? explains keys and columns. Actions ask first, and name the command that they run. With
/// --replay the same screen shows what floodwall record has stored. Without root /proc tells less,
/// and the screen says what is missing.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall watch
  floodwall watch sda --interval 2s
  floodwall watch /var/lib/postgresql    # the disk below a directory
  floodwall watch --begin 03:10          # last night, if floodwall record ran
  floodwall watch --sim hdd-7200")]
pub(crate) struct WatchArgs {
    /// Show only this disk (sda, /dev/nvme0n1, 8:0), or the one below a mount point or path (/srv);
    /// of a recording by its name
    #[arg(value_name = "DEVICE|PATH")]
    device: Option<String>,
    /// Look every INTERVAL
    #[arg(long, value_name = "INTERVAL", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Show the recording in /var/log/floodwall instead of the machine as it is
    #[arg(long, conflicts_with = "sim")]
    replay: bool,
    /// Show the recording in this directory, or by a day's file in it (2026-11-27.frames) that day
    #[arg(long, value_name = "PATH", conflicts_with = "sim")]
    dir: Option<PathBuf>,
    /// Begin a recording at this moment: 03:10, '2026-11-26 03:10', '10 minutes ago'
    #[arg(short, long, value_name = "MOMENT", conflicts_with = "sim")]
    begin: Option<String>,
    /// Show a simulated machine with this disk (a preset of floodwall lab list)
    #[arg(long, value_name = "PRESET", conflicts_with = "device")]
    sim: Option<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|e| e.to_string())?;
    if INTERVALS.contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("'{text}' is out of range: write 200ms to 1h"))
    }
}

/// Runs the command.
///
/// # Errors
/// An unknown disk or preset, a recording that can't be read, no terminal, a lost probe.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    let zone = TimeZone::system();
    let begin = args.begin.as_deref();
    let is_replay = args.replay || args.dir.is_some() || begin.is_some();
    let device = match args.device.as_deref() {
        // Frames tell which disks there were, also if they are of another machine.
        Some(device) if is_replay => Some(bare(device).to_owned()),
        Some(device) => Some(disk(&SysRoot::live()?, device)?),
        None => None,
    };
    let (mode, stored): (Mode, Option<Box<dyn Source>>) = if is_replay {
        let directory = args.dir.as_deref().unwrap_or(Path::new(DIRECTORY));
        let disk = device.as_deref();
        (Mode::Replay, Some(Box::new(replay::Replay::open(directory, begin, disk, &zone)?)))
    } else if let Some(preset) = &args.sim {
        (Mode::Simulated, Some(Box::new(sim::Simulated::new(preset, args.interval)?)))
    } else {
        (Mode::Live, None)
    };
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let why =
            "watch needs a terminal; floodwall status prints text, floodwall dump a recording";
        return Err(UsageError(why.to_owned()).into());
    }
    let mut source = stored.unwrap_or_else(|| Box::new(live::Live::start(args.interval, &stop)));
    let is_root = rustix::process::geteuid().is_root();
    let mut screen = Screen::new(Options { look: terminal::look(), zone, mode, device, is_root });
    let mut terminal = Terminal::open()?;
    terminal::end_anyway(&stop);
    terminal.draw(&mut screen)?;
    let mut runner = Runner::default();
    let mut patience = IMPATIENCE;
    while !stop.load(Ordering::Relaxed) {
        let mut is_changed = runner.look(&mut screen);
        match source.next() {
            Next::Frame(frame) => {
                screen.push(*frame);
                patience = PATIENCE;
                is_changed = true;
            }
            Next::Frames(frames) => {
                screen.replace(frames);
                patience = PATIENCE;
                is_changed = true;
            }
            Next::Say(text) => {
                screen.say(text);
                is_changed = true;
            }
            Next::Nothing => {}
            Next::Lost(error) => return Err(error),
        }
        if event::poll(patience).context("can't read the terminal")? {
            is_changed = true;
            match event::read().context("can't read the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match screen.key(key) {
                    Some(Command::Quit) => break,
                    Some(command) => {
                        let source = source.as_mut();
                        actions::act(command, &mut screen, source, &mut runner, &mut terminal)?;
                    }
                    None => {}
                },
                Event::Resize(..) => terminal.resized()?,
                _ => {}
            }
        }
        if terminal.was_stopped() {
            terminal.again()?;
            is_changed = true;
        }
        if is_changed {
            terminal.draw(&mut screen)?;
        }
    }
    drop(terminal);
    runner.finish();
    Ok(Exit::Done)
}
