//! The process that steers. Started by the supervisor, told everything over stdin, heard over
//! stdout; ends with its parent.
//!
//! ```text
//! stdin ─▶ Begin ─▶ machine, socket, metrics ─▶ Ready
//!   ─▶ ┌ wait a tick ─ orders, questions ─ Controller::tick ─ log ─ Beat ┐
//!      └────────────────────◀ ───────────────────────────────────────────┘
//! SIGTERM, SIGINT, Stop, the parent's death ─▶ everything put back ─▶ end
//! ```

mod controller;
#[cfg(test)]
pub(crate) mod fake;

use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use floodwall_model::message;
use floodwall_model::plant::PlantError;
use rustix::mm::MlockAllFlags;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::config::Settings;
use crate::error::{DaemonError, Doing};
use crate::log::{Log, Priority};
use crate::machine::{Machine, SimMachine, Unjournaled, open_host};
use crate::metrics;
use crate::pipe::{Begin, Given, Order, Pause, Sign, Signs};
use crate::question::Ask;
use crate::socket::listener::Socket;
use crate::socket::serve;
use crate::worker::controller::{Controller, Now, Origin};

/// The hidden command under which the program runs itself again.
pub const COMMAND: &str = "guard-worker";
/// The control law expects four observations a second.
const TICK: Duration = Duration::from_millis(250);
/// Without victims and floods half as many suffice: most of an observation's cost is reading what
/// every process has written. Two such ticks still fit into the second within which a victim is to
/// be protected.
const IDLE_TICK: Duration = Duration::from_millis(500);
/// Questions answered between two observations; further ones wait for the next.
const MOST_ANSWERS: usize = 16;
/// From one sign of life to the next.
const BEAT: Duration = Duration::from_secs(1);
/// From one line for `systemctl status` to the next.
const STATUS: Duration = Duration::from_secs(5);

fn now() -> Now {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { instant: Instant::now(), unix_s: unix.as_secs_f64() }
}

fn open_machine(settings: &Settings) -> Result<Box<dyn Machine>, DaemonError> {
    Ok(match &settings.sim {
        Some(preset) => Box::new(Unjournaled::new(SimMachine::new(preset)?, settings.dry_run)),
        None if settings.dry_run => Box::new(Unjournaled::new(open_host(settings)?, true)),
        None => Box::new(open_host(settings)?),
    })
}

/// Runs as the worker.
///
/// # Errors
/// The error that keeps it from steering. The program's exit status says it to the parent
/// ([`End::NotBegun`](crate::supervisor::End::NotBegun)).
pub fn run() -> Result<(), DaemonError> {
    // The kernel has taken the name of the link in /proc by which it was started; only a nicer one
    // is lost.
    let _ = rustix::thread::set_name(c"floodwall");
    // It must not outlive its parent; SIGTERM, so that it puts everything back itself. A parent
    // that died before this line is noticed by the end of stdin.
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .doing(|| "can't follow the parent process".into())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .doing(|| "can't install signal handlers".into())?;
    }
    // Its parent's to know.
    signal_hook::flag::register(SIGHUP, Arc::default())
        .doing(|| "can't install signal handlers".into())?;
    let orders = listen(Arc::clone(&stop));
    let Ok(Order::Begin(begin)) = orders.recv() else {
        return Err(DaemonError::Failed("this is a part of floodwall guard; run that".into()));
    };
    let log = Log::open();
    let ended = work(*begin, &orders, &stop, &log);
    log.flush();
    ended
}

/// Takes orders from stdin; its end is one to stop.
fn listen(stop: Arc<AtomicBool>) -> Receiver<Order> {
    let (sender, orders) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(Order::Stop) | Err(_) => break,
                Ok(order) => {
                    if sender.send(order).is_err() {
                        break;
                    }
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    orders
}

/// Everything that lives as long as the worker.
struct Worker<'a> {
    controller: Controller,
    signs: Signs,
    orders: &'a Receiver<Order>,
    asks: Receiver<Ask>,
    stop: &'a AtomicBool,
    log: &'a Log,
    _socket: Socket,
    _metrics: Option<metrics::http::Served>,
}

fn work(
    begin: Begin,
    orders: &Receiver<Order>,
    stop: &AtomicBool,
    log: &Log,
) -> Result<(), DaemonError> {
    let Begin { settings, age, parent_pid, restarts, paused } = begin;
    let signs = Signs::open().doing(|| "can't speak to the parent process".into())?;
    let socket = Socket::bind(&settings.socket)?;
    let machine = open_machine(&settings)?;
    // Pages that were needed once must not be read from a flooded disk again. Without permission to
    // lock memory the worker still works, most of the time. What opening needed only for a moment
    // is given back by now; locked pages can't be.
    let _ = rustix::mm::mlockall(
        MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT,
    );
    let (sender, asks) = mpsc::channel();
    serve::serve(&socket, sender.clone())?;
    let metrics = match &settings.metrics {
        Some(listen) => Some(metrics::http::serve(listen, metrics::of_guard(sender))?),
        None => None,
    };
    let started = Instant::now();
    let origin =
        Origin { started: started.checked_sub(age).unwrap_or(started), parent_pid, restarts };
    let controller = Controller::new(now(), machine, settings, origin);
    let mut worker =
        Worker { controller, signs, orders, asks, stop, log, _socket: socket, _metrics: metrics };
    worker.introduce();
    match worker.go(paused) {
        Ok(()) => {
            worker.end("stopped")?;
            Ok(())
        }
        Err(e) => {
            worker.signs.give(&Sign::Ending);
            let _ = worker.end("it can't go on");
            Err(e)
        }
    }
}

