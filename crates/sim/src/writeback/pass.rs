//! One process's way through the dirty files: a chunk of each, in turn.
//!
//! `wb_writeback` → `writeback_sb_inodes` → `do_writepages` of 3.2 to 6.18; `writeback_inodes` →
//! `sync_sb_inodes` of 2.6.

use floodwall_device::{Nanos, Op};

use super::lists::{Pass, Progress, Visit, Why};
use crate::block::{Bio, End};
use crate::cost;
use crate::fs::FsKind;
use crate::machine::Machine;
use crate::page_cache::{InodeId, List, PAGE_SHIFT};
use crate::request::{Flags, ProcessIndex};

/// Bios made before they are submitted: a plug's worth.
const BATCH: usize = 32;
/// Pages that a chunk of xfs of 2.6.32 reaches at most, for each nominal page. The first cluster
/// has four times as many, then each call adds two.
const CLUSTERED: u64 = 6;

impl Machine {
    /// Lets a pass go on until it sleeps or is over.
    pub(crate) fn advance_pass(&mut self, process: ProcessIndex, pass: &mut Pass) -> Progress {
        loop {
            if !self.pump(process) {
                return Progress::Blocked;
            }
            let Some(visit) = pass.visit else {
                if !self.begin_visit(pass) {
                    return Progress::Finished;
                }
                continue;
            };
            if self.avoids_congestion(pass) {
                self.end_visit(visit, pass);
                return Progress::Congested;
            }
            let (visit, cpu) = self.make_bios(process, visit, pass);
            if cpu > Nanos::ZERO {
                pass.visit = Some(visit);
                self.sleep_until(process, self.now + Nanos(cpu.0 * self.cpu_percent / 100));
                return Progress::Blocked;
            }
            self.end_visit(visit, pass);
        }
    }

    /// pdflush works with `nonblocking`: it leaves a congested queue alone. Writers and the
    /// flushers of later kernels sleep for their slots. An NFS client that has too much under way
    /// stops all senders.
    fn avoids_congestion(&self, pass: &Pass) -> bool {
        let pdflush = self.generation.has_pdflush()
            && pass.why != Why::Throttled
            && self.block.write_congested();
        pdflush || self.nfs_congested()
    }

    /// Takes the next file. `false`: there is nothing more to do.
    fn begin_visit(&mut self, pass: &mut Pass) -> bool {
        loop {
            if pass.left == 0 {
                return false;
            }
            let seen = self.seen(pass.wb);
            if pass.why == Why::Background
                && !self.throttle.over_background(self.wbs[pass.wb].id, self.now, &seen)
            {
                return false;
            }
            let Some(id) = self.next_inode(pass.wb) else {
                if pass.round == Some(pass.written) || pass.round.is_some() && self.one_sweep(pass)
                {
                    return false;
                }
                pass.round = Some(pass.written);
                self.queue_io(pass.wb, pass.older_than);
                match self.wbs[pass.wb].flusher.b_io.is_empty() {
                    true => return false,
                    false => continue,
                }
            };
            if self.cache.inode(id).busy {
                // Another process is writing it.
                self.requeue_inode(id, true);
                continue;
            }
            // A writer that writes for itself has one chunk for all.
            let chunk = match pass.why {
                Why::Throttled => pass.left,
                _ => self.throttle.chunk_pages(self.wbs[pass.wb].id, pass.left).min(pass.left),
            };
            self.throttle.writepages_begin(self.wbs[pass.wb].id, self.now, &seen);
            let inode = self.cache.inode_mut(id);
            inode.busy = true;
            inode.list = List::Io;
            let cursor = inode.cursor;
            let left = if self.clusters() { CLUSTERED * chunk } else { chunk };
            pass.visit = Some(Visit { inode: id, left, chunk, counted: 0, cursor });
            return true;
        }
    }

