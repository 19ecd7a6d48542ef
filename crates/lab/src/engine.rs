//! A device model in real time: requests in, answers out at the modelled moment.
//!
//! ```text
//! reader threads ─▶ submit: store the data, hand over to the model ─▶ due already? answer at once
//! timing thread  ─▶ sleep until the model's next event ─▶ advance ─▶ answer what completed
//! ```
//!
//! *Lateness* is all that the lab adds. It is the time from a request's arrival until the model
//! gets it, and from its modelled completion until the kernel has its answer. Virtual time is the
//! monotonic clock since the engine was made. The thread that advances the model sends the answers,
//! so a device without delay costs no thread switch.
//!
//! **Data is stored on submission**, not on completion: it goes from the request's buffer straight
//! into the store. Overlapping writes end in the order of their submission because the store is
//! written in that order. Until its completion a write is unacknowledged, and a power cut takes it
//! back. A read that is answered meanwhile sees it. Reads are copied out when they are answered.
//!
//! Locks: `store` before `core` before `meter`; never the other way round.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use floodwall_device::{Completion, Device, DeviceStats, Nanos, Op, Request};

use crate::meter::{Meter, Timings};
use crate::recorder::{CAPACITY, Event, Recorder};
use crate::store::{Gone, Store, StoreError, Usage};

/// How a request is answered. Sending an answer is the last thing that happens to a request.
pub(crate) trait Respond: Send + 'static {
    /// A read's contents.
    fn data(self, bytes: &[u8]);
    /// Anything else is done; `len` bytes of it.
    fn done(self, len: u64);
    /// It failed.
    fn fail(self, failure: Failure);
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The device reports an error, or has no power (`EIO`).
    Io,
    /// The store is full (`ENOSPC`).
    NoSpace,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::NoSpace,
            StoreError::Spill(_) => Self::Io,
        }
    }
}

/// Which clock requests obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The model's.
    Modelled,
    /// None: everything is done at once and the model does not hear of it. For making a filesystem,
    /// and for taking a device down.
    Instant,
}

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes whose older contents came back.
    pub(crate) lost_bytes: u64,
    /// Requests that were in the device.
    pub(crate) in_flight: u64,
}

/// A request in the model.
struct Pending<R> {
    reply: R,
    op: Op,
    offset: u64,
    len: u64,
    arrived: Nanos,
    /// When the model heard of it: later than its arrival if copying its data took so long that
    /// the model had moved on.
    submitted: Nanos,
    depth: u32,
}

/// A request with its outcome.
struct Done<R> {
    pending: Pending<R>,
    completed: Nanos,
    previous: Nanos,
    ok: bool,
}

struct Core<R> {
    device: Box<dyn Device>,
    pace: Pace,
    power: bool,
    /// Goes up with every power cut: a process that opened the device before it is cut off for
    /// good.
    generation: u64,
    pending: HashMap<u64, Pending<R>>,
    /// Ids order writes and are their versions.
    next_id: u64,
    /// Versions of writes that are in the store and not acknowledged; kept for volatile caches
    /// only.
    unacknowledged: BTreeSet<u64>,
    /// Whether old contents were ever kept (a cache can become volatile when its battery fails).
    keeps: bool,
    /// Completions since old contents were last forgotten.
    unforgotten: u32,
    /// When the timing thread wakes by itself; zero while it is awake.
    alarm: Nanos,
    last_completion: Nanos,
    /// The moment to which the model was last advanced.
    advanced: Nanos,
    stopping: bool,
}

/// See the [module](self).
pub(crate) struct Engine<R> {
    store: RwLock<Store>,
    core: Mutex<Core<R>>,
    meter: Mutex<(Meter, Recorder)>,
    wake: Condvar,
    start: Instant,
    capacity: u64,
}

/// With a volatile cache, the completions that may pass before asking for the stable part.
const FORGET_EVERY: u32 = 256;

