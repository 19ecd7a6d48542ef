//! The NFS client: pages are clean only when the server has committed them (fs/nfs/write.c).
//!
//! ```text
//! dirty ─▶ WRITE (UNSTABLE, at most wsize) ─▶ answered
//!   ─▶ more than half of the file's pages, or all WRITEs of the file: COMMIT ─▶ clean
//! ```
//!
//! There is no elevator and no wbt: bios are RPCs, and the device behind them is a link with a
//! server. Until the COMMIT pages count as under writeback, as since 5.8 (before they counted as
//! unstable: apart, but against the same limits). Server `sync`: COMMIT is a flush of all that the
//! server holds in memory; `async`: it is answered at once. A flusher asks for a COMMIT after each
//! of its visits if the COMMIT would clean more than half of the file's pages under way
//! (`nfs_commit_unstable_pages`). A file has one COMMIT at a time. More pages on their way than
//! `nfs_congestion_kb` stop flushers until a quarter of them has been answered.

use floodwall_device::Op;

use super::kind::FsKind;
use crate::block::{Bio, End, Times};
use crate::machine::Machine;
use crate::page_cache::InodeId;
use crate::request::Flags;

/// Longest WRITE: what client and server settle on by default with enough memory
/// (`NFS_MAX_FILE_IO_SIZE`).
pub(crate) const WSIZE: u64 = 1 << 20;
/// RPCs that may be under way: TCP has no practical limit (`tcp_max_slot_table_entries` is 65536).
pub(crate) const SLOTS: u32 = 4_096;

impl Machine {
    /// Whether flushers have to wait before they send more.
    pub(crate) fn nfs_congested(&self) -> bool {
        self.nfs.congestion.congested() && matches!(self.fs.kind, FsKind::Nfs { .. })
    }

    /// A WRITE goes out.
    pub(crate) fn nfs_sent(&mut self, id: InodeId, pages: u64) {
        self.cache.inode_mut(id).writes += 1;
        self.nfs.on_their_way += pages;
        self.nfs.congestion.sent(self.nfs.on_their_way);
    }

    /// The server has answered a WRITE.
    pub(crate) fn nfs_answered(&mut self, id: InodeId, begin: u64, end: u64) {
        self.nfs.on_their_way -= end - begin;
        if self.nfs.congestion.answered(self.nfs.on_their_way) {
            self.congestion_left();
        }
        let inode = self.cache.inode_mut(id);
        inode.writes -= 1;
        inode.answered.push((begin, end));
        if inode.writes == 0 {
            self.nfs_commit(id);
        }
    }

    /// A flusher has visited a file, or a COMMIT of it is done (`nfs_write_inode`).
    pub(crate) fn nfs_visited(&mut self, id: InodeId) {
        let inode = self.cache.inode(id);
        let answered: u64 = inode.answered.iter().map(|(begin, end)| end - begin).sum();
        let under_way = inode.dirty.pages() + inode.writeback.pages();
        if inode.writes == 0 || answered > under_way / 2 {
            self.nfs_commit(id);
        }
    }

    /// Sends a COMMIT for the answered pages, unless another one is under way.
    fn nfs_commit(&mut self, id: InodeId) {
        let inode = self.cache.inode_mut(id);
        if inode.answered.is_empty() || !inode.committing.is_empty() {
            return;
        }
        std::mem::swap(&mut inode.answered, &mut inode.committing);
        let at = inode.device_offset;
        let flushes =
            self.block.volatile() && self.fs.kind == (FsKind::Nfs { server_async: false });
        // Without anything to flush a COMMIT still goes there and back, like a read of nothing.
        let op = if flushes { Op::Flush } else { Op::Read };
        let at = if flushes { 0 } else { at };
        let process = self.fs.journal.process();
        self.put(
            process,
            Bio::new(op, at, 0, Flags { sync: true, ..Flags::default() }, End::Committed(id)),
        );
        if !self.processes[process.0 as usize].blocked {
            self.pump(process);
        }
    }

    /// The server has committed.
    pub(crate) fn nfs_committed(&mut self, id: InodeId, times: Times) {
        let mut ranges = std::mem::take(&mut self.cache.inode_mut(id).committing);
        for (begin, end) in ranges.drain(..) {
            self.pages_clean(id, begin, end, times);
        }
        self.nfs_visited(id);
    }
}
