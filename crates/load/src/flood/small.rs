//! Many small files, as when an archive is unpacked: the metadata of a flood.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self as rfs, Mode, OFlags};

use crate::buffer::Blocks;
use crate::error::{CREATE, LoadError, MAKE_DIRECTORY};
use crate::file::NamedFile;

/// Files in a directory.
const PER_DIRECTORY: u64 = 1_000;
/// A file takes whole blocks of the filesystem; this is the usual one.
const FS_BLOCK: u64 = 4096;

/// Space that a file of `len` bytes takes.
pub(super) fn footprint(len: u64) -> u64 {
    len.max(1).next_multiple_of(FS_BLOCK)
}

/// Writes small files one after the other; when the space is used up it starts again with the first.
pub(super) struct SmallFiles<'a> {
    dir: &'a Path,
    /// Bytes of each file.
    len: u64,
    /// How many there are in a lap.
    count: u64,
    next: u64,
    directory: Option<(PathBuf, OwnedFd)>,
    open: Option<(NamedFile, u64)>,
}

impl<'a> SmallFiles<'a> {
    pub(super) fn new(dir: &'a Path, len: u64, space: u64) -> Self {
        Self { dir, len, count: (space / footprint(len)).max(1), next: 0, directory: None, open: None }
    }

    /// Bytes of each file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that are still to be written into the open file, or into the next if none is.
    pub(super) fn left(&self) -> u64 {
        self.open.as_ref().map_or(self.len, |(_, done)| self.len - done)
    }

    /// Writes the next piece, of at most `piece` bytes, and returns its length. Opens and closes files as needed.
    pub(super) fn write(&mut self, piece: u64, blocks: &mut Blocks) -> Result<u64, LoadError> {
        let (file, done) = match self.open.take() {
            Some(open) => open,
            None => (self.create()?, 0),
        };
        let bytes = blocks.next(piece.min(self.len - done) as usize);
        file.write_all_at(bytes, done)?;
        let piece = bytes.len() as u64;
        if done + piece < self.len {
            self.open = Some((file, done + piece));
        }
        Ok(piece)
    }

    fn create(&mut self) -> Result<NamedFile, LoadError> {
        let n = self.next;
        self.next = if n + 1 == self.count { 0 } else { n + 1 };
        let (path, directory) = match self.directory.take() {
            Some(current) if !n.is_multiple_of(PER_DIRECTORY) => current,
            _ => self.directory_of(n)?,
        };
        let name = format!("{:03}", n % PER_DIRECTORY);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let fd = rfs::openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR);
        let file = path.join(&name);
        self.directory = Some((path, directory));
        match fd {
            Ok(fd) => Ok(NamedFile { fd, path: file }),
            Err(e) => Err(LoadError::io(CREATE, &file, e)),
        }
    }

    /// Opens the directory of file `n`; makes it first in the first lap.
    fn directory_of(&self, n: u64) -> Result<(PathBuf, OwnedFd), LoadError> {
        let path = self.dir.join(format!("{:05}", n / PER_DIRECTORY));
        match fs::create_dir(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(LoadError::io(MAKE_DIRECTORY, &path, e));
            }
            _ => {}
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rfs::open(&path, flags, Mode::empty()).map_err(|e| LoadError::io("open", &path, e))?;
        Ok((path, fd))
    }
}
