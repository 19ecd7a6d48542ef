//! CFQ of 2.6.32: a time slice for each process and one queue for background writes, served by a
//! tree of due times (`block/cfq-iosched.c`, 2.6.32.71).
//!
//! ```text
//! insert ─▶ synchronous (reads, WRITE_SYNC, O_DIRECT): the process's queue
//!           the rest: the asynchronous queue of the priority class
//! tree:     real-time, best effort, idle; within a class by jiffies
//!           + (busy queues - 1) * (180 ms - own slice) - what was left of the last slice
//! a turn:   a request at a time; a synchronous queue waits slice_idle (8 ms, 2 ms if it seeks)
//!           for its process's next request
//! limits:   no synchronous request while asynchronous ones are in the device
//!           (if the queue idles); no asynchronous one while synchronous are;
//!           4 in the device beside others, 16 alone;
//!           asynchronous: one for each 100 ms since the last synchronous completion (low_latency)
//! ```
//!
//! A synchronous request pushes an asynchronous queue aside, metadata one that has none. Queues of
//! processes that work close together share one queue from then on, until it seeks for a second
//! (`cooperate`).
//!
//! The nearest queue is found by distance; the kernel looks at two neighbours in a tree, in an
//! order that depends on the tree's shape. Left out: `cfq_may_queue` and the boost for holders of
//! file-system locks.

mod cooperate;
mod idle;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use crate::elevator::history::{SeekDistance, ThinkTime, sample_valid};
use crate::elevator::id_map::IdMap;
use crate::elevator::jiffies::Clock;
use crate::elevator::pool::Handle;
use crate::elevator::sorted::{Leaving, Reach, Rules, SortedQueues};
use crate::elevator::tunable::tunables;
use crate::elevator::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, PRIORITIES, PriorityClass, ProcessId};

tunables! {
    /// `queue/iosched/` of CFQ in 2.6.32.
    pub struct Cfq32Tunables of "cfq" {
        /// Requests of a queue in the device while others wait; four times as many if none does.
        quantum: u32 = "quantum" in [1, u32::MAX];
        /// How long a synchronous request may wait before its queue's turn starts with it, ms.
        fifo_expire_sync_ms: u32 = "fifo_expire_sync" in [1, u32::MAX];
        /// How long an asynchronous request may wait, ms.
        fifo_expire_async_ms: u32 = "fifo_expire_async" in [1, u32::MAX];
        /// How far the head goes back for a request, KiB.
        back_seek_max_kib: u32 = "back_seek_max" in [0, u32::MAX];
        /// What going back costs, compared with going ahead.
        back_seek_penalty: u32 = "back_seek_penalty" in [1, u32::MAX];
        /// Slice of a synchronous queue at level 4, ms.
        slice_sync_ms: u32 = "slice_sync" in [1, u32::MAX];
        /// Slice of an asynchronous queue at level 4, ms.
        slice_async_ms: u32 = "slice_async" in [1, u32::MAX];
        /// Beside others, an asynchronous slice ends after `2 * (this + this * (7 - level))`
        /// requests.
        slice_async_rq: u32 = "slice_async_rq" in [1, u32::MAX];
        /// How long a synchronous queue keeps its turn without a request, ms; 0: not at all.
        slice_idle_ms: u32 = "slice_idle" in [0, u32::MAX];
        /// 1: asynchronous requests reach the device slowly after synchronous ones, and seeking
        /// processes are idled for.
        low_latency: u32 = "low_latency" in [0, 1];
    }
}

impl Cfq32Tunables {
    /// The defaults, which are fractions of a second in ticks.
    #[must_use]
    pub fn new(hz: u32) -> Self {
        let clock = Clock::new(hz);
        let at_least_one = |ticks: u64| clock.to_ms(ticks.max(1)) as u32;
        Self {
            quantum: 4,
            fifo_expire_sync_ms: clock.to_ms(clock.hz() / 8) as u32,
            fifo_expire_async_ms: clock.to_ms(clock.hz() / 4) as u32,
            back_seek_max_kib: 16 * 1024,
            back_seek_penalty: 2,
            slice_sync_ms: clock.to_ms(clock.hz() / 10) as u32,
            slice_async_ms: at_least_one(clock.hz() / 25),
            slice_async_rq: 2,
            slice_idle_ms: at_least_one(clock.hz() / 125),
            low_latency: 1,
        }
    }
}

