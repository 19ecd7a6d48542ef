//! deadline: requests by sector in batches of one direction, none of them late for ever
//! (`block/deadline-iosched.c`, 2.6.18 to 3.2).
//!
//! ```text
//! insert ─▶ by sector and by age, one pair of queues for reads, one for writes
//! dispatch: in a batch (fifo_batch)? the next sector
//!           else direction: reads, unless writes have been passed over writes_starved times
//!                start: expired? the oldest : a next one in this direction? that
//!                       : 2.6.18 the lowest sector, later the oldest
//! ```
//!
//! The variants differ in three things (`deadline_dispatch_requests`):
//!
//! * 2.6.18 ends a batch at a next request that does not touch the last one (`batching +=
//!   fifo_batch`); 2.6.32 batches whatever comes next in order.
//! * 2.6.18 starts over at the lowest sector, 2.6.32 at the oldest request.
//! * 2.6.18 clears `batching` only when it starts over; 2.6.32 whenever a direction was chosen.
//!
//! Directions are data directions: an fsync's writes stand among the flood's.

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use crate::elevator::jiffies::Clock;
use crate::elevator::pool::Handle;
use crate::elevator::sorted::{Leaving, READ, Rules, SortedQueues, WRITE, direction_of};
use crate::elevator::tunable::tunables;
use crate::elevator::{Dispatch, Elevator, Merge, TunableError};
use crate::request::IoRequest;

tunables! {
    /// `queue/iosched/` of deadline.
    pub struct DeadlineTunables of "deadline" {
        /// How long a read may wait before batches start with it, ms.
        read_expire_ms: u32 = "read_expire" in [0, i32::MAX];
        /// How long a write may wait, ms.
        write_expire_ms: u32 = "write_expire" in [0, i32::MAX];
        /// How often reads may be preferred before writes have their turn.
        writes_starved: i32 = "writes_starved" in [i32::MIN, i32::MAX];
        /// 1: bios may be merged to the front of a request.
        front_merges: u32 = "front_merges" in [0, 1];
        /// Requests in a batch.
        fifo_batch: u32 = "fifo_batch" in [0, i32::MAX];
    }
}

impl Default for DeadlineTunables {
    fn default() -> Self {
        Self {
            read_expire_ms: 500,
            write_expire_ms: 5000,
            writes_starved: 2,
            front_merges: 1,
            fifo_batch: 16,
        }
    }
}

/// The deadline elevator.
#[derive(Clone, Debug)]
pub struct Deadline {
    queues: SortedQueues,
    flushes: VecDeque<IoRequest>,
    clock: Clock,
    tunables: DeadlineTunables,
    /// Behaves as in 2.6.18.
    old: bool,
    /// The next request by sector in each direction; at most one direction has one, the one that
    /// is being served.
    next: [Option<Handle>; 2],
    /// Requests since the batch began.
    batching: u32,
    /// Where the last request ended, bytes.
    last_end: u64,
    /// How often reads have been preferred to waiting writes.
    starved: i32,
}

impl Deadline {
    /// `old`: as in 2.6.18; else as from 2.6.25 on. `hz`: ticks a second.
    #[must_use]
    pub fn new(old: bool, hz: u32, tunables: DeadlineTunables) -> Self {
        Self {
            queues: SortedQueues::new(2),
            flushes: VecDeque::new(),
            clock: Clock::new(hz),
            tunables,
            old,
            next: [None; 2],
            batching: 0,
            last_end: 0,
            starved: 0,
        }
    }

    /// `deadline_dispatch_requests`.
    fn choose(&mut self, now: Nanos) -> Option<Handle> {
        if let Some(next) = self.next[WRITE].or(self.next[READ]) {
            if self.old && self.queues.request(next).offset != self.last_end {
                self.batching = self.batching.saturating_add(self.tunables.fifo_batch);
            }
            if self.batching < self.tunables.fifo_batch {
                return Some(next);
            }
        }
        let direction = self.direction()?;
        let expired = self.oldest_expired(direction, now);
        if self.old {
            if expired.is_none() && self.next[direction].is_some() {
                return self.next[direction];
            }
            self.batching = 0;
            return expired.or_else(|| self.queues.first(direction as u32));
        }
        self.batching = 0;
        expired.or(self.next[direction]).or_else(|| self.queues.oldest(direction as u32))
    }

