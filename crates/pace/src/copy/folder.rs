//! Open directories. Their entries are named relative to them, and symlinks are not followed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self as rfs, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// How directories are opened.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A file's identity on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// The kind of a file.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The kind of a file in words.
pub(super) fn kind_in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symlink",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "a file of an unknown kind",
    }
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    id: FileId,
}

impl Folder {
    /// Opens the directory that the caller names. Symlinks on the way are followed.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        Self::of(rfs::open(path, DIRECTORY, Mode::empty())?, path.to_owned())
    }

    fn of(fd: OwnedFd, path: PathBuf) -> Result<Self, Errno> {
        let id = FileId::of(&rfs::fstat(&fd)?);
        Ok(Self { fd, path, id })
    }

    /// Opens a directory in it.
    pub(super) fn enter(&self, name: &OsStr) -> Result<Self, Errno> {
        let fd = rfs::openat(&self.fd, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        Self::of(fd, self.path.join(name))
    }

    /// Opens the directory at a relative path below it, one name after the other.
    pub(super) fn below(self: &Arc<Self>, path: &Path) -> Result<Arc<Self>, Errno> {
        let mut folder = Arc::clone(self);
        for component in path.components() {
            let Component::Normal(name) = component else { return Err(Errno::INVAL) };
            folder = Arc::new(folder.enter(name)?);
        }
        Ok(folder)
    }

    /// Its path when it was opened, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// The status of an entry, not followed; `None` if there is no such entry.
    pub(super) fn stat(&self, name: &OsStr) -> Result<Option<Stat>, Errno> {
        match rfs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The names in it with their inode numbers, without `.` and `..`.
    pub(super) fn entries(&self) -> Result<Vec<(OsString, u64)>, Errno> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                entries.push((OsStr::from_bytes(name).to_owned(), entry.ino()));
            }
        }
        Ok(entries)
    }

    /// Removes an entry that is no directory, if it exists.
    pub(super) fn remove(&self, name: &OsStr) -> Result<(), Errno> {
        match rfs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An entry of an open directory, which may be missing.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    pub(super) name: OsString,
    follows: bool,
}

impl Place {
    pub(super) fn new(folder: &Arc<Folder>, name: impl Into<OsString>) -> Self {
        Self { folder: Arc::clone(folder), name: name.into(), follows: false }
    }

    /// The file behind the entry, a symlink of /proc/PID/fd. It may have no path.
    pub(super) fn followed(self) -> Self {
        Self { follows: true, ..self }
    }

    /// Its path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// The entry's status, not followed; `None` if the entry is missing.
    pub(super) fn stat(&self) -> Result<Option<Stat>, Errno> {
        if self.follows {
            return rfs::statat(&self.folder, self.name.as_os_str(), AtFlags::empty()).map(Some);
        }
        self.folder.stat(&self.name)
    }

    /// Opens the entry, not followed. The open of a FIFO doesn't block.
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.open_as_is(flags | OFlags::NONBLOCK)
    }

    /// The same. The open of a FIFO may block.
    pub(super) fn open_as_is(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let unfollowed = if self.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = flags | unfollowed | OFlags::CLOEXEC;
        rfs::openat(&self.folder, self.name.as_os_str(), flags, Mode::empty())
    }
}
