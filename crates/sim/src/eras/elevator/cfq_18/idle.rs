//! Idling for a reader, the conditions under which that pays, and preemption.

use super::{Cfq18, SECTOR};
use crate::elevator::history::sample_valid;
use crate::request::{IoRequest, PriorityClass};

/// A process whose mean seek is longer than this many sectors seeks (`CIC_SEEKY`).
const SEEKY_SECTORS: u64 = 128 * 1024;
/// For such a process an idle wait is no longer than this, ms.
const SEEKY_IDLE_MS: u64 = 2;

impl Cfq18 {
    /// Keeps the turn of an empty queue for a while (`cfq_arm_slice_timer`).
    pub(super) fn start_idling(&mut self, at: u32, now: u64) -> bool {
        let mut wait = self.slice_idle();
        if wait == 0 || !self.queues[at as usize].idle_window {
            return false;
        }
        let Some(context) = self.active_context.map(|context| self.context_list[context as usize])
        else {
            return false;
        };
        if context.exited {
            return false;
        }
        if sample_valid(context.seek.samples) && context.seek.mean > SEEKY_SECTORS {
            wait = wait.min(self.clock.ticks(SEEKY_IDLE_MS));
        }
        let queue = &mut self.queues[at as usize];
        queue.must_dispatch = true;
        queue.idling = true;
        self.idle_timer = Some(now + wait);
        true
    }

    /// `cfq_idle_slice_timer`.
    pub(super) fn run_timer(&mut self, now: u64) {
        let Some(expires) = self.idle_timer.filter(|&expires| expires <= now) else { return };
        self.idle_timer = None;
        let Some(at) = self.active else { return };
        if expires <= self.queues[at as usize].slice_end {
            if self.queues.iter().all(|queue| queue.list.is_none()) {
                return;
            }
            if !self.requests.queue_is_empty(at) {
                self.queues[at as usize].must_dispatch = true;
                return;
            }
        }
        self.expire(at, false, expires);
    }

    /// `cfq_update_io_thinktime`, `cfq_update_io_seektime`, `cfq_update_idle_window`.
    pub(super) fn update_history(
        &mut self,
        at: u32,
        context: usize,
        request: &IoRequest,
        now: u64,
    ) {
        let slice_idle = self.slice_idle();
        let context = &mut self.context_list[context];
        context.think.update((now - context.last_end).min(2 * slice_idle));
        context.seek.update(context.last_position.abs_diff(request.offset / SECTOR));
        context.last_position = request.end() / SECTOR;
        let seeks = context.seek.mean > SEEKY_SECTORS;
        let idle_window = &mut self.queues[at as usize].idle_window;
        if context.exited || slice_idle == 0 || (self.device_queues && seeks) {
            *idle_window = false;
        } else if sample_valid(context.think.samples) {
            *idle_window = context.think.mean <= slice_idle;
        }
    }

    /// `cfq_should_preempt`.
    pub(super) fn should_preempt(&self, at: u32) -> bool {
        let Some(active) = self.active.map(|active| self.queues[active as usize]) else {
            return false;
        };
        let new = self.queues[at as usize];
        if new.class == PriorityClass::Idle {
            return false;
        }
        active.class == PriorityClass::Idle
            || (new.idling && new.slice_left >= self.slice_idle() && !active.sync)
    }

    /// `cfq_preempt_queue`.
    pub(super) fn preempt(&mut self, at: u32, now: u64) {
        for other in self.current.clone() {
            self.enter_list(other, true);
        }
        if let Some(active) = self.active {
            self.expire(active, true, now);
        }
        self.activate(Some(at));
        self.queues[at as usize].must_dispatch = true;
    }
}
