//! The two thresholds that follow from the knobs and from memory, in each generation's own
//! arithmetic.

use super::knobs::{DirtyKnobs, Limit};
use super::{Memory, PAGE_SIZE};
use crate::kernel::Generation;

/// The hard limit and where flushers start, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// The hard limit (`dirty_thresh`).
    pub dirty: u64,
    /// Where background writeback starts (`background_thresh`); below `dirty` unless both are 0.
    pub background: u64,
}

impl Thresholds {
    /// Below this no writer is held back (`dirty_freerun_ceiling`; since 2.6.24).
    #[must_use]
    pub const fn freerun(self) -> u64 {
        u64::midpoint(self.dirty, self.background)
    }

    /// Where writers balance if the hard limit in force is `limit` pages (3.2 and later; `limit` is
    /// at least `dirty`, see `dirty_limit`).
    #[must_use]
    pub const fn setpoint(self, limit: u64) -> u64 {
        u64::midpoint(self.freerun(), limit)
    }

    /// A quarter more, for real-time tasks and local NFS servers.
    const fn quarter_more(self) -> Self {
        Self {
            dirty: self.dirty + self.dirty / 4,
            background: self.background + self.background / 4,
        }
    }

    /// A background threshold that is not below the hard limit silently becomes half of it.
    const fn ordered(self) -> Self {
        if self.background >= self.dirty {
            Self { background: self.dirty / 2, ..self }
        } else {
            self
        }
    }
}

/// The machine's thresholds (`get_dirty_limits`; 3.2 `global_dirty_limits`; 6.x
/// `domain_dirty_limits`).
///
/// `boosted`: for a real-time task (or, up to 5.7, a local NFS server). `dirty_limit`: the hard
/// limit in force, 6.x only; other generations do not look at it.
#[must_use]
pub fn global(
    generation: Generation,
    knobs: &DirtyKnobs,
    memory: &Memory,
    boosted: bool,
    dirty_limit: u64,
) -> Thresholds {
    let available = memory.dirtyable(generation);
    match generation {
        Generation::K2_6_18 => {
            let thresholds = ratios_of_all_memory(knobs, memory);
            if boosted { thresholds.quarter_more() } else { thresholds }
        }
        Generation::K2_6_32 => {
            // A ratio, but not a size, is at least 5 %.
            let dirty = match knobs.dirty {
                Limit::Ratio(ratio) => u64::from(ratio.max(5)) * available / 100,
                Limit::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE),
            };
            let thresholds =
                Thresholds { dirty, background: percent_or_bytes(knobs.background, available) }
                    .ordered();
            if boosted { thresholds.quarter_more() } else { thresholds }
        }
        Generation::K3_2 => {
            let dirty = percent_or_bytes(knobs.dirty, available);
            let thresholds =
                Thresholds { dirty, background: percent_or_bytes(knobs.background, available) }
                    .ordered();
            if boosted { thresholds.quarter_more() } else { thresholds }
        }
        Generation::K6 => {
            let pages = |limit| match limit {
                Limit::Ratio(ratio) => per_page_ratio(ratio) * available / PAGE_SIZE,
                Limit::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE),
            };
            domain(pages(knobs.dirty), pages(knobs.background), boosted, dirty_limit)
        }
    }
}

/// A memory cgroup's thresholds: ratios as they are, sizes turned into ratios of what the machine
/// has (`domain_dirty_limits`, 4.2 and later). `available`: pages that it may use for page cache;
/// `global_available`: dirtyable memory of the machine.
#[must_use]
pub fn memcg(
    knobs: &DirtyKnobs,
    available: u64,
    global_available: u64,
    boosted: bool,
    dirty_limit: u64,
) -> Thresholds {
    let pages = |limit| {
        let ratio = match limit {
            Limit::Ratio(ratio) => per_page_ratio(ratio),
            Limit::Bytes(bytes) => bytes.div_ceil(global_available.max(1)).min(PAGE_SIZE),
        };
        ratio * available / PAGE_SIZE
    };
    domain(pages(knobs.dirty), pages(knobs.background), boosted, dirty_limit)
}

/// Percent as the kernel since 4.2 keeps it: bytes per page, truncated.
const fn per_page_ratio(percent: u8) -> u64 {
    percent as u64 * PAGE_SIZE / 100
}

/// The end of `domain_dirty_limits`: the boost comes before the order is restored, and limits fit
/// 32 bits.
fn domain(dirty: u64, background: u64, boosted: bool, dirty_limit: u64) -> Thresholds {
    let mut thresholds = Thresholds { dirty, background };
    if boosted {
        thresholds = thresholds.quarter_more();
        thresholds.dirty += dirty_limit / 32;
        thresholds.background += dirty_limit / 32;
    }
    thresholds.dirty = thresholds.dirty.min(u64::from(u32::MAX));
    thresholds.ordered()
}

fn percent_or_bytes(limit: Limit, available: u64) -> u64 {
    match limit {
        Limit::Ratio(ratio) => u64::from(ratio) * available / 100,
        Limit::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE),
    }
}

