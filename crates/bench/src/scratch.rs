//! The scratch directory: everything that a benchmark writes is below one directory that it made itself.
//!
//! ```text
//! DIR/.floodwall-bench-<pid>-<n>/   mode 0700
//!   OWNER                           who made it; locked (flock) while the run lives
//! ```
//!
//! The lock is what tells a running benchmark's directory from one that a killed run left: the kernel drops it with its holder, however that
//! died, and process numbers, which are reused, need not be trusted.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Every scratch directory's name begins with this.
pub const PREFIX: &str = ".floodwall-bench-";
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
        let pid = std::process::id();
        let mut n = 0u32;
        let path = loop {
            let candidate = dir.join(format!("{PREFIX}{pid}-{n}"));
            match DirBuilder::new().mode(0o700).create(&candidate) {
                Ok(()) => break candidate,
                // A namesake: an earlier process of the same number was killed.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
                Err(e) => return Err(fail(e)),
            }
        };
        match Self::mark(&path, pid) {
            Ok(owner) => Ok(Self { path, _owner: owner, removed: false }),
            Err(e) => {
                // Nothing of ours stays behind, the half-made directory included; the first error is the one that matters.
                let _ = fs::remove_dir_all(&path);
                Err(fail(e))
            }
        }
    }

    fn mark(path: &Path, pid: u32) -> io::Result<File> {
        let mut owner = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(OWNER))?;
        rustix::fs::flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
        writeln!(owner, "{MAGIC}\npid {pid}")?;
        Ok(owner)
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
        fs::remove_dir_all(&self.path)
            .map_err(|source| ScratchError::Remove { path: self.path.clone(), source })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `remove` reports; here there is nobody to report to, and the next run names what is left.
        let _ = self.remove_now();
    }
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
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|t| t.is_dir());
        if ours && is_abandoned(&entry.path()) {
            found.push(Leftover { bytes: disk_usage(&entry.path()), path: entry.path() });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes what [`leftovers`] finds, and returns it.
///
/// # Errors
/// [`ScratchError`]; what was removed before stays removed.
pub fn clean(dir: &Path) -> Result<Vec<Leftover>, ScratchError> {
    let found = leftovers(dir)?;
    for left in &found {
        fs::remove_dir_all(&left.path)
            .map_err(|source| ScratchError::Remove { path: left.path.clone(), source })?;
    }
    Ok(found)
}

/// Whether a directory bears our mark and nobody holds its lock.
fn is_abandoned(path: &Path) -> bool {
    let owner = path.join(OWNER);
    if fs::symlink_metadata(&owner).is_err() {
        // Killed between mkdir and the mark: ours by name, and empty, or it is not ours at all.
        return fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    }
    let marked = fs::read_to_string(&owner).is_ok_and(|text| text.is_empty() || text.starts_with(MAGIC));
    let Ok(file) = File::open(&owner) else { return false };
    marked && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
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
    fn a_directory_that_does_not_exist_is_named() {
        let message = Scratch::make(Path::new("/nonexistent/x")).unwrap_err().to_string();
        assert!(message.contains("'/nonexistent/x'"), "{message}");
    }
}
