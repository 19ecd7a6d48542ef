//! Linux 2.6.18: the writer does the writing.
//!
//! ```text
//! every 1,024 pages a CPU (8 once the limit has been exceeded):
//!   until dirty + writeback <= limit:
//!     write 6 MiB of this device's pages; done, if so many were found
//!     wait 100 ms, or until a write queue leaves congestion
//!   start pdflush, if dirty > background
//! ```
//!
//! One limit for the machine, nothing per device or task: the task that happens to look pays.
//! Source: mm/page-writeback.c `balance_dirty_pages`, `background_writeout` of 2.6.18.

use floodwall_device::Nanos;

use crate::eras::limits::of_2_6_18;
use crate::limits::flush::MIN_CHUNK_PAGES;
use crate::limits::{BdiLimits, DirtyKnobs, Memory, Thresholds};
use crate::throttle::jiffies::Clock;
use crate::throttle::{
    BdiId, Dirtier, Machine, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle, Verdict, WbId,
};

/// Pages that a CPU dirties between two looks once the limit has been exceeded.
const POLL_WHEN_EXCEEDED: u64 = 8;

/// The state of the machine.
#[derive(Clone, Debug)]
pub struct Pushing {
    clock: Clock,
    knobs: DirtyKnobs,
    /// Pages between two looks of one CPU.
    ratelimit_pages: u64,
    /// A task has seen the limit exceeded, and none since has seen it kept.
    dirty_exceeded: bool,
    /// Pages dirtied on each CPU since its last look.
    dirtied: Vec<u64>,
    tasks: Vec<Task>,
    bdis: u32,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    traits: TaskTraits,
    /// Pages written in this visit to `balance_dirty_pages`.
    pages_written: u64,
    writing: bool,
}

impl Pushing {
    /// A machine at rest.
    #[must_use]
    pub fn new(machine: Machine, knobs: DirtyKnobs, memory: &Memory) -> Self {
        Self {
            clock: Clock::new(machine.hz, false),
            knobs,
            ratelimit_pages: ratelimit_pages(memory.total, machine.cpus),
            dirty_exceeded: false,
            dirtied: vec![0; machine.cpus.max(1) as usize],
            tasks: Vec::new(),
            bdis: 0,
        }
    }

    /// Pages that a writer has to write before it may go on (`sync_writeback_pages`): 6 MiB on most
    /// machines.
    const fn write_chunk(&self) -> u64 {
        self.ratelimit_pages + self.ratelimit_pages / 2
    }

    const fn interval(&self) -> u64 {
        if self.dirty_exceeded { POLL_WHEN_EXCEEDED } else { self.ratelimit_pages }
    }

    fn limits(&self, task: TaskId, seen: &Seen) -> Thresholds {
        let traits = self.tasks[task.0 as usize].traits;
        of_2_6_18(&self.knobs, &seen.memory, traits.real_time || traits.local)
    }

    /// The head of the loop.
    fn look(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let limits = self.limits(who.task, seen);
        if seen.dirty + seen.writeback <= limits.dirty {
            return self.leave(who, limits, seen);
        }
        self.dirty_exceeded = true;
        if seen.dirty == 0 {
            return self.wait(who.task, now);
        }
        self.tasks[who.task.0 as usize].writing = true;
        held(Verdict::WriteOut { pages: self.write_chunk() })
    }

    /// The part of the loop after `writeback_inodes`.
    fn written(&mut self, who: Dirtier, now: Nanos, wrote: u64, seen: &Seen) -> Ruling {
        let limits = self.limits(who.task, seen);
        if seen.dirty + seen.writeback <= limits.dirty {
            return self.leave(who, limits, seen);
        }
        let chunk = self.write_chunk();
        let task = &mut self.tasks[who.task.0 as usize];
        task.pages_written += wrote;
        if task.pages_written >= chunk {
            self.leave(who, limits, seen)
        } else {
            self.wait(who.task, now)
        }
    }

