//! What of the machine's memory the dirty ratios are ratios of.

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
    /// Pages that the dirty ratios of 6.x are ratios of: free above the reserve, and page cache
    /// (`global_dirtyable_memory`). [`Self::dirtyable`] is that of any kernel.
    #[must_use]
    pub const fn global_dirtyable(&self) -> u64 {
        self.free.saturating_sub(self.reserve) + self.file + 1
    }
}
