//! Queues of requests by position and by age, and merging into them: what deadline, mq-deadline,
//! anticipatory, CFQ and BFQ have in common.
//!
//! ```text
//! bio ─▶ last merged? ─▶ ends where it starts? (back) ─▶ starts where it ends? (front)
//!   ─▶ grow ─▶ does the neighbour touch now? absorb it
//! ```
//!
//! `elv_merge`, `attempt_merge` (block/elevator.c, block/blk-merge.c). Positions and sizes in
//! bytes.

use std::collections::VecDeque;

use super::Merge;
use super::history::first_is_better;
use super::pool::{EndHash, Entry, Fifo, Handle, Pool, compatible, mergeable};
use crate::request::IoRequest;

/// Data directions, as deadline and mq-deadline number their queues.
pub(crate) const READ: usize = 0;
pub(crate) const WRITE: usize = 1;

/// The data direction of a request: everything but a read counts as a write.
pub(crate) const fn direction_of(request: &IoRequest) -> usize {
    if request.is_read() { READ } else { WRITE }
}

/// One queue: the same requests by first byte and by age.
#[derive(Clone, Debug)]
struct Queue {
    /// First byte and request, ascending; equal ones in the order in which they came (as
    /// `elv_rb_add` does since 2.6.37; before it sent the elder one off at once). A ring, because
    /// requests leave mostly from the low end and join mostly at the high one, and a queue holds
    /// at most a few hundred.
    by_position: VecDeque<(u64, Handle)>,
    by_age: Fifo,
}

/// What merging may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Greatest size of a request, bytes.
    pub(crate) max_bytes: u64,
    /// Queue in which to look for a request that starts where the bio ends.
    pub(crate) front: Option<u32>,
    /// Whether only requests of the same I/O priority class may become one (blk-mq).
    pub(crate) same_class: bool,
}

/// How far and at what price a head goes back for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Not farther than this, bytes.
    pub(crate) back_max: u64,
    /// What going back costs, compared with going ahead.
    pub(crate) penalty: u64,
}

/// Why a request leaves its place while a bio is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It now starts earlier and is sorted in again.
    Moves,
    /// It becomes part of its neighbour and is gone.
    Absorbed,
}

/// Queues over one pool of requests.
#[derive(Clone, Debug)]
pub(crate) struct SortedQueues {
    pool: Pool,
    queues: Vec<Queue>,
    ends: EndHash,
    /// `q->last_merge`: tried first, at both ends.
    last_merge: Option<Handle>,
}

impl SortedQueues {
    pub(crate) fn new(queues: u32) -> Self {
        let mut made =
            Self { pool: Pool::new(), queues: Vec::new(), ends: EndHash::new(), last_merge: None };
        for _ in 0..queues {
            made.add_queue();
        }
        made
    }

    /// Another queue; they are numbered from zero.
    pub(crate) fn add_queue(&mut self) -> u32 {
        self.queues.push(Queue { by_position: VecDeque::new(), by_age: Fifo::new() });
        self.queues.len() as u32 - 1
    }

    /// Number of requests in all queues.
    pub(crate) const fn len(&self) -> usize {
        self.pool.len()
    }

    pub(crate) fn queue_is_empty(&self, queue: u32) -> bool {
        self.queues[queue as usize].by_age.is_empty()
    }

    pub(crate) fn request(&self, handle: Handle) -> &IoRequest {
        self.pool.request(handle)
    }

    pub(crate) fn entry(&self, handle: Handle) -> &Entry {
        self.pool.entry(handle)
    }

