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

mod commit;
mod file;
mod journal;
mod kind;
mod layout;
mod nfs;
mod sync;
mod sync_job;

pub use kind::{FsKind, UnknownFs};
pub(crate) use layout::Filesystem;
pub(crate) use nfs::{SLOTS as NFS_SLOTS, WSIZE as NFS_WSIZE};
pub(crate) use sync_job::{Extent, SyncJob};