/// Priority levels of the best-effort class (`IOPRIO_BE_NR`).
const LEVELS: u32 = 8;
/// Level of the idle class.
const LOWEST_LEVEL: u32 = 7;
/// A queue whose mean seek is longer than this many sectors seeks (`CFQQ_SEEK_THR`).
const SEEKY_SECTORS: u64 = 8 * 1024;
const SECTOR: u64 = 512;
const KIB: u64 = 1024;
/// A request larger than this is taken to be merged already while idling for it, bytes.
const PAGE: u64 = 4096;

const ASYNC: usize = 0;

/// The requests of a process (or of some that work close together), or the asynchronous ones
/// (`struct cfq_queue`).
#[derive(Clone, Copy, Debug)]
struct Queue {
    class: PriorityClass,
    level: u32,
    sync: bool,
    next: Option<Handle>,
    /// In the tree, because it has requests.
    due: bool,
    /// Its place there, jiffies.
    key: i64,
    slice_end: u64,
    /// The unused time of the last slice, jiffies; negative after an overrun.
    residual: i64,
    /// Requests sent in this slice.
    slice_requests: u32,
    /// No request of this slice has completed: its time does not run yet.
    slice_new: bool,
    /// Sent and not completed.
    in_device: u32,
    /// Waiting for a request of its process.
    idling: bool,
    must_dispatch: bool,
    /// Its oldest request has been looked at in this slice.
    fifo_checked: bool,
    /// Waiting for its process pays.
    idle_window: bool,
    /// Metadata requests that wait.
    meta: u32,
    seek: SeekDistance,
    last_position: u64,
    /// How many processes use it, or will when they next submit something (`cfqq_process_refs`).
    processes: u32,
    /// With which queue it is to be merged.
    heir: Option<u32>,
    /// It belongs to several processes.
    shared: bool,
    /// Since when a shared queue seeks, jiffies; 0: it does not.
    seeky_since: u64,
}

impl Queue {
    const fn seeks(&self) -> bool {
        self.seek.mean > SEEKY_SECTORS
    }
}

/// The history of a process (`struct cfq_io_context`).
#[derive(Clone, Copy, Debug)]
struct Context {
    exited: bool,
    last_end: u64,
    think: ThinkTime,
    /// Over all its requests, asynchronous ones too, which another queue serves.
    seek: SeekDistance,
    /// Sector after its last request's.
    last_position: u64,
    /// Its synchronous queue.
    queue: Option<u32>,
}

impl Context {
    /// `CIC_SEEKY` with enough samples.
    const fn seeks(&self) -> bool {
        sample_valid(self.seek.samples) && self.seek.mean > SEEKY_SECTORS
    }
}

/// CFQ as in 2.6.32.
#[derive(Clone, Debug)]
pub struct Cfq32 {
    requests: SortedQueues,
    flushes: VecDeque<IoRequest>,
    clock: Clock,
    tunables: Cfq32Tunables,
    rotational: bool,
    queues: Vec<Queue>,
    /// Asynchronous queues by priority ([`IoRequest::priority`]).
    writers: [Option<u32>; PRIORITIES],
    /// Queues with requests, in the order of their turns (`service_tree`). A vector: there are as
    /// many as processes.
    tree: Vec<u32>,
    active: Option<u32>,
    /// The process that the active queue would idle for.
    active_context: Option<u32>,
    /// When the idle wait ends.
    idle_timer: Option<u64>,
    /// Requests in the device, asynchronous and synchronous.
    in_driver: [u32; 2],
    /// Requests of synchronous queues in the device.
    sync_in_device: u32,
    last_sync_end: u64,
    /// Where the last request sent ended, bytes.
    last_position: u64,
    /// Whether the device queues by itself (`hw_tag`), and what that is judged by.
    device_queues: bool,
    depth_samples: u32,
    depth_peak: u32,
    contexts: IdMap<u32>,
    context_list: Vec<Context>,
    /// The queue of each request in the device.
    owner: IdMap<u32>,
}

