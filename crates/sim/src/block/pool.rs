//! Request slots: how many requests may exist, and which processes wait for one.
//!
//! - up to 3.2 (`get_request`, block/ll_rw_blk.c and blk-core.c): `nr_requests` for each of two
//!   classes (2.6.18: reads and writes; later: synchronous and asynchronous). A class is
//!   *congested* from 7/8 of them on until it falls below 13/16. When it is *full*, only *batchers*
//!   get more, up to one and a half times as many. A batcher is a process that has just slept, for
//!   32 requests or 20 ms. The others sleep, first come, first woken.
//! - 6.x (`blk_mq_get_tag`): one pool of `nr_requests` tags; an elevator may keep some requests to
//!   a part of them.

use std::collections::VecDeque;

use floodwall_device::Nanos;

use crate::kernel::Generation;
use crate::request::ProcessIndex;

/// Requests that a batcher may take (`BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;
/// For how long it is one (`BLK_BATCH_TIME`, HZ/50).
const BATCH_TIME: Nanos = Nanos::from_millis(20);

/// A process's licence to take requests of a full queue (`ioc_batching`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Batch {
    left: u32,
    since: Nanos,
}

impl Batch {
    fn is_on(&self, now: Nanos) -> bool {
        self.left == BATCH_REQUESTS || self.left > 0 && now < self.since + BATCH_TIME
    }

    fn begin(&mut self, now: Nanos) {
        if !self.is_on(now) {
            *self = Self { left: BATCH_REQUESTS, since: now };
        }
    }
}

/// One class of requests.
#[derive(Clone, Debug, Default)]
struct Class {
    used: u32,
    full: bool,
    congested: bool,
    waiting: VecDeque<ProcessIndex>,
}

/// All slots of a queue.
#[derive(Clone, Debug)]
pub(crate) struct RequestPool {
    one_pool: bool,
    size: u32,
    classes: [Class; 2],
    batches: Vec<Batch>,
}

impl RequestPool {
    pub(crate) fn new(generation: Generation, size: u32) -> Self {
        Self {
            one_pool: generation == Generation::K6,
            size,
            classes: [Class::default(), Class::default()],
            batches: Vec::new(),
        }
    }

    pub(crate) fn add_process(&mut self) {
        self.batches.push(Batch::default());
    }

    /// Slots, of each class where there are two.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Changes the number of slots; all waiting processes may try again (`blk_update_nr_requests`).
    pub(crate) fn resize(&mut self, size: u32, woken: &mut Vec<ProcessIndex>) {
        self.size = size;
        for class in &mut self.classes {
            class.congested = class.used + 1 > size - size / 8;
            class.full = class.used + 1 > size;
            woken.extend(class.waiting.drain(..));
        }
    }

    pub(crate) fn used(&self) -> u32 {
        self.classes.iter().map(|c| c.used).sum()
    }

    /// Whether a class is congested.
    pub(crate) fn congested(&self, class: usize) -> bool {
        self.classes[class].congested
    }

    /// Takes a slot. `limit`: how many of all slots a request of this kind may use (6.x). If no
    /// slot is free, the process is queued and has to try again when it is woken (`woken`: this is
    /// that attempt).
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        class: usize,
        limit: u32,
        process: ProcessIndex,
        woken: bool,
    ) -> bool {
        let got = if self.one_pool {
            self.used() < limit.min(self.size)
        } else {
            let batch = &mut self.batches[process.0 as usize];
            if woken {
                batch.begin(now);
            }
            Self::take_batched(&mut self.classes[class], batch, now, self.size)
        };
        if got {
            self.classes[class].used += 1;
        } else if woken {
            self.classes[class].waiting.push_front(process);
        } else {
            self.classes[class].waiting.push_back(process);
        }
        got
    }

    /// `get_request` of 2.6.18 and 2.6.32.
    fn take_batched(class: &mut Class, batch: &mut Batch, now: Nanos, size: u32) -> bool {
        // queue_congestion_on_threshold: n - n/8 + 1.
        if class.used + 1 > size - size / 8 {
            if class.used + 1 >= size {
                if !class.full {
                    batch.begin(now);
                    class.full = true;
                } else if !batch.is_on(now) {
                    return false;
                }
            }
            class.congested = true;
        }
        if class.used >= 3 * size / 2 {
            return false;
        }
        if batch.is_on(now) {
            batch.left -= 1;
        }
        true
    }

    /// Gives a slot back. Appends processes that may try again to `woken`. Returns whether the
    /// class has just left congestion.
    pub(crate) fn give_back(&mut self, class: usize, woken: &mut Vec<ProcessIndex>) -> bool {
        let size = self.size;
        let one_pool = self.one_pool;
        let c = &mut self.classes[class];
        c.used = c.used.saturating_sub(1);
        if one_pool {
            // Reads and writes wait apart only so that one that an elevator keeps short does not
            // stand before the others.
            woken.extend(self.classes.iter_mut().filter_map(|c| c.waiting.pop_front()));
            return false;
        }
        // queue_congestion_off_threshold: n - n/8 - n/16 - 1.
        let left = c.congested && c.used < (size - size / 8 - size / 16).saturating_sub(1);
        if left {
            c.congested = false;
        }
        if c.used < size {
            woken.extend(c.waiting.pop_front());
            c.full = false;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_queue_is_congested_at_113_full_at_128_and_over_at_192() {
        let mut pool = RequestPool::new(Generation::K2_6_32, 128);
        pool.add_process();
        pool.add_process();
        let mut taken = 0;
        let mut congested_at = None;
        while pool.take(Nanos(1), 1, 128, ProcessIndex(0), false) {
            taken += 1;
            if pool.congested(1) && congested_at.is_none() {
                congested_at = Some(taken);
            }
        }
        // The first that meets a full queue becomes a batcher: 127 + 32.
        assert_eq!((congested_at, taken), (Some(113), 159));
        assert!(!pool.take(Nanos(1), 1, 128, ProcessIndex(1), false), "no batcher, no slot");
        assert!(pool.take(Nanos(1), 0, 128, ProcessIndex(1), false), "the other class has its own");
        let mut woken = Vec::new();
        let mut off_at = None;
        for i in (0..taken).rev() {
            if pool.give_back(1, &mut woken) {
                off_at = Some(i);
            }
        }
        assert_eq!(off_at, Some(102), "off below 103");
        assert_eq!(woken, [ProcessIndex(0), ProcessIndex(1)]);
    }

    #[test]
    fn tags_are_one_pool_of_which_some_requests_get_a_part() {
        let mut pool = RequestPool::new(Generation::K6, 4);
        pool.add_process();
        assert!((0..3).all(|_| pool.take(Nanos(0), 1, 3, ProcessIndex(0), false)));
        assert!(!pool.take(Nanos(0), 1, 3, ProcessIndex(0), false));
        assert!(pool.take(Nanos(0), 0, 4, ProcessIndex(0), false));
        let mut woken = Vec::new();
        pool.give_back(1, &mut woken);
        assert_eq!(woken, [ProcessIndex(0)]);
    }
}
