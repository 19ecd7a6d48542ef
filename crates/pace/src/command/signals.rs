//! Signals of the pacing process while a command runs.
//!
//! | signal | effect |
//! |---|---|
//! | SIGINT, SIGQUIT | passed on if a process sent it; a terminal sends it to the command as well |
//! | SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 | passed on to the command |
//! | SIGTSTP, SIGTTIN | the command runs on, if it is stopped, and this process is stopped |
//! | SIGCHLD | the command may have ended |
//!
//! SIGINT, SIGQUIT, SIGTERM and SIGHUP end this process if they come before the command begins. The
//! command is not run then. A signal that comes while it begins is passed on.
//!
//! A signal that was ignored at the start stays ignored, also by the command (`nohup`, or a
//! background job of a shell without job control).

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level;

use super::error::CommandError;
use super::sys::{Flag, ignores, raise_on};

/// Signals that usually end a process.
const ENDS: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];
/// Signals with a handler.
const CAUGHT: [Signal; 8] = [
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::TTIN,
];

/// Signals that came since the last call.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Signals for the command. It has to run for them.
    pub(super) passed_on: Vec<Signal>,
    /// The signal by which a terminal asks the command to end. It has to run for that.
    pub(super) ends: Option<Signal>,
    /// Whether this process is to be stopped.
    pub(super) stops: bool,
    /// Whether the descriptor that was waited for as well has become readable.
    pub(super) is_readable: bool,
}

impl Came {
    /// One of them that usually ends a process.
    pub(super) fn asks_to_end(&self) -> Option<Signal> {
        self.ends.or_else(|| self.passed_on.iter().copied().find(|signal| ENDS.contains(signal)))
    }
}

/// Handlers of signals, as long as this lives. Afterwards the signals have no effect.
#[derive(Debug)]
pub(super) struct Signals {
    bell: UnixStream,
    ring: UnixStream,
    flags: Vec<(Arc<Flag>, Signal)>,
    ids: Vec<SigId>,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        let (bell, ring) = UnixStream::pair()?;
        let mut signals = Self { bell, ring, flags: Vec::new(), ids: Vec::new() };
        signals.ids.push(low_level::pipe::register(SIGCHLD, signals.ring()?)?);
        for signal in CAUGHT {
            let number = signal.as_raw();
            if ignores(number) {
                continue;
            }
            let flag = Arc::new(Flag::default());
            // The flag first, since the bell announces it.
            signals.ids.push(raise_on(number, &flag)?);
            signals.ids.push(low_level::pipe::register(number, signals.ring()?)?);
            signals.flags.push((flag, signal));
        }
        Ok(signals)
    }

    /// A byte that is written to this ends a wait.
    pub(super) fn ring(&self) -> io::Result<UnixStream> {
        self.ring.try_clone()
    }

    /// Waits for a signal, at most for some time, and returns those that came. poll(2) ends in
    /// time, while the timeout of a socket is rounded up to the kernel's ticks (10 ms at 100 Hz).
    pub(super) fn wait(&self, pause: Duration) -> Came {
        self.wait_also(pause, None)
    }

    /// The same, but the wait also ends once another descriptor is readable.
    pub(super) fn wait_also(&self, pause: Duration, other: Option<BorrowedFd<'_>>) -> Came {
        let timeout = Timespec::try_from(pause).ok();
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        fds.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        // After an error none is ready.
        let _ = poll(&mut fds, timeout.as_ref());
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        if is_ready(0) {
            let mut rings = [0; 256];
            let _ = (&self.bell).read(&mut rings);
        }
        Came { is_readable: is_ready(1), ..self.came() }
    }

    /// Those that came until the command began. Those of a terminal are passed on as well: before
    /// exec the child has this process's handlers, and loses them.
    pub(super) fn came_before_start(&self) -> Came {
        let mut came = self.came();
        came.passed_on.extend(came.ends);
        came
    }

    /// Fails if a signal came that usually ends a process.
    pub(super) fn none_ends(&self) -> Result<(), CommandError> {
        let has_come = |flag: &Flag| flag.came.load(Ordering::Acquire);
        let ends = self.flags.iter().find(|(flag, signal)| ENDS.contains(signal) && has_come(flag));
        ends.map_or(Ok(()), |(_, signal)| Err(CommandError::Interrupted(*signal)))
    }

    fn came(&self) -> Came {
        let mut came = Came::default();
        for (flag, signal) in &self.flags {
            if !flag.came.swap(false, Ordering::Acquire) {
                continue;
            }
            let is_from_process = flag.from_process.swap(false, Ordering::Relaxed);
            match *signal {
                // A terminal sends SIGTTIN to the process group of a background job that reads it.
                Signal::TSTP | Signal::TTIN => came.stops = true,
                signal @ (Signal::INT | Signal::QUIT) if !is_from_process => {
                    came.ends = Some(signal);
                }
                signal => came.passed_on.push(signal),
            }
        }
        came
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn a_wait_ends_with_the_other_descriptor_and_says_so() {
        let signals = Signals::catch().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let fd = || Some(std::os::fd::AsFd::as_fd(&reader));
        assert!(!signals.wait_also(Duration::ZERO, fd()).is_readable);
        (&writer).write_all(b"x").unwrap();
        assert!(signals.wait_also(LONG, fd()).is_readable);
        (&signals.ring().unwrap()).write_all(b"x").unwrap();
        assert!(!signals.wait(LONG).is_readable, "it was not asked for");
    }
}
