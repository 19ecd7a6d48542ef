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
//! Locks: `store` before `model` before `meter`; never the other way round.

mod model;
mod respond;

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use floodwall_device::{Device, DeviceStats, Nanos, Op, Request};

use crate::meter::{Meter, Timings};
use crate::recorder::{CAPACITY, Event, Recorder};
use crate::store::{Gone, Store, StoreError, Usage};
pub(crate) use model::Pace;
use model::{Done, Model, Pending};
pub(crate) use respond::{Failure, Respond};

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes whose older contents came back.
    pub(crate) lost_bytes: u64,
    /// Requests that were in the device.
    pub(crate) in_flight: u64,
}

/// See the [module](self).
pub(crate) struct Engine<R> {
    store: RwLock<Store>,
    model: Mutex<Model<R>>,
    meter: Mutex<(Meter, Recorder)>,
    wake: Condvar,
    start: Instant,
    capacity: u64,
}

thread_local! {
    /// Where reads are put together that do not lie in one piece.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<R: Respond> Engine<R> {
    pub(crate) fn new(device: Box<dyn Device>, store: Store) -> Self {
        Self {
            capacity: device.capacity(),
            store: RwLock::new(store),
            model: Mutex::new(Model::new(device)),
            meter: Mutex::new((Meter::default(), Recorder::new(CAPACITY))),
            wake: Condvar::new(),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// A thread that panicked must not leave the block layer waiting: its locked state is used as
    /// it is.
    fn model(&self) -> MutexGuard<'_, Model<R>> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.model().generation
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
            let mut model = self.model();
            if !model.power || model.generation != generation {
                drop(model);
                return reply.fail(Failure::Io);
            }
            let depth = model.pending.len() as u32 + 1;
            let submitted = arrived.max(model.advanced);
            let pending = Pending { reply, op, offset, len, arrived, submitted, depth };
            if model.pace == Pace::Instant {
                model.unacknowledged.remove(&id);
                drop(model);
                self.answer(pending, true);
                return;
            }
            model.device.submit(submitted, Request::new(id, op, offset, len));
            model.pending.insert(id, pending);
            model.collect(self.now(), &mut done);
            if model.device.next_event().is_some_and(|t| t < model.alarm) {
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
            return Ok(self.model().number(op).0);
        }
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let (id, version) = {
            let mut model = self.model();
            if !model.power || model.generation != generation {
                return Err(Failure::Io);
            }
            model.number(op)
        };
        let stored = match op {
            Op::Write { .. } => store.write(offset, data, version),
            Op::WriteZeroes => store.zero(offset, len, version),
            Op::Discard => store.discard(offset, len),
            Op::Read | Op::Flush => Ok(()),
        };
        stored.map(|()| id).map_err(|e| {
            self.model().unacknowledged.remove(&id);
            e.into()
        })
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
        let Some(stable_below) = self.model().forgettable() else { return };
        self.store.write().unwrap_or_else(PoisonError::into_inner).forget_below(stable_below);
    }

    /// The timing thread: answers requests that complete while no request arrives. Returns after
    /// [`Self::stop`].
    pub(crate) fn run_timer(&self) {
        let mut model = self.model();
        while !model.stopping {
            let mut done = Vec::new();
            model.collect(self.now(), &mut done);
            if !done.is_empty() {
                drop(model);
                self.finish(done);
                model = self.model();
                continue;
            }
            let next = model.device.next_event();
            model.alarm = next.unwrap_or(Nanos::MAX);
            model = match next {
                None => self.wake.wait(model).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let sleep = Duration::from(at.since(self.now()));
                    self.wake.wait_timeout(model, sleep).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            model.alarm = Nanos::ZERO;
        }
    }

    /// Ends the timing thread.
    pub(crate) fn stop(&self) {
        self.model().stopping = true;
        self.wake.notify_all();
    }

    /// Changes the pace. Requests in the model when it is taken out of the way are answered at
    /// once.
    pub(crate) fn set_pace(&self, pace: Pace) {
        let (mut done, mut rest) = (Vec::new(), Vec::new());
        {
            let mut model = self.model();
            if pace == Pace::Instant && model.pace == Pace::Modelled {
                model.collect(self.now(), &mut done);
                // The model forgets its requests; contents stay as they are.
                let now = self.now();
                model.device.powercut(now);
                model.unacknowledged.clear();
                rest.extend(model.pending.drain().map(|(_, pending)| pending));
            }
            model.pace = pace;
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
            let mut model = self.model();
            let mut done = Vec::new();
            model.collect(self.now(), &mut done);
            let now = self.now();
            let lost = model.device.powercut(now);
            // Requests that completed in the moment between are still answered.
            model.collect(self.now(), &mut done);
            let lost = lost.extents.iter().map(|e| (e.offset, e.len, e.since));
            let gone = Gone::new(lost, std::mem::take(&mut model.unacknowledged));
            model.power = false;
            model.generation += 1;
            let pending: Vec<_> = model.pending.drain().map(|(_, p)| p).collect();
            drop(model);
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
        self.model().power = true;
    }

    /// Whether the device has power.
    pub(crate) fn has_power(&self) -> bool {
        self.model().power
    }

    /// Counters of model and store, and the model's time.
    pub(crate) fn stats(&self) -> (Nanos, DeviceStats, Usage) {
        let usage = self.store.read().unwrap_or_else(PoisonError::into_inner).usage();
        let model = self.model();
        (self.now(), model.device.stats(), usage)
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
