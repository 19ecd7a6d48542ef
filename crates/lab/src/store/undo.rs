//! What pages held before writes that a power cut could still take.
//!
//! Entries are in the order of versions, because a store is written in that order. Undoing goes
//! from the newest to the oldest.

use std::collections::{BTreeSet, VecDeque};

use super::frames::{Frame, Frames};
use super::pages::{PAGE, SECTOR, pieces, sectors};

/// One page that one write changed.
pub(super) struct Entry {
    pub(super) version: u64,
    pub(super) page: u64,
    /// Which sectors it wrote, one bit each.
    pub(super) sectors: u8,
    /// The page before.
    pub(super) old: Frame,
}

/// The log.
#[derive(Default)]
pub(super) struct Undo {
    log: VecDeque<Entry>,
    /// Entries whose old page is not a hole.
    pages: u64,
    dropped: u64,
}

impl Undo {
    /// Pages that are kept, holes not counted.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn push(&mut self, version: u64, page: u64, sectors: u8, old: Frame) {
        self.pages += u64::from(!old.is_hole());
        self.log.push_back(Entry { version, page, sectors, old });
    }

    pub(super) fn pop_newest(&mut self) -> Option<Entry> {
        let entry = self.log.pop_back()?;
        self.pages -= u64::from(!entry.old.is_hole());
        Some(entry)
    }

    fn pop_oldest(&mut self) -> Option<Frame> {
        let entry = self.log.pop_front()?;
        self.pages -= u64::from(!entry.old.is_hole());
        Some(entry.old)
    }

    pub(super) fn forget_below(&mut self, version: u64, frames: &mut Frames) {
        while self.log.front().is_some_and(|e| e.version < version) {
            if let Some(old) = self.pop_oldest() {
                frames.free(old);
            }
        }
    }

    /// Drops entries, oldest first, until one made room in memory; `false` if none did.
    pub(super) fn drop_oldest(&mut self, frames: &mut Frames) -> bool {
        while let Some(old) = self.pop_oldest() {
            self.dropped += 1;
            if frames.free(old) {
                return true;
            }
        }
        false
    }
}

/// Which writes a power cut took.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// Acknowledged ones: page, sectors, first version that is lost; in the order of pages.
    lost: Vec<(u64, u8, u64)>,
    /// Versions of writes that were never acknowledged.
    in_flight: BTreeSet<u64>,
}

impl Gone {
    /// `lost` are ranges in bytes with the first version that is lost. A sector that is lost in
    /// part is lost: devices write sectors whole.
    pub(crate) fn new(
        lost: impl IntoIterator<Item = (u64, u64, u64)>,
        in_flight: BTreeSet<u64>,
    ) -> Self {
        let mut pages = Vec::new();
        for (offset, len, since) in lost {
            for (page, at, range) in pieces(offset, len) {
                debug_assert!(at + range.len() <= PAGE && at / SECTOR < 8);
                pages.push((page, sectors(at, range.len()), since));
            }
        }
        pages.sort_unstable();
        Self { lost: pages, in_flight }
    }

    /// The sectors of a page in which a write of this version is gone.
    pub(super) fn sectors(&self, page: u64, version: u64) -> u8 {
        if self.in_flight.contains(&version) {
            return u8::MAX;
        }
        let first = self.lost.partition_point(|l| l.0 < page);
        self.lost[first..]
            .iter()
            .take_while(|l| l.0 == page)
            .filter(|l| l.2 <= version)
            .fold(0, |acc, l| acc | l.1)
    }
}
