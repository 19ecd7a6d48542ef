//! A write from the call to its outcome. A controller's thread hands it to a lane, and the lane's
//! thread makes it. That thread has the journal's lock for a moment before and after the kernel's
//! write, and not during it.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use floodwall_knobs::journal::{DiskStore, JournalError};
use floodwall_knobs::{Change, Hold, HoldError, Session, StepError, SystemClock};
use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, PlantError};
use floodwall_model::setting::is_passing;
use rustix::io::Errno;

use super::lanes::{Job, Lane, State};
use super::{MOMENT, NAP, Shared, Writer, lock};
use crate::owner::{Owner, is_limit, owner};
use crate::told::{Event, HeldKnob};

impl Writer {
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
                return Err(PlantError::Refused {
                    write,
                    why: "everything is being put back".to_owned(),
                });
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

    /// Gives a lane a job, and a thread if it has none.
    pub(super) fn start(&self, lane: Lane, job: Job) {
        let mut state = lock(&self.shared.state);
        let queue = state.lanes.entry(lane.clone()).or_default();
        queue.writes += u32::from(matches!(job, Job::Write { .. }));
        queue.jobs.push_back(job);
        if std::mem::replace(&mut queue.running, true) {
            return;
        }
        drop(state);
        let (shared, its) = (Arc::clone(&self.shared), lane.clone());
        let spawned = std::thread::Builder::new()
            .name("floodwall-write".to_owned())
            .spawn(move || shared.work(&its));
        if spawned.is_err() {
            // No thread could be started: this one does the jobs, late.
            self.shared.work(&lane);
        }
    }
}

