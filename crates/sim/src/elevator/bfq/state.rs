//! The queues, and what the elevator knows of them and of the device.

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use super::peak_rate::PeakRate;
use super::raised::{Burst, Raise};
use super::tree::{Entity, ServiceTree};
use crate::elevator::history::ThinkTime;
use crate::elevator::id_map::IdMap;
use crate::elevator::jiffies::Clock;
use crate::elevator::pool::Handle;
use crate::elevator::sorted::{Reach, SortedQueues};
use crate::elevator::tunable::tunables;
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

/// Greatest budget before the device's rate is known, sectors (`bfq_default_max_budget`).
pub(super) const DEFAULT_MAX_BUDGET: i64 = 16 * 1024;
pub(super) const CLASSES: usize = 3;
pub(super) const SECTOR: u64 = 512;
const KIB: u64 = 1024;
pub(super) const MS: u64 = 1_000_000;
/// Weight of a process that was given no level. Only such a process is ever raised.
pub(super) const NORMAL_WEIGHT: u64 = weight_of(NORMAL_LEVEL);

/// Weight of a level, 10 to 80 (`bfq_ioprio_to_weight`).
pub(super) const fn weight_of(level: u8) -> u64 {
    (LEVELS - level) as u64 * 10
}

/// The requests of a process, or the asynchronous ones of a priority (`struct bfq_queue`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) class: usize,
    /// Class and level ([`IoRequest::priority`]).
    pub(super) priority: usize,
    pub(super) sync: bool,
    pub(super) next: Option<Handle>,
    pub(super) entity: Entity,
    /// It has requests (or is kept although it has none) and waits for service or is served.
    pub(super) busy: bool,
    /// Requests that wait, requests in the device.
    pub(super) waiting: u32,
    pub(super) in_device: u32,
    /// Budget for the next turn, sectors.
    pub(super) max_budget: i64,
    /// When the budget's time is up; when the queue ran empty, if it is (jiffies).
    pub(super) budget_timeout: u64,
    /// The device idles for it.
    pub(super) idling: bool,
    /// It ran empty before its budget was used up: if it comes back at once, it goes on with the
    /// rest.
    pub(super) expects_more: bool,
    /// Its oldest request has been looked at in this turn.
    pub(super) fifo_checked: bool,
    /// It comes back within half of `slice_idle`.
    pub(super) thinks_briefly: bool,
    /// It is busy for four fifths of the time.
    pub(super) io_bound: bool,
    pub(super) just_created: bool,
    /// It was created together with many others.
    pub(super) in_large_burst: bool,
    /// Times in ns.
    pub(super) think: ThinkTime,
    /// When the last request completed; 0: none has.
    pub(super) last_end: u64,
    pub(super) io_start: u64,
    pub(super) idle_time: u64,
    /// A bit for each of the last 32 requests: far from the one before.
    pub(super) seeks: u32,
    pub(super) last_position: u64,
    pub(super) raise: Raise,
    pub(super) waker: Waker,
    /// The weight under which it is counted for the question whether weights differ.
    pub(super) counted_weight: Option<u64>,
    /// Its process is gone.
    pub(super) exited: bool,
    pub(super) process: ProcessId,
}

/// The queue whose completions wake a queue's process. It is served while the device idles for the
/// other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waker {
    /// The queue, once it is known (`waker_bfqq`), and when that was found out, as a count of such
    /// events.
    pub(super) known: Option<u32>,
    pub(super) found: u64,
    /// The queue that may be one, how often in a row it was seen to, and since when, ns.
    pub(super) tentative: Option<u32>,
    pub(super) detections: u32,
    pub(super) since: u64,
}

impl Queue {
    /// `BFQQ_SEEKY`.
    pub(super) const fn seeks_mostly(&self) -> bool {
        self.seeks.count_ones() > 19
    }

    pub(super) const fn budget_left(&self) -> i64 {
        self.entity.budget - self.entity.service
    }
}

