//! BFQ: each process has a budget of sectors, and weights decide which process spends its budget
//! next (`block/bfq-iosched.c`, `block/bfq-wf2q.c`, 6.x).
//!
//! ```text
//! insert ─▶ synchronous: the process's queue
//!           asynchronous: one queue for each priority class and level
//!           queue was idle? new budget, weight raised? ─▶ into the tree of its class;
//!           push aside who is served?
//! select:   the eligible queue (start <= virtual time) with the earliest finish;
//!           served until its budget, its time (timeout_sync) or its requests are used up
//! charge:   sectors; asynchronous ones count three times;
//!           a slow queue is charged for its time instead
//! idle:     an empty synchronous queue keeps the device for slice_idle
//!           if that helps throughput or if its share would suffer;
//!           meanwhile those are served whose completions wake its process
//! ```
//!
//! | file | part |
//! |---|---|
//! | `turns` | a request comes in, a queue is chosen, a request goes out |
//! | `service` | B-WF2Q+: virtual times, trees of active and idle queues |
//! | `budget` | budgets, charging, expiration, the device's peak rate |
//! | `idle` | what is remembered of a queue, whether and how long to idle, injection |
//! | `raise` | weight raising of interactive and soft real-time queues, bursts |
//!
//! Units: service and budgets in sectors of 512 bytes, virtual time in sectors `<< 22` by weight.
//! Times are in jiffies where the kernel uses them and in nanoseconds elsewhere. Rates are in
//! sectors per µs `<< 16`.
//!
//! Levels are weights ([`weight_of`]). With `CONFIG_BFQ_GROUP_IOSCHED` weights also share out the
//! request slots (`bfqq_request_over_limit`). A kernel without it enforces no share: a flood's
//! asynchronous writes may fill all their slots. Nothing else differs between the two if all
//! processes are in one control group.
//!
//! Left out: control groups, several actuators, merging of cooperating queues (close and stable),
//! and adaptation of the injection limit. That limit keeps the kernel's start value: 0 for a queue
//! that thinks briefly and 1 for others. The kernel shares a device out by `io.bfq.weight` first,
//! and by level within a group. `settings::check_groups` refuses levels beside groups.

mod budget;
mod idle;
mod raise;
mod service;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use self::budget::PeakRate;
use self::raise::Burst;
use self::service::{Entity, ServiceTree};
use super::history::ThinkTime;
use super::id_map::IdMap;
use super::jiffies::Clock;
use super::pool::Handle;
use super::sorted::{Leaving, Reach, Rules, SortedQueues};
use super::tunable::{bare_name, parse, tunables, unknown};
use super::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, LEVELS, NORMAL_LEVEL, PRIORITIES, PriorityClass, ProcessId};

tunables! {
    /// `queue/iosched/` of BFQ. `slice_idle` (ms) and `slice_idle_us` are one tunable.
    pub struct BfqTunables of "bfq" {
        /// How long a synchronous request may wait before its queue's turn starts with it, ms.
        fifo_expire_sync_ms: u32 = "fifo_expire_sync" in [1, i32::MAX];
        /// How long an asynchronous request may wait, ms.
        fifo_expire_async_ms: u32 = "fifo_expire_async" in [1, i32::MAX];
        /// How far the head goes back for a request, KiB.
        back_seek_max_kib: u32 = "back_seek_max" in [0, i32::MAX];
        /// The cost of seeking backwards, relative to forwards.
        back_seek_penalty: u32 = "back_seek_penalty" in [1, i32::MAX];
        /// How long an empty queue keeps the device, µs; 0: not at all.
        slice_idle_us: u32 = "slice_idle_us" in [0, u32::MAX];
        /// Greatest budget, sectors; 0: as much as the device can do in `timeout_sync`.
        max_budget_sectors: u32 = "max_budget" in [0, i32::MAX];
        /// How long a queue may take for its budget, ms.
        timeout_sync_ms: u32 = "timeout_sync" in [1, i32::MAX];
        /// 1: one request at a time, and idle for every queue.
        strict_guarantees: u32 = "strict_guarantees" in [0, 1];
        /// 1: weight raising.
        low_latency: u32 = "low_latency" in [0, 1];
    }
}

