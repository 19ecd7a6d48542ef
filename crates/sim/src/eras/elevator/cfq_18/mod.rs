//! CFQ of 2.6.18: a time slice for each process that reads, one queue for all writes
//! (`block/cfq-iosched.c`).
//!
//! ```text
//! insert ─▶ reads: the process's queue
//!           writes, synchronous or not: the asynchronous queue of the priority class
//! turns:    real-time first ─▶ best effort, levels 0; 0, 1; 0, 1, 2; … ,
//!           within a level who was served longest ago ─▶ idle, after 100 ms of silence
//! a turn:   up to quantum requests at a time into a sorted dispatch list;
//!           a queue that idles keeps the device for its slice (100 ms),
//!           one that does not loses its turn at once;
//!           the asynchronous one after 16 requests or 40 ms
//! idling:   an empty queue of a reader keeps its turn for slice_idle (8 ms; 2 ms if it seeks)
//! ```
//!
//! Every write is asynchronous here, including those of fsync, O_SYNC and O_DIRECT.
//! `cfq_set_request` asks for the queue with the data direction, so its test for `WRITE_SYNC` never
//! matches. Synchronous requests do not push asynchronous ones aside either: `cfq_should_preempt`
//! wants the *new* queue to be idling.
//!
//! Left out: `cfq_may_queue` (which lets an idling queue's process past the slot limit) and the
//! boost for holders of file-system locks. An idle wait is not started again while one is running:
//! 2.6.18 does that only when the driver happens to ask.

mod idle;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use crate::elevator::history::{SeekDistance, ThinkTime};
use crate::elevator::id_map::IdMap;
use crate::elevator::jiffies::Clock;
use crate::elevator::pool::Handle;
use crate::elevator::sorted::{Leaving, Reach, Rules, SortedQueues};
use crate::elevator::tunable::tunables;
use crate::elevator::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, PRIORITIES, PriorityClass, ProcessId};

tunables! {
    /// `queue/iosched/` of CFQ in 2.6.18.
    pub struct Cfq18Tunables of "cfq" {
        /// Requests that a queue may send in one go.
        quantum: u32 = "quantum" in [1, u32::MAX];
        /// Kept, and used for nothing, as in 2.6.18.
        queued: u32 = "queued" in [1, u32::MAX];
        /// How long a read may wait before its queue's turn starts with it, ms.
        fifo_expire_sync_ms: u32 = "fifo_expire_sync" in [1, u32::MAX];
        /// How long a write may wait, ms.
        fifo_expire_async_ms: u32 = "fifo_expire_async" in [1, u32::MAX];
        /// How far the head goes back for a request, KiB.
        back_seek_max_kib: u32 = "back_seek_max" in [0, u32::MAX];
        /// What going back costs, compared with going ahead.
        back_seek_penalty: u32 = "back_seek_penalty" in [1, u32::MAX];
        /// Slice of a reader at level 4, ms.
        slice_sync_ms: u32 = "slice_sync" in [1, u32::MAX];
        /// Slice of the writes at level 4, ms.
        slice_async_ms: u32 = "slice_async" in [1, u32::MAX];
        /// A slice of writes ends after `2 * (this + this * (7 - level))` requests.
        slice_async_rq: u32 = "slice_async_rq" in [1, u32::MAX];
        /// How long a reader's queue keeps its turn without a request, ms; 0: not at all.
        slice_idle_ms: u32 = "slice_idle" in [0, u32::MAX];
    }
}

impl Cfq18Tunables {
    /// The defaults, which are fractions of a second in ticks.
    #[must_use]
    pub fn new(hz: u32) -> Self {
        let clock = Clock::new(hz);
        let at_least_one = |ticks: u64| clock.to_ms(ticks.max(1)) as u32;
        Self {
            quantum: 4,
            queued: 8,
            fifo_expire_sync_ms: clock.to_ms(clock.hz() / 8) as u32,
            fifo_expire_async_ms: clock.to_ms(clock.hz() / 4) as u32,
            back_seek_max_kib: 16 * 1024,
            back_seek_penalty: 2,
            slice_sync_ms: clock.to_ms(clock.hz() / 10) as u32,
            slice_async_ms: at_least_one(clock.hz() / 25),
            slice_async_rq: 2,
            slice_idle_ms: at_least_one(clock.hz() / 125),
        }
    }
}

/// Priority levels of the best-effort class (`IOPRIO_BE_NR`).
const LEVELS: usize = 8;
/// Level of the idle class.
const LOWEST_LEVEL: usize = 7;
/// With more than this in the device, it queues by itself (`hw_tag`).
const QUEUEING_DEPTH: u32 = 4;
const SECTOR: u64 = 512;
const KIB: u64 = 1024;