impl Worker<'_> {
    fn introduce(&mut self) {
        let machine = self.controller.machine();
        let mut lines: Vec<(Priority, String)> = Vec::new();
        lines.push((Priority::Notice, format!("looking through {}", machine.source())));
        lines.extend(machine.named().map(|named| (Priority::Notice, named)));
        lines.extend(
            machine.blind().into_iter().map(|blind| (Priority::Info, format!("can't see {blind}"))),
        );
        let left_out = machine.left_out();
        lines.extend(
            left_out
                .into_iter()
                .map(|l| (Priority::Info, format!("{} is left out: {}", l.name, l.why))),
        );
        if self.controller.settings().dry_run {
            lines.push((Priority::Notice, "a dry run: nothing is written".into()));
        }
        for (priority, line) in lines {
            self.controller.say(now(), priority, line);
        }
    }

    fn tell(&mut self) {
        for (priority, line) in self.controller.take_said() {
            self.log.say(priority, &line);
        }
    }

    fn go(&mut self, paused: Pause) -> Result<(), DaemonError> {
        match paused {
            Pause::None => {}
            // Its parent has told it.
            Pause::Endless => self.controller.pause(now(), None, &mut |_| ())?,
            Pause::For(time) => self.controller.pause(now(), Some(time), &mut |_| ())?,
        }
        self.controller.tick(now())?;
        self.tell();
        self.signs.give(&Sign::Ready);
        let (mut beat, mut status) = (Instant::now(), Instant::now());
        while !self.stop.load(Ordering::Relaxed) {
            let tick = if self.controller.is_idle() { IDLE_TICK } else { TICK };
            self.controller.machine().wait(tick, self.stop)?;
            self.obey()?;
            // A flood that has told of itself is known in the look after that.
            self.answer()?;
            self.controller.tick(now())?;
            self.tell();
            self.tell_pause();
            if beat.elapsed() >= BEAT {
                beat = Instant::now();
                if self.signs.give(&Sign::Beat) == Given::Gone {
                    return Ok(());
                }
            }
            if status.elapsed() >= STATUS {
                status = Instant::now();
                let line = self.controller.line(now());
                self.signs.give(&Sign::Status(line));
            }
        }
        Ok(())
    }

    /// The parent's orders.
    fn obey(&mut self) -> Result<(), DaemonError> {
        while let Ok(order) = self.orders.try_recv() {
            if let Order::Settings(new) = order {
                let taken = self.configure(*new)?;
                self.signs.give(&Sign::Configured { taken });
            }
        }
        Ok(())
    }

    /// Takes other settings; `false` if the old ones are still in force because the new ones can't
    /// be.
    fn configure(&mut self, new: Settings) -> Result<bool, DaemonError> {
        let old = self.controller.settings().clone();
        if !self.controller.configure(now(), new)? {
            return Ok(true);
        }
        // Two at once would be in each other's way.
        self.controller.close_machine(now());
        let why = match open_machine(self.controller.settings()) {
            Ok(machine) => {
                self.controller.open_machine(machine);
                return Ok(true);
            }
            Err(e) => message::line(&e),
        };
        self.controller.configure(now(), old)?;
        self.controller.open_machine(open_machine(self.controller.settings())?);
        self.controller.say(
            now(),
            Priority::Error,
            format!("{why}; the old configuration stays in force"),
        );
        Ok(false)
    }

    fn answer(&mut self) -> Result<(), PlantError> {
        for Ask { what, answer } in self.asks.try_iter().take(MOST_ANSWERS) {
            let mut parent = |pause| {
                // One that is lost is sent again after the tick.
                self.signs.give(&Sign::Paused(pause));
            };
            let given = self.controller.answer(now(), what, &mut parent)?;
            // The client may be gone.
            let _ = answer.try_send(given);
        }
        Ok(())
    }

    /// A pause outlives this process. Tried until the parent has it.
    fn tell_pause(&mut self) {
        if self.controller.pause_changed() {
            let pause = self.controller.pause_left(now());
            if self.signs.give(&Sign::Paused(pause)) != Given::Lost {
                self.controller.pause_is_told();
            }
        }
    }

    /// Puts everything back. A knob that can't be put back is an error, so that the parent tries
    /// it, too.
    fn end(mut self, why: &str) -> Result<(), DaemonError> {
        let released = self.controller.release(now(), why);
        self.tell();
        let (said, not_put_back) = self.controller.close(now());
        for (priority, line) in said {
            self.log.say(priority, &line);
        }
        released?;
        if not_put_back > 0 {
            let why = format!(
                "{not_put_back} settings could not be put back; the parent process tries again"
            );
            return Err(DaemonError::Failed(why));
        }
        Ok(())
    }
}