impl BfqTunables {
    /// The defaults; `timeout_sync` is an eighth of a second in ticks.
    #[must_use]
    pub const fn new(hz: u32) -> Self {
        let clock = Clock::new(hz);
        Self {
            fifo_expire_sync_ms: 125,
            fifo_expire_async_ms: 250,
            back_seek_max_kib: 16 * 1024,
            back_seek_penalty: 2,
            slice_idle_us: 8000,
            max_budget_sectors: 0,
            timeout_sync_ms: clock.to_ms(clock.hz() / 8) as u32,
            strict_guarantees: 0,
            low_latency: 1,
        }
    }
}

const CLASSES: usize = 3;
const SECTOR: u64 = 512;
const KIB: u64 = 1024;
const MS: u64 = 1_000_000;
/// Weight of a process that was given no level. Only such a process is ever raised.
const NORMAL_WEIGHT: u64 = weight_of(NORMAL_LEVEL);

/// Weight of a level, 10 to 80 (`bfq_ioprio_to_weight`).
const fn weight_of(level: u8) -> u64 {
    (LEVELS - level) as u64 * 10
}

/// The requests of a process, or the asynchronous ones of a priority (`struct bfq_queue`).
#[derive(Clone, Copy, Debug)]
struct Queue {
    class: usize,
    /// Class and level ([`IoRequest::priority`]).
    priority: usize,
    sync: bool,
    next: Option<Handle>,
    entity: Entity,
    /// It has requests (or is kept although it has none) and waits for service or is served.
    busy: bool,
    /// Requests that wait, requests in the device.
    waiting: u32,
    in_device: u32,
    /// Budget for the next turn, sectors.
    max_budget: i64,
    /// When the budget's time is up; when the queue ran empty, if it is (jiffies).
    budget_timeout: u64,
    /// The device idles for it.
    idling: bool,
    /// It ran empty before its budget was used up: if it comes back at once, it goes on with the
    /// rest.
    expects_more: bool,
    /// Its oldest request has been looked at in this turn.
    fifo_checked: bool,
    /// It comes back within half of `slice_idle`.
    thinks_briefly: bool,
    /// It is busy for four fifths of the time.
    io_bound: bool,
    just_created: bool,
    /// It was created together with many others.
    in_large_burst: bool,
    /// Times in ns.
    think: ThinkTime,
    /// When the last request completed; 0: none has.
    last_end: u64,
    io_start: u64,
    idle_time: u64,
    /// A bit for each of the last 32 requests: far from the one before.
    seeks: u32,
    last_position: u64,
    raise: raise::Raise,
    waker: Waker,
    /// The weight under which it is counted for the question whether weights differ.
    counted_weight: Option<u64>,
    /// Its process is gone.
    exited: bool,
    process: ProcessId,
}

/// The queue whose completions wake a queue's process. It is served while the device idles for the
/// other.
#[derive(Clone, Copy, Debug, Default)]
struct Waker {
    /// The queue, once it is known (`waker_bfqq`), and when that was found out, as a count of such
    /// events.
    known: Option<u32>,
    found: u64,
    /// The queue that may be one, how often in a row it was seen to, and since when, ns.
    tentative: Option<u32>,
    detections: u32,
    since: u64,
}

impl Queue {
    /// `BFQQ_SEEKY`.
    const fn seeks_mostly(&self) -> bool {
        self.seeks.count_ones() > 19
    }

    const fn budget_left(&self) -> i64 {
        self.entity.budget - self.entity.service
    }
}