    /// Reads before writes, until the writes have been passed over `writes_starved` times.
    fn direction(&mut self) -> Option<usize> {
        let reads = !self.queues.queue_is_empty(READ as u32);
        let writes = !self.queues.queue_is_empty(WRITE as u32);
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

    /// The oldest request of a direction, if its time has come (`deadline_check_fifo`).
    fn oldest_expired(&self, direction: usize, now: Nanos) -> Option<Handle> {
        let oldest = self.queues.oldest(direction as u32)?;
        (self.clock.jiffies(now) > self.queues.entry(oldest).stamp).then_some(oldest)
    }

    /// `deadline_move_request`.
    fn send(&mut self, handle: Handle) -> IoRequest {
        self.batching = self.batching.saturating_add(1);
        let direction = self.queues.entry(handle).queue as usize;
        self.next = [None; 2];
        self.next[direction] = self.queues.next(handle);
        let request = self.queues.remove(handle);
        self.last_end = request.end();
        request
    }
}

impl Elevator for Deadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let front = (self.tunables.front_merges == 1).then_some(direction_of(bio) as u32);
        let rules = Rules { max_bytes, front, same_class: false };
        let next = &mut self.next;
        self.queues.merge(
            bio,
            rules,
            |_| true,
            |queues, leaving, _: Leaving| {
                // `deadline_del_rq_rb`: whether it moves or goes, the one after it comes next.
                for next in next.iter_mut().filter(|next| **next == Some(leaving)) {
                    *next = queues.next(leaving);
                }
            },
        )
    }

    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let direction = direction_of(&request);
        let expire_ms = if direction == READ {
            self.tunables.read_expire_ms
        } else {
            self.tunables.write_expire_ms
        };
        let deadline = self.clock.jiffies(now) + self.clock.ticks(expire_ms.into());
        self.queues.insert(direction as u32, request, deadline);
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        match self.choose(now) {
            Some(handle) => Dispatch::Request(self.send(handle)),
            None => Dispatch::Empty,
        }
    }

    fn completed(&mut self, _now: Nanos, _request: &IoRequest) {}

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
    use super::*;
    use crate::elevator::tests::{dispatched, drain, drain_at, merged, read, request_of, write};

    fn deadline(old: bool) -> Deadline {
        Deadline::new(old, 1000, DeadlineTunables::default())
    }

    #[test]
    fn a_batch_of_16_then_the_other_direction_after_two_read_turns() {
        // 2.6.32: 40 reads and 20 writes, all within their deadlines. Reads are chosen twice
        // (starved 0, 1), then writes (starved 2 >= 2).
        let mut elevator = deadline(false);
        for n in 0..40 {
            elevator.insert(Nanos::ZERO, read(n, n * 10, 1));
        }
        for n in 0..20 {
            elevator.insert(Nanos::ZERO, write(100 + n, 1000 + n * 10, 1));
        }
        let order = drain(&mut elevator);
        let expected: Vec<u64> = (0..32).chain(100..116).chain(32..40).chain(116..120).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn a_switch_of_direction_starts_at_the_oldest_from_2_6_32_on_and_at_the_lowest_before() {
        for (old, start) in [(false, 11), (true, 12)] {
            let mut elevator = deadline(old);
            elevator.insert(Nanos::ZERO, write(11, 500, 1));
            elevator.insert(Nanos::ZERO, write(12, 100, 1));
            assert_eq!(dispatched(&mut elevator, Nanos::ZERO), Some(start), "2.6.18: {old}");
        }
    }

    #[test]
    fn an_expired_read_starts_the_next_batch_but_does_not_cut_this_one() {
        let mut elevator = deadline(false);
        elevator.insert(Nanos::ZERO, read(0, 0, 1));
        for n in 1..20 {
            elevator.insert(Nanos::ZERO, read(n, 5000 + n * 10, 1));
        }
        assert_eq!(dispatched(&mut elevator, Nanos::ZERO), Some(0));
        elevator.insert(Nanos::ZERO, read(50, 10, 1));
        // Past the deadline of all of them (500 ms + the tick that makes it "after").
        let late = Nanos::from_millis(501);
        let order = drain_at(&mut elevator, late);
        // 15 more of the batch in sector order (1..=15), then the oldest that is left, 16, and on
        // from there.
        assert_eq!(order, (1..20).chain([50]).collect::<Vec<_>>());
        // At exactly 500 ms nothing has expired: `time_after` is strict.
        let mut elevator = deadline(true);
        elevator.insert(Nanos::ZERO, read(1, 500, 1));
        elevator.insert(Nanos::ZERO, read(2, 100, 1));
        let mut expired = elevator.clone();
        assert_eq!(dispatched(&mut elevator, Nanos::from_millis(500)), Some(2), "lowest sector");
        assert_eq!(dispatched(&mut expired, Nanos::from_millis(501)), Some(1), "oldest");
    }

    #[test]
    fn in_2_6_18_a_gap_ends_the_batch() {
        // Reads 0 and 1 touch, 2 does not; a write waits. The steps are: starved 0 (read 0), the
        // batch goes on (1), gap: 1 (read 2), gap: 2 >= 2 (write).
        let mut elevator = deadline(true);
        for (id, page) in [(0, 0), (1, 1), (2, 10), (3, 20)] {
            elevator.insert(Nanos::ZERO, read(id, page, 1));
        }
        elevator.insert(Nanos::ZERO, write(9, 0, 1));
        assert_eq!(drain(&mut elevator), [0, 1, 2, 9, 3]);
        let mut elevator = deadline(false);
        for (id, page) in [(0, 0), (1, 1), (2, 10), (3, 20)] {
            elevator.insert(Nanos::ZERO, read(id, page, 1));
        }
        elevator.insert(Nanos::ZERO, write(9, 0, 1));
        assert_eq!(drain(&mut elevator), [0, 1, 2, 3, 9], "2.6.32 goes on");
    }

    #[test]
    fn merging_knows_no_sync_and_front_merges_can_be_switched_off() {
        let mut elevator = deadline(false);
        elevator.insert(Nanos::ZERO, write(1, 100, 1));
        elevator.insert(Nanos::ZERO, write(2, 200, 1));
        let mut sync = write(3, 201, 1);
        sync.flags.sync = true;
        assert_eq!(merged(&mut elevator, &sync), Some(2));
        assert_eq!(merged(&mut elevator, &write(4, 99, 1)), Some(1), "front");
        elevator.set("iosched/front_merges", "0").unwrap();
        assert_eq!(merged(&mut elevator, &write(5, 199, 1)), None);
    }

    #[test]
    fn a_bio_that_closes_a_gap_makes_one_request_as_old_as_the_older_part() {
        let ms = Nanos::from_millis;
        let mut elevator = deadline(false);
        elevator.insert(ms(0), write(1, 12, 2));
        elevator.insert(ms(50), write(4, 500, 2));
        elevator.insert(ms(100), write(2, 8, 2));
        let merge = elevator.merge(ms(200), &write(3, 10, 2), 1 << 20);
        assert_eq!(merge, Some(Merge { into: 2, absorbed: Some(1) }));
        // A new batch starts with the oldest: it has taken the place of request 1.
        let request = request_of(elevator.dispatch(ms(200), 0));
        assert_eq!((request.id, request.offset, request.len), (2, 8 * 4096, 6 * 4096));
        assert_eq!(drain(&mut elevator), [4]);
    }

    #[test]
    fn sizes_are_kept_and_fua_stays_alone() {
        let mut elevator = deadline(false);
        elevator.insert(Nanos::ZERO, write(1, 0, 4));
        assert_eq!(elevator.merge(Nanos::ZERO, &write(2, 4, 1), 4 * 4096), None, "too large");
        let mut fua = write(3, 4, 1);
        fua.op = Op::Write { fua: true };
        assert_eq!(merged(&mut elevator, &fua), None);
        elevator.insert(Nanos::ZERO, fua);
        assert_eq!(merged(&mut elevator, &write(4, 5, 1)), None, "nothing joins it either");
    }

    #[test]
    fn an_unknown_tunable_is_told_what_there_is() {
        let error = deadline(false).set("quantum", "8").unwrap_err();
        assert_eq!(
            error.to_string(),
            "deadline has no tunable 'quantum': it has read_expire, write_expire, writes_starved, \
             front_merges, fifo_batch"
        );
        let error = deadline(false).set("front_merges", "2").unwrap_err();
        assert_eq!(error.to_string(), "deadline: front_merges can not be 2: it goes from 0 to 1");
    }
}
