//! What a machine asks of the throttling of any generation, and what it gets for an answer.

use std::fmt;

use floodwall_device::Nanos;

use crate::limits::{BdiLimits, DirtyKnobs, Memory, Thresholds};

/// By how many pages a device's counters may be off (`bdi_stat_error`, `wb_stat_error`): a batch of
/// 8 (1 + log2 CPUs) pages for every CPU.
#[must_use]
pub const fn stat_error(possible_cpus: u32) -> u64 {
    let cpus = if possible_cpus == 0 { 1 } else { possible_cpus };
    cpus as u64 * 8 * (1 + cpus.ilog2() as u64)
}

/// Names a writing task to its throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId(pub u32);

/// Names a backing device (`struct backing_dev_info`) to its throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BdiId(pub u32);

/// Names a writeback context (`struct bdi_writeback`): a device, or since 4.2 a device and a memory
/// cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WbId(pub u32);

/// Names a memory cgroup that has separate dirty limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemcgId(pub u32);

/// The origin of dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirtier {
    /// The writing task.
    pub task: TaskId,
    /// The CPU that it runs on, below [`Machine::cpus`].
    pub cpu: u32,
    /// The writeback context of the file.
    pub wb: WbId,
}

/// What matters of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Timer ticks per second (`CONFIG_HZ`).
    pub hz: u32,
    /// CPUs online.
    pub cpus: u32,
    /// CPUs possible (`nr_cpu_ids`); counters' errors grow with them.
    pub possible_cpus: u32,
}

/// How the kernel treats a task when it dirties pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTraits {
    /// Real-time or deadline scheduled: limits are a quarter higher (`rt_task`).
    pub real_time: bool,
    /// nfsd that serves its own machine, or a loop device's worker (`PF_LESS_THROTTLE`, since 5.8
    /// `PF_LOCAL_THROTTLE`).
    pub local: bool,
}

/// One writeback context's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WbCounts {
    /// Dirty pages, not yet under writeback (`WB_RECLAIMABLE`; with NFS's unstable pages up to
    /// 5.7).
    pub reclaimable: u64,
    /// Pages under writeback (`WB_WRITEBACK`; with NFS's unstable pages since 5.8).
    pub writeback: u64,
    /// Pages ever dirtied (`WB_DIRTIED`).
    pub dirtied: u64,
    /// Pages ever written (`WB_WRITTEN`).
    pub written: u64,
    /// Whether a flusher works on it (`writeback_in_progress`).
    pub flushing: bool,
}

impl WbCounts {
    /// Dirty and under writeback.
    #[must_use]
    pub const fn dirty(&self) -> u64 {
        self.reclaimable + self.writeback
    }
}

/// One memory cgroup's counters (`mem_cgroup_wb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemcgCounts {
    /// Its file pages.
    pub file: u64,
    /// How many pages more it may have: the least of `min(memory.max, memory.high) - usage` over
    /// it and its ancestors.
    pub headroom: u64,
    /// Its dirty pages.
    pub dirty: u64,
    /// Its pages under writeback.
    pub writeback: u64,
}

/// All that the kernel looks at when it decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The machine's memory.
    pub memory: Memory,
    /// Dirty pages of all devices (`NR_FILE_DIRTY`; plus `NR_UNSTABLE_NFS` up to 5.7).
    pub dirty: u64,
    /// Pages under writeback of all devices (`NR_WRITEBACK`; with NFS's unstable pages since 5.8).
    pub writeback: u64,
    /// The writeback context in question.
    pub wb: WbCounts,
    /// Its memory cgroup, if it belongs to one other than the root.
    pub memcg: Option<MemcgCounts>,
}

/// What a writer has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Carry on; the next look is due after this many pages, or earlier if others dirty on the same
    /// CPU.
    Go {
        /// Pages until the next look, at least 1.
        next_check_pages: u64,
    },
    /// Sleep, then call [`Throttle::resume`].
    Sleep {
        /// When the timer wakes it.
        until: Nanos,
    },
    /// Submit this many dirty pages of this device for writing, blocking for request slots like any
    /// submitter, then call [`Throttle::resume`] with how many were found.
    WriteOut {
        /// Pages.
        pages: u64,
    },
    /// Sleep until a write queue leaves congestion, but not longer than this
    /// (`blk_congestion_wait`), then call [`Throttle::resume`].
    CongestionWait {
        /// When the timer wakes it.
        until: Nanos,
    },
}

