//! Linux 6.x: as 3.2, with time owed and paid back, shares over time, strict limits and memory
//! cgroups.
//!
//! ```text
//! every nr_dirtied_pause pages of a task
//!     (8 while the device is over its share; ratelimit_pages a CPU):
//!   for the machine and for the task's cgroup:
//!     thresholds ─▶ below freerun in all of them: go on, look again after √room pages
//!     shares of the device, position ratio                      (position; the lowest counts)
//!   more than 200 ms: hard limit in force, rate limit, bandwidth (estimate)
//!   rate = dirty_ratelimit × position ratio
//!   pause = pages / rate - time since the last pause            (pause)
//!     short: owed; long: cut to max_pause; rate 0: sleep and look again
//! ```
//!
//! Source: mm/page-writeback.c of 6.14 to 6.18.

mod domain;
#[cfg(test)]
mod tests;

use floodwall_device::Nanos;

use super::estimate::{Estimate, RateRules};
use super::flex_proportions::{FRAC_BASE, Local};
use super::jiffies::Clock;
use super::position::{self, Control};
use super::{
    BdiId, Dirtier, Machine, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle, Verdict, WbId,
    pause, stat_error,
};
use crate::kernel::Generation;
use crate::limits::{self, BdiLimits, DirtyKnobs, Memory, PPM, Thresholds, flush};
use domain::{Domain, Share};

/// Pages that a task dirties between two looks, at most, while its device is over its share.
const POLL_WHEN_EXCEEDED: u64 = 8;

/// The state of the machine.
#[derive(Clone, Debug)]
pub struct Balancing {
    clock: Clock,
    machine: Machine,
    knobs: DirtyKnobs,
    /// Pages that all tasks of a CPU dirty together between two looks.
    ratelimit_pages: u64,
    global: Domain,
    memcgs: Vec<Domain>,
    /// Pages dirtied on each CPU since its last look.
    dirtied: Vec<u64>,
    tasks: Vec<Task>,
    bdis: Vec<Bdi>,
    wbs: Vec<Wb>,
    /// All devices' minimum shares.
    min_ppm_sum: u64,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    traits: TaskTraits,
    nr_dirtied: u64,
    nr_dirtied_pause: u64,
    /// From when on time counts against the next pause (`dirty_paused_when`); `None` until the
    /// first look.
    paused_when: Option<u64>,
    visit: Visit,
}

/// What `balance_dirty_pages` keeps in its local variables while it sleeps.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    pages_dirtied: u64,
    paused_when: u64,
    nr_dirtied_pause: u64,
    /// It leaves after this sleep.
    last: bool,
}

#[derive(Clone, Debug)]
struct Bdi {
    limits: BdiLimits,
    /// When a writer was last put to sleep (`last_bdp_sleep`).
    last_sleep: Option<u64>,
    /// Sum of `avg_write_bandwidth` over the contexts that have dirty files
    /// (`tot_write_bandwidth`).
    bandwidth: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wb {
    bdi: u32,
    memcg: Option<u32>,
    completions: Local,
    memcg_completions: Local,
    estimate: Estimate,
    dirty_exceeded: bool,
    has_dirty: bool,
}

/// One domain's part in a decision.
#[derive(Clone, Copy, Debug)]
struct Part {
    control: Control,
    freerun: bool,
    ratio: u64,
}

impl Balancing {
    /// A machine at rest.
    #[must_use]
    pub fn new(machine: Machine, knobs: DirtyKnobs, memory: &Memory) -> Self {
        let mut new = Self {
            clock: Clock::new(machine.hz, true),
            machine,
            knobs,
            ratelimit_pages: 0,
            global: Domain::default(),
            memcgs: Vec::new(),
            dirtied: vec![0; machine.cpus.max(1) as usize],
            tasks: Vec::new(),
            bdis: Vec::new(),
            wbs: Vec::new(),
            min_ppm_sum: 0,
        };
        new.set_ratelimit(memory);
        new
    }

    /// `writeback_set_ratelimit`: a lower limit is in force at once, and writers above it stop.
    fn set_ratelimit(&mut self, memory: &Memory) {
        let limit = self.thresholds(memory).dirty;
        self.global.limit.limit = limit;
        self.ratelimit_pages = (limit / (u64::from(self.machine.cpus.max(1)) * 32)).max(16);
    }