impl Shared {
    /// Does a lane's jobs until the lane is empty.
    fn work(&self, lane: &Lane) {
        loop {
            let job = {
                let mut state = lock(&self.state);
                let Some(queue) = state.lanes.get_mut(lane) else { return };
                match queue.jobs.pop_front() {
                    Some(job) => job,
                    None => {
                        queue.running = false;
                        if matches!(lane, Lane::Limit(_)) {
                            // Control groups and processes come and go by the thousand.
                            state.lanes.remove(lane);
                        }
                        drop(state);
                        self.changed.notify_all();
                        return;
                    }
                }
            };
            match job {
                Job::Save(cells) => {
                    // A cell that is not saved ahead is saved when it is written.
                    let _ = self.locked(None, |session, hold| session.save(hold, &cells));
                }
                Job::Write { write, changes, ticket } => {
                    let outcome =
                        self.write(&changes).map_err(|error| refused(write.clone(), &error));
                    let mut state = lock(&self.state);
                    if let Some(queue) = state.lanes.get_mut(lane) {
                        queue.writes = queue.writes.saturating_sub(1);
                    }
                    state.written(lane);
                    state.end(ticket, write, outcome);
                    drop(state);
                    self.changed.notify_all();
                }
                Job::Back { of, asked } => {
                    of.iter().for_each(|owner| self.back_of(owner, |_, _| true, asked));
                }
                Job::Yield(owner, names) => {
                    self.yield_knobs(&owner, &names);
                    lock(&self.state).yielding.retain(|name| !names.contains(name));
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Makes all changes or none: if one queue of a unit refuses, the others go back. A queue that
    /// refuses to go back is a separate [`Event::NotBack`]. It stays held, and is put back with the
    /// rest.
    fn write(&self, changes: &[Change]) -> Result<(), HoldError> {
        let mut done: Vec<Change> = Vec::new();
        for change in changes {
            let taken = self.take(owner(change.knob, &change.target));
            let prepared = self.locked(None, |session, hold| session.prepare(hold, change));
            let outcome = match prepared {
                Ok(None) => continue,
                Ok(Some(prepared)) => {
                    let before =
                        Change { value: prepared.before().value.clone(), ..change.clone() };
                    self.carry_out(prepared).map(|()| before)
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(before) => done.push(before),
                Err(error) => {
                    drop(taken);
                    for before in done.into_iter().rev() {
                        self.roll_back(&before);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Writes the value that a queue held before. A queue that is gone, or that another program has
    /// set meanwhile, needs nothing.
    fn roll_back(&self, before: &Change) {
        let owner = owner(before.knob, &before.target);
        let _taken = self.take(owner.clone());
        let prepared = self.locked(None, |session, hold| session.prepare(hold, before));
        match prepared
            .and_then(|prepared| prepared.map_or(Ok(()), |prepared| self.carry_out(prepared)))
        {
            Ok(()) | Err(HoldError::Gone { .. } | HoldError::Theirs { .. }) => {}
            Err(error) => {
                let why = format!(
                    "it was to go back, because another queue of its unit refused: {error}"
                );
                self.tell_not_back(&owner, before.knob.name, &before.value, why);
            }
        }
    }

    /// Reports that a queue holds a wrong value, when no caller waits for the answer.
    fn tell_not_back(&self, owner: &Owner, knob: &str, value: &str, why: String) {
        let write = write_of(owner, knob, value.to_owned());
        lock(&self.state).tell(Event::NotBack(PlantError::Refused { write, why }));
    }

    pub(super) fn carry_out(&self, prepared: floodwall_knobs::Prepared) -> Result<(), HoldError> {
        let mut performed = Some(loop {
            match prepared.perform(&*self.files, &SystemClock) {
                // The device is busy: its lane waits, and no other one.
                Err(StepError::Write { errno: Errno::BUSY | Errno::AGAIN, .. })
                    if lock(&self.state).goes_on(prepared.is_back()) =>
                {
                    std::thread::sleep(NAP);
                }
                other => break other,
            }
        });
        let finished = self.locked(None, |session, hold| {
            let performed = performed.take().unwrap_or(Ok(()));
            session.finish(hold, prepared.clone(), performed).map(drop)
        });
        if performed.is_some() && !prepared.is_back() {
            // The journal can't be used any more. No value may stay in force whose end it does not
            // know.
            if let Err(error) = prepared.retract(&*self.files, &SystemClock) {
                let (target, knob) = prepared.of();
                let why = format!("it was to go back, because the journal can't be used: {error}");
                self.tell_not_back(&owner(knob, target), knob.name, &prepared.before().value, why);
            }
        }
        finished
    }

    /// Does `work` with the hold while the journal is locked. Waits for the lock until `end`, or
    /// without an `end` until everything is being closed.
    pub(super) fn locked<T>(
        &self,
        end: Option<Instant>,
        mut work: impl FnMut(&Session<'_>, &mut Hold) -> Result<T, HoldError>,
    ) -> Result<T, HoldError> {
        let mut told = false;
        loop {
            let mut hold = lock(&self.hold);
            let holder = match DiskStore::open(&self.journal, &self.who.describe()) {
                Ok(store) => {
                    let session = Session {
                        files: &*self.files,
                        store: &store,
                        clock: &SystemClock,
                        who: self.who.clone(),
                        boot_id: self.boot_id.clone(),
                    };
                    let outcome = work(&session, &mut hold);
                    let held = hold.held().iter().map(HeldKnob::from).collect();
                    // In this order: no lane overwrites the findings of a later one, and none finds
                    // the journal locked by this process.
                    lock(&self.state).held = held;
                    drop(store);
                    drop(hold);
                    return outcome;
                }
                Err(JournalError::Held { holder }) => holder,
                Err(error) => return Err(error.into()),
            };
            drop(hold);
            let over = match end {
                Some(end) => Instant::now() >= end,
                None => lock(&self.state).closing,
            };
            if over {
                return Err(JournalError::Held { holder }.into());
            }
            if !std::mem::replace(&mut told, true) {
                lock(&self.state).tell(Event::Waiting { holder });
            }
            std::thread::sleep(NAP);
        }
    }

    /// Waits until no other lane is writing to an owner, and keeps others from it.
    pub(super) fn take(&self, owner: Owner) -> Taken<'_> {
        let state = lock(&self.state);
        let is_taken = |state: &mut State| state.taken.contains(&owner);
        let mut state =
            self.changed.wait_while(state, is_taken).unwrap_or_else(PoisonError::into_inner);
        state.taken.insert(owner.clone());
        Taken { shared: self, owner }
    }
}

/// An owner whose knobs one lane is writing.
pub(super) struct Taken<'a> {
    shared: &'a Shared,
    owner: Owner,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(&self.shared.state).taken.remove(&self.owner);
        self.shared.changed.notify_all();
    }
}

/// A write to the knob of an owner, as a controller names it.
pub(super) fn write_of(owner: &Owner, knob: &str, value: String) -> KnobWrite {
    let limit = owner.as_ref().filter(|_| is_limit(owner)).and_then(|path| path.rsplit_once('/'));
    match limit.map(|(what, _)| what.trim_start_matches('/')) {
        Some(device) if device.parse::<DeviceId>().is_ok() => {
            KnobWrite { device: device.parse().ok(), knob: knob.to_owned(), value }
        }
        Some(process) if process.starts_with("pid:") => {
            KnobWrite { device: None, knob: format!("{process}.{knob}"), value }
        }
        Some(group) => KnobWrite { device: None, knob: format!("{group}:{knob}"), value },
        None => {
            let device = owner.as_ref().and_then(|number| number.parse().ok());
            KnobWrite { device, knob: knob.to_owned(), value }
        }
    }
}

pub(super) fn refused(write: KnobWrite, error: &HoldError) -> PlantError {
    match (error.root(), write.device) {
        (HoldError::Gone { .. }, Some(device)) if !is_passing(&write.knob) => {
            PlantError::NoDevice(device)
        }
        (HoldError::Journal(_) | HoldError::Step(StepError::Journal(_)), _) => PlantError::Lost {
            what: "the journal".to_owned(),
            why: format!("{write} was not set: {error}"),
        },
        _ => PlantError::Refused { write, why: error.to_string() },
    }
}
