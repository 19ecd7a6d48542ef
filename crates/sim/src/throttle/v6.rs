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

mod balance_dirty_pages;
mod domain;
#[cfg(test)]
mod tests;

use floodwall_device::Nanos;

use super::estimate::Estimate;
use super::flex_proportions::{FRAC_BASE, Local};
use super::jiffies::Clock;
use super::{
    BdiId, Dirtier, Machine, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle, Verdict, WbId,
    pause,
};
use crate::limits::{self, BdiLimits, DirtyKnobs, Memory, PPM, Thresholds, flush};
use domain::Domain;

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
        let (dirtyable, in_force) = (memory.global_dirtyable(), self.global.limit.limit);
        limits::global(&self.knobs, dirtyable, false, in_force)
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
        let dirtyable = seen.memory.global_dirtyable();
        let background = limits::memcg(&self.knobs, available, dirtyable, false, 0).background;
        let fraction = self.memcgs[memcg as usize].completions.fraction(&wb.memcg_completions);
        counts.dirty > background
            || seen.wb.reclaimable > share.thresh(background, counts.dirty, fraction)
    }

    fn chunk_pages(&self, wb: WbId, nr_pages: u64) -> u64 {
        let bandwidth = self.wbs[wb.0 as usize].estimate.avg_write_bandwidth;
        flush::chunk_pages(bandwidth, self.global.limit.limit, nr_pages)
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
