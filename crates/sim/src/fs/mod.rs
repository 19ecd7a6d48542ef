//! Filesystems: where files lie, when a write changes metadata, what fsync has to do.
//!
//! ```text
//! write() ─▶ times change? blocks allocated? ─▶ the running commit grows
//! fsync() ─▶ own pages out ─▶ wait for them ─▶ commit that holds the file's metadata
//!   ─▶ device cache flush, if the commit did not
//! ```
//!
//! | | commit | when an overwrite needs one | data of other files |
//! |---|---|---|---|
//! | xfs | one log record, PREFLUSH and FUA; eight may be on their way | once a tick (times) | no |
//! | ext4 | blocks, wait, record with PREFLUSH and FUA; every 5 s | once a tick (times) | no |
//! | ext3 | first the filesystem's data, blocks, record; every 5 s | once a second (times) | yes |
//! | btrfs | log tree, then superblock with PREFLUSH and FUA | always: data goes elsewhere | no |
//! | raw | none | – | – |
//! | nfs | COMMIT | – | no |
//!
//! ext4 writes no data of other files because of delayed allocation and unwritten extents. ext3
//! writes all dirty data of the filesystem first because of `data=ordered`.
//!
//! Sources: fs/xfs/xfs_file.c `xfs_file_fsync`, fs/xfs/xfs_log.c; fs/ext4/fsync.c,
//! fs/jbd2/commit.c; fs/ext3/fsync.c, fs/jbd/commit.c (2.6.18, 2.6.32); fs/btrfs/tree-log.c;
//! fs/nfs/write.c.

mod journal;
mod nfs;
mod sync;

use std::fmt;
use std::str::FromStr;

use floodwall_device::Nanos;

use crate::kernel::Generation;
use crate::machine::{Machine, ProcessIndex};
use crate::page_cache::{Inode, InodeId, PAGE_SHIFT};

pub(crate) use journal::Journal;
pub(crate) use nfs::{NfsClient, SLOTS as NFS_SLOTS, WSIZE as NFS_WSIZE};
pub(crate) use sync::{Extent, SyncJob};

/// A filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsKind {
    /// xfs.
    Xfs,
    /// ext4.
    Ext4,
    /// ext3 with `data=ordered`, as distributions mounted it.
    Ext3,
    /// ext3 with `data=writeback`, the default of unpatched kernels from 2.6.30 to 2.6.35.
    Ext3Writeback,
    /// btrfs.
    Btrfs,
    /// None: the block device itself.
    Raw,
    /// An NFS mount; the device is a link with a server behind it.
    Nfs {
        /// Whether the export is `async`: COMMIT is answered before anything is stable.
        server_async: bool,
    },
}

const NAMES: &[(&str, FsKind)] = &[
    ("xfs", FsKind::Xfs),
    ("ext4", FsKind::Ext4),
    ("ext3", FsKind::Ext3),
    ("ext3-writeback", FsKind::Ext3Writeback),
    ("btrfs", FsKind::Btrfs),
    ("raw", FsKind::Raw),
    ("nfs", FsKind::Nfs { server_async: false }),
    ("nfs-async", FsKind::Nfs { server_async: true }),
];

/// No such filesystem here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no filesystem that the model has; use xfs, ext4, ext3, ext3-writeback, btrfs, raw, \
     nfs or nfs-async"
)]
pub struct UnknownFs(pub String);

impl FromStr for FsKind {
    type Err = UnknownFs;

    fn from_str(text: &str) -> Result<Self, UnknownFs> {
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, kind)| *kind)
            .ok_or_else(|| UnknownFs(text.into()))
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

impl FsKind {
    /// Whether a kernel of this generation had it.
    #[must_use]
    pub fn existed_in(self, generation: Generation) -> bool {
        match self {
            Self::Ext4 => generation >= Generation::K2_6_32,
            Self::Btrfs => generation >= Generation::K3_2,
            Self::Ext3Writeback | Self::Ext3 => generation <= Generation::K3_2,
            Self::Xfs | Self::Raw | Self::Nfs { .. } => true,
        }
    }

    /// What the tick of a file's times is: ext3 keeps whole seconds, the others what the kernel's
    /// coarse clock shows.
    fn time_granule(self, hz: u32) -> Nanos {
        match self {
            Self::Ext3 | Self::Ext3Writeback => Nanos::from_secs(1),
            _ => Nanos(1_000_000_000 / u64::from(hz.max(1))),
        }
    }

    /// The interval of commits that no process asks for.
    fn commit_interval(self) -> Option<Nanos> {
        match self {
            Self::Ext3 | Self::Ext3Writeback | Self::Ext4 => Some(Nanos::from_secs(5)),
            Self::Xfs | Self::Btrfs => Some(Nanos::from_secs(30)),
            Self::Raw | Self::Nfs { .. } => None,
        }
    }

    /// Places where directories start: xfs' allocation groups, ext's groups of a directory, else
    /// nothing.
    fn areas(self) -> u64 {
        match self {
            // mkfs.xfs: 4 on a single disk, 16 and more on arrays.
            Self::Xfs => 4,
            Self::Ext4 | Self::Ext3 | Self::Ext3Writeback => 8,
            Self::Btrfs | Self::Raw | Self::Nfs { .. } => 1,
        }
    }
}

/// A mounted filesystem.
#[derive(Debug)]
pub(crate) struct Filesystem {
    pub(crate) kind: FsKind,
    pub(crate) journal: Journal,
    granule: Nanos,
    capacity: u64,
    /// Where the next file of each area goes, in bytes.
    areas: Vec<u64>,
    next_area: usize,
    /// Copy on write: where the next data goes, in bytes.
    fresh: u64,
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
    fn flushes(&self) -> bool {
        !matches!(self.kind, FsKind::Ext3 | FsKind::Ext3Writeback | FsKind::Nfs { .. })
    }

    /// Whether the data that an fsync submits is marked as waited for: not by xfs before 2.6.33
    /// (`xfs_submit_ioend_bio`).
    fn syncs_say_so(&self, generation: Generation) -> bool {
        generation > Generation::K2_6_32 || self.kind != FsKind::Xfs
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
const fn align(bytes: u64) -> u64 {
    bytes >> PAGE_SHIFT << PAGE_SHIFT
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for (name, kind) in NAMES {
            assert_eq!((name.parse(), kind.to_string()), (Ok(*kind), (*name).to_owned()));
        }
        assert!("zfs".parse::<FsKind>().unwrap_err().to_string().contains("use xfs, ext4"));
    }

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
