//! A change without a write: what would be written is kept in memory, and read from there.
//! `--dry-run` prints it.
//!
//! ```text
//! Session over Rehearsal (files) and Rehearsal (journal) and its clock
//!   → the real code's writes, in order
//! ```
//!
//! The kernel's side effects are imitated as for a captured tree: a limit's partner becomes zero, a
//! choice moves its brackets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_host::SysRoot;

use crate::apply::clock::Clock;
use crate::apply::kernel_files::imitation;
use crate::catalogue::files::Files;
use crate::catalogue::systemd::Limit;
use crate::catalogue::target::node_of;
use crate::journal::{JournalError, Mark, Store};

/// Files whose writes stay in memory.
pub struct RehearsedFiles<'a> {
    under: &'a dyn Files,
    over: RefCell<BTreeMap<String, String>>,
    writes: RefCell<Vec<String>>,
}

impl<'a> RehearsedFiles<'a> {
    /// Over real files.
    #[must_use]
    pub fn new(under: &'a dyn Files) -> Self {
        Self { under, over: RefCell::default(), writes: RefCell::default() }
    }

    /// The writes so far, as a shell would make them.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        self.writes.borrow().clone()
    }
}

impl Files for RehearsedFiles<'_> {
    fn read(&self, path: &str) -> rustix::io::Result<String> {
        match self.over.borrow().get(path) {
            Some(text) => Ok(text.clone()),
            None => self.under.read(path),
        }
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.under.list(path)
    }

    fn link(&self, path: &str) -> rustix::io::Result<String> {
        self.under.link(path)
    }

    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()> {
        let before = self.read(path)?;
        for (path, text) in imitation::effects(path, &before, value)? {
            if self.read(&path).is_ok() {
                self.over.borrow_mut().insert(path, text);
            }
        }
        let shown = match Limit::parse(path) {
            Some(limit) => {
                let key = value.split(' ').next().unwrap_or_default();
                limit.commands(&before, value, &node_of(self, key))
            }
            None => format!("echo {value} > {path}"),
        };
        self.writes.borrow_mut().push(shown);
        Ok(())
    }

    fn may_write(&self, path: &str) -> rustix::io::Result<()> {
        self.under.may_write(path)
    }

    fn page_bytes(&self) -> u64 {
        self.under.page_bytes()
    }

    fn servers_root(&self) -> Option<&SysRoot> {
        self.under.servers_root()
    }
}

/// A journal that is read and never written.
pub struct RehearsedStore<'a>(pub &'a dyn Store);

impl Store for RehearsedStore<'_> {
    fn names(&self) -> Result<Vec<String>, JournalError> {
        self.0.names()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        self.0.read(name)
    }

    fn write_new(&self, _: &str, _: &[u8]) -> Result<(), JournalError> {
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> Result<(), JournalError> {
        Ok(())
    }

    fn append(&self, _: &str, _: &[u8]) -> Result<(), JournalError> {
        Ok(())
    }

    fn append_synced(&self, _: &str, _: &[u8]) -> Result<(), JournalError> {
        Ok(())
    }

    fn truncate(&self, _: &str, _: u64) -> Result<(), JournalError> {
        Ok(())
    }

    fn remove(&self, _: &str) -> Result<(), JournalError> {
        Ok(())
    }

    fn mark(&self) -> Result<Option<Mark>, JournalError> {
        Ok(Some(Mark::default()))
    }

    fn is_marked(&self) -> Result<bool, JournalError> {
        self.0.is_marked()
    }
}

/// A clock that tells the time and waits for nothing.
pub struct RehearsedClock<'a>(pub &'a dyn Clock);

impl Clock for RehearsedClock<'_> {
    fn now_unix_s(&self) -> u64 {
        self.0.now_unix_s()
    }

    fn sleep(&self, _: Duration) {}
}
