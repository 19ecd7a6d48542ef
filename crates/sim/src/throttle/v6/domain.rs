//! A domain (the machine, or a memory cgroup) and a device's share of its limits. Pages, parts per
//! million.

use super::super::MemcgCounts;
use super::super::estimate::DirtyLimit;
use super::super::flex_proportions::Global;
use crate::limits::{BdiLimits, Memory, PPM};

/// `struct wb_domain`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Domain {
    pub(super) completions: Global,
    /// The hard limit in force.
    pub(super) limit: DirtyLimit,
}

/// What of a device's limits one of its contexts gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    min_ppm: u64,
    max_ppm: u64,
    min_ppm_sum: u64,
    strict: bool,
}

impl Share {
    /// A context's part of its device's minimum and maximum is its part of the bandwidth
    /// (`wb_min_max_ratio`).
    pub(super) fn of(
        limits: BdiLimits,
        min_ppm_sum: u64,
        bandwidth: u64,
        bdi_bandwidth: u64,
    ) -> Self {
        let (mut min_ppm, mut max_ppm) = (u64::from(limits.min_ppm), u64::from(limits.max_ppm));
        if bandwidth < bdi_bandwidth {
            min_ppm = min_ppm * bandwidth / bdi_bandwidth;
            if max_ppm < PPM {
                max_ppm = max_ppm * bandwidth / bdi_bandwidth;
            }
        }
        Self { min_ppm, max_ppm, min_ppm_sum, strict: limits.strict }
    }

    /// The context's share of a threshold (`__wb_calc_thresh`, 6.14): by completions, plus its
    /// minimum, at most its maximum. A device that has been idle gets an eighth of the room (a
    /// hundredth under a strict limit).
    pub(super) fn thresh(
        &self,
        thresh: u64,
        dirty: u64,
        (numerator, denominator): (u64, u64),
    ) -> u64 {
        let mut share = thresh * (PPM - self.min_ppm_sum.min(PPM)) / PPM * numerator / denominator;
        share += thresh * self.min_ppm / PPM;
        if thresh > dirty {
            share = share.max((thresh - dirty) / if self.strict { 100 } else { 8 });
        }
        share.min(thresh * self.max_ppm / PPM)
    }
}

/// The pages that a cgroup's ratios are ratios of: its file pages, and its headroom as long as the
/// machine has clean pages (`mdtc_calc_avail`).
pub(super) fn memcg_available(
    counts: &MemcgCounts,
    dirty: u64,
    memory: &Memory,
    global_dirty: u64,
) -> u64 {
    let clean = counts.file.saturating_sub(dirty);
    let global_clean = memory.global_dirtyable().saturating_sub(global_dirty);
    counts.file + counts.headroom.min(global_clean.saturating_sub(clean))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: BdiLimits = BdiLimits { min_ppm: 0, max_ppm: 1_000_000, strict: false };

    #[test]
    fn a_share_is_by_completions_and_at_least_an_eighth_of_what_is_left() {
        let share = Share::of(FREE, 0, 1, 1);
        assert_eq!(share.thresh(80_000, 80_000, (1, 4)), 20_000);
        // Idle: (80,000 - 16,000) / 8.
        assert_eq!(share.thresh(80_000, 16_000, (0, 4)), 8_000);
        let strict = Share::of(BdiLimits { strict: true, ..FREE }, 0, 1, 1);
        assert_eq!(strict.thresh(80_000, 16_000, (0, 4)), 640);
        // Others' minimum of 10 % is not for it.
        assert_eq!(Share::of(FREE, 100_000, 1, 1).thresh(80_000, 80_000, (1, 4)), 18_000);
    }

    #[test]
    fn minimum_and_maximum_bound_it() {
        let limits = BdiLimits { min_ppm: 100_000, max_ppm: 150_000, strict: false };
        let share = Share::of(limits, 100_000, 1, 1);
        // 80,000 * 0.9 / 4 + 8,000 = 26,000, at most 12,000; without completions 8,000.
        assert_eq!(share.thresh(80_000, 80_000, (1, 4)), 12_000);
        assert_eq!(share.thresh(80_000, 80_000, (0, 4)), 8_000);
        // The eighth of the room is within the maximum as well.
        assert_eq!(
            Share::of(BdiLimits { max_ppm: 10_000, ..FREE }, 0, 1, 1).thresh(80_000, 0, (0, 4)),
            800
        );
    }

    #[test]
    fn contexts_of_one_device_split_its_bounds_by_bandwidth() {
        let limits = BdiLimits { min_ppm: 100_000, max_ppm: 500_000, strict: false };
        let quarter = Share::of(limits, 100_000, 1_000, 4_000);
        assert_eq!((quarter.min_ppm, quarter.max_ppm), (25_000, 125_000));
        // No maximum stays no maximum.
        assert_eq!(Share::of(FREE, 0, 1_000, 4_000).max_ppm, 1_000_000);
    }

    #[test]
    fn a_cgroup_has_its_file_pages_and_its_headroom_while_others_have_clean_pages() {
        let memory = Memory { free: 9_999, file: 10_000, ..Memory::default() }; // 20,000 dirtyable
        let counts = MemcgCounts { file: 3_000, headroom: 5_000, dirty: 1_000, writeback: 0 };
        // Clean: its own 2,000; the machine's 20,000 - 4,000; others' 14,000.
        assert_eq!(memcg_available(&counts, 1_000, &memory, 4_000), 8_000);
        // The machine has 4,000 clean pages, 2,000 of them the cgroup's own.
        assert_eq!(memcg_available(&counts, 1_000, &memory, 16_000), 5_000);
    }
}
