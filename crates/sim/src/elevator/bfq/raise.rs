//! Weight raising (`low_latency`): a queue that comes back after a long pause, or that behaves like
//! a player, weighs thirty times as much for a while.
//!
//! ```text
//! idle for 2 s ─▶ interactive: × 30 until 3 to 25 s have passed
//!                 (the slower the device, the longer) or 120,000 sectors have been served
//! slow and regular ─▶ soft real-time: × 3000 for 300 ms from each batch on
//! created with seven others within 180 ms each ─▶ a large burst: not raised
//! ```

use super::peak_rate::reference_rate;
use super::raised::{FACTOR, Kind};
use super::state::{Bfq, NORMAL_WEIGHT, Now};

/// Service that ends interactive raising, sectors (`max_service_from_wr`): what the largest program
/// needs to start.
const MAX_SERVICE: i64 = 120_000;
/// More than this is no player, sectors per second (`bfq_wr_max_softrt_rate`).
const MAX_SOFT_REAL_TIME_RATE: i64 = 7000;
/// How long the reference device took to start a large program, ms (`ref_wr_duration`).
const REFERENCE_MS: [u64; 2] = [2500, 7000];
/// Queues in a burst from which on it is a large one (`bfq_large_burst_thresh`), and how close they
/// follow one another, ms.
const LARGE_BURST: u32 = 8;
const BURST_INTERVAL_MS: u64 = 180;
/// Pause after which a queue counts as interactive (`bfq_wr_min_idle_time`) and after which an
/// asynchronous one is raised, ms.
const MIN_IDLE_MS: u64 = 2000;
const MIN_ASYNC_IDLE_MS: u64 = 500;
const SOFT_REAL_TIME_MS: u64 = 300;

/// The raising that a returning queue gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merits {
    pub(super) interactive: bool,
    soft_real_time: bool,
    pub(super) idle_for_long: bool,
}

impl Bfq {
    /// How long interactive raising lasts, jiffies (`bfq_wr_duration`).
    pub(super) fn raise_duration(&self) -> u64 {
        let reference = self.clock.ticks(REFERENCE_MS[usize::from(self.rotational)]);
        let duration = reference_rate(self.rotational) * reference / self.rate.rate;
        duration.clamp(self.clock.ticks(3000), self.clock.ticks(25_000))
    }

    pub(super) fn merits(&self, at: u32, now: Now) -> Merits {
        let queue = &self.queues[at as usize];
        let idle_for_long = queue.in_device == 0
            && now.jiffies > queue.budget_timeout + self.clock.ticks(MIN_IDLE_MS);
        let ordinary = !queue.in_large_burst && queue.entity.own_weight == NORMAL_WEIGHT;
        let soft_real_time = ordinary
            && queue.seeks != u32::MAX
            && now.jiffies > queue.raise.next_start
            && queue.in_device == 0;
        Merits { interactive: ordinary && idle_for_long, soft_real_time, idle_for_long }
    }

    /// `bfq_update_bfqq_wr_on_rq_arrival`.
    pub(super) fn raise_on_arrival(&mut self, at: u32, merits: Merits, now: Now) {
        let duration = self.raise_duration();
        let least = self.min_budget();
        let queue = &mut self.queues[at as usize];
        let before = queue.raise.factor;
        if before == 1 {
            if !(queue.sync && (merits.interactive || merits.soft_real_time)) {
                return;
            }
            if merits.interactive {
                queue.raise.service = 0;
                queue.raise.start_interactive(duration);
            } else {
                queue.raise.interactive_since = 0;
                queue.raise.start_soft_real_time();
            }
            queue.entity.budget = queue.entity.budget.min(2 * least);
        } else if merits.interactive {
            queue.raise.start_interactive(duration);
        } else if queue.in_large_burst {
            queue.raise.factor = 1;
            queue.raise.kind = Kind::None;
        } else if merits.soft_real_time {
            if queue.raise.kind != Kind::SoftRealTime {
                queue.raise.interactive_since = queue.raise.since;
                queue.raise.start_soft_real_time();
            }
            queue.raise.since = now.jiffies;
        }
        queue.entity.weight_changed |= queue.raise.factor != before;
    }

    /// A busy queue of writes to which nothing came for half a second is raised by the next one
    /// (`bfq_add_request`).
    pub(super) fn raise_busy_writer(&mut self, at: u32, sync: bool, now: Now) {
        let pause = self.clock.ticks(MIN_ASYNC_IDLE_MS);
        let raise = &self.queues[at as usize].raise;
        if !self.low_latency() || raise.factor > 1 || sync || now.jiffies <= raise.since + pause {
            return;
        }
        let duration = self.raise_duration();
        let queue = &mut self.queues[at as usize];
        queue.raise.start_interactive(duration);
        queue.entity.weight_changed = true;
        self.raised_busy += 1;
    }

    /// Ends raising when its time or its service is over (`bfq_update_wr_data`).
    pub(super) fn update_raise(&mut self, at: u32, now: Now) {
        let (interactive, soft) = (self.raise_duration(), self.clock.ticks(SOFT_REAL_TIME_MS));
        let queue = &self.queues[at as usize];
        let raise = queue.raise;
        let over = match raise.kind {
            Kind::None => false,
            _ if queue.in_large_burst => true,
            Kind::Interactive(lasts) => {
                now.jiffies > raise.since + lasts || raise.service > MAX_SERVICE
            }
            Kind::SoftRealTime => {
                let over = now.jiffies > raise.since + soft;
                if over && now.jiffies <= raise.interactive_since + interactive {
                    self.back_to_interactive(at);
                    false
                } else {
                    over
                }
            }
        };
        if over {
            self.end_raise(at, now.jiffies);
        }
        let queue = &self.queues[at as usize];
        if (queue.entity.weight > queue.entity.own_weight) != (queue.raise.factor > 1) {
            self.update_weight(at);
        }
    }

