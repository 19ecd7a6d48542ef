//! Waiting for the next request of a process: whether it pays, for how long, and the history of
//! processes that decides it.

use super::{Anticipation, Anticipatory, SECTOR, is_sync};
use crate::elevator::pool::Handle;
use crate::request::{IoRequest, ProcessId};

const fn decay(value: u64) -> u64 {
    7 * value / 8
}

const fn grow(value: u64) -> u64 {
    (7 * value + 256) / 8
}

impl Anticipatory {
    /// `as_can_anticipate`: whether to wait for something better than `next`.
    pub(super) fn can_anticipate(&mut self, next: Option<Handle>, now: u64) -> bool {
        let Some(process) = self.anticipated else { return false };
        self.anticipation != Anticipation::Finished
            && !self.can_break_anticipation(process, next, now)
    }

    /// `as_antic_waitreq`: the time runs from the completion of the request after which to wait.
    pub(super) fn anticipate(&mut self) {
        if self.anticipation == Anticipation::Off {
            self.anticipation = if self.anticipated_done {
                Anticipation::WaitNext(self.antic_start + self.antic_expire())
            } else {
                Anticipation::WaitRequest
            };
        }
    }

    /// Whether waiting for `process` is over, or would not pay (`as_can_break_anticipation`).
    pub(super) fn can_break_anticipation(
        &mut self,
        process: ProcessId,
        candidate: Option<Handle>,
        now: u64,
    ) -> bool {
        let candidate = candidate.map(|candidate| *self.queues.request(candidate));
        if candidate.is_some_and(|candidate| candidate.process == process) {
            return true;
        }
        let antic_expire = self.antic_expire();
        if self.anticipated_done && now - self.antic_start >= antic_expire {
            return true;
        }
        let at = self.context(process);
        let context = self.context_list[at];
        if context.queued > 0 {
            return true;
        }
        if let Some(close) = candidate.filter(|candidate| self.is_close(at, candidate, now)) {
            if context.exited {
                if context.think.samples == 0 {
                    self.newcomers.exit_probability = grow(self.newcomers.exit_probability);
                }
                self.newcomers.exit_no_cooperation = decay(self.newcomers.exit_no_cooperation);
            }
            self.update_history(at, &close, now);
            return true;
        }
        if context.exited {
            if context.think.samples == 0 {
                self.newcomers.exit_probability = grow(self.newcomers.exit_probability);
            }
            if self.newcomers.exit_no_cooperation > 128 {
                return true;
            }
        }
        if context.think.samples == 0 {
            return self.newcomers.think_mean > antic_expire
                || self.newcomers.exit_probability * self.newcomers.exit_no_cooperation
                    > 128 * 256;
        }
        context.think.mean > antic_expire
    }

    /// Whether a synchronous request is as good as one of the process that is waited for
    /// (`as_close_req`): the longer the wait, the farther it may be.
    fn is_close(&self, context: usize, candidate: &IoRequest, now: u64) -> bool {
        if !is_sync(candidate) {
            return false;
        }
        let delay = if self.anticipation == Anticipation::Off || !self.anticipated_done {
            0
        } else if self.old {
            self.clock.to_ms(now - self.antic_start)
        } else {
            now - self.antic_start
        };
        let longest = if self.old { 20 } else { 20 * self.clock.hz() / 1000 };
        // The kernel compares milliseconds with jiffies here.
        if delay > 0 && (delay > longest || delay > self.antic_expire()) {
            return true;
        }
        let (last, next) = (self.last_end[self.batch_class] / SECTOR, candidate.offset / SECTOR);
        let delta = 8192_u64 << delay;
        if last <= next + (delta >> 1) && next <= last + delta {
            return true;
        }
        let seek = &self.context_list[context].seek;
        let expected = if seek.samples == 0 { self.newcomers.seek_mean } else { seek.mean };
        expected > last.abs_diff(next)
    }

    /// `as_update_iohist`.
    pub(super) fn update_history(&mut self, context: usize, request: &IoRequest, now: u64) {
        if !is_sync(request) {
            return;
        }
        let longest = (self.clock.hz() / 50).saturating_sub(1);
        let newcomers = &mut self.newcomers;
        let context = &mut self.context_list[context];
        if context.running || context.started {
            let thinks = context.running && context.queued == 0;
            let think = if thinks { (now - context.last_end).min(longest) } else { 0 };
            if context.think.samples == 0 {
                newcomers.think_total = (7 * newcomers.think_total + 256 * think) / 8;
                newcomers.think_mean = newcomers.think_total / 256;
                newcomers.exit_probability = decay(newcomers.exit_probability);
            }
            context.think.update(think);
            let distance = context.last_position.abs_diff(request.offset / SECTOR);
            if context.seek.samples == 0 {
                newcomers.seek_total = (7 * newcomers.seek_total + 256 * distance) / 8;
                newcomers.seek_mean = newcomers.seek_total / 256;
            }
            context.seek.update(distance);
        }
        context.last_position = request.end() / SECTOR;
        context.started = true;
    }

    /// `as_antic_stop`.
    pub(super) const fn stop_anticipating(&mut self) {
        if matches!(self.anticipation, Anticipation::WaitRequest | Anticipation::WaitNext(_)) {
            self.anticipation = Anticipation::Finished;
        }
    }

    /// `as_antic_timeout`.
    pub(super) fn run_timer(&mut self, now: u64) {
        let Anticipation::WaitNext(expires) = self.anticipation else { return };
        if now < expires {
            return;
        }
        self.anticipation = Anticipation::Finished;
        let Some(process) = self.anticipated else { return };
        let at = self.context(process);
        if self.context_list[at].think.samples == 0 {
            self.newcomers.exit_probability = grow(self.newcomers.exit_probability);
        }
        if self.context_list[at].exited {
            self.newcomers.exit_no_cooperation = grow(self.newcomers.exit_no_cooperation);
        }
    }
}
