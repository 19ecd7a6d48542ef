//! Linux 3.2: no task writes for others any more. Writers sleep while the device writes the pages
//! that they dirtied.
//!
//! ```text
//! every nr_dirtied_pause pages of a task
//!     (8 while the device is over its share; ratelimit_pages a CPU):
//!   dirty <= freerun: go on, look again after √room pages
//!   every 200 ms: bandwidth, rate limit, hard limit in force     (estimate)
//!   rate = dirty_ratelimit × position ratio                      (position)
//!   sleep pages / rate, at most max_pause; rate 0: sleep and look again
//! ```
//!
//! Source: mm/page-writeback.c `balance_dirty_pages` of 3.2. Shares are still counted per event
//! (`proportions`), nothing is per cgroup.

#[cfg(test)]
mod tests;

use floodwall_device::Nanos;

use super::proportions::{Global, Local};
use super::v2_6_32::{bdi_share, max_prop_frac, percent, period_pages};
use crate::eras::limits::of_3_2;
use crate::limits::{BdiLimits, DirtyKnobs, Limit, Memory, Thresholds, flush};
use crate::throttle::estimate::{DirtyLimit, Estimate, RateRules};
use crate::throttle::jiffies::Clock;
use crate::throttle::position::{self, Control};
use crate::throttle::{
    BdiId, Dirtier, Machine, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle, Verdict, WbId,
    pause, stat_error,
};

/// Pages that a task dirties between two looks, at most, while its device is over its share.
const POLL_WHEN_EXCEEDED: u64 = 8;

/// The state of the machine.
#[derive(Clone, Debug)]
pub struct Pausing {
    clock: Clock,
    machine: Machine,
    knobs: DirtyKnobs,
    /// Pages that all tasks of a CPU dirty together between two looks.
    ratelimit_pages: u64,
    dirty_limit: DirtyLimit,
    completions: Global,
    /// Pages dirtied on each CPU since its last look.
    dirtied: Vec<u64>,
    tasks: Vec<Task>,
    bdis: Vec<Bdi>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    traits: TaskTraits,
    nr_dirtied: u64,
    nr_dirtied_pause: u64,
    visit: Visit,
}

/// What `balance_dirty_pages` keeps in its local variables while it sleeps.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    start: u64,
    pages_dirtied: u64,
    pause: u64,
    max_pause: u64,
    dirty_exceeded: bool,
    /// It leaves after this sleep.
    last: bool,
    control: Control,
}

#[derive(Clone, Copy, Debug)]
struct Bdi {
    limits: BdiLimits,
    completions: Local,
    estimate: Estimate,
    dirty_exceeded: bool,
    /// When the flusher's current run began, and when it last submitted something.
    run: Option<(u64, u64)>,
}

impl Pausing {
    /// A machine at rest.
    #[must_use]
    pub fn new(machine: Machine, knobs: DirtyKnobs, memory: &Memory) -> Self {
        let mut new = Self {
            clock: Clock::new(machine.hz, false),
            machine,
            knobs,
            ratelimit_pages: 0,
            dirty_limit: DirtyLimit::default(),
            completions: Global::new(period_pages(&knobs, memory)),
            dirtied: vec![0; machine.cpus.max(1) as usize],
            tasks: Vec::new(),
            bdis: Vec::new(),
        };
        new.set_ratelimit(&knobs, memory);
        new
    }

    /// `writeback_set_ratelimit` and `update_completion_period`.
    fn set_ratelimit(&mut self, knobs: &DirtyKnobs, memory: &Memory) {
        let limits = of_3_2(knobs, memory, false);
        self.ratelimit_pages = (limits.dirty / (u64::from(self.machine.cpus.max(1)) * 32)).max(16);
        self.completions.resize(period_pages(knobs, memory));
    }

    fn interval(&self, who: Dirtier) -> u64 {
        let pause = self.tasks[who.task.0 as usize].nr_dirtied_pause;
        if self.bdis[who.wb.0 as usize].dirty_exceeded {
            pause.min(POLL_WHEN_EXCEEDED)
        } else {
            pause
        }
    }

    fn bdi_limit(&self, bdi: &Bdi, thresh: u64) -> u64 {
        let min_sum = self.bdis.iter().map(|bdi| percent(bdi.limits.min_ppm)).sum();
        bdi_share(thresh, min_sum, bdi.limits, self.completions.fraction(&bdi.completions))
    }

