//! The guard's control law: full write caching while no process waits, a short queue and low limits
//! while one does.
//!
//! ```text
//! every tick:  plant ─▶ observe ─▶ estimate ─▶ decide ─▶ act ─▶ plant
//!                          │          │           │        │
//!                 counters, actors    │      Free, Watch,  └ knobs that differ, one by one
//!                                     │      Pace, Protect,
//!                  drain rate: largest │      Probe, Recover
//!                  of 4 s of backlog   │
//!                  base latency:       │
//!                  middle median of    ┘
//!                  10 s without floods
//! ```
//!
//! The law, device by device:
//!
//! - Nothing is written until victims and floods meet. Everything is taken back once either is
//!   gone.
//! - When they meet and a backlog threatens, the queue is made short at once. The requests before a
//!   victim in the device then take half of the victim's goal. The goal is the administrator's p99,
//!   or four times the victims' median without a flood. A short queue leaves the write cache alone,
//!   and no backlog has to drain for it.
//! - A flood whose control group holds no victim is paced instead. It writes at the highest rate at
//!   which victims keep their goal. The queue is made short if the flood ignores its pace.
//! - Where bfq is in force, victims that commit get a higher I/O priority, which freezes nothing.
//!   Mode `protect` does so together with the short queue, mode `balance` before it.
//! - In mode `protect` a model chooses the queue's length: the longest at which victims keep their
//!   goal. If none does, the guard tries other levels. In mode `balance` it always does.
//! - It tries one neighbouring level for a few seconds: a shorter or longer queue, another
//!   elevator, victims not raised, no writeback throttling, a strict limit. A level is kept if the
//!   score grows ([`Mode`]). From the second round on, each failing try triples the wait, up to an
//!   hour.
//! - If victims and flood slow down together, the device has become slower. If victims alone do,
//!   conditions have changed. Tries begin anew in both cases.
//! - A flood that has told that it paces itself is spared, until victims have missed their goal for
//!   ten seconds.
//! - Limits fall no faster than the backlog drains, because the kernel stops every writer above a
//!   limit, victims too.
//!
//! [`Guard::tick`] is a pure step over any [`Plant`]: no clock, no file, no randomness. The same
//! observations give the same writes.

mod act;
mod climb;
pub mod config;
mod decide;
mod estimate;
mod filter;
mod groups;
mod ladder;
mod learnt;
mod level;
mod levers;
mod limit;
mod look;
mod memory;
mod own_sync;
mod pace;
mod raise;
mod report;
mod state;
mod trust;
mod who;

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::{DeviceObservation, Observation, Plant, PlantError};
use floodwall_model::{DeviceId, Setting};

pub use config::{Config, Mode};
pub use estimate::Estimate;
pub use groups::Unpaced;
pub use level::Level;
pub use memory::{Aged, Alone, KnownLevel, KnownPace, Learnt};
pub use report::{Decision, Report, Status};
pub use state::State;
pub use trust::OwnPace;
pub use who::{is_flood, is_victim};

use act::Held;
use climb::Whole;
use config::GONE;
use decide::StateMachine;
use estimate::Estimator;
use levers::Offers;
use limit::{Ramp, limit_time};
use look::{Now, Pulled};
use own_sync::OwnSyncs;
use pace::Pace;
use raise::{Committers, RAISED};

struct Device {
    estimator: Estimator,
    machine: StateMachine,
    committers: Committers,
    held: Held,
    ramp: Ramp,
    last: Estimate,
    /// When it was last seen.
    seen: Duration,
    absent: bool,
}

/// See the [module](self).
#[derive(Default)]
pub struct Guard {
    config: Config,
    devices: BTreeMap<DeviceId, Device>,
    /// Values learnt earlier of devices that were not seen yet, and their age.
    learnt_before: BTreeMap<DeviceId, (Learnt, Duration)>,
    own_syncs: OwnSyncs,
    last_look: Option<Duration>,
}

impl Guard {
    /// A guard that has written nothing yet. A device's values when the guard first sees it count
    /// as the administrator's settings.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets the goal from the next tick on.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// One step: observes, decides, and writes the knobs that have to change. To be called four
    /// times a second.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant can't be observed. Nothing is written then;
    /// [`Guard::release`] takes everything back.
    pub fn tick<P: Plant + ?Sized>(&mut self, plant: &mut P) -> Result<Report, PlantError> {
        let (seen, tick) = self.observe(plant)?;
        self.meet(plant, &seen)?;
        let mut report = Report::default();
        let now = Now::new(&seen, tick);
        for look in &seen.devices {
            let Some(device) = self.devices.get_mut(&look.id) else { continue };
            device.tick(&self.config, plant, &now, look, &mut report)?;
        }
        Ok(report)
    }

