//! The size of the sources, and the check that they fit.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use floodwall_host::locate::{LocateError, free_space};
use floodwall_model::Bytes;
use rustix::fs::{self as rfs, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::error::CopyError;
use super::folder::{FileId, Folder, kind};
use super::names::part_name;
use super::request::Options;

/// Bytes of a unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Sums over the sources.
pub(super) struct Sizes {
    options: Options,
    /// The filesystem of the destination.
    device: u64,
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// Space for the copies of sources on other filesystems, and of those on the same one.
    elsewhere: u64,
    here: u64,
    /// A source on the same filesystem.
    sample: Option<PathBuf>,
    /// Counted files that have several names.
    linked: HashSet<FileId>,
}

impl Sizes {
    /// For copies into a directory.
    pub(super) fn new(options: Options, directory: &Path) -> Result<Self, CopyError> {
        let stat = rfs::stat(directory).map_err(CopyError::io("look at", directory))?;
        Ok(Self {
            options,
            device: FileId::of(&stat).device,
            bytes: 0,
            files: 0,
            elsewhere: 0,
            here: 0,
            sample: None,
            linked: HashSet::new(),
        })
    }

    /// Adds a source and everything below it. Skips unreadable entries: their copy will fail.
    pub(super) fn add(&mut self, source: &Path, stat: &Stat, target: &Path) {
        match kind(stat) {
            FileType::Directory => {
                if let Ok(folder) = Folder::open(source) {
                    self.add_folder(&folder, target);
                }
            }
            FileType::RegularFile => self.add_file(source, stat, target),
            FileType::BlockDevice if !self.options.is_deep() => {
                self.files += 1;
                let size = block_device_size(source).unwrap_or(0);
                self.bytes += size;
                self.elsewhere += size;
            }
            _ => self.files += 1,
        }
    }

    fn add_folder(&mut self, folder: &Folder, target: &Path) {
        for (name, _) in folder.entries().unwrap_or_default() {
            let Ok(Some(stat)) = folder.stat(&name) else { continue };
            let target = target.join(&name);
            if !kind(&stat).is_dir() {
                self.add(&folder.path().join(&name), &stat, &target);
            } else if let Ok(inner) = folder.enter(&name) {
                self.add_folder(&inner, &target);
            }
        }
    }

    fn add_file(&mut self, source: &Path, stat: &Stat, target: &Path) {
        self.files += 1;
        let id = FileId::of(stat);
        if self.options.archive && stat.st_nlink > 1 && !self.linked.insert(id) {
            return;
        }
        self.bytes += size(stat);
        let there = if self.options.resume { present(stat, target) } else { 0 };
        let needed = occupied(stat).saturating_sub(there);
        if id.device == self.device {
            self.here += needed;
            self.sample.get_or_insert_with(|| source.to_owned());
        } else {
            self.elsewhere += needed;
        }
    }

    /// Fails if the copies don't fit.
    pub(super) fn check_space(&self, directory: &Path) -> Result<(), CopyError> {
        let space = free_space(directory).map_err(|error| {
            let errno = match &error {
                LocateError::Directory { source, .. } => Errno::from_io_error(source),
                _ => None,
            };
            CopyError::io("find the free space of", directory)(errno.unwrap_or(Errno::IO))
        })?;
        let available = space.available;
        let fits = |needed| needed <= available.0;
        // Some filesystems report no size.
        if space.total.0 == 0 || fits(self.elsewhere + self.here) {
            return Ok(());
        }
        if fits(self.elsewhere) && self.sample.as_ref().is_some_and(|one| reflinks(one, directory))
        {
            return Ok(());
        }
        let needed = Bytes(self.elsewhere + self.here);
        Err(CopyError::NoSpace { directory: directory.to_owned(), needed, available })
    }
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn occupied(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK_BYTES
}

/// Space that an earlier copy of a source occupies.
fn present(stat: &Stat, target: &Path) -> u64 {
    let finished = rfs::lstat(target).ok().filter(|found| size(found) == size(stat));
    let part = || {
        let name = part_name(target.file_name()?);
        rfs::lstat(target.with_file_name(name)).ok()
    };
    finished.or_else(part).map_or(0, |found| occupied(&found))
}

/// Whether a copy in a directory can share the blocks of a source. Leaves nothing there.
fn reflinks(source: &Path, directory: &Path) -> bool {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let nameless = rfs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    let source =
        rfs::open(source, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    nameless.is_ok_and(|to| source.is_ok_and(|from| rfs::ioctl_ficlone(to, from).is_ok()))
}

fn block_device_size(path: &Path) -> Result<u64, Errno> {
    let file = rfs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rfs::seek(file, SeekFrom::End(0))
}
