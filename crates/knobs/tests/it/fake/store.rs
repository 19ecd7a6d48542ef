//! A journal's directory, whose disk may be full.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use floodwall_knobs::journal::{JournalError, Mark, Store};

use super::Fuse;

/// A journal directory.
#[derive(Default)]
pub(crate) struct Memory {
    fuse: Rc<Fuse>,
    pub(crate) files: RefCell<BTreeMap<String, Vec<u8>>>,
    /// Bytes that still fit; `None` for no end.
    pub(crate) space: Cell<Option<usize>>,
    /// A process steers.
    pub(crate) marked: Cell<bool>,
}

impl Memory {
    pub(crate) fn new(fuse: &Rc<Fuse>) -> Self {
        Self { fuse: Rc::clone(fuse), ..Self::default() }
    }

    fn killed() -> JournalError {
        JournalError::ReadOnly
    }

    fn take(&self, bytes: usize) -> Result<(), JournalError> {
        let full = || JournalError::Io {
            what: "write",
            path: "/journal".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        match self.space.get() {
            Some(left) if left < bytes => Err(full()),
            Some(left) => {
                self.space.set(Some(left - bytes));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Store for Memory {
    fn names(&self) -> Result<Vec<String>, JournalError> {
        Ok(self.files.borrow().keys().cloned().collect())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        Ok(self.files.borrow().get(name).cloned().unwrap_or_default())
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        if !self.fuse.burn() {
            // Killed half-way: a part of it is there.
            self.files
                .borrow_mut()
                .entry(name.to_owned())
                .or_insert_with(|| bytes[..bytes.len() / 2].to_vec());
            return Err(Self::killed());
        }
        self.take(bytes.len())?;
        self.files.borrow_mut().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        if !self.fuse.burn() {
            return Err(Self::killed());
        }
        let bytes = self.files.borrow_mut().remove(from).unwrap_or_default();
        self.files.borrow_mut().insert(to.to_owned(), bytes);
        Ok(())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        let was_alive = !self.fuse.is_blown();
        if !self.fuse.burn() {
            if was_alive && let Some(file) = self.files.borrow_mut().get_mut(name) {
                // Killed half-way, at a place that depends on the record.
                file.extend_from_slice(&bytes[..bytes.len() * (bytes.len() % 4) / 4]);
            }
            return Err(Self::killed());
        }
        self.take(bytes.len())?;
        self.files.borrow_mut().entry(name.to_owned()).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn append_synced(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.append(name, bytes)
    }

    fn length(&self, name: &str) -> Result<u64, JournalError> {
        Ok(self.files.borrow().get(name).map_or(0, Vec::len) as u64)
    }

    fn truncate(&self, name: &str, bytes: u64) -> Result<(), JournalError> {
        if !self.fuse.burn() {
            return Err(Self::killed());
        }
        if let Some(file) = self.files.borrow_mut().get_mut(name) {
            file.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), JournalError> {
        if !self.fuse.burn() {
            return Err(Self::killed());
        }
        self.files.borrow_mut().remove(name);
        Ok(())
    }

    fn mark(&self) -> Result<Option<Mark>, JournalError> {
        Ok((!self.marked.replace(true)).then(Mark::default))
    }

    fn is_marked(&self) -> Result<bool, JournalError> {
        Ok(self.marked.get())
    }
}
