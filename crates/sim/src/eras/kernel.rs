//! The kernel generations that the simulator knows, and what a stage that all of them share asks of
//! its kernel.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A release that the model does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{release}' is no kernel that the model has; use 2.6.18, 2.6.32, 3.2 or 6.18")]
pub struct UnknownKernel {
    /// The requested release.
    pub release: String,
}

/// A generation of the write path. Kernels between two of them behave like the earlier one, except
/// where a module says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Writers write out dirty pages themselves, `pdflush` beside them, limits are ratios of all
    /// RAM.
    K2_6_18,
    /// One flusher a device, limits shared by completions, writers still do I/O.
    K2_6_32,
    /// IO-less throttling: writers only sleep (3.2 to 4.9).
    K3_2,
    /// blk-mq, wbt, per-device limits, strict limits, cgroup domains.
    K6,
}

/// The conditions of shared stages. A stage asks for what its kernel does, and does not know the
/// version.
impl Generation {
    /// `vm.dirty_ratio` at boot, in percent.
    pub(crate) const fn dirty_ratio(self) -> u8 {
        if matches!(self, Self::K2_6_18) { 40 } else { 20 }
    }

    /// `max_sectors_kb` unless set (`BLK_DEF_MAX_SECTORS`).
    pub(crate) const fn max_sectors_kb(self) -> u32 {
        if self.is_multiqueue() { 4096 } else { 512 }
    }

    /// blk-mq: one pool of tags, wbt, the journal's thread known to elevators by those it works
    /// for, requests merged again when the plug is flushed.
    pub(crate) const fn is_multiqueue(self) -> bool {
        matches!(self, Self::K6)
    }

    /// A barrier drains the queue (before 2.6.37; 3.2 is modelled like that, too).
    pub(crate) const fn drains_for_barriers(self) -> bool {
        !self.is_multiqueue()
    }

    /// Each task has a plug (`struct blk_plug`, since 2.6.39).
    pub(crate) const fn plugs_by_task(self) -> bool {
        matches!(self, Self::K3_2 | Self::K6)
    }

    /// Writes say that a process waits for them. 2.6.18 tells reads from writes alone.
    pub(crate) const fn has_sync_writes(self) -> bool {
        !matches!(self, Self::K2_6_18)
    }

    /// Writeback says whether it is for the background limit or age (`wbc_to_write_flags`).
    pub(crate) const fn marks_background(self) -> bool {
        matches!(self, Self::K6)
    }

    /// Old data and the background limit are pdflush's, one timer for the machine, and it leaves
    /// congested queues alone.
    pub(crate) const fn has_pdflush(self) -> bool {
        matches!(self, Self::K2_6_18)
    }

    /// Background writeback starts only when a writer asks. Since 2.6.37 flushers look for
    /// themselves (`wb_check_background_flush`).
    pub(crate) const fn asks_flushers(self) -> bool {
        matches!(self, Self::K2_6_18 | Self::K2_6_32)
    }

    /// One pass through the files may be all (`wb_writeback` of 2.6.32: "didn't write everything
    /// and we don't have more IO, bail").
    pub(crate) const fn sweeps_once(self) -> bool {
        matches!(self, Self::K2_6_32)
    }

    /// xfs writes the dirty neighbours of a page along with it (2.6.31 to 2.6.35).
    pub(crate) const fn xfs_clusters(self) -> bool {
        matches!(self, Self::K2_6_32)
    }

    /// The data that an fsync of xfs submits is marked as waited for (`xfs_submit_ioend_bio`, since
    /// 2.6.33).
    pub(crate) const fn xfs_marks_syncs(self) -> bool {
        matches!(self, Self::K3_2 | Self::K6)
    }

    /// All journals mark their writes as synchronous and idle, which exempts them from wbt (xfs
    /// always; jbd2 since 6.8).
    pub(crate) const fn exempts_journals(self) -> bool {
        matches!(self, Self::K3_2 | Self::K6)
    }

    /// The throttle counts how often the write path is gone through, not pages (2.6).
    pub(crate) const fn counts_visits(self) -> bool {
        matches!(self, Self::K2_6_18 | Self::K2_6_32)
    }

