//! The thresholds of dirty memory before 6.x, and what of the memory each kernel's ratios are
//! ratios of.
//!
//! `boosted`: for a real-time task or a local NFS server, which may dirty a quarter more.

use crate::kernel::Generation;
use crate::limits::{DirtyKnobs, Limit, Memory, PAGE_SIZE, Thresholds};

/// The thresholds of 2.6.18 (`get_dirty_limits`).
#[must_use]
pub fn of_2_6_18(knobs: &DirtyKnobs, memory: &Memory, boosted: bool) -> Thresholds {
    raised(ratios_of_all_memory(knobs, memory), boosted)
}

/// The thresholds of 2.6.32 (`get_dirty_limits`): a ratio, but not a size, is at least 5 %.
#[must_use]
pub fn of_2_6_32(knobs: &DirtyKnobs, memory: &Memory, boosted: bool) -> Thresholds {
    let dirty = match knobs.dirty {
        Limit::Ratio(ratio) => Limit::Ratio(ratio.max(5)),
        size @ Limit::Bytes(_) => size,
    };
    of_3_2(&DirtyKnobs { dirty, ..*knobs }, memory, boosted)
}

/// The thresholds of 3.2 (`global_dirty_limits`).
#[must_use]
pub fn of_3_2(knobs: &DirtyKnobs, memory: &Memory, boosted: bool) -> Thresholds {
    let available = memory.dirtyable(Generation::K3_2);
    let [dirty, background] =
        [knobs.dirty, knobs.background].map(|limit| percent_or_bytes(limit, available));
    raised(Thresholds { dirty, background }.ordered(), boosted)
}

fn raised(thresholds: Thresholds, boosted: bool) -> Thresholds {
    if boosted { thresholds.quarter_more() } else { thresholds }
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

impl Memory {
    /// Pages that the dirty ratios are ratios of; never 0 since 2.6.24.
    ///
    /// - 2.6.18: all pages (`get_dirty_limits`: `total_pages`).
    /// - 2.6.32, 3.2: free and reclaimable pages. Anonymous memory counts while it could be swapped
    ///   out (`determine_dirtyable_memory`, `global_reclaimable_pages`).
    /// - 6.x: free above the reserve, and page cache (`global_dirtyable_memory`).
    #[must_use]
    pub const fn dirtyable(&self, generation: Generation) -> u64 {
        match generation {
            Generation::K2_6_18 => self.total,
            Generation::K2_6_32 | Generation::K3_2 => {
                let swappable = if self.swap_free { self.anon } else { 0 };
                self.free + self.file + swappable + 1
            }
            Generation::K6 => self.global_dirtyable(),
        }
    }

    /// Percentage of all memory that no process has mapped, the cap of 2.6.18 (`unmapped_ratio`, 0
    /// to 100).
    #[must_use]
    pub fn unmapped_percent(&self) -> u64 {
        let mapped = ((self.mapped + self.anon) * 100).checked_div(self.total).unwrap_or(0);
        100u64.saturating_sub(mapped)
    }
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
        DirtyKnobs { dirty, background, ..DirtyKnobs::defaults(Generation::K3_2) }
    }

    type Of = fn(&DirtyKnobs, &Memory, bool) -> Thresholds;

    fn at(of: Of, dirty: Limit, background: Limit) -> (u64, u64) {
        let t = of(&knobs(dirty, background), &MEMORY, false);
        (t.dirty, t.background)
    }

    #[test]
    fn ratios_in_each_generation() {
        use Limit::Ratio;
        // 2.6.18: of all memory. 12 % mapped, so the cap is 88 / 2 = 44 %.
        assert_eq!(at(of_2_6_18, Ratio(40), Ratio(10)), (400_000, 100_000));
        assert_eq!(at(of_2_6_18, Ratio(60), Ratio(10)), (440_000, 100_000));
        assert_eq!(at(of_2_6_18, Ratio(1), Ratio(0)), (50_000, 0));
        // Background in percent is halved in percent: 7 / 2 = 3 %.
        assert_eq!(at(of_2_6_18, Ratio(7), Ratio(50)), (70_000, 30_000));
        // 2.6.32: of 600,000 + 200,000 + 1, at least 5 %.
        assert_eq!(at(of_2_6_32, Ratio(20), Ratio(10)), (160_000, 80_000));
        assert_eq!(at(of_2_6_32, Ratio(1), Ratio(1)), (40_000, 8_000));
        // 3.2 has no floor.
        assert_eq!(at(of_3_2, Ratio(1), Ratio(1)), (8_000, 4_000));
    }

    #[test]
    fn sizes_round_up_and_the_background_is_silently_halved() {
        use Limit::{Bytes, Ratio};
        // 15,000,000 / 4096 = 3662.1 pages.
        assert_eq!(at(of_2_6_32, Bytes(15_000_000), Ratio(10)), (3663, 1831));
        assert_eq!(at(of_3_2, Bytes(8192), Bytes(8192)), (2, 1));
    }

    #[test]
    fn real_time_tasks_get_a_quarter_more() {
        let knobs = knobs(Limit::Ratio(20), Limit::Ratio(10));
        // 160,000 + 40,000 and 80,000 + 20,000.
        assert_eq!(
            of_2_6_32(&knobs, &MEMORY, true),
            Thresholds { dirty: 200_000, background: 100_000 }
        );
    }

    #[test]
    fn each_generation_counts_other_pages() {
        let memory = Memory {
            total: 1000,
            free: 300,
            reserve: 20,
            file: 400,
            anon: 250,
            mapped: 50,
            swap_free: false,
        };
        assert_eq!(memory.dirtyable(Generation::K2_6_18), 1000);
        assert_eq!(memory.dirtyable(Generation::K2_6_32), 701); // 300 + 400 + 1
        assert_eq!(memory.dirtyable(Generation::K6), 681); // 300 - 20 + 400 + 1
        let swapping = Memory { swap_free: true, ..memory };
        assert_eq!(swapping.dirtyable(Generation::K3_2), 951); // 300 + 400 + 250 + 1
        assert_eq!(swapping.dirtyable(Generation::K6), 681);
        // (50 + 250) * 100 / 1000 = 30 % are mapped.
        assert_eq!(memory.unmapped_percent(), 70);
        // The reserve may be larger than the free memory: the result does not go below 0.
        assert_eq!(Memory { reserve: 500, ..memory }.dirtyable(Generation::K6), 401);
    }
}
