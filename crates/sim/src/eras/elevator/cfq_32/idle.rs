//! Idling for a process, the conditions under which that pays, and preemption.

use super::{Cfq32, PAGE, SECTOR, SEEKY_SECTORS, is_sync};
use crate::elevator::history::sample_valid;
use crate::request::{IoRequest, PriorityClass};

/// For a queue that seeks an idle wait is no longer than this, ms (`CFQ_MIN_TT`).
const SEEKY_IDLE_MS: u64 = 2;
/// Fewer waiting and fewer in the device say nothing about whether it queues (`CFQ_HW_QUEUE_MIN`).
const QUEUEING_DEPTH: u32 = 5;
/// Completions between two judgements of that.
const DEPTH_SAMPLES: u32 = 50;

impl Cfq32 {
    /// What a new request changes (`cfq_rq_enqueued`).
    pub(super) fn enqueued(&mut self, at: u32, context: usize, request: &IoRequest, now: u64) {
        self.queues[at as usize].meta += u32::from(request.flags.meta);
        self.update_history(at, context, request, now);
        if self.active == Some(at) {
            let queue = &mut self.queues[at as usize];
            if queue.idling {
                // A small request alone might still grow: the wait goes on, but the queue will be
                // served before its turn ends.
                if request.len > PAGE || self.tree.len() > 1 {
                    self.idle_timer = None;
                }
                queue.must_dispatch = true;
            }
        } else if self.should_preempt(at, request, now) {
            self.preempt(at, now);
        }
    }

    /// `cfq_update_io_thinktime`, `cfq_update_io_seektime`, `cfq_update_idle_window`.
    fn update_history(&mut self, at: u32, context: usize, request: &IoRequest, now: u64) {
        let slice_idle = self.slice_idle();
        let seeky_idle = self.clock.ticks(SEEKY_IDLE_MS);
        let context = &mut self.context_list[context];
        context.think.update((now - context.last_end).min(2 * slice_idle));
        let queue = &mut self.queues[at as usize];
        let position = request.offset / SECTOR;
        let jump =
            if context.last_position == 0 { 0 } else { context.last_position.abs_diff(position) };
        context.seek.update(jump);
        context.last_position = request.end() / SECTOR;
        let context = *context;
        let distance =
            if queue.last_position == 0 { 0 } else { queue.last_position.abs_diff(position) };
        queue.seek.update(distance);
        if queue.shared {
            let since = if queue.seeky_since == 0 { now } else { queue.seeky_since };
            queue.seeky_since = if queue.seeks() { since } else { 0 };
        }
        queue.last_position = request.end() / SECTOR;
        if !queue.sync || queue.class == PriorityClass::Idle {
            return;
        }
        let low_latency = self.tunables.low_latency == 1;
        if context.exited
            || slice_idle == 0
            || (!low_latency && self.device_queues && context.seek.mean > SEEKY_SECTORS)
        {
            queue.idle_window = false;
        } else if sample_valid(context.think.samples) {
            queue.idle_window =
                context.think.mean <= if context.seeks() { seeky_idle } else { slice_idle };
        }
    }

    /// Keeps the turn of an empty queue for a while (`cfq_arm_slice_timer`).
    pub(super) fn start_idling(&mut self, at: u32, now: u64) {
        if !self.rotational && self.device_queues {
            return;
        }
        let mut wait = self.slice_idle();
        let queue = &self.queues[at as usize];
        if wait == 0 || !queue.idle_window || self.in_driver[0] + self.in_driver[1] > 0 {
            return;
        }
        let Some(context) = self.active_context.map(|context| self.context_list[context as usize])
        else {
            return;
        };
        let left = queue.slice_end.saturating_sub(now);
        if context.exited || (sample_valid(context.think.samples) && left < context.think.mean) {
            return;
        }
        if context.seeks() {
            wait = wait.min(self.clock.ticks(SEEKY_IDLE_MS));
        }
        self.queues[at as usize].idling = true;
        self.idle_timer = Some(now + wait);
    }

    /// `cfq_idle_slice_timer`.
    pub(super) fn run_timer(&mut self, now: u64) {
        let Some(expires) = self.idle_timer.filter(|&expires| expires <= now) else { return };
        self.idle_timer = None;
        let Some(at) = self.active else { return };
        if self.queues[at as usize].must_dispatch {
            return;
        }
        let in_slice = !self.slice_used(at, expires);
        if in_slice && (self.tree.is_empty() || !self.requests.queue_is_empty(at)) {
            return;
        }
        self.expire(at, false, expires);
    }

    /// `cfq_should_preempt`.
    fn should_preempt(&self, at: u32, request: &IoRequest, now: u64) -> bool {
        let Some(active_at) = self.active else { return false };
        if self.slice_used(active_at, now) {
            return true;
        }
        let (active, new) = (&self.queues[active_at as usize], &self.queues[at as usize]);
        if new.class == PriorityClass::Idle {
            return false;
        }
        if active.class == PriorityClass::Idle
            || (is_sync(request) && !active.sync)
            || (request.flags.meta && active.meta == 0)
            || (new.class == PriorityClass::RealTime && active.class != PriorityClass::RealTime)
        {
            return true;
        }
        // As good as what the active queue idles for.
        self.active_context.is_some() && active.idling && self.is_close(active_at, request.offset)
    }

    /// `cfq_preempt_queue`.
    fn preempt(&mut self, at: u32, now: u64) {
        if let Some(active) = self.active {
            self.expire(active, true, now);
        }
        self.enter_tree(at, true, now);
        let queue = &mut self.queues[at as usize];
        queue.slice_end = 0;
        queue.slice_new = true;
    }

    /// Judges from time to time whether the device takes several requests at once
    /// (`cfq_update_hw_tag`).
    pub(super) fn update_device_queues(&mut self) {
        let in_driver = self.in_driver[0] + self.in_driver[1];
        self.depth_peak = self.depth_peak.max(in_driver);
        if self.requests.len() <= QUEUEING_DEPTH as usize && in_driver <= QUEUEING_DEPTH {
            return;
        }
        self.depth_samples += 1;
        if self.depth_samples <= DEPTH_SAMPLES {
            return;
        }
        self.device_queues = self.depth_peak >= QUEUEING_DEPTH;
        self.depth_samples = 0;
        self.depth_peak = 0;
    }
}
