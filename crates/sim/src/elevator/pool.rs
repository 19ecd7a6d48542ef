//! Waiting requests, queues of them by age, and the hash by which a bio finds the request that ends
//! where it starts.
//!
//! ```text
//! Pool      requests in a slab, named by Handle; slots are used again,
//!           so nothing is allocated per request
//! Fifo      a doubly linked list through the slab, oldest first
//!           (the kernel's fifo_list and rq_list)
//! EndHash   chains through the slab by last byte
//!           (`elv_rqhash_*`, block/elevator.c; before 2.6.19 one in each elevator)
//! ```

use floodwall_device::{Nanos, Op};

use crate::request::IoRequest;

/// No request.
const NIL: u32 = u32::MAX;

/// Names a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(u32);

/// A waiting request and its places in the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) request: IoRequest,
    /// When its deadline is, or when it came; the elevator says which. Jiffies.
    pub(crate) stamp: u64,
    /// The queue it is in.
    pub(crate) queue: u32,
    older: u32,
    newer: u32,
    chain_previous: u32,
    chain_next: u32,
}

/// The slab of waiting requests.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    entries: Vec<Entry>,
    /// First free slot; the others follow through `newer`.
    free: u32,
    len: usize,
}

impl Pool {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: NIL, len: 0 }
    }

    /// Number of waiting requests.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn add(&mut self, request: IoRequest, queue: u32, stamp: u64) -> Handle {
        let entry = Entry {
            request,
            stamp,
            queue,
            older: NIL,
            newer: NIL,
            chain_previous: NIL,
            chain_next: NIL,
        };
        self.len += 1;
        if self.free == NIL {
            self.entries.push(entry);
            return Handle(self.entries.len() as u32 - 1);
        }
        let slot = self.free;
        self.free = self.entries[slot as usize].newer;
        self.entries[slot as usize] = entry;
        Handle(slot)
    }

    /// Gives the slot back; the request must be out of every list.
    pub(crate) fn take(&mut self, handle: Handle) -> IoRequest {
        let entry = &mut self.entries[handle.0 as usize];
        entry.newer = self.free;
        self.free = handle.0;
        self.len -= 1;
        entry.request
    }

    pub(crate) fn entry(&self, handle: Handle) -> &Entry {
        &self.entries[handle.0 as usize]
    }

    pub(crate) fn request(&self, handle: Handle) -> &IoRequest {
        &self.entries[handle.0 as usize].request
    }

    pub(crate) fn stamp_mut(&mut self, handle: Handle) -> &mut u64 {
        &mut self.entries[handle.0 as usize].stamp
    }

    /// Lengthens a request by what touches its end.
    pub(crate) fn grow_back(&mut self, handle: Handle, bytes: u64, queued: Nanos) {
        let request = &mut self.entries[handle.0 as usize].request;
        request.len += bytes;
        request.queued = request.queued.min(queued);
    }

    /// Lengthens a request by what touches its start.
    pub(crate) fn grow_front(&mut self, handle: Handle, bytes: u64, queued: Nanos) {
        let request = &mut self.entries[handle.0 as usize].request;
        request.offset -= bytes;
        request.len += bytes;
        request.queued = request.queued.min(queued);
    }

    /// The request that came next after this one into the same queue.
    pub(crate) fn newer(&self, handle: Handle) -> Option<Handle> {
        some(self.entries[handle.0 as usize].newer)
    }

    /// The request that came last before this one into the same queue.
    pub(crate) fn older(&self, handle: Handle) -> Option<Handle> {
        some(self.entries[handle.0 as usize].older)
    }
}

const fn some(slot: u32) -> Option<Handle> {
    if slot == NIL { None } else { Some(Handle(slot)) }
}

