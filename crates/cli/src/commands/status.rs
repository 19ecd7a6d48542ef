//! `floodwall status`: the dirty data of each device, how long it takes to drain, the settings in
//! force, and findings about them.
//!
//! ```text
//! observe ─ wait a window ─ observe ─▶ host::status ─▶ host::findings ─▶ report::status ─▶ stdout
//!    ▲          probe ─▶ who, look ─▶ diagnosis          journal, managers (text | JSON)      │
//!    └────────────────────────────────────── --watch ─────────────────────────────────────────┘
//! ```
//!
//! Needs no privilege; what root would add is said at the end. On this machine a probe looks on
//! through the window: the page begins with the diagnosis of `why`, and waiting and writing
//! processes are shown. A captured tree holds one moment, which can't be diagnosed.

use std::cell::RefCell;
use std::io::{self, Write};
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use floodwall_host::SysRoot;
use floodwall_host::findings::{About, diagnose};
use floodwall_host::status::{Observation, status};
use floodwall_host::workload::Workloads;
use floodwall_load::sleep_until;
use floodwall_model::diagnosis::Diagnosis;
use floodwall_model::printable;
use floodwall_model::status::Status;
use floodwall_model::units::parse_duration;
use floodwall_probe::{Probe, Snapshot, SourceKind};
use floodwall_report::status::{Style, json, json_line, text};
use floodwall_report::why::sentence;

use crate::commands::hwdb::FirstGuess;
use crate::commands::look::{Guarded, Seen, keep_users, unseen};
use crate::commands::{check_captured, columns, cut};
use crate::exit::{Exit, UsageError};
use crate::{ascii, output, signals, terminal};

mod guards;
mod surroundings;
mod who;

pub(super) use surroundings::Surroundings;

/// A shorter window holds too few completions to make a rate of; a longer one tests the user's
/// patience.
const WINDOWS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(3600);

/// Show what is dirty, for which device, how long it takes to drain, the settings in force, and
/// what is wrong with them
///
/// The page begins with the sentence that floodwall why prints. Rates come from two observations
/// one window apart. Findings, such as FW001, come with their evidence and a remedy; floodwall
/// explain tells more of each. Nothing is changed, and no privilege is needed; what root would add
/// is said at the end.
#[derive(clap::Args, Debug)]
#[command(after_help = columns::STATUS_EXAMPLES, after_long_help = columns::status())]
pub(crate) struct StatusArgs {
    /// Print JSON: one document, or with --watch one a line
    #[arg(long)]
    json: bool,
    /// Show it again every INTERVAL (such as 2s) until interrupted
    #[arg(long, value_name = "INTERVAL", value_parser = window)]
    watch: Option<Duration>,
    /// Time between the two observations; with --watch that of the first, then it is the interval
    #[arg(long, value_name = "N", default_value = "1s", value_parser = seconds)]
    seconds: Duration,
    /// Read a captured tree (DIR/proc, DIR/sys) instead of this machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// `2s`, `500ms`; a plain number too, because the option's name is its unit.
fn seconds(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() { window(&format!("{text}s")) } else { window(text) }
}

/// `2s` or `500ms`.
fn window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text).map_err(|e| e.to_string())?;
    if WINDOWS.contains(&window) {
        Ok(window)
    } else {
        Err(format!("'{text}' is out of range: write 50ms to 1h"))
    }
}

/// Time, as the loop needs it.
trait Clock {
    /// Since some fixed moment.
    fn now(&self) -> Duration;
    /// Waits; `false` if it was told to stop.
    fn wait(&self, time: Duration) -> bool;
    /// Seconds since 1970.
    fn now_unix_s(&self) -> u64;
    /// The processes that used disks in the last wait, and what can't be seen of them; `None`
    /// without a probe.
    fn seen(&self) -> Option<(Snapshot, Vec<String>)>;
}

/// The machine's clock; a raised flag ends its waits.
struct Real {
    origin: Instant,
    stop: Option<Arc<AtomicBool>>,
    /// Looks on during the window; gone once it fails.
    probe: RefCell<Option<Probe>>,
}

impl Clock for Real {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wait(&self, time: Duration) -> bool {
        let never = AtomicBool::new(false);
        let stop = self.stop.as_deref().unwrap_or(&never);
        let end = Instant::now() + time;
        let mut probe = self.probe.borrow_mut();
        if probe.as_mut().is_some_and(|probe| probe.wait(time, stop).is_err()) {
            *probe = None;
        }
        sleep_until(end, stop)
    }

    fn seen(&self) -> Option<(Snapshot, Vec<String>)> {
        let mut held = self.probe.borrow_mut();
        let probe = held.as_mut()?;
        let mut snapshot = probe.snapshot().ok();
        let unseen = unseen(probe);
        match &mut snapshot {
            Some(snapshot) => keep_users(snapshot),
            None => *held = None,
        }
        Some((snapshot?, unseen))
    }

