//! The files: `test_file.0` and so on in one directory, made by writing, never by holes.

use std::sync::atomic::{AtomicBool, Ordering};

use floodwall_model::Bytes;
use rustix::fs::{self as rfs, AtFlags, OFlags};
use rustix::io::Errno;

use super::error::FileIoError;
use crate::buffer::AlignedBuf;
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::preflight::Preflight;

/// What was there of a file before it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A part.
    Part,
    /// All of it.
    Whole,
}

/// How large the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many.
    pub files: u32,
    /// Bytes of each.
    pub len: u64,
    /// Bytes of a request.
    pub block: u64,
}

impl Size {
    /// Refuses requests that direct I/O can't do here, if that is asked for. The last one of a file
    /// may be shorter than a block.
    fn check_direct(self, dir: &Dir, flags: OFlags) -> Result<(), LoadError> {
        if !flags.contains(OFlags::DIRECT) {
            return Ok(());
        }
        Preflight::with(dir, |preflight| {
            preflight.direct_io(Bytes(self.block))?;
            preflight.direct_io(Bytes(self.len))
        })
    }
}

/// Files that requests go to: as many as there are, of one length.
#[derive(Debug)]
pub struct FileSet {
    pub(super) files: Vec<NamedFile>,
    /// Where requests to each begin.
    pub(super) from: u64,
    /// Bytes of each from there.
    pub(super) len: u64,
    /// The bytes that writes repeat; zeros if empty.
    pub(super) pattern: Vec<u8>,
}

fn name(number: u32) -> String {
    format!("test_file.{number}")
}

/// The length of a file; `None` if there is none.
fn len_of(dir: &Dir, name: &str) -> Result<Option<u64>, FileIoError> {
    match rfs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat.st_size.max(0).cast_unsigned())),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(LoadError::io("stat", dir.path().join(name), e).into()),
    }
}

/// Makes `files` files of `len` bytes each in `dir`, in whole blocks of zeros, and syncs each. A
/// file that is there is made longer if it is too short. `found` gets each name before it is
/// written. Returns the bytes that were written.
///
/// # Errors
/// [`FileIoError::NoSpace`] before anything is written; [`LoadError::Interrupted`] once `stop` is
/// raised; [`LoadError::Io`]. Files stay as they are then.
pub fn make(
    dir: &Dir,
    size: Size,
    flags: OFlags,
    found: &mut dyn FnMut(&str, Found),
    stop: &AtomicBool,
) -> Result<u64, FileIoError> {
    let Size { files, len, block } = size;
    size.check_direct(dir, flags)?;
    check_space(dir, files, len.next_multiple_of(block))?;
    let zeros = AlignedBuf::zeroed(block as usize);
    let mut written = 0;
    for name in (0..files).map(name) {
        let before = len_of(dir, &name)?;
        found(
            &name,
            match before {
                None | Some(0) => Found::Nothing,
                Some(before) if before < len => Found::Part,
                Some(_) => Found::Whole,
            },
        );
        let file = NamedFile::open(dir, &name, OFlags::RDWR | OFlags::CREATE | flags)?;
        let mut done = before.unwrap_or(0);
        while done < len {
            if stop.load(Ordering::Relaxed) {
                return Err(LoadError::Interrupted.into());
            }
            file.write_all_at(zeros.bytes(), done)?;
            done += block;
            written += block;
        }
        file.sync()?;
    }
    Ok(written)
}

fn check_space(dir: &Dir, files: u32, len: u64) -> Result<(), FileIoError> {
    let mut wanted: u64 = 0;
    for number in 0..files {
        let there = len_of(dir, &name(number))?.unwrap_or(0);
        wanted = wanted.saturating_add(len.saturating_sub(there));
    }
    let stat = rfs::fstatvfs(dir).map_err(|e| LoadError::io("statvfs", dir.path(), e))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if wanted > free {
        return Err(FileIoError::NoSpace { wanted: Bytes(wanted), free: Bytes(free) });
    }
    Ok(())
}

/// Removes the files that are there.
///
/// # Errors
/// [`LoadError::Io`].
pub fn remove(dir: &Dir, files: u32) -> Result<(), LoadError> {
    for name in (0..files).map(name) {
        match dir.remove_file(&name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(LoadError::io("remove", dir.path().join(name), e)),
        }
    }
    Ok(())
}

impl FileSet {
    /// Opens files that are there and long enough, with these flags beside O_RDWR.
    ///
    /// # Errors
    /// [`FileIoError::Missing`], [`FileIoError::Short`], [`LoadError::Misaligned`],
    /// [`LoadError::NoDirect`], [`LoadError::Io`].
    pub fn open(dir: &Dir, size: Size, flags: OFlags) -> Result<Self, FileIoError> {
        for name in (0..size.files).map(name) {
            let there = len_of(dir, &name)?.unwrap_or(u64::MAX);
            if there < size.len {
                let (len, wanted) = (Bytes(there), Bytes(size.len));
                return Err(FileIoError::Short { name, len, wanted });
            }
        }
        Self::open_of_any_length(dir, size, flags)
    }

    /// The same of files that may be shorter: writes make them longer.
    ///
    /// # Errors
    /// [`FileIoError::Missing`], [`LoadError::Misaligned`], [`LoadError::NoDirect`],
    /// [`LoadError::Io`].
    pub fn open_of_any_length(dir: &Dir, size: Size, flags: OFlags) -> Result<Self, FileIoError> {
        let Size { files, len, .. } = size;
        let open = |name: String| match len_of(dir, &name)? {
            None => Err(FileIoError::Missing { name }),
            Some(_) => Ok(NamedFile::open(dir, &name, OFlags::RDWR | flags)?),
        };
        let files = (0..files).map(name).map(open).collect::<Result<_, _>>()?;
        size.check_direct(dir, flags)?;
        Ok(Self { files, from: 0, len, pattern: Vec::new() })
    }

    /// Makes empty files in the place of any that are there.
    ///
    /// # Errors
    /// [`LoadError::Misaligned`], [`LoadError::NoDirect`], [`LoadError::Io`].
    pub fn create(dir: &Dir, size: Size, flags: OFlags) -> Result<Self, FileIoError> {
        let Size { files, len, .. } = size;
        size.check_direct(dir, flags)?;
        remove(dir, files)?;
        let create = |name: String| NamedFile::create(dir, &name, OFlags::RDWR | flags);
        let files = (0..files).map(name).map(create).collect::<Result<_, _>>()?;
        Ok(Self { files, from: 0, len, pattern: Vec::new() })
    }
}
