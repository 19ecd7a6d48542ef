//! A guard of the directory's disk for the time of one run.
//!
//! ```text
//! floodwall guard --device DIR --socket … ─ answers there ─▶ the run ─▶ SIGTERM ─▶ all is back
//!                 └ ends before that: its last line says why
//! ```

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_daemon::socket::{self, Reply, Request};
use rustix::process::{Pid, Signal};

use crate::commands::look::ask_guard;
use crate::output::notice;

/// How long a guard may take until it answers.
const BEGIN: Duration = Duration::from_secs(15);
/// How long it may take to put everything back: it waits for a slow queue to run dry for 45 s, and
/// then its parent tries for a minute.
const END: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// The least goal that a guard takes.
const LEAST_GOAL: Duration = Duration::from_millis(2);

/// A guard that runs; ended when it is dropped.
pub(super) struct Guarded {
    child: Child,
    socket: PathBuf,
    /// Reads what it says; ends with its last line.
    said: Option<JoinHandle<Option<String>>>,
}

/// Why no guard can be started here; `None` if one may be.
pub(super) fn refusal() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a guard needs root".to_owned());
    }
    match ask_guard() {
        Some(None) => None,
        Some(Some(_)) => Some(
            "a guard runs already, so the run beside a flood had it; floodwall guard status tells \
             what it steers"
                .to_owned(),
        ),
        None => Some("a guard runs that does not answer".to_owned()),
    }
}

impl Guarded {
    /// Starts a guard with this goal and waits until it answers.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(super) fn start(dir: &Path, goal: Duration, stop: &AtomicBool) -> Result<Self, String> {
        let name = format!("floodwall-check-{}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let child = Command::new("/proc/self/exe")
            .args(["guard", "--with-parent", "--p99"])
            .arg(format!("{}us", goal.max(LEAST_GOAL).as_micros()))
            .arg("--device")
            .arg(dir)
            .arg("--socket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| format!("can't start a guard: {e}"))?;
        let said = child.stderr.take().map(|stderr| {
            thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).last())
        });
        let mut guarded = Self { child, socket, said };
        let end = Instant::now() + BEGIN;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            if matches!(guarded.child.try_wait(), Ok(Some(_)) | Err(_)) {
                let said = guarded.said.take().and_then(|said| said.join().ok().flatten());
                let said = said.unwrap_or_else(|| "the guard ended at once".to_owned());
                return Err(said.trim_start_matches("floodwall: ").to_owned());
            }
            if let Ok(Reply::Status(_)) = socket::ask(Some(&guarded.socket), Request::Status) {
                return Ok(guarded);
            }
            thread::sleep(POLL);
        }
        Err("the guard did not begin in time".to_owned())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= end {
                notice("the guard is still putting settings back; floodwall guard restore helps");
                break;
            }
            thread::sleep(POLL);
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}