    fn now_unix_s(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// The output's target and its reader.
#[derive(Clone, Copy, Debug)]
struct Screen {
    /// Lines of a terminal, which is redrawn; anything else gets block after block.
    height: Option<usize>,
    style: Style,
    /// Whether the reader is root already.
    is_root: bool,
}

/// Runs the command on this machine and its terminal.
///
/// # Errors
/// If the root can't be read, or stdout can't be written.
pub(crate) fn run(args: &StatusArgs, origin: Instant) -> anyhow::Result<Exit> {
    let root = SysRoot::new(&args.root).map_err(|e| UsageError(e.to_string()))?;
    check_captured(&root)?;
    // Without --watch a signal simply ends the process: there is nothing to clean up.
    let stop = if args.watch.is_some() { Some(signals::stop_flag()?) } else { None };
    let is_root = rustix::process::geteuid().is_root();
    // Its size may change while it is watched.
    let screen = || Screen { height: terminal::height(), style: terminal::style(), is_root };
    let mut probe = if root.is_live() { Probe::open(None).ok() } else { None };
    let never = AtomicBool::new(false);
    // Counters need no time to settle.
    let tracing = probe.as_mut().filter(|p| p.source() != SourceKind::Proc);
    if tracing.is_some_and(|p| p.warm_up(stop.as_deref().unwrap_or(&never)).is_err()) {
        probe = None;
    }
    let probe = RefCell::new(probe);
    let clock = Real { origin, stop, probe };
    output::result_with(|out| Ok(show(args, &root, &clock, out, &screen)?))?;
    Ok(Exit::Done)
}

/// Observes, waits, observes and shows; with `--watch` again and again until the clock says stop.
fn show(
    args: &StatusArgs,
    root: &SysRoot,
    clock: &dyn Clock,
    out: &mut dyn Write,
    screen: &dyn Fn() -> Screen,
) -> io::Result<()> {
    let mut window = args.seconds;
    let mut then = clock.now();
    let mut before = Observation::read(root);
    let surroundings = Surroundings::read(root);
    let others = FirstGuess::read(root);
    let mut workloads = Workloads::new(root);
    let mut guarded = Guarded::ask(root, screen().is_root);
    while clock.wait(window) {
        let now = clock.now();
        let screen = screen();
        // During hours of watching, devices may be exchanged below a mount.
        let after =
            if args.watch.is_some() { Observation::read(root) } else { before.read_again(root) };
        let window_s = (now.saturating_sub(then)).as_secs_f64().max(f64::EPSILON);
        let mut status = status(root, &before, &after, window_s, screen.is_root);
        let seen = clock.seen();
        let snapshot = seen.as_ref().map(|seen| &seen.0);
        surroundings.judge(&mut status, clock.now_unix_s(), snapshot, &mut workloads);
        let diagnosis = seen.map(|(snapshot, unseen)| {
            who::add(root, &mut status, &snapshot);
            let next = match args.watch {
                Some(_) => Guarded::ask(root, screen.is_root),
                None => Guarded::nothing(),
            };
            let asked = mem::replace(&mut guarded, next);
            let is_root = screen.is_root;
            let seen =
                Seen::new(root, &mut status, &snapshot, unseen, asked, is_root, &mut workloads);
            diagnose(seen.with_earlier(root).as_look(&status), &About::Machine)
        });
        match (args.json, args.watch) {
            (true, None) => writeln!(out, "{}", printable::json(&json(&status)?))?,
            (true, Some(_)) => writeln!(out, "{}", printable::json(&json_line(&status)?))?,
            (false, watch) => {
                let page = page(&status, diagnosis.as_ref(), &others, root, screen.style);
                let page = ascii::localised(&page);
                // In one write, so that a terminal does not flicker.
                match (watch, screen.height) {
                    (Some(_), Some(height)) => {
                        let cut = cut::redrawn(&page, height, screen.style.width);
                        out.write_all(cut.as_bytes())?;
                    }
                    (Some(_), None) => out.write_all(format!("{page}\n").as_bytes())?,
                    (None, _) => out.write_all(page.as_bytes())?,
                }
            }
        }
        out.flush()?;
        let Some(interval) = args.watch else { break };
        (window, then, before) = (interval, now, after);
    }
    // The cut page does not end its last line.
    if args.watch.is_some() && screen().height.is_some() && !args.json {
        writeln!(out)
    } else {
        Ok(())
    }
}

/// The sentence that `why` prints, the status, the findings of others, and the guards.
fn page(
    status: &Status,
    diagnosis: Option<&Diagnosis>,
    others: &FirstGuess,
    root: &SysRoot,
    style: Style,
) -> String {
    let mut page = String::new();
    for line in diagnosis.map(|diagnosis| sentence(diagnosis, style)).unwrap_or_default() {
        page.push_str(&line);
        page.push('\n');
    }
    if !page.is_empty() {
        page.push('\n');
    }
    page.push_str(&text(status, style));
    let others = others.lines(status);
    if !others.is_empty() {
        page.push_str(&format!("\n{}\n", printable::lines(&others.join("\n"))));
    }
    let guards = guards::lines(root);
    if !guards.is_empty() {
        page.push_str(&format!("\n{}\n", guards.join("\n")));
    }
    page
}

#[cfg(test)]
mod tests;
