//! The block layer: from a bio to a request to the device and back.
//!
//! ```text
//! bio ─▶ joins a request in the plug, or one that waits? ─ yes ─▶ that grows
//!        └ no ─▶ wbt gate ─▶ request slot ─▶ plug ─▶ elevator ─▶ device (at most `given`) ─▶ done
//! PREFLUSH, FUA ─▶ flush.rs ───────────────────────────▶ past the elevator ┘
//! done: slot and gate are free again
//! ```
//!
//! `submit` answers at once: taken, or wait (no slot, gate shut). A process that has to wait is
//! remembered here and named in [`BlockLayer::woken`] when it is worth trying again. Sources:
//! block/blk-mq.c `blk_mq_submit_bio`, block/blk-core.c `blk_add_rq_to_plug`, `__make_request`
//! (2.6.x).

mod bio;
mod change;
mod flush;
mod gate;
mod io_max;
mod loop_driver;
mod pool;
mod queues;
mod striped;

use std::collections::VecDeque;

use floodwall_device::{Completion, Device, Nanos, Op, Request};
use floodwall_model::Priority;

use crate::elevator::{Dispatch, Elevator};
use crate::kernel::Generation;
use crate::machine::ProcessIndex;
use crate::request::{IoRequest, ProcessId, class_and_level};
use crate::slab::Slab;
use crate::wbt::{Track, Wbt};

pub(crate) use bio::{Bio, Done, End, Times};
pub(crate) use change::Change;
pub(crate) use io_max::IoMax;
pub(crate) use loop_driver::LoopDriver;
pub(crate) use pool::RequestPool;
pub(crate) use queues::Stripes;
pub(crate) use striped::Striped;

use change::Freezer;
use flush::{FlushQueue, Stage};
use queues::Queues;

/// Requests that a plug collects before it is flushed (`BLK_MAX_REQUEST_COUNT`, one hardware
/// queue).
const PLUG_REQUESTS: usize = 32;
/// … or until the last of them has this many bytes (`BLK_PLUG_FLUSH_SIZE`).
const PLUG_BYTES: u64 = 128 << 10;
/// A request's id is its number in the high bits and its slot in these low ones: ascending, and
/// found without a search.
const SLOT_BITS: u32 = 22;

/// A bio in a chain.
#[derive(Clone, Copy)]
struct Node {
    bio: Bio,
    next: u32,
    stage: Stage,
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    io: IoRequest,
    first: u32,
    last: u32,
    /// Which slots it took; `None` for what the flush machinery sends.
    class: Option<u8>,
    /// Its class at the gate.
    track: Track,
    dispatched: Nanos,
}

/// The needs of a bio before it can become a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// It is on its way.
    Taken,
    /// Nothing was done; the process waits until it is named in `woken`.
    Wait,
}

/// Counters as in /proc/diskstats: since the machine started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) flushes: u64,
    /// Time with a request somewhere between slot and completion.
    pub(crate) busy: Nanos,
    /// Sum over requests of that time.
    pub(crate) weighted: Nanos,
    pub(crate) errors: u64,
}

/// How a queue is made.
pub(crate) struct QueueParams {
    pub(crate) generation: Generation,
    /// Commands that the device can take at once.
    pub(crate) depth: u32,
    /// Commands that it is given at once; at most `depth`.
    pub(crate) given: u32,
    /// Longest request in bytes.
    pub(crate) max_bytes: u64,
    /// The slots of each member queue.
    pub(crate) pool: RequestPool,
    /// The writeback throttling of each member queue, where there is any.
    pub(crate) wbt: Option<Wbt>,
    pub(crate) stripes: Stripes,
    /// Whether the device can force a single write to the medium.
    pub(crate) fua: bool,
    /// Whether FLUSH can't be queued with other commands (SATA): the queue runs dry before it, and
    /// nothing is sent until it is done (`ata_std_qc_defer`).
    pub(crate) flush_alone: bool,
}

