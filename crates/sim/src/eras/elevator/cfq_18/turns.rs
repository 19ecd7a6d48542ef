//! The order of turns, and how a queue sends its requests.

use std::collections::VecDeque;

use super::{Cfq18, LEVELS, List};
use crate::elevator::pool::Handle;
use crate::request::{IoRequest, PriorityClass};

impl Cfq18 {
    /// `cfq_dispatch_requests`: fills the dispatch list.
    pub(super) fn fill(&mut self, now: u64) {
        let mut previous = None;
        while let Some(at) = self.select(now) {
            if previous == Some(at) {
                break;
            }
            let queue = &mut self.queues[at as usize];
            queue.must_dispatch = false;
            queue.idling = false;
            self.idle_timer = None;
            let most = if queue.class == PriorityClass::Idle { 1 } else { self.tunables.quantum };
            self.send_from(at, most, now);
            if self.queues[at as usize].idle_window && self.active.is_some() {
                break;
            }
            previous = Some(at);
        }
    }

    /// `cfq_select_queue`.
    fn select(&mut self, now: u64) -> Option<u32> {
        if let Some(at) = self.active {
            let queue = self.queues[at as usize];
            let used_up = !queue.must_dispatch && now > queue.slice_end;
            if !used_up {
                if !self.requests.queue_is_empty(at) {
                    return Some(at);
                }
                let idles = queue.idling && self.idle_timer.is_some();
                if queue.in_device > 0 || idles || (queue.sync && self.start_idling(at, now)) {
                    return None;
                }
            }
            self.expire(at, false, now);
        }
        let next = self.next_turn(now);
        self.activate(next);
        next
    }

    /// `cfq_set_active_queue`.
    fn next_turn(&mut self, now: u64) -> Option<u32> {
        if self.current.is_empty() {
            self.next_level();
        }
        self.current.front().or_else(|| self.busy.front()).copied().or_else(|| {
            let silent = now >= self.idle_class_from();
            self.idle.front().copied().filter(|_| silent)
        })
    }

    /// When the idle class may be served (`CFQ_IDLE_GRACE`), jiffies.
    pub(super) const fn idle_class_from(&self) -> u64 {
        self.last_end + self.clock.hz() / 10
    }

    /// Moves the next level that has queues to `current` (`cfq_get_next_prio_level`): 0; 0, 1; 0,
    /// 1, 2; and so on.
    fn next_level(&mut self) {
        let mut wrapped = false;
        let found = loop {
            let found =
                (self.level..=self.last_level).find(|&level| !self.levels[level].is_empty());
            if found.is_some() {
                break found;
            }
            self.level = 0;
            self.last_level += 1;
            if self.last_level == LEVELS {
                self.last_level = 0;
                if wrapped {
                    break None;
                }
                wrapped = true;
            }
        };
        let Some(level) = found else { return };
        while let Some(at) = self.levels[level].pop_front() {
            self.queues[at as usize].list = Some(List::Current);
            self.current.push_back(at);
        }
        self.level = level + 1;
        if self.level > self.last_level {
            self.last_level = self.level;
            self.level = 0;
        }
        if self.last_level == LEVELS {
            self.level = 0;
            self.last_level = 0;
        }
    }

    /// `__cfq_set_active_queue`.
    pub(super) fn activate(&mut self, queue: Option<u32>) {
        if let Some(at) = queue {
            let queue = &mut self.queues[at as usize];
            queue.slice_end = 0;
            queue.slice_left = 0;
            queue.fifo_checked = false;
        }
        self.active = queue;
    }

    /// `__cfq_dispatch_requests`.
    fn send_from(&mut self, at: u32, most: u32, now: u64) {
        let mut sent = 0;
        while sent < most {
            let Some(handle) = self.oldest_expired(at, now).or(self.queues[at as usize].next)
            else {
                break;
            };
            let process = self.requests.request(handle).process;
            self.send(at, handle);
            self.slice_requests += 1;
            sent += 1;
            if self.active_context.is_none() {
                self.active_context = Some(self.context(process, now) as u32);
            }
        }
        let queue = self.queues[at as usize];
        if queue.slice_end == 0 {
            self.queues[at as usize].slice_end = now + self.slice(&queue);
        }
        let writes_done = !queue.sync && self.slice_requests >= self.slice_requests_max(&queue);
        if (writes_done || queue.class == PriorityClass::Idle || !queue.idle_window)
            && self.active == Some(at)
        {
            self.expire(at, false, now);
        }
    }

