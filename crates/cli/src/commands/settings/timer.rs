//! The process that ends a change applied `--for` a time. It survives the end of the terminal.
//!
//! ```text
//! apply ─ spawns ─▶ timer: own session, SIGHUP and SIGINT ignored
//!                     │ "ready" ─▶ apply changes settings ─ ends or dies
//!                     │ end of file on stdin: apply is gone
//!                     ├─ the journal has a change of that process cut short ─▶ recover
//!                     └─ one that stands ─▶ wait for its deadline, or SIGTERM
//!                                           ├─▶ put exactly that one back
//!                                           └─ somebody has put it back: nothing is left to do
//! ```
//!
//! If this process is killed, the journal still knows the deadline: the next command that changes
//! something puts the change back then.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use floodwall_knobs::journal::{self, JournalError, Phase, Transaction, boot_id, log};
use floodwall_knobs::{Clock, Intention, SystemClock};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Place, PlaceArgs, held, who};
use crate::exit::Exit;
use crate::output;

/// The hidden command under which the program runs itself again.
pub(crate) const COMMAND: &str = "settings-timer";
/// How soon SIGTERM, a machine that wakes up and a change that was put back by hand are noticed.
const NAP: Duration = Duration::from_millis(500);
/// The longest pause between two attempts to put something back.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const READY: &str = "ready\n";

/// What the timer is told.
#[derive(clap::Args, Debug)]
pub(crate) struct TimerArgs {
    /// The process that changes settings
    #[arg(long)]
    pid: u32,
    /// When it started, in clock ticks since boot
    #[arg(long)]
    started: u64,
    #[command(flatten)]
    place: PlaceArgs,
}

/// A timer that waits for this process to end.
pub(super) struct Timer {
    /// Its end of file tells the timer that we are gone, however that came about.
    _child: Child,
}

impl Timer {
    /// Starts one. When this returns it can't be reached by the terminal any more.
    pub(super) fn start(place: &Place) -> anyhow::Result<Self> {
        let fail = "nothing was changed: can't start the process that would put it back";
        let us = who()?;
        // This very program, even if an upgrade has replaced its file (proc_pid_exe(5)).
        let mut child = Command::new("/proc/self/exe")
            .arg0("floodwall")
            .arg(COMMAND)
            .args(["--pid", &us.pid.to_string(), "--started", &us.pid_start_ticks.to_string()])
            .arg("--root")
            .arg(place.directory())
            .arg("--journal")
            .arg(&place.journal)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context(fail)?;
        let mut said = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut said).context(fail)?;
        }
        anyhow::ensure!(said == READY, "{fail}");
        Ok(Self { _child: child })
    }
}

/// Runs as the timer.
///
/// # Errors
/// Settings that could not be put back. No process reads this; the journal keeps it.
pub(crate) fn run(args: &TimerArgs) -> anyhow::Result<Exit> {
    // Refused only to the leader of a group, which has none of the terminal's signals to fear.
    let _ = rustix::process::setsid();
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&stop))?;
    for ignored in [SIGHUP, SIGINT] {
        signal_hook::flag::register(ignored, Arc::default())?;
    }
    let place = args.place.open()?;
    output::result(READY)?;
    io::stdout().flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;

    let Some(transaction) = find(&place, args)? else { return Ok(Exit::Done) };
    match transaction.phase() {
        Phase::Standing => {}
        Phase::Interrupted | Phase::Undoing => {
            return until_done(&place, Intention::Rollback(u64::MAX), &stop, |session| {
                Ok(session.recover()?.incomplete().is_none())
            });
        }
        // Not what a change for a time can be.
        Phase::Closed(_) | Phase::Steering => return Ok(Exit::Done),
    }
    let id = transaction.begin.id;
    if !wait(&transaction, &stop, || is_over(&place, id))? {
        return Ok(Exit::Done);
    }
    until_done(&place, Intention::RollbackOne(id), &stop, |session| {
        let (recovery, undone) = session.rollback_one(id)?;
        Ok(recovery.expired.iter().chain(&undone).all(|undone| undone.is_complete()))
    })
}

/// The change that the process made, if it made one. Read without the journal's lock, which others
/// may have.
fn find(place: &Place, args: &TimerArgs) -> anyhow::Result<Option<Transaction>> {
    let Some(store) = place.read_journal()? else { return Ok(None) };
    let boot = boot_id(&place.files);
    let ours = |t: &Transaction| {
        t.begin.boot_id == boot
            && t.begin.pid == args.pid
            && t.begin.pid_start_ticks == args.started
    };
    Ok(log(&store)?.into_iter().filter_map(|logged| logged.transaction.ok()).rfind(ours))
}

/// Whether a change has been put back. If the journal can't be read now, the next check may
/// succeed.
fn is_over(place: &Place, id: u64) -> bool {
    match place.read_journal() {
        Ok(Some(store)) => matches!(journal::phase(&store, id), Ok(None | Some(Phase::Closed(_)))),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Waits for the deadline or the flag; `false` if the change is over before. The wall clock is read
/// once: setting it does not move the deadline.
fn wait(
    transaction: &Transaction,
    stop: &AtomicBool,
    is_over: impl Fn() -> bool,
) -> anyhow::Result<bool> {
    let at = transaction.begin.expires_at_unix_s.context("the change has no deadline")?;
    let end = since_boot() + Duration::from_secs(at.saturating_sub(SystemClock.now_unix_s()));
    loop {
        let left = end.saturating_sub(since_boot());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if is_over() {
            return Ok(false);
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// Time since boot, sleep included.
fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Acts under the journal's lock until the action is complete, however long another process holds
/// that or a knob in the way. A queue that is full refuses a value for a while, and a busy systemd
/// does not answer: that is tried again, too, unless `stop` is raised.
fn until_done(
    place: &Place,
    of: Intention<'_>,
    stop: &AtomicBool,
    act: impl Fn(&floodwall_knobs::Session<'_>) -> Result<bool, JournalError>,
) -> anyhow::Result<Exit> {
    let mut pause = NAP;
    loop {
        let done = match place.lock_for(of) {
            Ok(store) => act(&place.session(&store, &place.clock(None))?).map_err(Into::into),
            Err(e) if held::passes(&e) => {
                std::thread::sleep(NAP);
                continue;
            }
            Err(e) => Err(e),
        };
        match done {
            Ok(true) => return Ok(Exit::Done),
            Ok(false) if stop.load(Ordering::Relaxed) => return Ok(Exit::Failed),
            Err(e) if stop.load(Ordering::Relaxed) => return Err(e),
            Ok(false) | Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