    /// Observes without steering: who is present, and nothing else.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant can't be observed.
    pub fn look<P: Plant + ?Sized>(&mut self, plant: &mut P) -> Result<(), PlantError> {
        let (seen, tick) = self.observe(plant)?;
        for (id, device) in &mut self.devices {
            let its = seen.devices.iter().find(|look| look.id == *id);
            device.absent |= its.is_none();
            device.estimator.look(seen.at, tick, its.map_or(&[], |look| &look.actors));
        }
        Ok(())
    }

    /// An observation without the waits of floods for their own data, and the time since the last.
    fn observe<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
    ) -> Result<(Observation, Duration), PlantError> {
        let mut seen = plant.observe()?;
        let tick = self
            .last_look
            .replace(seen.at)
            .map_or(Duration::ZERO, |then| seen.at.saturating_sub(then));
        self.own_syncs.take_out(&mut seen, tick);
        Ok((seen, tick))
    }

    /// Takes back every write: at the end, or when sensors are lost. Reports the knobs that could
    /// not be taken back.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant's knobs can't be read.
    pub fn release<P: Plant + ?Sized>(&mut self, plant: &mut P) -> Result<Report, PlantError> {
        let mut report = Report::default();
        let now = self.last_look.unwrap_or_default();
        for (id, device) in &mut self.devices {
            device.machine.release(now);
            device.ramp = Ramp::default();
            device.held.release(plant, *id, &mut report)?;
        }
        Ok(report)
    }

    /// Leaves a knob alone from now on, because another program has asked for it; of a control
    /// group's limit for all devices. The plant puts it back.
    pub fn yield_knob(&mut self, device: Option<DeviceId>, knob: &str) {
        for (id, its) in &mut self.devices {
            if device.is_none_or(|device| device == *id) {
                its.held.yield_knob(knob);
            }
        }
    }

    /// The state of each device.
    pub fn status(&self) -> impl Iterator<Item = Status> + '_ {
        self.devices.iter().map(|(id, d)| Status {
            device: *id,
            state: d.machine.state,
            level: d.machine.level,
            estimate: d.last.clone(),
            limit_time: limit_time(d.machine.level.limit, &d.last),
            pace_bytes_per_s: d.machine.pace.as_ref().map(Pace::rate),
        })
    }

    /// Names of a device's victims and floods that were seen within [`config::PRESENCE`].
    #[must_use]
    pub fn who(&self, device: DeviceId) -> (Vec<String>, Vec<String>) {
        let Some(device) = self.devices.get(&device).filter(|device| !device.absent) else {
            return Default::default();
        };
        let who = device.estimator.who();
        (who.victims.keys().cloned().collect(), who.floods.keys().cloned().collect())
    }

    /// Names of a device's floods that pace themselves, and are spared for that.
    #[must_use]
    pub fn spared(&self, device: DeviceId) -> Vec<String> {
        let device = self.devices.get(&device).filter(|device| !device.absent);
        device.into_iter().flat_map(|device| device.estimator.spared().cloned()).collect()
    }

    /// Takes in devices that have come or gone. Writes to a device that has gone are remembered for
    /// [`GONE`], because most devices come back.
    fn meet<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        seen: &Observation,
    ) -> Result<(), PlantError> {
        let is_there = |id: &DeviceId| seen.devices.iter().any(|d| d.id == *id);
        for (id, device) in &mut self.devices {
            device.absent |= !is_there(id);
        }
        self.devices
            .retain(|_, device| !device.absent || seen.at.saturating_sub(device.seen) < GONE);
        let known = |id: &DeviceId| self.devices.get(id).is_some_and(|d| !d.absent);
        if seen.devices.iter().all(|d| known(&d.id)) {
            return Ok(());
        }
        let knobs = plant.knobs()?;
        for look in &seen.devices {
            let own = || knobs.devices.get(&look.id).cloned().unwrap_or_else(Setting::default);
            match self.devices.get_mut(&look.id) {
                None => {
                    let mut device = Device::new(own());
                    if let Some((learnt, since)) = self.learnt_before.remove(&look.id) {
                        device.learn(self.config.mode, seen.at, &learnt, since);
                    }
                    self.devices.insert(look.id, device);
                }
                Some(device) if device.absent => device.returned(&own()),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl Device {
    fn new(own: Setting) -> Self {
        Self {
            estimator: Estimator::new(),
            machine: StateMachine::default(),
            committers: Committers::default(),
            held: Held::new(own),
            ramp: Ramp::default(),
            last: Estimate::default(),
            seen: Duration::ZERO,
            absent: false,
        }
    }

    /// The device was gone and is back. Its measurements are dropped, because it may be another
    /// device. Its written knobs are still to be taken back.
    fn returned(&mut self, reads: &Setting) {
        self.held.returned(reads);
        (self.estimator, self.machine, self.ramp) =
            (Estimator::new(), StateMachine::default(), Ramp::default());
        self.absent = false;
    }

    fn tick<P: Plant + ?Sized>(
        &mut self,
        config: &Config,
        plant: &mut P,
        now: &Now<'_>,
        look: &DeviceObservation,
        report: &mut Report,
    ) -> Result<(), PlantError> {
        let seen = now.seen;
        (self.seen, self.absent) = (seen.at, false);
        let in_force =
            !look.changing && self.ramp.is_at_target(self.machine.level.limit, &self.last);
        let pulled = match self.machine.level {
            _ if self.machine.pace.is_some() => Pulled::Paced,
            level if level.is_free() && !look.changing && !self.held.holds() => Pulled::Nothing,
            level
                if level.has_shortest_queue()
                    && in_force
                    && !self.machine.is_unsettled(seen.at) =>
            {
                Pulled::Shortest
            }
            _ => Pulled::Somehow,
        };
        if let Some(pace) = &self.machine.pace {
            self.estimator.memory_mut().paced_at(pace.rate());
        }
        let mut estimate = self.estimator.update(config, now, look, pulled);
        let goal = config.goal.or((config.mode == Mode::Protect).then_some(estimate.goal));
        let whole = Whole {
            wait_s: estimate.wait_alone.map(|wait| wait.as_secs_f64()),
            drain: estimate.most_drain_or_prior(),
            goal_s: goal.map(|goal| goal.as_secs_f64()),
            goal_is_given: config.goal.is_some(),
            mode: config.mode,
        };
        let (from, before) = (self.machine.state, self.machine.level);
        let floods_group = self.estimator.groups().flood().map(str::to_owned);
        let is_encounter = estimate.is_encounter();
        match &floods_group {
            Some(group) if is_encounter => {
                self.held.meet_group(plant, look.id, seen.at, group)?;
            }
            _ if !is_encounter => self.held.forget_passing(),
            _ => {}
        }
        self.held.check_limits(plant, look.id, seen.at, report)?;
        self.committers.look(now, &look.actors);
        let mut offers = Offers::of(&self.held, seen.hard_limit_bytes, floods_group.as_deref());
        // The limits of a group are known while victims and floods meet.
        if is_encounter && floods_group.is_some() {
            estimate.unpaced = match offers.group {
                None => Some(Unpaced::NoLimits),
                Some(group) if self.machine.is_ignored_by(group) => Some(Unpaced::Ignored),
                Some(_) => None,
            };
        }
        self.last = estimate.clone();
        let has_bfq = offers.is_bfq(self.machine.level) && !look.changing;
        let raisable = if has_bfq && is_encounter {
            let priorities = self.committers.knobs(seen.at);
            self.held.meet_processes(plant, look.id, seen.at, &priorities)?;
            self.held.raisable(priorities)
        } else {
            Vec::new()
        };
        offers.raise = !raisable.is_empty();
        let changed = self.machine.pace.as_ref().map(Pace::changed);
        if let Some(step) = self.machine.tick(seen.at, &estimate, &whole, &offers, in_force) {
            let (to, level) = (self.machine.state, self.machine.level);
            if let Some(times) = step.slower {
                self.estimator.becomes_slower(times);
            }
            report.decisions.push(Decision {
                at: seen.at,
                device: look.id,
                from,
                to,
                level,
                why: step.why,
            });
        }
        let raises = self.machine.raises(&offers);
        let is_repaced = self.machine.pace.as_ref().map(Pace::changed) != changed;
        if self.machine.level != before || is_repaced || self.machine.is_unsettled(seen.at) {
            self.estimator.begin_anew();
        }
        self.ramp.tick(self.machine.level.limit, &estimate, seen.hard_limit_bytes);
        // One change of a queue at a time: the next waits until this one is in force.
        if look.changing {
            return Ok(());
        }
        let mut wanted =
            levers::wanted(self.machine.level, self.ramp, &self.held, seen.hard_limit_bytes);
        wanted.extend(self.machine.pace.iter().flat_map(|pace| pace.knobs(self.held.own())));
        if raises {
            wanted.extend(raisable.into_iter().map(|knob| (knob, RAISED.to_owned())));
        }
        self.held.act(plant, look.id, seen.at, &wanted, report)
    }
}
