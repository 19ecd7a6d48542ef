//! One file or device of any name: its size, and a part of it that requests go to.

use std::path::Path;

use rustix::fs::{self as rfs, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::files::FileSet;
use crate::error::LoadError;
use crate::file::NamedFile;

/// Of a file that is made, before the mask of the process.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// In bytes.
    pub size: u64,
    /// Not a regular file.
    pub is_device: bool,
}

impl Target {
    /// Looks at a path; `None` if nothing is there.
    ///
    /// # Errors
    /// [`LoadError::Io`].
    pub fn at(path: &Path) -> Result<Option<Self>, LoadError> {
        let stat = match rfs::stat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(LoadError::io("stat", path, e)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::BlockDevice {
            let size = stat.st_size.max(0).cast_unsigned();
            return Ok(Some(Self { size, is_device: kind != FileType::RegularFile }));
        }
        let device = rfs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| LoadError::io("open", path, e))?;
        let size =
            rfs::seek(&device, SeekFrom::End(0)).map_err(|e| LoadError::io("seek in", path, e))?;
        Ok(Some(Self { size, is_device: true }))
    }
}

/// Which bytes of it take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of them.
    pub from: u64,
    /// How many.
    pub len: u64,
}

impl FileSet {
    /// Opens one file or device with these flags, which say whether it is read, written or made.
    /// Writes repeat `pattern`; they are zeros without one.
    ///
    /// # Errors
    /// [`LoadError::Io`].
    pub fn of_target(
        path: &Path,
        flags: OFlags,
        part: Part,
        pattern: Vec<u8>,
    ) -> Result<Self, LoadError> {
        let fd = rfs::open(path, flags | OFlags::CLOEXEC, MODE)
            .map_err(|e| LoadError::io("open", path, e))?;
        let files = vec![NamedFile { fd, path: path.to_owned() }];
        Ok(Self { files, from: part.from, len: part.len, pattern })
    }
}
