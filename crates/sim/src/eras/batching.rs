//! Request slots before blk-mq: which of the processes that find a queue full may take more.
//!
//! `get_request`, `freed_request` (block/ll_rw_blk.c, blk-core.c), `nr_requests` for each of two
//! classes (2.6.18: reads and writes; later: synchronous and asynchronous). A class is *congested*
//! from 7/8 of them on until it falls below 13/16. When it is *full*, only *batchers* get more, up
//! to one and a half times as many. A batcher is a process that has just slept, for 32 requests or
//! 20 ms. The others sleep, first come, first woken.

use floodwall_device::Nanos;

use crate::request::ProcessIndex;

/// Requests that a batcher may take (`BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;
/// For how long it is one (`BLK_BATCH_TIME`, HZ/50).
const BATCH_TIME: Nanos = Nanos::from_millis(20);

/// A process's licence to take requests of a full queue (`ioc_batching`).
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
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
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    full: bool,
    congested: bool,
}

/// The states of a queue's two classes, and its batchers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batching {
    classes: [Class; 2],
    batches: Vec<Batch>,
}

impl Batching {
    pub(crate) fn add_process(&mut self) {
        self.batches.push(Batch::default());
    }

    pub(crate) fn congested(&self, class: usize) -> bool {
        self.classes[class].congested
    }

    /// The queue has `size` slots now, of which a class uses so many (`blk_update_nr_requests`).
    pub(crate) fn resize(&mut self, class: usize, used: u32, size: u32) {
        self.classes[class] =
            Class { congested: used + 1 > size - size / 8, full: used + 1 > size };
    }

    /// A process was woken to take a slot.
    pub(crate) fn woken(&mut self, now: Nanos, process: ProcessIndex) {
        self.batches[process.0 as usize].begin(now);
    }

    /// Whether a process gets a slot of a class that uses so many of `size` (`get_request`).
    pub(crate) fn admits(
        &mut self,
        now: Nanos,
        class: usize,
        process: ProcessIndex,
        used: u32,
        size: u32,
    ) -> bool {
        let (class, batch) = (&mut self.classes[class], &mut self.batches[process.0 as usize]);
        // queue_congestion_on_threshold: n - n/8 + 1.
        if used + 1 > size - size / 8 {
            if used + 1 >= size {
                if !class.full {
                    batch.begin(now);
                    class.full = true;
                } else if !batch.is_on(now) {
                    return false;
                }
            }
            class.congested = true;
        }
        if used >= 3 * size / 2 {
            return false;
        }
        if batch.is_on(now) {
            batch.left -= 1;
        }
        true
    }

    /// A class that still uses so many of `size` got a slot back (`freed_request`). Returns whether
    /// it has just left congestion.
    pub(crate) fn freed(&mut self, class: usize, used: u32, size: u32) -> bool {
        let class = &mut self.classes[class];
        class.full &= used >= size;
        // queue_congestion_off_threshold: n - n/8 - n/16 - 1.
        let left = class.congested && used < (size - size / 8 - size / 16).saturating_sub(1);
        class.congested &= !left;
        left
    }
}