/// A verdict and what else the kernel did meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What the writer has to do.
    pub verdict: Verdict,
    /// Background writeback of this device is to start (`wb_start_background_writeback`,
    /// `pdflush_operation(background_writeout)`).
    pub start_background: bool,
}

/// A generation's throttling: the state of all tasks, devices and cgroups, and the rules.
///
/// Ids come from `add_*` and are valid only for the throttle that gave them; others panic, like any
/// index out of range.
pub trait Throttle: fmt::Debug + Send {
    /// Sets the global knobs. What a write to the sysctl does besides (`writeback_set_ratelimit`)
    /// happens, too.
    fn set_knobs(&mut self, knobs: DirtyKnobs, memory: &Memory);

    /// The limits in force, as a task without privileges sees them.
    fn thresholds(&self, memory: &Memory) -> Thresholds;

    /// Adds a device.
    fn add_bdi(&mut self, limits: BdiLimits) -> BdiId;

    /// Sets a device's limits; they are as [`BdiLimits`] has checked them.
    fn set_bdi(&mut self, bdi: BdiId, limits: BdiLimits);

    /// Adds a memory cgroup with separate limits.
    fn add_memcg(&mut self) -> MemcgId;

    /// Adds a writeback context.
    fn add_wb(&mut self, bdi: BdiId, memcg: Option<MemcgId>) -> WbId;

    /// Adds a task.
    fn add_task(&mut self, traits: TaskTraits) -> TaskId;

    /// How many pages may be dirtied before [`Throttle::dirtied`] would ask for a look; at least 1.
    /// So that extents need not be split into pages.
    fn until_check(&self, who: Dirtier) -> u64;

    /// Counts pages that were just dirtied and says whether [`Throttle::balance`] has to be called
    /// now (`balance_dirty_pages_ratelimited`).
    fn dirtied(&mut self, who: Dirtier, pages: u64) -> bool;

    /// Looks at the counters and decides (`balance_dirty_pages`, from its beginning).
    fn balance(&mut self, who: Dirtier, now: Nanos, seen: &Seen) -> Ruling;

    /// Goes on with `balance_dirty_pages` where its verdict left it. `wrote`: pages found and
    /// submitted for a [`Verdict::WriteOut`], else 0.
    fn resume(&mut self, who: Dirtier, now: Nanos, wrote: u64, seen: &Seen) -> Ruling;

    /// Counts pages whose writeback is complete (`__wb_writeout_add`); shares follow from them.
    fn completed(&mut self, wb: WbId, now: Nanos, pages: u64);

    /// Whether background writeback goes on (`wb_over_bg_thresh` and its ancestors).
    fn over_background(&mut self, wb: WbId, now: Nanos, seen: &Seen) -> bool;

    /// How many pages of one inode a flusher writes at once (`writeback_chunk_size`,
    /// `MAX_WRITEBACK_PAGES`), of `nr_pages` that it is to write at all.
    fn chunk_pages(&self, wb: WbId, nr_pages: u64) -> u64;

    /// A task is about to submit an inode's dirty pages (`do_writepages`). Only kernels that
    /// estimate the device's bandwidth look (3.2 and later).
    fn writepages_begin(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        let _ = (wb, now, seen);
    }

    /// An inode's dirty pages, or a chunk of them, have been submitted.
    fn writepages_end(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        let _ = (wb, now, seen);
    }

    /// 200 ms have passed since an inode's last page left writeback, and this was not called since
    /// (`wb_inode_writeback_end`, 5.15 and later).
    fn writeback_settled(&mut self, wb: WbId, now: Nanos, seen: &Seen) {
        let _ = (wb, now, seen);
    }

    /// The smoothed estimate of how fast a device drains, in pages per second; `None` before 3.2,
    /// which did not estimate it.
    fn bandwidth_pages_per_s(&self, wb: WbId) -> Option<u64> {
        let _ = wb;
        None
    }

    /// Whether a writer to this device was put to sleep within the last second (`wb_recent_wait`,
    /// which wbt asks; it came with 4.10).
    fn slept_recently(&self, bdi: BdiId, now: Nanos) -> bool {
        let _ = (bdi, now);
        false
    }
}