    /// The oldest request if it is late; one in a slice (`cfq_check_fifo`).
    fn oldest_expired(&mut self, at: u32, now: u64) -> Option<Handle> {
        let queue = &mut self.queues[at as usize];
        if queue.fifo_checked {
            return None;
        }
        let oldest = self.requests.oldest(at)?;
        let ms = if queue.sync {
            self.tunables.fifo_expire_sync_ms
        } else {
            self.tunables.fifo_expire_async_ms
        };
        let late = now > self.requests.entry(oldest).stamp + self.clock.ticks(ms.into());
        queue.fifo_checked = late;
        late.then_some(oldest)
    }

    /// Takes a request out of its queue into the dispatch list (`cfq_dispatch_insert`).
    fn send(&mut self, at: u32, handle: Handle) {
        let next = self.requests.next_for_head(handle, self.last_position, self.reach());
        let request = self.requests.remove(handle);
        let queue = &mut self.queues[at as usize];
        queue.next = next;
        queue.in_device += 1;
        if self.requests.queue_is_empty(at) {
            self.leave_list(at);
        }
        self.owner.insert(request.id, at);
        self.sort_for_driver(request);
        self.last_position = self.sent.back().map_or(self.last_position, IoRequest::end);
    }

    /// One way from the driver's position on, then from the start (`elv_dispatch_sort`).
    pub(super) fn sort_for_driver(&mut self, request: IoRequest) {
        let boundary = self.driver_position;
        let ahead = |position: u64| position >= boundary;
        let at = self.sent.iter().rposition(|before| {
            match (ahead(request.offset), ahead(before.offset)) {
                (true, false) => false,
                (false, true) => true,
                _ => request.offset >= before.offset,
            }
        });
        self.sent.insert(at.map_or(0, |at| at + 1), request);
    }

    /// Ends the turn of a queue (`__cfq_slice_expired`).
    pub(super) fn expire(&mut self, at: u32, preempted: bool, now: u64) {
        let queue = &mut self.queues[at as usize];
        if queue.idling {
            self.idle_timer = None;
        }
        if !preempted && queue.in_device == 0 {
            queue.last_served = now;
        }
        queue.must_dispatch = false;
        queue.idling = false;
        queue.slice_left = queue.slice_end.saturating_sub(now);
        if queue.list.is_some() {
            self.enter_list(at, preempted);
        }
        if self.active == Some(at) {
            self.active = None;
        }
        self.active_context = None;
        self.slice_requests = 0;
    }

    fn list_mut(&mut self, list: List) -> &mut VecDeque<u32> {
        match list {
            List::Level(level) => &mut self.levels[level],
            List::Current => &mut self.current,
            List::Busy => &mut self.busy,
            List::Idle => &mut self.idle,
        }
    }

    pub(super) fn leave_list(&mut self, at: u32) {
        if let Some(list) = self.queues[at as usize].list.take() {
            self.list_mut(list).retain(|&other| other != at);
        }
    }

    /// Puts a queue where its next turn comes (`cfq_resort_rr_list`): in front if it was pushed
    /// aside, else by when it was last served.
    pub(super) fn enter_list(&mut self, at: u32, preempted: bool) {
        self.leave_list(at);
        let queue = self.queues[at as usize];
        let list = match queue.class {
            PriorityClass::RealTime => List::Current,
            PriorityClass::Idle => List::Idle,
            PriorityClass::BestEffort if queue.in_device > 0 => List::Busy,
            PriorityClass::BestEffort => List::Level(queue.level),
        };
        self.queues[at as usize].list = Some(list);
        if preempted {
            self.list_mut(list).push_front(at);
            return;
        }
        let mut members = std::mem::take(self.list_mut(list));
        let before = members.iter().rposition(|&other| {
            let other = self.queues[other as usize].last_served;
            list == List::Busy || other == 0 || other < queue.last_served
        });
        members.insert(before.map_or(0, |before| before + 1), at);
        *self.list_mut(list) = members;
    }
}
