//! What the pacing thread, the thread that receives calls and the keeper share.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Pid;

use super::error::StrictError;
use super::filter;
use super::keeper::Keeper;
use super::nudge::nudge;
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

    /// Starts the command below a filter. `listener` leads to the supervisor, whose end closes
    /// `ended`. The thread that starts the command goes on to nudge.
    pub(in super::super) fn start<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        paced: &'env Paced<'_>,
        variable: (&'env str, String),
        group: Option<Arc<OwnedFd>>,
        listener: Sender<OwnedFd>,
        ended: Receiver<Infallible>,
    ) -> Result<Pid, CommandError> {
        let (tell, told) = channel();
        let starts = move || {
            let mut null = None;
            let started = self.install(&listener).map_err(CommandError::from).and_then(|file| {
                null = Some(file);
                start(paced, Some(variable), group.as_ref())
            });
            // The supervisor ends if none came.
            drop(listener);
            let null = null.filter(|_| started.is_ok());
            let _ = tell.send(started);
            if let Some(null) = null {
                nudge(&null, &ended);
            }
        };
        let thread = thread::Builder::new().name("fw-pace-start".into());
        thread.spawn_scoped(scope, starts).map_err(CommandError::Thread)?;
        let panicked = |_| Err(CommandError::Thread(io::Error::other("it has panicked")));
        told.recv().unwrap_or_else(panicked)
    }

    /// Puts the calling thread below the filter, and tries a notified call: a write to /dev/null,
    /// which this returns.
    fn install(&self, supervisor: &Sender<OwnedFd>) -> Result<OwnedFd, StrictError> {
        let listener = filter::install()?;
        self.keeper.guard(&listener, self.slots.file())?;
        // The supervisor ends after this thread.
        let _ = supervisor.send(listener);
        let null = File::options().write(true).open("/dev/null").map_err(StrictError::Keeper)?;
        match rustix::io::write(&null, b".") {
            Ok(_) => Ok(null.into()),
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
