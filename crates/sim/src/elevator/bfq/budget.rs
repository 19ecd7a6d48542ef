//! Budgets: the service of a queue in a turn, its charge, and the reasons for which its turn ends.

use super::super::pool::Handle;
use super::state::{Bfq, DEFAULT_MAX_BUDGET, MS, Now, Reason, SECTOR};
use crate::request::IoRequest;

/// Budgets given before estimates are believed, as the decaying count has it
/// (`bfq_stats_min_budgets`).
const ENOUGH_BUDGETS: u64 = 194;
/// The cost of a sector of an asynchronous request (`bfq_async_charge_factor`).
const ASYNC_CHARGE: i64 = 3;
/// Within this much of the last request, another one is in sequence, sectors (`BFQQ_SEEK_THR`).
pub(super) const SEEK_SECTORS: u64 = 8 * 100;
/// On a device that does not rotate, only smaller requests than this can seek, sectors
/// (`BFQQ_SECT_THR_NONROT`).
pub(super) const SMALL_SECTORS: u64 = 2 * 32;
/// Below this a time counts as none, ns (`BFQ_MIN_TT`).
pub(super) const SHORT_NS: u64 = 2 * MS;

/// Fixed point of rates (`BFQ_RATE_SHIFT`).
const RATE_SHIFT: u32 = 16;
const RATE_MIN_SAMPLES: u64 = 32;
const RATE_MIN_INTERVAL_NS: u64 = 300 * MS;
const RATE_INTERVAL_NS: u64 = 1000 * MS;

impl Bfq {
    /// The greatest budget, as far as it is known (`bfq_max_budget`).
    pub(super) const fn budget_bound(&self) -> i64 {
        if self.budgets_assigned < ENOUGH_BUDGETS { DEFAULT_MAX_BUDGET } else { self.max_budget }
    }

    /// `bfq_min_budget`.
    pub(super) const fn min_budget(&self) -> i64 {
        self.budget_bound() / 32
    }

    fn timeout(&self) -> u64 {
        self.clock.ticks(self.tunables.timeout_sync_ms.into())
    }

    /// The sectors that the device can serve in `timeout_sync` (`bfq_calc_max_budget`).
    fn budget_by_rate(&self) -> i64 {
        ((self.rate.rate * 1000 * self.clock.to_ms(self.timeout())) >> RATE_SHIFT) as i64
    }

    /// Updates the values that depend on a tunable (`bfq_max_budget_store` and its neighbours).
    pub(super) fn tunable_was_set(&mut self, name: &str) {
        match name {
            "max_budget" | "timeout_sync" => {
                self.max_budget = match self.tunables.max_budget_sectors {
                    0 => self.budget_by_rate(),
                    sectors => sectors.into(),
                };
            }
            "strict_guarantees" if self.tunables.strict_guarantees == 1 => {
                self.tunables.slice_idle_us = self.tunables.slice_idle_us.max(8000);
            }
            "low_latency" if self.tunables.low_latency == 0 => self.end_all_raises(),
            _ => {}
        }
    }

    /// A request's charge to its queue, in sectors (`bfq_serv_to_charge`).
    pub(super) fn charge(&self, at: u32, request: Handle) -> i64 {
        let sectors = (self.requests.request(request).len / SECTOR) as i64;
        let queue = &self.queues[at as usize];
        if queue.sync || queue.raise.factor > 1 || self.asymmetric(Some(at)) {
            sectors
        } else {
            sectors * ASYNC_CHARGE
        }
    }

    /// The first request has changed: the budget must at least do for it (`bfq_updated_next_req`).
    pub(super) fn next_changed(&mut self, at: u32, now: Now) {
        let queue = self.queues[at as usize];
        let Some(next) = queue.next else { return };
        if self.in_service == Some(at) {
            return;
        }
        let budget = queue.max_budget.max(self.charge(at, next)).max(queue.entity.service);
        if budget != queue.entity.budget {
            self.queues[at as usize].entity.budget = budget;
            self.requeue(at, false, false, now);
        }
    }

