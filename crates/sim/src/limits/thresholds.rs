//! The two thresholds that follow from the knobs and from memory, in the arithmetic of 6.x.
//!
//! Older kernels' is in [`crate::eras::limits`].

use super::PAGE_SIZE;
use super::knobs::{DirtyKnobs, Limit};

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
    pub(crate) const fn quarter_more(self) -> Self {
        Self {
            dirty: self.dirty + self.dirty / 4,
            background: self.background + self.background / 4,
        }
    }

    /// A background threshold that is not below the hard limit silently becomes half of it.
    pub(crate) const fn ordered(self) -> Self {
        if self.background >= self.dirty {
            Self { background: self.dirty / 2, ..self }
        } else {
            self
        }
    }
}

/// The machine's thresholds in 6.x (`domain_dirty_limits`).
///
/// `boosted`: for a real-time task. `dirty_limit`: the hard limit in force.
#[must_use]
pub fn global(knobs: &DirtyKnobs, available: u64, boosted: bool, dirty_limit: u64) -> Thresholds {
    let pages = |limit| match limit {
        Limit::Ratio(ratio) => per_page_ratio(ratio) * available / PAGE_SIZE,
        Limit::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE),
    };
    domain(pages(knobs.dirty), pages(knobs.background), boosted, dirty_limit)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Generation;

    fn knobs(dirty: Limit, background: Limit) -> DirtyKnobs {
        DirtyKnobs { dirty, background, ..DirtyKnobs::defaults(Generation::K6) }
    }

    fn of(dirty: Limit, background: Limit) -> (u64, u64) {
        // 600,000 free, 10,000 of them reserved, 200,000 of page cache.
        let t = global(&knobs(dirty, background), 790_001, false, 0);
        (t.dirty, t.background)
    }

    #[test]
    fn ratios_are_parts_of_4096() {
        use Limit::Ratio;
        // 20 % is 819 of 4096, of 790,001: 157,961.9.
        assert_eq!(of(Ratio(20), Ratio(10)), (157_961, 78_884));
        assert_eq!(of(Ratio(0), Ratio(0)), (0, 0));
    }

    #[test]
    fn sizes_round_up_and_the_background_is_silently_halved() {
        use Limit::{Bytes, Ratio};
        // 15,000,000 / 4096 = 3662.1 pages.
        assert_eq!(of(Bytes(15_000_000), Bytes(5_000_000)), (3663, 1221));
        assert_eq!(of(Bytes(15_000_000), Ratio(10)), (3663, 1831));
    }

    #[test]
    fn real_time_tasks_get_a_quarter_more() {
        let knobs = knobs(Limit::Ratio(20), Limit::Ratio(10));
        // 157,961 + 39,490 + 160,000 / 32 and 78,884 + 19,721 + 5,000.
        assert_eq!(
            global(&knobs, 790_001, true, 160_000),
            Thresholds { dirty: 202_451, background: 103_605 }
        );
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