    pub(crate) fn insert(&mut self, queue: u32, request: IoRequest, stamp: u64) -> Handle {
        let handle = self.pool.add(request, queue, stamp);
        self.sort_in(handle);
        self.queues[queue as usize].by_age.push(&mut self.pool, handle);
        self.ends.insert(&mut self.pool, handle);
        if self.last_merge.is_none() && mergeable(&request) {
            self.last_merge = Some(handle);
        }
        handle
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> IoRequest {
        self.sort_out(handle);
        let queue = self.pool.entry(handle).queue as usize;
        self.queues[queue].by_age.unlink(&mut self.pool, handle);
        self.ends.remove(&mut self.pool, handle);
        if self.last_merge == Some(handle) {
            self.last_merge = None;
        }
        self.pool.take(handle)
    }

    /// The request that has waited longest.
    pub(crate) fn oldest(&self, queue: u32) -> Option<Handle> {
        self.queues[queue as usize].by_age.oldest()
    }

    /// The request with the lowest position.
    pub(crate) fn first(&self, queue: u32) -> Option<Handle> {
        self.queues[queue as usize].by_position.front().map(|&(_, handle)| handle)
    }

    /// The first request at or after a position.
    pub(crate) fn first_from(&self, queue: u32, offset: u64) -> Option<Handle> {
        let by_position = &self.queues[queue as usize].by_position;
        let at = by_position.partition_point(|&(position, _)| position < offset);
        by_position.get(at).map(|&(_, handle)| handle)
    }

    /// The request after this one by position.
    pub(crate) fn next(&self, handle: Handle) -> Option<Handle> {
        let (by_position, at) = self.place(handle);
        by_position.get(at + 1).map(|&(_, handle)| handle)
    }

    /// The request before this one by position.
    pub(crate) fn previous(&self, handle: Handle) -> Option<Handle> {
        let (by_position, at) = self.place(handle);
        at.checked_sub(1).and_then(|at| by_position.get(at)).map(|&(_, handle)| handle)
    }

    /// The request after `handle` that suits a head at `head` best: the next by position, or from
    /// the start again, or the one before (`as_find_next_rq`, `cfq_find_next_rq`,
    /// `bfq_find_next_rq`).
    pub(crate) fn next_for_head(&self, handle: Handle, head: u64, reach: Reach) -> Option<Handle> {
        let queue = self.pool.entry(handle).queue;
        let next = self.next(handle).or_else(|| self.first(queue).filter(|&first| first != handle));
        self.better(next, self.previous(handle), head, reach)
    }

    /// Which of two requests suits a head better (`as_choose_req`, `cfq_choose_req`).
    pub(crate) fn better(
        &self,
        a: Option<Handle>,
        b: Option<Handle>,
        head: u64,
        reach: Reach,
    ) -> Option<Handle> {
        let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
        let (x, y) = (self.pool.request(first).offset, self.pool.request(second).offset);
        let keeps_first =
            first != second && first_is_better(head, reach.back_max, reach.penalty, x, y);
        Some(if keeps_first { first } else { second })
    }

    fn place(&self, handle: Handle) -> (&VecDeque<(u64, Handle)>, usize) {
        let entry = self.pool.entry(handle);
        let by_position = &self.queues[entry.queue as usize].by_position;
        (by_position, index_of(by_position, entry.request.offset, handle))
    }

    fn sort_in(&mut self, handle: Handle) {
        let entry = self.pool.entry(handle);
        let (offset, by_position) =
            (entry.request.offset, &mut self.queues[entry.queue as usize].by_position);
        // Streams ascend: look at the high end first.
        if by_position.back().is_none_or(|&(highest, _)| highest <= offset) {
            by_position.push_back((offset, handle));
        } else {
            let at = by_position.partition_point(|&(position, _)| position <= offset);
            by_position.insert(at, (offset, handle));
        }
    }

    fn sort_out(&mut self, handle: Handle) {
        let entry = self.pool.entry(handle);
        let (offset, by_position) =
            (entry.request.offset, &mut self.queues[entry.queue as usize].by_position);
        if by_position.front().is_some_and(|&(_, first)| first == handle) {
            by_position.pop_front();
        } else {
            let at = index_of(by_position, offset, handle);
            by_position.remove(at);
        }
    }

    /// Joins a bio to a request that it touches and that `may_join` accepts. `leaving` is called
    /// with every request that is about to leave its place, while it is still there. So holders of
    /// a reference to it can point elsewhere.
    pub(crate) fn merge(
        &mut self,
        bio: &IoRequest,
        rules: Rules,
        may_join: impl Fn(&Entry) -> bool,
        leaving: impl FnMut(&Self, Handle, Leaving),
    ) -> Option<Merge> {
        if !mergeable(bio) {
            return None;
        }
        let accept = |entry: &Entry| {
            compatible(&entry.request, bio, rules.same_class)
                && entry.request.len.saturating_add(bio.len) <= rules.max_bytes
                && may_join(entry)
        };
        if let Some(last) = self.last_merge.filter(|&last| accept(self.pool.entry(last))) {
            let request = self.pool.request(last);
            if request.end() == bio.offset {
                return Some(self.grow_back(last, bio, rules, leaving));
            }
            if bio.end() == request.offset {
                return Some(self.grow_front(last, bio, rules, leaving));
            }
        }
        if let Some(handle) = self.ends.ending_at(&self.pool, bio.offset, accept) {
            return Some(self.grow_back(handle, bio, rules, leaving));
        }
        let handle =
            self.starting_at(rules.front?, bio.end()).filter(|&at| accept(self.pool.entry(at)))?;
        Some(self.grow_front(handle, bio, rules, leaving))
    }

    fn starting_at(&self, queue: u32, offset: u64) -> Option<Handle> {
        self.first_from(queue, offset).filter(|&handle| self.pool.request(handle).offset == offset)
    }

    /// A back merge, and the request behind it if the gap is closed now (`attempt_back_merge`).
    fn grow_back(
        &mut self,
        handle: Handle,
        bio: &IoRequest,
        rules: Rules,
        leaving: impl FnMut(&Self, Handle, Leaving),
    ) -> Merge {
        self.ends.remove(&mut self.pool, handle);
        self.pool.grow_back(handle, bio.len, bio.queued);
        self.ends.insert(&mut self.pool, handle);
        self.last_merge = Some(handle);
        let into = self.pool.request(handle).id;
        let behind = self.next(handle).filter(|&next| self.can_absorb(handle, next, rules));
        let absorbed = behind.map(|next| self.absorb(handle, next, leaving));
        Merge { into, absorbed }
    }

    /// A front merge; if the request before it touches now, that one takes it in
    /// (`attempt_front_merge`).
    fn grow_front(
        &mut self,
        handle: Handle,
        bio: &IoRequest,
        rules: Rules,
        mut leaving: impl FnMut(&Self, Handle, Leaving),
    ) -> Merge {
        let before = self.previous(handle);
        leaving(self, handle, Leaving::Moves);
        self.sort_out(handle);
        self.pool.grow_front(handle, bio.len, bio.queued);
        self.sort_in(handle);
        self.last_merge = Some(handle);
        if let Some(before) = before.filter(|&before| self.can_absorb(before, handle, rules)) {
            let absorbed = Some(self.absorb(before, handle, leaving));
            return Merge { into: self.pool.request(before).id, absorbed };
        }
        Merge { into: self.pool.request(handle).id, absorbed: None }
    }

    fn can_absorb(&self, into: Handle, next: Handle, rules: Rules) -> bool {
        let (into, next) = (self.pool.request(into), self.pool.request(next));
        into.end() == next.offset
            && compatible(into, next, rules.same_class)
            && into.len.saturating_add(next.len) <= rules.max_bytes
    }

    /// `next` becomes the end of `into`, which takes its place by age if that is the better one.
    /// Returns the number of the absorbed request.
    fn absorb(
        &mut self,
        into: Handle,
        next: Handle,
        mut leaving: impl FnMut(&Self, Handle, Leaving),
    ) -> u64 {
        leaving(self, next, Leaving::Absorbed);
        let &Entry { request: gone, stamp, queue, .. } = self.pool.entry(next);
        if stamp < self.pool.entry(into).stamp {
            self.queues[queue as usize].by_age.move_before(&mut self.pool, into, next);
            *self.pool.stamp_mut(into) = stamp;
        }
        self.remove(next);
        self.ends.remove(&mut self.pool, into);
        self.pool.grow_back(into, gone.len, gone.queued);
        self.ends.insert(&mut self.pool, into);
        self.last_merge = Some(into);
        gone.id
    }
}

/// Where a request is in a queue by position.
fn index_of(by_position: &VecDeque<(u64, Handle)>, offset: u64, handle: Handle) -> usize {
    let mut at = by_position.partition_point(|&(position, _)| position < offset);
    while by_position
        .get(at)
        .is_some_and(|&(position, other)| position == offset && other != handle)
    {
        at += 1;
    }
    at
}
