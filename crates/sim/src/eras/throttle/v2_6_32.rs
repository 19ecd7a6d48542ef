//! Linux 2.6.32: the writer still writes, but only for its device's share of the limit.
//!
//! ```text
//! every 1,024 pages a CPU (8 once this device's limit has been exceeded):
//!   until device's pages <= device's limit, or all pages < (background + limit) / 2:
//!     write 1.5 × what was dirtied, if the device's dirty pages alone are above its limit;
//!     done, if so many have been found
//!     sleep 1, 2, 4 … ticks, up to 100 ms
//!   start the device's flusher, if dirty > background
//! ```
//!
//! A device's limit is its share of recent completions, at most the rest of the machine's limit.
//! The heaviest dirtier gets up to an eighth less. Source: mm/page-writeback.c
//! `balance_dirty_pages`, `get_dirty_limits` of 2.6.32 (2.6.24 to 2.6.31 differ in the waits).

use floodwall_device::Nanos;

use super::proportions::{FRAC_BASE, Global, Local};
use super::v2_6_18::ratelimit_pages;
use crate::eras::limits::of_2_6_32;
use crate::kernel::Generation;
use crate::limits::flush::MIN_CHUNK_PAGES;
use crate::limits::{self, BdiLimits, DirtyKnobs, Memory, PPM, Thresholds};
use crate::throttle::jiffies::Clock;
use crate::throttle::{
    BdiId, Dirtier, Machine, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle, Verdict, WbId,
};

/// Pages that a CPU dirties between two looks once the device's limit has been exceeded.
const POLL_WHEN_EXCEEDED: u64 = 8;

/// The state of the machine.
#[derive(Clone, Debug)]
pub struct Sharing {
    clock: Clock,
    knobs: DirtyKnobs,
    ratelimit_pages: u64,
    /// Pages dirtied on each CPU since its last look.
    dirtied: Vec<u64>,
    /// Completions of all devices.
    completions: Global,
    /// Pages dirtied by all tasks.
    dirties: Global,
    tasks: Vec<Task>,
    bdis: Vec<Bdi>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    traits: TaskTraits,
    dirties: Local,
    /// Pages on the CPU when this visit became due.
    due_pages: u64,
    /// Pages to be written before it may go on.
    write_chunk: u64,
    pages_written: u64,
    /// Ticks of the next sleep.
    pause: u64,
    step: Step,
}

/// Where in the loop a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Look,
    Written,
}

#[derive(Clone, Copy, Debug)]
struct Bdi {
    limits: BdiLimits,
    completions: Local,
    dirty_exceeded: bool,
}

impl Sharing {
    /// A machine at rest.
    #[must_use]
    pub fn new(machine: Machine, knobs: DirtyKnobs, memory: &Memory) -> Self {
        let dirty = period_pages(&knobs, memory);
        Self {
            clock: Clock::new(machine.hz, false),
            knobs,
            ratelimit_pages: ratelimit_pages(memory.total, machine.cpus),
            dirtied: vec![0; machine.cpus.max(1) as usize],
            completions: Global::new(dirty),
            dirties: Global::new(dirty),
            tasks: Vec::new(),
            bdis: Vec::new(),
        }
    }

    const fn interval(&self, bdi: &Bdi) -> u64 {
        if bdi.dirty_exceeded { POLL_WHEN_EXCEEDED } else { self.ratelimit_pages }
    }

    /// `get_dirty_limits`: the machine's thresholds, and this device's limit for this task.
    fn limits(&self, who: Dirtier, seen: &Seen) -> (Thresholds, u64) {
        let task = &self.tasks[who.task.0 as usize];
        let boosted = task.traits.real_time || task.traits.local;
        let limits = of_2_6_32(&self.knobs, &seen.memory, boosted);
        let bdi = &self.bdis[who.wb.0 as usize];
        let min_sum = self.bdis.iter().map(|bdi| percent(bdi.limits.min_ppm)).sum();
        let share = bdi_share(
            limits.dirty,
            min_sum,
            bdi.limits,
            self.completions.fraction(&bdi.completions),
        );
        // clip_bdi_dirty_limit: not more than what the machine has left and the device already has.
        let left = limits.dirty.saturating_sub(seen.dirty + seen.writeback);
        let clipped = share.min(left + seen.wb.dirty());
        // task_dirty_limit: the heaviest dirtier is stopped first.
        let (numerator, denominator) = self.dirties.fraction(&task.dirties);
        let less = clipped / 8 * numerator / denominator;
        (limits, (clipped - less.min(clipped)).max(clipped / 2))
    }

