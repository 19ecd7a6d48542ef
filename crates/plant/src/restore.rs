//! Putting back what a process that steered has left behind: for its parent, or systemd's `ExecStopPost=`.

use std::path::Path;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Phase, Transaction};
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
        let is_over = Instant::now() >= end;
        match once(journal, &files, &mut all) {
            // It died between two looks: nothing is in the way any more.
            Ok(State::Left) => {}
            Ok(State::Steered) if is_over => return Ok(all),
            Ok(State::Nothing) => return Ok(all),
            Err(HostPlantError::Journal(JournalError::Held { .. })) | Ok(State::Steered) if !is_over => {
                std::thread::sleep(NAP);
            }
            Ok(State::Steered) => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

/// What a recovery leaves.
enum State {
    /// Nothing that is open, save what could not be put back.
    Nothing,
    /// Somebody who lives.
    Steered,
    /// Somebody who lived when it began.
    Left,
}

fn once(journal: &Path, files: &KernelFiles, all: &mut Restored) -> Result<State, HostPlantError> {
    // No journal, nothing to put back; it is not made for that.
    if DiskStore::open_to_read(journal)?.is_none() {
        return Ok(State::Nothing);
    }
    let who = Who::this_process(files);
    let store = DiskStore::open(journal, &who.describe())?;
    let boot_id = session::boot_id(files);
    let session = Session { files, store: &store, clock: &SystemClock, who, boot_id: boot_id.clone() };
    let recovery = session.recover()?;
    let tried: Vec<u64> = recovery.undone.iter().map(|undone| undone.id).collect();
    all.recovery.earlier_boots.extend(recovery.earlier_boots);
    all.recovery.undone.extend(recovery.undone);
    all.recovery.expired.extend(recovery.expired);
    all.recovery.set_aside.extend(recovery.set_aside);
    let logged = session::log(&store)?.into_iter().filter_map(|logged| logged.transaction.ok());
    let open: Vec<Transaction> = logged
        .filter(|t| t.begin.steers && t.begin.boot_id == boot_id && !matches!(t.phase(), Phase::Closed(_)))
        .filter(|t| !tried.contains(&t.begin.id))
        .collect();
    let is_alive = |t: &Transaction| session::is_alive(files, &t.begin);
    all.steering = open.iter().map(hold::describe).collect();
    Ok(match open.as_slice() {
        [] => State::Nothing,
        open if open.iter().all(is_alive) => State::Steered,
        _ => State::Left,
    })
}
