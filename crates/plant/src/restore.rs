//! Putting back what a process that steered has left behind: for its parent, or systemd's
//! `ExecStopPost=`.

use std::path::Path;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Phase, Transaction};
use floodwall_knobs::owner::{Life, life};
use floodwall_knobs::{Fate, KernelFiles, Recovery, Session, SystemClock, Undone, Who, hold, session};

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
    /// Whether the machine is as its administrator has it: nobody steers, and nothing is left to be
    /// put back.
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

/// Undoes what processes that are gone have left in a journal. It waits, as long as `patience`
/// lasts, for a process that still steers, for a killed one that is inside a write, and for the
/// holder of the journal's lock; 0 looks once. Knobs that the write does not concern are put back
/// before.
///
/// # Errors
/// [`HostPlantError::Journal`] if the journal can't be used, another process had its lock all the
/// time, or the process that steers can't be seen from here.
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
    /// Somebody who lives, or is inside a write still.
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
    let tried: Vec<u64> =
        recovery.undone.iter().filter(|undone| !undone.waits()).map(|undone| undone.id).collect();
    all.recovery.earlier_boots.extend(recovery.earlier_boots);
    add(&mut all.recovery.undone, recovery.undone);
    add(&mut all.recovery.expired, recovery.expired);
    all.recovery.set_aside.extend(recovery.set_aside);
    let logged = session::log(&store)?.into_iter().filter_map(|logged| logged.transaction.ok());
    let open: Vec<Transaction> = logged
        .filter(|t| t.begin.steers && t.begin.boot_id == boot_id && !matches!(t.phase(), Phase::Closed(_)))
        .filter(|t| !tried.contains(&t.begin.id))
        .collect();
    let (gone, others): (Vec<_>, Vec<_>) =
        open.into_iter().map(|t| (life(files, &t.begin), t)).partition(|(life, _)| *life == Life::Gone);
    let lives = others.iter().filter(|(life, _)| !matches!(life, Life::Ending(_)));
    all.steering = lives.map(|(_, transaction)| hold::describe(transaction)).collect();
    Ok(match (gone.is_empty(), others.is_empty()) {
        (false, _) => State::Left,
        (true, false) => State::Steered,
        (true, true) => State::Nothing,
    })
}

/// What one more attempt at some changes came to, in the place of the one before: what has been put
/// back since stays told.
fn add(all: &mut Vec<Undone>, later: Vec<Undone>) {
    for mut undone in later {
        let Some(before) = all.iter_mut().find(|before| before.id == undone.id) else {
            all.push(undone);
            continue;
        };
        for ((_, fate), (_, earlier)) in undone.entries.iter_mut().zip(&before.entries) {
            let is_over = !matches!(earlier, Fate::Waits { .. } | Fate::Failed { .. });
            if *fate == Fate::Unchanged && is_over {
                *fate = earlier.clone();
            }
        }
        *before = undone;
    }
}
