//! The scratch directory: everything that a benchmark writes is below one directory that it made itself.
//!
//! ```text
//! DIR/.floodwall-new-<pid>-<n>/     mode 0700, while it is made
//!   OWNER                           who made it; locked (flock) while the run lives
//!      │ rename, once OWNER is locked
//!      ▼
//! DIR/.floodwall-bench-<pid>-<n>/
//! ```
//!
//! The lock is what tells a running benchmark's directory from one that a killed run left: the kernel drops it with its holder, however that
//! died, and process numbers, which are reused, need not be trusted.
//!
//! Cleaning may meet a directory that is just being made, before its owner is locked. It can't tell it from one whose maker was killed at that
//! moment, and may take it; so it holds the lock (or removes an empty directory, which the kernel does only while it is empty), and the maker,
//! whose next step then fails, begins again under another name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::FlockOperation;

/// Every scratch directory's name begins with this …
pub const PREFIX: &str = ".floodwall-bench-";
/// … and with this while it is made.
const NEW_PREFIX: &str = ".floodwall-new-";
/// The locked file in it; a directory without it is not ours.
const OWNER: &str = "OWNER";
/// First line of the owner file.
const MAGIC: &str = "floodwall bench scratch directory; safe to delete when no floodwall runs";

/// Why there is no scratch directory, or why it is still there.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// It could not be made.
    #[error("can't make a scratch directory in '{dir}': {source}; name a directory that you may write in", dir = dir.display())]
    Make {
        /// Where it was to be made.
        dir: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Left-overs could not be listed.
    #[error("can't read the directory '{dir}': {source}", dir = dir.display())]
    List {
        /// The directory.
        dir: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It could not be removed.
    #[error("can't remove the scratch directory '{path}': {source}; remove it by hand", path = path.display())]
    Remove {
        /// The scratch directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A scratch directory of this process. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Held for its lock.
    _owner: File,
    removed: bool,
}

impl Scratch {
    /// Makes one in `dir`.
    ///
    /// # Errors
    /// [`ScratchError::Make`], for example on a read-only filesystem.
    pub fn make(dir: &Path) -> Result<Self, ScratchError> {
        let fail = |source| ScratchError::Make { dir: dir.to_owned(), source };
        let mut taken = 0;
        loop {
            match Self::try_make(dir) {
                Ok(scratch) => return Ok(scratch),
                // A namesake (an earlier process of the same number was killed), or somebody cleans this very moment.
                Err(e) if is_taken(&e) && taken < 1000 && dir.exists() => taken += 1,
                Err(e) => return Err(fail(e)),
            }
        }
    }

    fn try_make(dir: &Path) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let new = dir.join(format!("{NEW_PREFIX}{name}"));
        DirBuilder::new().mode(0o700).create(&new)?;
        let path = dir.join(format!("{PREFIX}{name}"));
        let made = mark(&new).and_then(|owner| fs::rename(&new, &path).map(|()| owner));
        match made {
            Ok(owner) => Ok(Self { path, _owner: owner, removed: false }),
            Err(e) => {
                // Nothing of ours stays behind, the half-made directory included; the first error is the one that matters.
                let _ = remove_tree(&new);
                Err(e)
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// [`ScratchError::Remove`].
    pub fn remove(mut self) -> Result<(), ScratchError> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), ScratchError> {
        if std::mem::replace(&mut self.removed, true) {
            return Ok(());
        }
        remove_tree(&self.path).map_err(|source| ScratchError::Remove { path: self.path.clone(), source })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `remove` reports; here there is nobody to report to, and the next run names what is left.
        let _ = self.remove_now();
    }
}

/// Makes the locked mark.
fn mark(dir: &Path) -> io::Result<File> {
    let mut owner = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(OWNER))?;
    rustix::fs::flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
    writeln!(owner, "{MAGIC}\npid {}", std::process::id())?;
    Ok(owner)
}

/// Whether a directory could not be made because its name is in use or because it was cleaned away meanwhile.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::AlreadyExists | K::DirectoryNotEmpty | K::NotFound | K::WouldBlock)
}

/// Removes a scratch directory, its mark last: if that breaks off, what is left can still be recognised. What is gone already is no error.
fn remove_tree(path: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == OWNER {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        gone(if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) })?;
    }
    gone(fs::remove_file(path.join(OWNER)))?;
    gone(fs::remove_dir(path))
}

/// A scratch directory that a killed run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that its files hold on disk.
    pub bytes: u64,
}

