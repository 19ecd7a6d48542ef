//! Puts back the changes of a dead process that steered: for its parent, or systemd's
//! `ExecStopPost=`.

use std::path::Path;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Transaction};
use floodwall_knobs::owner::{Life, life};
use floodwall_knobs::{
    Fate, KernelFiles, Recovery, Session, SystemClock, Undone, Who, hold, journal,
};

use crate::error::HostPlantError;

/// Time between two attempts.
const NAP: Duration = Duration::from_millis(50);

/// The outcome of a restore.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The open changes of the journal, and what became of them.
    pub recovery: Recovery,
    /// Processes that still steer and were left alone: `pid 4711 (floodwall guard)`.
    pub steering: Vec<String>,
}

impl Restored {
    /// Whether the machine has its administrator's values: no process steers, and nothing is left
    /// to be put back.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.steering.is_empty()
            && self.recovery.incomplete().is_none()
            && self.recovery.set_aside.is_empty()
    }

    /// The steps that were taken, a line each; none if there was nothing to do.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for undone in self.recovery.undone.iter().chain(&self.recovery.expired) {
            lines.extend(
                undone.to_string().lines().map(|line| format!("change {}: {line}", undone.id)),
            );
        }
        for id in &self.recovery.earlier_boots {
            lines.push(format!("change {id} is from before the last boot, which has ended it"));
        }
        for (name, why) in &self.recovery.set_aside {
            lines.push(format!(
                "journal {name} is not to be believed ({why}): set aside, nothing of it was put \
                 back"
            ));
        }
        lines.extend(
            self.steering.iter().map(|by| format!("{by} steers still, and was left alone")),
        );
        lines
    }
}

/// Undoes changes that dead processes have left in a journal. It waits up to `patience`; 0 looks
/// once. It waits for a process that still steers, and for a killed one inside a write. It also
/// waits for a queue that refuses a value, and for the holder of the journal's lock. Knobs that
/// such a write does not concern are put back before it ends.
///
/// # Errors
/// [`HostPlantError::Journal`] if the journal can't be used, or another process had its lock all
/// the time.
pub fn restore(journal: &Path, patience: Duration) -> Result<Restored, HostPlantError> {
    let root = SysRoot::live()?;
    let files = KernelFiles::new(&root).map_err(HostPlantError::Files)?;
    let end = Instant::now() + patience;
    let mut all = Restored::default();
    loop {
        let is_over = Instant::now() >= end;
        match once(journal, &files, &mut all) {
            // The process died between two looks: the next attempt undoes its changes.
            Ok(State::Left) => {}
            Err(HostPlantError::Journal(JournalError::Held { .. })) | Ok(State::Incomplete)
                if !is_over =>
            {
                std::thread::sleep(NAP);
            }
            Ok(State::Nothing | State::Incomplete) => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

/// The state after a recovery.
enum State {
    /// Nothing is open.
    Nothing,
    /// A process with open changes lives or is still inside a write, or a value could not be put
    /// back: a full queue refuses that for a while.
    Incomplete,
    /// A process with open changes lived when the recovery began, and has ended since.
    Left,
}

fn once(journal: &Path, files: &KernelFiles, all: &mut Restored) -> Result<State, HostPlantError> {
    // Without a journal there is nothing to put back, and none is made.
    if DiskStore::open_to_read(journal)?.is_none() {
        return Ok(State::Nothing);
    }
    let who = Who::this_process(files);
    let store = DiskStore::open(journal, &who.describe())?;
    let boot_id = journal::boot_id(files);
    let session =
        Session { files, store: &store, clock: &SystemClock, who, boot_id: boot_id.clone() };
    let recovery = session.recover()?;
    let has_failed = recovery.undone.iter().chain(&recovery.expired).any(Undone::has_failed);
    let tried: Vec<u64> =
        recovery.undone.iter().filter(|undone| !undone.waits()).map(|undone| undone.id).collect();
    all.recovery.earlier_boots.extend(recovery.earlier_boots);
    add(&mut all.recovery.undone, recovery.undone);
    add(&mut all.recovery.expired, recovery.expired);
    all.recovery.set_aside.extend(recovery.set_aside);
    let open = journal::open(&store, &boot_id)?.into_iter();
    let lives: Vec<(Life, Transaction)> = open
        .filter(|t| t.begin.steers && !tried.contains(&t.begin.id))
        .map(|t| Ok((life(files, &store, &t.begin)?, t)))
        .collect::<Result<_, JournalError>>()?;
    let (gone, others): (Vec<_>, Vec<_>) =
        lives.into_iter().partition(|(life, _)| *life == Life::Gone);
    let lives = others.iter().filter(|(life, _)| !matches!(life, Life::Ending(_)));
    all.steering = lives.map(|(_, transaction)| hold::describe(transaction)).collect();
    Ok(match (gone.is_empty(), others.is_empty()) {
        (false, _) => State::Left,
        (true, true) if !has_failed => State::Nothing,
        _ => State::Incomplete,
    })
}

/// Replaces the outcomes of earlier attempts by those of a later one. A knob that an earlier
/// attempt put back keeps that outcome.
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