    /// Bandwidth is estimated once more after an inode's last page has left writeback
    /// (`wb_inode_writeback_end`, 5.15 and later).
    pub(crate) const fn settles_writeback(self) -> bool {
        matches!(self, Self::K6)
    }

    /// A software RAID submits all writes in one thread. Later kernels' arrays are not modelled.
    pub(crate) const fn has_raid_thread(self) -> bool {
        matches!(self, Self::K2_6_32)
    }

    /// Control groups have `io.max`, and dirty limits by `memory.high`.
    pub(crate) const fn has_groups(self) -> bool {
        matches!(self, Self::K6)
    }

    /// A kernel shows which thread commits an ext4 journal (`journal_task`, since 4.20).
    pub(crate) const fn shows_journal_thread(self) -> bool {
        matches!(self, Self::K6)
    }

    /// The device's counters have flushes (since 5.5).
    pub(crate) const fn counts_flushes(self) -> bool {
        matches!(self, Self::K6)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::K2_6_18 => "2.6.18",
            Self::K2_6_32 => "2.6.32",
            Self::K3_2 => "3.2",
            Self::K6 => "6.18",
        })
    }
}

impl Generation {
    /// The generation whose write path a release had, or the nearest one: between two of them the
    /// earlier. wbt (4.10) makes the newest.
    ///
    /// # Errors
    /// [`UnknownKernel`] for a text that is no release from 2.6 on.
    pub fn nearest(release: &str) -> Result<Self, UnknownKernel> {
        let wrong = || UnknownKernel { release: release.to_owned() };
        let numbers: Option<Vec<u32>> = release.split('.').map(|n| n.parse().ok()).collect();
        match numbers.ok_or_else(wrong)?.as_slice() {
            [2, 6, minor, ..] if *minor >= 32 => Ok(Self::K2_6_32),
            [2, 6, ..] => Ok(Self::K2_6_18),
            [3, minor, ..] if *minor < 2 => Ok(Self::K2_6_32),
            [3, ..] => Ok(Self::K3_2),
            [4, minor, ..] if *minor < 10 => Ok(Self::K3_2),
            [major, ..] if *major >= 4 => Ok(Self::K6),
            _ => Err(wrong()),
        }
    }
}

impl FromStr for Generation {
    type Err = UnknownKernel;

    /// A release stands for its generation: any 3.2 and any 6.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UnknownKernel { release: text.to_owned() };
        let numbers: Option<Vec<u32>> = text.split('.').map(|n| n.parse().ok()).collect();
        match numbers.ok_or_else(wrong)?.as_slice() {
            [2, 6, 18] => Ok(Self::K2_6_18),
            [2, 6, 32] => Ok(Self::K2_6_32),
            [3, 2, ..] => Ok(Self::K3_2),
            [6, ..] => Ok(Self::K6),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_they_are_written_and_stand_for_their_generation() {
        for generation in
            [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2, Generation::K6]
        {
            assert_eq!(generation.to_string().parse(), Ok(generation));
        }
        assert_eq!("6.1.55".parse(), Ok(Generation::K6));
        for generation in
            [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2, Generation::K6]
        {
            assert_eq!(Generation::nearest(&generation.to_string()), Ok(generation));
        }
        for (release, nearest) in [
            ("2.6.24", "2.6.18"),
            ("2.6.39", "2.6.32"),
            ("3.0", "2.6.32"),
            ("3.10", "3.2"),
            ("4.9", "3.2"),
            ("4.10", "6.18"),
            ("5.15.0", "6.18"),
            ("7.0", "6.18"),
        ] {
            assert_eq!(Generation::nearest(release).unwrap().to_string(), nearest, "{release}");
        }
        for text in ["2.4", "6.x", "", "linux"] {
            assert!(Generation::nearest(text).is_err(), "{text}");
        }
        for text in ["2.4", "2.6.33", "3.3", "6.x", "", "linux"] {
            assert!(text.parse::<Generation>().is_err(), "{text}");
        }
    }
}
