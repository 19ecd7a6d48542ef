//! noop: first in, first out, with merging (`block/noop-iosched.c`, 2.6.18 to 3.2).
//!
//! ```text
//! bio ─▶ the request last merged or inserted, at either end
//!   ─▶ (from 2.6.19 on) any request that ends where the bio starts ─▶ tail of the queue
//! ```
//!
//! noop itself only keeps the queue; merging is the elevator core's. In 2.6.18 the core knew only
//! `q->last_merge`, since each elevator kept a private hash and noop kept none. Linux 2.6.19 moved
//! the hash into the core (`elv_rqhash_find`), so noop could again merge with any request.

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use crate::elevator::pool::{EndHash, Fifo, Handle, Pool, compatible, mergeable};
use crate::elevator::{Dispatch, Elevator, Merge};
use crate::request::IoRequest;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Noop {
    pool: Pool,
    queue: Fifo,
    ends: EndHash,
    last_merge: Option<Handle>,
    flushes: VecDeque<IoRequest>,
    /// Whether any request is found for a back merge, and not only the last one.
    hashed: bool,
}

impl Noop {
    /// `hashed`: with the core's hash for back merges (2.6.19 and later).
    #[must_use]
    pub fn new(hashed: bool) -> Self {
        Self {
            pool: Pool::new(),
            queue: Fifo::new(),
            ends: EndHash::new(),
            last_merge: None,
            flushes: VecDeque::new(),
            hashed,
        }
    }

    /// `elv_latter_request` is the neighbour in the queue: it is absorbed if the gap to it is
    /// closed now.
    fn grow_back(&mut self, handle: Handle, bio: &IoRequest, max_bytes: u64) -> Merge {
        self.ends.remove(&mut self.pool, handle);
        self.pool.grow_back(handle, bio.len, bio.queued);
        self.ends.insert(&mut self.pool, handle);
        self.last_merge = Some(handle);
        let behind =
            self.pool.newer(handle).filter(|&next| self.can_absorb(handle, next, max_bytes));
        let absorbed = behind.map(|next| self.absorb(handle, next));
        Merge { into: self.pool.request(handle).id, absorbed }
    }

    fn grow_front(&mut self, handle: Handle, bio: &IoRequest, max_bytes: u64) -> Merge {
        self.pool.grow_front(handle, bio.len, bio.queued);
        self.last_merge = Some(handle);
        let before =
            self.pool.older(handle).filter(|&before| self.can_absorb(before, handle, max_bytes));
        if let Some(before) = before {
            let absorbed = Some(self.absorb(before, handle));
            return Merge { into: self.pool.request(before).id, absorbed };
        }
        Merge { into: self.pool.request(handle).id, absorbed: None }
    }

    fn can_absorb(&self, into: Handle, next: Handle, max_bytes: u64) -> bool {
        let (into, next) = (self.pool.request(into), self.pool.request(next));
        into.end() == next.offset
            && compatible(into, next, false)
            && into.len.saturating_add(next.len) <= max_bytes
    }

    fn absorb(&mut self, into: Handle, next: Handle) -> u64 {
        let gone = self.remove(next);
        self.ends.remove(&mut self.pool, into);
        self.pool.grow_back(into, gone.len, gone.queued);
        self.ends.insert(&mut self.pool, into);
        self.last_merge = Some(into);
        gone.id
    }

    fn remove(&mut self, handle: Handle) -> IoRequest {
        self.queue.unlink(&mut self.pool, handle);
        self.ends.remove(&mut self.pool, handle);
        if self.last_merge == Some(handle) {
            self.last_merge = None;
        }
        self.pool.take(handle)
    }
}

impl Elevator for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let accept = |request: &IoRequest| {
            compatible(request, bio, false) && request.len.saturating_add(bio.len) <= max_bytes
        };
        if let Some(last) = self.last_merge.filter(|&last| accept(self.pool.request(last))) {
            let request = self.pool.request(last);
            if request.end() == bio.offset {
                return Some(self.grow_back(last, bio, max_bytes));
            }
            if bio.end() == request.offset {
                return Some(self.grow_front(last, bio, max_bytes));
            }
        }
        if !self.hashed {
            return None;
        }
        let handle = self.ends.ending_at(&self.pool, bio.offset, |entry| accept(&entry.request))?;
        Some(self.grow_back(handle, bio, max_bytes))
    }

    fn insert(&mut self, _now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let handle = self.pool.add(request, 0, 0);
        self.queue.push(&mut self.pool, handle);
        self.ends.insert(&mut self.pool, handle);
        if self.last_merge.is_none() && mergeable(&request) {
            self.last_merge = Some(handle);
        }
    }

    fn dispatch(&mut self, _now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        match self.queue.oldest() {
            Some(handle) => Dispatch::Request(self.remove(handle)),
            None => Dispatch::Empty,
        }
    }

    fn len(&self) -> usize {
        self.pool.len() + self.flushes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::tests::{drain, merged, write};

    #[test]
    fn keeps_the_order_of_arrival() {
        let mut noop = Noop::new(true);
        for (id, page) in [(1, 50), (2, 10), (3, 90)] {
            noop.insert(Nanos::ZERO, write(id, page, 1));
        }
        assert_eq!(drain(&mut noop), [1, 2, 3]);
    }

    #[test]
    fn in_2_6_18_only_the_last_request_is_found() {
        for (hashed, into_second) in [(false, None), (true, Some(2))] {
            let mut noop = Noop::new(hashed);
            noop.insert(Nanos::ZERO, write(1, 0, 1));
            noop.insert(Nanos::ZERO, write(2, 100, 1));
            // `last_merge` is the first insertion until a merge moves it on.
            assert_eq!(merged(&mut noop, &write(3, 101, 1)), into_second);
            assert_eq!(merged(&mut noop, &write(4, 1, 1)), Some(1));
        }
    }

    #[test]
    fn front_merges_only_into_the_last() {
        let mut noop = Noop::new(true);
        noop.insert(Nanos::ZERO, write(1, 10, 2));
        noop.insert(Nanos::ZERO, write(2, 50, 2));
        assert_eq!(merged(&mut noop, &write(3, 8, 2)), Some(1));
        assert_eq!(merged(&mut noop, &write(4, 48, 2)), None);
    }
}
