//! The process that is killed: applies or rolls back, and before each write says so and waits to be told to go on.

use std::cell::Cell;
use std::io::{Read, Write};
use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Store};
use floodwall_knobs::session::boot_id;
use floodwall_knobs::{Change, Device, Files, KernelFiles, Session, SystemClock, Who};

/// Counts writes of all kinds, and stops before them.
#[derive(Default)]
struct Gate {
    writes: Cell<u64>,
    /// Stops before this one; the earlier ones pass.
    stop_before: u64,
}

impl Gate {
    fn pass(&self) {
        let write = self.writes.get();
        self.writes.set(write + 1);
        if write == self.stop_before {
            let mut out = std::io::stdout().lock();
            out.write_all(b"stopped\n").unwrap();
            out.flush().unwrap();
            // Ends when the parent does, or never: it kills us here.
            let _ = std::io::stdin().lock().read(&mut [0]);
        }
    }
}

struct GatedFiles<'a>(&'a Gate, KernelFiles);

impl Files for GatedFiles<'_> {
    fn read(&self, path: &str) -> rustix::io::Result<String> {
        self.1.read(path)
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.1.list(path)
    }

    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()> {
        self.0.pass();
        self.1.write(path, value)
    }

    fn may_write(&self, path: &str) -> rustix::io::Result<()> {
        self.1.may_write(path)
    }

    fn page_bytes(&self) -> u64 {
        self.1.page_bytes()
    }
}

struct GatedStore<'a>(&'a Gate, DiskStore);

impl Store for GatedStore<'_> {
    fn names(&self) -> Result<Vec<String>, JournalError> {
        self.1.names()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        self.1.read(name)
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.0.pass();
        self.1.write_new(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        self.0.pass();
        self.1.rename(from, to)
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.0.pass();
        self.1.append(name, bytes)
    }

    fn append_synced(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.0.pass();
        self.1.append_synced(name, bytes)
    }

    fn length(&self, name: &str) -> Result<u64, JournalError> {
        self.1.length(name)
    }

    fn truncate(&self, name: &str, bytes: u64) -> Result<(), JournalError> {
        self.0.pass();
        self.1.truncate(name, bytes)
    }

    fn remove(&self, name: &str) -> Result<(), JournalError> {
        self.0.pass();
        self.1.remove(name)
    }
}

/// `JOURNAL DEVICE STOP_BEFORE (rollback | CHANGE…)`; a STOP_BEFORE of `never` goes through.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [journal, device, stop_before, what @ ..] = arguments else { return Err("usage".to_owned()) };
    let gate = Gate { stop_before: stop_before.parse().unwrap_or(u64::MAX), ..Gate::default() };
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    let device = Device::find(&root, device).map_err(|e| e.to_string())?;
    let files = GatedFiles(&gate, KernelFiles::new(&root).map_err(|e| e.to_string())?);
    let who = Who::this_process(&files);
    let store = DiskStore::open(Path::new(journal), &who.describe()).map_err(|e| e.to_string())?;
    let store = GatedStore(&gate, store);
    let boot_id = boot_id(&files);
    let session = Session { files: &files, store: &store, clock: &SystemClock, who, boot_id };
    if what == ["rollback"] {
        let (recovery, undone) = session.rollback(0).map_err(|e| e.to_string())?;
        let complete = recovery.undone.iter().chain(&undone).all(floodwall_knobs::Undone::is_complete);
        return if complete { Ok(()) } else { Err(format!("{recovery:?} {undone:?}")) };
    }
    let changes = what
        .iter()
        .map(|text| Change::parse(&root, Some(&device), text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    session.apply(&changes, "a test").map(drop).map_err(|e| e.to_string())
}
