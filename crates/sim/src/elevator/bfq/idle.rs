//! Statistics of a queue, whether the device should idle for it, and which queue may be served
//! meanwhile.

use super::super::history::sample_valid;
use super::budget::{SEEK_SECTORS, SHORT_NS, SMALL_SECTORS};
use super::state::{Bfq, CLASSES, MS, Now, Queue, Reason, SECTOR};
use crate::request::{IoRequest, PriorityClass};

/// A smaller request than this is worth waiting for others to join it, sectors.
const SMALL_WAITED_SECTORS: u64 = 32;
/// A raised queue is waited for at least this long, ns.
const RAISED_IDLE_NS: u64 = 20 * MS;
/// With no more than this waiting and in the device nothing can be said about its queue
/// (`BFQ_HW_QUEUE_THRESHOLD`).
const QUEUEING_DEPTH: u32 = 3;
/// A request that comes later than this after a completion was not woken by it, ns
/// (`bfq_check_waker`).
const WAKING_NS: u64 = 4 * MS;
/// How often in a row a queue must seem to wake another one.
const WAKER_DETECTIONS: u32 = 3;
/// Completions between two judgements of that (`BFQ_HW_QUEUE_SAMPLES`).
const DEPTH_SAMPLES: u32 = 32;

impl Bfq {
    /// `bfq_update_io_thinktime`, `bfq_update_has_short_ttime`, `bfq_update_io_seektime`.
    pub(super) fn update_history(&mut self, at: u32, request: &IoRequest, now: Now) {
        let slice_idle = self.slice_idle_ns();
        let seeks = self.seeks(self.queues[at as usize].last_position, request);
        let queue = &mut self.queues[at as usize];
        if queue.in_device == 0 && !queue.busy {
            let think = if queue.last_end == 0 { u64::MAX } else { now.ns - queue.last_end };
            queue.think.update(think.min(2 * slice_idle));
        }
        if queue.sync && queue.class != PriorityClass::Idle as usize && slice_idle > 0 {
            let long = sample_valid(queue.think.samples) && queue.think.mean > slice_idle / 2;
            queue.thinks_briefly = !queue.exited && !long;
        }
        queue.seeks = queue.seeks << 1 | u32::from(seeks);
        self.end_soft_real_time_if_scattered(at, now);
    }

    /// Whether a request is far from a position, in sectors (`BFQ_RQ_SEEKY`); from none it is not.
    pub(super) fn seeks(&self, last_sector: u64, request: &IoRequest) -> bool {
        let far = last_sector > 0 && last_sector.abs_diff(request.offset / SECTOR) > SEEK_SECTORS;
        far && (self.rotational || request.len / SECTOR < SMALL_SECTORS)
    }

    /// Whether a queue is busy for four fifths of the time, over the last 200 ms or so
    /// (`bfq_update_io_intensity`).
    pub(super) fn update_io_intensity(&mut self, at: u32, now_ns: u64) {
        let queue = &mut self.queues[at as usize];
        let total = now_ns - queue.io_start;
        if queue.waiting == 0 && queue.in_device == 0 {
            queue.idle_time = queue
                .idle_time
                .saturating_add(now_ns.saturating_sub(queue.last_end.max(queue.io_start)));
        }
        if queue.just_created {
            return;
        }
        queue.io_bound = queue.idle_time.saturating_mul(5) <= total;
        if total > 200 * MS {
            queue.io_start = now_ns - total / 2;
            queue.idle_time /= 2;
        }
    }

    /// Whether shares differ, so that a queue could lose its own if others were served while it is
    /// empty (`bfq_asymmetric_scenario`).
    pub(super) fn asymmetric(&self, at: Option<u32>) -> bool {
        let lightest = self.weights.iter().map(|&(weight, _)| weight).min();
        let own = at.and_then(|at| self.queues[at as usize].counted_weight);
        let is_lightest = own.is_some() && own == lightest;
        let classes = self.busy.iter().filter(|&&busy| busy > 0).count();
        (!is_lightest && self.weights.len() > 1) || classes > 1
    }

