//! The state of a queue and its device, and how it is made.

use std::collections::VecDeque;

use floodwall_device::{Completion, Device, Nanos};
use floodwall_model::Priority;

use super::bio::Bio;
use super::flush_queue::{FlushQueue, Stage};
use super::pool::RequestPool;
use super::queues::{Queues, Stripes};
use crate::elevator::Elevator;
use crate::kernel::Generation;
use crate::request::{IoRequest, ProcessIndex};
use crate::slab::Slab;
use crate::wbt::{Track, Wbt};

/// A request's id is its number in the high bits and its slot in these low ones: ascending, and
/// found without a search.
pub(super) const SLOT_BITS: u32 = 22;

/// A bio in a chain.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) bio: Bio,
    pub(super) next: u32,
    pub(super) stage: Stage,
}

pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) io: IoRequest,
    pub(super) first: u32,
    pub(super) last: u32,
    /// Which slots it took; `None` for what the flush machinery sends.
    pub(super) class: Option<u8>,
    /// Its class at the gate.
    pub(super) track: Track,
    pub(super) dispatched: Nanos,
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
    pub(super) device: Box<dyn Device + Send>,
    pub(super) device_next: Option<Nanos>,
    pub(super) elevator: Box<dyn Elevator>,
    /// Until when the elevator holds its requests back.
    pub(super) hold: Option<Nanos>,
    pub(super) generation: Generation,
    pub(super) depth: u32,
    pub(super) given: u32,
    pub(super) in_flight: u32,
    pub(super) flush_alone: bool,
    /// A FLUSH that must be alone is in the device.
    pub(super) flushing: bool,
    pub(super) max_bytes: u64,
    pub(super) queues: Queues,
    pub(super) flush: FlushQueue,
    pub(super) freezer: Freezer,
    /// Goes to the device before the elevator's requests.
    pub(super) bypass: VecDeque<u32>,
    pub(super) requests: Slab<Entry>,
    pub(super) nodes: Slab<Node>,
    /// Each process's requests that the elevator has not seen yet.
    pub(super) plugs: Vec<Vec<u32>>,
    /// Each process's I/O priority.
    pub(super) priorities: Vec<Priority>,
    pub(super) next_number: u64,
    /// Requests between slot and completion.
    pub(super) outstanding: u32,
    pub(super) busy_since: Nanos,
    pub(super) counters: Counters,
    pub(super) completions: Vec<Completion>,
    /// Processes that may try again.
    pub(crate) woken: Vec<ProcessIndex>,
    /// Whether a class of requests has left congestion since this was last looked at.
    pub(crate) left_congestion: bool,
}

/// The new values. Several at once count as written one after the other.
#[derive(Default)]
pub(crate) struct Change {
    /// Another elevator, with the number of slots that it brings, and whether wbt gives way to it.
    pub(crate) elevator: Option<(Box<dyn Elevator>, u32, bool)>,
    pub(crate) nr_requests: Option<u32>,
    /// Longest request in bytes.
    pub(crate) max_bytes: Option<u64>,
    /// wbt's target in microseconds; inner `None`: its default.
    pub(crate) wbt_us: Option<Option<u64>>,
    /// Tunables that were written after `nr_requests`, which resets some.
    pub(super) tunables: Vec<(String, String)>,
}

/// Processes that wait outside a frozen queue.
#[derive(Default)]
pub(super) struct Freezer {
    pub(super) change: Option<Change>,
    pub(super) outside: Vec<ProcessIndex>,
    /// Processes that were outside and may come in, as if for the first time.
    pub(super) let_in: Vec<bool>,
    /// Processes inside that wait for a slot or at the gate.
    pub(super) inside: u32,
}

impl Freezer {
    pub(super) fn add_process(&mut self) {
        self.let_in.push(false);
    }
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
            flush: FlushQueue::new(volatile, p.fua, p.generation.drains_for_barriers()),
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
}

/// The slot in a request's id.
pub(super) fn slot_of(id: u64) -> u32 {
    (id & ((1 << SLOT_BITS) - 1)) as u32
}
