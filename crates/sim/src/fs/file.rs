//! A file is made, written to and placed: what the filesystem does on the way.

use super::kind::FsKind;
use super::layout::align;
use crate::machine::Machine;
use crate::page_cache::{Inode, InodeId, PAGE_SHIFT};

impl Machine {
    /// Starts the filesystem's timers.
    pub(crate) fn fs_start(&mut self) {
        self.arm_commit();
    }

    /// Makes a file. `written`: its pages have been written before, so that only data is
    /// overwritten.
    pub(crate) fn create_file(
        &mut self,
        directory: usize,
        bytes: u64,
        written: bool,
        read_through_cache: bool,
    ) -> InodeId {
        let pages = bytes.div_ceil(1 << PAGE_SHIFT);
        let device_offset = self.fs.allocate(directory, bytes);
        self.cache.add(Inode {
            device_offset,
            pages: if written { pages } else { 0 },
            written: if written { pages } else { 0 },
            present: read_through_cache.then(Default::default),
            ..Inode::default()
        })
    }

    /// A process is about to dirty pages of a file (`file_update_time`, write_begin).
    pub(crate) fn fs_before_dirty(&mut self, id: InodeId, begin: u64, end: u64) {
        if matches!(self.fs.kind, FsKind::Raw | FsKind::Nfs { .. }) {
            return;
        }
        let tick = self.now.0 / self.fs.granule.0.max(1) + 1;
        let inode = self.cache.inode_mut(id);
        let times = inode.mtime != tick;
        inode.mtime = tick;
        // ext3 allocates when a page is written to; the others when it goes out.
        let allocates =
            end > inode.written && matches!(self.fs.kind, FsKind::Ext3 | FsKind::Ext3Writeback);
        if times {
            self.join_commit(id, false, 0);
        }
        if allocates {
            // Bitmap, group descriptor and an indirect block for each 1024 pages.
            self.join_commit(id, true, 2 + (end - begin) / 1024);
        }
    }

    /// Pages of a file are on the device: new extents become visible (`xfs_setfilesize`,
    /// `ext4_end_io`).
    pub(crate) fn fs_after_write(&mut self, id: InodeId, begin: u64, end: u64, grew: bool) {
        let _ = begin;
        match self.fs.kind {
            FsKind::Xfs | FsKind::Ext4 if grew => {
                self.join_commit(id, true, 1 + (end - begin) / 32_768)
            }
            FsKind::Btrfs => self.join_commit(id, true, 1),
            _ => {}
        }
    }

    /// Where pages of a file go on the device, in bytes.
    pub(crate) fn fs_place(&mut self, id: InodeId, begin: u64, end: u64) -> u64 {
        if self.fs.kind != FsKind::Btrfs {
            return self.cache.inode(id).offset_of(begin);
        }
        // Copy on write: data of all files goes where there is room, one after the other.
        let bytes = (end - begin) << PAGE_SHIFT;
        if self.fs.fresh + bytes > self.fs.capacity {
            self.fs.fresh = align(self.fs.capacity / 2);
        }
        let at = self.fs.fresh;
        self.fs.fresh += bytes;
        at
    }
}
