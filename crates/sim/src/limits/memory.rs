//! What of the machine's memory the dirty ratios are ratios of.

use crate::kernel::Generation;

/// The machine's memory, in pages. Highmem is not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All that the page cache could have had when the kernel started (`nr_free_pagecache_pages`):
    /// constant.
    pub total: u64,
    /// Free now (`NR_FREE_PAGES`).
    pub free: u64,
    /// What the kernel keeps free for itself (`totalreserve_pages`: watermarks and lowmem
    /// reserves).
    pub reserve: u64,
    /// Page cache on the LRU lists (`NR_ACTIVE_FILE` + `NR_INACTIVE_FILE`).
    pub file: u64,
    /// Anonymous memory (`NR_ACTIVE_ANON` + `NR_INACTIVE_ANON`; 2.6.18: `NR_ANON_PAGES`).
    pub anon: u64,
    /// Page cache that processes have mapped (`NR_FILE_MAPPED`).
    pub mapped: u64,
    /// Whether some swap space is free.
    pub swap_free: bool,
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
            Generation::K6 => self.free.saturating_sub(self.reserve) + self.file + 1,
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
