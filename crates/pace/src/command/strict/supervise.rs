//! The thread that receives the calls of a command, and lets them go on in the order of arrival.

use std::collections::VecDeque;
use std::io::PipeReader;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::call::{Call, regular};
use super::kernel::{Notification, go_on, waits};
use super::shared::Strict;
use super::signalled::is_signalled;
use super::slots::SLOTS;
use crate::command::allowed::Allowed;
use crate::command::drain::Drain;
use crate::pacer::Pacer;

/// Time between two looks at the room while calls wait.
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// Time between two looks at the signals of threads whose calls wait …
const SIGNALS: Duration = Duration::from_millis(20);
/// … so many of them in this time.
const THREADS: usize = 32;

/// A call that waits.
#[derive(Debug)]
struct Held {
    slot: usize,
    id: u64,
    thread: u32,
    bytes: u64,
    is_copy: bool,
}

/// Receives calls and lets them go on.
pub(in super::super) struct Supervisor<'a> {
    pub(in super::super) strict: &'a Strict,
    pub(in super::super) pacer: &'a Pacer,
    pub(in super::super) drain: &'a Drain,
    pub(in super::super) is_paced: &'a (dyn Fn(u64) -> bool + Sync),
    /// Its other end is closed once this has to end.
    pub(in super::super) end: PipeReader,
}

impl Supervisor<'_> {
    /// Serves the listener that comes, until the pipe `end` is closed.
    pub(in super::super) fn run(self, listeners: &Receiver<OwnedFd>) {
        // However this ends, even by a panic: the calls that are received now are continued.
        let _keeper = Serves(self.strict);
        let Ok(listener) = listeners.recv() else { return };
        let calls = Calls {
            supervisor: self,
            listener,
            queue: VecDeque::new(),
            free: (0..SLOTS).rev().collect(),
            signals: Instant::now(),
        };
        calls.serve();
    }
}

/// Leaves the calls to the keeper when it is dropped.
struct Serves<'a>(&'a Strict);

impl Drop for Serves<'_> {
    fn drop(&mut self) {
        self.0.note(0, false);
        self.0.keeper.serve(true);
    }
}

struct Calls<'a> {
    supervisor: Supervisor<'a>,
    listener: OwnedFd,
    /// In the order of arrival.
    queue: VecDeque<Held>,
    free: Vec<usize>,
    /// The next look at the signals of threads.
    signals: Instant,
}

impl Calls<'_> {
    fn serve(mut self) {
        let strict = self.supervisor.strict;
        loop {
            // Without a free slot the calls wait in the kernel.
            let calls = if self.free.is_empty() { PollFlags::empty() } else { PollFlags::IN };
            let mut polled = [
                PollFd::new(&self.supervisor.end, PollFlags::IN),
                PollFd::new(&self.listener, calls),
            ];
            let timeout = (!self.queue.is_empty()).then_some(&SOON);
            match poll(&mut polled, timeout) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            let [end, came] = polled.map(|polled| polled.revents());
            // The keeper continues the calls that wait. A hang-up: all processes have ended.
            if !end.is_empty() || came.contains(PollFlags::HUP) && !came.contains(PollFlags::IN) {
                return;
            }
            let new = if came.contains(PollFlags::IN) { self.receive() } else { None };
            self.let_go();
            self.look_for_signals();
            let waits = self.queue.back().is_some_and(|last| Some(last.id) == new);
            strict.note(self.queue.len(), waits);
        }
    }

    /// Receives a call, and returns its number if it is new in the queue.
    fn receive(&mut self) -> Option<u64> {
        let slot = self.free.pop()?;
        let strict = self.supervisor.strict;
        let Ok(notification) = strict.slots.receive(slot, self.listener.as_fd()) else {
            // Its process has been killed meanwhile.
            self.release(slot);
            return None;
        };
        let held = self.held(slot, &notification);
        strict.room().arrive(held.thread, Instant::now());
        let place = self.place_of(held.thread);
        if held.bytes == 0 {
            self.answer(&held);
            return None;
        }
        let id = held.id;
        match place {
            Some(place) => self.queue.insert(place, held),
            None => self.queue.push_back(held),
        }
        place.is_none().then_some(id)
    }

    /// The place of an earlier call of a thread, which leaves the queue: a thread waits for one
    /// call at most. A signal has interrupted it, and the kernel begins it again.
    fn place_of(&mut self, thread: u32) -> Option<usize> {
        let place = self.queue.iter().position(|held| held.thread == thread)?;
        let before = self.queue.remove(place)?;
        self.release(before.slot);
        Some(place)
    }

    /// A call, with 0 bytes if it is none that is paced.
    fn held(&self, slot: usize, notification: &Notification) -> Held {
        let (id, thread) = (notification.call.id, notification.call.pid);
        let call = Call::of(&notification.call.data).filter(|call| {
            let file = regular(thread, call.fd);
            file.is_some_and(|file| (self.supervisor.is_paced)(file.device))
        });
        let bytes = call.map_or(0, |call| call.size.bytes(thread));
        let is_copy = call.is_some_and(|call| call.size.is_copy());
        Held { slot, id, thread, bytes, is_copy }
    }

    /// Lets calls go on while the backlog has room for them.
    fn let_go(&mut self) {
        let Supervisor { strict, pacer, drain, .. } = self.supervisor;
        while let Some(first) = self.queue.front() {
            if waits(&self.listener, first.id) {
                let (in_flight, now) = (Allowed::now(pacer).in_flight, Instant::now());
                let mut room = strict.room();
                if !room.has_room(first.bytes, in_flight, drain.written(), now) {
                    return;
                }
                // A signal ends a copy in the kernel early, so a stop is of use meanwhile.
                let explained =
                    if first.is_copy { first.bytes.min(in_flight) } else { first.bytes };
                room.admit(first.thread, first.bytes, explained, now);
            }
            if let Some(first) = self.queue.pop_front() {
                self.answer(&first);
            }
        }
    }

    /// Lets calls go on whose threads have a signal.
    fn look_for_signals(&mut self) {
        let now = Instant::now();
        if self.queue.is_empty() || now < self.signals {
            return;
        }
        let parts = self.queue.len() / THREADS + 1;
        self.signals = now + SIGNALS * parts as u32;
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|held| {
            let goes = is_signalled(held.thread);
            if goes {
                self.supervisor.strict.room().admit_anyway(held.thread, held.bytes, now);
                self.answer(held);
            }
            !goes
        });
        self.queue = queue;
    }

    fn answer(&mut self, held: &Held) {
        let _ = go_on(self.listener.as_fd(), held.id);
        self.release(held.slot);
    }

    fn release(&mut self, slot: usize) {
        self.supervisor.strict.slots.free(slot);
        self.free.push(slot);
    }
}
