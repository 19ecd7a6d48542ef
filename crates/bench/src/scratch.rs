//! The scratch directory: everything that a benchmark writes is below one directory that it made
//! itself.
//!
//! ```text
//! DIR/.floodwall-new-<pid>-<n>/     mode 0700, while it is made
//!   OWNER                           who made it; locked (flock) while the run lives
//!      │ rename, once OWNER is locked
//!      ▼
//! DIR/.floodwall-bench-<pid>-<n>/
//! ```
//!
//! The lock tells a running benchmark's directory from one that a killed run left. The kernel drops
//! the lock with its holder, so process numbers, which are reused, need not be trusted.
//!
//! Cleaning can't tell a directory that is just being made from one whose maker was killed at that
//! moment, and may take it. The maker's next step then fails, and it begins again under another
//! name.
//!
//! DIR may belong to another user, who can rename its entries and put a symlink in their place at
//! any moment. Therefore DIR and the scratch directory are opened once, and every later step goes
//! through their descriptors ([`Dir`]). The opened directory must be empty but for the mark, belong
//! to the mark's owner, and be closed to other users. Other users may at most pass through it to a
//! command's own directory (`--user`). They can't make, rename or remove anything in it. Only the
//! empty directory is removed by name, and only if the name still refers to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use floodwall_load::Dir;
use floodwall_load::dir::{Identity, TreeError};
use rustix::fs::{FileType, FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

/// Every scratch directory's name begins with this …
pub const PREFIX: &str = ".floodwall-bench-";
/// … and with this while it is made.
const NEW_PREFIX: &str = ".floodwall-new-";
/// The locked file in it; a directory without it is not a scratch directory.
const OWNER: &str = "OWNER";
/// First line of the owner file.
const MAGIC: &str = "floodwall bench scratch directory; safe to delete when no floodwall runs";

/// Why there is no scratch directory, or why it is still there.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// It could not be made.
    #[error("can't make a scratch directory in '{dir}': {source}; name a directory that you may \
        write in", dir = dir.display())]
    Make {
        /// Where it was to be made.
        dir: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The directory that was made is not the one that was opened.
    #[error("the scratch directory '{path}' was replaced while it was made; name a directory that \
        nobody else changes", path = path.display())]
    Replaced {
        /// The scratch directory.
        path: PathBuf,
    },
    /// Left-overs could not be listed.
    #[error("can't read the directory '{dir}': {source}", dir = dir.display())]
    List {
        /// The directory.
        dir: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// It could not be removed.
    #[error("can't remove the scratch directory '{path}': {source}; remove it by \
        hand", path = path.display())]
    Remove {
        /// The scratch directory.
        path: PathBuf,
        /// The entry that is still there, and why.
        source: TreeError,
    },
    /// It is empty, but no longer where it was made.
    #[error("the scratch directory '{path}' was emptied, but it has been moved or replaced \
        meanwhile; remove the empty directory by hand", path = path.display())]
    Moved {
        /// Where it was made.
        path: PathBuf,
    },
}

/// A scratch directory of this process. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    parent: Dir,
    name: String,
    dir: Dir,
    /// The mark, held for its lock; `None` once the directory is removed.
    owner: Option<File>,
}

impl Scratch {
    /// Makes one in `parent`.
    ///
    /// # Errors
    /// [`ScratchError::Make`], for example on a read-only filesystem; [`ScratchError::Replaced`].
    pub fn make(parent: &Dir) -> Result<Self, ScratchError> {
        let mut taken = 0;
        loop {
            match Self::try_make(parent) {
                // An earlier process of the same number was killed, or another process cleans this
                // very moment.
                Err(ScratchError::Make { source, .. }) if is_taken(&source) && taken < 1000 => {
                    taken += 1
                }
                made => return made,
            }
        }
    }

    fn try_make(parent: &Dir) -> Result<Self, ScratchError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let (new, name) = (format!("{NEW_PREFIX}{number}"), format!("{PREFIX}{number}"));
        let failed =
            |e: Errno| ScratchError::Make { dir: parent.path().to_owned(), source: e.into() };
        let parent_again = parent.try_clone().map_err(failed)?;
        let dir = parent.make_dir(&new).map_err(failed)?;
        let marked = mark(&dir).and_then(|owner| match is_own(&dir, &owner)? {
            true => parent.rename(&new, &name).map(|()| Some(owner)),
            false => Ok(None),
        });
        match marked {
            Ok(Some(owner)) => {
                let dir = dir.renamed(&name);
                Ok(Self { parent: parent_again, name, dir, owner: Some(owner) })
            }
            Ok(None) => {
                // Only the mark in it belongs to this run.
                let _ = dir.remove_file(OWNER);
                Err(ScratchError::Replaced { path: parent.path().join(new) })
            }
            Err(e) => {
                // Nothing of this run stays behind. The first error is the one that matters.
                let _ = dir.remove_file(OWNER);
                let _ = parent.remove_dir(&new);
                Err(failed(e))
            }
        }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Where it was made; for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// [`ScratchError::Remove`], [`ScratchError::Moved`].
    pub fn remove(mut self) -> Result<(), ScratchError> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), ScratchError> {
        let Some(mark) = self.owner.take() else { return Ok(()) };
        empty(&self.dir)
            .map_err(|source| ScratchError::Remove { path: self.path().to_owned(), source })?;
        match remove_empty(&self.parent, &self.name, &self.dir, Some(mark)) {
            Ok(true) => Ok(()),
            _ => Err(ScratchError::Moved { path: self.path().to_owned() }),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `remove` reports failures; a drop can't. The next run names the directory that is left.
        let _ = self.remove_now();
    }
}

/// Makes the locked mark in an empty directory.
fn mark(dir: &Dir) -> Result<File, Errno> {
    let mut owner = File::from(dir.file(OWNER, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?);
    flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
    writeln!(owner, "{MAGIC}\npid {}", std::process::id())
        .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    Ok(owner)
}

/// Whether a directory holds nothing but the mark, belongs to the mark's owner, and lets no other
/// user in. The mark shows what the filesystem stores: a new file belongs to the caller and has
/// mode 0600. On a filesystem such as vfat, every file has the owner or mode of the mount.
fn is_own(dir: &Dir, owner: &File) -> Result<bool, Errno> {
    let names = dir.names()?;
    if names.is_empty() {
        // Cleaned away meanwhile.
        return Err(Errno::NOENT);
    }
    let (directory, mark) = (fstat(dir)?, fstat(owner)?);
    let is_open = |mode| mode & 0o077 != 0;
    let is_closed = !is_open(directory.st_mode) || is_open(mark.st_mode);
    Ok(names == [OWNER] && directory.st_uid == mark.st_uid && is_closed)
}

/// Whether a directory could not be made because its name is in use or because it was cleaned away
/// meanwhile.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::AlreadyExists | K::DirectoryNotEmpty | K::NotFound | K::WouldBlock)
}

/// Removes the entries of a scratch directory, its mark last: if that breaks off, the directory can
/// still be recognised.
fn empty(dir: &Dir) -> Result<(), TreeError> {
    dir.remove_contents(Some(OWNER))?;
    dir.remove_contents(None)
}

/// Removes an emptied directory if `name` still means it. Returns whether it is gone; another's
/// directory or file of this name stays.
///
/// `mark` is closed first. An open file that is removed stays in an NFS client's directory under
/// another name until it is closed (fs/nfs/unlink.c, `nfs_sillyrename`). Until then the directory
/// is not empty.
fn remove_empty(parent: &Dir, name: &str, dir: &Dir, mark: Option<File>) -> Result<bool, Errno> {
    drop(mark);
    match parent.open_dir(name) {
        Ok(there) if there.identity()? == dir.identity()? => {}
        // Removed by another process that cleans: then nothing links to it any more.
        Err(Errno::NOENT) => return Ok(fstat(dir)?.st_nlink == 0),
        _ => return Ok(false),
    }
    match parent.remove_dir(name) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(fstat(dir)?.st_nlink == 0),
        Err(e) => Err(e),
    }
}

