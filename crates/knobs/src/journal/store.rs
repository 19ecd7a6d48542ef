//! Where journals are kept, as the few operations that can be cut short by a crash.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Marks this process as the one that steers. The kernel removes the mark with the process.
#[derive(Debug, Default)]
pub struct Mark {
    /// A file that this process has locked.
    _file: Option<OwnedFd>,
}

impl From<OwnedFd> for Mark {
    fn from(file: OwnedFd) -> Self {
        Self { _file: Some(file) }
    }
}

/// Names and bytes of journal files. Each call is one point at which a crash can come.
pub trait Store {
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// [`JournalError`].
    fn names(&self) -> Result<Vec<String>, JournalError>;

    /// A whole file.
    ///
    /// # Errors
    /// [`JournalError`]; [`JournalError::Foreign`] for a file that is not a journal's plain file.
    fn read(&self, name: &str) -> Result<Vec<u8>, JournalError>;

    /// Writes a file that does not count yet, and makes it durable. A leftover of the same name is
    /// replaced.
    ///
    /// # Errors
    /// [`JournalError`].
    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError>;

    /// Renames a file, and makes the directory durable.
    ///
    /// # Errors
    /// [`JournalError`].
    fn rename(&self, from: &str, to: &str) -> Result<(), JournalError>;

    /// Appends to a file in one write.
    ///
    /// # Errors
    /// [`JournalError`].
    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError>;

    /// Appends to a file in one write, and makes it durable.
    ///
    /// # Errors
    /// [`JournalError`].
    fn append_synced(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError>;

    /// How many bytes a file has.
    ///
    /// # Errors
    /// [`JournalError`].
    fn length(&self, name: &str) -> Result<u64, JournalError> {
        Ok(self.read(name)?.len() as u64)
    }

    /// Cuts a file after so many bytes.
    ///
    /// # Errors
    /// [`JournalError`].
    fn truncate(&self, name: &str, bytes: u64) -> Result<(), JournalError>;

    /// Removes a file. It need not be durable: what is removed says nothing any more.
    ///
    /// # Errors
    /// [`JournalError`].
    fn remove(&self, name: &str) -> Result<(), JournalError>;

    /// Marks this process as the one that steers; `None` if another one has the mark.
    ///
    /// # Errors
    /// [`JournalError`].
    fn mark(&self) -> Result<Option<Mark>, JournalError>;

    /// Whether a process has the mark, whichever PID namespace it is in.
    ///
    /// # Errors
    /// [`JournalError`].
    fn is_marked(&self) -> Result<bool, JournalError>;
}

/// The journal can't be used. Nothing has been changed unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An operation failed.
    #[error("can't {what} '{path}': {source}", path = path.display())]
    Io {
        /// `open`, `write`, …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not an absolute path without `..`.
    #[error("the journal's directory '{path}' must be an absolute path without \
        '..'", path = .0.display())]
    NotAbsolute(PathBuf),
    /// A symbolic link in the path: another user may point it elsewhere.
    #[error("'{path}' in the journal's path is a symbolic link; name the real \
        directory", path = .0.display())]
    Symlink(PathBuf),
    /// Others can change what we would undo by.
    #[error("'{path}' in the journal's path {why}; make it root's, mode \
        0700", path = path.display())]
    Unsafe {
        /// Which directory.
        path: PathBuf,
        /// Owner or mode.
        why: String,
    },
    /// Another process is changing settings.
    #[error("settings are being changed by {holder}; wait for it to end")]
    Held {
        /// Its name, as it told it.
        holder: String,
    },
    /// Not one of our files.
    #[error("'{name}' in the journal's directory is not ours: {why}")]
    Foreign {
        /// The file.
        name: String,
        /// Why not.
        why: String,
    },
    /// The process was opened for reading alone.
    #[error("the journal was opened for reading alone")]
    ReadOnly,
}

impl JournalError {
    /// Whether the journal's filesystem is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if source.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Whether a privilege or a writable filesystem is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem))
    }
}
