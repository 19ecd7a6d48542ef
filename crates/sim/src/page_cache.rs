//! The page cache: the dirty pages of each file, those under writeback, those present.
//!
//! ```text
//! clean ── dirty() ─▶ dirty ── start_writeback() ─▶ under writeback ── end_writeback() ─▶ clean
//!                       ▲────────── written to again meanwhile ─────────┘ (then both)
//! ```
//!
//! Counts are pages of 4 KiB, by file, by writeback context, and for the machine (`NR_FILE_DIRTY`,
//! `NR_WRITEBACK`, `NR_DIRTIED`, `NR_WRITTEN`). A file lies in one piece on the device, as delayed
//! allocation and preallocation place the files of these workloads; btrfs' copies on write go
//! elsewhere.

use floodwall_device::Nanos;

use crate::extent::ExtentSet;
use crate::request::ProcessIndex;

/// log2 of the page size.
pub(crate) const PAGE_SHIFT: u32 = 12;

/// Names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeId(pub(crate) u32);

/// On which of the flusher's lists a file is (fs/fs-writeback.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    /// On none: nothing of it is dirty.
    #[default]
    None,
    /// `b_dirty`, by the time it was first dirtied.
    Dirty,
    /// `b_io`: the current batch.
    Io,
    /// `b_more_io`: its chunk is used up.
    MoreIo,
}

/// A process that waits until pages from `at` on have left writeback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageWaiter {
    pub(crate) process: ProcessIndex,
    /// First page of the range under writeback that it waits for now.
    pub(crate) at: u64,
    /// It waits for none from here on.
    pub(crate) end: u64,
}

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    pub(crate) dirty: ExtentSet,
    pub(crate) writeback: ExtentSet,
    /// Pages in the cache; `None` for files that no process reads through the cache.
    pub(crate) present: Option<ExtentSet>,
    /// The writeback context that it belongs to, by its number; `None` until it is first dirtied.
    pub(crate) wb: Option<u32>,
    /// Where page 0 is on the device, in bytes.
    pub(crate) device_offset: u64,
    /// Size in pages.
    pub(crate) pages: u64,
    /// Pages below this have been on the device before: writing them changes no metadata but the
    /// times.
    pub(crate) written: u64,
    /// When the first page that is dirty now became so.
    pub(crate) dirtied_when: Nanos,
    /// Where the next chunk begins (`writeback_index`).
    pub(crate) cursor: u64,
    pub(crate) list: List,
    /// Some process is writing it (`I_SYNC`, `I_LOCK`).
    pub(crate) busy: bool,
    /// The commit that makes its metadata stable; 0: none is needed.
    pub(crate) sync_commit: u64,
    /// The same for what reading its data takes (fdatasync).
    pub(crate) datasync_commit: u64,
    /// Its modification time, in the filesystem's granules.
    pub(crate) mtime: u64,
    /// NFS: WRITEs that the server has not answered.
    pub(crate) writes: u32,
    /// NFS: pages that it has answered for and not committed.
    pub(crate) answered: Vec<(u64, u64)>,
    /// NFS: pages that a COMMIT is under way for.
    pub(crate) committing: Vec<(u64, u64)>,
    pub(crate) waiters: Vec<PageWaiter>,
    /// Pages that are being read.
    pub(crate) filling: ExtentSet,
    /// The processes that wait for pages being read.
    pub(crate) fill_waiters: Vec<(ProcessIndex, u64)>,
}

impl Inode {
    /// The writeback context's number; the root group's before it belongs to any.
    pub(crate) fn wb(&self) -> usize {
        self.wb.unwrap_or(0) as usize
    }

    /// Where a page is on the device, in bytes.
    pub(crate) fn offset_of(&self, page: u64) -> u64 {
        self.device_offset + (page << PAGE_SHIFT)
    }

