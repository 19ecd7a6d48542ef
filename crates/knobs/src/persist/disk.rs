//! Writing the files: whole or not at all, and never through a link or over a file of another
//! program.
//!
//! ```text
//! /etc ─ lock ─▶ each directory opened name by name, no links (made if it is not there)
//!   every temporary file written, fsynced ─▶ every one renamed ─▶ directories fsynced
//!   a failure before the first rename leaves everything as it was
//!   a failure after it puts the first file back
//! ```
//!
//! Readers never see half a file: a temporary one has a name that neither udev nor sysctl reads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use floodwall_host::SysRoot;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{FileState, Kept, PersistError, read, units};

/// Ends in neither `.conf` nor `.rules`.
const TEMPORARY: &str = ".floodwall.new";
/// Readable without root.
const MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// Far above the size of any file that Floodwall writes.
const MAX_BYTES: usize = 1 << 20;

/// The outcome for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Written or replaced.
    Replaced(String),
    /// Removed.
    Removed(String),
    /// Not Floodwall's to remove; its state.
    Left(String, FileState),
}

/// The directory /etc of a machine or a captured tree, locked.
pub struct Etc {
    root: SysRoot,
    top: OwnedFd,
    /// Held until dropped; the kernel drops it with the process.
    _lock: OwnedFd,
}

/// A file to be.
struct Pending {
    path: String,
    directory: OwnedFd,
    /// `None` removes it.
    text: Option<String>,
    before: Option<Vec<u8>>,
}

impl Kept {
    /// Refuses to write over a file that is not Floodwall's. Files that stay as they are may have
    /// any owner.
    ///
    /// # Errors
    /// [`PersistError::NotOurs`].
    pub fn refuse_foreign(
        &self,
        root: &SysRoot,
        files: &[(String, Option<String>)],
    ) -> Result<(), PersistError> {
        let is_written =
            |path: &str| files.iter().any(|(other, text)| other == path && text.is_some());
        for (path, state) in self.files().filter(|(path, _)| is_written(path)) {
            if matches!(state, FileState::Edited | FileState::Foreign(_)) {
                return Err(PersistError::NotOurs {
                    path: shown(root, path),
                    why: state.to_string(),
                });
            }
        }
        Ok(())
    }
}

