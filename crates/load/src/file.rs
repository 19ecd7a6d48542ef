//! Scratch files: made by writing, never by holes or fallocate, so that later writes find their
//! blocks allocated and written.
//!
//! Offsets and lengths are bytes. Every call is repeated when a signal interrupts it and continued
//! when it did only a part.

use std::io::IoSlice;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use floodwall_model::scenario::WriteMode;
use rand_core::Rng;
use rustix::fs::{self as rfs, Advice, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::buffer::{ALIGN, AlignedBuf, rng};
use crate::dir::Dir;
use crate::error::{CREATE, LoadError, MAKE_DIRECTORY};
use crate::sys::{RangeSync, sync_file_range};

/// `RWF_DONTCACHE` (include/uapi/linux/fs.h, Linux 6.14).
pub(crate) const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// Length of the writes that fill a file.
const FILL_BLOCK: usize = 1 << 20;
/// While a file is filled, its writeback is started in steps of this length …
const FILL_STEP: u64 = 8 << 20;
/// … and awaited this far behind: filling a file must not become a flood, and must end soon after
/// it was told to.
const FILL_BEHIND: u64 = 64 << 20;

/// A file with the name that messages call it by.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
}

impl NamedFile {
    /// Opens a file that is in `dir`, not through a symlink.
    pub(crate) fn open(dir: &Dir, name: &str, flags: OFlags) -> Result<Self, LoadError> {
        Self::named(dir, name, "open", dir.file(name, flags))
    }

    /// Makes a file in `dir` (mode 0600). Nothing of that name may be there, not even a symlink.
    pub(crate) fn create(dir: &Dir, name: &str, flags: OFlags) -> Result<Self, LoadError> {
        Self::named(dir, name, CREATE, dir.file(name, flags | OFlags::CREATE | OFlags::EXCL))
    }

    fn named(
        dir: &Dir,
        name: &str,
        operation: &'static str,
        fd: Result<OwnedFd, Errno>,
    ) -> Result<Self, LoadError> {
        let path = dir.path().join(name);
        match fd {
            Ok(fd) => Ok(Self { fd, path }),
            Err(e) => Err(LoadError::io(operation, path, e)),
        }
    }

    /// The same file, opened in another way.
    pub(crate) fn reopened(self, flags: OFlags) -> Result<Self, LoadError> {
        let fd = rfs::open(path_of(&self.fd), flags | OFlags::CLOEXEC, Mode::empty());
        Ok(Self { fd: fd.map_err(|e| self.failed("open", e))?, path: self.path })
    }