    fn interval(&self, who: Dirtier) -> u64 {
        let pause = self.tasks[who.task.0 as usize].nr_dirtied_pause;
        if self.wbs[who.wb.0 as usize].dirty_exceeded {
            pause.min(POLL_WHEN_EXCEEDED)
        } else {
            pause
        }
    }

    /// Ends elapsed periods of the shares and updates the state of a context.
    fn advance(&mut self, wb: WbId, now: u64, seen: &Seen) {
        let wb = &mut self.wbs[wb.0 as usize];
        self.global.completions.advance(self.clock, now);
        if let Some(memcg) = wb.memcg {
            self.memcgs[memcg as usize].completions.advance(self.clock, now);
        }
        let has_dirty = seen.wb.reclaimable > 0;
        if wb.has_dirty != has_dirty {
            wb.has_dirty = has_dirty;
            let (sum, own) =
                (&mut self.bdis[wb.bdi as usize].bandwidth, wb.estimate.avg_write_bandwidth);
            *sum = if has_dirty { *sum + own } else { sum.saturating_sub(own) };
        }
    }

    /// The loop of `balance_dirty_pages`, from its head to the next sleep.
    fn look(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
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
        let thresholds =
            limits::global(Generation::K6, &self.knobs, &seen.memory, traits.real_time, in_force);
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
            seen.memory.dirtyable(Generation::K6),
            traits.real_time,
            self.global.limit.limit,
        );
        let completions = domain.completions.fraction(&wb.memcg_completions);
        Some(part(domain, thresholds, dirty, &self.share(wb), completions, strict, seen.wb.dirty()))
    }

