//! Directories held open: files below one are made, opened and removed through its descriptor.
//!
//! ```text
//! Dir::open(path) ─▶ descriptor ─▶ make_dir │ open_dir │ file │ rename │ remove_…
//!                                  (openat(2), O_NOFOLLOW)
//! ```
//!
//! The owner of a directory can rename everything in it at any moment, and put a symlink in its
//! place. A path that is resolved again then leads somewhere else. A descriptor stays with the
//! directory that was opened. Each step from it is one name, which is not followed if it is a
//! symlink. So no call on a [`Dir`] changes anything outside the directory that it was opened on.
//! Paths are kept for messages alone.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as rfs, AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

#[cfg(feature = "steps")]
pub mod steps;
#[cfg(not(feature = "steps"))]
mod steps {
    /// Tests act here, before each call that takes a name; see the feature of this name.
    #[inline(always)]
    pub(super) fn step() {}
}
mod tree;

use steps::step;
pub use tree::TreeError;

/// How directories are opened.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// The directory's identity, its mount and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: (u32, u32),
    /// `None` before Linux 5.8.
    mount: Option<u64>,
    inode: u64,
    /// The owner's user id.
    pub owner: u32,
}

impl Identity {
    /// Of an open file.
    ///
    /// # Errors
    /// That of statx(2).
    pub fn of(fd: impl AsFd) -> Result<Self, Errno> {
        let wanted = StatxFlags::INO | StatxFlags::UID | StatxFlags::MNT_ID;
        let stat = rfs::statx(fd, "", AtFlags::EMPTY_PATH, wanted)?;
        let has_mount = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
        Ok(Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            mount: has_mount.then_some(stat.stx_mnt_id),
            inode: stat.stx_ino,
            owner: stat.stx_uid,
        })
    }

    /// Whether both are on the same filesystem, reached through the same mount.
    fn is_mounted_with(self, other: Self) -> bool {
        (self.device, self.mount) == (other.device, other.mount)
    }
}

impl Dir {
    /// Opens the directory that the caller names. Symlinks on the way are followed.
    ///
    /// # Errors
    /// That of open(2).
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        let fd = rfs::open(path, flags, Mode::empty())?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory by a path without symlinks, such as [`Path::canonicalize`] returns. Fails
    /// if one has been put there since; before Linux 5.6 only a symlink in the last place is
    /// noticed.
    ///
    /// # Errors
    /// That of openat2(2); ELOOP for a symlink.
    pub fn open_resolved(path: &Path) -> Result<Self, Errno> {
        step();
        let fd = match rfs::openat2(CWD, path, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        {
            // The kernel lacks the call, or a seccomp filter of a container refuses it.
            Err(Errno::NOSYS | Errno::PERM) => rfs::open(path, DIRECTORY, Mode::empty())?,
            opened => opened?,
        };
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Where it was when it was opened; for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same directory, called by another name in messages: it has been renamed.
    #[must_use]
    pub fn renamed(self, name: &str) -> Self {
        Self { path: self.path.with_file_name(name), ..self }
    }

    /// Another descriptor of the same directory.
    ///
    /// # Errors
    /// That of fcntl(2).
    pub fn try_clone(&self) -> Result<Self, Errno> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)?;
        Ok(Self { fd, path: self.path.clone() })
    }

    /// Which directory it is.
    ///
    /// # Errors
    /// That of statx(2).
    pub fn identity(&self) -> Result<Identity, Errno> {
        Identity::of(self)
    }

    /// Makes a directory in it (mode 0700) and opens it.
    ///
    /// Where other users can rename entries of this directory, the opened directory may differ from
    /// the one that was made. The caller checks its [`Identity`] and contents.
    ///
    /// # Errors
    /// That of mkdirat(2), or those of [`Self::open_dir`].
    pub fn make_dir(&self, name: &str) -> Result<Self, Errno> {
        step();
        rfs::mkdirat(&self.fd, name, Mode::RWXU)?;
        self.open_dir(name)
    }

    /// Opens a directory in it.
    ///
    /// # Errors
    /// That of openat(2): ENOTDIR or ELOOP for a symlink. EXDEV if a filesystem is mounted there.
    pub fn open_dir(&self, name: impl AsRef<OsStr>) -> Result<Self, Errno> {
        step();
        let fd = rfs::openat(&self.fd, name.as_ref(), DIRECTORY, Mode::empty())?;
        if !Identity::of(&fd)?.is_mounted_with(self.identity()?) {
            return Err(Errno::XDEV);
        }
        Ok(Self { fd, path: self.path.join(name.as_ref()) })
    }

    /// Opens a file in it, or makes it (mode 0600) if `flags` say so. A symlink is not followed.
    ///
    /// # Errors
    /// That of openat(2): ELOOP for a symlink.
    pub fn file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> Result<OwnedFd, Errno> {
        step();
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rfs::openat(&self.fd, name.as_ref(), flags, Mode::RUSR | Mode::WUSR)
    }

    /// Renames an entry within it.
    ///
    /// # Errors
    /// That of renameat(2).
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        step();
        rfs::renameat(&self.fd, from, &self.fd, to)
    }

    /// Removes an entry that is no directory; a symlink itself, not its target.
    ///
    /// # Errors
    /// That of unlinkat(2).
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<(), Errno> {
        step();
        rfs::unlinkat(&self.fd, name.as_ref(), AtFlags::empty())
    }

    /// Removes an empty directory in it.
    ///
    /// # Errors
    /// That of unlinkat(2): ENOTEMPTY if something is in it.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<(), Errno> {
        step();
        rfs::unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)
    }

    /// The names in it, without `.` and `..`.
    ///
    /// # Errors
    /// That of getdents64(2).
    pub fn names(&self) -> Result<Vec<OsString>, Errno> {
        let mut names = Vec::new();
        for entry in rfs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
