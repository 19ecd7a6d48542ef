//! Pages become dirty and clean: the page cache, the throttle and the filesystem are told together.

use floodwall_device::Nanos;

use crate::block::Times;
use crate::event::Event;
use crate::fs::FsKind;
use crate::machine::Machine;
use crate::page_cache::InodeId;
use crate::request::ProcessIndex;
use crate::throttle::{Dirtier, Seen, WbCounts};

/// How long after an inode's last page left writeback the bandwidth is looked at again
/// (`BANDWIDTH_INTERVAL`).
const BANDWIDTH_DELAY: Nanos = Nanos::from_millis(200);

impl Machine {
    /// What the kernel looks at when it decides about a writeback context, by its number.
    pub(crate) fn seen(&self, wb: usize) -> Seen {
        let pages = self.cache.wbs[wb];
        Seen {
            memory: self.memory,
            dirty: self.cache.dirty + self.elsewhere.0,
            writeback: self.cache.writeback + self.elsewhere.1,
            wb: WbCounts {
                reclaimable: pages.dirty,
                writeback: pages.writeback,
                dirtied: pages.dirtied,
                written: pages.written,
                flushing: self.wbs[wb].flusher.is_working(),
            },
            memcg: self.memcg_counts(wb),
        }
    }

    /// A task of a group, by its number, has written to pages.
    ///
    /// `visits`: how often it went through the write path for them, which is what 2.6 counts. Says
    /// whether it has to look at the limits now.
    pub(crate) fn dirty_pages(
        &mut self,
        who: Dirtier,
        group: u32,
        inode: InodeId,
        begin: u64,
        end: u64,
        visits: u64,
    ) -> bool {
        let now = self.now;
        self.fs_before_dirty(inode, begin, end);
        let file = self.cache.inode_mut(inode);
        // inode_attach_wb: a file belongs to the group that dirties it first.
        file.wb.get_or_insert(group);
        let (added, first) = self.cache.dirty(inode, begin, end, now);
        if first {
            self.inode_dirtied(inode);
        }
        let counted = if self.generation.counts_visits() { visits } else { added };
        self.throttle.dirtied(who, counted)
    }

    /// A process waits until nothing of a range is under writeback, and pulls the plug of an array
    /// (`sync_page`). `false`: nothing is.
    pub(crate) fn wait_for_pages(
        &mut self,
        inode: InodeId,
        begin: u64,
        end: u64,
        process: ProcessIndex,
    ) -> bool {
        let waits = self.cache.wait_for(inode, begin, end, process);
        if waits {
            self.md_run();
        }
        waits
    }

    /// Pages have arrived on the device.
    pub(crate) fn pages_written(&mut self, inode: InodeId, begin: u64, pages: u64, times: Times) {
        match self.fs.kind {
            FsKind::Nfs { .. } => self.nfs_answered(inode, begin, begin + pages),
            _ => self.pages_clean(inode, begin, begin + pages, times),
        }
    }

    /// Pages leave writeback.
    pub(crate) fn pages_clean(&mut self, inode: InodeId, begin: u64, end: u64, times: Times) {
        let grew = end > self.cache.inode(inode).written;
        let mut woken = std::mem::take(&mut self.woken);
        let ended = self.cache.end_writeback(inode, begin, end, &mut woken);
        let wb = self.cache.inode(inode).wb();
        self.throttle.completed(self.wbs[wb].id, self.now, ended);
        self.fs_after_write(inode, begin, end, grew);
        for process in woken.drain(..) {
            self.processes[process.0 as usize].last = times;
            self.wake(process);
        }
        self.woken = woken;
        if self.cache.inode(inode).writeback.is_empty()
            && !self.wbs[wb].bandwidth_due
            && self.generation.settles_writeback()
        {
            self.wbs[wb].bandwidth_due = true;
            self.at(self.now + BANDWIDTH_DELAY, Event::Bandwidth { wb: wb as u32 });
        }
    }
}