thread_local! {
    /// Where reads are put together that do not lie in one piece.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<R: Respond> Engine<R> {
    pub(crate) fn new(device: Box<dyn Device>, store: Store) -> Self {
        Self {
            capacity: device.capacity(),
            store: RwLock::new(store),
            core: Mutex::new(Core {
                device,
                pace: Pace::Instant,
                power: true,
                generation: 1,
                pending: HashMap::new(),
                next_id: 1,
                unacknowledged: BTreeSet::new(),
                keeps: false,
                unforgotten: 0,
                alarm: Nanos::ZERO,
                last_completion: Nanos::ZERO,
                advanced: Nanos::ZERO,
                stopping: false,
            }),
            meter: Mutex::new((Meter::new(), Recorder::new(CAPACITY))),
            wake: Condvar::new(),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// A thread that panicked must not leave the block layer waiting: its locked state is used as
    /// it is.
    fn core(&self) -> MutexGuard<'_, Core<R>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> MutexGuard<'_, (Meter, Recorder)> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the device exposes.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Which generation of openers is served now.
    pub(crate) fn generation(&self) -> u64 {
        self.core().generation
    }

    /// Takes a request of an opener of `generation`. `data` is what a write writes.
    pub(crate) fn submit(
        &self,
        generation: u64,
        op: Op,
        offset: u64,
        len: u64,
        data: &[u8],
        reply: R,
    ) {
        let arrived = self.now();
        if offset.checked_add(len).is_none_or(|end| end > self.capacity) {
            return reply.fail(Failure::Io);
        }
        let id = match self.store_data(generation, op, offset, len, data) {
            Ok(id) => id,
            Err(failure) => return reply.fail(failure),
        };
        let mut done = Vec::new();
        {
            let mut core = self.core();
            if !core.power || core.generation != generation {
                drop(core);
                return reply.fail(Failure::Io);
            }
            let depth = core.pending.len() as u32 + 1;
            let submitted = arrived.max(core.advanced);
            let pending = Pending { reply, op, offset, len, arrived, submitted, depth };
            if core.pace == Pace::Instant {
                core.unacknowledged.remove(&id);
                drop(core);
                self.answer(pending, true);
                return;
            }
            core.device.submit(submitted, Request::new(id, op, offset, len));
            core.pending.insert(id, pending);
            self.collect(&mut core, &mut done);
            if core.device.next_event().is_some_and(|t| t < core.alarm) {
                self.wake.notify_one();
            }
        }
        self.finish(done);
    }

    /// Numbers a request and brings the store to the state after it.
    fn store_data(
        &self,
        generation: u64,
        op: Op,
        offset: u64,
        len: u64,
        data: &[u8],
    ) -> Result<u64, Failure> {
        if matches!(op, Op::Read | Op::Flush) {
            let mut core = self.core();
            core.next_id += 1;
            return Ok(core.next_id);
        }
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let (id, version) = {
            let mut core = self.core();
            if !core.power || core.generation != generation {
                return Err(Failure::Io);
            }
            core.next_id += 1;
            let id = core.next_id;
            let keep = core.pace == Pace::Modelled && op.is_write() && core.device.volatile_cache();
            if keep {
                core.unacknowledged.insert(id);
                core.keeps = true;
            }
            (id, keep.then_some(id))
        };
        let stored = match op {
            Op::Write { .. } => store.write(offset, data, version),
            Op::WriteZeroes => store.zero(offset, len, version),
            Op::Discard => store.discard(offset, len),
            Op::Read | Op::Flush => Ok(()),
        };
        stored.map(|()| id).map_err(|e| {
            self.core().unacknowledged.remove(&id);
            e.into()
        })
    }

    /// Moves requests completed by now out of the core.
    fn collect(&self, core: &mut Core<R>, done: &mut Vec<Done<R>>) {
        let mut completions: Vec<Completion> = Vec::new();
        core.advanced = self.now();
        core.device.advance(core.advanced, &mut completions);
        for completion in completions {
            let Some(pending) = core.pending.remove(&completion.id) else { continue };
            core.unacknowledged.remove(&completion.id);
            core.unforgotten += if pending.op == Op::Flush { FORGET_EVERY } else { 1 };
            done.push(Done {
                pending,
                completed: completion.at,
                previous: core.last_completion,
                ok: completion.result.is_ok(),
            });
            core.last_completion = completion.at;
        }
    }

    /// Answers the collected requests, and counts them.
    fn finish(&self, done: Vec<Done<R>>) {
        if done.is_empty() {
            return;
        }
        for Done { pending, completed, previous, ok } in done {
            let Pending { op, offset, len, arrived, submitted, depth, .. } = pending;
            self.answer(pending, ok);
            // What the lab itself took, before and after the model.
            let late = submitted.since(arrived) + self.now().since(completed);
            let (meter, recorder) = &mut *self.meter();
            meter.count(op, completed.since(submitted).0, late.0);
            recorder.push(Event {
                arrived: submitted,
                op,
                offset,
                len,
                depth,
                completed,
                previous,
                late,
                ok,
            });
        }
        self.forget_stable();
    }

    fn answer(&self, pending: Pending<R>, ok: bool) {
        let Pending { reply, op, offset, len, .. } = pending;
        if !ok {
            return reply.fail(Failure::Io);
        }
        if op != Op::Read {
            return reply.done(len);
        }
        let len = len as usize;
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = store.slice(offset, len) {
            return reply.data(bytes);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < len {
                scratch.resize(len, 0);
            }
            match store.read(offset, &mut scratch[..len]) {
                Ok(()) => reply.data(&scratch[..len]),
                Err(e) => reply.fail(e.into()),
            }
        });
    }

    /// Lets go of old contents that no power cut can bring back any more.
    fn forget_stable(&self) {
        let stable_below = {
            let mut core = self.core();
            if !core.keeps || core.unforgotten < FORGET_EVERY {
                return;
            }
            core.unforgotten = 0;
            let bounds = [core.device.oldest_volatile(), core.unacknowledged.first().copied()];
            bounds.into_iter().flatten().min().unwrap_or(core.next_id + 1)
        };
        self.store.write().unwrap_or_else(PoisonError::into_inner).forget_below(stable_below);
    }

    /// The timing thread: answers requests that complete while no request arrives. Returns after
    /// [`Self::stop`].
    pub(crate) fn run_timer(&self) {
        let mut core = self.core();
        while !core.stopping {
            let mut done = Vec::new();
            self.collect(&mut core, &mut done);
            if !done.is_empty() {
                drop(core);
                self.finish(done);
                core = self.core();
                continue;
            }
            let next = core.device.next_event();
            core.alarm = next.unwrap_or(Nanos::MAX);
            core = match next {
                None => self.wake.wait(core).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let sleep = Duration::from(at.since(self.now()));
                    self.wake.wait_timeout(core, sleep).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            core.alarm = Nanos::ZERO;
        }
    }

    /// Ends the timing thread.
    pub(crate) fn stop(&self) {
        self.core().stopping = true;
        self.wake.notify_all();
    }

    /// Changes the pace. Requests in the model when it is taken out of the way are answered at
    /// once.
    pub(crate) fn set_pace(&self, pace: Pace) {
        let (mut done, mut rest) = (Vec::new(), Vec::new());
        {
            let mut core = self.core();
            if pace == Pace::Instant && core.pace == Pace::Modelled {
                self.collect(&mut core, &mut done);
                // The model forgets its requests; contents stay as they are.
                let now = self.now();
                core.device.powercut(now);
                core.unacknowledged.clear();
                rest.extend(core.pending.drain().map(|(_, pending)| pending));
            }
            core.pace = pace;
        }
        self.finish(done);
        for pending in rest {
            self.answer(pending, true);
        }
    }

    /// The power fails: unstable writes are undone, everything in flight fails, and so does all
    /// that comes until [`Self::power_up`].
    ///
    /// # Errors
    /// When older contents can't be brought back (the store is full, or its spill file fails).
    pub(crate) fn powercut(&self) -> Result<Cut, StoreError> {
        let (mut done, pending, undone) = {
            let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
            let mut core = self.core();
            let mut done = Vec::new();
            self.collect(&mut core, &mut done);
            let now = self.now();
            let lost = core.device.powercut(now);
            // Requests that completed in the moment between are still answered.
            self.collect(&mut core, &mut done);
            let lost = lost.extents.iter().map(|e| (e.offset, e.len, e.since));
            let gone = Gone::new(lost, std::mem::take(&mut core.unacknowledged));
            core.power = false;
            core.generation += 1;
            let pending: Vec<_> = core.pending.drain().map(|(_, p)| p).collect();
            drop(core);
            (done, pending, store.roll_back(&gone))
        };
        // Reads of the last moment find the contents of after the cut.
        for d in &mut done {
            d.ok &= d.pending.op != Op::Read;
        }
        self.finish(done);
        let in_flight = pending.len() as u64;
        for p in pending {
            p.reply.fail(Failure::Io);
        }
        undone.map(|lost_bytes| Cut { lost_bytes, in_flight })
    }

    /// The power is back; openers from before the cut stay cut off.
    pub(crate) fn power_up(&self) {
        self.core().power = true;
    }

    /// Whether the device has power.
    pub(crate) fn has_power(&self) -> bool {
        self.core().power
    }

    /// Counters of model and store, and the model's time.
    pub(crate) fn stats(&self) -> (Nanos, DeviceStats, Usage) {
        let usage = self.store.read().unwrap_or_else(PoisonError::into_inner).usage();
        let core = self.core();
        (self.now(), core.device.stats(), usage)
    }

    /// Histograms so far.
    pub(crate) fn timings(&self) -> Timings {
        // Copied first: the thread that answers requests must not wait for the arithmetic.
        let meter = self.meter().0.clone();
        meter.timings()
    }

    /// Looks at the recording.
    pub(crate) fn recording<T>(&self, look: impl FnOnce(&Recorder) -> T) -> T {
        look(&self.meter().1)
    }
}

#[cfg(test)]
mod tests;