    /// `bfq_weights_tree_add`.
    pub(super) fn count_weight(&mut self, at: u32) {
        let queue = &mut self.queues[at as usize];
        if queue.counted_weight.is_some() {
            return;
        }
        let weight = queue.entity.weight;
        queue.counted_weight = Some(weight);
        match self.weights.iter_mut().find(|(other, _)| *other == weight) {
            Some((_, count)) => *count += 1,
            None => self.weights.push((weight, 1)),
        }
    }

    /// `bfq_weights_tree_remove`.
    pub(super) fn uncount_weight(&mut self, at: u32) {
        let Some(weight) = self.queues[at as usize].counted_weight.take() else { return };
        if let Some(place) = self.weights.iter().position(|&(other, _)| other == weight) {
            self.weights[place].1 -= 1;
            if self.weights[place].1 == 0 {
                self.weights.swap_remove(place);
            }
        }
    }

    /// `bfq_add_bfqq_busy`.
    pub(super) fn enter_busy(&mut self, at: u32, now: Now) {
        let expects_more = std::mem::take(&mut self.queues[at as usize].expects_more);
        self.requeue(at, expects_more, false, now);
        let queue = &mut self.queues[at as usize];
        queue.busy = true;
        self.busy[queue.class] += 1;
        let raised = queue.raise.factor > 1;
        self.raised_busy += u32::from(raised);
        if queue.in_device == 0 && !raised {
            self.count_weight(at);
        }
    }

    /// `bfq_del_bfqq_busy`.
    pub(super) fn leave_busy(&mut self, at: u32, expiration: bool, now: Now) {
        let queue = &mut self.queues[at as usize];
        queue.busy = false;
        self.busy[queue.class] -= 1;
        self.raised_busy -= u32::from(queue.raise.factor > 1);
        self.deactivate(at, expiration, now);
        if self.queues[at as usize].in_device == 0 {
            self.uncount_weight(at);
        }
    }

    /// Whether idling for this queue raises the device's throughput
    /// (`idling_boosts_thr_without_issues`). It does on a rotating disk that takes one request at a
    /// time. For a queue with sequential I/O it does on any rotating disk, and on any device that
    /// takes one request at a time. It does not while a raised queue is busy.
    fn idling_helps(&self, at: u32) -> bool {
        let queue = &self.queues[at as usize];
        let queueing = self.device_queues.unwrap_or(true);
        let in_sequence = !queue.seeks_mostly() && queue.io_bound && queue.thinks_briefly;
        let helps =
            (self.rotational && !queueing) || ((self.rotational || !queueing) && in_sequence);
        helps && !queue.exited && self.raised_busy == 0
    }

    /// Whether a queue would lose its share otherwise (`idling_needed_for_service_guarantees`).
    pub(super) fn idling_keeps_share(&self, at: u32) -> bool {
        let queue = &self.queues[at as usize];
        if queue.exited {
            return false;
        }
        let busy = self.busy_queues();
        let raised = queue.raise.factor > 1
            && (self.raised_busy < busy || self.in_driver >= queue.in_device + 4);
        raised || self.asymmetric(Some(at)) || busy == 1
    }

    /// `bfq_better_to_idle`.
    pub(super) fn better_to_idle(&self, at: u32) -> bool {
        let queue = &self.queues[at as usize];
        if queue.exited {
            return false;
        }
        if self.tunables.strict_guarantees == 1 {
            return true;
        }
        if self.tunables.slice_idle_us == 0
            || !queue.sync
            || queue.class == PriorityClass::Idle as usize
        {
            return false;
        }
        self.idling_helps(at) || self.idling_keeps_share(at)
    }

    /// `bfq_bfqq_must_idle`.
    pub(super) fn must_idle(&self, at: u32) -> bool {
        self.requests.queue_is_empty(at) && self.better_to_idle(at)
    }

