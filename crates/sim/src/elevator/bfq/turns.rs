//! A request comes into its queue, a queue is chosen, a request goes to the device.

use super::super::pool::Handle;
use super::state::{Bfq, MS, Now, Reason, better, is_sync};
use crate::request::{IoRequest, PriorityClass};

impl Bfq {
    /// `bfq_add_request`.
    pub(super) fn add(&mut self, at: u32, request: IoRequest, now: Now) {
        let was_raised = self.queues[at as usize].raise.factor > 1;
        if self.queues[at as usize].sync {
            self.check_waker(at, now.ns);
            self.update_io_intensity(at, now.ns);
        }
        let ms = if is_sync(&request) {
            self.tunables.fifo_expire_sync_ms
        } else {
            self.tunables.fifo_expire_async_ms
        };
        let handle = self.requests.insert(at, request, now.ns + u64::from(ms) * MS);
        let before = self.queues[at as usize].next;
        let next =
            better(&self.requests, before, Some(handle), self.rate.last_position, self.reach());
        let queue = &mut self.queues[at as usize];
        queue.waiting += 1;
        queue.next = next;
        let mut interactive = false;
        if queue.busy {
            self.raise_busy_writer(at, is_sync(&request), now);
            if before != next {
                self.next_changed(at, now);
            }
        } else {
            interactive = self.becomes_busy(at, now);
        }
        let queue = &mut self.queues[at as usize];
        if self.tunables.low_latency == 1 && (!was_raised || queue.raise.factor == 1 || interactive)
        {
            queue.raise.since = now.jiffies;
        }
    }

    /// An idle queue has a request again (`bfq_bfqq_handle_idle_busy_switch`). Returns whether it
    /// counts as interactive.
    fn becomes_busy(&mut self, at: u32, now: Now) -> bool {
        let in_time = now.ns <= self.queues[at as usize].last_end + 3 * self.slice_idle_ns();
        let merits = self.merits(at, now);
        let recovers = self.budget_for_activation(at, in_time);
        let queue = &mut self.queues[at as usize];
        if !queue.just_created
            && merits.idle_for_long
            && now.jiffies > queue.budget_timeout + self.clock.ticks(10_000)
        {
            queue.in_large_burst = false;
            self.burst.members.retain(|&member| member != at);
        }
        let queue = &mut self.queues[at as usize];
        queue.just_created = false;
        if self.low_latency() {
            self.raise_on_arrival(at, merits, now);
        }
        let queue = &mut self.queues[at as usize];
        queue.raise.backlogged_since = now.jiffies;
        queue.raise.service_from_backlogged = 0;
        queue.raise.update_when_done = false;
        self.enter_busy(at, now);
        if let Some(served) = self.in_service {
            let (new, old) = (&self.queues[at as usize], &self.queues[served as usize]);
            let recovers = recovers && new.raise.factor >= old.raise.factor;
            // bfq_bfqq_higher_class_or_weight: weights count among classes, too.
            let outranks = new.class < old.class || new.entity.weight > old.entity.weight;
            let pushes = recovers || outranks || !self.better_to_idle(served);
            if pushes && self.next_in_service != self.entity_in_service {
                self.expire(served, false, Reason::Preempted, now);
            }
        }
        merits.interactive
    }

    /// Takes a request out of its queue (`bfq_dispatch_rq_from_bfqq`, `bfq_remove_request`).
    pub(super) fn send(&mut self, at: u32, handle: Handle, now: Now) -> IoRequest {
        let charge = self.charge(at, handle);
        self.serve(at, charge);
        let request = *self.requests.request(handle);
        self.queues[at as usize].in_device += 1;
        let served = self.in_service == Some(at);
        self.update_peak_rate(&request, now.ns);
        let next = self.next_after(at, handle, now.ns);
        self.queues[at as usize].next = next;
        self.requests.remove(handle);
        let queue = &mut self.queues[at as usize];
        queue.waiting -= 1;
        if queue.waiting > 0 {
            self.next_changed(at, now);
        } else if queue.busy && !served {
            self.leave_busy(at, false, now);
            let entity = &mut self.queues[at as usize].entity;
            entity.budget = 0;
            entity.service = 0;
        }
        self.owner.insert(request.id, at);
        self.in_driver += 1;
        if served {
            self.update_raise(at, now);
            if self.busy_queues() > 1
                && self.queues[at as usize].class == PriorityClass::Idle as usize
            {
                self.expire(at, false, Reason::BudgetExhausted, now);
            }
        }
        request
    }

    /// The request to follow: the oldest if it is late (looked at once in a turn), else what suits
    /// the head (`bfq_find_next_rq`).
    fn next_after(&mut self, at: u32, last: Handle, now_ns: u64) -> Option<Handle> {
        let queue = &mut self.queues[at as usize];
        if !queue.fifo_checked {
            queue.fifo_checked = true;
            let oldest = self.requests.oldest(at).filter(|&oldest| oldest != last);
            if let Some(late) = oldest.filter(|&oldest| now_ns >= self.requests.entry(oldest).stamp)
            {
                return Some(late);
            }
        }
        let head = self.requests.request(last).offset;
        let next = self
            .requests
            .next(last)
            .or_else(|| self.requests.first(at).filter(|&first| first != last));
        better(&self.requests, next, self.requests.previous(last), head, self.reach())
    }

    /// The queue whose request goes next (`bfq_select_queue`).
    pub(super) fn select(&mut self, now: Now) -> Option<u32> {
        let timed_out =
            |at: &u32| self.may_expire_for_time(*at, now.jiffies) && !self.must_idle(*at);
        let mut served = self.in_service;
        if let Some(at) = served.filter(timed_out) {
            self.expire(at, false, Reason::BudgetTimeout, now);
            served = None;
        }
        loop {
            let at = match served {
                Some(at) => at,
                None => self.start_service(now)?,
            };
            let queue = self.queues[at as usize];
            let reason = match queue.next {
                Some(next) if self.charge(at, next) <= queue.budget_left() => {
                    self.queues[at as usize].idling = false;
                    self.idle_timer = None;
                    return Some(at);
                }
                Some(_) => Reason::BudgetExhausted,
                None if queue.idling || (queue.in_device > 0 && self.better_to_idle(at)) => {
                    return self.inject(at);
                }
                None => Reason::NoMoreRequests,
            };
            self.expire(at, false, reason, now);
            served = None;
        }
    }
}