/// The BFQ elevator.
#[derive(Clone, Debug)]
pub struct Bfq {
    pub(super) requests: SortedQueues,
    pub(super) flushes: VecDeque<IoRequest>,
    pub(super) clock: Clock,
    pub(super) tunables: BfqTunables,
    pub(super) rotational: bool,
    /// Whether the kernel has `CONFIG_BFQ_GROUP_IOSCHED`: only then are the slots shared out by
    /// weight.
    pub(super) groups: bool,
    pub(super) queues: Vec<Queue>,
    /// Synchronous queues by process and class.
    pub(super) of_process: IdMap<u32>,
    /// Asynchronous queues by priority (`bfq_async_queue_prio`).
    pub(super) of_priority: [Option<u32>; PRIORITIES],
    pub(super) trees: [ServiceTree; CLASSES],
    /// The queue that is served.
    pub(super) in_service: Option<u32>,
    /// The same, as the trees see it: none as soon as it is back in one of them.
    pub(super) entity_in_service: Option<u32>,
    pub(super) next_in_service: Option<u32>,
    pub(super) idle_class_served: u64,
    pub(super) busy: [u32; CLASSES],
    /// Busy queues whose weight is raised.
    pub(super) raised_busy: u32,
    /// Weights of the queues that are busy or in the device and not raised, and how many have
    /// each.
    pub(super) weights: Vec<(u64, u32)>,
    pub(super) in_driver: u32,
    /// The queue whose request completed last, and how many wakers have been found.
    pub(super) last_completed: Option<u32>,
    pub(super) wakers_found: u64,
    /// When idling ends.
    pub(super) idle_timer: Option<u64>,
    pub(super) idle_start: u64,
    pub(super) budget_start: u64,
    /// Greatest budget, sectors.
    pub(super) max_budget: i64,
    /// How many budgets have been given, as a decaying count: the estimates are believed from 194
    /// on.
    pub(super) budgets_assigned: u64,
    pub(super) rate: PeakRate,
    pub(super) burst: Burst,
    /// Whether the device takes several requests at once; unknown at first.
    pub(super) device_queues: Option<bool>,
    pub(super) depth_samples: u32,
    pub(super) depth_peak: u32,
    /// The queue of each request in the device.
    pub(super) owner: IdMap<u32>,
}

/// Why a queue's turn ends (`enum bfqq_expiration`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    TooIdle,
    BudgetTimeout,
    BudgetExhausted,
    NoMoreRequests,
    Preempted,
}

/// The present moment in both of the kernel's clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) ns: u64,
    pub(super) jiffies: u64,
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
            max_budget: DEFAULT_MAX_BUDGET,
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

    pub(super) const fn now(&self, now: Nanos) -> Now {
        Now { ns: now.0, jiffies: self.clock.jiffies(now) }
    }

    pub(super) fn reach(&self) -> Reach {
        let back_max = u64::from(self.tunables.back_seek_max_kib) * KIB;
        Reach { back_max, penalty: self.tunables.back_seek_penalty.into() }
    }

    pub(super) fn slice_idle_ns(&self) -> u64 {
        u64::from(self.tunables.slice_idle_us) * 1000
    }

    pub(super) fn low_latency(&self) -> bool {
        self.tunables.low_latency == 1
    }

    pub(super) fn busy_queues(&self) -> u32 {
        self.busy.iter().sum()
    }

    pub(super) fn find_queue(&self, request: &IoRequest) -> Option<u32> {
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
    pub(super) fn queue(&mut self, request: &IoRequest, now: Now) -> u32 {
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
            raise: Raise::new(now.jiffies),
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
pub(super) const fn is_sync(request: &IoRequest) -> bool {
    request.is_read() || request.flags.sync || matches!(request.op, Op::Write { fua: true })
}

/// A process whose class changes has a new queue here. The kernel's queue moves to another tree.
pub(super) const fn process_key(request: &IoRequest) -> u64 {
    request.process.0 as u64 * CLASSES as u64 + request.class as u64
}

const fn weight(request: &IoRequest) -> u64 {
    weight_of(if matches!(request.class, PriorityClass::Idle) { LEVELS - 1 } else { request.level })
}

/// Which of two requests comes first (`bfq_choose_req`): metadata, then what suits the head.
pub(super) fn better(
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
