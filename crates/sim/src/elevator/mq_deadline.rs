//! mq-deadline: deadline for each I/O priority class (`block/mq-deadline.c`, 6.18).
//!
//! ```text
//! insert ─▶ class (real-time, best-effort, idle) ─▶ by sector and by age, reads and writes apart
//! dispatch: has a lower class waited prio_aging_expire? that
//!           : the highest class that has anything waiting or in the device
//!           within a class as deadline: batches, writes_starved, the oldest if expired
//! ```
//!
//! Unlike deadline it remembers a position instead of a request (`latest_pos`, since 6.5): what
//! arrives at or behind the last request's start joins the batch. `batching`, `starved` and the
//! direction are shared by all classes. A class counts as busy while its requests are in the
//! device, so a lower one waits for them too (`dd_queued`). Levels within a class only keep
//! requests from being merged (`blk_rq_merge_ok`).
//!
//! `async_depth` limits everything but synchronous reads when request slots are given out. The
//! queue's depth sets it (`dd_depth_updated`): to three quarters of `nr_requests` up to 6.8, to all
//! of them from 6.12 on (the change lies between these two). A value written to it before is lost
//! then.

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use super::jiffies::Clock;
use super::pool::Handle;
use super::sorted::{READ, Rules, SortedQueues, WRITE, direction_of};
use super::tunable::tunables;
use super::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, PriorityClass};

tunables! {
    /// `queue/iosched/` of mq-deadline.
    pub struct MqDeadlineTunables of "mq-deadline" {
        /// How long a read may wait before batches start with it, ms.
        read_expire_ms: u32 = "read_expire" in [0, i32::MAX];
        /// How long a write may wait, ms.
        write_expire_ms: u32 = "write_expire" in [0, i32::MAX];
        /// How often reads may be preferred before writes have their turn.
        writes_starved: i32 = "writes_starved" in [i32::MIN, i32::MAX];
        /// 1: bios may be merged to the front of a request.
        front_merges: u32 = "front_merges" in [0, 1];
        /// Request slots for everything but synchronous reads.
        async_depth: u32 = "async_depth" in [1, i32::MAX];
        /// Requests in a batch.
        fifo_batch: u32 = "fifo_batch" in [0, i32::MAX];
        /// How long a request of a lower class waits before it goes first, ms.
        prio_aging_expire_ms: u32 = "prio_aging_expire" in [0, i32::MAX];
    }
}

impl Default for MqDeadlineTunables {
    fn default() -> Self {
        Self {
            read_expire_ms: 500,
            write_expire_ms: 5000,
            writes_starved: 2,
            front_merges: 1,
            // No limit until the queue says how many requests it has.
            async_depth: i32::MAX.cast_unsigned(),
            fifo_batch: 16,
            prio_aging_expire_ms: 10_000,
        }
    }
}

const CLASSES: usize = 3;

/// The mq-deadline elevator.
#[derive(Clone, Debug)]
pub struct MqDeadline {
    /// Queue `2 * class + direction`.
    queues: SortedQueues,
    flushes: VecDeque<IoRequest>,
    clock: Clock,
    tunables: MqDeadlineTunables,
    /// Whether a quarter of the slots is kept for synchronous reads.
    reserves: bool,
    /// Start of the last request dispatched, bytes, by class and direction.
    latest: [[u64; 2]; CLASSES],
    in_device: [u32; CLASSES],
    last_direction: usize,
    batching: u32,
    starved: i32,
}

impl MqDeadline {
    /// `release`: the kernel's (major, minor). `hz`: ticks a second.
    #[must_use]
    pub fn new(release: (u16, u16), hz: u32, tunables: MqDeadlineTunables) -> Self {
        Self {
            queues: SortedQueues::new(2 * CLASSES as u32),
            flushes: VecDeque::new(),
            clock: Clock::new(hz),
            tunables,
            reserves: release < (6, 11),
            latest: [[0; 2]; CLASSES],
            in_device: [0; CLASSES],
            last_direction: WRITE,
            batching: 0,
            starved: 0,
        }
    }

    fn waiting(&self, class: usize, direction: usize) -> bool {
        !self.queues.queue_is_empty(queue(class, direction))
    }

