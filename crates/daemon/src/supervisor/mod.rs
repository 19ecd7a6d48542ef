//! The small process beside the guard: starts the worker and listens for its beats. When the worker
//! dies or hangs, it puts back the held knobs and starts another.
//!
//! ```text
//!          start                 dead, or 5 s without a beat: SIGKILL
//!   pause ──────▶ worker ─ beats ──────────────────────────────▶ restore ─▶ pause: 1 s, 2 s, 4 s …
//!     ▲             │ SIGINT, SIGTERM                               │       fifth death within
//!     └─────────────┼───────────────────────────────────────────────┘       ten minutes: end
//!                   ▼ Stop; put back by itself ─▶ end
//! ```
//!
//! It knows nothing of devices. The journal has the values to put back, and another process writes
//! them (`floodwall guard restore`), so that no write can hold this one up.

mod child;
mod lifecycle;
mod notify;
mod recorder;
mod restore;

use std::io::{self, IsTerminal};
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::child::{Worker, WorkerEnd};
use self::notify::Notifier;
use self::recorder::Recorder;
use crate::config::{DIRECTORY, Flags, Listen, Record, Settings};
use crate::directory;
use crate::error::{DaemonError, Doing};
use crate::lock::{self, Lock};
use crate::log::{Log, Priority};
use crate::pipe::{Order, Pause, Sign};
use crate::unmounted;

/// A worker that gives no sign for so long hangs: it gives one a second.
const HANG: Duration = Duration::from_secs(5);
/// How long the first look may take: on a busy machine with many processes and tracepoints to open.
const START: Duration = Duration::from_secs(60);
/// How long putting everything back may take when the worker is told to stop. A queue changes its
/// length only when it has run dry, and a slow disk's takes long.
const STOP: Duration = Duration::from_secs(60);
/// Between two looks at a process that is to end.
const NAP: Duration = Duration::from_millis(50);
/// From one sign of life to systemd to the next is at most this, and at most half of what it asks
/// for.
const PING: Duration = Duration::from_secs(2);
/// The first pause after a death; each next is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// So many deaths …
const MOST_DEATHS: usize = 5;
/// … within this time are too many.
const DEATHS_WITHIN: Duration = Duration::from_secs(600);

/// How a guard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to stop, and everything is put back.
    Done,
    /// It can't go on, or not everything is put back. The log says why.
    Failed,
    /// Its first worker could not begin and has said why: the exit status of the program that
    /// called [`crate::worker::run`], unless a signal ended it.
    NotBegun(Option<i32>),
}

/// The events that the supervisor waits for.
enum Event {
    Signal(i32),
    /// Of the worker with this process number.
    Sign(u32, Sign),
    /// Its stdout is closed.
    Gone(u32),
}

struct Supervisor<'a> {
    args: &'a Flags,
    settings: Settings,
    /// Sent, and not yet taken.
    offered: Option<Settings>,
    log: Log,
    notifier: Notifier,
    recorder: Recorder,
    sender: Sender<Event>,
    events: Receiver<Event>,
    started: Instant,
    restarts: u32,
    pause: Option<(Pause, Instant)>,
    stopping: bool,
    on_terminal: bool,
    /// Workers that were killed and had not ended.
    stuck: Vec<Child>,
}

/// Runs a guard until it is told to stop.
///
/// # Errors
/// Another guard, or no way to start a process.
pub fn run(args: &Flags) -> Result<End, DaemonError> {
    let settings = Settings::read(args)?;
    directory::check(&settings.socket)?;
    if let Some(Listen::Unix(metrics)) = &settings.metrics {
        directory::check(metrics)?;
    }
    let simulated = settings.sim.is_some().then_some(settings.socket.as_path());
    let _lock = Lock::take(&lock::path(DIRECTORY.as_ref(), simulated), &settings.socket)?;
    let (sender, events) = mpsc::channel();
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).doing(|| "can't install signal handlers".into())?;
    let to_us = sender.clone();
    thread::spawn(move || {
        for signal in &mut signals {
            if to_us.send(Event::Signal(signal)).is_err() {
                break;
            }
        }
    });
    let log = Log::open();
    for warning in unmounted::warnings(&settings.mounted) {
        log.say(Priority::Warning, &warning);
    }
    let mut supervisor = Supervisor::new(args, settings, log.clone(), (sender, events));
    let end = supervisor.supervise();
    supervisor.notifier.stopping();
    supervisor.recorder.stop();
    log.flush();
    end
}

impl<'a> Supervisor<'a> {
    /// One that has not started anything yet.
    fn new(
        args: &'a Flags,
        settings: Settings,
        log: Log,
        (sender, events): (Sender<Event>, Receiver<Event>),
    ) -> Self {
        Self {
            args,
            settings,
            offered: None,
            log,
            notifier: Notifier::open(),
            recorder: Recorder::default(),
            sender,
            events,
            started: Instant::now(),
            restarts: 0,
            pause: None,
            stopping: false,
            on_terminal: io::stderr().is_terminal(),
            stuck: Vec::new(),
        }
    }