    /// `bfq_arm_slice_timer`.
    pub(super) fn start_idling(&mut self, at: u32, now: Now) {
        let mut wait = self.slice_idle_ns();
        let queue = &self.queues[at as usize];
        if queue.raise.factor > 1 {
            wait = wait.max(RAISED_IDLE_NS);
        } else if queue.seeks_mostly() && !self.asymmetric(Some(at)) {
            wait = wait.min(SHORT_NS);
        }
        self.queues[at as usize].idling = true;
        self.idle_start = now.ns;
        self.idle_timer = Some(now.ns + wait);
    }

    /// The request that was waited for is here (`bfq_rq_enqueued`). A small one alone might still
    /// grow: then the timer runs on until the queue is selected.
    pub(super) fn stop_idling(&mut self, at: u32, request: &IoRequest, now: Now) {
        let queue = &self.queues[at as usize];
        let small = queue.waiting == 1 && request.len / SECTOR < SMALL_WAITED_SECTORS;
        let timed_out = now.jiffies >= queue.budget_timeout;
        if small && self.idling_helps(at) && !timed_out {
            return;
        }
        self.queues[at as usize].idling = false;
        self.idle_timer = None;
        if timed_out {
            self.expire(at, false, Reason::BudgetTimeout, now);
        }
    }

    /// `bfq_idle_slice_timer_body`.
    pub(super) fn run_timer(&mut self, now: Now) {
        let Some(expires) = self.idle_timer.filter(|&expires| expires <= now.ns) else { return };
        self.idle_timer = None;
        let Some(at) = self.in_service else { return };
        let then = self.now(floodwall_device::Nanos(expires));
        let queue = &mut self.queues[at as usize];
        queue.idling = false;
        if then.jiffies >= queue.budget_timeout {
            self.expire(at, true, Reason::BudgetTimeout, then);
        } else if queue.waiting == 0 {
            self.expire(at, true, Reason::TooIdle, then);
        }
    }

    /// Detects whether another queue's completion woke the process of an empty queue. Three times
    /// in a row make that other queue its waker (`bfq_check_waker`).
    pub(super) fn check_waker(&mut self, at: u32, now_ns: u64) {
        let started = now_ns.saturating_sub(128 * self.slice_idle_ns());
        let since_completion = now_ns.saturating_sub(self.rate.last_completion);
        let queue = &mut self.queues[at as usize];
        let Some(last) = self.last_completed.filter(|&last| last != at) else { return };
        if queue.waiting + queue.in_device > 0
            || queue.thinks_briefly
            || since_completion >= WAKING_NS
        {
            return;
        }
        let waker = &mut queue.waker;
        if waker.tentative == Some(last) && started <= waker.since {
            waker.detections += 1;
        } else {
            (waker.tentative, waker.detections, waker.since) = (Some(last), 1, now_ns);
        }
        if waker.detections == WAKER_DETECTIONS {
            self.wakers_found += 1;
            (waker.known, waker.found, waker.tentative) = (Some(last), self.wakers_found, None);
        }
    }

    /// The queue that was last found to have `at` as its waker (the first of `woken_list`).
    fn last_woken_by(&self, at: u32) -> Option<u32> {
        let woken = (0..self.queues.len() as u32)
            .filter(|&other| self.queues[other as usize].waker.known == Some(at));
        woken.max_by_key(|&other| self.queues[other as usize].waker.found)
    }