    /// The first dirty range at or after a page that is not under writeback already.
    pub(crate) fn next_dirty(&self, mut from: u64) -> Option<(u64, u64)> {
        loop {
            let (begin, end) = self.dirty.first_from(from)?;
            match self.writeback.first_from(begin) {
                Some((busy, busy_end)) if busy == begin => from = busy_end.min(end),
                Some((busy, _)) => return Some((begin, end.min(busy))),
                None => return Some((begin, end)),
            }
        }
    }
}

/// A writeback context's counters, in pages (`WB_RECLAIMABLE`, `WB_WRITEBACK`, `WB_DIRTIED`,
/// `WB_WRITTEN`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WbPages {
    /// Dirty, not under writeback.
    pub(crate) dirty: u64,
    /// Under writeback.
    pub(crate) writeback: u64,
    /// Ever dirtied.
    pub(crate) dirtied: u64,
    /// Ever written.
    pub(crate) written: u64,
}

/// All files, and the machine's counters.
#[derive(Debug)]
pub(crate) struct PageCache {
    pub(crate) inodes: Vec<Inode>,
    /// By number of the writeback context; the root group's is the first.
    pub(crate) wbs: Vec<WbPages>,
    /// Dirty pages, not under writeback.
    pub(crate) dirty: u64,
    /// Pages under writeback.
    pub(crate) writeback: u64,
    /// Pages ever dirtied.
    pub(crate) dirtied: u64,
    /// Pages ever written.
    pub(crate) written: u64,
    /// Dirty pages that were thrown away with their file.
    pub(crate) discarded: u64,
    /// Most pages ever dirty and under writeback together.
    pub(crate) most: u64,
}

impl Default for PageCache {
    /// Empty, with the root group's writeback context.
    fn default() -> Self {
        Self {
            inodes: Vec::new(),
            wbs: vec![WbPages::default()],
            dirty: 0,
            writeback: 0,
            dirtied: 0,
            written: 0,
            discarded: 0,
            most: 0,
        }
    }
}

impl PageCache {
    pub(crate) fn add(&mut self, inode: Inode) -> InodeId {
        self.inodes.push(inode);
        InodeId((self.inodes.len() - 1) as u32)
    }

