//! Removing the contents of a directory, and adding up their disk usage.
//!
//! A directory is entered through its descriptor. No symlink is followed, and no other mount is
//! entered. The owner of a directory can move other directories into it, with files of other users
//! in them. So in another user's directory, at the top as well, only directories of that same user
//! are entered. Root removes nothing there that this user could not remove. In the caller's
//! directories, those of all users are entered.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as rfs, AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::steps::step;
use super::{DIRECTORY, Dir, Identity};

/// The deepest nesting that is removed, in directories: each level takes two descriptors and a
/// piece of the stack.
const DEEPEST: usize = 400;

/// Why something below a directory is still there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A system call failed.
    #[error("'{path}': {errno}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Another filesystem is mounted there.
    #[error("'{path}' is a mount point; unmount it first", path = path.display())]
    Mount {
        /// Which directory.
        path: PathBuf,
    },
    /// A directory in another user's directory belongs to a third.
    #[error("'{path}' belongs to user {owner}, and the directory that it is in to user \
        {parent}", path = path.display())]
    Owner {
        /// Which directory.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
        /// The user id of the owner of the directory that it is in.
        parent: u32,
    },
    /// Directories are nested too deep.
    #[error("'{path}' is nested deeper than {DEEPEST} directories", path = path.display())]
    Deep {
        /// Which directory.
        path: PathBuf,
    },
}

impl TreeError {
    fn io(path: &Path, errno: Errno) -> Self {
        Self::Io { path: path.to_owned(), errno }
    }
}

/// A directory on the way down.
struct Level<'a> {
    fd: &'a dyn AsFd,
    path: &'a Path,
    identity: Identity,
    depth: usize,
    /// The caller's user id.
    us: u32,
}

impl Dir {
    /// Removes everything in it but `kept`, also after an entry that can't be removed.
    ///
    /// # Errors
    /// The first [`TreeError`].
    pub fn remove_contents(&self, kept: Option<&str>) -> Result<(), TreeError> {
        let identity = self.identity().map_err(|e| TreeError::io(&self.path, e))?;
        Level::top(self, identity).empty(kept.map(OsStr::new))
    }

    /// Removes a directory in it with everything below. One that is not there is no error.
    ///
    /// # Errors
    /// The first [`TreeError`].
    pub fn remove_tree(&self, name: &str) -> Result<(), TreeError> {
        let identity = self.identity().map_err(|e| TreeError::io(&self.path, e))?;
        Level::top(self, identity).remove(OsStr::new(name), true)
    }

    /// Bytes that the files below it take on disk, as far as they can be seen.
    #[must_use]
    pub fn disk_usage(&self) -> u64 {
        let Ok(identity) = self.identity() else { return 0 };
        Level::top(self, identity).disk_usage()
    }
}

impl<'l> Level<'l> {
    fn top(dir: &'l Dir, identity: Identity) -> Self {
        let us = rustix::process::geteuid().as_raw();
        Self { fd: &dir.fd, path: &dir.path, identity, depth: 0, us }
    }

    fn empty(&self, kept: Option<&OsStr>) -> Result<(), TreeError> {
        let failed = |e| TreeError::io(self.path, e);
        let mut result = Ok(());
        for entry in rfs::Dir::read_from(self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || Some(name) == kept {
                continue;
            }
            // Some filesystems do not tell in the list.
            let may_be_directory =
                matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            result = result.and(self.remove(name, may_be_directory));
        }
        result
    }

    fn remove(&self, name: &OsStr, may_be_directory: bool) -> Result<(), TreeError> {
        let entered = if may_be_directory { self.enter(name) } else { None };
        let flags = match entered {
            Some(Ok(fd)) => {
                let path = self.path.join(name);
                self.below(&fd, &path)?.empty(None)?;
                AtFlags::REMOVEDIR
            }
            Some(Err(e)) => return Err(TreeError::io(&self.path.join(name), e)),
            None => AtFlags::empty(),
        };
        step();
        match rfs::unlinkat(self.fd, name, flags) {
            // Another process may have removed it.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(TreeError::io(&self.path.join(name), e)),
        }
    }

    /// Opens a directory in this one; `None` if the entry is something else or gone.
    fn enter(&self, name: &OsStr) -> Option<Result<rustix::fd::OwnedFd, Errno>> {
        step();
        match rfs::openat(self.fd, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => None,
            opened => Some(opened),
        }
    }

    /// The level below, if it may be entered to remove its entries.
    fn below<'a>(&self, fd: &'a dyn AsFd, path: &'a Path) -> Result<Level<'a>, TreeError> {
        let identity = Identity::of(fd).map_err(|e| TreeError::io(path, e))?;
        let (owner, parent) = (identity.owner, self.identity.owner);
        if !identity.is_mounted_with(self.identity) {
            return Err(TreeError::Mount { path: path.to_owned() });
        }
        if parent != self.us && owner != parent {
            return Err(TreeError::Owner { path: path.to_owned(), owner, parent });
        }
        if self.depth == DEEPEST {
            return Err(TreeError::Deep { path: path.to_owned() });
        }
        Ok(Level { fd, path, identity, depth: self.depth + 1, us: self.us })
    }

    fn disk_usage(&self) -> u64 {
        let Ok(entries) = rfs::Dir::read_from(self.fd) else { return 0 };
        let mut bytes = 0;
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Ok(stat) = rfs::statat(self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            bytes += stat.st_blocks.max(0).cast_unsigned() * 512;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                && let Some(Ok(fd)) = self.enter(name)
                && let Ok(level) = self.below(&fd, &self.path.join(name))
            {
                bytes += level.disk_usage();
            }
        }
        bytes
    }
}
