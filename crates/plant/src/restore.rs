//! Putting back what a process that steered has left behind: for its parent, or systemd's `ExecStopPost=`.

use std::path::Path;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Phase};
use floodwall_knobs::{KernelFiles, Recovery, Session, SystemClock, Who, hold, session};

use crate::error::HostPlantError;

/// Between two attempts.
const NAP: Duration = Duration::from_millis(50);

/// What was put back.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// What the journal had open and what became of it.
    pub recovery: Recovery,
    /// Who steers still, and was left alone: `pid 4711 (floodwall guard)`.
    pub steering: Vec<String>,
}

impl Restored {
    /// Whether the machine is as its administrator has it: nobody steers, and nothing is left to be put back.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.steering.is_empty() && self.recovery.incomplete().is_none() && self.recovery.set_aside.is_empty()
    }

    /// What was done, a line each; nothing if there was nothing to do.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for undone in self.recovery.undone.iter().chain(&self.recovery.expired) {
            lines.extend(undone.to_string().lines().map(|line| format!("change {}: {line}", undone.id)));
        }
        for id in &self.recovery.earlier_boots {
            lines.push(format!("change {id} is from before the last boot, which has ended it"));
        }
        for (name, why) in &self.recovery.set_aside {
            lines.push(format!(
                "journal {name} is not to be believed ({why}): set aside, nothing of it was put back"
            ));
        }
        lines.extend(self.steering.iter().map(|by| format!("{by} steers still, and was left alone")));
        lines
    }
}

/// Undoes what processes that are gone have left in a journal. One that has been killed and is still at a write, or somebody who holds the journal's lock, is
/// waited for as long as `patience` lasts; 0 looks once.
///
/// # Errors
/// [`HostPlantError::Journal`] if the journal can't be used, or somebody else had its lock all the time.
pub fn restore(journal: &Path, patience: Duration) -> Result<Restored, HostPlantError> {
    let root = SysRoot::live()?;
    let files = KernelFiles::new(&root).map_err(HostPlantError::Files)?;
    let end = Instant::now() + patience;
    let mut all = Restored::default();
    loop {
        match once(journal, &files, &mut all) {
            Ok(()) if all.steering.is_empty() => return Ok(all),
            Ok(()) if Instant::now() >= end => return Ok(all),
            Ok(()) | Err(HostPlantError::Journal(JournalError::Held { .. })) if Instant::now() < end => {
                std::thread::sleep(NAP);
            }
            Ok(()) => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

fn once(journal: &Path, files: &KernelFiles, all: &mut Restored) -> Result<(), HostPlantError> {
    // No journal, nothing to put back; it is not made for that.
    if DiskStore::open_to_read(journal)?.is_none() {
        return Ok(());
    }
    let who = Who::this_process(files);
    let store = DiskStore::open(journal, &who.describe())?;
    let boot_id = session::boot_id(files);
    let session = Session { files, store: &store, clock: &SystemClock, who, boot_id: boot_id.clone() };
    let recovery = session.recover()?;
    all.recovery.earlier_boots.extend(recovery.earlier_boots);
    all.recovery.undone.extend(recovery.undone);
    all.recovery.expired.extend(recovery.expired);
    all.recovery.set_aside.extend(recovery.set_aside);
    let open = session::log(&store)?.into_iter().filter_map(|logged| logged.transaction.ok());
    let steers = open.filter(|t| {
        t.begin.steers
            && t.begin.boot_id == boot_id
            && !matches!(t.phase(), Phase::Closed(_))
            && session::is_alive(files, &t.begin)
    });
    all.steering = steers.map(|t| hold::describe(&t)).collect();
    Ok(())
}