    /// The loop of `balance_dirty_pages`, from its head to the next sleep.
    fn look(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let (hz, jiffies) = (self.clock.hz(), self.clock.jiffies(now));
        let traits = self.tasks[who.task.0 as usize].traits;
        let boosted = traits.real_time || traits.local;
        let thresholds = of_3_2(&self.knobs, &seen.memory, boosted);
        let mut visit = self.tasks[who.task.0 as usize].visit;
        visit.control = self.control(who.wb, thresholds, seen);
        if visit.control.dirty <= thresholds.freerun() {
            return self.leave(who, visit, seen);
        }
        visit.dirty_exceeded = visit.control.wb_dirty > visit.control.wb_thresh
            || visit.control.dirty > thresholds.dirty;
        if visit.dirty_exceeded {
            self.bdis[who.wb.0 as usize].dirty_exceeded = true;
        }
        self.update_bandwidth(who.wb, jiffies, Some(&visit.control), visit.start, seen);
        // The hard limit in force may have moved just now.
        visit.control.limit = thresholds.dirty.max(self.dirty_limit.limit);
        let estimate = self.bdis[who.wb.0 as usize].estimate;
        visit.max_pause = pause::max_pause_3_2(
            hz,
            visit.control.wb_dirty,
            estimate.avg_write_bandwidth,
            estimate.dirty_ratelimit,
        );
        let ratio = position::ratio_3_2(&visit.control, estimate.avg_write_bandwidth);
        let task_ratelimit = estimate.dirty_ratelimit.wrapping_mul(ratio) >> position::SHIFT;
        visit.pause = match (hz * visit.pages_dirtied).checked_div(task_ratelimit) {
            None => visit.max_pause,
            Some(0) => {
                visit.pause = 1;
                return self.leave(who, visit, seen).with_background(!seen.wb.flushing);
            }
            Some(pause) => pause.min(visit.max_pause),
        };
        visit.last =
            task_ratelimit > 0 || visit.control.wb_dirty <= stat_error(self.machine.possible_cpus);
        self.tasks[who.task.0 as usize].visit = visit;
        let until = self.clock.timer(now, visit.pause);
        Ruling { verdict: Verdict::Sleep { until }, start_background: !seen.wb.flushing }
    }

    fn control(&self, wb: WbId, thresholds: Thresholds, seen: &Seen) -> Control {
        Control {
            thresholds,
            limit: thresholds.dirty.max(self.dirty_limit.limit),
            dirty: seen.dirty + seen.writeback,
            wb_thresh: self.bdi_limit(&self.bdis[wb.0 as usize], thresholds.dirty),
            wb_bg_thresh: 0,
            wb_dirty: seen.wb.dirty(),
        }
    }

    /// The end of `balance_dirty_pages`: how many pages until the next look.
    fn leave(&mut self, who: Dirtier, visit: Visit, seen: &Seen) -> Ruling {
        if !visit.dirty_exceeded {
            self.bdis[who.wb.0 as usize].dirty_exceeded = false;
        }
        let hz = self.clock.hz();
        let rate = self.bdis[who.wb.0 as usize].estimate.dirty_ratelimit;
        let task = &mut self.tasks[who.task.0 as usize];
        let (dirtied, thresholds) = (visit.pages_dirtied, visit.control.thresholds);
        let aimed_at = rate * (visit.max_pause / 2) / hz;
        task.nr_dirtied = 0;
        if visit.pause == 0 {
            task.nr_dirtied_pause = pause::poll_interval(visit.control.dirty, thresholds.dirty);
        } else if visit.pause <= visit.max_pause / 4 && dirtied >= task.nr_dirtied_pause {
            task.nr_dirtied_pause = aimed_at.clamp(dirtied + dirtied / 8, dirtied * 4);
        } else if visit.pause >= visit.max_pause {
            task.nr_dirtied_pause = 1 | aimed_at.clamp(dirtied / 4, dirtied - dirtied / 8);
        }
        Ruling {
            verdict: Verdict::Go { next_check_pages: self.until_check(who) },
            start_background: !seen.wb.flushing && seen.dirty > thresholds.background,
        }
    }

    /// `__bdi_update_bandwidth`: not within 200 ms of the last time, and not over a gap of more
    /// than a second in which this caller did nothing.
    fn update_bandwidth(
        &mut self,
        wb: WbId,
        now: u64,
        control: Option<&Control>,
        start: u64,
        seen: &Seen,
    ) {
        let hz = self.clock.hz();
        let interval = pause::bandwidth_interval(hz);
        let bdi = &mut self.bdis[wb.0 as usize];
        let elapsed = now.saturating_sub(bdi.estimate.stamp);
        // A writer asks at more than 200 ms (bdi_update_bandwidth), a flusher at 200 ms.
        if elapsed < interval + u64::from(control.is_some()) {
            return;
        }
        if elapsed <= hz || bdi.estimate.stamp >= start {
            if let Some(control) = control {
                self.dirty_limit.update(now, interval, control.thresholds.dirty, control.dirty);
                let limit = control.thresholds.dirty.max(self.dirty_limit.limit);
                let control = Control { limit, ..*control };
                let ratio = position::ratio_3_2(&control, bdi.estimate.avg_write_bandwidth);
                let rules = RateRules { hz, strict: false, capped: false };
                bdi.estimate.update_ratelimit(&rules, &control, ratio, seen.wb.dirtied, elapsed);
            }
            bdi.estimate.update_bandwidth(hz, elapsed, seen.wb.written);
        }
        bdi.estimate.dirtied_stamp = seen.wb.dirtied;
        bdi.estimate.written_stamp = seen.wb.written;
        bdi.estimate.stamp = now;
    }
}

