//! A session: the process that changes settings, with the kernel's files, the journal and the time.
//!
//! The caller holds the journal's lock for as long as a session lives, so an open transaction found
//! here has lost its process, unless it is a [hold](crate::apply::hold).

use std::path::PathBuf;

use floodwall_host::task::start_ticks;

use crate::apply::clock::Clock;
use crate::apply::run::{Mode, Run};
use crate::catalogue::files::Files;
use crate::journal::{self, Begin, JournalError, SavedEntry, Store, Transaction};
use crate::plan::entry::Entry;

/// The process that changes settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Process.
    pub pid: u32,
    /// When it started, in clock ticks since boot. 0 if that can't be read; such a process may not
    /// [hold](crate::apply::hold).
    pub pid_start_ticks: u64,
    /// The socket at which it can be asked to yield a knob, if it steers and has one.
    pub socket: Option<PathBuf>,
    /// User.
    pub uid: u32,
    /// Command line.
    pub command: String,
}

impl Who {
    /// This process. `files` are the live machine's.
    #[must_use]
    pub fn this_process(files: &dyn Files) -> Self {
        let start =
            files.read("/proc/self/stat").ok().and_then(|text| start_ticks(text.as_bytes()));
        let command = files.read("/proc/self/cmdline").unwrap_or_default().replace('\0', " ");
        Self {
            pid: std::process::id(),
            pid_start_ticks: start.unwrap_or(0),
            socket: None,
            uid: rustix::process::getuid().as_raw(),
            command: command.trim().chars().take(200).collect(),
        }
    }

    /// For whom we keep out: `pid 4711 (floodwall apply …)`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("pid {} ({})", self.pid, self.command)
    }
}

/// Everything that a change needs.
pub struct Session<'a> {
    /// The kernel's files.
    pub files: &'a dyn Files,
    /// The journal, locked.
    pub store: &'a dyn Store,
    /// Time.
    pub clock: &'a dyn Clock,
    /// This process.
    pub who: Who,
    /// This boot.
    pub boot_id: String,
}

impl Session<'_> {
    pub(crate) fn run(&self, name: String, transaction: Transaction, mode: Mode) -> Run<'_> {
        Run {
            files: self.files,
            store: self.store,
            clock: self.clock,
            name,
            transaction,
            mode,
            owed: Vec::new(),
        }
    }

    /// Begins a transaction of this process in the journal, and gives its file.
    pub(crate) fn begin_transaction(
        &self,
        entries: Vec<Entry>,
        why: &str,
        expires_at_unix_s: Option<u64>,
        steers: bool,
    ) -> Result<(String, Transaction), JournalError> {
        let begin = Begin {
            format: Begin::format(),
            id: journal::next_id(self.store)?,
            boot_id: self.boot_id.clone(),
            pid: self.who.pid,
            pid_start_ticks: self.who.pid_start_ticks,
            socket: self.who.socket.clone().filter(|_| steers),
            uid: self.who.uid,
            command: self.who.command.clone(),
            at_unix_s: self.clock.now_unix_s(),
            why: why.to_owned(),
            expires_at_unix_s,
            steers,
            entries: entries.iter().map(SavedEntry::from).collect(),
        };
        journal::begin(self.store, begin, entries)
    }
}