/// One device's queue and the device.
pub(crate) struct BlockLayer {
    device: Box<dyn Device + Send>,
    device_next: Option<Nanos>,
    elevator: Box<dyn Elevator>,
    /// Until when the elevator holds its requests back.
    hold: Option<Nanos>,
    generation: Generation,
    depth: u32,
    given: u32,
    in_flight: u32,
    flush_alone: bool,
    /// A FLUSH that must be alone is in the device.
    flushing: bool,
    max_bytes: u64,
    queues: Queues,
    flush: FlushQueue,
    freezer: Freezer,
    /// Goes to the device before the elevator's requests.
    bypass: VecDeque<u32>,
    requests: Slab<Entry>,
    nodes: Slab<Node>,
    /// Each process's requests that the elevator has not seen yet.
    plugs: Vec<Vec<u32>>,
    /// Each process's I/O priority.
    priorities: Vec<Priority>,
    next_number: u64,
    /// Requests between slot and completion.
    outstanding: u32,
    busy_since: Nanos,
    counters: Counters,
    completions: Vec<Completion>,
    /// Processes that may try again.
    pub(crate) woken: Vec<ProcessIndex>,
    /// Whether a class of requests has left congestion since this was last looked at.
    pub(crate) left_congestion: bool,
}

impl BlockLayer {
    pub(crate) fn new(
        device: Box<dyn Device + Send>,
        elevator: Box<dyn Elevator>,
        p: QueueParams,
    ) -> Self {
        let volatile = device.profile().volatile_cache;
        Self {
            device,
            device_next: None,
            elevator,
            hold: None,
            generation: p.generation,
            depth: p.depth.max(1),
            given: p.given.max(1),
            in_flight: 0,
            flush_alone: p.flush_alone,
            flushing: false,
            max_bytes: p.max_bytes,
            queues: Queues::new(p.stripes, &p.pool, p.wbt.as_ref()),
            flush: FlushQueue::new(volatile, p.fua, p.generation != Generation::K6),
            freezer: Freezer::default(),
            bypass: VecDeque::new(),
            requests: Slab::new(),
            nodes: Slab::new(),
            plugs: Vec::new(),
            priorities: Vec::new(),
            next_number: 0,
            outstanding: 0,
            busy_since: Nanos::ZERO,
            counters: Counters::default(),
            completions: Vec::new(),
            woken: Vec::new(),
            left_congestion: false,
        }
    }

    /// Puts something around the device before it is used.
    #[cfg(test)]
    pub(crate) fn wrap_device(
        &mut self,
        wrap: impl FnOnce(Box<dyn Device + Send>) -> Box<dyn Device + Send>,
    ) {
        let nothing = Box::new(floodwall_device::Null::new(1, Nanos::ZERO));
        let inner = std::mem::replace(&mut self.device, nothing);
        self.device = wrap(inner);
    }

    /// Makes room for one more process.
    pub(crate) fn add_process(&mut self) {
        self.plugs.push(Vec::new());
        self.priorities.push(Priority::None);
        self.queues.add_process();
        self.freezer.add_process();
    }

    /// A process's bios have this priority from now on.
    pub(crate) fn set_priority(&mut self, process: ProcessIndex, priority: Priority) {
        self.priorities[process.0 as usize] = priority;
    }

    /// A process's priority.
    pub(crate) fn priority(&self, process: ProcessIndex) -> Priority {
        self.priorities.get(process.0 as usize).copied().unwrap_or_default()
    }

    /// Commands that the device can take at once.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Commands that it is given at once.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// Longest request in bytes.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Whether the device loses what it has acknowledged when the power fails, so that flushes mean
    /// something.
    pub(crate) fn volatile(&self) -> bool {
        self.flush.volatile()
    }

    /// Whether a class of requests is congested (up to 3.2).
    pub(crate) fn write_congested(&self) -> bool {
        self.queues.congested(1)
    }

    /// Requests between slot and completion.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The capacity of the device's caches, in bytes.
    pub(crate) fn device_cache_bytes(&self) -> u64 {
        self.device.stats().cache_size_bytes
    }

    pub(crate) fn counters(&self, now: Nanos) -> Counters {
        let mut counters = self.counters;
        if self.outstanding > 0 {
            counters.busy += now.since(self.busy_since);
        }
        counters
    }

    /// A writer sleeps in `balance_dirty_pages`: the gate lets more through for a while.
    pub(crate) fn writer_sleeps(&mut self, now: Nanos) {
        self.queues.gates().for_each(|gate| gate.writer_sleeps(now));
    }

