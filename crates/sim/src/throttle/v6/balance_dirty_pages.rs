//! One look of a writer: the parts of machine and cgroup, the pause, and the bandwidth.

use floodwall_device::Nanos;

use super::domain::{self, Domain, Share};
use super::{Balancing, Wb};
use crate::limits::{self, Thresholds};
use crate::throttle::estimate::RateRules;
use crate::throttle::position::{self, Control};
use crate::throttle::{
    Dirtier, Ruling, Seen, TaskTraits, Throttle, Verdict, WbId, pause, stat_error,
};

/// One domain's part in a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    control: Control,
    freerun: bool,
    ratio: u64,
}

impl Balancing {
    /// The loop of `balance_dirty_pages`, from its head to the next sleep.
    pub(super) fn look(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let jiffies = self.clock.jiffies(now);
        self.advance(who.wb, jiffies, seen);
        let traits = self.tasks[who.task.0 as usize].traits;
        let wb = self.wbs[who.wb.0 as usize];
        let strict = self.bdis[wb.bdi as usize].limits.strict;

        let mut global = self.global_part(&wb, traits, strict, seen);
        let mut memcg = self.memcg_part(&wb, traits, strict, seen);
        let background = seen.dirty > global.control.thresholds.background;
        let mut ruling = Ruling {
            verdict: Verdict::Go { next_check_pages: 0 },
            start_background: background && !seen.wb.flushing,
        };
        if global.freerun && memcg.is_none_or(|memcg| memcg.freerun) {
            ruling.verdict = self.free_running(who, jiffies, strict, &global, memcg.as_ref());
            return ruling;
        }
        ruling.start_background = !seen.wb.flushing;
        let avg_bandwidth = wb.estimate.avg_write_bandwidth;
        for part in std::iter::once(&mut global).chain(memcg.as_mut()) {
            // nfsd on its own machine is only held back by what its own device has.
            let c = &part.control;
            if !strict && traits.local && c.wb_dirty < u64::midpoint(c.wb_thresh, c.wb_bg_thresh) {
                ruling.verdict = self.free_running(who, jiffies, strict, &global, memcg.as_ref());
                return ruling;
            }
            part.ratio = position::ratio(&part.control, avg_bandwidth, strict);
        }
        let exceeded = |part: &Part| {
            let c = &part.control;
            c.wb_dirty > c.wb_thresh && (c.dirty > c.thresholds.dirty || strict)
        };
        self.wbs[who.wb.0 as usize].dirty_exceeded =
            exceeded(&global) || memcg.as_ref().is_some_and(exceeded);
        if jiffies > wb.estimate.stamp + pause::bandwidth_interval(self.clock.hz()) {
            self.update_bandwidth(who.wb, jiffies, seen, Some((&global, memcg.as_ref(), strict)));
        }
        let chosen = memcg.filter(|memcg| memcg.ratio < global.ratio).unwrap_or(global);
        ruling.verdict = self.pace(who, now, &chosen);
        ruling
    }

    /// `domain_dirty_limits` and `wb_dirty_limits` for the machine.
    fn global_part(&self, wb: &Wb, traits: TaskTraits, strict: bool, seen: &Seen) -> Part {
        let in_force = self.global.limit.limit;
        let dirtyable = seen.memory.global_dirtyable();
        let thresholds = limits::global(&self.knobs, dirtyable, traits.real_time, in_force);
        let share = self.share(wb);
        let completions = self.global.completions.fraction(&wb.completions);
        part(
            &self.global,
            thresholds,
            seen.dirty + seen.writeback,
            &share,
            completions,
            strict,
            seen.wb.dirty(),
        )
    }

    /// The same for the context's memory cgroup, which sees the same pages of the device.
    fn memcg_part(&self, wb: &Wb, traits: TaskTraits, strict: bool, seen: &Seen) -> Option<Part> {
        let (memcg, counts) = (wb.memcg?, seen.memcg?);
        let domain = &self.memcgs[memcg as usize];
        let dirty = counts.dirty + counts.writeback;
        let available =
            domain::memcg_available(&counts, dirty, &seen.memory, seen.dirty + seen.writeback);
        let thresholds = limits::memcg(
            &self.knobs,
            available,
            seen.memory.global_dirtyable(),
            traits.real_time,
            self.global.limit.limit,
        );
        let completions = domain.completions.fraction(&wb.memcg_completions);
        Some(part(domain, thresholds, dirty, &self.share(wb), completions, strict, seen.wb.dirty()))
    }

    pub(super) fn share(&self, wb: &Wb) -> Share {
        let bdi = &self.bdis[wb.bdi as usize];
        Share::of(bdi.limits, self.min_ppm_sum, wb.estimate.avg_write_bandwidth, bdi.bandwidth)
    }

    fn free_running(
        &mut self,
        who: Dirtier,
        now: u64,
        strict: bool,
        global: &Part,
        memcg: Option<&Part>,
    ) -> Verdict {
        let interval = |part: &Part| {
            let c = &part.control;
            if strict {
                pause::poll_interval(c.wb_dirty, c.wb_thresh)
            } else {
                pause::poll_interval(c.dirty, c.thresholds.dirty)
            }
        };
        let task = &mut self.tasks[who.task.0 as usize];
        task.paused_when = Some(now);
        task.nr_dirtied = 0;
        task.nr_dirtied_pause = memcg.map_or(u64::MAX, interval).min(interval(global));
        Verdict::Go { next_check_pages: self.until_check(who) }
    }

