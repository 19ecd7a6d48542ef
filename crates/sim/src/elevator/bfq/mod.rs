//! BFQ: each process has a budget of sectors, and weights decide which process spends its budget
//! next (`block/bfq-iosched.c`, `block/bfq-wf2q.c`, 6.x).
//!
//! ```text
//! insert ─▶ synchronous: the process's queue
//!           asynchronous: one queue for each priority class and level
//!           queue was idle? new budget, weight raised? ─▶ into the tree of its class;
//!           push aside who is served?
//! select:   the eligible queue (start <= virtual time) with the earliest finish;
//!           served until its budget, its time (timeout_sync) or its requests are used up
//! charge:   sectors; asynchronous ones count three times;
//!           a slow queue is charged for its time instead
//! idle:     an empty synchronous queue keeps the device for slice_idle
//!           if that helps throughput or if its share would suffer;
//!           meanwhile those are served whose completions wake its process
//! ```
//!
//! | file | part |
//! |---|---|
//! | `state` | queues, and what the elevator knows |
//! | `turns` | a request comes in, a queue is chosen, a request goes out |
//! | `service`, `tree` | B-WF2Q+: virtual times, trees of active and idle queues |
//! | `budget`, `peak_rate` | budgets, charging, expiration, the device's peak rate |
//! | `idle` | what is remembered of a queue, whether and how long to idle, injection |
//! | `raise`, `raised` | weight raising of interactive and soft real-time queues, bursts |
//!
//! Units: service and budgets in sectors of 512 bytes, virtual time in sectors `<< 22` by weight.
//! Times are in jiffies where the kernel uses them and in nanoseconds elsewhere. Rates are in
//! sectors per µs `<< 16`.
//!
//! Levels are weights (`weight_of`). With `CONFIG_BFQ_GROUP_IOSCHED` weights also share out the
//! request slots (`bfqq_request_over_limit`). A kernel without it enforces no share: a flood's
//! asynchronous writes may fill all their slots. Nothing else differs between the two if all
//! processes are in one control group.
//!
//! Left out: control groups, several actuators, merging of cooperating queues (close and stable),
//! and adaptation of the injection limit. That limit keeps the kernel's start value: 0 for a queue
//! that thinks briefly and 1 for others. The kernel shares a device out by `io.bfq.weight` first,
//! and by level within a group. `settings::check_groups` refuses levels beside groups.

mod budget;
mod idle;
mod peak_rate;
mod raise;
mod raised;
mod service;
mod state;
#[cfg(test)]
mod tests;
mod tree;
mod turns;

use floodwall_device::{Nanos, Op};

use super::sorted::{Leaving, Rules};
use super::tunable::{bare_name, parse, unknown};
use super::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, ProcessId};
use state::{Reason, SECTOR, better, is_sync};

pub use state::{Bfq, BfqTunables};