    /// Whether a class has anything waiting or in the device (`dd_queued`).
    fn busy(&self, class: usize) -> bool {
        self.in_device[class] > 0 || self.waiting(class, READ) || self.waiting(class, WRITE)
    }

    fn expire(&self, direction: usize) -> u64 {
        let ms = if direction == READ {
            self.tunables.read_expire_ms
        } else {
            self.tunables.write_expire_ms
        };
        self.clock.ticks(ms.into())
    }

    /// `dd_dispatch_request`.
    fn choose(&mut self, now: Nanos) -> Option<Handle> {
        let now = self.clock.jiffies(now);
        if (0..CLASSES).filter(|&class| self.busy(class)).count() > 1 {
            let latest_start =
                now.saturating_sub(self.clock.ticks(self.tunables.prio_aging_expire_ms.into()));
            for class in 1..CLASSES {
                if let Some(aged) = self.choose_in(class, latest_start, now) {
                    return Some(aged);
                }
            }
        }
        for class in 0..CLASSES {
            let chosen = self.choose_in(class, now, now);
            if chosen.is_some() || self.busy(class) {
                return chosen;
            }
        }
        None
    }

    /// The best request of a class that came no later than `latest_start`
    /// (`__dd_dispatch_request`), jiffies.
    fn choose_in(&mut self, class: usize, latest_start: u64, now: u64) -> Option<Handle> {
        let next = self.next(class, self.last_direction);
        let in_batch = next.filter(|_| self.batching < self.tunables.fifo_batch);
        let chosen = match in_batch {
            Some(next) => next,
            None => {
                let direction = self.direction(class)?;
                let expired = self.oldest_expired(class, direction, now);
                let start = expired.or_else(|| self.next(class, direction));
                let start = start.or_else(|| self.queues.oldest(queue(class, direction)))?;
                self.last_direction = direction;
                self.batching = 0;
                start
            }
        };
        let entry = self.queues.entry(chosen);
        let came = entry.stamp.saturating_sub(self.expire(direction_of(&entry.request)));
        (came <= latest_start).then_some(chosen)
    }

    /// The first request at or behind the last position (`deadline_from_pos`).
    fn next(&self, class: usize, direction: usize) -> Option<Handle> {
        self.queues.first_from(queue(class, direction), self.latest[class][direction])
    }

    fn direction(&mut self, class: usize) -> Option<usize> {
        let (reads, writes) = (self.waiting(class, READ), self.waiting(class, WRITE));
        if reads {
            if !writes {
                return Some(READ);
            }
            let passed_over = self.starved;
            self.starved = self.starved.saturating_add(1);
            if passed_over < self.tunables.writes_starved {
                return Some(READ);
            }
        }
        if writes {
            self.starved = 0;
            return Some(WRITE);
        }
        None
    }

    fn oldest_expired(&self, class: usize, direction: usize, now: u64) -> Option<Handle> {
        let oldest = self.queues.oldest(queue(class, direction))?;
        (now >= self.queues.entry(oldest).stamp).then_some(oldest)
    }

    fn send(&mut self, handle: Handle) -> IoRequest {
        self.batching = self.batching.saturating_add(1);
        let request = self.queues.remove(handle);
        let class = class_of(&request);
        self.latest[class][direction_of(&request)] = request.offset;
        self.in_device[class] += 1;
        request
    }
}

const fn queue(class: usize, direction: usize) -> u32 {
    (2 * class + direction) as u32
}

