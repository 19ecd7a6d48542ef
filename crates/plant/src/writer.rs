//! Writes through one hold in the journal, in a lane for each device, each group's limit and each
//! priority.
//!
//! ```text
//! write ─▶ lane of the device ─▶ thread: prepare ─▶ kernel write, as long as it takes ─▶ finish
//!   │                          journal locked ┘                          journal locked ┘
//!   └ waits a moment for the end: most writes are over by then; the others are `changing`
//! ```
//!
//! A queue that has to run dry, or a process that holds the journal's lock for long, keeps one lane
//! waiting. Looks and other devices go on, and other devices can be put back. A lane's thread ends
//! with its last job. A device may change lanes when units are grouped anew. The new lane waits
//! while the old one is still writing to the device.
//!
//! `write`: a write, a lane's thread and the journal's lock. `back`: values that are put back.
//! `lanes`: waiting writes and their outcomes.

mod back;
mod lanes;
mod write;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floodwall_knobs::catalogue::Knob;
use floodwall_knobs::journal::{DiskStore, JournalError};
use floodwall_knobs::{Files, Hold, HoldError, Recovery, Session, SystemClock, Target, Who};
use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, PlantError};

use self::lanes::{Job, Lane, State};
use crate::owner::{Owner, is_limit};
use crate::told::{Event, HeldKnob};

/// How long [`Writer::write`] waits for a write to be over: a fifth of a controller's usual tick.
const MOMENT: Duration = Duration::from_millis(50);
/// … and how long all writes between two looks together: a hundred devices must not keep a
/// controller from showing that it lives.
const LOOK: Duration = Duration::from_millis(500);
/// Between two attempts at the journal's lock, or at a file that says "busy".
const NAP: Duration = Duration::from_millis(20);

struct Shared {
    files: Box<dyn Files + Send + Sync>,
    journal: PathBuf,
    who: Who,
    boot_id: String,
    /// Taken before the journal's lock, and before `state`.
    hold: Mutex<Hold>,
    state: Mutex<State>,
    changed: Condvar,
}

/// A hold and the threads that write.
pub(crate) struct Writer {
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Undoes the changes of a crashed process and begins a hold. Waits up to `patience` for the
    /// journal's lock.
    ///
    /// # Errors
    /// [`HoldError`].
    pub(crate) fn open(
        files: impl Files + Send + Sync + 'static,
        journal: PathBuf,
        who: Who,
        why: &str,
        patience: Duration,
    ) -> Result<(Self, Recovery), HoldError> {
        let boot_id = floodwall_knobs::journal::boot_id(&files);
        let end = Instant::now() + patience;
        let store = loop {
            match DiskStore::open(&journal, &who.describe()) {
                Err(JournalError::Held { .. }) if Instant::now() < end => std::thread::sleep(NAP),
                other => break other?,
            }
        };
        let session = Session {
            files: &files,
            store: &store,
            clock: &SystemClock,
            who: who.clone(),
            boot_id: boot_id.clone(),
        };
        let (hold, recovery) = session.hold(why)?;
        drop(store);
        let state = Mutex::new(State { patience: LOOK, ..State::default() });
        let changed = Condvar::new();
        let shared = Shared {
            files: Box::new(files),
            journal,
            who,
            boot_id,
            hold: Mutex::new(hold),
            state,
            changed,
        };
        Ok((Self { shared: Arc::new(shared) }, recovery))
    }

    /// Sets which unit each device's knobs belong to.
    pub(crate) fn set_units(&self, unit_of: HashMap<String, DeviceId>) {
        lock(&self.shared.state).unit_of = unit_of;
    }

    /// Saves the values of a unit's cells, some time soon.
    pub(crate) fn save(&self, unit: DeviceId, cells: Vec<(&'static Knob, Target)>) {
        self.start(Lane::Unit(Some(unit)), Job::Save(cells));
    }

    /// Renews the time that all writes until the next look may take.
    pub(crate) fn begin_look(&self) {
        lock(&self.shared.state).patience = LOOK;
    }

    /// The value that a limit or priority is about to have, if a write waits or is under way.
    pub(crate) fn pending(&self, owner: &Owner) -> Option<String> {
        lock(&self.shared.state).pending.get(owner).map(|(_, value)| value.clone())
    }

    /// The limits of control groups, and the priorities, that hold a value of this process, or are
    /// about to.
    pub(crate) fn limits_in_use(&self) -> BTreeSet<Owner> {
        let state = lock(&self.shared.state);
        let held = state.held.iter().map(|held| held.owner.clone()).filter(is_limit);
        held.chain(state.pending.keys().cloned()).collect()
    }

    /// Whether a write of a unit's knob waits or is under way.
    pub(crate) fn is_changing(&self, unit: DeviceId) -> bool {
        let state = lock(&self.shared.state);
        state.lanes.get(&Lane::Unit(Some(unit))).is_some_and(|lane| lane.writes > 0)
    }

    /// Units for which a write waits or is under way.
    pub(crate) fn units_changing(&self) -> BTreeSet<DeviceId> {
        let state = lock(&self.shared.state);
        let changing = state.lanes.iter().filter(|(_, lane)| lane.writes > 0);
        changing
            .filter_map(|(lane, _)| if let Lane::Unit(unit) = lane { *unit } else { None })
            .collect()
    }

    /// Writes to a unit that failed since the last call, after their caller had stopped waiting.
    pub(crate) fn take_failures(&self, unit: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        let mut state = lock(&self.shared.state);
        let all = std::mem::take(&mut state.failures);
        let (its, others) = all.into_iter().partition(|(write, _)| write.device == Some(unit));
        state.failures = others;
        its
    }

    /// Knobs that hold another value than the administrator's.
    pub(crate) fn held(&self) -> Vec<HeldKnob> {
        lock(&self.shared.state).held.clone()
    }

    /// Units with held knobs.
    pub(crate) fn units_held(&self) -> BTreeSet<DeviceId> {
        let state = lock(&self.shared.state);
        state
            .held
            .iter()
            .filter_map(|held| state.unit_of.get(held.owner.as_ref()?).copied())
            .collect()
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        lock(&self.shared.state).events.drain(..).collect()
    }

    pub(crate) fn tell(&self, event: Event) {
        lock(&self.shared.state).tell(event);
    }
}

#[cfg(test)]
mod tests;
