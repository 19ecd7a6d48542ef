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

mod lanes;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floodwall_knobs::catalogue::Knob;
use floodwall_knobs::journal::{DiskStore, JournalError};
use floodwall_knobs::{
    Change, Device, Fate, Files, Hold, HoldError, KnobName, Recovery, Session, SystemClock, Target, Who,
};
use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, PlantError};

use self::lanes::{Job, Lane, State, is_limit};
pub(crate) use self::lanes::{Owner, owner};
use crate::told::{Closed, Event, HeldKnob};

/// How long [`Writer::write`] waits for a write to be over: a fifth of a controller's usual tick.
const MOMENT: Duration = Duration::from_millis(50);
/// … and how long all writes between two looks together: a hundred devices must not keep a
/// controller from showing that it lives.
const LOOK: Duration = Duration::from_millis(500);
/// How long [`Writer::yield_knobs`] waits: most queues run dry within milliseconds, and the worker
/// has to give signs of life.
const YIELD: Duration = Duration::from_millis(500);
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
        let boot_id = floodwall_knobs::session::boot_id(&files);
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
        let shared =
            Shared { files: Box::new(files), journal, who, boot_id, hold: Mutex::new(hold), state, changed };
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

    /// Puts back the held knobs of some devices of a unit, after the jobs in its lane.
    pub(crate) fn put_back(&self, unit: DeviceId, devices: &[Device]) {
        let of = |held: &&HeldKnob| devices.iter().any(|device| Some(&device.number) == held.owner.as_ref());
        if self.is_changing(unit) || self.held().iter().any(|held| of(&held)) {
            let of = devices.iter().map(|device| Some(device.number.clone())).collect();
            self.start(Lane::Unit(Some(unit)), Job::Back { of, asked: false });
        }
    }

    /// Puts back the held knobs of these owners, some time soon.
    pub(crate) fn put_back_limits(&self, owners: &[Owner]) {
        for owner in owners {
            let is_used = {
                let state = lock(&self.shared.state);
                state.pending.contains_key(owner) || state.held.iter().any(|held| held.owner == *owner)
            };
            if is_used {
                let lane = Lane::Limit(owner.clone());
                self.start(lane, Job::Back { of: vec![owner.clone()], asked: false });
            }
        }
    }

    /// Puts back some knobs, each with its owner, and yields them: they are neither written nor put
    /// back any more. Returns those that are not yielded within a moment. They are when their queue
    /// has run dry.
    pub(crate) fn yield_knobs(&self, asked: &BTreeMap<KnobName, Owner>) -> BTreeSet<KnobName> {
        let mut fresh: BTreeMap<Owner, BTreeSet<KnobName>> = BTreeMap::new();
        {
            let mut state = lock(&self.shared.state);
            for (name, owner) in asked {
                if state.yielding.insert(name.clone()) {
                    fresh.entry(owner.clone()).or_default().insert(name.clone());
                }
            }
        }
        for (owner, names) in fresh {
            let lane = lock(&self.shared.state).lane(&owner);
            self.start(lane, Job::Yield(owner, names));
        }
        let is_waiting = |state: &State, name: &KnobName| {
            state.yielding.contains(name) || state.held.iter().any(|held| held.name == *name)
        };
        let waits = |state: &mut State| asked.keys().any(|name| state.yielding.contains(name));
        let state = lock(&self.shared.state);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, YIELD, waits)
            .unwrap_or_else(PoisonError::into_inner);
        asked.keys().filter(|name| is_waiting(&state, name)).cloned().collect()
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

    /// Writes a knob of a unit: all its cells or none. Returns when that is over, or after a
    /// moment.
    ///
    /// # Errors
    /// [`PlantError::Refused`]; a later failure is an [`Event::Failed`].
    pub(crate) fn write(&self, write: KnobWrite, changes: Vec<Change>) -> Result<(), PlantError> {
        let shared = &self.shared;
        let ticket = {
            let mut state = lock(&shared.state);
            if state.closing {
                return Err(PlantError::Refused { write, why: "everything is being put back".to_owned() });
            }
            state.tickets += 1;
            let ticket = state.tickets;
            state.awaited.insert(ticket, None);
            ticket
        };
        let owner = changes.first().and_then(|change| owner(change.knob, &change.target));
        let lane = if is_limit(&owner) { Lane::Limit(owner) } else { Lane::Unit(write.device) };
        if let Lane::Limit(owner) = &lane {
            let mut state = lock(&shared.state);
            let pending = state.pending.entry(owner.clone()).or_insert((0, String::new()));
            *pending = (pending.0 + 1, write.value.clone());
        }
        self.start(lane, Job::Write { write, changes, ticket });
        let (begun, state) = (Instant::now(), lock(&shared.state));
        let patience = state.patience.min(MOMENT);
        let (mut state, _) = shared
            .changed
            .wait_timeout_while(state, patience, |state| {
                state.awaited.get(&ticket).is_some_and(Option::is_none)
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.patience = state.patience.saturating_sub(begun.elapsed());
        state.awaited.remove(&ticket).flatten().unwrap_or(Ok(()))
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
        changing.filter_map(|(lane, _)| if let Lane::Unit(unit) = lane { *unit } else { None }).collect()
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
        state.held.iter().filter_map(|held| state.unit_of.get(held.owner.as_ref()?).copied()).collect()
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        lock(&self.shared.state).events.drain(..).collect()
    }

    pub(crate) fn tell(&self, event: Event) {
        lock(&self.shared.state).tell(event);
    }

    /// Puts everything back, all devices at once, and waits for that as long as `patience` lasts.
    /// Pending writes are dropped.
    pub(crate) fn give_back(&self, patience: Duration) -> Closed {
        let end = Instant::now() + patience;
        let shared = &self.shared;
        lock(&shared.state).ends = Some(end);
        self.drop_jobs();
        let before = self.held();
        // Each lane puts back by itself, after the job under way there. So nothing is written
        // afterwards, and a queue that does not run dry keeps no other lane waiting.
        let lanes = {
            let mut state = lock(&shared.state);
            // Failures of an earlier call that ran out of time.
            state.failed.clear();
            state.to_put_back()
        };
        for (lane, of) in lanes {
            self.start(lane, Job::Back { of: of.into_iter().collect(), asked: true });
        }
        let idle = shared.wait_idle(end);
        let mut state = lock(&shared.state);
        if !state.closing {
            state.ends = None;
        }
        let mut closed = Closed { failed: std::mem::take(&mut state.failed), ..Closed::default() };
        for knob in before {
            let again = format!("{}: {} again", knob.label, knob.own);
            if state.held.iter().any(|held| held.label == knob.label) {
                if !closed.failed.iter().any(|told| told.starts_with(&format!("{}:", knob.label))) {
                    let why =
                        if idle { "it holds another value" } else { "the device does not let it be written" };
                    closed.failed.push(format!("{}: {why}", knob.label));
                }
            } else {
                closed.restored.push(again);
            }
        }
        closed
    }

    /// Puts everything back and ends the hold. Knobs of a stuck device stay open in the journal.
    pub(crate) fn close(&self, patience: Duration) -> Closed {
        lock(&self.shared.state).closing = true;
        let end = Instant::now() + patience;
        let mut closed = self.give_back(patience);
        if !lock(&self.shared.state).is_idle() {
            return closed;
        }
        let end = end.max(Instant::now() + MOMENT);
        match self.shared.locked(Some(end), |session, hold| Ok(session.close(hold))) {
            Ok(undone) => {
                closed.failed.clear();
                for (label, fate) in undone.entries {
                    let told = fate.told(&label);
                    match fate {
                        Fate::Unchanged => {}
                        Fate::Restored { .. } => closed.restored.push(told),
                        Fate::Foreign { .. } | Fate::Vanished { .. } => {
                            closed.restored.retain(|line| !line.starts_with(&format!("{label}:")));
                            closed.left_alone.push(told);
                        }
                        Fate::Waits { .. } | Fate::Failed { .. } => closed.failed.push(told),
                    }
                }
            }
            Err(error) => closed.failed.push(error.to_string()),
        }
        closed
    }

    /// Drops jobs that have not begun.
    fn drop_jobs(&self) {
        let mut state = lock(&self.shared.state);
        let mut dropped = Vec::new();
        state.pending.clear();
        state.yielding.clear();
        for lane in state.lanes.values_mut() {
            for job in lane.jobs.drain(..) {
                if let Job::Write { write, ticket, .. } = job {
                    lane.writes = lane.writes.saturating_sub(1);
                    let why = "everything is put back".to_owned();
                    dropped.push((ticket, write.clone(), PlantError::Refused { write, why }));
                }
            }
        }
        for (ticket, write, error) in dropped {
            state.end(ticket, write, Err(error));
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Gives a lane a job, and a thread if it has none.
    fn start(&self, lane: Lane, job: Job) {
        let mut state = lock(&self.shared.state);
        let queue = state.lanes.entry(lane.clone()).or_default();
        queue.writes += u32::from(matches!(job, Job::Write { .. }));
        queue.jobs.push_back(job);
        if std::mem::replace(&mut queue.running, true) {
            return;
        }
        drop(state);
        let (shared, its) = (Arc::clone(&self.shared), lane.clone());
        let spawned =
            std::thread::Builder::new().name("floodwall-write".to_owned()).spawn(move || shared.work(&its));
        if spawned.is_err() {
            // No thread could be started: this one does the jobs, late.
            self.shared.work(&lane);
        }
    }
}

#[cfg(test)]
mod tests;