    /// `blk_congestion_wait(WRITE, HZ/10)`.
    fn wait(&mut self, task: TaskId, now: Nanos) -> Ruling {
        self.tasks[task.0 as usize].writing = false;
        held(Verdict::CongestionWait { until: self.clock.timer(now, self.clock.hz() / 10) })
    }

    fn leave(&mut self, who: Dirtier, limits: Thresholds, seen: &Seen) -> Ruling {
        self.tasks[who.task.0 as usize].writing = false;
        if seen.dirty + seen.writeback <= limits.dirty {
            self.dirty_exceeded = false;
        }
        Ruling {
            verdict: Verdict::Go { next_check_pages: self.until_check(who) },
            start_background: !seen.wb.flushing && seen.dirty > limits.background,
        }
    }
}

const fn held(verdict: Verdict) -> Ruling {
    Ruling { verdict, start_background: false }
}

/// `set_ratelimit`: a 32nd of memory, over all CPUs, from 16 pages to 4 MiB.
pub(super) fn ratelimit_pages(total: u64, cpus: u32) -> u64 {
    (total / (u64::from(cpus.max(1)) * 32)).clamp(16, 1024)
}

impl Throttle for Pushing {
    fn set_knobs(&mut self, knobs: DirtyKnobs, _: &Memory) {
        self.knobs = knobs;
    }

    fn thresholds(&self, memory: &Memory) -> Thresholds {
        of_2_6_18(&self.knobs, memory, false)
    }

    fn add_bdi(&mut self, _: BdiLimits) -> BdiId {
        self.bdis += 1;
        BdiId(self.bdis - 1)
    }

    fn set_bdi(&mut self, _: BdiId, _: BdiLimits) {}

    fn add_memcg(&mut self) -> MemcgId {
        MemcgId(0)
    }

    fn add_wb(&mut self, bdi: BdiId, _: Option<MemcgId>) -> WbId {
        WbId(bdi.0)
    }

    fn add_task(&mut self, traits: TaskTraits) -> TaskId {
        self.tasks.push(Task { traits, pages_written: 0, writing: false });
        TaskId(self.tasks.len() as u32 - 1)
    }

    fn until_check(&self, who: Dirtier) -> u64 {
        self.interval().saturating_sub(self.dirtied[who.cpu as usize]).max(1)
    }

    fn dirtied(&mut self, who: Dirtier, pages: u64) -> bool {
        let interval = self.interval();
        let count = &mut self.dirtied[who.cpu as usize];
        *count += pages;
        let due = *count >= interval;
        if due {
            *count = 0;
        }
        due
    }

