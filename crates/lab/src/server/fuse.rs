//! The file that the loop device stands on: one root directory with one file, as large as the
//! device.
//!
//! ```text
//! FUSE_READ, FUSE_WRITE  ─▶ Read, Write            FUSE_FSYNC ─▶ Flush
//! FUSE_FALLOCATE punch hole ─▶ Discard, zero range ─▶ WriteZeroes
//! ```
//!
//! The loop device does direct I/O on the file, so nothing of it is cached a second time and FUSE's
//! strict dirty limit does not apply. The kernel turns `REQ_OP_WRITE_ZEROES` that may unmap into a
//! punched hole, so a Discard here reads as zeros afterwards. FUA never arrives: the loop device
//! does not offer it, and the block layer sends a FLUSH after the write instead.
//!
//! FUSE takes the inode's lock for an fsync and a fallocate, exclusively: while one is in the
//! device, writes wait outside. SATA disks behave alike (FLUSH CACHE is not queued); NVMe drives
//! would not.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

use floodwall_device::Op;
use rustix::fs::FallocateFlags;

use crate::engine::{Engine, Failure, Respond};

/// Largest request: what a loop device's requests are cut into anyway.
const MAX_WRITE: u32 = 1 << 20;
/// Requests that the kernel hands over at once; its default of 12 would cap the device's queue
/// depth.
const MAX_BACKGROUND: u16 = 512;
/// The file changes through this server only, so the kernel need not ask again.
const FOREVER: Duration = Duration::from_secs(1 << 30);
const FILE: INodeNo = INodeNo(2);

/// The answer to a FUSE request.
pub(super) enum Reply {
    Data(ReplyData),
    Written(ReplyWrite),
    Empty(ReplyEmpty),
}

impl Respond for Reply {
    fn data(self, bytes: &[u8]) {
        match self {
            Self::Data(reply) => reply.data(bytes),
            other => other.fail(Failure::Io),
        }
    }

    fn done(self, len: u64) {
        match self {
            Self::Written(reply) => reply.written(len as u32),
            Self::Empty(reply) => reply.ok(),
            Self::Data(reply) => reply.error(Errno::EIO),
        }
    }

    fn fail(self, failure: Failure) {
        let errno = match failure {
            Failure::Io => Errno::EIO,
            Failure::NoSpace => Errno::ENOSPC,
        };
        match self {
            Self::Data(reply) => reply.error(errno),
            Self::Written(reply) => reply.error(errno),
            Self::Empty(reply) => reply.error(errno),
        }
    }
}

/// See the [module](self).
pub(super) struct DiskFile {
    engine: Arc<Engine<Reply>>,
    name: OsString,
}

impl DiskFile {
    pub(super) fn new(engine: Arc<Engine<Reply>>, name: &str) -> Self {
        Self { engine, name: name.into() }
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if file { self.engine.capacity() } else { 0 },
            blocks: 0,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for DiskFile {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let refused =
            |what: &str| std::io::Error::other(format!("the kernel's FUSE refuses {what}"));
        config.set_max_write(MAX_WRITE).map_err(|_| refused("requests of 1 MiB"))?;
        config.set_max_background(MAX_BACKGROUND).map_err(|_| refused("512 requests at once"))?;
        config
            .set_congestion_threshold(MAX_BACKGROUND)
            .map_err(|_| refused("512 requests at once"))?;
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES)
            .map_err(|_| refused("asynchronous direct I/O of 1 MiB (Linux 4.20)"))?;
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _req: &Request, inode: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn open(&self, _req: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // The handle says under which power-up the file was opened.
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(self.engine.generation()), flags);
    }

    fn read(
        &self,
        _req: &Request,
        _inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // At the end of the file a read is short, as of any file.
        let len = u64::from(size).min(self.engine.capacity().saturating_sub(offset));
        self.engine.submit(fh.0, Op::Read, offset, len, &[], Reply::Data(reply));
    }

    fn write(
        &self,
        _req: &Request,
        _inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let op = Op::Write { fua: false };
        self.engine.submit(fh.0, op, offset, data.len() as u64, data, Reply::Written(reply));
    }

    fn fsync(
        &self,
        _req: &Request,
        _inode: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.engine.submit(fh.0, Op::Flush, 0, 0, &[], Reply::Empty(reply));
    }

    fn fallocate(
        &self,
        _req: &Request,
        _inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let op = if mode.contains(FallocateFlags::PUNCH_HOLE) {
            Op::Discard
        } else if mode.contains(FallocateFlags::ZERO_RANGE) {
            Op::WriteZeroes
        } else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        self.engine.submit(fh.0, op, offset, length, &[], Reply::Empty(reply));
    }
}
