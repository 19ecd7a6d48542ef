//! From a bio to a request in the elevator: merging, the gate, a slot, the plug.

use floodwall_device::{Nanos, Op};

use super::bio::{Bio, Done};
use super::flush_queue::Stage;
use super::state::{BlockLayer, Entry, NIL, Node, SLOT_BITS, Submitted, slot_of};
use crate::request::{IoRequest, ProcessId, ProcessIndex, class_and_level};
use crate::wbt::Track;

/// Requests that a plug collects before it is flushed (`BLK_MAX_REQUEST_COUNT`, one hardware
/// queue).
const PLUG_REQUESTS: usize = 32;
/// … or until the last of them has this many bytes (`BLK_PLUG_FLUSH_SIZE`).
const PLUG_BYTES: u64 = 128 << 10;

impl BlockLayer {
    /// Submits a bio into a queue that is not frozen. `woken`: the process waited and was named.
    pub(super) fn submit_inside(
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

    /// In 2.6.18 reads and writes have separate slots. Later kernels separate synchronous and
    /// asynchronous requests. 6.x counts them together.
    fn class_of(&self, io: &IoRequest) -> u8 {
        let sync = io.is_read() || io.flags.sync && self.generation.has_sync_writes();
        u8::from(!sync)
    }

    /// A bio as a request of the process in whose context it is submitted, with its I/O priority. A
    /// bio of the flush machinery has no process. A bio keeps the priority that it had before
    /// `io.max` (block/blk-core.c `submit_bio`, `bio_set_ioprio`). Only bfq asks the process that
    /// submits it at last (`bfq_check_ioprio_change`).
    pub(super) fn io_of(&self, now: Nanos, process: ProcessIndex, bio: &Bio) -> IoRequest {
        let caller = bio.on_behalf_of.unwrap_or(process);
        let by_process = self.elevator.name() == "bfq";
        let subject = bio.submitter.filter(|_| !by_process).unwrap_or(caller);
        let (class, level) = class_and_level(self.priority(subject));
        // Before blk-mq, elevators see the log as a separate process.
        let known_as = if self.generation.is_multiqueue() { caller } else { process };
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

    pub(super) fn request(
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
        if !self.generation.plugs_by_task() {
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

    pub(super) fn insert(&mut self, now: Nanos, slot: u32) {
        if self.flush.holds_back() {
            return self.flush.hold(slot);
        }
        let io = self.requests.get(slot).io;
        // Merged with what came in while it stood in the plug.
        if self.generation.is_multiqueue()
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
}