impl Elevator for Bfq {
    fn name(&self) -> &'static str {
        "bfq"
    }

    /// Only within the bio's own queue (`bfq_allow_bio_merge`).
    fn merge(&mut self, now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        let own = self.find_queue(bio)?;
        let (now, reach) = (self.now(now), self.reach());
        let before = self.queues[own as usize].next;
        let Self { requests, queues, rate, .. } = self;
        let queue = &mut queues[own as usize];
        let mut moved = None;
        let merge = requests.merge(
            bio,
            Rules { max_bytes, front: Some(own), same_class: true },
            |entry| entry.queue == own,
            |requests, handle, leaving| {
                moved = (leaving == Leaving::Moves).then_some(handle);
                if leaving == Leaving::Absorbed {
                    queue.waiting -= 1;
                    if queue.next == Some(handle) {
                        queue.next = requests.previous(handle);
                    }
                }
            },
        );
        if let Some(handle) = moved {
            queue.next = better(requests, queue.next, Some(handle), rate.last_position, reach);
        }
        if self.queues[own as usize].next != before {
            self.next_changed(own, now);
        }
        merge
    }

    /// `bfq_insert_request`.
    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let now = self.now(now);
        self.run_timer(now);
        let at = self.queue(&request, now);
        if self.queues[at as usize].just_created && (self.burst.size > 0 || self.busy_queues() == 0)
        {
            self.watch_burst(at, now.jiffies);
        }
        self.update_history(at, &request, now);
        self.add(at, request, now);
        self.queues[at as usize].last_position = request.end() / SECTOR;
        if self.in_service == Some(at) && self.queues[at as usize].idling {
            self.stop_idling(at, &request, now);
        }
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        let now = self.now(now);
        self.run_timer(now);
        if self.requests.len() == 0 {
            return Dispatch::Empty;
        }
        if self.tunables.strict_guarantees == 1 && self.in_driver > 0 {
            return Dispatch::Wait;
        }
        let chosen = self.select(now).and_then(|at| Some((at, self.queues[at as usize].next?)));
        if let Some((at, handle)) = chosen {
            return Dispatch::Request(self.send(at, handle, now));
        }
        match self.idle_timer {
            Some(expires) => Dispatch::Hold(Nanos(expires)),
            None => Dispatch::Wait,
        }
    }

    /// `bfq_finish_requeue_request`, `bfq_completed_request`.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        let Some(at) = self.owner.remove(request.id) else { return };
        let now = self.now(now);
        self.run_timer(now);
        self.update_device_queues();
        self.in_driver = self.in_driver.saturating_sub(1);
        let queue = &mut self.queues[at as usize];
        queue.in_device = queue.in_device.saturating_sub(1);
        queue.last_end = now.ns;
        if queue.in_device == 0 && !queue.busy {
            queue.budget_timeout = now.jiffies;
            self.uncount_weight(at);
        }
        self.rate_on_completion(now.ns);
        self.last_completed = Some(at);
        self.note_end_of_batch(at, now.jiffies);
        if self.in_service != Some(at) {
            return;
        }
        if self.must_idle(at) {
            if self.queues[at as usize].in_device == 0 {
                self.start_idling(at, now);
            }
        } else if self.may_expire_for_time(at, now.jiffies) {
            self.expire(at, false, Reason::BudgetTimeout, now);
        } else if self.requests.queue_is_empty(at)
            && (self.queues[at as usize].in_device == 0 || !self.better_to_idle(at))
        {
            self.expire(at, false, Reason::NoMoreRequests, now);
        }
    }

    fn process_exited(&mut self, now: Nanos, process: ProcessId) {
        let now = self.now(now);
        self.run_timer(now);
        for at in 0..self.queues.len() as u32 {
            let queue = &mut self.queues[at as usize];
            if queue.sync && queue.process == process && !queue.exited {
                queue.exited = true;
                self.exit(at, now);
            }
        }
    }

    /// `bfq_limit_depth`, `bfq_update_depths`: shares for what is not a synchronous read, and one
    /// slot for a queue that has more than its weight's share (in a kernel with
    /// `CONFIG_BFQ_GROUP_IOSCHED`).
    fn depth_limit(&self, request: &IoRequest, nr_requests: u32) -> u32 {
        let raised = self.raised_busy > 0;
        let limit = match (request.is_read(), is_sync(request)) {
            (true, _) => nr_requests,
            (_, true) if raised => (nr_requests * 6 / 16).max(1),
            (_, true) => (nr_requests * 3 / 4).max(1),
            (_, false) if raised => (nr_requests * 3 / 16).max(1),
            (_, false) => (nr_requests / 2).max(1),
        };
        if self.groups && self.over_limit(request, limit) { 1 } else { limit }
    }

    fn len(&self) -> usize {
        self.requests.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        match bare_name(name) {
            "slice_idle" => {
                let ms = parse("bfq", "slice_idle", value, 0, i64::from(u32::MAX / 1000))?;
                self.tunables.slice_idle_us = ms as u32 * 1000;
                return Ok(());
            }
            bare if BfqTunables::NAMES.contains(&bare) => self.tunables.set(bare, value)?,
            bare => {
                let mut known = BfqTunables::NAMES.to_vec();
                known.push("slice_idle");
                return Err(unknown("bfq", bare, &known));
            }
        }
        self.tunable_was_set(bare_name(name));
        Ok(())
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        let mut list = self.tunables.list();
        list.push(("slice_idle", (self.tunables.slice_idle_us / 1000).to_string()));
        list
    }
}