/// Finds the scratch directories in `dir` whose makers are gone.
///
/// # Errors
/// [`ScratchError::List`] if `dir` can't be read.
pub fn leftovers(dir: &Path) -> Result<Vec<Leftover>, ScratchError> {
    let entries = fs::read_dir(dir).map_err(|source| ScratchError::List { dir: dir.to_owned(), source })?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = (name.starts_with(PREFIX) || name.starts_with(NEW_PREFIX))
            && entry.file_type().is_ok_and(|t| t.is_dir());
        if ours && Abandoned::claim(&entry.path()).is_some() {
            found.push(Leftover { bytes: disk_usage(&entry.path()), path: entry.path() });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes what [`leftovers`] finds, and returns what it removed.
///
/// # Errors
/// [`ScratchError`]; what was removed before stays removed.
pub fn clean(dir: &Path) -> Result<Vec<Leftover>, ScratchError> {
    let mut removed = Vec::new();
    for left in leftovers(dir)? {
        // Somebody else may have cleaned it meanwhile, or its maker was only starting and has locked it by now.
        let Some(claim) = Abandoned::claim(&left.path) else { continue };
        if claim
            .remove(&left.path)
            .map_err(|source| ScratchError::Remove { path: left.path.clone(), source })?
        {
            removed.push(left);
        }
    }
    Ok(removed)
}

/// The right to remove a scratch directory, which nobody else has at the same time.
enum Abandoned {
    /// It bears our mark, whose lock we hold.
    Marked { _lock: File },
    /// Killed between mkdir and the mark: ours by name, and nothing in it.
    Empty,
}

impl Abandoned {
    /// `None` if its maker lives, or if it is not ours.
    fn claim(path: &Path) -> Option<Self> {
        let owner = path.join(OWNER);
        let Ok(mark) = fs::symlink_metadata(&owner) else {
            let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
            return is_empty.then_some(Self::Empty);
        };
        if !mark.is_file() {
            return None;
        }
        // For writing: over NFS an exclusive lock takes that.
        let lock = OpenOptions::new().read(true).write(true).open(&owner).ok()?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        let text = fs::read_to_string(&owner).ok()?;
        (text.is_empty() || text.starts_with(MAGIC)).then_some(Self::Marked { _lock: lock })
    }

    /// Returns whether it was there to be removed.
    fn remove(self, path: &Path) -> io::Result<bool> {
        match self {
            Self::Marked { _lock } => remove_tree(path).map(|()| true),
            Self::Empty => match fs::remove_dir(path) {
                Ok(()) => Ok(true),
                Err(e) if is_taken(&e) => Ok(false),
                Err(e) => Err(e),
            },
        }
    }
}

fn disk_usage(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|e| match e.metadata() {
            Ok(m) if m.is_dir() => disk_usage(&e.path()),
            Ok(m) => m.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_run_is_not_a_leftover_and_a_dropped_one_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(dir.path()).unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(leftovers(dir.path()).unwrap(), []);
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_killed_run_is_found_and_cleaned_with_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(dir.path()).unwrap();
        let mut file = File::create(scratch.path().join("victim-0")).unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        file.sync_all().unwrap();
        // What SIGKILL does: the lock goes, the files stay.
        rustix::fs::flock(&scratch._owner, FlockOperation::Unlock).unwrap();
        let found = leftovers(dir.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].bytes >= 100_000, "{found:?}");
        assert_eq!(clean(dir.path()).unwrap(), found);
        assert!(!scratch.path().exists());
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = dir.path().join(format!("{PREFIX}of-somebody"));
        fs::create_dir(&foreign).unwrap();
        File::create(foreign.join("precious")).unwrap();
        let named_alike = dir.path().join("floodwall-bench");
        fs::create_dir(&named_alike).unwrap();
        assert_eq!(clean(dir.path()).unwrap(), []);
        assert!(foreign.join("precious").exists() && named_alike.exists());
    }

    #[test]
    fn a_directory_whose_maker_was_killed_halfway_is_cleaned() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join(format!("{NEW_PREFIX}7-0"));
        let unlocked = dir.path().join(format!("{NEW_PREFIX}7-1"));
        for path in [&empty, &unlocked] {
            fs::create_dir(path).unwrap();
        }
        File::create(unlocked.join(OWNER)).unwrap();
        let paths: Vec<PathBuf> = clean(dir.path()).unwrap().into_iter().map(|left| left.path).collect();
        assert_eq!(paths, [empty, unlocked]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_interrupted_removal_leaves_the_mark() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(dir.path()).unwrap();
        let path = scratch.path().to_owned();
        for i in 0..1_000 {
            File::create(path.join(format!("file-{i}"))).unwrap();
        }
        // Seen from outside: as long as anything is there, the mark is.
        let marked = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut orphaned = false;
                while path.exists() {
                    let without_mark = !path.join(OWNER).exists();
                    let anything = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
                    orphaned |= without_mark && anything;
                }
                !orphaned
            });
            scratch.remove().unwrap();
            watcher.join().unwrap()
        });
        assert!(marked);
    }

    #[test]
    fn cleaning_beside_runs_that_start_and_end_takes_nothing_that_lives() {
        use std::sync::atomic::AtomicBool;
        let dir = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let cleaners = [(), ()].map(|()| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        clean(dir.path()).unwrap();
                    }
                })
            });
            let makers = [(), ()].map(|()| {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        let scratch = Scratch::make(dir.path()).unwrap();
                        let data = scratch.path().join("data");
                        File::create(&data).unwrap();
                        assert!(scratch.path().join(OWNER).exists() && data.exists());
                        scratch.remove().unwrap();
                    }
                })
            });
            let made = makers.map(|maker| maker.join().is_ok());
            done.store(true, Ordering::Relaxed);
            assert_eq!(made, [true, true]);
            assert_eq!(cleaners.map(|cleaner| cleaner.join().is_ok()), [true, true]);
        });
        assert_eq!(clean(dir.path()).unwrap(), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named() {
        let message = Scratch::make(Path::new("/nonexistent/x")).unwrap_err().to_string();
        assert!(message.contains("'/nonexistent/x'"), "{message}");
    }
}
