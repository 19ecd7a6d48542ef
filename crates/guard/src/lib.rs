//! The guard's control law: full write caching while nobody waits, a short queue and low limits while somebody does.
//!
//! ```text
//! every tick:  plant ─▶ observe ─▶ estimate ─▶ decide ─▶ act ─▶ plant
//!                          │          │           │        │
//!                 counters, actors    │      Free, Watch,  └ the difference to what is in force, knob by knob
//!                                     │      Protect, Probe,
//!                  drain rate: largest │      Recover
//!                  of 4 s of backlog   │
//!                  base latency:       │
//!                  middle median of    ┘
//!                  10 s without floods
//! ```
//!
//! The law, device by device:
//!
//! - Nothing is written while victims and floods have not met, and everything that was written is taken back once either is gone.
//! - *Pressure* is what victims wait for as a share of the goal (the administrator's p99, or four times their own median while nothing floods). A lever is pulled one step
//!   further while it is above 1, and let go by one step, on trial, when it has been below 0.7 for a while; a trial that fails makes the next one wait four times longer.
//! - The queue comes first: requests × their size, so that what stands before a victim in the device takes half of its goal. It acts at once and leaves the write cache alone.
//!   If two steps of it change nothing, or it is as short as it gets, what hurts stands elsewhere (a drive's own write cache): then the device gets the lowest strict limit, and
//!   if that is of no use either, none. Drain rate × time is how far it is let up again.
//! - Limits are lowered no faster than the backlog drains, because the kernel stops every writer above a limit, victims too.
//!
//! [`Guard::tick`] is a pure step over any [`Plant`]: no clock, no file, no randomness. The same observations give the same writes.

mod act;
pub mod config;
mod decide;
mod estimate;
mod filter;
mod levers;

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::{KnobWrite, Observation, Plant, PlantError};
use floodwall_model::{DeviceId, Setting};

pub use config::Config;
pub use decide::State;
pub use estimate::{Estimate, is_flood, is_victim};
pub use levers::Level;

use act::Held;
use decide::Machine;
use estimate::Estimator;

/// One decision: what changed about a device, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, by the plant's clock.
    pub at: Duration,
    /// Which device.
    pub device: DeviceId,
    /// State before and after.
    pub from: State,
    /// See `from`.
    pub to: State,
    /// How far the levers are pulled now.
    pub level: Level,
    /// Why, with the figures that decided.
    pub why: String,
}

/// What a tick did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Changes of state and level.
    pub decisions: Vec<Decision>,
    /// Knobs that were written.
    pub writes: Vec<KnobWrite>,
    /// Knobs that could not be written, or that somebody else has written meanwhile: left alone from now on.
    pub left_alone: Vec<PlantError>,
}

/// What the guard knows of a device and does about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// Which device.
    pub device: DeviceId,
    /// What is being done.
    pub state: State,
    /// How far the levers are pulled.
    pub level: Level,
    /// What is known.
    pub estimate: Estimate,
    /// How long it takes to drain what the limit lets wait, if there is one.
    pub limit_time: Option<Duration>,
}

struct Device {
    estimator: Estimator,
    machine: Machine,
    held: Held,
    last: Estimate,
}

/// See the [module](self).
#[derive(Default)]
pub struct Guard {
    config: Config,
    devices: BTreeMap<DeviceId, Device>,
    last_look: Option<Duration>,
}

impl Guard {
    /// A guard that has written nothing yet. What is in force at its first tick counts as the administrator's settings.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Another goal from the next tick on.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// One step: looks, thinks, and writes what has to change. Meant for four times a second.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant can't be looked at. Nothing is written then; [`Guard::release`] takes everything back.
    pub fn tick<P: Plant + ?Sized>(&mut self, plant: &mut P) -> Result<Report, PlantError> {
        let seen = plant.observe()?;
        self.meet(plant, &seen)?;
        let tick =
            self.last_look.replace(seen.at).map_or(Duration::ZERO, |then| seen.at.saturating_sub(then));
        let mut report = Report::default();
        for look in &seen.devices {
            let Some(device) = self.devices.get_mut(&look.id) else { continue };
            let arrived = device.held.is_at_target(device.machine.level, &device.last);
            // Where nobody was ever seen alone, the shortest queue has to do for it.
            let settled = !look.changing && !device.machine.is_unsettled(seen.at);
            let shortest = settled && device.machine.has_shortest_queue();
            let estimate = device.estimator.update(&self.config, seen.at, tick, look, shortest);
            device.last = estimate;
            let (from, before) = (device.machine.state, device.machine.level);
            if let Some(step) = device.machine.tick(seen.at, &estimate, !look.changing, arrived) {
                let (to, level) = (device.machine.state, device.machine.level);
                report.decisions.push(Decision {
                    at: seen.at,
                    device: look.id,
                    from,
                    to,
                    level,
                    why: step.why,
                });
            }
            if device.machine.level != before || device.machine.is_unsettled(seen.at) {
                device.estimator.begin_anew();
            }
            // One change of a queue at a time: the next waits until this one is in force.
            if !look.changing {
                let level = device.machine.level;
                device.held.act(plant, look.id, level, &estimate, seen.hard_limit_bytes, &mut report)?;
            }
        }
        Ok(report)
    }

    /// Takes back everything that was written, for the end or when sensors are lost. Says what could not be taken back.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant's knobs can't be read.
    pub fn release<P: Plant + ?Sized>(&mut self, plant: &mut P) -> Result<Report, PlantError> {
        let mut report = Report::default();
        for (id, device) in &mut self.devices {
            device.machine = Machine::default();
            device.held.act(plant, *id, Level::default(), &device.last, None, &mut report)?;
        }
        Ok(report)
    }

    /// What is known and done, device by device.
    pub fn status(&self) -> impl Iterator<Item = Status> + '_ {
        self.devices.iter().map(|(id, d)| Status {
            device: *id,
            state: d.machine.state,
            level: d.machine.level,
            estimate: d.last,
            limit_time: levers::limit_time(d.machine.level.limit, &d.last),
        })
    }

    /// Devices that have come, and those that have gone.
    fn meet<P: Plant + ?Sized>(&mut self, plant: &mut P, seen: &Observation) -> Result<(), PlantError> {
        self.devices.retain(|id, _| seen.devices.iter().any(|d| d.id == *id));
        if seen.devices.iter().all(|d| self.devices.contains_key(&d.id)) {
            return Ok(());
        }
        let knobs = plant.knobs()?;
        for device in &seen.devices {
            let own = || knobs.devices.get(&device.id).cloned().unwrap_or_else(Setting::default);
            self.devices.entry(device.id).or_insert_with(|| Device {
                estimator: Estimator::new(),
                machine: Machine::default(),
                held: Held::new(own()),
                last: Estimate::default(),
            });
        }
        Ok(())
    }
}