    /// When something next happens here.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        [self.device_next, self.hold, self.queues.next_event(), self.flush.timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Submits a bio into a queue that is not frozen. `woken`: the process waited and was named.
    fn submit_inside(
        &mut self,
        now: Nanos,
        process: ProcessIndex,
        bio: &mut Bio,
        woken: bool,
        out: &mut Vec<Done>,
    ) -> Submitted {
        if !self.flush.volatile() && bio.op == (Op::Write { fua: true }) {
            // submit_bio_noacct: nothing to force.
            bio.op = Op::Write { fua: false };
        }
        if self.needs_sequence(bio) {
            self.submit_sequence(now, *bio, out);
            return Submitted::Taken;
        }
        let io = self.io_of(now, process, bio);
        // A woken process does not try again to merge.
        if !woken && bio.len < self.max_bytes && self.merge(now, process, bio, &io) {
            return Submitted::Taken;
        }
        if !self.pass_gate(now, process, bio, &io, woken) {
            self.flush_plug(now, process);
            return Submitted::Wait;
        }
        let class = self.class_of(&io);
        let queue = self.queues.of(io.offset);
        let limit = self.elevator.depth_limit(&io, queue.pool.size());
        if !queue.pool.take(now, usize::from(class), limit, process, woken) {
            self.flush_plug(now, process);
            return Submitted::Wait;
        }
        let track = queue.gate.as_mut().map_or(Track::No, |gate| gate.use_pass(process));
        bio.times.queued = now;
        let node = self.nodes.insert(Node { bio: *bio, next: NIL, stage: Stage::Data });
        let slot = self.request(now, io, node, Some(class), track);
        self.add_to_plug(now, process, slot);
        Submitted::Taken
    }

    /// The end of a batch (`blk_finish_plug`), or its process goes to sleep.
    pub(crate) fn flush_plug(&mut self, now: Nanos, process: ProcessIndex) {
        let plug = &mut self.plugs[process.0 as usize];
        if plug.is_empty() {
            return;
        }
        let mut plug = std::mem::take(plug);
        for slot in plug.drain(..) {
            self.insert(now, slot);
        }
        self.plugs[process.0 as usize] = plug;
        self.dispatch(now);
    }

    /// Lets time pass up to `now`; appends what is done.
    pub(crate) fn advance(&mut self, now: Nanos, out: &mut Vec<Done>) {
        if self.device_next.is_some_and(|t| t <= now) {
            let mut completions = std::mem::take(&mut self.completions);
            self.device.advance(now, &mut completions);
            for c in completions.drain(..) {
                self.complete(&c, out);
            }
            self.completions = completions;
            self.device_next = self.device.next_event();
        }
        if self.hold.is_some_and(|t| t <= now) {
            self.hold = None;
        }
        self.queues.gates().for_each(|gate| gate.tick(now, &mut self.woken));
        self.flush_kick(now, out);
        self.dispatch(now);
        self.thaw(now);
    }

    /// In 2.6.18 reads and writes have separate slots. Later kernels separate synchronous and
    /// asynchronous requests. 6.x counts them together.
    fn class_of(&self, io: &IoRequest) -> u8 {
        let sync = match self.generation {
            Generation::K2_6_18 => io.is_read(),
            _ => io.is_read() || io.flags.sync,
        };
        u8::from(!sync)
    }

    /// A bio as a request of the process in whose context it is submitted, with its I/O priority. A
    /// bio of the flush machinery has no process. A bio keeps the priority that it had before
    /// `io.max` (block/blk-core.c `submit_bio`, `bio_set_ioprio`). Only bfq asks the process that
    /// submits it at last (`bfq_check_ioprio_change`).
    fn io_of(&self, now: Nanos, process: ProcessIndex, bio: &Bio) -> IoRequest {
        let caller = bio.on_behalf_of.unwrap_or(process);
        let by_process = self.elevator.name() == "bfq";
        let subject = bio.submitter.filter(|_| !by_process).unwrap_or(caller);
        let (class, level) = class_and_level(self.priority(subject));
        // Before blk-mq, elevators see the log as a separate process.
        let known_as = if self.generation == Generation::K6 { caller } else { process };
        IoRequest {
            id: 0,
            op: bio.op,
            offset: bio.offset,
            len: bio.len,
            flags: bio.flags,
            process: ProcessId(known_as.0),
            class,
            level,
            queued: now,
        }
    }

