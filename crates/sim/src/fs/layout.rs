//! A mounted filesystem: where its files lie.

use floodwall_device::Nanos;

use super::journal::Journal;
use super::kind::FsKind;
use crate::kernel::Generation;
use crate::page_cache::PAGE_SHIFT;
use crate::request::ProcessIndex;

/// A mounted filesystem.
#[derive(Debug)]
pub(crate) struct Filesystem {
    pub(crate) kind: FsKind,
    pub(crate) journal: Journal,
    pub(super) granule: Nanos,
    pub(super) capacity: u64,
    /// Where the next file of each area goes, in bytes.
    areas: Vec<u64>,
    next_area: usize,
    /// Copy on write: where the next data goes, in bytes.
    pub(super) fresh: u64,
}

impl Filesystem {
    pub(crate) fn new(
        kind: FsKind,
        generation: Generation,
        hz: u32,
        capacity: u64,
        process: ProcessIndex,
    ) -> Self {
        let count = kind.areas();
        let areas = (0..count).map(|i| align(capacity / count * i)).collect();
        Self {
            kind,
            journal: Journal::new(kind, generation, capacity, process),
            granule: kind.time_granule(hz),
            capacity,
            areas,
            next_area: 0,
            fresh: align(capacity / 2),
        }
    }

    /// Whether fsync ends with the device's cache flushed: not with ext3's barriers off, its
    /// default; over NFS that is the COMMIT's business.
    pub(super) fn flushes(&self) -> bool {
        !matches!(self.kind, FsKind::Ext3 | FsKind::Ext3Writeback | FsKind::Nfs { .. })
    }

    /// Whether the data that an fsync submits is marked as waited for: not by xfs before 2.6.33
    /// (`xfs_submit_ioend_bio`).
    pub(super) fn syncs_say_so(&self, generation: Generation) -> bool {
        generation.xfs_marks_syncs() || self.kind != FsKind::Xfs
    }

    /// A new directory: its files lie together, apart from other directories'.
    pub(crate) fn new_directory(&mut self) -> usize {
        self.next_area += 1;
        self.next_area % self.areas.len()
    }

    /// Room for a file of so many bytes in a directory's area, in one piece if there is any.
    pub(crate) fn allocate(&mut self, directory: usize, bytes: u64) -> u64 {
        let bytes = align(bytes + (1 << PAGE_SHIFT) - 1);
        // Large files begin where a chunk of an array does.
        let unit = if bytes >= LARGE { LARGE } else { 1 };
        let at = self.areas[directory].next_multiple_of(unit);
        let at = if at + bytes > self.capacity {
            self.areas.iter().copied().min().unwrap_or(0)
        } else {
            at
        };
        self.areas[directory] = at + bytes;
        at
    }
}

/// A file that is placed with care, and on what boundary: as large as chunks get.
const LARGE: u64 = 1 << 20;

/// Down to a page's boundary.
pub(super) const fn align(bytes: u64) -> u64 {
    bytes >> PAGE_SHIFT << PAGE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_lie_apart_and_files_of_one_together() {
        let mut fs = Filesystem::new(FsKind::Xfs, Generation::K6, 250, 1 << 40, ProcessIndex(1));
        let (a, b) = (fs.new_directory(), fs.new_directory());
        let first = fs.allocate(a, 1 << 30);
        assert_eq!(fs.allocate(a, 5000), first + (1 << 30));
        assert_eq!(fs.allocate(a, 1), first + (1 << 30) + 8192);
        assert!(fs.allocate(b, 1).abs_diff(first) >= 1 << 38);
    }
}
