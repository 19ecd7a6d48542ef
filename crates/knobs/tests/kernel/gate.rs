//! Kernel files and a journal on disk, with something before each write: the place where a process
//! is killed.

use std::path::PathBuf;

use floodwall_knobs::journal::{DiskStore, JournalError, Mark, Store};
use floodwall_knobs::{Files, KernelFiles};
use rustix::io::Errno;

/// What is before each write.
pub(crate) trait Gate {
    /// Whether the write is made.
    fn pass(&self) -> bool;

    /// How many of an appended record's bytes are written though it isn't made whole.
    fn torn(&self, _bytes: usize) -> Option<usize> {
        None
    }
}

pub(crate) struct GatedFiles<'a, G>(pub(crate) &'a G, pub(crate) &'a KernelFiles);

impl<G: Gate> Files for GatedFiles<'_, G> {
    fn read(&self, path: &str) -> rustix::io::Result<String> {
        self.1.read(path)
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.1.list(path)
    }

    fn link(&self, path: &str) -> rustix::io::Result<String> {
        self.1.link(path)
    }

    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()> {
        if self.0.pass() { self.1.write(path, value) } else { Err(Errno::IO) }
    }

    fn may_write(&self, path: &str) -> rustix::io::Result<()> {
        self.1.may_write(path)
    }

    fn page_bytes(&self) -> u64 {
        self.1.page_bytes()
    }
}

pub(crate) struct GatedStore<'a, G>(pub(crate) &'a G, pub(crate) DiskStore);

impl<G: Gate> GatedStore<'_, G> {
    fn pass(&self) -> Result<&DiskStore, JournalError> {
        if self.0.pass() {
            return Ok(&self.1);
        }
        let source = std::io::Error::other("killed");
        Err(JournalError::Io { what: "write", path: PathBuf::from("journal"), source })
    }

    fn append_by(
        &self,
        append: impl Fn(&DiskStore, &[u8]) -> Result<(), JournalError>,
        bytes: &[u8],
    ) -> Result<(), JournalError> {
        if let Some(written) = self.0.torn(bytes.len()) {
            append(&self.1, &bytes[..written])?;
        }
        append(self.pass()?, bytes)
    }
}

impl<G: Gate> Store for GatedStore<'_, G> {
    fn names(&self) -> Result<Vec<String>, JournalError> {
        self.1.names()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        self.1.read(name)
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.pass()?.write_new(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        self.pass()?.rename(from, to)
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.append_by(|store, bytes| store.append(name, bytes), bytes)
    }

    fn append_synced(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.append_by(|store, bytes| store.append_synced(name, bytes), bytes)
    }

    fn length(&self, name: &str) -> Result<u64, JournalError> {
        self.1.length(name)
    }

    fn truncate(&self, name: &str, bytes: u64) -> Result<(), JournalError> {
        self.pass()?.truncate(name, bytes)
    }

    fn remove(&self, name: &str) -> Result<(), JournalError> {
        self.pass()?.remove(name)
    }

    fn mark(&self) -> Result<Option<Mark>, JournalError> {
        self.1.mark()
    }

    fn is_marked(&self) -> Result<bool, JournalError> {
        self.1.is_marked()
    }
}