    /// The budget with which a queue comes back; true if it goes on with what was left, and may
    /// push the served queue aside for it (`bfq_bfqq_update_budg_for_activation`).
    pub(super) fn budget_for_activation(&mut self, at: u32, in_time: bool) -> bool {
        let queue = self.queues[at as usize];
        let charge = queue.next.map_or(0, |next| self.charge(at, next));
        let entity = &mut self.queues[at as usize].entity;
        entity.service = 0;
        if queue.expects_more && in_time && queue.budget_left() > 0 {
            entity.budget = queue.budget_left().min(queue.max_budget);
            return true;
        }
        entity.budget = queue.max_budget.max(charge);
        self.queues[at as usize].expects_more = false;
        false
    }

    /// `bfq_set_in_service_queue`.
    pub(super) fn start_service(&mut self, now: Now) -> Option<u32> {
        if self.busy_queues() == 0 {
            return None;
        }
        let at = self.take_next(now)?;
        self.in_service = Some(at);
        self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
        self.prolong_soft_real_time(at, now.jiffies);
        let timeout = self.timeout();
        let queue = &mut self.queues[at as usize];
        queue.fifo_checked = false;
        let longer = if queue.raise.is_soft_real_time() {
            1
        } else {
            queue.entity.weight / queue.entity.own_weight
        };
        queue.budget_timeout = now.jiffies + timeout * longer.max(1);
        self.budget_start = now.ns;
        Some(at)
    }

    /// Whether a queue's time is up and it may go (`bfq_may_expire_for_budg_timeout`).
    pub(super) fn may_expire_for_time(&self, at: u32, jiffies: u64) -> bool {
        let queue = &self.queues[at as usize];
        (!queue.idling || queue.budget_left() >= queue.entity.budget / 3)
            && jiffies >= queue.budget_timeout
    }

    /// Ends the turn of the queue in service (`bfq_bfqq_expire`). `idled`: the time spent idling
    /// does not count.
    pub(super) fn expire(&mut self, at: u32, idled: bool, reason: Reason, now: Now) {
        let (slow, took_ms) = self.is_slow(at, idled, now.ns);
        let queue = &self.queues[at as usize];
        let timed_out =
            reason == Reason::BudgetTimeout && queue.budget_left() >= queue.entity.budget / 3;
        if queue.raise.factor == 1 && (slow || timed_out) {
            self.charge_time(at, took_ms);
        }
        self.note_expiration(at, now.jiffies);
        self.new_budget(at, reason);
        self.end_service(at, reason, now);
        let queue = &mut self.queues[at as usize];
        if !queue.busy && !matches!(reason, Reason::BudgetTimeout | Reason::BudgetExhausted) {
            queue.expects_more = true;
        } else {
            queue.entity.service = 0;
        }
    }

    /// Out of service and back into a tree (`__bfq_bfqq_expire`).
    pub(super) fn end_service(&mut self, at: u32, reason: Reason, now: Now) {
        let kept = reason == Reason::Preempted && self.idling_keeps_share(at);
        if self.requests.queue_is_empty(at) && !kept {
            let queue = &mut self.queues[at as usize];
            if queue.in_device == 0 {
                queue.budget_timeout = now.jiffies;
            }
            self.leave_busy(at, true, now);
        } else {
            self.requeue(at, false, true, now);
        }
        self.queues[at as usize].idling = false;
        self.idle_timer = None;
        self.in_service = None;
        self.entity_in_service = None;
    }

    /// Whether a queue used its turn slowly, and how long the turn was, ms (`bfq_bfqq_is_slow`).
    fn is_slow(&self, at: u32, idled: bool, now_ns: u64) -> (bool, u64) {
        let queue = &self.queues[at as usize];
        if !queue.sync {
            return (false, 0);
        }
        let until = if idled { self.idle_start } else { now_ns };
        let took_us = until.saturating_sub(self.budget_start) / 1000;
        if took_us < 1000 {
            // At least one seek.
            return (queue.seeks_mostly(), if self.rotational { 8 } else { SHORT_NS / MS });
        }
        let slow = if took_us > 20_000 {
            queue.entity.service < self.max_budget / 2
        } else {
            queue.seeks_mostly()
        };
        (slow, took_us / 1000)
    }

    /// Charges a queue what a fast one would have got in its time (`bfq_bfqq_charge_time`).
    fn charge_time(&mut self, at: u32, took_ms: u64) {
        let timeout_ms = self.clock.to_ms(self.clock.hz() / 8);
        let for_time = self.max_budget * took_ms.min(timeout_ms) as i64 / timeout_ms as i64;
        let entity = &mut self.queues[at as usize].entity;
        let total = for_time.max(entity.service);
        entity.budget = entity.budget.max(total);
        let more = total - entity.service;
        self.serve(at, more);
    }

