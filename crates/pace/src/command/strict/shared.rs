//! What the pacing thread, the thread that receives calls and the keeper share.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Pid;

use super::error::StrictError;
use super::filter;
use super::keeper::Keeper;
use super::room::{Mark, Room};
use super::slots::Slots;
use crate::command::error::CommandError;
use crate::command::start::{Paced, start};

/// What the pacing thread, the thread that receives calls and the keeper share.
#[derive(Debug)]
pub(in super::super) struct Strict {
    room: Mutex<Room>,
    pub(super) keeper: Keeper,
    pub(super) slots: Slots,
    /// Whether a look is wanted, since calls wait, and what wakes the thread that looks.
    wanted: AtomicBool,
    bell: UnixStream,
    /// Calls that waited, so far, and those that wait now.
    held: AtomicU64,
    waiting: AtomicU64,
}

impl Strict {
    /// Starts the keeper, which is no part of the command. A byte on `bell` wakes the thread that
    /// looks.
    pub(in super::super) fn new(keeper: &OsStr, bell: UnixStream) -> Result<Self, StrictError> {
        Ok(Self {
            room: Mutex::new(Room::new(Instant::now())),
            keeper: Keeper::spawn(keeper)?,
            slots: Slots::new().map_err(StrictError::Kernel)?,
            wanted: AtomicBool::new(false),
            bell,
            held: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        })
    }

    /// Starts the command below a filter. `listener` leads to the supervisor.
    pub(in super::super) fn start(
        &self,
        paced: &Paced<'_>,
        variable: Option<(&str, String)>,
        group: Option<&Arc<OwnedFd>>,
        listener: Sender<OwnedFd>,
    ) -> Result<Pid, CommandError> {
        // The supervisor ends without a listener.
        thread::scope(|scope| {
            let starts = thread::Builder::new().name("fw-pace-start".into());
            let thread = starts.spawn_scoped(scope, move || {
                self.install(&listener)?;
                start(paced, variable, group)
            });
            let thread = thread.map_err(CommandError::Thread)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Puts the calling thread below the filter, and tries a notified call.
    fn install(&self, supervisor: &Sender<OwnedFd>) -> Result<(), StrictError> {
        let listener = filter::install()?;
        self.keeper.guard(&listener, self.slots.file())?;
        // The supervisor ends after this thread.
        let _ = supervisor.send(listener);
        let null = File::options().write(true).open("/dev/null").map_err(StrictError::Keeper)?;
        match rustix::io::write(&null, b".") {
            Ok(_) => Ok(()),
            // Before Linux 5.5 a call can be answered, and not continued.
            Err(Errno::NOSYS) => Err(StrictError::Missing),
            Err(errno) => Err(StrictError::Kernel(errno)),
        }
    }

    /// The begin of a look, before its counters are read.
    pub(in super::super) fn mark(&self) -> Mark {
        self.room().mark(Instant::now())
    }

    /// Takes the backlog of a look, and the bytes that were written until then.
    pub(in super::super) fn looked(&self, mark: Mark, backlog: u64, written: u64) {
        self.room().look(mark, backlog, written, Instant::now());
    }

    /// Bytes above the window that calls which were let through explain.
    pub(in super::super) fn overhang(&self, in_flight: u64) -> u64 {
        self.room().overhang(in_flight, Instant::now())
    }

    /// Whether calls wait.
    pub(in super::super) fn holds(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Calls that waited so far.
    pub(in super::super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether a look is wanted since the last call of this.
    pub(in super::super) fn wants_a_look(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Runs `suspended` while the keeper continues all calls.
    pub(in super::super) fn while_kept(&self, suspended: impl FnOnce()) {
        self.keeper.serve(true);
        suspended();
        self.keeper.serve(false);
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how many calls wait, and whether the last one of them is new. The first one wants a
    /// look.
    pub(super) fn note(&self, waiting: usize, is_new: bool) {
        self.held.fetch_add(u64::from(is_new), Ordering::Relaxed);
        let before = self.waiting.swap(waiting as u64, Ordering::Relaxed);
        if before == 0 && waiting > 0 && !self.wanted.swap(true, Ordering::Relaxed) {
            let _ = (&self.bell).write(&[0]);
        }
    }
}