/// The BFQ elevator.
#[derive(Clone, Debug)]
pub struct Bfq {
    requests: SortedQueues,
    flushes: VecDeque<IoRequest>,
    clock: Clock,
    tunables: BfqTunables,
    rotational: bool,
    /// Whether the kernel has `CONFIG_BFQ_GROUP_IOSCHED`: only then are the slots shared out by
    /// weight.
    groups: bool,
    queues: Vec<Queue>,
    /// Synchronous queues by process and class.
    of_process: IdMap<u32>,
    /// Asynchronous queues by priority (`bfq_async_queue_prio`).
    of_priority: [Option<u32>; PRIORITIES],
    trees: [ServiceTree; CLASSES],
    /// The queue that is served.
    in_service: Option<u32>,
    /// The same, as the trees see it: none as soon as it is back in one of them.
    entity_in_service: Option<u32>,
    next_in_service: Option<u32>,
    idle_class_served: u64,
    busy: [u32; CLASSES],
    /// Busy queues whose weight is raised.
    raised_busy: u32,
    /// Weights of the queues that are busy or in the device and not raised, and how many have
    /// each.
    weights: Vec<(u64, u32)>,
    in_driver: u32,
    /// The queue whose request completed last, and how many wakers have been found.
    last_completed: Option<u32>,
    wakers_found: u64,
    /// When idling ends.
    idle_timer: Option<u64>,
    idle_start: u64,
    budget_start: u64,
    /// Greatest budget, sectors.
    max_budget: i64,
    /// How many budgets have been given, as a decaying count: the estimates are believed from 194
    /// on.
    budgets_assigned: u64,
    rate: PeakRate,
    burst: Burst,
    /// Whether the device takes several requests at once; unknown at first.
    device_queues: Option<bool>,
    depth_samples: u32,
    depth_peak: u32,
    /// The queue of each request in the device.
    owner: IdMap<u32>,
}

/// Why a queue's turn ends (`enum bfqq_expiration`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    TooIdle,
    BudgetTimeout,
    BudgetExhausted,
    NoMoreRequests,
    Preempted,
}

/// The present moment in both of the kernel's clocks.
#[derive(Clone, Copy, Debug)]
struct Now {
    ns: u64,
    jiffies: u64,
}

impl Bfq {
    /// `hz`: ticks a second. `rotational`: as `queue/rotational` says. `groups`: with
    /// `CONFIG_BFQ_GROUP_IOSCHED`.
    #[must_use]
    pub fn new(hz: u32, rotational: bool, groups: bool, tunables: BfqTunables) -> Self {
        let clock = Clock::new(hz);
        let start = clock.jiffies(Nanos::ZERO);
        let mut made = Self {
            requests: SortedQueues::new(0),
            flushes: VecDeque::new(),
            clock,
            tunables,
            rotational,
            groups,
            queues: Vec::new(),
            of_process: IdMap::new(),
            of_priority: [None; PRIORITIES],
            trees: [const { ServiceTree::new() }; CLASSES],
            in_service: None,
            entity_in_service: None,
            next_in_service: None,
            idle_class_served: start,
            busy: [0; CLASSES],
            raised_busy: 0,
            weights: Vec::new(),
            in_driver: 0,
            last_completed: None,
            wakers_found: 0,
            idle_timer: None,
            idle_start: 0,
            budget_start: 0,
            max_budget: budget::DEFAULT_MAX_BUDGET,
            budgets_assigned: 0,
            rate: PeakRate::new(rotational),
            burst: Burst::default(),
            device_queues: None,
            depth_samples: 0,
            depth_peak: 0,
            owner: IdMap::new(),
        };
        if tunables.max_budget_sectors > 0 {
            made.max_budget = tunables.max_budget_sectors.into();
        }
        made
    }

    const fn now(&self, now: Nanos) -> Now {
        Now { ns: now.0, jiffies: self.clock.jiffies(now) }
    }

    fn reach(&self) -> Reach {
        let back_max = u64::from(self.tunables.back_seek_max_kib) * KIB;
        Reach { back_max, penalty: self.tunables.back_seek_penalty.into() }
    }

    fn slice_idle_ns(&self) -> u64 {
        u64::from(self.tunables.slice_idle_us) * 1000
    }

    fn low_latency(&self) -> bool {
        self.tunables.low_latency == 1
    }

    fn busy_queues(&self) -> u32 {
        self.busy.iter().sum()
    }

    fn find_queue(&self, request: &IoRequest) -> Option<u32> {
        if is_sync(request) {
            self.of_process.get(process_key(request))
        } else {
            self.of_priority[request.priority()]
        }
    }