    fn supervise(&mut self) -> Result<End, DaemonError> {
        let mut deaths: Vec<Instant> = Vec::new();
        let mut was_ready = false;
        loop {
            // The worker that is gone did not take the offered settings.
            self.offered = None;
            let mut worker = self.start()?;
            let end = self.watch(&mut worker);
            was_ready |= worker.ready;
            let clean = match &end {
                WorkerEnd::Stopped(Some(status)) | WorkerEnd::Died(status) => status.success(),
                WorkerEnd::Stopped(None) | WorkerEnd::Hung => false,
            };
            if clean {
                return Ok(End::Done);
            }
            self.keep_stuck(worker);
            let (restored, is_back) = self.restore();
            match end {
                WorkerEnd::Stopped(status) => {
                    let how =
                        status.map_or_else(|| "killed".to_owned(), |status| status.to_string());
                    self.log.say(
                        Priority::Warning,
                        &format!(
                            "the worker ended badly when it was told to stop ({how}){restored}"
                        ),
                    );
                    return Ok(End::Failed);
                }
                // A new worker would lack the same requirement. This one has logged it.
                WorkerEnd::Died(status) if !was_ready => {
                    return Ok(End::NotBegun(status.code()));
                }
                WorkerEnd::Died(status) => {
                    self.log.say(Priority::Error, &format!("the worker died ({status}){restored}"))
                }
                WorkerEnd::Hung => self.log.say(
                    Priority::Error,
                    &format!(
                        "the worker gave no sign for {} s and was killed{restored}",
                        HANG.as_secs()
                    ),
                ),
            }
            deaths.retain(|death| death.elapsed() < DEATHS_WITHIN);
            deaths.push(Instant::now());
            if deaths.len() >= MOST_DEATHS {
                let minutes = DEATHS_WITHIN.as_secs() / 60;
                self.log.say(
                    Priority::Error,
                    &format!(
                        "given up after {MOST_DEATHS} deaths within {minutes} minutes; look \
                        above for why, and start it again"
                    ),
                );
                return Ok(End::Failed);
            }
            let pause = PAUSE * (1 << (deaths.len() - 1));
            self.log.say(Priority::Notice, &format!("starting it again in {} s", pause.as_secs()));
            self.notifier.status("the worker died; starting it again");
            self.rest(pause);
            if self.stopping {
                return Ok(if is_back { End::Done } else { End::Failed });
            }
            self.restarts += 1;
        }
    }

    /// Waits, with an ear for signals.
    fn rest(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stopping {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.alive();
            match self.events.recv_timeout(left.min(PING)) {
                Ok(Event::Signal(SIGHUP)) => self.reload(None),
                Ok(Event::Signal(_)) => self.stopping = true,
                _ => {}
            }
        }
    }

    /// Tells systemd that this process lives, and looks after the recorder.
    fn alive(&mut self) {
        self.notifier.alive();
        let is_left_out = self.settings.sim.is_some() || self.stopping;
        let wanted = if is_left_out { &Record::Off } else { &self.settings.record };
        self.recorder.tend(wanted, &self.log);
    }

    /// Until it ends.
    fn watch(&mut self, worker: &mut Worker) -> WorkerEnd {
        let mut stopped: Option<Instant> = None;
        let mut gone = false;
        loop {
            if gone && let Ok(Some(status)) = worker.child.try_wait() {
                return if self.stopping {
                    WorkerEnd::Stopped(Some(status))
                } else {
                    WorkerEnd::Died(status)
                };
            }
            if self.stopping && stopped.is_none() {
                self.notifier.stopping();
                worker.order(&Order::Stop);
                worker.signal(Signal::TERM);
                stopped = Some(Instant::now());
            }
            let (since, patience) = match stopped {
                Some(since) => (since, STOP),
                None if worker.ending => (worker.heard, STOP),
                // Opening other devices takes as long as opening the first.
                None if !worker.ready || self.offered.is_some() => (worker.heard, START),
                None => (worker.heard, HANG),
            };
            if since.elapsed() >= patience && !gone {
                return self.kill(worker);
            }
            self.alive();
            let left = patience.saturating_sub(since.elapsed());
            let nap = if gone { NAP } else { left.min(PING) };
            match self.events.recv_timeout(nap) {
                Ok(Event::Sign(pid, sign)) if pid == worker.child.id() => self.heed(worker, sign),
                Ok(Event::Gone(pid)) if pid == worker.child.id() => gone = true,
                Ok(Event::Sign(..) | Event::Gone(_)) => {}
                Ok(Event::Signal(SIGHUP)) => self.reload(Some(worker)),
                Ok(Event::Signal(_)) => self.stopping = true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => gone = true,
            }
        }
    }

    fn heed(&mut self, worker: &mut Worker, sign: Sign) {
        worker.heard = Instant::now();
        match sign {
            Sign::Ready => {
                worker.ready = true;
                self.notifier.ready();
            }
            Sign::Beat => {}
            Sign::Ending => worker.ending = true,
            Sign::Status(line) => self.notifier.status(&line),
            Sign::Configured { taken } => {
                if let Some(settings) = self.offered.take()
                    && taken
                {
                    self.settings = settings;
                }
                self.notifier.ready();
            }
            Sign::Paused(pause) => {
                self.pause = (pause != Pause::None).then(|| (pause, Instant::now()));
            }
        }
    }

    /// Reads the configuration again. A wrong one changes nothing.
    fn reload(&mut self, worker: Option<&mut Worker>) {
        // A terminal that is gone says the same as one that wants its configuration read.
        if self.on_terminal && !io::stderr().is_terminal() {
            self.stopping = true;
            return;
        }
        self.notifier.reloading();
        let read = Settings::read(self.args).map(|mut settings| {
            // A directory may have lost its filesystem since the start.
            settings.mounted.extend(self.settings.mounted.clone());
            settings
        });
        match read {
            Ok(settings) => match worker {
                Some(worker) => {
                    worker.order(&Order::Settings(Box::new(settings.clone())));
                    self.offered = Some(settings);
                }
                None => {
                    self.settings = settings;
                    self.notifier.ready();
                }
            },
            Err(e) => {
                self.log.say(
                    Priority::Error,
                    &format!("the configuration is wrong, the old one stays in force: {e}"),
                );
                self.notifier.ready();
            }
        }
    }
}
