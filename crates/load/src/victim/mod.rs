//! Victims: synchronous I/O that a process waits for.
//!
//! ```text
//! prepare ─▶ Files (open, filled, out of the cache)
//!              ├─ start ─▶ a thread each: Chooser ─ target ─▶ psync | uring ─▶ Recorder
//!              └─ start again, in the next phase
//! ```
//!
//! | kind | operation | counted as |
//! |---|---|---|
//! | commit, wal | write, then sync | write, sync, and both as commit |
//! | journal | two pages, a rollback journal | all syncs, the rest as write, and both as commit |
//! | … with O_DSYNC, O_SYNC | write | write and commit |
//! | read, scan | read | read |
//! | mixed | one or the other | as above |
//!
//! Threads share the files and their descriptors; offsets are uniform over the blocks of all files.
//! But each scanning thread has another region, and thread *i* of a `wal` appends to log *i*
//! modulo the number of files.
//!
//! Latency counts from the intended begin: from when the operation fell due in an open
//! loop, from its first system call in a closed one.

mod choose;
mod files;
mod job;
mod journal;
mod kind;
mod psync;
mod uring;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use floodwall_model::Victim;
use floodwall_model::scenario::{Engine, VictimKind};
use floodwall_stats::recorder::Recorder;

use crate::command::{self, CommandLoad, Role};
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::make_dir;
use crate::pace::Tickets;
use crate::running::{self, OpenLoop, Running, Work};
use crate::user::User;
use files::Files;
use job::Job;
use kind::{kinds_of, read_percent};

/// A victim whose files exist: it can be started as often as there are phases.
#[derive(Debug)]
pub struct PreparedVictim {
    victim: Victim,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Files(Arc<Files>),
    Command(CommandLoad),
}

/// Bytes of scratch space that a victim takes; 0 for a command, which knows it alone.
#[must_use]
pub fn victim_bytes(victim: &Victim) -> u64 {
    match victim.kind {
        VictimKind::Command { .. } => 0,
        _ => files::file_len(victim) * u64::from(victim.files),
    }
}

/// Refuses a victim that can't work in `dir`, before anything is written. Its files may be too
/// small for a block, too long or too many to keep open. Or direct I/O can't do its block, or
/// io_uring is missing. Makes a small temporary file.
///
/// The needs of other loads are not counted, nor is free space. A command is not tried.
///
/// # Errors
/// [`LoadError::TooSmall`], [`LoadError::Misaligned`], [`LoadError::NoDirect`],
/// [`LoadError::NoUring`], [`LoadError::Io`].
pub fn check_victim(dir: &Dir, victim: &Victim) -> Result<(), LoadError> {
    if let VictimKind::Command { .. } = victim.kind {
        return Ok(());
    }
    if victim.engine == Engine::IoUring {
        uring::check(victim.depth)?;
    }
    files::check(dir, victim)
}

/// Makes a victim's files in its directory below `dir`: written with random data from
/// begin to end, synced, and dropped from the page cache. (The log of a growing `wal` victim begins
/// empty.)
///
/// A command runs as `user`, or as the caller without one. `progress` gets the bytes of each
/// step, which add up to [`victim_bytes`] or, for a growing log, to nothing.
///
/// # Errors
/// Those of [`check_victim`], before anything is written; [`LoadError::Io`];
/// [`LoadError::Interrupted`] once `stop` is raised. The files stay until the caller removes `dir`.
pub fn prepare_victim(
    dir: &Dir,
    victim: &Victim,
    user: Option<&User>,
    seed: u64,
    progress: &mut dyn FnMut(u64),
    stop: &AtomicBool,
) -> Result<PreparedVictim, LoadError> {
    check_victim(dir, victim)?;
    let own = make_dir(dir, &victim.name)?;
    let inner = match &victim.kind {
        VictimKind::Command { command } => {
            Inner::Command(CommandLoad::new(command, dir, &own, Role::Victim, user)?)
        }
        _ => Inner::Files(Arc::new(Files::prepare(own, victim, seed, progress, stop)?)),
    };
    Ok(PreparedVictim { victim: victim.clone(), inner })
}

impl PreparedVictim {
    /// Its name in the scenario.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.victim.name
    }

    /// Gives it another rate, in operations a second; `None`: a closed loop.
    pub fn set_rate(&mut self, rate: Option<f64>) {
        self.victim.rate = rate;
    }

    /// Where its files are; a command's own are the ones that hold its output.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        match &self.inner {
            Inner::Files(files) => files.files.iter().map(|f| f.path.clone()).collect(),
            Inner::Command(command) => command.paths(),
        }
    }

    /// Starts it. Equal seeds give equal offsets.
    ///
    /// `proc_root` is `/proc`, or what stands in for it; only commands are looked up there.
    ///
    /// # Errors
    /// [`LoadError::Thread`], [`LoadError::NoUring`], [`LoadError::Io`]; for a command
    /// [`LoadError::Spawn`] and [`LoadError::NoAccounting`].
    pub fn start(&self, seed: u64, proc_root: &Path) -> Result<Running, LoadError> {
        let files = match &self.inner {
            Inner::Files(files) => files,
            Inner::Command(load) => return command::start(load, proc_root, None),
        };
        let tickets = self.victim.rate.map(|rate| Arc::new(Tickets::new(rate)));
        let work = (0..self.victim.threads)
            .map(|thread| {
                let job = Job {
                    victim: self.victim.clone(),
                    files: Arc::clone(files),
                    tickets: tickets.clone(),
                    seed,
                    thread,
                };
                let work: Work = match self.victim.engine {
                    _ if matches!(self.victim.kind, VictimKind::Journal { .. }) => {
                        Box::new(move |worker| journal::run(&job, worker))
                    }
                    Engine::Psync => Box::new(move |worker| psync::run(&job, worker)),
                    Engine::IoUring => Box::new(move |worker| uring::run(&job, worker)),
                };
                (Recorder::new(kinds_of(&self.victim.kind)), work)
            })
            .collect();
        let open_loop = tickets
            .map(|tickets| OpenLoop { tickets, read_percent: read_percent(&self.victim.kind) });
        running::start("victim", work, open_loop)
    }
}