/// Linux 2.6.18: ratios of all memory, the hard one at most half of the unmapped part, and at least
/// 5 %. It knew no sizes; one is taken as the ratio that comes closest from below.
fn ratios_of_all_memory(knobs: &DirtyKnobs, memory: &Memory) -> Thresholds {
    let total = memory.total;
    let percent = |limit| match limit {
        Limit::Ratio(ratio) => u64::from(ratio),
        Limit::Bytes(bytes) => (bytes / PAGE_SIZE * 100).checked_div(total).unwrap_or(0).min(100),
    };
    let dirty = percent(knobs.dirty).min(memory.unmapped_percent() / 2).max(5);
    let background = percent(knobs.background);
    let background = if background >= dirty { dirty / 2 } else { background };
    Thresholds { dirty: dirty * total / 100, background: background * total / 100 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Memory = Memory {
        total: 1_000_000,
        free: 600_000,
        reserve: 10_000,
        file: 200_000,
        anon: 100_000,
        mapped: 20_000,
        swap_free: false,
    };

    fn knobs(dirty: Limit, background: Limit) -> DirtyKnobs {
        DirtyKnobs { dirty, background, ..DirtyKnobs::defaults(Generation::K6) }
    }

    fn of(generation: Generation, dirty: Limit, background: Limit) -> (u64, u64) {
        let t = global(generation, &knobs(dirty, background), &MEMORY, false, 0);
        (t.dirty, t.background)
    }

    #[test]
    fn ratios_in_each_generation() {
        use Limit::Ratio;
        // 2.6.18: of all memory. 12 % mapped, so the cap is 88 / 2 = 44 %.
        assert_eq!(of(Generation::K2_6_18, Ratio(40), Ratio(10)), (400_000, 100_000));
        assert_eq!(of(Generation::K2_6_18, Ratio(60), Ratio(10)), (440_000, 100_000));
        assert_eq!(of(Generation::K2_6_18, Ratio(1), Ratio(0)), (50_000, 0));
        // Background in percent is halved in percent: 7 / 2 = 3 %.
        assert_eq!(of(Generation::K2_6_18, Ratio(7), Ratio(50)), (70_000, 30_000));
        // 2.6.32: of 600,000 + 200,000 + 1, at least 5 %.
        assert_eq!(of(Generation::K2_6_32, Ratio(20), Ratio(10)), (160_000, 80_000));
        assert_eq!(of(Generation::K2_6_32, Ratio(1), Ratio(1)), (40_000, 8_000));
        // 3.2 has no floor.
        assert_eq!(of(Generation::K3_2, Ratio(1), Ratio(1)), (8_000, 4_000));
        // 6.x: 20 % is 819 of 4096, of 600,000 - 10,000 + 200,000 + 1 = 790,001: 157,961.9.
        assert_eq!(of(Generation::K6, Ratio(20), Ratio(10)), (157_961, 78_884));
        assert_eq!(of(Generation::K6, Ratio(0), Ratio(0)), (0, 0));
    }

    #[test]
    fn sizes_round_up_and_the_background_is_silently_halved() {
        use Limit::{Bytes, Ratio};
        // 15,000,000 / 4096 = 3662.1 pages.
        assert_eq!(of(Generation::K6, Bytes(15_000_000), Bytes(5_000_000)), (3663, 1221));
        assert_eq!(of(Generation::K6, Bytes(15_000_000), Ratio(10)), (3663, 1831));
        assert_eq!(of(Generation::K2_6_32, Bytes(15_000_000), Ratio(10)), (3663, 1831));
        assert_eq!(of(Generation::K3_2, Bytes(8192), Bytes(8192)), (2, 1));
    }

    #[test]
    fn real_time_tasks_get_a_quarter_more() {
        let knobs = knobs(Limit::Ratio(20), Limit::Ratio(10));
        let at = |generation, limit| global(generation, &knobs, &MEMORY, true, limit);
        // 2.6.32: 160,000 + 40,000 and 80,000 + 20,000.
        assert_eq!(
            at(Generation::K2_6_32, 999),
            Thresholds { dirty: 200_000, background: 100_000 }
        );
        // 6.x: 157,961 + 39,490 + 160,000 / 32 and 78,884 + 19,721 + 5,000.
        assert_eq!(at(Generation::K6, 160_000), Thresholds { dirty: 202_451, background: 103_605 });
    }

    #[test]
    fn a_cgroup_gets_the_same_share_of_its_memory_as_the_machine_of_its_own() {
        use Limit::{Bytes, Ratio};
        // 819 / 4096 of 10,000 pages.
        let t = memcg(&knobs(Ratio(20), Ratio(10)), 10_000, 790_001, false, 0);
        assert_eq!((t.dirty, t.background), (1_999, 998));
        // 15 MB of 790,001 pages are 18.99, so 19, of each 4096 bytes: 10,000 * 19 / 4096 = 46.4.
        let t = memcg(&knobs(Bytes(15_000_000), Bytes(5_000_000)), 10_000, 790_001, false, 0);
        assert_eq!((t.dirty, t.background), (46, 17));
    }

    #[test]
    fn free_run_and_setpoint_are_midpoints() {
        let t = Thresholds { dirty: 2000, background: 1000 };
        assert_eq!((t.freerun(), t.setpoint(2000), t.setpoint(3000)), (1500, 1750, 2250));
    }
}