impl Etc {
    /// Opens /etc to change the kept settings. Makes it if it is missing.
    ///
    /// # Errors
    /// [`PersistError::Held`], [`PersistError::NoDirectory`], [`PersistError::Io`].
    pub fn open(root: &SysRoot) -> Result<Self, PersistError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(root.path(), flags, Mode::empty())
            .map_err(|e| failed(root, "open", "/", e))?;
        let lock = open_directory(root, &top, "/etc", true)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { root: root.clone(), top, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(PersistError::Held),
            Err(e) => Err(failed(root, "lock", "/etc", e)),
        }
    }

    /// Writes what is to be kept. A file without settings is removed if Floodwall wrote it, else
    /// left.
    ///
    /// # Errors
    /// [`PersistError`]. Unless it says otherwise everything is as before.
    pub fn write(
        &self,
        files: Vec<(String, Option<String>)>,
    ) -> Result<Vec<Written>, PersistError> {
        self.change(&read(&self.root), files)
    }

    /// Removes exactly the files that Floodwall wrote. Files changed since stay and are reported.
    ///
    /// # Errors
    /// [`PersistError`]. Unless it says otherwise everything is as before.
    pub fn remove(&self) -> Result<Vec<Written>, PersistError> {
        let kept = read(&self.root);
        self.change(&kept, kept.files().map(|(path, _)| (path.to_owned(), None)).collect())
    }

    fn change(
        &self,
        kept: &Kept,
        mut files: Vec<(String, Option<String>)>,
    ) -> Result<Vec<Written>, PersistError> {
        self.clear_temporary(kept);
        // Drop-ins of units that are no longer kept. Files of other programs stay.
        for (path, state) in &kept.drop_ins {
            if *state == FileState::Ours && !files.iter().any(|(other, _)| other == path) {
                files.push((path.clone(), None));
            }
        }
        let mut pending = Vec::new();
        let mut left = Vec::new();
        files.retain(|(path, text)| {
            let state = kept.state_of(path);
            let is_anothers =
                text.is_none() && *state != FileState::Absent && !state.may_be_replaced();
            if is_anothers {
                left.push(Written::Left(path.clone(), state.clone()));
            }
            !is_anothers
        });
        let made = self.open_all(kept, files, &mut pending);
        let written =
            made.and_then(|()| self.prepare_all(&pending)).and_then(|()| self.commit(&pending));
        // Directories of drop-ins that were made for nothing, or have nothing in them any more.
        for file in &pending {
            self.remove_empty(split(&file.path).0);
        }
        written.map(|written| [written, left].concat())
    }

    /// Opens the directories of files that are to change, and makes those that are not there.
    fn open_all(
        &self,
        kept: &Kept,
        files: Vec<(String, Option<String>)>,
        pending: &mut Vec<Pending>,
    ) -> Result<(), PersistError> {
        for (path, text) in files {
            let state = kept.state_of(&path);
            if text.is_none() && *state == FileState::Absent {
                continue;
            }
            if !state.may_be_replaced() {
                return Err(PersistError::NotOurs {
                    path: self.shown(&path),
                    why: state.to_string(),
                });
            }
            let (parent, _) = split(&path);
            let directory = open_directory(&self.root, &self.top, parent, text.is_some())?;
            let before = self.bytes(&directory, &path)?;
            if before.as_deref() != text.as_ref().map(String::as_bytes) {
                pending.push(Pending { path, directory, text, before });
            }
        }
        Ok(())
    }

    fn prepare_all(&self, pending: &[Pending]) -> Result<(), PersistError> {
        for (index, file) in pending.iter().enumerate() {
            if let Err(error) = self.prepare(file) {
                for prepared in pending.iter().take(index + 1) {
                    let _ = rustix::fs::unlinkat(&prepared.directory, TEMPORARY, AtFlags::empty());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes temporary files that a crash has left; the caller holds the lock. No program reads
    /// such a file, so failing to remove one does no harm.
    fn clear_temporary(&self, kept: &Kept) {
        let of_files = kept.files().map(|(path, _)| split(path).0.to_owned());
        // A kill may come before the drop-in is there.
        for path in of_files.chain(units::directories(&self.root)) {
            if let Ok(directory) = open_directory(&self.root, &self.top, &path, false)
                && rustix::fs::unlinkat(&directory, TEMPORARY, AtFlags::empty()).is_ok()
            {
                self.remove_empty(&path);
            }
        }
    }

    /// Removes a unit's directory of drop-ins, unless others are in it.
    fn remove_empty(&self, path: &str) {
        let (above, name) = split(path);
        if let (true, Ok(directory)) =
            (above.ends_with("/system"), open_directory(&self.root, &self.top, above, false))
        {
            let _ = rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR);
        }
    }

    fn prepare(&self, file: &Pending) -> Result<(), PersistError> {
        let Some(text) = &file.text else { return Ok(()) };
        put(file, text.as_bytes()).map_err(|e| failed(&self.root, "write", &file.path, e))
    }

    fn commit(&self, pending: &[Pending]) -> Result<Vec<Written>, PersistError> {
        let mut told = Vec::new();
        for (index, file) in pending.iter().enumerate() {
            let (_, name) = split(&file.path);
            let (what, done) = match &file.text {
                Some(_) => (
                    "write",
                    rustix::fs::renameat(&file.directory, TEMPORARY, &file.directory, name),
                ),
                None => ("remove", rustix::fs::unlinkat(&file.directory, name, AtFlags::empty())),
            };
            let (changed, result) = match done {
                Ok(()) => (index + 1, rustix::fs::fsync(&file.directory)),
                Err(error) => (index, Err(error)),
            };
            if let Err(error) = result {
                for rest in pending.iter().skip(changed) {
                    let _ = rustix::fs::unlinkat(&rest.directory, TEMPORARY, AtFlags::empty());
                }
                // Every one, even if another fails.
                let left: Vec<&Pending> = pending
                    .iter()
                    .take(changed)
                    .filter(|before| put_back(before).is_err())
                    .collect();
                return Err(match left.first() {
                    Some(file) => PersistError::HalfWritten {
                        path: self.shown(&file.path),
                        source: error.into(),
                    },
                    None => failed(&self.root, what, &file.path, error),
                });
            }
            told.push(match file.text {
                Some(_) => Written::Replaced(file.path.clone()),
                None => Written::Removed(file.path.clone()),
            });
        }
        Ok(told)
    }

    /// A file's bytes; `None` if it is not there.
    fn bytes(&self, directory: &OwnedFd, path: &str) -> Result<Option<Vec<u8>>, PersistError> {
        let (_, name) = split(path);
        // Non-blocking: a FIFO in our place must not hang us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(failed(&self.root, "read", path, e)),
        };
        let mut bytes = Vec::new();
        loop {
            bytes.reserve(16 << 10);
            match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes)) {
                Ok(0) => return Ok(Some(bytes)),
                Ok(_) if bytes.len() > MAX_BYTES => {
                    return Err(failed(&self.root, "read", path, Errno::FBIG));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(failed(&self.root, "read", path, e)),
            }
        }
    }

    fn shown(&self, path: &str) -> PathBuf {
        shown(&self.root, path)
    }
}