impl Cfq32 {
    /// `hz`: ticks a second. `rotational`: as `queue/rotational` says.
    #[must_use]
    pub fn new(hz: u32, rotational: bool, tunables: Cfq32Tunables) -> Self {
        let clock = Clock::new(hz);
        Self {
            requests: SortedQueues::new(0),
            flushes: VecDeque::new(),
            clock,
            tunables,
            rotational,
            queues: Vec::new(),
            writers: [None; PRIORITIES],
            tree: Vec::new(),
            active: None,
            active_context: None,
            idle_timer: None,
            in_driver: [0; 2],
            sync_in_device: 0,
            last_sync_end: clock.jiffies(Nanos::ZERO),
            last_position: 0,
            device_queues: true,
            depth_samples: 0,
            depth_peak: 0,
            contexts: IdMap::new(),
            context_list: Vec::new(),
            owner: IdMap::new(),
        }
    }

    fn reach(&self) -> Reach {
        let back_max = u64::from(self.tunables.back_seek_max_kib) * KIB;
        Reach { back_max, penalty: self.tunables.back_seek_penalty.into() }
    }

    fn slice_idle(&self) -> u64 {
        self.clock.ticks(self.tunables.slice_idle_ms.into())
    }

    /// Time for a queue (`cfq_prio_slice`): a fifth more or less for each level.
    fn slice(&self, sync: bool, level: u32) -> u64 {
        let ms = if sync { self.tunables.slice_sync_ms } else { self.tunables.slice_async_ms };
        let base = self.clock.ticks(ms.into()) as i64;
        (base + base / 5 * (4 - i64::from(level))).max(0) as u64
    }

    fn context(&mut self, process: ProcessId, now: u64) -> usize {
        if let Some(at) = self.contexts.get(process.0.into()) {
            return at as usize;
        }
        let at = self.context_list.len();
        self.contexts.insert(process.0.into(), at as u32);
        self.context_list.push(Context {
            exited: false,
            last_end: now,
            think: ThinkTime::default(),
            seek: SeekDistance::default(),
            last_position: 0,
            queue: None,
        });
        at
    }

    fn add_queue(&mut self, request: &IoRequest) -> u32 {
        let (class, sync) = (request.class, is_sync(request));
        let idle = class == PriorityClass::Idle;
        self.queues.push(Queue {
            class,
            level: if idle { LOWEST_LEVEL } else { request.level.into() },
            sync,
            next: None,
            due: false,
            key: 0,
            slice_end: 0,
            residual: 0,
            slice_requests: 0,
            slice_new: false,
            in_device: 0,
            idling: false,
            must_dispatch: false,
            fifo_checked: false,
            idle_window: sync && !idle,
            meta: 0,
            seek: SeekDistance::default(),
            last_position: 0,
            processes: 1,
            heir: None,
            shared: false,
            seeky_since: 0,
        });
        self.requests.add_queue()
    }

    /// The queue that a request belongs to, if there is one already.
    fn find_queue(&self, request: &IoRequest) -> Option<u32> {
        if is_sync(request) {
            let context = self.contexts.get(request.process.0.into())?;
            self.context_list[context as usize].queue
        } else {
            self.writers[request.priority()]
        }
    }

    /// The queue for a new request (`cfq_set_request`).
    fn queue(&mut self, request: &IoRequest, context: usize, now: u64) -> u32 {
        if is_sync(request) {
            return self.process_queue(request, context, now);
        }
        if let Some(queue) = self.writers[request.priority()] {
            return queue;
        }
        let queue = self.add_queue(request);
        self.writers[request.priority()] = Some(queue);
        queue
    }
}

/// Whether a process waits for it: a read, or marked so.
const fn is_sync(request: &IoRequest) -> bool {
    request.is_read() || request.flags.sync
}

/// Whether no other one will follow (`REQ_NOIDLE`): a synchronous write that is not O_DIRECT.
const fn is_last(request: &IoRequest) -> bool {
    !request.is_read() && request.flags.sync && !request.flags.idle
}

/// Which of two requests of a queue comes first (`cfq_choose_req`): metadata, then what suits the
/// head.
fn better(
    requests: &SortedQueues,
    a: Option<Handle>,
    b: Option<Handle>,
    head: u64,
    reach: Reach,
) -> Option<Handle> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    match (requests.request(first).flags.meta, requests.request(second).flags.meta) {
        (true, false) => Some(first),
        (false, true) => Some(second),
        _ => requests.better(a, b, head, reach),
    }
}