    /// The head of the loop.
    fn look(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let (limits, bdi_limit) = self.limits(who, seen);
        if seen.wb.dirty() <= bdi_limit || seen.dirty + seen.writeback < limits.freerun() {
            return self.leave(who, bdi_limit, seen);
        }
        self.bdis[who.wb.0 as usize].dirty_exceeded = true;
        if seen.wb.reclaimable <= bdi_limit {
            return self.written(who, now, 0, seen);
        }
        let task = &mut self.tasks[who.task.0 as usize];
        task.step = Step::Written;
        Ruling { verdict: Verdict::WriteOut { pages: task.write_chunk }, start_background: false }
    }

    /// The part of the loop after `writeback_inodes_wb`.
    fn written(&mut self, who: Dirtier, now: Nanos, wrote: u64, seen: &Seen) -> Ruling {
        let (_, bdi_limit) = self.limits(who, seen);
        let clock = self.clock;
        let task = &mut self.tasks[who.task.0 as usize];
        task.pages_written += wrote;
        task.step = Step::Look;
        if seen.wb.dirty() <= bdi_limit || task.pages_written >= task.write_chunk {
            return self.leave(who, bdi_limit, seen);
        }
        let until = clock.timer(now, task.pause);
        task.pause = (task.pause * 2).min((clock.hz() / 10).max(1));
        Ruling { verdict: Verdict::Sleep { until }, start_background: false }
    }

    fn leave(&mut self, who: Dirtier, bdi_limit: u64, seen: &Seen) -> Ruling {
        if seen.wb.dirty() < bdi_limit {
            self.bdis[who.wb.0 as usize].dirty_exceeded = false;
        }
        self.tasks[who.task.0 as usize].step = Step::Look;
        let background = self.limits(who, seen).0.background;
        Ruling {
            verdict: Verdict::Go { next_check_pages: self.until_check(who) },
            start_background: !seen.wb.flushing && seen.dirty > background,
        }
    }
}

/// Percent, which was all that these kernels kept.
pub(super) const fn percent(ppm: u32) -> u64 {
    ppm as u64 / (PPM / 100)
}

/// A device's share of the hard limit in percent arithmetic (`get_dirty_limits` up to 2.6.36,
/// `bdi_dirty_limit` of 3.2). `min_sum`: all devices' minimum shares in percent.
pub(super) fn bdi_share(
    dirty: u64,
    min_sum: u64,
    limits: BdiLimits,
    (numerator, denominator): (u64, u64),
) -> u64 {
    let share = dirty * (100 - min_sum.min(100)) / 100 * numerator / denominator;
    (share + dirty * percent(limits.min_ppm) / 100).min(dirty * percent(limits.max_ppm) / 100)
}

/// Pages that a period of the shares follows (`calc_period_shift`): the hard limit without its
/// floor.
pub(super) fn period_pages(knobs: &DirtyKnobs, memory: &Memory) -> u64 {
    match knobs.dirty {
        limits::Limit::Ratio(ratio) => {
            u64::from(ratio) * memory.dirtyable(Generation::K2_6_32) / 100
        }
        limits::Limit::Bytes(bytes) => bytes / limits::PAGE_SIZE,
    }
}

/// `max_prop_frac`: a device's completions stop counting at its largest share.
pub(super) const fn max_prop_frac(limits: BdiLimits) -> u64 {
    FRAC_BASE * percent(limits.max_ppm) / 100
}