/// Writes the temporary file and makes it durable.
fn put(file: &Pending, bytes: &[u8]) -> rustix::io::Result<()> {
    // Left by a crash; this process holds the lock.
    match rustix::fs::unlinkat(&file.directory, TEMPORARY, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(e),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(&file.directory, TEMPORARY, flags, MODE)?;
    // The umask may have reduced the mode.
    rustix::fs::fchmod(&new, MODE)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(&new, rest) {
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    rustix::fs::fsync(&new)
}

fn put_back(file: &Pending) -> rustix::io::Result<()> {
    let (_, name) = split(&file.path);
    match &file.before {
        Some(bytes) => {
            put(file, bytes)?;
            rustix::fs::renameat(&file.directory, TEMPORARY, &file.directory, name)?;
        }
        None => rustix::fs::unlinkat(&file.directory, name, AtFlags::empty())?,
    }
    rustix::fs::fsync(&file.directory)
}

/// Opens a directory below the root one name at a time, without following links.
fn open_directory(
    root: &SysRoot,
    top: &OwnedFd,
    path: &str,
    make: bool,
) -> Result<OwnedFd, PersistError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = String::new();
    let mut directory: Option<OwnedFd> = None;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let parent = directory.as_ref().unwrap_or(top).as_fd();
        here = format!("{here}/{name}");
        let open = || rustix::fs::openat(parent, name, flags, Mode::empty());
        let next = match open() {
            Err(Errno::NOENT) if make => match rustix::fs::mkdirat(parent, name, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(e) => return Err(failed(root, "make", &here, e)),
            },
            other => other,
        };
        directory = Some(next.map_err(|e| {
            let is_directory = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            if matches!(e, Errno::LOOP | Errno::NOTDIR) && !is_directory {
                PersistError::NoDirectory(shown(root, &here))
            } else {
                failed(root, "open", &here, e)
            }
        })?);
    }
    directory.ok_or_else(|| failed(root, "open", path, Errno::NOENT))
}

/// Directory and name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn shown(root: &SysRoot, path: &str) -> PathBuf {
    root.path().join(path.trim_start_matches('/'))
}

fn failed(root: &SysRoot, what: &'static str, path: &str, error: Errno) -> PersistError {
    PersistError::Io { what, path: shown(root, path), source: io::Error::from(error) }
}
