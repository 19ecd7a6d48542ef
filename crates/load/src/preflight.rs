//! Refusals by a directory's filesystem, the kernel and this process's limits, found on a small
//! temporary file. A load that can't work is thus known before gigabytes are written for another.
//!
//! ```text
//! Preflight::with(dir, …) ── makes dir/.preflight ── direct_io, length, mapping, descriptors
//!                         ── removes it
//! ```
//!
//! Lengths and alignments are bytes.

use std::os::fd::AsFd;

use floodwall_model::Bytes;
use floodwall_model::scenario::WriteMode;
use rustix::fs::{self as rfs, AtFlags, OFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use crate::buffer::{ALIGN, AlignedBuf};
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::{NamedFile, write_all_at};
use crate::flood::Mapping;

/// The temporary file's name. No load's directory has it: those have no dot.
const NAME: &str = ".preflight";

/// A temporary file that stands for those to come.
pub(crate) struct Preflight<'d> {
    dir: &'d Dir,
    file: NamedFile,
}

impl Preflight<'_> {
    /// Makes the file in `dir`, asks and removes it.
    pub(crate) fn with(
        dir: &Dir,
        ask: impl FnOnce(&Preflight<'_>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let preflight = Preflight { dir, file: NamedFile::create(dir, NAME, OFlags::RDWR)? };
        let answer = ask(&preflight);
        dir.remove_file(NAME).map_err(|e| preflight.file.failed("remove", e))?;
        answer
    }

    /// Refuses a block that direct I/O can't do here.
    ///
    /// The kernel says what it needs since 6.1 (statx(2), `STATX_DIOALIGN`) for most filesystems;
    /// elsewhere it is tried.
    pub(crate) fn direct_io(&self, block: Bytes) -> Result<(), LoadError> {
        let path = || self.dir.path().to_owned();
        match self.direct_alignment()? {
            None => Err(LoadError::NoDirect { path: path() }),
            Some(align) if block.0.is_multiple_of(align) => Ok(()),
            Some(align) => Err(LoadError::Misaligned { block, align, path: path() }),
        }
    }

    /// Refuses writes that drop their pages behind them (RWF_DONTCACHE) where the kernel or the
    /// filesystem has none.
    pub(crate) fn dont_cache(&self) -> Result<(), LoadError> {
        match self.file.write_in(WriteMode::DontCache, &[0; ALIGN], 0) {
            Err(LoadError::Io { errno: Errno::OPNOTSUPP | Errno::INVAL, .. }) => {
                Err(LoadError::NoDontCache { path: self.dir.path().to_owned() })
            }
            other => other,
        }
    }

    /// Refuses files longer than the filesystem can have, or than this process may write (which
    /// would end it with SIGXFSZ).
    pub(crate) fn length(&self, len: u64) -> Result<(), LoadError> {
        let too_long = || LoadError::io("make a file that long in", self.dir.path(), Errno::FBIG);
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < len) {
            return Err(too_long());
        }
        // Allocates nothing, and fails past the longest file (fs/read_write.c, vfs_setpos).
        match rfs::seek(&self.file.fd, SeekFrom::Start(len)) {
            Ok(_) => Ok(()),
            Err(Errno::INVAL | Errno::OVERFLOW) => Err(too_long()),
            Err(e) => Err(self.file.failed("seek in", e)),
        }
    }

    /// Refuses shared mappings of this length if the filesystem has none, or this process has no
    /// room for one.
    pub(crate) fn mapping(&self, len: u64) -> Result<(), LoadError> {
        Mapping::new(&self.file, len).map(drop).map_err(|error| match error {
            LoadError::Io { errno, .. } => {
                LoadError::io("map a file that long in", self.dir.path(), errno)
            }
            other => other,
        })
    }

    /// Refuses more open files than this process can have beside those that it has.
    pub(crate) fn descriptors(&self, count: u64) -> Result<(), LoadError> {
        let held: Result<Vec<_>, _> =
            (0..count).map(|_| fcntl_dupfd_cloexec(&self.file.fd, 0)).collect();
        held.map(drop)
            .map_err(|e| LoadError::io("keep that many files open in", self.dir.path(), e))
    }

    /// What offsets and lengths of direct I/O on this file must be multiples of; `None` if it has
    /// none.
    fn direct_alignment(&self) -> Result<Option<u64>, LoadError> {
        let file = &self.file;
        // Without this an empty file may answer for its directory's defaults only.
        file.write_all_at(AlignedBuf::zeroed(ALIGN).bytes(), 0)?;
        let stat = rfs::statx(&file.fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
            .map_err(|e| file.failed("statx", e))?;
        if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) {
            return Ok(
                (stat.stx_dio_offset_align > 0).then(|| u64::from(stat.stx_dio_offset_align))
            );
        }
        let direct = match self.dir.file(NAME, OFlags::RDWR | OFlags::DIRECT) {
            Ok(fd) => fd,
            Err(Errno::INVAL) => return Ok(None),
            Err(e) => return Err(file.failed("open with O_DIRECT", e)),
        };
        let buffer = AlignedBuf::zeroed(64 << 10);
        for align in (9..=16).map(|shift| 1usize << shift) {
            match write_all_at(direct.as_fd(), &buffer.bytes()[..align], align as u64) {
                Ok(()) => return Ok(Some(align as u64)),
                Err(Errno::INVAL) => {}
                Err(e) => return Err(file.failed("write with O_DIRECT", e)),
            }
        }
        Ok(None)
    }
}