impl Ruling {
    const fn with_background(self, start: bool) -> Self {
        Self { start_background: self.start_background || start, ..self }
    }
}

impl Throttle for Pausing {
    fn set_knobs(&mut self, knobs: DirtyKnobs, memory: &Memory) {
        if knobs.dirty != self.knobs.dirty {
            // dirty_ratio_handler recomputes before it zeroes dirty_bytes, so that leaving bytes
            // for a ratio still goes by the bytes.
            let leaves_bytes =
                matches!((self.knobs.dirty, knobs.dirty), (Limit::Bytes(_), Limit::Ratio(_)));
            let in_force = if leaves_bytes { self.knobs } else { knobs };
            self.set_ratelimit(&in_force, memory);
        }
        self.knobs = knobs;
    }

    fn thresholds(&self, memory: &Memory) -> Thresholds {
        of_3_2(&self.knobs, memory, false)
    }

    fn add_bdi(&mut self, limits: BdiLimits) -> BdiId {
        self.bdis.push(Bdi {
            limits,
            completions: Local::default(),
            estimate: Estimate::new(0),
            dirty_exceeded: false,
            run: None,
        });
        BdiId(self.bdis.len() as u32 - 1)
    }

    fn set_bdi(&mut self, bdi: BdiId, limits: BdiLimits) {
        self.bdis[bdi.0 as usize].limits = limits;
    }

    fn add_memcg(&mut self) -> MemcgId {
        MemcgId(0)
    }

    fn add_wb(&mut self, bdi: BdiId, _: Option<MemcgId>) -> WbId {
        WbId(bdi.0)
    }

    fn add_task(&mut self, traits: TaskTraits) -> TaskId {
        self.tasks.push(Task {
            traits,
            nr_dirtied: 0,
            nr_dirtied_pause: pause::POLL_PAGES,
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
        let start = self.clock.jiffies(now);
        let task = &mut self.tasks[who.task.0 as usize];
        task.visit = Visit { start, pages_dirtied: task.nr_dirtied, ..Visit::default() };
        self.look(who, now, seen)
    }

    fn resume(&mut self, who: Dirtier, now: Nanos, _: u64, seen: &Seen) -> Ruling {
        let visit = self.tasks[who.task.0 as usize].visit;
        if visit.last { self.leave(who, visit, seen) } else { self.look(who, now, seen) }
    }

    fn completed(&mut self, wb: WbId, _: Nanos, pages: u64) {
        let bdi = &mut self.bdis[wb.0 as usize];
        self.completions.add(&mut bdi.completions, max_prop_frac(bdi.limits), pages);
    }

    fn over_background(&mut self, wb: WbId, _: Nanos, seen: &Seen) -> bool {
        let background = self.thresholds(&seen.memory).background;
        seen.dirty > background
            || seen.wb.reclaimable > self.bdi_limit(&self.bdis[wb.0 as usize], background)
    }

    fn chunk_pages(&self, wb: WbId, nr_pages: u64) -> u64 {
        let bandwidth = self.bdis[wb.0 as usize].estimate.avg_write_bandwidth;
        flush::chunk_pages(bandwidth, self.dirty_limit.limit, nr_pages)
    }

    fn writepages_begin(&mut self, wb: WbId, now: Nanos, _: &Seen) {
        let (now, pause) = (self.clock.jiffies(now), pause::longest(self.clock.hz()));
        let run = &mut self.bdis[wb.0 as usize].run;
        // A flusher that has submitted nothing for a while has started anew (`wb_start` of
        // wb_writeback).
        *run = Some(match *run {
            Some((start, last)) if now <= last + pause => (start, now),
            _ => (now, now),
        });
    }

    fn writepages_end(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        let now = self.clock.jiffies(now);
        let bdi = &mut self.bdis[wb.0 as usize];
        let start = bdi.run.map_or(now, |(start, _)| start);
        bdi.run = Some((start, now));
        self.update_bandwidth(wb, now, None, start, seen);
    }

    fn bandwidth_pages_per_s(&self, wb: WbId) -> Option<u64> {
        Some(self.bdis[wb.0 as usize].estimate.avg_write_bandwidth)
    }
}