    pub(crate) fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[id.0 as usize]
    }

    pub(crate) fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        &mut self.inodes[id.0 as usize]
    }

    /// Pages become dirty. Returns how many were not, and whether nothing of the file was.
    pub(crate) fn dirty(&mut self, id: InodeId, begin: u64, end: u64, now: Nanos) -> (u64, bool) {
        let inode = &mut self.inodes[id.0 as usize];
        let first = inode.dirty.is_empty();
        let added = inode.dirty.insert(begin, end);
        inode.pages = inode.pages.max(end);
        if first && added > 0 && inode.list == List::None {
            // Until the flusher has been there it keeps its place, however often it has been
            // synced.
            inode.dirtied_when = now;
        }
        if let Some(present) = &mut inode.present {
            present.insert(begin, end);
        }
        let wb = &mut self.wbs[inode.wb()];
        wb.dirty += added;
        wb.dirtied += added;
        self.dirty += added;
        self.dirtied += added;
        self.most = self.most.max(self.dirty + self.writeback);
        (added, first && added > 0)
    }

    /// Dirty pages go to the device.
    pub(crate) fn start_writeback(&mut self, id: InodeId, begin: u64, end: u64) {
        let inode = &mut self.inodes[id.0 as usize];
        let wb = &mut self.wbs[inode.wb()];
        let (cleaned, started) =
            (inode.dirty.remove(begin, end), inode.writeback.insert(begin, end));
        wb.dirty -= cleaned;
        wb.writeback += started;
        self.dirty -= cleaned;
        self.writeback += started;
    }

    /// Pages have arrived. Processes that waited for them and have no more to wait for are appended
    /// to `woken`.
    pub(crate) fn end_writeback(
        &mut self,
        id: InodeId,
        begin: u64,
        end: u64,
        woken: &mut Vec<ProcessIndex>,
    ) -> u64 {
        let inode = &mut self.inodes[id.0 as usize];
        let ended = inode.writeback.remove(begin, end);
        let wb = &mut self.wbs[inode.wb()];
        wb.writeback -= ended;
        wb.written += ended;
        self.writeback -= ended;
        self.written += ended;
        inode.written = inode.written.max(end);
        if !inode.waiters.is_empty() {
            let Inode { waiters, writeback, .. } = inode;
            waiters.retain_mut(|w| {
                if w.at < begin || w.at >= end {
                    return true;
                }
                match writeback.first_from(end).filter(|(b, _)| *b < w.end) {
                    Some((next, _)) => {
                        w.at = next;
                        true
                    }
                    None => {
                        woken.push(w.process);
                        false
                    }
                }
            });
        }
        ended
    }

    /// A process waits until nothing of a range is under writeback, from the lowest page up
    /// (`filemap_fdatawait_range`). `false`: nothing is.
    pub(crate) fn wait_for(
        &mut self,
        id: InodeId,
        begin: u64,
        end: u64,
        process: ProcessIndex,
    ) -> bool {
        let inode = &mut self.inodes[id.0 as usize];
        match inode.writeback.first_from(begin).filter(|(b, _)| *b < end) {
            Some((at, _)) => {
                inode.waiters.push(PageWaiter { process, at, end });
                true
            }
            None => false,
        }
    }

    /// A file is cut to nothing: its dirty pages are dropped, and pages on their way arrive without
    /// effect.
    pub(crate) fn truncate(&mut self, id: InodeId) {
        let inode = &mut self.inodes[id.0 as usize];
        self.wbs[inode.wb()].dirty -= inode.dirty.pages();
        self.dirty -= inode.dirty.pages();
        self.discarded += inode.dirty.pages();
        inode.dirty.clear();
        (inode.pages, inode.written, inode.cursor) = (0, 0, 0);
        if let Some(present) = &mut inode.present {
            present.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (PageCache, InodeId) {
        let mut cache = PageCache::default();
        let id = cache.add(Inode::default());
        (cache, id)
    }

    #[test]
    fn a_page_is_counted_once_however_often_it_is_written() {
        let (mut cache, id) = cache();
        assert_eq!(cache.dirty(id, 0, 4, Nanos(7)), (4, true));
        assert_eq!(cache.dirty(id, 2, 6, Nanos(9)), (2, false));
        assert_eq!((cache.dirty, cache.dirtied, cache.inode(id).dirtied_when), (6, 6, Nanos(7)));
        cache.start_writeback(id, 0, 6);
        assert_eq!((cache.dirty, cache.writeback), (0, 6));
        // Written to while it is on its way: dirty again, and not to be sent before it has arrived.
        assert_eq!(cache.dirty(id, 1, 3, Nanos(11)), (2, true));
        assert_eq!(cache.inode(id).next_dirty(0), None);
        assert_eq!(cache.end_writeback(id, 0, 2, &mut Vec::new()), 2);
        assert_eq!(cache.inode(id).next_dirty(0), Some((1, 2)));
        assert_eq!((cache.dirty, cache.writeback, cache.written), (2, 4, 2));
    }

    #[test]
    fn who_waits_goes_through_the_file_once_from_below() {
        let (mut cache, id) = cache();
        cache.dirty(id, 0, 30, Nanos(0));
        cache.start_writeback(id, 0, 10);
        cache.start_writeback(id, 20, 30);
        let mut woken = Vec::new();
        assert!(cache.wait_for(id, 0, u64::MAX, ProcessIndex(3)));
        cache.end_writeback(id, 20, 30, &mut woken);
        // Behind the page that it waits for, so it is met later, still under writeback.
        cache.start_writeback(id, 10, 20);
        cache.end_writeback(id, 0, 10, &mut woken);
        assert_eq!(woken, []);
        cache.end_writeback(id, 10, 20, &mut woken);
        assert_eq!(woken, [ProcessIndex(3)]);
        assert!(!cache.wait_for(id, 0, u64::MAX, ProcessIndex(3)));
    }
}
