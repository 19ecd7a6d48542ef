//! The lab as its callers see it: bring devices up, look at them, take them down.

mod info;
mod power;
mod run;
mod up;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use crate::control::{self, Answer, LabStats, Request};
use crate::error::LabError;
use crate::loopdev;
use crate::state::{self, StateDir};
use crate::teardown::{self, By};
use info::info;
pub use info::{LabInfo, LabState};
pub use run::Ran;
pub use up::UpOptions;

/// A lab's name, and whether it could be taken down.
pub type Downed = (String, Result<(), LabError>);

/// How long a guardian may take to end after its lab is gone.
const GUARDIAN: Duration = Duration::from_secs(3);

/// All labs of this host (or below another state directory).
pub struct Lab {
    root: PathBuf,
    program: PathBuf,
    args: Vec<String>,
    /// Guardians that this process started, to be reaped.
    children: Mutex<Vec<Child>>,
}

impl Lab {
    /// `program` with `args` in front must call [`crate::child()`] when it finds
    /// `--role ROLE --state DIR` behind them.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = String>) -> Self {
        Self {
            root: state::DEFAULT_ROOT.into(),
            program: program.into(),
            args: args.into_iter().collect(),
            children: Mutex::new(Vec::new()),
        }
    }

    /// With another state directory. Labs of different directories do not see each other.
    #[must_use]
    pub fn with_root(self, root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..self }
    }

    /// Whether this host can have a lab at all.
    ///
    /// # Errors
    /// [`LabError::NoRoot`], [`LabError::NoFuse`], [`LabError::NoLoop`].
    pub fn check_host() -> Result<(), LabError> {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::NoRoot);
        }
        let fuse = Path::new("/dev/fuse");
        if !fuse.exists() {
            return Err(LabError::NoFuse { path: fuse.into() });
        }
        loopdev::check()
    }

    /// All labs, half-made ones too, by name.
    ///
    /// # Errors
    /// [`LabError::Private`] for a caller that is not root, once there was a lab.
    pub fn list(&self) -> Result<Vec<LabInfo>, LabError> {
        self.reap();
        Ok(state::all(&self.root)?.iter().map(info).collect())
    }

    /// One lab's counters.
    ///
    /// # Errors
    /// [`LabError::Unknown`], [`LabError::NoAnswer`].
    pub fn stats(&self, name: &str) -> Result<LabStats, LabError> {
        let state = self.find(name)?;
        match control::ask(name, &state.control(), &Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            _ => Err(LabError::NoAnswer { name: name.into() }),
        }
    }

    /// Takes a lab down from whatever state it is in. Its contents are gone.
    ///
    /// # Errors
    /// [`LabError::Unknown`]; [`LabError::Busy`] if a process uses the device and did not end when
    /// it got errors from it.
    pub fn down(&self, name: &str) -> Result<(), LabError> {
        let state = self.find(name)?;
        let guardian = state.guardian();
        teardown::take_down(&state, By::Caller)?;
        if let Some(guardian) = guardian
            && !guardian.wait(GUARDIAN)
        {
            guardian.signal(Signal::KILL);
        }
        self.reap();
        Ok(())
    }

    /// Takes all labs down; what could not be taken down is in the result.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn down_all(&self) -> Result<Vec<Downed>, LabError> {
        let names: Vec<String> = state::all(&self.root)?.iter().map(StateDir::name).collect();
        Ok(names.into_iter().map(|name| (name.clone(), self.down(&name))).collect())
    }

    /// Writes the device's requests as CSV, from the oldest request in memory or from now on.
    /// Without `follow` it writes the present ones; with it, it goes on until `stop` is raised or
    /// the lab ends.
    ///
    /// # Errors
    /// [`LabError::Unknown`], [`LabError::NoAnswer`], or a failure to write to `out`.
    pub fn record(
        &self,
        name: &str,
        from_start: bool,
        follow: bool,
        out: &mut dyn Write,
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
        let state = self.find(name)?;
        let (_, mut stream) =
            control::converse(name, &state.control(), &Request::Record { from_start, follow })?;
        let failed = |e| LabError::io("record", state.control(), e);
        stream.get_ref().set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
        let mut buffer = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => out
                    .write_all(&buffer[..n])
                    .map_err(|e| LabError::io("write", "the recording", e))?,
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        out.flush().map_err(|e| LabError::io("write", "the recording", e))
    }

    fn find(&self, name: &str) -> Result<StateDir, LabError> {
        let state = StateDir::new(self.root.join(name));
        if state::check_name(name).is_ok() && state.exists() {
            return Ok(state);
        }
        let names: Vec<String> = state::all(&self.root)?.iter().map(StateDir::name).collect();
        let known = match names.as_slice() {
            [] => "no device is up".into(),
            [one] => format!("there is '{one}'"),
            _ => format!("there are {}", names.join(", ")),
        };
        Err(LabError::Unknown { name: name.into(), known })
    }

    /// Takes note of guardians that have ended.
    fn reap(&self) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}