    /// Whether one pass through the files is all. It is for a writer of 2.6.32 that writes for
    /// itself. It is for the flusher if no file's chunk was used up (`wb_writeback`: "didn't write
    /// everything and we don't have more IO, bail").
    fn one_sweep(&self, pass: &Pass) -> bool {
        self.generation.sweeps_once()
            && (pass.why == Why::Throttled || self.wbs[pass.wb].flusher.nothing_more())
    }

    /// Whether a chunk counts neighbouring pages as one. From 2.6.31 to 2.6.35 xfs quadrupled the
    /// rest of a chunk at each call of `writepage`, and then wrote all dirty neighbours of the
    /// page. Meanwhile `write_cache_pages` counted the calls.
    fn clusters(&self) -> bool {
        self.generation.xfs_clusters() && self.fs.kind == FsKind::Xfs
    }

    /// Turns dirty pages of the chunk into bios, a batch of them, and says what CPU time that took:
    /// none if there were none.
    fn make_bios(
        &mut self,
        process: ProcessIndex,
        mut visit: Visit,
        pass: &mut Pass,
    ) -> (Visit, Nanos) {
        let flags = self.writeback_flags(pass.why);
        let mut cpu = Nanos::ZERO;
        let clusters = self.clusters();
        for _ in 0..BATCH {
            if visit.left == 0 {
                break;
            }
            let Some((begin, end)) = self.cache.inode(visit.inode).next_dirty(visit.cursor) else {
                break;
            };
            let end = end.min(begin + visit.left);
            let end = self.submit_pages(process, visit.inode, begin, end, flags);
            let pages = end - begin;
            visit.counted += match clusters {
                true => u64::from(begin != visit.cursor || visit.counted == 0),
                false => pages,
            };
            (visit.cursor, visit.left) = (end, visit.left - pages);
            cpu += cost::BIO + cost::pages(cost::WRITEBACK_PAGE, pages);
        }
        (visit, cpu)
    }

    /// Puts pages of a file, as many as one request takes, under writeback and hands their bio to a
    /// process. Returns the page after the last.
    pub(crate) fn submit_pages(
        &mut self,
        process: ProcessIndex,
        id: InodeId,
        begin: u64,
        end: u64,
        flags: Flags,
    ) -> u64 {
        let most = (self.block.max_bytes() >> PAGE_SHIFT).max(1);
        // Requests of a stream end where multiples of the longest request do, so that it goes on in
        // whole ones.
        let end = end.min((begin / most + 1) * most);
        let offset = self.fs_place(id, begin, end);
        self.cache.start_writeback(id, begin, end);
        if matches!(self.fs.kind, FsKind::Nfs { .. }) {
            self.nfs_sent(id, end - begin);
        }
        let pages = (end - begin) as u32;
        let end_of = End::Pages { inode: id, begin, pages };
        let len = u64::from(pages) << PAGE_SHIFT;
        self.put(process, Bio::new(Op::Write { fua: false }, offset, len, flags, end_of));
        end
    }

    /// `wbc_to_write_flags` (6.x): background and periodic writeback say so.
    fn writeback_flags(&self, why: Why) -> Flags {
        let background = self.generation.marks_background() && why != Why::Throttled;
        Flags { background, ..Flags::default() }
    }

    fn end_visit(&mut self, visit: Visit, pass: &mut Pass) {
        pass.visit = None;
        let counted = if visit.left == 0 { visit.chunk } else { visit.counted };
        pass.left = pass.left.saturating_sub(counted);
        pass.written += counted;
        let seen = self.seen(pass.wb);
        self.throttle.writepages_end(self.wbs[pass.wb].id, self.now, &seen);
        let inode = self.cache.inode_mut(visit.inode);
        inode.busy = false;
        // range_cyclic: behind the last dirty page the next chunk begins at the file's beginning.
        inode.cursor = if inode.next_dirty(visit.cursor).is_some() { visit.cursor } else { 0 };
        let wrapped = inode.cursor == 0 && inode.next_dirty(0).is_some();
        self.requeue_inode(visit.inode, visit.left == 0 || wrapped);
        if matches!(self.fs.kind, FsKind::Nfs { .. }) {
            self.nfs_visited(visit.inode);
        }
    }
}