/// A scratch directory that a killed run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that it holds on disk.
    pub bytes: u64,
}

/// Finds the scratch directories in `dir` whose makers are gone.
///
/// # Errors
/// [`ScratchError::List`] if `dir` can't be read.
pub fn leftovers(dir: &Path) -> Result<Vec<Leftover>, ScratchError> {
    let mut found = abandoned(dir, |_, claim| Ok(Some(claim.leftover())))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes what [`leftovers`] finds, and returns what it removed.
///
/// # Errors
/// [`ScratchError`]; what was removed before stays removed.
pub fn clean(dir: &Path) -> Result<Vec<Leftover>, ScratchError> {
    let mut removed = abandoned(dir, |parent, claim| {
        let left = claim.leftover();
        Ok(claim.remove(parent)?.then_some(left))
    })?;
    removed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(removed)
}

/// Claims each scratch directory whose maker is gone, and collects what `each` makes of it.
fn abandoned(
    dir: &Path,
    mut each: impl FnMut(&Dir, Abandoned) -> Result<Option<Leftover>, ScratchError>,
) -> Result<Vec<Leftover>, ScratchError> {
    let failed = |e: Errno| ScratchError::List { dir: dir.to_owned(), source: e.into() };
    let parent = Dir::open(dir).map_err(failed)?;
    let mut found = Vec::new();
    for name in parent.names().map_err(failed)? {
        let Some(name) = name.to_str() else { continue };
        if (name.starts_with(PREFIX) || name.starts_with(NEW_PREFIX))
            && let Some(claim) = Abandoned::claim(&parent, name)
            && let Some(left) = each(&parent, claim)?
        {
            found.push(left);
        }
    }
    Ok(found)
}

/// The right to remove a scratch directory, which no other process has at the same time.
struct Abandoned {
    name: String,
    dir: Dir,
    /// The mark, whose lock we hold. `None` if the maker was killed between mkdir and the mark:
    /// the directory has a scratch directory's name, and is empty.
    lock: Option<File>,
}

impl Abandoned {
    /// `None` if its maker lives, or if it is not a scratch directory.
    fn claim(parent: &Dir, name: &str) -> Option<Self> {
        let dir = parent.open_dir(name).ok()?;
        let names = dir.names().ok()?;
        if names.is_empty() {
            return Some(Self { name: name.to_owned(), dir, lock: None });
        }
        // For writing: over NFS an exclusive lock takes that. Not blocking: it may be a pipe.
        let lock = dir.file(OWNER, OFlags::RDWR | OFlags::NONBLOCK).ok()?;
        let stat = fstat(&lock).ok()?;
        let (directory, mark) = (dir.identity().ok()?, Identity::of(&lock).ok()?);
        // A mark of another user, or one that has another name elsewhere, was not made by the
        // directory's maker.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            || stat.st_nlink > 1
            || directory.owner != mark.owner
        {
            return None;
        }
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Its maker has removed it, and removes the directory now.
        if fstat(&lock).ok()?.st_nlink == 0 {
            return None;
        }
        let mut lock = File::from(lock);
        let mut text = Vec::new();
        (&mut lock).take(MAGIC.len() as u64).read_to_end(&mut text).ok()?;
        // Killed before it wrote the mark: nothing else is there yet.
        let unwritten = text.is_empty() && names == [OsStr::new(OWNER)];
        let marked = unwritten || text == MAGIC.as_bytes();
        marked.then(|| Self { name: name.to_owned(), dir, lock: Some(lock) })
    }

    fn leftover(&self) -> Leftover {
        Leftover { path: self.dir.path().to_owned(), bytes: self.dir.disk_usage() }
    }

    /// Returns whether it was there to be removed.
    fn remove(self, parent: &Dir) -> Result<bool, ScratchError> {
        let path = || self.dir.path().to_owned();
        let marked = self.lock.is_some();
        if marked {
            empty(&self.dir).map_err(|source| ScratchError::Remove { path: path(), source })?;
        }
        match remove_empty(parent, &self.name, &self.dir, self.lock) {
            Ok(true) => Ok(true),
            // Its maker was only starting, and has made its mark or renamed it.
            Ok(false) | Err(Errno::NOTEMPTY) if !marked => Ok(false),
            Ok(false) | Err(_) => Err(ScratchError::Moved { path: path() }),
        }
    }
}

#[cfg(test)]
mod tests;