/// The list in which a queue waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// `rr_list`, by priority level.
    Level(usize),
    /// `cur_rr`: the level that is being served.
    Current,
    /// `busy_rr`: it still has requests in the device.
    Busy,
    /// `idle_rr`: the idle class.
    Idle,
}

/// A process's requests, or the asynchronous ones (`struct cfq_queue`).
#[derive(Clone, Copy, Debug)]
struct Queue {
    class: PriorityClass,
    level: usize,
    /// Whether it is a reader's.
    sync: bool,
    next: Option<Handle>,
    /// Where it waits; none while it is empty.
    list: Option<List>,
    last_served: u64,
    slice_end: u64,
    slice_left: u64,
    /// Sent and not completed.
    in_device: u32,
    /// Waiting for a request of its process.
    idling: bool,
    must_dispatch: bool,
    /// Its oldest request has been looked at in this slice.
    fifo_checked: bool,
    /// Waiting for its process pays.
    idle_window: bool,
}

/// The history of a process (`struct cfq_io_context`).
#[derive(Clone, Copy, Debug)]
struct Context {
    exited: bool,
    last_end: u64,
    last_position: u64,
    think: ThinkTime,
    seek: SeekDistance,
}

/// CFQ as in 2.6.18.
#[derive(Clone, Debug)]
pub struct Cfq18 {
    requests: SortedQueues,
    flushes: VecDeque<IoRequest>,
    clock: Clock,
    tunables: Cfq18Tunables,
    queues: Vec<Queue>,
    /// Readers' queues by process and priority ([`IoRequest::priority`]).
    readers: IdMap<u32>,
    /// Asynchronous queues by priority.
    writers: [Option<u32>; PRIORITIES],
    levels: [VecDeque<u32>; LEVELS],
    current: VecDeque<u32>,
    busy: VecDeque<u32>,
    idle: VecDeque<u32>,
    level: usize,
    last_level: usize,
    /// On the way to the driver, sorted (`queue_head`, `elv_dispatch_sort`).
    sent: VecDeque<IoRequest>,
    /// Where the last request that the driver took ended, bytes.
    driver_position: u64,
    /// Where the last request on the way to the driver ends, bytes.
    last_position: u64,
    active: Option<u32>,
    /// The process that the active queue would idle for.
    active_context: Option<u32>,
    /// Requests sent in this slice.
    slice_requests: u32,
    /// When the idle wait ends.
    idle_timer: Option<u64>,
    in_driver: u32,
    device_queues: bool,
    last_end: u64,
    contexts: IdMap<u32>,
    context_list: Vec<Context>,
    /// The queue of each request that was sent.
    owner: IdMap<u32>,
}

impl Cfq18 {
    /// `hz`: ticks a second.
    #[must_use]
    pub fn new(hz: u32, tunables: Cfq18Tunables) -> Self {
        Self {
            requests: SortedQueues::new(0),
            flushes: VecDeque::new(),
            clock: Clock::new(hz),
            tunables,
            queues: Vec::new(),
            readers: IdMap::new(),
            writers: [None; PRIORITIES],
            levels: [const { VecDeque::new() }; LEVELS],
            current: VecDeque::new(),
            busy: VecDeque::new(),
            idle: VecDeque::new(),
            level: 0,
            last_level: 0,
            sent: VecDeque::new(),
            driver_position: 0,
            last_position: 0,
            active: None,
            active_context: None,
            slice_requests: 0,
            idle_timer: None,
            in_driver: 0,
            device_queues: false,
            last_end: 0,
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

    /// Time for a queue (`cfq_prio_to_slice`): a fifth more or less for each level.
    fn slice(&self, queue: &Queue) -> u64 {
        let ms =
            if queue.sync { self.tunables.slice_sync_ms } else { self.tunables.slice_async_ms };
        let base = self.clock.ticks(ms.into()) as i64;
        (base + base / 5 * (4 - queue.level as i64)).max(0) as u64
    }

    /// Requests in a slice of writes (`cfq_prio_to_maxrq`).
    fn slice_requests_max(&self, queue: &Queue) -> u32 {
        let base = self.tunables.slice_async_rq;
        base.saturating_add(base.saturating_mul((LEVELS - 1 - queue.level) as u32))
            .saturating_mul(2)
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
            last_position: 0,
            think: ThinkTime::default(),
            seek: SeekDistance::default(),
        });
        at
    }

    /// The queue that a request belongs to, if there is one already.
    fn find_queue(&self, request: &IoRequest) -> Option<u32> {
        if request.is_read() {
            self.readers.get(reader_key(request))
        } else {
            self.writers[request.priority()]
        }
    }