const fn class_of(request: &IoRequest) -> usize {
    match request.class {
        PriorityClass::RealTime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

impl Elevator for MqDeadline {
    fn name(&self) -> &'static str {
        "mq-deadline"
    }

    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let front = queue(class_of(bio), direction_of(bio));
        let front = (self.tunables.front_merges == 1).then_some(front);
        self.queues.merge(bio, Rules { max_bytes, front, same_class: true }, |_| true, |_, _, _| {})
    }

    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let direction = direction_of(&request);
        let deadline = self.clock.jiffies(now) + self.expire(direction);
        self.queues.insert(queue(class_of(&request), direction), request, deadline);
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        if self.queues.len() == 0 {
            return Dispatch::Empty;
        }
        match self.choose(now) {
            Some(handle) => Dispatch::Request(self.send(handle)),
            None => Dispatch::Wait,
        }
    }

    fn completed(&mut self, _now: Nanos, request: &IoRequest) {
        if request.op != Op::Flush {
            let in_device = &mut self.in_device[class_of(request)];
            *in_device = in_device.saturating_sub(1);
        }
    }

    /// `dd_depth_updated`.
    fn depth_updated(&mut self, nr_requests: u32) {
        self.tunables.async_depth =
            if self.reserves { (3 * nr_requests / 4).max(1) } else { nr_requests };
    }

    /// `dd_limit_depth`.
    fn depth_limit(&self, request: &IoRequest, nr_requests: u32) -> u32 {
        if request.is_read() { nr_requests } else { self.tunables.async_depth.min(nr_requests) }
    }

    fn len(&self) -> usize {
        self.queues.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.tunables.set(name, value)
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        self.tunables.list()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{classed, dispatched, drain, read, write};
    use super::*;

    fn mq_deadline() -> MqDeadline {
        MqDeadline::new((6, 18), 250, MqDeadlineTunables::default())
    }

    #[test]
    fn what_comes_behind_the_position_joins_the_batch() {
        let mut elevator = mq_deadline();
        elevator.insert(Nanos::ZERO, write(1, 100, 1));
        assert_eq!(dispatched(&mut elevator, Nanos::ZERO), Some(1));
        elevator.insert(Nanos::ZERO, write(2, 50, 1));
        elevator.insert(Nanos::ZERO, write(3, 200, 1));
        // deadline of 3.2 had no next request any more and would take the oldest, 2.
        assert_eq!(drain(&mut elevator), [3, 2]);
    }

    #[test]
    fn a_lower_class_waits_for_a_higher_one_even_in_the_device() {
        let mut elevator = mq_deadline();
        let high = classed(PriorityClass::RealTime, read(1, 10, 1));
        elevator.insert(Nanos::ZERO, high);
        elevator.insert(Nanos::ZERO, read(2, 20, 1));
        elevator.insert(Nanos::ZERO, classed(PriorityClass::Idle, read(3, 30, 1)));
        assert_eq!(elevator.dispatch(Nanos::ZERO, 0), Dispatch::Request(high));
        assert_eq!(elevator.dispatch(Nanos::ZERO, 1), Dispatch::Wait);
        elevator.completed(Nanos::from_millis(1), &high);
        assert_eq!(dispatched(&mut elevator, Nanos::from_millis(1)), Some(2));
        assert_eq!(elevator.dispatch(Nanos::from_millis(1), 1), Dispatch::Wait);
    }

    #[test]
    fn an_idle_request_goes_first_after_ten_seconds() {
        let mut elevator = mq_deadline();
        elevator.insert(Nanos::ZERO, classed(PriorityClass::Idle, read(1, 10, 1)));
        let mut served = None;
        for (id, ms) in (2..).zip((0..11_000).step_by(4)) {
            let now = Nanos::from_millis(ms);
            elevator.insert(now, read(id, 1000 + id, 1));
            let Dispatch::Request(request) = elevator.dispatch(now, 0) else { panic!() };
            if request.id == 1 {
                served = Some(ms);
                break;
            }
            elevator.completed(now, &request);
        }
        assert_eq!(served, Some(10_000));
    }

    #[test]
    fn async_depth_by_release() {
        let depth = |release, request| {
            let mut elevator = MqDeadline::new(release, 250, MqDeadlineTunables::default());
            elevator.depth_updated(256);
            elevator.depth_limit(&request, 256)
        };
        assert_eq!(depth((6, 18), write(1, 0, 1)), 256);
        assert_eq!(depth((6, 8), write(1, 0, 1)), 192);
        assert_eq!(depth((6, 8), read(1, 0, 1)), 256);
        let mut elevator = mq_deadline();
        elevator.set("async_depth", "64").unwrap();
        assert_eq!(elevator.depth_limit(&write(1, 0, 1), 256), 64);
        elevator.depth_updated(128);
        assert_eq!(elevator.depth_limit(&write(1, 0, 1), 128), 128, "a new depth resets it");
    }
}