    fn share(&self, wb: &Wb) -> Share {
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
    fn update_bandwidth(
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

impl Throttle for Balancing {
    fn set_knobs(&mut self, knobs: DirtyKnobs, memory: &Memory) {
        let moved = knobs.dirty != self.knobs.dirty;
        self.knobs = knobs;
        if moved {
            self.set_ratelimit(memory);
        }
    }

    fn thresholds(&self, memory: &Memory) -> Thresholds {
        limits::global(Generation::K6, &self.knobs, memory, false, self.global.limit.limit)
    }

    fn add_bdi(&mut self, limits: BdiLimits) -> BdiId {
        self.bdis.push(Bdi { limits, last_sleep: None, bandwidth: 0 });
        self.min_ppm_sum += u64::from(limits.min_ppm);
        BdiId(self.bdis.len() as u32 - 1)
    }

    fn set_bdi(&mut self, bdi: BdiId, limits: BdiLimits) {
        self.bdis[bdi.0 as usize].limits = limits;
        self.min_ppm_sum = self.bdis.iter().map(|bdi| u64::from(bdi.limits.min_ppm)).sum();
    }

    fn add_memcg(&mut self) -> MemcgId {
        self.memcgs.push(Domain::default());
        MemcgId(self.memcgs.len() as u32 - 1)
    }

    fn add_wb(&mut self, bdi: BdiId, memcg: Option<MemcgId>) -> WbId {
        self.wbs.push(Wb {
            bdi: bdi.0,
            memcg: memcg.map(|memcg| memcg.0),
            completions: Local::default(),
            memcg_completions: Local::default(),
            estimate: Estimate::new(0),
            dirty_exceeded: false,
            has_dirty: false,
        });
        WbId(self.wbs.len() as u32 - 1)
    }

    fn add_task(&mut self, traits: TaskTraits) -> TaskId {
        self.tasks.push(Task {
            traits,
            nr_dirtied: 0,
            nr_dirtied_pause: pause::POLL_PAGES,
            paused_when: None,
            visit: Visit::default(),
        });
        TaskId(self.tasks.len() as u32 - 1)
    }

    fn until_check(&self, who: Dirtier) -> u64 {
        let own = self.interval(who).saturating_sub(self.tasks[who.task.0 as usize].nr_dirtied);
        own.min(self.ratelimit_pages.saturating_sub(self.dirtied[who.cpu as usize])).max(1)
    }

    fn dirtied(&mut self, who: Dirtier, pages: u64) -> bool {
        let interval = self.interval(who);
        let task = &mut self.tasks[who.task.0 as usize];
        let count = &mut self.dirtied[who.cpu as usize];
        task.nr_dirtied += pages;
        *count += pages;
        let due = task.nr_dirtied >= interval || *count >= self.ratelimit_pages;
        if due {
            *count = 0;
        }
        due
    }

    fn balance(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let task = &mut self.tasks[who.task.0 as usize];
        task.visit = Visit { pages_dirtied: task.nr_dirtied, ..Visit::default() };
        self.look(who, now, seen)
    }

    fn resume(&mut self, who: Dirtier, now: Nanos, _: u64, seen: &Seen) -> Ruling {
        let task = &mut self.tasks[who.task.0 as usize];
        task.paused_when = Some(task.visit.paused_when);
        task.nr_dirtied = 0;
        task.nr_dirtied_pause = task.visit.nr_dirtied_pause;
        if task.visit.last {
            let verdict = Verdict::Go { next_check_pages: self.until_check(who) };
            return Ruling { verdict, start_background: false };
        }
        self.look(who, now, seen)
    }

    fn completed(&mut self, wb: WbId, now: Nanos, pages: u64) {
        let now = self.clock.jiffies(now);
        let wb = &mut self.wbs[wb.0 as usize];
        let max_frac = FRAC_BASE * u64::from(self.bdis[wb.bdi as usize].limits.max_ppm) / PPM;
        self.global.completions.advance(self.clock, now);
        self.global.completions.add(&mut wb.completions, max_frac, pages, self.clock, now);
        if let Some(memcg) = wb.memcg {
            let completions = &mut self.memcgs[memcg as usize].completions;
            completions.advance(self.clock, now);
            completions.add(&mut wb.memcg_completions, max_frac, pages, self.clock, now);
        }
    }

    fn over_background(&mut self, wb: WbId, now: Nanos, seen: &Seen) -> bool {
        self.advance(wb, self.clock.jiffies(now), seen);
        let wb = &self.wbs[wb.0 as usize];
        let share = self.share(wb);
        // wb_bg_dirty_limits: pages under writeback are done already.
        let background = self.thresholds(&seen.memory).background;
        let fraction = self.global.completions.fraction(&wb.completions);
        if seen.dirty > background
            || seen.wb.reclaimable > share.thresh(background, seen.dirty, fraction)
        {
            return true;
        }
        let (Some(memcg), Some(counts)) = (wb.memcg, seen.memcg) else { return false };
        let available = domain::memcg_available(&counts, counts.dirty, &seen.memory, seen.dirty);
        let dirtyable = seen.memory.dirtyable(Generation::K6);
        let background = limits::memcg(&self.knobs, available, dirtyable, false, 0).background;
        let fraction = self.memcgs[memcg as usize].completions.fraction(&wb.memcg_completions);
        counts.dirty > background
            || seen.wb.reclaimable > share.thresh(background, counts.dirty, fraction)
    }

    fn chunk_pages(&self, wb: WbId, nr_pages: u64) -> u64 {
        let bandwidth = self.wbs[wb.0 as usize].estimate.avg_write_bandwidth;
        flush::chunk_pages(Generation::K6, bandwidth, self.global.limit.limit, nr_pages)
    }

    fn writepages_begin(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        // wb_bandwidth_estimate_start: an idle second says nothing of the device's bandwidth.
        let (now, hz) = (self.clock.jiffies(now), self.clock.hz());
        let estimate = &mut self.wbs[wb.0 as usize].estimate;
        if now.saturating_sub(estimate.stamp) > hz && seen.wb.writeback == 0 {
            estimate.dirtied_stamp = seen.wb.dirtied;
            estimate.written_stamp = seen.wb.written;
            estimate.stamp = now;
        }
    }

    fn writepages_end(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        let now = self.clock.jiffies(now);
        if now > self.wbs[wb.0 as usize].estimate.stamp + pause::bandwidth_interval(self.clock.hz())
        {
            self.update_bandwidth(wb, now, seen, None);
        }
    }

    fn writeback_settled(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        self.update_bandwidth(wb, self.clock.jiffies(now), seen, None);
    }

    fn bandwidth_pages_per_s(&self, wb: WbId) -> Option<u64> {
        Some(self.wbs[wb.0 as usize].estimate.avg_write_bandwidth)
    }

    fn slept_recently(&self, bdi: BdiId, now: Nanos) -> bool {
        let last = self.bdis[bdi.0 as usize].last_sleep;
        last.is_some_and(|last| self.clock.jiffies(now) < last + self.clock.hz())
    }
}