/// A queue by age.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl Fifo {
    pub(crate) const fn new() -> Self {
        Self { oldest: NIL, newest: NIL, len: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) const fn oldest(&self) -> Option<Handle> {
        some(self.oldest)
    }

    pub(crate) const fn newest(&self) -> Option<Handle> {
        some(self.newest)
    }

    pub(crate) fn push(&mut self, pool: &mut Pool, handle: Handle) {
        let newest = self.newest;
        let entry = &mut pool.entries[handle.0 as usize];
        entry.older = newest;
        entry.newer = NIL;
        if newest == NIL {
            self.oldest = handle.0;
        } else {
            pool.entries[newest as usize].newer = handle.0;
        }
        self.newest = handle.0;
        self.len += 1;
    }

    pub(crate) fn unlink(&mut self, pool: &mut Pool, handle: Handle) {
        let Entry { older, newer, .. } = pool.entries[handle.0 as usize];
        if older == NIL {
            self.oldest = newer;
        } else {
            pool.entries[older as usize].newer = newer;
        }
        if newer == NIL {
            self.newest = older;
        } else {
            pool.entries[newer as usize].older = older;
        }
        self.len -= 1;
    }

    /// Moves `handle` right before `older_one` in the same queue (`list_move`, when a younger
    /// request takes an older one in).
    pub(crate) fn move_before(&mut self, pool: &mut Pool, handle: Handle, older_one: Handle) {
        self.unlink(pool, handle);
        let before = pool.entries[older_one.0 as usize].older;
        pool.entries[handle.0 as usize].older = before;
        pool.entries[handle.0 as usize].newer = older_one.0;
        pool.entries[older_one.0 as usize].older = handle.0;
        if before == NIL {
            self.oldest = handle.0;
        } else {
            pool.entries[before as usize].newer = handle.0;
        }
        self.len += 1;
    }
}

/// Whether a request may ever be merged (`rq_mergeable`: no flush, no FUA, no write of zeroes).
pub(crate) const fn mergeable(request: &IoRequest) -> bool {
    matches!(request.op, Op::Read | Op::Write { fua: false } | Op::Discard)
}

/// Whether two pieces may become one request (`blk_rq_merge_ok`): mergeable, the same operation,
/// and where `same_class` the same I/O priority.
pub(crate) fn compatible(a: &IoRequest, b: &IoRequest, same_class: bool) -> bool {
    mergeable(a) && mergeable(b) && a.op == b.op && (!same_class || a.priority() == b.priority())
}

/// Waiting requests by their last byte.
#[derive(Clone, Debug)]
pub(crate) struct EndHash {
    heads: Vec<u32>,
}

impl EndHash {
    /// 64 chains in the kernel (`ELV_HASH_ENTRIES`); 256 here, which changes no result.
    const CHAINS: usize = 256;

    pub(crate) fn new() -> Self {
        Self { heads: vec![NIL; Self::CHAINS] }
    }

    const fn chain(end: u64) -> usize {
        ((end >> 9).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize
    }

    /// Puts a request in, if it may be merged at all.
    pub(crate) fn insert(&mut self, pool: &mut Pool, handle: Handle) {
        let entry = &mut pool.entries[handle.0 as usize];
        if !mergeable(&entry.request) {
            return;
        }
        let chain = Self::chain(entry.request.end());
        let first = self.heads[chain];
        entry.chain_next = first;
        entry.chain_previous = NIL;
        if first != NIL {
            pool.entries[first as usize].chain_previous = handle.0;
        }
        self.heads[chain] = handle.0;
    }

    /// Takes a request out; call it before its end changes.
    pub(crate) fn remove(&mut self, pool: &mut Pool, handle: Handle) {
        let Entry { request, chain_previous, chain_next, .. } = pool.entries[handle.0 as usize];
        if !mergeable(&request) {
            return;
        }
        if chain_previous == NIL {
            self.heads[Self::chain(request.end())] = chain_next;
        } else {
            pool.entries[chain_previous as usize].chain_next = chain_next;
        }
        if chain_next != NIL {
            pool.entries[chain_next as usize].chain_previous = chain_previous;
        }
    }

    /// The youngest request that ends at `offset` and that `accept` takes.
    pub(crate) fn ending_at(
        &self,
        pool: &Pool,
        offset: u64,
        accept: impl Fn(&Entry) -> bool,
    ) -> Option<Handle> {
        let mut at = self.heads[Self::chain(offset)];
        while at != NIL {
            let entry = &pool.entries[at as usize];
            if entry.request.end() == offset && accept(entry) {
                return Some(Handle(at));
            }
            at = entry.chain_next;
        }
        None
    }
}