    /// The second half of the loop: how long to sleep.
    fn pace(&mut self, who: Dirtier, at: Nanos, chosen: &Part) -> Verdict {
        let (hz, now) = (self.clock.hz(), self.clock.jiffies(at));
        let wb = &self.wbs[who.wb.0 as usize];
        let estimate = &wb.estimate;
        let rate = estimate.dirty_ratelimit;
        let task_rate = rate.wrapping_mul(chosen.ratio) >> position::SHIFT;
        let max_pause = pause::max_pause(hz, chosen.control.wb_dirty, estimate.avg_write_bandwidth);
        let pace = pause::pace(hz, max_pause, estimate.avg_write_bandwidth, rate, task_rate);
        let task = &mut self.tasks[who.task.0 as usize];
        let pages_dirtied = task.visit.pages_dirtied;

        let (mut paused_from, mut sleep) = (now, max_pause);
        if let Some(period) = (hz * pages_dirtied).checked_div(task_rate) {
            let pause = period as i64 - task.paused_when.map_or(0, |when| now as i64 - when as i64);
            if pause < pace.min_pause as i64 {
                // Too short to sleep: owed, unless the task did something else for a second or has
                // hardly dirtied anything.
                if pause < -(hz as i64) {
                    task.paused_when = Some(now);
                    task.nr_dirtied = 0;
                } else if period > 0 {
                    task.paused_when = Some(task.paused_when.unwrap_or(0) + period);
                    task.nr_dirtied = 0;
                } else if task.nr_dirtied_pause <= pages_dirtied {
                    task.nr_dirtied_pause += pages_dirtied;
                }
                return Verdict::Go { next_check_pages: self.until_check(who) };
            }
            sleep = pause as u64;
            if sleep > max_pause {
                // The rate has dropped; a sleep that is not possible now is owed, but not more than
                // once again as much.
                paused_from = now + (sleep - max_pause).min(max_pause);
                sleep = max_pause;
            }
        }
        let few = chosen.control.wb_dirty <= stat_error(self.machine.possible_cpus);
        task.visit.paused_when = paused_from + sleep;
        task.visit.nr_dirtied_pause = pace.next_pages;
        task.visit.last = task_rate > 0 || few;
        self.bdis[wb.bdi as usize].last_sleep = Some(now);
        Verdict::Sleep { until: self.clock.timer(at, sleep) }
    }

    /// `__wb_update_bandwidth`. `parts`: from a writer, which also moves the rate limit and the
    /// hard limit in force.
    pub(super) fn update_bandwidth(
        &mut self,
        wb: WbId,
        now: u64,
        seen: &Seen,
        parts: Option<(&Part, Option<&Part>, bool)>,
    ) {
        let hz = self.clock.hz();
        let interval = pause::bandwidth_interval(hz);
        let wb = &mut self.wbs[wb.0 as usize];
        let elapsed = now.saturating_sub(wb.estimate.stamp).max(1);
        let before = wb.estimate.avg_write_bandwidth;
        if let Some((global, memcg, strict)) = parts {
            let rules = RateRules { hz, strict, capped: true };
            let mut update = |domain: &mut Domain, part: &Part| {
                let mut control = part.control;
                domain.limit.update(now, interval, control.thresholds.dirty, control.dirty);
                control.limit = control.thresholds.dirty.max(domain.limit.limit);
                wb.estimate.update_ratelimit(
                    &rules,
                    &control,
                    part.ratio,
                    seen.wb.dirtied,
                    elapsed,
                );
            };
            update(&mut self.global, global);
            if let (Some(memcg), Some(part)) = (wb.memcg, memcg) {
                update(&mut self.memcgs[memcg as usize], part);
            }
        }
        wb.estimate.update_bandwidth(hz, elapsed, seen.wb.written);
        wb.estimate.dirtied_stamp = seen.wb.dirtied;
        wb.estimate.written_stamp = seen.wb.written;
        wb.estimate.stamp = now;
        if wb.has_dirty {
            let sum = &mut self.bdis[wb.bdi as usize].bandwidth;
            *sum = (*sum + wb.estimate.avg_write_bandwidth).saturating_sub(before);
        }
    }
}

fn part(
    domain: &Domain,
    thresholds: Thresholds,
    dirty: u64,
    share: &Share,
    completions: (u64, u64),
    strict: bool,
    wb_dirty: u64,
) -> Part {
    let wb_thresh = share.thresh(thresholds.dirty, dirty, completions);
    let wb_bg_thresh =
        (wb_thresh * thresholds.background).checked_div(thresholds.dirty).unwrap_or(0);
    let limit = thresholds.dirty.max(domain.limit.limit);
    let control = Control { thresholds, limit, dirty, wb_thresh, wb_bg_thresh, wb_dirty };
    let freerun = if strict {
        wb_dirty <= u64::midpoint(wb_thresh, wb_bg_thresh)
    } else {
        dirty <= thresholds.freerun()
    };
    Part { control, freerun, ratio: 0 }
}