    /// A process has been given another level since its last request (`bfq_check_ioprio_change`,
    /// `bfq_set_next_ioprio_data`). The weight counts once the queue next enters a tree.
    fn check_level(&mut self, at: u32, request: &IoRequest) {
        let queue = &mut self.queues[at as usize];
        if queue.priority != request.priority() {
            queue.priority = request.priority();
            queue.entity.own_weight = weight(request);
            queue.entity.weight_changed = true;
        }
    }

    /// The queue of a request (`bfq_init_rq`, `bfq_get_queue`, `bfq_init_bfqq`).
    fn queue(&mut self, request: &IoRequest, now: Now) -> u32 {
        if let Some(at) = self.find_queue(request) {
            self.check_level(at, request);
            return at;
        }
        let sync = is_sync(request);
        let at = self.requests.add_queue();
        let idle = request.class == PriorityClass::Idle;
        let weight = weight(request);
        self.queues.push(Queue {
            class: request.class as usize,
            priority: request.priority(),
            sync,
            next: None,
            entity: Entity::new(weight),
            busy: false,
            waiting: 0,
            in_device: 0,
            max_budget: 2 * self.budget_bound() / 3,
            budget_timeout: 0,
            idling: false,
            expects_more: false,
            fifo_checked: false,
            thinks_briefly: sync && !idle,
            io_bound: true,
            just_created: sync,
            in_large_burst: false,
            think: ThinkTime::default(),
            last_end: 0,
            io_start: now.ns,
            idle_time: 0,
            seeks: 1,
            last_position: 0,
            raise: raise::Raise::new(now.jiffies),
            waker: Waker::default(),
            counted_weight: None,
            exited: false,
            process: request.process,
        });
        if sync {
            self.of_process.insert(process_key(request), at);
        } else {
            self.of_priority[request.priority()] = Some(at);
        }
        at
    }
}

/// Whether a process waits for it (`op_is_sync`).
const fn is_sync(request: &IoRequest) -> bool {
    request.is_read() || request.flags.sync || matches!(request.op, Op::Write { fua: true })
}

/// A process whose class changes has a new queue here. The kernel's queue moves to another tree.
const fn process_key(request: &IoRequest) -> u64 {
    request.process.0 as u64 * CLASSES as u64 + request.class as u64
}

const fn weight(request: &IoRequest) -> u64 {
    weight_of(if matches!(request.class, PriorityClass::Idle) { LEVELS - 1 } else { request.level })
}

/// Which of two requests comes first (`bfq_choose_req`): metadata, then what suits the head.
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

