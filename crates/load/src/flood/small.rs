//! Many small files, as when an archive is unpacked: the metadata of a flood.

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::buffer::Blocks;
use crate::dir::Dir;
use crate::error::{LoadError, MAKE_DIRECTORY};
use crate::file::NamedFile;

/// Files in a directory.
const PER_DIRECTORY: u64 = 1_000;
/// A file takes whole blocks of the filesystem; this is the usual one.
const FS_BLOCK: u64 = 4096;

/// Space that a file of `len` bytes takes.
pub(super) fn footprint(len: u64) -> u64 {
    len.max(1).next_multiple_of(FS_BLOCK)
}

/// Writes small files one after the other; when the space is used up it starts again with the
/// first.
pub(super) struct SmallFiles<'a> {
    dir: &'a Dir,
    /// Bytes of each file.
    len: u64,
    /// How many there are in a lap.
    count: u64,
    next: u64,
    /// Whether a lap is over.
    again: bool,
    directory: Option<Dir>,
    open: Option<(NamedFile, u64)>,
}

impl<'a> SmallFiles<'a> {
    pub(super) fn new(dir: &'a Dir, len: u64, space: u64) -> Self {
        Self {
            dir,
            len,
            count: (space / footprint(len)).max(1),
            next: 0,
            again: false,
            directory: None,
            open: None,
        }
    }

    /// Bytes of each file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that are still to be written into the open file, or into the next if none is.
    pub(super) fn left(&self) -> u64 {
        self.open.as_ref().map_or(self.len, |(_, done)| self.len - done)
    }

    /// Writes the next piece, of at most `piece` bytes, and returns its length. Opens and closes
    /// files as needed.
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

    /// Makes the next file. In later laps it is there, and is cut to nothing.
    fn create(&mut self) -> Result<NamedFile, LoadError> {
        let (n, again) = (self.next, self.again);
        self.again |= n + 1 == self.count;
        self.next = if n + 1 == self.count { 0 } else { n + 1 };
        let directory = match self.directory.take() {
            Some(current) if !n.is_multiple_of(PER_DIRECTORY) => current,
            _ => self.directory_of(n)?,
        };
        let name = format!("{:03}", n % PER_DIRECTORY);
        let existing = || NamedFile::open(&directory, &name, OFlags::WRONLY | OFlags::TRUNC);
        let file = if again {
            existing()
        } else {
            match NamedFile::create(&directory, &name, OFlags::WRONLY) {
                // An earlier start has made it.
                Err(LoadError::Io { errno: Errno::EXIST, .. }) => existing(),
                made => made,
            }
        };
        self.directory = Some(directory);
        file
    }

    /// Opens the directory of file `n`; makes it first in the first lap.
    fn directory_of(&self, n: u64) -> Result<Dir, LoadError> {
        let name = format!("{:05}", n / PER_DIRECTORY);
        let opened = match self.dir.make_dir(&name) {
            Err(Errno::EXIST) => self.dir.open_dir(&name),
            made => made,
        };
        opened.map_err(|e| LoadError::io(MAKE_DIRECTORY, self.dir.path().join(name), e))
    }
}
