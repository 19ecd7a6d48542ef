//! `--exec COMMAND`: a command that is run when a stall has lasted a second, and when it is over.
//!
//! ```text
//! recorder ─ event (never waits) ─▶ thread "hook" ─▶ sh -c COMMAND     in a process group
//!              │ one is running                       stdin:  the stall as JSON (memory, no pipe)
//!              ▼                                      output: a pipe; its first line is logged
//!           dropped, counted                          30 s, then the whole group is killed
//! ```
//!
//! A run is over when the command has ended and its output is closed. A process that it left in the
//! background with its output is part of it; one that closed its output is left alone. When the
//! recorder ends, a run has two more seconds.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::printable::{json, printable};
use floodwall_model::stall::Stall;
use floodwall_model::workload::Workload;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a run may go on when the recorder ends.
const GRACE: Duration = Duration::from_secs(2);
/// How often a run looks whether the recorder ends, or its command has.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of its output that are kept; the first line is shown to so many characters.
const LONGEST_LINE: usize = 200;

/// A stall's begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has lasted a second.
    Began,
    /// It is over.
    Ended,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Ended => "ended",
        }
    }
}

/// See the [module](self).
pub(crate) struct Hook {
    /// Absent once the recorder ends.
    calls: Option<SyncSender<Call>>,
    over: Receiver<()>,
    shared: Arc<Shared>,
}

/// What the recorder and the thread know of each other.
#[derive(Default)]
struct Shared {
    is_running: AtomicBool,
    is_stopping: AtomicBool,
    /// Events that found the command running, and are not logged yet.
    dropped: AtomicU64,
}

struct Call {
    event: Event,
    disk: String,
    victim: String,
    flood: String,
    seconds: String,
    json: String,
}

impl Hook {
    /// Gets a thread ready to run a command. Each run's end is a line of the log.
    ///
    /// # Errors
    /// Without another thread.
    pub(crate) fn new(command: String, log: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        Self::within(LIMIT, command, log)
    }

    fn within(
        limit: Duration,
        command: String,
        log: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (calls, called) = mpsc::sync_channel::<Call>(1);
        let (ends, over) = mpsc::sync_channel(1);
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        thread::Builder::new().name("hook".into()).spawn(move || {
            for call in called {
                let what = format!("--exec, {} on {}", call.event.name(), call.disk);
                log(&format!("{what}: {}", run(&command, &call, limit, &its.is_stopping)));
                its.is_running.store(false, Ordering::SeqCst);
                let dropped = its.dropped.swap(0, Ordering::SeqCst);
                if dropped > 0 {
                    log(&format!("--exec: {dropped} events were dropped while it ran"));
                }
            }
            let _ = ends.try_send(());
        })?;
        Ok(Self { calls: Some(calls), over, shared })
    }

    /// Runs the command for an event, or drops the event while the command runs for another one.
    /// Never waits.
    pub(crate) fn event(&self, event: Event, stall: &Stall) {
        if self.shared.is_running.swap(true, Ordering::SeqCst) {
            self.shared.dropped.fetch_add(1, Ordering::SeqCst);
        } else if let Some(calls) = &self.calls {
            // There is room: the last call has been taken out.
            let _ = calls.try_send(Call::new(event, stall));
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.calls = None;
        // A killed process that waits for a disk may not end for long.
        let _ = self.over.recv_timeout(GRACE * 2);
    }
}

impl Call {
    fn new(event: Event, stall: &Stall) -> Self {
        let who = |workload: &Workload, name: &str| {
            printable(&workload.label().unwrap_or_else(|| name.to_owned())).into_owned()
        };
        let text = serde_json::to_string(stall).unwrap_or_default();
        Self {
            event,
            disk: printable(&stall.disk).into_owned(),
            victim: stall.victims.first().map(|v| who(&v.workload, &v.name)).unwrap_or_default(),
            flood: stall.floods.first().map(|f| who(&f.workload, &f.name)).unwrap_or_default(),
            seconds: format!("{:.1}", stall.lasted_ms() as f64 / 1e3),
            json: json(&text).into_owned() + "\n",
        }
    }
}

/// Runs the command, and says how it ended.
fn run(command: &str, call: &Call, limit: Duration, stop: &AtomicBool) -> String {
    let (mut child, output) = match start(command, call) {
        Ok(started) => started,
        Err(e) => return format!("could not be started: {e}"),
    };
    let mut output = Output { pipe: Some(output), kept: Vec::new() };
    let status = output.follow(&mut child, limit, stop);
    let line = match output.first_line() {
        line if line.is_empty() => String::new(),
        line => format!(": {line}"),
    };
    match status {
        Ok(Some(status)) => format!("{status}{line}"),
        Ok(None) => {
            kill(&child);
            // Only now: until it is waited for, no other group can have its number.
            let _ = child.wait();
            let why = if stop.load(Ordering::SeqCst) { "the recorder ends" } else { "too long" };
            format!("killed ({why}){line}")
        }
        Err(e) => {
            kill(&child);
            let _ = child.wait();
            format!("killed ({e}){line}")
        }
    }
}

fn start(command: &str, call: &Call) -> io::Result<(Child, OwnedFd)> {
    // A pipe would end the recorder, or wait, if the command does not read.
    let mut stdin = File::from(rustix::fs::memfd_create("stall", MemfdFlags::CLOEXEC)?);
    stdin.write_all(call.json.as_bytes())?;
    stdin.rewind()?;
    let (reader, writer) = io::pipe()?;
    let child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .env("FLOODWALL_EVENT", call.event.name())
        .env("FLOODWALL_DISK", &call.disk)
        .env("FLOODWALL_VICTIM", &call.victim)
        .env("FLOODWALL_FLOOD", &call.flood)
        .env("FLOODWALL_SECONDS", &call.seconds)
        .stdin(stdin)
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    Ok((child, reader.into()))
}

fn kill(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// What the command prints.
struct Output {
    /// Absent at its end.
    pipe: Option<OwnedFd>,
    kept: Vec<u8>,
}

impl Output {
    /// Reads until the output is closed and the command has ended; `None` if that takes too long.
    fn follow(
        &mut self,
        child: &mut Child,
        limit: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Option<ExitStatus>> {
        let mut end = Instant::now() + limit;
        loop {
            if stop.load(Ordering::SeqCst) {
                end = end.min(Instant::now() + GRACE);
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            match &self.pipe {
                Some(_) => self.read()?,
                None => match child.try_wait()? {
                    Some(status) => return Ok(Some(status)),
                    None => thread::sleep(LOOK),
                },
            }
        }
    }

    /// Reads what there is, or waits a moment for it.
    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        let look = Timespec::try_from(LOOK).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let mut part = [0; 4096];
        match rustix::io::read(pipe.as_fd(), &mut part) {
            Ok(0) => self.pipe = None,
            Ok(n) => {
                let room = (LONGEST_LINE * 4).saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&part[..n.min(room)]);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    fn first_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        printable(text.lines().next().unwrap_or_default()).chars().take(LONGEST_LINE).collect()
    }
}

#[cfg(test)]
mod tests;