impl Elevator for Bfq {
    fn name(&self) -> &'static str {
        "bfq"
    }

    /// Only within the bio's own queue (`bfq_allow_bio_merge`).
    fn merge(&mut self, now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let own = self.find_queue(bio)?;
        let (now, reach) = (self.now(now), self.reach());
        let before = self.queues[own as usize].next;
        let Self { requests, queues, rate, .. } = self;
        let queue = &mut queues[own as usize];
        let mut moved = None;
        let merge = requests.merge(
            bio,
            Rules { max_bytes, front: Some(own), same_class: true },
            |entry| entry.queue == own,
            |requests, handle, leaving| {
                moved = (leaving == Leaving::Moves).then_some(handle);
                if leaving == Leaving::Absorbed {
                    queue.waiting -= 1;
                    if queue.next == Some(handle) {
                        queue.next = requests.previous(handle);
                    }
                }
            },
        );
        if let Some(handle) = moved {
            queue.next = better(requests, queue.next, Some(handle), rate.last_position, reach);
        }
        if self.queues[own as usize].next != before {
            self.next_changed(own, now);
        }
        merge
    }

    /// `bfq_insert_request`.
    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let now = self.now(now);
        self.run_timer(now);
        let at = self.queue(&request, now);
        if self.queues[at as usize].just_created && (self.burst.size > 0 || self.busy_queues() == 0)
        {
            self.watch_burst(at, now.jiffies);
        }
        self.update_history(at, &request, now);
        self.add(at, request, now);
        self.queues[at as usize].last_position = request.end() / SECTOR;
        if self.in_service == Some(at) && self.queues[at as usize].idling {
            self.stop_idling(at, &request, now);
        }
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        let now = self.now(now);
        self.run_timer(now);
        if self.requests.len() == 0 {
            return Dispatch::Empty;
        }
        if self.tunables.strict_guarantees == 1 && self.in_driver > 0 {
            return Dispatch::Wait;
        }
        let chosen = self.select(now).and_then(|at| Some((at, self.queues[at as usize].next?)));
        if let Some((at, handle)) = chosen {
            return Dispatch::Request(self.send(at, handle, now));
        }
        match self.idle_timer {
            Some(expires) => Dispatch::Hold(Nanos(expires)),
            None => Dispatch::Wait,
        }
    }

    /// `bfq_finish_requeue_request`, `bfq_completed_request`.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        let Some(at) = self.owner.remove(request.id) else { return };
        let now = self.now(now);
        self.run_timer(now);
        self.update_device_queues();
        self.in_driver = self.in_driver.saturating_sub(1);
        let queue = &mut self.queues[at as usize];
        queue.in_device = queue.in_device.saturating_sub(1);
        queue.last_end = now.ns;
        if queue.in_device == 0 && !queue.busy {
            queue.budget_timeout = now.jiffies;
            self.uncount_weight(at);
        }
        self.rate_on_completion(now.ns);
        self.last_completed = Some(at);
        self.note_end_of_batch(at, now.jiffies);
        if self.in_service != Some(at) {
            return;
        }
        if self.must_idle(at) {
            if self.queues[at as usize].in_device == 0 {
                self.start_idling(at, now);
            }
        } else if self.may_expire_for_time(at, now.jiffies) {
            self.expire(at, false, Reason::BudgetTimeout, now);
        } else if self.requests.queue_is_empty(at)
            && (self.queues[at as usize].in_device == 0 || !self.better_to_idle(at))
        {
            self.expire(at, false, Reason::NoMoreRequests, now);
        }
    }

    fn process_exited(&mut self, now: Nanos, process: ProcessId) {
        let now = self.now(now);
        self.run_timer(now);
        for at in 0..self.queues.len() as u32 {
            let queue = &mut self.queues[at as usize];
            if queue.sync && queue.process == process && !queue.exited {
                queue.exited = true;
                self.exit(at, now);
            }
        }
    }

    /// `bfq_limit_depth`, `bfq_update_depths`: shares for what is not a synchronous read, and one
    /// slot for a queue that has more than its weight's share (in a kernel with
    /// `CONFIG_BFQ_GROUP_IOSCHED`).
    fn depth_limit(&self, request: &IoRequest, nr_requests: u32) -> u32 {
        let raised = self.raised_busy > 0;
        let limit = match (request.is_read(), is_sync(request)) {
            (true, _) => nr_requests,
            (_, true) if raised => (nr_requests * 6 / 16).max(1),
            (_, true) => (nr_requests * 3 / 4).max(1),
            (_, false) if raised => (nr_requests * 3 / 16).max(1),
            (_, false) => (nr_requests / 2).max(1),
        };
        if self.groups && self.over_limit(request, limit) { 1 } else { limit }
    }

    fn len(&self) -> usize {
        self.requests.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        match bare_name(name) {
            "slice_idle" => {
                let ms = parse("bfq", "slice_idle", value, 0, i64::from(u32::MAX / 1000))?;
                self.tunables.slice_idle_us = ms as u32 * 1000;
                return Ok(());
            }
            bare if BfqTunables::NAMES.contains(&bare) => self.tunables.set(bare, value)?,
            bare => {
                let mut known = BfqTunables::NAMES.to_vec();
                known.push("slice_idle");
                return Err(unknown("bfq", bare, &known));
            }
        }
        self.tunable_was_set(bare_name(name));
        Ok(())
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        let mut list = self.tunables.list();
        list.push(("slice_idle", (self.tunables.slice_idle_us / 1000).to_string()));
        list
    }
}