impl Throttle for Sharing {
    fn set_knobs(&mut self, knobs: DirtyKnobs, memory: &Memory) {
        if knobs.dirty != self.knobs.dirty {
            let dirty = period_pages(&knobs, memory);
            self.completions.resize(dirty);
            self.dirties.resize(dirty);
        }
        self.knobs = knobs;
    }

    fn thresholds(&self, memory: &Memory) -> Thresholds {
        of_2_6_32(&self.knobs, memory, false)
    }

    fn add_bdi(&mut self, limits: BdiLimits) -> BdiId {
        self.bdis.push(Bdi { limits, completions: Local::default(), dirty_exceeded: false });
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
            dirties: Local::default(),
            due_pages: 0,
            write_chunk: 0,
            pages_written: 0,
            pause: 1,
            step: Step::Look,
        });
        TaskId(self.tasks.len() as u32 - 1)
    }

    fn until_check(&self, who: Dirtier) -> u64 {
        let interval = self.interval(&self.bdis[who.wb.0 as usize]);
        interval.saturating_sub(self.dirtied[who.cpu as usize]).max(1)
    }

    fn dirtied(&mut self, who: Dirtier, pages: u64) -> bool {
        let interval = self.interval(&self.bdis[who.wb.0 as usize]);
        let task = &mut self.tasks[who.task.0 as usize];
        self.dirties.add(&mut task.dirties, FRAC_BASE, pages);
        let count = &mut self.dirtied[who.cpu as usize];
        *count += pages;
        if *count < interval {
            return false;
        }
        task.due_pages = *count;
        *count = 0;
        true
    }

    fn balance(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let ratelimit_pages = self.ratelimit_pages;
        let task = &mut self.tasks[who.task.0 as usize];
        // sync_writeback_pages
        let dirtied = task.due_pages.max(ratelimit_pages);
        task.write_chunk = dirtied + dirtied / 2;
        task.pages_written = 0;
        task.pause = 1;
        self.look(who, now, seen)
    }

    fn resume(&mut self, who: Dirtier, now: Nanos, wrote: u64, seen: &Seen) -> Ruling {
        match self.tasks[who.task.0 as usize].step {
            Step::Look => self.look(who, now, seen),
            Step::Written => self.written(who, now, wrote, seen),
        }
    }

    fn completed(&mut self, wb: WbId, _: Nanos, pages: u64) {
        let bdi = &mut self.bdis[wb.0 as usize];
        self.completions.add(&mut bdi.completions, max_prop_frac(bdi.limits), pages);
    }

    fn over_background(&mut self, _: WbId, _: Nanos, seen: &Seen) -> bool {
        seen.dirty >= self.thresholds(&seen.memory).background
    }

    fn chunk_pages(&self, _: WbId, _: u64) -> u64 {
        MIN_CHUNK_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::WbCounts;

    const MACHINE: Machine = Machine { hz: 1000, cpus: 1, possible_cpus: 1 };
    /// 100,000 pages dirtyable: limit 20,000, background 10,000, midpoint 15,000.
    const MEMORY: Memory = Memory {
        total: 1 << 20,
        free: 0,
        reserve: 0,
        file: 99_999,
        anon: 0,
        mapped: 0,
        swap_free: false,
    };

    fn machine() -> (Sharing, Dirtier, Dirtier) {
        let mut t = Sharing::new(MACHINE, DirtyKnobs::defaults(Generation::K2_6_32), &MEMORY);
        let (a, b) = (t.add_bdi(BdiLimits::default()), t.add_bdi(BdiLimits::default()));
        let (a, b) = (t.add_wb(a, None), t.add_wb(b, None));
        let (one, two) = (t.add_task(TaskTraits::default()), t.add_task(TaskTraits::default()));
        (t, Dirtier { task: one, cpu: 0, wb: a }, Dirtier { task: two, cpu: 0, wb: b })
    }

    fn seen(reclaimable: u64, writeback: u64, others: u64) -> Seen {
        let wb = WbCounts { reclaimable, writeback, ..WbCounts::default() };
        Seen { memory: MEMORY, dirty: reclaimable + others, writeback, wb, memcg: None }
    }

    #[test]
    fn the_limit_is_shared_by_completions() {
        let (mut t, a, b) = machine();
        for _ in 0..1_000 {
            t.completed(a.wb, Nanos::ZERO, 300);
            t.completed(b.wb, Nanos::ZERO, 100);
        }
        let limit = |t: &Sharing, who, seen: &Seen| t.limits(who, seen).1;
        let idle = seen(0, 0, 0);
        // About 3/4 and 1/4 of 20,000, and neither task has dirtied anything.
        let (of_a, of_b) = (limit(&t, a, &idle), limit(&t, b, &idle));
        assert!(
            (14_700..15_300).contains(&of_a) && (4_700..5_300).contains(&of_b),
            "{of_a} {of_b}"
        );
        // Only 2,000 pages are left and the device has 1,000 already: 3,000.
        assert_eq!(limit(&t, b, &seen(1_000, 0, 17_000)), 3_000);
        // A task that has dirtied all of late gets an eighth less: its share is 100,000 of 32,768
        // counted, so nearly 1.
        t.dirtied(a, 1_000_000);
        let less = limit(&t, a, &idle);
        assert!((of_a * 7 / 8..of_a * 15 / 16).contains(&less), "{less} of {of_a}");
    }

    #[test]
    fn minimum_and_maximum_shares_are_percentages() {
        let limits = BdiLimits { min_ppm: 100_000, max_ppm: 300_000, strict: false };
        // 20,000 * 90 / 100 = 18,000, half of it 9,000, + 2,000 = 11,000, at most 6,000.
        assert_eq!(bdi_share(20_000, 10, limits, (1, 2)), 6_000);
        assert_eq!(
            bdi_share(20_000, 10, BdiLimits { max_ppm: 1_000_000, ..limits }, (1, 2)),
            11_000
        );
        assert_eq!(bdi_share(20_000, 10, limits, (0, 2)), 2_000);
        assert_eq!(max_prop_frac(limits), 307);
    }

    #[test]
    fn nobody_waits_below_the_midpoint() {
        let (mut t, a, _) = machine();
        let go = t.balance(a, Nanos::ZERO, &seen(14_999, 0, 0));
        assert_eq!(
            go,
            Ruling { verdict: Verdict::Go { next_check_pages: 1024 }, start_background: true }
        );
        // At it, a device that has completed nothing has no share; it is then over its limit with
        // whatever it has.
        assert!(matches!(
            t.balance(a, Nanos::ZERO, &seen(15_000, 0, 0)).verdict,
            Verdict::WriteOut { pages: 1536 }
        ));
    }

    #[test]
    fn a_writer_writes_and_sleeps_longer_and_longer() {
        let (mut t, a, _) = machine();
        t.completed(a.wb, Nanos::ZERO, 100_000);
        t.dirtied(a, 2_000);
        let full = seen(25_000, 0, 0);
        // 1.5 * 2,000 dirtied.
        assert_eq!(t.balance(a, Nanos::ZERO, &full).verdict, Verdict::WriteOut { pages: 3_000 });
        let mut now = Nanos::ZERO;
        let mut slept = Vec::new();
        for _ in 0..9 {
            let Verdict::Sleep { until } = t.resume(a, now, 100, &full).verdict else {
                panic!("no sleep")
            };
            slept.push(until.since(now).0 / 1_000_000);
            now = until;
            assert!(matches!(t.resume(a, now, 0, &full).verdict, Verdict::WriteOut { .. }));
        }
        assert_eq!(slept, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        // 9 * 100 + 2,100: duty done, and the device is looked at every 8 pages.
        let ruling = t.resume(a, now, 2_100, &full);
        assert_eq!(ruling.verdict, Verdict::Go { next_check_pages: 8 });
        // With its dirty pages under writeback it only sleeps.
        assert!(matches!(
            t.balance(a, now, &seen(1_000, 24_000, 0)).verdict,
            Verdict::Sleep { .. }
        ));
        assert!(matches!(
            t.resume(a, now, 0, &seen(1_000, 9_000, 0)).verdict,
            Verdict::Go { next_check_pages: 1024 }
        ));
    }
}
