//! none: no elevator at all. A software queue for each CPU, straight to the device
//! (`block/blk-mq.c`, 6.x).
//!
//! ```text
//! bio ─▶ one of the eight youngest requests of its CPU (`blk_bio_list_merge`)
//!   ─▶ tail of its CPU's queue ─▶ CPUs in turn, a request each ─▶ device
//! ```
//!
//! Requests stand in software queues only while the device has no room; then
//! `blk_mq_do_dispatch_ctx` takes one from each queue in turn. Which CPU a process runs on is not
//! modelled beyond `process mod cpus`. Neighbouring requests are not joined when a gap closes: that
//! needs an elevator. I/O priorities mean nothing here.

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use super::pool::{Fifo, Pool, compatible};
use super::{Dispatch, Elevator, Merge};
use crate::request::IoRequest;

/// How many requests `blk_bio_list_merge` looks at, from the youngest on.
const MERGE_CANDIDATES: usize = 8;

/// Tries to merge a bio into one of the youngest requests of a queue (`blk_bio_list_merge`).
pub(super) fn merge_into_youngest(
    pool: &mut Pool,
    queue: &Fifo,
    bio: &IoRequest,
    max_bytes: u64,
) -> Option<Merge> {
    let mut candidate = queue.newest();
    for _ in 0..MERGE_CANDIDATES {
        let handle = candidate?;
        let request = pool.request(handle);
        let touches = request.end() == bio.offset || bio.end() == request.offset;
        if touches && compatible(request, bio, true) {
            // One that touches and is full ends the search (BIO_MERGE_FAILED).
            if request.len.saturating_add(bio.len) > max_bytes {
                return None;
            }
            let into = request.id;
            if request.end() == bio.offset {
                pool.grow_back(handle, bio.len, bio.queued);
            } else {
                pool.grow_front(handle, bio.len, bio.queued);
            }
            return Some(Merge { into, absorbed: None });
        }
        candidate = pool.older(handle);
    }
    None
}

/// The absence of an elevator.
#[derive(Clone, Debug)]
pub struct NoElevator {
    pool: Pool,
    cpus: Vec<Fifo>,
    next_cpu: usize,
    flushes: VecDeque<IoRequest>,
}

impl NoElevator {
    /// With a software queue for each of `cpus` (at least one).
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        let cpus = vec![Fifo::new(); cpus.max(1) as usize];
        Self { pool: Pool::new(), cpus, next_cpu: 0, flushes: VecDeque::new() }
    }

    fn cpu_of(&self, request: &IoRequest) -> usize {
        request.process.0 as usize % self.cpus.len()
    }
}

impl Elevator for NoElevator {
    fn name(&self) -> &'static str {
        "none"
    }

    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let cpu = self.cpu_of(bio);
        merge_into_youngest(&mut self.pool, &self.cpus[cpu], bio, max_bytes)
    }

    fn insert(&mut self, _now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let cpu = self.cpu_of(&request);
        let handle = self.pool.add(request, cpu as u32, 0);
        self.cpus[cpu].push(&mut self.pool, handle);
    }

    fn dispatch(&mut self, _now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        for _ in 0..self.cpus.len() {
            let cpu = self.next_cpu;
            self.next_cpu = (cpu + 1) % self.cpus.len();
            if let Some(handle) = self.cpus[cpu].oldest() {
                self.cpus[cpu].unlink(&mut self.pool, handle);
                return Dispatch::Request(self.pool.take(handle));
            }
        }
        Dispatch::Empty
    }

    fn len(&self) -> usize {
        self.pool.len() + self.flushes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drain, from, merged, write};
    use super::*;

    #[test]
    fn cpus_take_turns() {
        let mut none = NoElevator::new(2);
        for (id, process) in [(1, 0), (2, 0), (3, 0), (4, 1)] {
            none.insert(Nanos::ZERO, from(process, write(id, id * 10, 1)));
        }
        assert_eq!(drain(&mut none), [1, 4, 2, 3]);
    }

    #[test]
    fn the_ninth_youngest_is_not_found() {
        let mut none = NoElevator::new(1);
        for id in 0..9 {
            none.insert(Nanos::ZERO, write(id, id * 10, 1));
        }
        assert_eq!(
            merged(&mut none, &write(100, 1, 1)),
            None,
            "request 0 is the ninth from the end"
        );
        assert_eq!(merged(&mut none, &write(101, 11, 1)), Some(1));
    }

    #[test]
    fn another_cpus_requests_are_not_seen() {
        let mut none = NoElevator::new(2);
        none.insert(Nanos::ZERO, from(0, write(1, 0, 1)));
        assert_eq!(merged(&mut none, &from(1, write(2, 1, 1))), None);
        assert_eq!(merged(&mut none, &from(0, write(3, 1, 1))), Some(1));
    }
}