    /// A failed call on this file.
    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, errno: Errno) -> LoadError {
        LoadError::io(operation, &self.path, errno)
    }

    /// Writes all of `bytes` at `offset`.
    #[inline]
    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), LoadError> {
        write_all_at(self.fd.as_fd(), bytes, offset).map_err(|e| self.failed("write", e))
    }

    /// Writes all of `bytes` at `offset` in a flood's way.
    #[inline]
    pub(crate) fn write_in(
        &self,
        mode: WriteMode,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), LoadError> {
        let len = bytes.len() as u64;
        match mode {
            WriteMode::Buffered | WriteMode::Direct | WriteMode::Dsync => {
                self.write_all_at(bytes, offset)
            }
            WriteMode::DontCache => {
                let written = whole(bytes, offset, |rest, at| {
                    pwritev2(&self.fd, &[IoSlice::new(rest)], at, DONT_CACHE)
                });
                written.map_err(|e| self.failed("write without caching", e))
            }
            WriteMode::SyncFileRange => {
                self.write_all_at(bytes, offset)?;
                let sync = |from, len, what| {
                    sync_file_range(self.fd.as_fd(), from, len, what)
                        .map_err(|e| self.failed("write back", e))
                };
                sync(offset, len, RangeSync::Start)?;
                if offset >= len { sync(offset - len, len, RangeSync::Wait) } else { Ok(()) }
            }
        }
    }

    /// Fills `bytes` from `offset`.
    #[inline]
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), LoadError> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.fd, rest, offset + done as u64) {
                Ok(0) => return Err(LoadError::Shortened { path: self.path.clone(), offset }),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.failed("read", e)),
            }
        }
        Ok(())
    }

    /// fsync(2).
    pub(crate) fn sync(&self) -> Result<(), LoadError> {
        retry(|| rfs::fsync(&self.fd)).map_err(|e| self.failed("fsync", e))
    }

    /// fdatasync(2).
    pub(crate) fn sync_data(&self) -> Result<(), LoadError> {
        retry(|| rfs::fdatasync(&self.fd)).map_err(|e| self.failed("fdatasync", e))
    }

    /// ftruncate(2).
    pub(crate) fn truncate(&self, len: u64) -> Result<(), LoadError> {
        retry(|| rfs::ftruncate(&self.fd, len)).map_err(|e| self.failed("truncate", e))
    }

    /// Drops clean pages of a range from the page cache; `len` 0 means to the end. Whole pages
    /// around the range: the kernel keeps pages that are only partly inside (mm/fadvise.c).
    #[inline]
    pub(crate) fn evict(&self, offset: u64, len: u64) -> Result<(), LoadError> {
        let page = ALIGN as u64;
        let from = offset / page * page;
        let len = if len == 0 {
            None
        } else {
            NonZeroU64::new((offset + len).next_multiple_of(page) - from)
        };
        rfs::fadvise(&self.fd, from, len, Advice::DontNeed)
            .map_err(|e| self.failed("drop from the page cache", e))
    }

    /// Tells the kernel in which order reads come. It does not read ahead of random ones, and reads
    /// twice as far ahead of sequential ones.
    pub(crate) fn expect(&self, order: Advice) -> Result<(), LoadError> {
        rfs::fadvise(&self.fd, 0, None, order).map_err(|e| self.failed("advise", e))
    }

    /// Writes `len` random bytes from the beginning, makes them stable and drops them from the page
    /// cache.
    ///
    /// `progress` gets the bytes of each step.
    pub(crate) fn fill(
        &self,
        len: u64,
        seed: u64,
        progress: &mut dyn FnMut(u64),
        stop: &AtomicBool,
    ) -> Result<(), LoadError> {
        let mut random = rng(seed, 0);
        let mut block = AlignedBuf::zeroed(FILL_BLOCK);
        let mut done = 0;
        while done < len {
            if stop.load(Ordering::Relaxed) {
                return Err(LoadError::Interrupted);
            }
            let piece = (len - done).min(FILL_BLOCK as u64) as usize;
            let bytes = &mut block.bytes_mut()[..piece];
            random.fill_bytes(bytes);
            self.write_all_at(bytes, done)?;
            done += piece as u64;
            if done.is_multiple_of(FILL_STEP) {
                self.sync_range(done - FILL_STEP, FILL_STEP, RangeSync::Start)?;
                if let Some(behind) = done.checked_sub(FILL_BEHIND + FILL_STEP) {
                    self.sync_range(behind, FILL_STEP, RangeSync::Wait)?;
                }
            }
            progress(piece as u64);
        }
        self.sync()?;
        self.evict(0, 0)
    }

    /// sync_file_range(2).
    #[inline]
    pub(crate) fn sync_range(
        &self,
        offset: u64,
        len: u64,
        sync: RangeSync,
    ) -> Result<(), LoadError> {
        sync_file_range(self.fd.as_fd(), offset, len, sync)
            .map_err(|e| self.failed("sync_file_range", e))
    }
}

/// Writes all of `bytes` at `offset`.
#[inline]
pub(crate) fn write_all_at(fd: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    whole(bytes, offset, |rest, at| rustix::io::pwrite(fd, rest, at))
}

/// Repeats a write until all of `bytes` is written.
#[inline]
fn whole(
    bytes: &[u8],
    offset: u64,
    write: impl Fn(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match write(rest, offset + done as u64) {
            // A regular file never does this; going on would be for ever.
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Repeats a call that a signal interrupted.
#[inline]
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Makes the directory of one load in `dir` (mode 0700), named after the load as far as a file name
/// can be.
pub(crate) fn make_dir(dir: &Dir, name: &str) -> Result<Dir, LoadError> {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
        .take(64)
        .collect();
    let mut own = if clean.is_empty() { "load".to_owned() } else { clean.clone() };
    let mut number = 1;
    loop {
        match dir.make_dir(&own) {
            Ok(made) => return Ok(made),
            Err(Errno::EXIST) if number < 10_000 => {
                number += 1;
                own = format!("{clean}-{number}");
            }
            Err(e) => return Err(LoadError::io(MAKE_DIRECTORY, dir.path().join(own), e)),
        }
    }
}

/// Makes a directory's entries stable.
pub(crate) fn sync_dir(dir: &Dir) -> Result<(), LoadError> {
    retry(|| rfs::fsync(dir)).map_err(|e| LoadError::io("fsync", dir.path(), e))
}

/// An open file of this process as it, or a child that has inherited it, can open it again.
fn path_of(fd: impl AsFd) -> PathBuf {
    path_of_number(fd.as_fd().as_raw_fd())
}

/// The same by its number.
pub(crate) fn path_of_number(fd: RawFd) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}
