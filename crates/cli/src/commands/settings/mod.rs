//! Commands about settings: `apply`, `diff`, `rollback`, `log`, `size`, `export`, `persist`,
//! `unpersist`, `explain`.
//!
//! ```text
//! sources (SETTING, FILE.toml, preset:NAME) ─▶ knobs::Change ─▶ knobs::plan ─▶ the difference
//!                                                             └▶ knobs::Session ─▶ journal, kernel
//! timer: a process of its own that ends what was applied `--for` a time
//! trial: a change for a time that may be kept
//! ```

pub(crate) mod apply;
mod ask;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod held;
pub(crate) mod list;
pub(crate) mod log;
mod measure;
mod others;
pub(crate) mod persist;
mod refuse_victims;
pub(crate) mod rollback;
pub(crate) mod size;
pub(crate) mod sources;
mod text;
pub(crate) mod timer;
pub(crate) mod trial;
pub(crate) mod unpersist;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Store, boot_id};
use floodwall_knobs::{Change, Clock, Device, KernelFiles, Session, SystemClock, Who};

use crate::exit::UsageError;

/// Where journals are, below the root.
pub(crate) const JOURNAL: &str = "var/lib/floodwall/journal";
/// How long we wait for another process that changes settings: most changes take less.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts at the journal's lock.
const NAP: Duration = Duration::from_millis(50);

/// Refuses a priority in real time that has no end: bfq serves it before everything else, and
/// writeback may get nothing until the dirty limit stops all writers.
///
/// # Errors
/// [`UsageError`] with what to use instead.
fn refuse_endless_real_time(changes: &[Change]) -> Result<(), UsageError> {
    match changes.iter().find(|change| change.value.starts_with("rt/")) {
        Some(change) => Err(UsageError(format!(
            "{}: real time goes before everything else and can starve writeback until all writers \
             stop: use be/0, or floodwall apply --for 10m, which puts it back",
            change.label()
        ))),
        None => Ok(()),
    }
}

/// Which machine, and where its journal is.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PlaceArgs {
    /// Work on a captured tree (DIR/proc, DIR/sys) instead of this machine; its journal is in it
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Where journals are kept; var/lib/floodwall/journal below --root if not given
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

/// A machine and its journal.
pub(crate) struct Place {
    root: SysRoot,
    files: KernelFiles,
    journal: PathBuf,
    /// Whether groups may be limited that hold a victim.
    allow_victims: bool,
    /// Whether nothing will be changed, so that the journal need not be readable.
    rehearses: bool,
}

impl PlaceArgs {
    /// Opens the root; the journal is not looked at yet.
    fn open(&self) -> anyhow::Result<Place> {
        let directory = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let root = SysRoot::new(&directory).map_err(|e| UsageError(e.to_string()))?;
        let files = KernelFiles::new(&root)
            .with_context(|| format!("can't open '{}'", directory.display()))?;
        // A captured tree's journal is its own: the machine's would take its changes for those of
        // another boot.
        let journal = self.journal.clone().unwrap_or_else(|| directory.join(JOURNAL));
        Ok(Place { root, files, journal, allow_victims: false, rehearses: false })
    }
}

impl Place {
    /// The same, over which limits may be set that could hang userspace block servers, or may not.
    fn allow_userspace_servers(self, allow: bool) -> Self {
        Self { files: self.files.allow_userspace_servers(allow), ..self }
    }

    /// The same, where groups that hold a victim may be limited, or may not.
    fn allow_victims(self, allow: bool) -> Self {
        Self { allow_victims: allow, ..self }
    }

    /// The same, where nothing will be changed, or may be.
    fn rehearses(self, dry_run: bool) -> Self {
        Self { rehearses: dry_run, ..self }
    }

    /// A device that a user named.
    fn device(&self, name: Option<&str>) -> anyhow::Result<Option<Device>> {
        let find =
            |name| Device::find(&self.root, name).map_err(|e| UsageError(e.to_string()).into());
        name.map(find).transpose()
    }

    /// The journal with its lock. Another holder is waited for a moment.
    fn lock(&self) -> anyhow::Result<DiskStore> {
        let holder = who()?.describe();
        let end = Instant::now() + PATIENCE;
        loop {
            match DiskStore::open(&self.journal, &holder) {
                Err(JournalError::Held { .. }) if Instant::now() < end => std::thread::sleep(NAP),
                other => return usable(other),
            }
        }
    }

    /// The journal to read, without its lock; `None` without a journal, and in a rehearsal of a
    /// user who may not read it.
    fn read_journal(&self) -> anyhow::Result<Option<DiskStore>> {
        match DiskStore::open_to_read(&self.journal) {
            Err(e) if self.rehearses && e.lacks_privilege() => Ok(None),
            other => usable(other),
        }
    }

    /// Whether this user may not read the journal.
    fn hides_its_journal(&self) -> bool {
        DiskStore::open_to_read(&self.journal).is_err_and(|e| e.lacks_privilege())
    }

    fn session<'a>(
        &'a self,
        store: &'a dyn Store,
        clock: &'a dyn Clock,
    ) -> anyhow::Result<Session<'a>> {
        Ok(Session { files: &self.files, store, clock, who: who()?, boot_id: boot_id(&self.files) })
    }

    /// Its clock; a raised flag stops a change and puts back what was done.
    fn clock(&self, stop: Option<Arc<AtomicBool>>) -> PlaceClock {
        PlaceClock { live: self.root.is_live(), stop }
    }

    /// Its root directory, for another process.
    fn directory(&self) -> &Path {
        self.root.path()
    }
}

/// Says what to do about a journal that may not be used.
fn usable<T>(opened: Result<T, JournalError>) -> anyhow::Result<T> {
    opened.map_err(|e| {
        let lacks_privilege = e.lacks_privilege() && !e.is_read_only();
        let error = anyhow::Error::from(e);
        if lacks_privilege {
            error.context("run this as root, outside any container")
        } else {
            error
        }
    })
}

/// This process, as the journal remembers it.
fn who() -> anyhow::Result<Who> {
    let live = SysRoot::live()?;
    Ok(Who::this_process(&KernelFiles::new(&live).context("can't open '/'")?))
}

/// The system's clock, and a signal's wish to stop.
struct PlaceClock {
    /// In a captured tree nothing drains, so nothing is waited for.
    live: bool,
    stop: Option<Arc<AtomicBool>>,
}

impl Clock for PlaceClock {
    fn now_unix_s(&self) -> u64 {
        SystemClock.now_unix_s()
    }

    fn sleep(&self, duration: Duration) {
        if self.live {
            SystemClock.sleep(duration);
        }
    }

    fn cancelled(&self) -> bool {
        self.stop.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::output::message;

    #[test]
    fn who_may_not_use_the_journal_is_told_to_be_root() {
        let opened =
            |source| Err::<(), _>(JournalError::Io { what: "open", path: "/j".into(), source });
        let denied = usable(opened(std::io::ErrorKind::PermissionDenied.into())).unwrap_err();
        assert_eq!(
            message(&denied),
            "run this as root, outside any container: can't open '/j': permission denied"
        );
        assert_eq!(Exit::of(&denied), Exit::Missing);
        let full = usable(opened(std::io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(
            (message(&full).as_str(), Exit::of(&full)),
            ("can't open '/j': no storage space", Exit::Failed)
        );
    }
}