    fn pass_gate(
        &mut self,
        now: Nanos,
        process: ProcessIndex,
        bio: &mut Bio,
        io: &IoRequest,
        woken: bool,
    ) -> bool {
        let Some(gate) = &mut self.queues.of(io.offset).gate else {
            if !woken {
                bio.times.gated = now;
            }
            return true;
        };
        if gate.has_pass(process) {
            return true;
        }
        let passed = gate.ask(now, process, io, woken, &mut self.woken);
        if passed {
            bio.times.gated = now;
        }
        passed
    }

    fn merge(&mut self, now: Nanos, process: ProcessIndex, bio: &mut Bio, io: &IoRequest) -> bool {
        let joined = match self.merge_into_plug(process, io) {
            Some(slot) => Some(slot),
            None => self.merge_into_elevator(now, io),
        };
        let Some(slot) = joined else { return false };
        (bio.times.gated, bio.times.queued) = (now, now);
        let node = self.nodes.insert(Node { bio: *bio, next: NIL, stage: Stage::Data });
        self.append(slot, node, node);
        true
    }

    /// Looks at the request that was plugged last (`blk_attempt_plug_merge`); at its end only,
    /// where streams grow.
    fn merge_into_plug(&mut self, process: ProcessIndex, bio: &IoRequest) -> Option<u32> {
        let slot = *self.plugs[process.0 as usize].last()?;
        let io = &mut self.requests.get_mut(slot).io;
        let fits = io.op == bio.op && io.end() == bio.offset && io.len + bio.len <= self.max_bytes;
        if fits {
            io.len += bio.len;
        }
        fits.then_some(slot)
    }

    fn merge_into_elevator(&mut self, now: Nanos, bio: &IoRequest) -> Option<u32> {
        if self.elevator.is_empty() {
            return None;
        }
        let merge = self.elevator.merge(now, bio, self.max_bytes)?;
        let slot = slot_of(merge.into);
        if let Some(absorbed) = merge.absorbed {
            let absorbed = slot_of(absorbed);
            let gone = *self.requests.get(absorbed);
            self.append(slot, gone.first, gone.last);
            self.release(now, absorbed, &gone);
        }
        Some(slot)
    }

    /// Adds a chain of bios to a request's.
    fn append(&mut self, slot: u32, first: u32, last: u32) {
        let entry = self.requests.get_mut(slot);
        let tail = std::mem::replace(&mut entry.last, last);
        self.nodes.get_mut(tail).next = first;
    }

    fn request(
        &mut self,
        now: Nanos,
        io: IoRequest,
        node: u32,
        class: Option<u8>,
        track: Track,
    ) -> u32 {
        if self.outstanding == 0 {
            self.busy_since = now;
        }
        self.outstanding += 1;
        self.next_number += 1;
        let entry = Entry { io, first: node, last: node, class, track, dispatched: now };
        let slot = self.requests.insert(entry);
        self.requests.get_mut(slot).io.id = self.next_number << SLOT_BITS | u64::from(slot);
        slot
    }

    fn add_to_plug(&mut self, now: Nanos, process: ProcessIndex, slot: u32) {
        if self.generation != Generation::K6 && self.generation != Generation::K3_2 {
            // The queue's plug (until 4 requests or 3 ms) is left out. A process that waits for a
            // request unplugs at once, and a flusher fills the plug in no time.
            self.insert(now, slot);
            return self.dispatch(now);
        }
        let plug = &self.plugs[process.0 as usize];
        let last = plug.last().map_or(0, |last| self.requests.get(*last).io.len);
        if plug.len() >= PLUG_REQUESTS || last >= PLUG_BYTES {
            self.flush_plug(now, process);
        }
        self.plugs[process.0 as usize].push(slot);
    }

    fn insert(&mut self, now: Nanos, slot: u32) {
        if self.flush.holds_back() {
            return self.flush.hold(slot);
        }
        let io = self.requests.get(slot).io;
        // Merged with what came in while it stood in the plug.
        if self.generation == Generation::K6
            && let Some(into) = self.merge_into_elevator(now, &io)
        {
            let gone = *self.requests.get(slot);
            self.append(into, gone.first, gone.last);
            return self.release(now, slot, &gone);
        }
        let entry = self.requests.get_mut(slot);
        entry.io.queued = now;
        let io = entry.io;
        self.elevator.insert(now, io);
    }