    fn balance(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling {
        let task = &mut self.tasks[who.task.0 as usize];
        task.pages_written = 0;
        task.writing = false;
        self.look(who, now, seen)
    }

    fn resume(&mut self, who: Dirtier, now: Nanos, wrote: u64, seen: &Seen) -> Ruling {
        if self.tasks[who.task.0 as usize].writing {
            self.written(who, now, wrote, seen)
        } else {
            self.look(who, now, seen)
        }
    }

    fn completed(&mut self, _: WbId, _: Nanos, _: u64) {}

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
    use crate::kernel::Generation;
    use crate::throttle::WbCounts;

    const MACHINE: Machine = Machine { hz: 250, cpus: 2, possible_cpus: 2 };
    /// 4 GiB: the limit of 40 % is 419,430 pages, 10 % are 104,857.
    const MEMORY: Memory = Memory {
        total: 1 << 20,
        free: 0,
        reserve: 0,
        file: 0,
        anon: 0,
        mapped: 0,
        swap_free: false,
    };

    fn machine() -> (Pushing, Dirtier) {
        let mut throttle =
            Pushing::new(MACHINE, DirtyKnobs::defaults(Generation::K2_6_18), &MEMORY);
        let bdi = throttle.add_bdi(BdiLimits::default());
        let (wb, task) = (throttle.add_wb(bdi, None), throttle.add_task(TaskTraits::default()));
        (throttle, Dirtier { task, cpu: 0, wb })
    }

    fn seen(dirty: u64, writeback: u64) -> Seen {
        Seen { memory: MEMORY, dirty, writeback, wb: WbCounts::default(), memcg: None }
    }

    #[test]
    fn looks_are_1024_pages_apart_on_each_cpu() {
        let (mut t, who) = machine();
        assert_eq!(t.until_check(who), 1024);
        assert!(!t.dirtied(who, 1023));
        assert_eq!(t.until_check(who), 1);
        let elsewhere = Dirtier { cpu: 1, ..who };
        assert_eq!(t.until_check(elsewhere), 1024);
        assert!(t.dirtied(who, 1));
        assert!(!t.dirtied(who, 1));
        // Small machines look more often: 64 MiB = 16,384 pages / 32 = 512 on one CPU; 1 MiB: 16.
        assert_eq!((ratelimit_pages(16_384, 1), ratelimit_pages(256, 1)), (512, 16));
    }

    #[test]
    fn below_the_limit_writers_go_on_and_start_pdflush_above_the_background_threshold() {
        let (mut t, who) = machine();
        let go = Verdict::Go { next_check_pages: 1024 };
        let at = |t: &mut Pushing, dirty, flushing| {
            let mut seen = seen(dirty, 0);
            seen.wb.flushing = flushing;
            t.balance(who, Nanos::ZERO, &seen)
        };
        assert_eq!(at(&mut t, 104_857, false), Ruling { verdict: go, start_background: false });
        assert_eq!(at(&mut t, 104_858, false), Ruling { verdict: go, start_background: true });
        assert_eq!(at(&mut t, 104_858, true), Ruling { verdict: go, start_background: false });
        assert_eq!(at(&mut t, 419_430, true).verdict, go);
        assert!(matches!(at(&mut t, 419_431, true).verdict, Verdict::WriteOut { .. }));
    }

    #[test]
    fn above_the_limit_a_writer_writes_6_mib_and_goes_on_however_full_it_still_is() {
        let (mut t, who) = machine();
        let full = seen(400_000, 100_000);
        let now = Nanos::from_secs(1);
        assert_eq!(t.balance(who, now, &full).verdict, Verdict::WriteOut { pages: 1536 });
        // Only 1,000 found: 100 ms of waiting (25 ticks of 4 ms), and another round.
        let wait = Verdict::CongestionWait { until: Nanos::from_millis(1_100) };
        assert_eq!(t.resume(who, now, 1_000, &full).verdict, wait);
        let now = Nanos::from_millis(1_100);
        assert_eq!(t.resume(who, now, 0, &full).verdict, Verdict::WriteOut { pages: 1536 });
        // 1,000 + 536: duty done. The next look is due after 8 pages.
        let ruling = t.resume(who, now, 536, &full);
        assert_eq!(
            ruling,
            Ruling { verdict: Verdict::Go { next_check_pages: 8 }, start_background: true }
        );
        // A task that finds the limit kept ends that.
        assert_eq!(
            t.balance(who, now, &seen(400_000, 0)).verdict,
            Verdict::Go { next_check_pages: 1024 }
        );
    }

    #[test]
    fn a_writer_with_nothing_left_to_write_waits_for_writeback() {
        let (mut t, who) = machine();
        let full = seen(0, 500_000);
        assert!(matches!(
            t.balance(who, Nanos::ZERO, &full).verdict,
            Verdict::CongestionWait { .. }
        ));
        assert!(matches!(
            t.resume(who, Nanos::ZERO, 0, &full).verdict,
            Verdict::CongestionWait { .. }
        ));
        assert!(matches!(
            t.resume(who, Nanos::ZERO, 0, &seen(0, 419_430)).verdict,
            Verdict::Go { .. }
        ));
    }

    #[test]
    fn pdflush_writes_until_less_than_the_background_threshold_is_dirty() {
        let (mut t, who) = machine();
        assert!(t.over_background(who.wb, Nanos::ZERO, &seen(104_857, 0)));
        assert!(!t.over_background(who.wb, Nanos::ZERO, &seen(104_856, 500_000)));
        assert_eq!(t.chunk_pages(who.wb, u64::MAX), 1024);
    }
}