    /// `switch_back_to_interactive_wr`.
    fn back_to_interactive(&mut self, at: u32) {
        let duration = self.raise_duration();
        let queue = &mut self.queues[at as usize];
        queue.raise.start_interactive(duration);
        queue.raise.since = queue.raise.interactive_since;
        queue.entity.weight_changed = true;
    }

    /// `bfq_bfqq_end_wr`.
    fn end_raise(&mut self, at: u32, jiffies: u64) {
        let queue = &mut self.queues[at as usize];
        if queue.raise.kind != Kind::SoftRealTime {
            queue.raise.next_start = jiffies;
        }
        if queue.busy {
            self.raised_busy = self.raised_busy.saturating_sub(1);
        }
        queue.raise.factor = 1;
        queue.raise.kind = Kind::None;
        queue.raise.since = jiffies;
        queue.entity.weight_changed = true;
    }

    /// `bfq_end_wr`, when `low_latency` is switched off.
    pub(super) fn end_all_raises(&mut self) {
        for at in 0..self.queues.len() as u32 {
            if self.queues[at as usize].raise.factor > 1 {
                let since = self.queues[at as usize].raise.since;
                self.end_raise(at, since);
            }
        }
    }

    /// A queue that only seeks is no player (`bfq_update_io_seektime`).
    pub(super) fn end_soft_real_time_if_scattered(&mut self, at: u32, now: Now) {
        let queue = &self.queues[at as usize];
        if queue.raise.kind != Kind::SoftRealTime || queue.seeks != u32::MAX {
            return;
        }
        if now.jiffies > queue.raise.interactive_since + self.raise_duration() {
            self.end_raise(at, now.jiffies);
        } else {
            self.back_to_interactive(at);
        }
    }

    /// The time in which a player's queue was not served does not count
    /// (`__bfq_set_in_service_queue`).
    pub(super) fn prolong_soft_real_time(&mut self, at: u32, jiffies: u64) {
        let queue = &mut self.queues[at as usize];
        let raise = &mut queue.raise;
        if raise.kind == Kind::SoftRealTime
            && jiffies > raise.since
            && jiffies > queue.budget_timeout
        {
            raise.since = if queue.budget_timeout > raise.since {
                raise.since + (jiffies - queue.budget_timeout)
            } else {
                jiffies
            };
        }
    }

    /// The end of a turn: when may the next batch come (`bfq_bfqq_expire`)?
    pub(super) fn note_expiration(&mut self, at: u32, jiffies: u64) {
        if !self.low_latency() {
            return;
        }
        let queue = &mut self.queues[at as usize];
        if queue.raise.factor == 1 {
            queue.raise.since = jiffies;
        }
        if queue.waiting > 0 {
            return;
        }
        if queue.in_device > 0 {
            queue.raise.update_when_done = true;
        } else {
            self.set_next_start(at, jiffies);
        }
    }

    /// The last request of a batch has completed (`bfq_completed_request`).
    pub(super) fn note_end_of_batch(&mut self, at: u32, jiffies: u64) {
        let queue = &self.queues[at as usize];
        let done = queue.raise.update_when_done && queue.in_device == 0 && queue.waiting == 0;
        if done && queue.raise.factor != FACTOR {
            self.set_next_start(at, jiffies);
        }
    }

    /// A next batch that comes no sooner makes a rate that a player would have
    /// (`bfq_bfqq_softrt_next_start`).
    fn set_next_start(&mut self, at: u32, jiffies: u64) {
        let idle = self.clock.ticks(u64::from(self.tunables.slice_idle_us) / 1000);
        let raise = &mut self.queues[at as usize].raise;
        let at_rate =
            self.clock.hz() as i64 * raise.service_from_backlogged / MAX_SOFT_REAL_TIME_RATE;
        let by_rate = raise.backlogged_since + at_rate.max(0) as u64;
        raise.next_start = raise.next_start.max(by_rate).max(jiffies + idle + 4);
    }

    /// A new queue: is it one of many (`bfq_handle_burst`)?
    pub(super) fn watch_burst(&mut self, at: u32, jiffies: u64) {
        if self.burst.members.contains(&at) || self.queues[at as usize].in_large_burst {
            return;
        }
        let interval = self.clock.ticks(BURST_INTERVAL_MS);
        if jiffies > self.burst.last + interval {
            let alone = self.busy_queues() == 0;
            self.burst.large = false;
            self.burst.members.clear();
            self.burst.members.extend(alone.then_some(at));
            self.burst.size = u32::from(alone);
        } else if self.burst.large {
            self.queues[at as usize].in_large_burst = true;
        } else {
            self.burst.size += 1;
            self.burst.members.push(at);
            if self.burst.size == LARGE_BURST {
                self.burst.large = true;
                for member in self.burst.members.drain(..) {
                    self.queues[member as usize].in_large_burst = true;
                }
            }
        }
        self.burst.last = jiffies;
    }
}
