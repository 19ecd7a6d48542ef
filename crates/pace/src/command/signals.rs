//! Signals of the pacing process while a command runs.
//!
//! | signal | effect |
//! |---|---|
//! | SIGINT, SIGQUIT | nothing: a terminal sends them to the command as well |
//! | SIGTERM, SIGHUP | passed on to the command |
//! | SIGCHLD | the command may have ended |
//!
//! A signal that was ignored at the start stays ignored, also by the command (`nohup`, or a
//! background job of a shell without job control).

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level;

use super::sys::ignores;

/// Caught signals, and the signals that are passed on for them.
const CAUGHT: [(i32, Option<Signal>); 4] =
    [(SIGINT, None), (SIGQUIT, None), (SIGTERM, Some(Signal::TERM)), (SIGHUP, Some(Signal::HUP))];

/// Signals that came since the last call.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Signals for the command.
    pub(super) passed_on: Vec<Signal>,
    /// Whether a signal asks the command to end. The command has to run for that.
    pub(super) ends: bool,
}

/// Handlers of signals, as long as this lives. Afterwards the signals have no effect.
#[derive(Debug)]
pub(super) struct Signals {
    bell: UnixStream,
    flags: Vec<(Arc<AtomicBool>, Option<Signal>)>,
    ids: Vec<SigId>,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        let (bell, ring) = UnixStream::pair()?;
        let mut signals = Self { bell, flags: Vec::new(), ids: Vec::new() };
        signals.ids.push(low_level::pipe::register(SIGCHLD, ring.try_clone()?)?);
        for (signal, passed_on) in CAUGHT {
            if ignores(signal) {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            // The flag first, since the bell announces it.
            signals.ids.push(signal_hook::flag::register(signal, Arc::clone(&flag))?);
            signals.ids.push(low_level::pipe::register(signal, ring.try_clone()?)?);
            signals.flags.push((flag, passed_on));
        }
        Ok(signals)
    }

    /// Waits for a signal, at most for some time, and returns those that came.
    pub(super) fn wait(&self, pause: Duration) -> Came {
        // A timeout of zero would mean none.
        let _ = self.bell.set_read_timeout(Some(pause.max(Duration::from_millis(1))));
        let mut rings = [0; 256];
        let _ = (&self.bell).read(&mut rings);
        let mut came = Came::default();
        for (flag, passed_on) in &self.flags {
            if flag.swap(false, Ordering::Relaxed) {
                came.ends = true;
                came.passed_on.extend(*passed_on);
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