    fn dispatch(&mut self, now: Nanos) {
        let before = self.in_flight;
        while self.in_flight < self.given && !self.flushing {
            if self.flush_alone && self.in_flight > 0 && self.flush_is_next() {
                break;
            }
            if let Some(slot) = self.bypass.pop_front() {
                self.send(now, slot);
                continue;
            }
            match self.elevator.dispatch(now, self.in_flight) {
                Dispatch::Request(io) => {
                    let slot = slot_of(io.id);
                    self.requests.get_mut(slot).io = io;
                    self.hold = None;
                    self.send(now, slot);
                }
                Dispatch::Hold(until) => {
                    self.hold = Some(until.max(Nanos(now.0 + 1)));
                    break;
                }
                Dispatch::Wait | Dispatch::Empty => {
                    self.hold = None;
                    break;
                }
            }
        }
        if self.in_flight != before {
            self.device_next = self.device.next_event();
        }
    }

    fn flush_is_next(&self) -> bool {
        self.bypass.front().is_some_and(|slot| self.requests.get(*slot).io.op == Op::Flush)
    }

    fn send(&mut self, now: Nanos, slot: u32) {
        let entry = self.requests.get_mut(slot);
        entry.dispatched = now;
        let io = entry.io;
        let track = entry.track;
        self.in_flight += 1;
        self.flushing = self.flush_alone && io.op == Op::Flush;
        if let Some(gate) = &mut self.queues.of(io.offset).gate {
            gate.issued(now, io.id, track);
        }
        self.device.submit(
            now,
            Request {
                id: io.id,
                version: io.id,
                op: io.op,
                offset: io.offset,
                len: io.len,
                sync: io.flags.sync,
            },
        );
    }

    fn complete(&mut self, completion: &Completion, out: &mut Vec<Done>) {
        let now = completion.at;
        let slot = slot_of(completion.id);
        let entry = *self.requests.get(slot);
        self.in_flight -= 1;
        self.counters.errors += u64::from(completion.result.is_err());
        match entry.io.op {
            Op::Read => {
                self.counters.reads += 1;
                self.counters.read_bytes += entry.io.len;
            }
            Op::Flush => self.counters.flushes += 1,
            Op::Write { .. } | Op::WriteZeroes | Op::Discard => {
                self.counters.writes += 1;
                self.counters.write_bytes += entry.io.len;
            }
        }
        self.counters.weighted += now.since(entry.io.queued);
        if entry.io.op == Op::Flush {
            self.flushing = false;
            self.requests.remove(slot);
            self.end_outstanding(now);
            return self.flush_done(now, out);
        }
        if entry.class.is_some() {
            self.elevator.completed(now, &entry.io);
        }
        if let Some(gate) = &mut self.queues.of(entry.io.offset).gate {
            let in_device = now.since(entry.dispatched);
            gate.completed(now, &entry.io, entry.track, in_device, &mut self.woken);
        }
        let mut node = entry.first;
        while node != NIL {
            let Node { bio, next, stage } = *self.nodes.get(node);
            if stage == Stage::Data && entry.class.is_some() {
                self.nodes.remove(node);
                let times = Times { dispatched: entry.dispatched, done: now, ..bio.times };
                out.push(Done { end: bio.end, times });
            } else {
                self.sequence_data_done(now, node, entry.dispatched, out);
            }
            node = next;
        }
        // The gate has been told.
        let entry = Entry { track: Track::No, ..entry };
        self.release(now, slot, &entry);
    }

    /// A request is no more: its slot is free again.
    fn release(&mut self, now: Nanos, slot: u32, entry: &Entry) {
        let queue = self.queues.of(entry.io.offset);
        if let Some(class) = entry.class {
            self.left_congestion |= queue.pool.give_back(usize::from(class), &mut self.woken);
        }
        if let (Some(gate), Track::Throttled(_)) = (&mut queue.gate, entry.track) {
            gate.released(now, entry.io.id, entry.track, &mut self.woken);
        }
        self.requests.remove(slot);
        self.end_outstanding(now);
    }

    fn end_outstanding(&mut self, now: Nanos) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.counters.busy += now.since(self.busy_since);
        }
    }
}

/// The slot in a request's id.
fn slot_of(id: u64) -> u32 {
    (id & ((1 << SLOT_BITS) - 1)) as u32
}
