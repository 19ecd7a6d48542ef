//! Held values that are put back: of a unit or an owner, asked for by another process, or all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use floodwall_knobs::catalogue::Knob;
use floodwall_knobs::{Device, Fate, HoldError, KnobName, Target};
use floodwall_model::DeviceId;
use floodwall_model::plant::PlantError;

use super::lanes::{Job, Lane, State};
use super::write::{refused, write_of};
use super::{MOMENT, Shared, Writer, lock};
use crate::owner::{Owner, is_limit, owner};
use crate::told::{Closed, Event, HeldKnob};

/// How long [`Writer::yield_knobs`] waits: most queues run dry within milliseconds, and the worker
/// has to give signs of life.
const YIELD: Duration = Duration::from_millis(500);

impl Writer {
    /// Puts back the held knobs of some devices of a unit, after the jobs in its lane.
    pub(crate) fn put_back(&self, unit: DeviceId, devices: &[Device]) {
        let of = |held: &&HeldKnob| {
            devices.iter().any(|device| Some(&device.number) == held.owner.as_ref())
        };
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
                state.pending.contains_key(owner)
                    || state.held.iter().any(|held| held.owner == *owner)
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
                    let why = if idle {
                        "it holds another value"
                    } else {
                        "the device does not let it be written"
                    };
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
}

impl Shared {
    /// Puts back some knobs of an owner, and yields them.
    pub(super) fn yield_knobs(&self, its: &Owner, names: &BTreeSet<KnobName>) {
        let is_one = |knob: &Knob, target: &Target| names.contains(&KnobName::of(knob, target));
        self.back_of(its, is_one, false);
        let end = lock(&self.state).ends;
        // One that is not back stays held, and shows in the answer.
        let _ = self.locked(end, |session, hold| session.yield_cells(hold, is_one));
    }

    /// Puts back the held knobs of an owner, or some of them.
    pub(super) fn back_of(&self, its: &Owner, which: impl Fn(&Knob, &Target) -> bool, asked: bool) {
        let end = lock(&self.state).ends;
        let _taken = self.take(its.clone());
        let order = self.locked(end, |session, hold| {
            let held = hold.held();
            let cell = |index: usize| held.iter().find(|cell| cell.index == index).cloned();
            let order = session.order_back(hold, |knob, target| {
                owner(knob, target) == *its && which(knob, target)
            });
            Ok(order.into_iter().filter_map(cell).collect::<Vec<_>>())
        });
        let order = match order {
            Ok(order) => order,
            Err(error) => {
                let (mut state, error) = (lock(&self.state), error.to_string());
                // All lanes wait for the same lock of the journal: it is reported once.
                if asked && !state.failed.contains(&error) {
                    state.failed.push(error);
                }
                return;
            }
        };
        for cell in order {
            let Err(error) = self.back(cell.index, end) else { continue };
            let mut state = lock(&self.state);
            if matches!(error, HoldError::Gone { .. }) && is_limit(its) {
                // Its limits went with the group, its priority with the process.
            } else if !asked {
                let value =
                    cell.saved.as_ref().map_or_else(String::new, |saved| saved.value.clone());
                let write = write_of(its, cell.knob.name, value);
                state.tell(Event::NotBack(refused(write, &error)));
            } else if !matches!(error, HoldError::Theirs { .. } | HoldError::Gone { .. }) {
                state.failed.push(format!("{}: {error}", cell.label));
            }
        }
    }

    fn back(&self, index: usize, end: Option<Instant>) -> Result<(), HoldError> {
        match self.locked(end, |session, hold| session.prepare_back(hold, index))? {
            Some(prepared) => self.carry_out(prepared),
            None => Ok(()),
        }
    }

    /// Waits until no lane has a job; `false` if that takes until `end`.
    pub(super) fn wait_idle(&self, end: Instant) -> bool {
        let mut state = lock(&self.state);
        while !state.is_idle() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}
