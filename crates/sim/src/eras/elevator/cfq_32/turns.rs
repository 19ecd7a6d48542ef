//! The tree of due times, the queue whose turn it is, and whether its next request may go to the
//! device.

use super::{ASYNC, Cfq32, LEVELS, is_sync, next_after};
use crate::elevator::pool::Handle;
use crate::request::{IoRequest, PriorityClass};

impl Cfq32 {
    /// `cfq_dispatch_requests`: one request.
    pub(super) fn choose(&mut self, now: u64) -> Option<IoRequest> {
        let at = self.select(now)?;
        if !self.may_dispatch(at, now) {
            return None;
        }
        let handle = self.oldest_expired(at, now).or(self.queues[at as usize].next)?;
        let request = self.send(at, handle);
        if self.active_context.is_none() {
            self.active_context = Some(self.context(request.process, now) as u32);
        }
        let queue = &mut self.queues[at as usize];
        queue.slice_requests += 1;
        queue.must_dispatch = false;
        let most = slice_requests_max(self.tunables.slice_async_rq, queue.level);
        let writes_done = !queue.sync && queue.slice_requests >= most;
        if self.tree.len() > 1 && (writes_done || queue.class == PriorityClass::Idle) {
            queue.slice_end = now + 1;
            self.expire(at, false, now);
        }
        Some(request)
    }

    /// `cfq_select_queue`.
    fn select(&mut self, now: u64) -> Option<u32> {
        let mut next = None;
        if let Some(at) = self.active {
            let queue = self.queues[at as usize];
            if queue.must_dispatch || !self.slice_used(at, now) {
                if !self.requests.queue_is_empty(at) {
                    return Some(at);
                }
                next = self.close_cooperator(at);
                if let Some(close) = next {
                    self.plan_merge(at, close);
                } else if self.idle_timer.is_some() || (queue.in_device > 0 && queue.idle_window) {
                    return None;
                }
            }
            self.expire(at, false, now);
        }
        let next = next.or_else(|| self.tree.first().copied());
        self.activate(next);
        next
    }

    /// Whether the device should get a request of this queue now (`cfq_may_dispatch`).
    fn may_dispatch(&self, at: u32, now: u64) -> bool {
        let queue = &self.queues[at as usize];
        if queue.idle_window && self.in_driver[ASYNC] > 0 {
            return false;
        }
        if !queue.sync && self.sync_in_device > 0 {
            return false;
        }
        let idle = queue.class == PriorityClass::Idle;
        let mut most = if idle { 1 } else { self.tunables.quantum };
        if queue.in_device >= most {
            if idle || self.tree.len() > 1 {
                return false;
            }
            most = most.saturating_mul(4);
        }
        if !queue.sync && self.tunables.low_latency == 1 {
            let since = now.saturating_sub(self.last_sync_end);
            let slice = self.clock.ticks(self.tunables.slice_sync_ms.into()).max(1);
            let depth = (since / slice).max(u64::from(queue.in_device == 0));
            most = u64::from(most).min(depth) as u32;
        }
        queue.in_device < most
    }

    /// The oldest request if it is late; looked at once in a slice (`cfq_check_fifo`).
    fn oldest_expired(&mut self, at: u32, now: u64) -> Option<Handle> {
        let queue = &mut self.queues[at as usize];
        if queue.fifo_checked {
            return None;
        }
        queue.fifo_checked = true;
        let oldest = self.requests.oldest(at)?;
        (now >= self.requests.entry(oldest).stamp).then_some(oldest)
    }

    /// `cfq_dispatch_insert` and `cfq_activate_request`.
    fn send(&mut self, at: u32, handle: Handle) -> IoRequest {
        let next = next_after(&self.requests, handle, self.last_position, self.reach());
        let request = self.requests.remove(handle);
        let queue = &mut self.queues[at as usize];
        queue.next = next;
        queue.in_device += 1;
        queue.meta -= u32::from(request.flags.meta);
        self.sync_in_device += u32::from(queue.sync);
        if self.requests.queue_is_empty(at) {
            self.leave_tree(at);
        }
        self.owner.insert(request.id, at);
        self.in_driver[usize::from(is_sync(&request))] += 1;
        self.last_position = request.end();
        request
    }

    /// `cfq_slice_used`.
    pub(super) fn slice_used(&self, at: u32, now: u64) -> bool {
        let queue = &self.queues[at as usize];
        !queue.slice_new && now >= queue.slice_end
    }

    /// `__cfq_set_active_queue`.
    fn activate(&mut self, next: Option<u32>) {
        if let Some(at) = next {
            let queue = &mut self.queues[at as usize];
            queue.slice_end = 0;
            queue.slice_requests = 0;
            queue.idling = false;
            queue.must_dispatch = false;
            queue.fifo_checked = false;
            queue.slice_new = true;
            self.idle_timer = None;
        }
        self.active = next;
    }

    /// Ends the turn of a queue (`__cfq_slice_expired`). `timed_out`: the rest of its slice, or its
    /// overrun, counts next time.
    pub(super) fn expire(&mut self, at: u32, timed_out: bool, now: u64) {
        let queue = &mut self.queues[at as usize];
        if queue.idling {
            self.idle_timer = None;
        }
        queue.idling = false;
        if timed_out && !queue.slice_new {
            queue.residual = queue.slice_end as i64 - now as i64;
        }
        if queue.due {
            self.enter_tree(at, false, now);
        }
        if self.active == Some(at) {
            self.active = None;
        }
        self.active_context = None;
    }

    /// `cfq_service_tree_add`. `in_front`: before all others of its class.
    pub(super) fn enter_tree(&mut self, at: u32, in_front: bool, now: u64) {
        let now = now as i64;
        let hz = self.clock.hz() as i64;
        // A queue that comes in counts as busy from here on.
        let busy = self.tree.len() + usize::from(!self.queues[at as usize].due);
        let queue = self.queues[at as usize];
        let key_of = |other: u32| self.queues[other as usize].key;
        let key = if queue.class == PriorityClass::Idle {
            let last = self.tree.last().filter(|&&last| last != at);
            hz / 5 + last.map_or(now, |&last| key_of(last))
        } else if in_front {
            self.tree.first().map_or(now, |&first| key_of(first)) - hz
        } else {
            let spread = self.slice(true, 0) as i64 - self.slice(queue.sync, queue.level) as i64;
            (busy as i64 - 1) * spread + now - queue.residual
        };
        if queue.due {
            self.tree.retain(|&other| other != at);
        }
        let rank = (queue.class, key);
        let place = self.tree.partition_point(|&other| {
            let other = &self.queues[other as usize];
            (other.class, other.key) <= rank
        });
        self.tree.insert(place, at);
        let queue = &mut self.queues[at as usize];
        queue.due = true;
        queue.key = key;
        if !in_front && queue.class != PriorityClass::Idle {
            queue.residual = 0;
        }
    }

    fn leave_tree(&mut self, at: u32) {
        self.queues[at as usize].due = false;
        self.tree.retain(|&other| other != at);
    }
}

/// Requests in a slice of writes (`cfq_prio_to_maxrq`).
fn slice_requests_max(base: u32, level: u32) -> u32 {
    base.saturating_add(base.saturating_mul(LEVELS - 1 - level)).saturating_mul(2)
}