/// The request to follow `handle` (`cfq_find_next_rq`).
fn next_after(requests: &SortedQueues, handle: Handle, head: u64, reach: Reach) -> Option<Handle> {
    let queue = requests.entry(handle).queue;
    let next =
        requests.next(handle).or_else(|| requests.first(queue).filter(|&first| first != handle));
    better(requests, next, requests.previous(handle), head, reach)
}

impl Elevator for Cfq32 {
    fn name(&self) -> &'static str {
        "cfq"
    }

    /// Only within the bio's own queue, and no synchronous bio into an asynchronous request
    /// (`cfq_allow_merge`).
    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let own = self.find_queue(bio)?;
        let reach = self.reach();
        let Self { requests, queues, last_position, .. } = self;
        let mut moved = None;
        let merge = requests.merge(
            bio,
            Rules { max_bytes, front: Some(own), same_class: false },
            |entry| entry.queue == own,
            |requests, handle, leaving| {
                let queue = &mut queues[requests.entry(handle).queue as usize];
                let absorbed = leaving == Leaving::Absorbed;
                if absorbed && queue.next == Some(handle) {
                    queue.next = next_after(requests, handle, *last_position, reach);
                }
                queue.meta -= u32::from(absorbed && requests.request(handle).flags.meta);
                moved = (!absorbed).then_some(handle);
            },
        );
        if let Some(handle) = moved {
            let queue = &mut queues[own as usize];
            queue.next = better(requests, queue.next, Some(handle), *last_position, reach);
        }
        merge
    }

    /// `cfq_insert_request`.
    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        let context = self.context(request.process, now);
        let at = self.queue(&request, context, now);
        let ms = if is_sync(&request) {
            self.tunables.fifo_expire_sync_ms
        } else {
            self.tunables.fifo_expire_async_ms
        };
        let handle = self.requests.insert(at, request, now + self.clock.ticks(ms.into()));
        if !self.queues[at as usize].due {
            self.enter_tree(at, false, now);
        }
        let next = self.queues[at as usize].next;
        self.queues[at as usize].next =
            better(&self.requests, next, Some(handle), self.last_position, self.reach());
        self.enqueued(at, context, &request, now);
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        if self.requests.len() == 0 {
            return Dispatch::Empty;
        }
        if let Some(request) = self.choose(now) {
            return Dispatch::Request(request);
        }
        match self.idle_timer {
            Some(expires) => Dispatch::Hold(self.clock.at(expires)),
            None => Dispatch::Wait,
        }
    }

    /// `cfq_completed_request`.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        let Some(at) = self.owner.remove(request.id) else { return };
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        self.update_device_queues();
        let sync = is_sync(request);
        let in_driver = &mut self.in_driver[usize::from(sync)];
        *in_driver = in_driver.saturating_sub(1);
        let queue = &mut self.queues[at as usize];
        queue.in_device = queue.in_device.saturating_sub(1);
        if queue.sync {
            self.sync_in_device = self.sync_in_device.saturating_sub(1);
        }
        if sync {
            self.last_sync_end = now;
            let context = self.context(request.process, now);
            self.context_list[context].last_end = now;
        }
        if self.active != Some(at) {
            return;
        }
        let slice = self.slice(self.queues[at as usize].sync, self.queues[at as usize].level);
        let queue = &mut self.queues[at as usize];
        if queue.slice_new {
            queue.slice_end = now + slice;
            queue.slice_new = false;
        }
        if self.slice_used(at, now) || self.queues[at as usize].class == PriorityClass::Idle {
            self.expire(at, true, now);
        } else if sync
            && !is_last(request)
            && self.requests.queue_is_empty(at)
            && self.close_cooperator(at).is_none()
        {
            self.start_idling(at, now);
        }
    }

    fn process_exited(&mut self, now: Nanos, process: ProcessId) {
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        self.exit(process, now);
    }

    fn len(&self) -> usize {
        self.requests.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.tunables.set(name, value)
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        self.tunables.list()
    }
}