    /// `cfq_get_queue`.
    fn queue(&mut self, request: &IoRequest) -> u32 {
        if let Some(queue) = self.find_queue(request) {
            return queue;
        }
        let queue = self.requests.add_queue();
        let idle = request.class == PriorityClass::Idle;
        self.queues.push(Queue {
            class: request.class,
            level: if idle { LOWEST_LEVEL } else { request.level.into() },
            sync: request.is_read(),
            next: None,
            list: None,
            last_served: 0,
            slice_end: 0,
            slice_left: 2 * self.slice_idle(),
            in_device: 0,
            idling: false,
            must_dispatch: false,
            fifo_checked: false,
            idle_window: !idle,
        });
        if request.is_read() {
            self.readers.insert(reader_key(request), queue);
        } else {
            self.writers[request.priority()] = Some(queue);
        }
        queue
    }
}

const fn reader_key(request: &IoRequest) -> u64 {
    request.process.0 as u64 * PRIORITIES as u64 + request.priority() as u64
}

impl Elevator for Cfq18 {
    fn name(&self) -> &'static str {
        "cfq"
    }

    /// To the end of any request of the same direction, to the front of one in the bio's own queue
    /// (`cfq_merge`).
    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let front = self.find_queue(bio);
        let reach = self.reach();
        let Self { requests, queues, last_position, .. } = self;
        let mut moved = None;
        let merge = requests.merge(
            bio,
            Rules { max_bytes, front, same_class: false },
            |_| true,
            |requests, handle, leaving| {
                let queue = &mut queues[requests.entry(handle).queue as usize];
                if queue.next == Some(handle) {
                    queue.next = requests.next_for_head(handle, *last_position, reach);
                }
                moved = (leaving == Leaving::Moves).then_some(handle);
            },
        );
        if let Some(handle) = moved {
            let queue = &mut queues[requests.entry(handle).queue as usize];
            queue.next = requests.better(queue.next, Some(handle), *last_position, reach);
        }
        merge
    }

    /// `cfq_insert_request`, `cfq_crq_enqueued`.
    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        let at = self.queue(&request);
        let context = self.context(request.process, now);
        let handle = self.requests.insert(at, request, now);
        if self.queues[at as usize].list.is_none() {
            self.enter_list(at, false);
        }
        let next = self.queues[at as usize].next;
        self.queues[at as usize].next =
            self.requests.better(next, Some(handle), self.last_position, self.reach());
        if !request.is_read() {
            // A process that writes is not about to read: its turn ends (`cfq_crq_enqueued`).
            let idling =
                self.active_context == Some(context as u32) && self.idle_timer.take().is_some();
            if let Some(active) = self.active.filter(|_| idling) {
                self.expire(active, false, now);
            }
            return;
        }
        self.update_history(at, context, &request, now);
        if self.active == Some(at) {
            let queue = &mut self.queues[at as usize];
            if queue.idling {
                queue.must_dispatch = true;
                self.idle_timer = None;
            }
        } else if self.should_preempt(at) {
            self.preempt(at, now);
        }
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        if self.sent.is_empty() && self.requests.len() > 0 {
            self.fill(now);
        }
        if let Some(request) = self.sent.pop_front() {
            self.driver_position = request.end();
            self.in_driver += 1;
            self.device_queues |= self.in_driver > QUEUEING_DEPTH;
            return Dispatch::Request(request);
        }
        if self.requests.len() == 0 {
            return Dispatch::Empty;
        }
        match self.idle_timer {
            Some(expires) => Dispatch::Hold(self.clock.at(expires)),
            None if self.active.is_none() => Dispatch::Hold(self.clock.at(self.idle_class_from())),
            None => Dispatch::Wait,
        }
    }

    /// `cfq_completed_request`.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        let Some(at) = self.owner.remove(request.id) else { return };
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        self.in_driver = self.in_driver.saturating_sub(1);
        let queue = &mut self.queues[at as usize];
        queue.in_device = queue.in_device.saturating_sub(1);
        if queue.class != PriorityClass::Idle {
            self.last_end = now;
        }
        if queue.in_device == 0 && queue.list.is_some() {
            queue.last_served = now;
            self.enter_list(at, false);
        }
        if request.is_read() {
            let context = self.context(request.process, now);
            self.context_list[context].last_end = now;
        }
        if self.active == Some(at) {
            if now > self.queues[at as usize].slice_end {
                self.expire(at, false, now);
            } else if request.is_read() && self.requests.queue_is_empty(at) {
                self.start_idling(at, now);
            }
        }
    }

    fn process_exited(&mut self, now: Nanos, process: ProcessId) {
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        let context = self.context(process, now);
        self.context_list[context].exited = true;
        // `cfq_exit_single_io_context`: the turn ends with the process.
        let gone = self.active_context == Some(context as u32);
        if let Some(active) =
            self.active.filter(|&active| gone && self.queues[active as usize].sync)
        {
            self.expire(active, false, now);
        }
    }

    fn len(&self) -> usize {
        self.requests.len() + self.sent.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.tunables.set(name, value)
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        self.tunables.list()
    }
}
