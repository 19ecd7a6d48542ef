//! Counts of the copy that goes on, and their lines.
//!
//! ```text
//! copy ─▶ counts ◀─ a thread that waits for SIGUSR1 and SIGINT
//!                   ▼
//!              lines on stderr
//! ```
//!
//! A thread answers signals, so that a copy that waits in read(2) or fsync(2) answers as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_compat::dd::{self, Counts, Status};
use floodwall_load::apart::Counters;
use floodwall_pace::command::ignores;
use floodwall_report::beside::UNIT;
use signal_hook::consts::{SIGINT, SIGUSR1};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use super::failed::say;

/// From one line of `status=progress` to the next.
const PROGRESS: Duration = Duration::from_secs(1);

/// The copy that goes on.
pub(super) struct Running {
    pub(super) full_in: AtomicU64,
    pub(super) partial_in: AtomicU64,
    pub(super) full_out: AtomicU64,
    pub(super) partial_out: AtomicU64,
    pub(super) bytes: AtomicU64,
    status: Status,
    begin: OnceLock<Instant>,
    /// Characters of the line of progress that the cursor stands behind.
    shown: Mutex<usize>,
}

/// Handles signals from here on.
///
/// # Errors
/// If the handlers can't be installed.
pub(super) fn start(status: Status) -> anyhow::Result<Arc<Running>> {
    let zero = || AtomicU64::new(0);
    let running = Arc::new(Running {
        full_in: zero(),
        partial_in: zero(),
        full_out: zero(),
        partial_out: zero(),
        bytes: zero(),
        status,
        begin: OnceLock::new(),
        shown: Mutex::new(0),
    });
    // A job in the background of a shell ignores SIGINT: then it goes on.
    let caught: &[i32] = if ignores(SIGINT) { &[SIGUSR1] } else { &[SIGUSR1, SIGINT] };
    let mut signals = Signals::new(caught).context("can't install signal handlers")?;
    thread::spawn({
        let running = Arc::clone(&running);
        move || {
            for signal in signals.forever() {
                running.print();
                if signal == SIGINT {
                    // The one who waits for this process is to see that it was interrupted.
                    let _ = low_level::emulate_default_handler(SIGINT);
                }
            }
        }
    });
    Ok(running)
}

impl Running {
    /// The time begins: files are open.
    pub(super) fn begin(&self) {
        self.begin.get_or_init(Instant::now);
    }

    /// Whether warnings are printed.
    pub(super) fn warns(&self) -> bool {
        self.status != Status::None
    }

    /// Adds to a count.
    pub(super) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }

    /// Prints a message, on a line of its own.
    pub(super) fn say(&self, message: &str) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let end = if std::mem::take(&mut *shown) > 0 { "\n" } else { "" };
        say(&format!("{end}dd: {message}\n"));
    }

    /// Prints the lines of counts, as far as they are wanted.
    pub(super) fn print(&self) {
        if self.status == Status::None {
            return;
        }
        let counts = self.counts();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = if std::mem::take(&mut *shown) > 0 { "\n" } else { "" }.to_owned();
        text += &dd::records(&counts);
        if self.status != Status::NoTransfer {
            text += &dd::transfer(counts.bytes, self.elapsed().as_secs_f64());
            text.push('\n');
        }
        say(&text);
    }

    /// Prints the line of progress over the last one, if it is wanted and due. `lines` counts them.
    pub(super) fn progress(&self, lines: &mut u32) {
        if self.status != Status::Progress || self.elapsed() < PROGRESS * (*lines + 1) {
            return;
        }
        *lines += 1;
        let line = dd::progress(self.counts().bytes, self.elapsed().as_secs_f64());
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        say(&format!("\r{line:<0$}", *shown));
        *shown = line.len();
    }

    /// For the process that measures it.
    pub(super) fn counters(&self) -> Counters {
        let bytes = self.counts().bytes;
        Counters { ops: bytes / UNIT, bytes }
    }

    fn elapsed(&self) -> Duration {
        self.begin.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    fn counts(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            full_in: get(&self.full_in),
            partial_in: get(&self.partial_in),
            full_out: get(&self.full_out),
            partial_out: get(&self.partial_out),
            bytes: get(&self.bytes),
        }
    }
}