    /// A queue's next budget (`__bfq_bfqq_recalc_budget`).
    fn new_budget(&mut self, at: u32, reason: Reason) {
        let least = self.min_budget();
        let queue = self.queues[at as usize];
        let raised = queue.raise.factor > 1;
        let mut budget = if raised { 2 * least } else { queue.max_budget };
        if queue.sync && !raised {
            budget = match reason {
                Reason::TooIdle if queue.in_device > 0 => (budget * 2).min(self.max_budget),
                Reason::TooIdle if budget > 5 * least => budget - 4 * least,
                Reason::TooIdle => least,
                Reason::BudgetTimeout => (budget * 2).min(self.max_budget),
                Reason::BudgetExhausted => (budget * 4).min(self.max_budget),
                Reason::NoMoreRequests => queue.entity.service.max(least),
                Reason::Preempted => return,
            };
        } else if !queue.sync {
            budget = self.max_budget;
        }
        if self.budgets_assigned >= ENOUGH_BUDGETS && self.tunables.max_budget_sectors == 0 {
            budget = budget.min(self.max_budget);
        }
        let charge = queue.next.map(|next| self.charge(at, next));
        let queue = &mut self.queues[at as usize];
        queue.max_budget = budget;
        if let Some(charge) = charge {
            queue.entity.budget = budget.max(charge);
        }
    }

    /// A request goes to the device (`bfq_update_peak_rate`).
    pub(super) fn update_peak_rate(&mut self, request: &IoRequest, now_ns: u64) {
        let sectors = request.len / SECTOR;
        let idle = self.in_driver == 0;
        let seeks = self.seeks(self.rate.last_position / SECTOR, request);
        let rate = &mut self.rate;
        if rate.samples == 0 {
            rate.restart(Some(sectors), now_ns);
        } else if now_ns - rate.last > 100 * MS && idle {
            self.conclude_rate(Some(sectors), now_ns);
        } else {
            rate.samples += 1;
            let busy = !idle || now_ns - rate.last_completion < SHORT_NS;
            rate.sequential += u64::from(busy && !seeks);
            rate.sectors += sectors;
            let fresh = rate.samples.is_multiple_of(32);
            rate.greatest_sectors =
                if fresh { sectors } else { rate.greatest_sectors.max(sectors) };
            rate.interval = now_ns - rate.first;
            if rate.interval >= RATE_INTERVAL_NS {
                self.conclude_rate(Some(sectors), now_ns);
            }
        }
        self.rate.last_position = request.end();
        self.rate.last = now_ns;
    }

    /// A request that took so long that the device was certainly not at its best ends the
    /// observation (`bfq_completed_request`).
    pub(super) fn rate_on_completion(&mut self, now_ns: u64) {
        let since_us = now_ns.saturating_sub(self.rate.last_completion) / 1000;
        if since_us > SHORT_NS / 1000
            && (self.rate.greatest_sectors << RATE_SHIFT) / since_us < 1 << (RATE_SHIFT - 10)
        {
            self.conclude_rate(None, now_ns);
        }
        self.rate.last_completion = now_ns;
    }

    /// Takes what was observed into the estimate, if it was enough, and starts again
    /// (`bfq_update_rate_reset`).
    fn conclude_rate(&mut self, first: Option<u64>, now_ns: u64) {
        let seen = self.rate;
        if seen.samples >= RATE_MIN_SAMPLES && seen.interval >= RATE_MIN_INTERVAL_NS {
            let interval = seen.interval.max(seen.last_completion.saturating_sub(seen.first));
            let rate = (seen.sectors << RATE_SHIFT) / (interval / 1000);
            let scattered = seen.sequential < 3 * seen.samples / 4 && rate <= seen.rate;
            if !scattered && rate <= 20 << RATE_SHIFT {
                let weight = 9 * seen.sequential / seen.samples;
                let weight = (weight * interval / RATE_INTERVAL_NS).min(8);
                let divisor = 10 - weight;
                self.rate.rate = (seen.rate * (divisor - 1) / divisor + rate / divisor).max(1);
                if self.tunables.max_budget_sectors == 0 {
                    self.max_budget = self.budget_by_rate();
                }
            }
        }
        self.rate.restart(first, now_ns);
    }
}
