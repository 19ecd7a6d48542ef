//! The unfinished copy of a file: `NAME.floodwall-part`, until its data is on the disk.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{self as rfs, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::CopyError;
use super::folder::{FileId, Place, kind};
use super::names::part_name;

/// An unfinished copy. Dropping it removes the file, unless unfinished copies are kept.
pub(super) struct Part {
    place: Place,
    to: Place,
    file: Arc<OwnedFd>,
    id: FileId,
    keep: bool,
    is_settled: bool,
}

/// The place of a file's unfinished copy.
pub(super) fn place_of_part(to: &Place) -> Place {
    Place::new(&to.folder, part_name(&to.name))
}

/// Refuses a source that is the part file of its own copy, which would replace or cut it.
pub(super) fn refuse_source(from: &Place, stat: &Stat, to: &Place) -> Result<(), CopyError> {
    let part = place_of_part(to);
    if is_at(&part, FileId::of(stat))? {
        return Err(CopyError::Same { source_path: from.path(), destination: part.path() });
    }
    Ok(())
}

impl Part {
    /// Creates a part file, in place of one that another copy may have left.
    pub(super) fn create(to: &Place, mode: Mode, keep: bool) -> Result<Self, CopyError> {
        let place = place_of_part(to);
        let make = || {
            let flags =
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rfs::openat(&place.folder, place.name.as_os_str(), flags, mode)
        };
        let made = match make() {
            Err(Errno::EXIST) => {
                // A file that can't be opened (a symlink, another user's) is in use by no copy.
                if let Ok(left) = place.open(OFlags::RDONLY) {
                    lock(&left, &place)?;
                }
                place.folder.remove(&place.name).map_err(CopyError::io("remove", place.path()))?;
                make()
            }
            made => made,
        };
        let file = made.map_err(CopyError::io("create", place.path()))?;
        Self::locked(place, to, file, keep)
    }

    /// The part file that an interrupted copy of this user left, to be continued; `None` without
    /// one.
    pub(super) fn left(to: &Place) -> Result<Option<Self>, CopyError> {
        let place = place_of_part(to);
        let Ok(file) = place.open(OFlags::RDWR) else { return Ok(None) };
        let stat = rfs::fstat(&file).map_err(CopyError::io("look at", place.path()))?;
        // It has no other name, and no other user could have written it.
        let is_own =
            kind(&stat).is_file() && stat.st_nlink == 1 && stat.st_uid == geteuid().as_raw();
        if is_own { Self::locked(place, to, file, true).map(Some) } else { Ok(None) }
    }

    fn locked(place: Place, to: &Place, file: OwnedFd, keep: bool) -> Result<Self, CopyError> {
        lock(&file, &place)?;
        let stat = rfs::fstat(&file).map_err(CopyError::io("look at", place.path()))?;
        let id = FileId::of(&stat);
        Ok(Self { place, to: to.clone(), file: Arc::new(file), id, keep, is_settled: false })
    }

    pub(super) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Its path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// Gives it its final name, in place of an existing file.
    pub(super) fn commit(mut self) -> Result<(), CopyError> {
        commit(&self.place, self.id, &self.to)?;
        self.is_settled = true;
        Ok(())
    }

    /// Its name, for a later commit.
    pub(super) fn defer(mut self) -> OsString {
        self.is_settled = true;
        self.place.name.clone()
    }

    /// Removes it, even if unfinished copies are kept.
    pub(super) fn discard(mut self) {
        self.keep = false;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Another copy's file, if somebody has removed this one.
        let is_own = || is_at(&self.place, self.id).unwrap_or(false);
        if !self.is_settled && !self.keep && is_own() {
            // An error is ignored: the copy has failed already.
            let _ = self.place.folder.remove(&self.place.name);
        }
    }
}

/// Renames a part file to its final name in the same directory. Fails if another file has its name:
/// somebody has removed it, and another copy has begun.
pub(super) fn commit(part: &Place, id: FileId, to: &Place) -> Result<(), CopyError> {
    if !is_at(part, id)? {
        return Err(CopyError::Busy { path: part.path() });
    }
    rename(part, to)
}

/// The same for an entry without data: none but this copy makes it.
pub(super) fn rename(part: &Place, to: &Place) -> Result<(), CopyError> {
    rfs::renameat(&part.folder, part.name.as_os_str(), &to.folder, to.name.as_os_str())
        .map_err(CopyError::io("give its name to", part.path()))
}

/// Whether a place has this file.
pub(super) fn is_at(place: &Place, id: FileId) -> Result<bool, CopyError> {
    let found = place.stat().map_err(CopyError::io("look at", place.path()))?;
    Ok(found.is_some_and(|found| FileId::of(&found) == id))
}

/// Locks a part file, since two copies of one name would both write it.
fn lock(file: &OwnedFd, place: &Place) -> Result<(), CopyError> {
    match rfs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(CopyError::Busy { path: place.path() }),
        // Some filesystems have no locks.
        _ => Ok(()),
    }
}