    /// The queue that is served while the device idles for `at`. The first choice is the queue of
    /// the same process's writes, then its waker, then the queue last found to be woken by it. If
    /// `at` has a long think time, any other queue may be served with one request
    /// (`bfq_select_queue`, `bfq_choose_bfqq_for_injection`).
    pub(super) fn inject(&self, at: u32) -> Option<u32> {
        let served = &self.queues[at as usize];
        let own_writes = self.of_priority[served.priority].filter(|&writes| {
            let next = self.queues[writes as usize].next;
            next.is_some_and(|next| self.requests.request(next).process == served.process)
        });
        let waker = served.waker.known;
        let served_meanwhile = [own_writes, waker, self.last_woken_by(at)];
        if let Some(other) = served_meanwhile.into_iter().flatten().find(|&other| self.fits(other))
        {
            return Some(other);
        }
        let tolerates = !self.idling_helps(at)
            && (served.raise.factor == 1 || self.raised_busy > 1 || !served.thinks_briefly);
        let limit = u32::from(!served.thinks_briefly);
        if !tolerates || self.in_driver >= limit {
            return None;
        }
        let always = served.raise.factor == 1 || !served.thinks_briefly;
        let others = (0..CLASSES).flat_map(|class| self.trees[class].active().iter().copied());
        let mut fitting = others.filter(|&other| {
            let queue = &self.queues[other as usize];
            (always || queue.raise.factor > 1)
                && self.fits(other)
                && !self.is_large_beside_others(queue)
        });
        fitting.next()
    }

    /// Whether a queue has a request and the budget for it.
    fn fits(&self, at: u32) -> bool {
        let queue = &self.queues[at as usize];
        queue.next.is_some_and(|next| queue.busy && self.charge(at, next) <= queue.budget_left())
    }

    /// On a device that does not rotate one large request at a time is enough.
    fn is_large_beside_others(&self, queue: &Queue) -> bool {
        let sectors = queue.next.map_or(0, |next| self.requests.request(next).len / SECTOR);
        !self.rotational && sectors >= SMALL_SECTORS && self.in_driver >= 1
    }

    /// Judges from time to time whether the device takes several requests at once
    /// (`bfq_update_hw_tag`).
    pub(super) fn update_device_queues(&mut self) {
        self.depth_peak = self.depth_peak.max(self.in_driver);
        if self.device_queues == Some(true)
            || self.in_driver + self.requests.len() as u32 <= QUEUEING_DEPTH
        {
            return;
        }
        // A queue that idles may be why there are so few.
        let few = self.in_service.map(|at| &self.queues[at as usize]).is_some_and(|queue| {
            queue.thinks_briefly && queue.in_device + queue.waiting < QUEUEING_DEPTH
        });
        if few && self.in_driver < QUEUEING_DEPTH {
            return;
        }
        self.depth_samples += 1;
        if self.depth_samples <= DEPTH_SAMPLES {
            return;
        }
        self.device_queues = Some(self.depth_peak > QUEUEING_DEPTH);
        self.depth_peak = 0;
        self.depth_samples = 0;
    }

    /// The process of a queue is gone (`bfq_exit_bfqq`).
    pub(super) fn exit(&mut self, at: u32, now: Now) {
        if self.in_service == Some(at) {
            self.end_service(at, Reason::BudgetTimeout, now);
        }
        if self.queues[at as usize].busy
            && self.requests.queue_is_empty(at)
            && self.in_service != Some(at)
        {
            self.leave_busy(at, false, now);
        }
        for queue in &mut self.queues {
            queue.waker.known = queue.waker.known.filter(|&waker| waker != at);
            queue.waker.tentative = queue.waker.tentative.filter(|&waker| waker != at);
        }
        self.last_completed = self.last_completed.filter(|&last| last != at);
    }

    /// Whether a queue has more requests in all than its weight's share of the slots
    /// (`bfqq_request_over_limit`).
    pub(super) fn over_limit(&self, request: &IoRequest, limit: u32) -> bool {
        let Some(at) = self.find_queue(request) else { return false };
        let queue = &self.queues[at as usize];
        if !queue.entity.counted {
            return false;
        }
        // A queue of a lower class stands behind all those of the classes above it.
        let weights =
            self.trees[..=queue.class].iter().fold(0, |sum, tree| sum * 8 + tree.weight_sum);
        if weights == 0 {
            return false;
        }
        let share = (u64::from(limit) * queue.entity.weight + weights / 2) / weights;
        u64::from(queue.waiting + queue.in_device) >= share
    }
}
