//! The simulator as a [`Plant`]: a machine with one device or several that lives on while a
//! controller observes it and sets its knobs.
//!
//! ```text
//! script: loads start and stop, bursts ─┐
//!                                       ▼
//! advance(100 ms) ─▶ machine 1 ─┐  each a device with its flusher, queue and loads;
//!                               │  the next event of all of them comes first
//!                    machine 2 ─┴─ one throttle, one memory:
//!                                  dirty pages of one count in the limits of the other
//! observe() ◀─ meters, counters, levels
//! write() ─▶ the kernel's checks ─▶ knobs of the throttle, the queue, wbt
//! ```
//!
//! The number of steps in which a stretch of time passes makes no difference. Looking changes
//! nothing, and a scheduled event happens at its moment whatever the steps are. A device that
//! becomes slow or stalls for a while is a fault of its
//! [`DeviceSpec`](floodwall_device::DeviceSpec).

mod knobs;
mod priorities;
mod sense;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use floodwall_device::Nanos;
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::trial::{BurstTotals, OpLatencies};
use floodwall_model::{DeviceId, Setting};

use crate::error::SimError;
use crate::groups;
use crate::machine::Machine;
use crate::options::SimOptions;
use crate::runner::SimRunner;
use crate::setup::{self, Placed, PlacedLoads};
use crate::throttle::BdiId;
use crate::workload::{Program, seeded};
use state::{Device, Writing};

pub use state::{Burst, Happening, PlantDevice, SimPlant};

/// First disk's major number, and minor numbers from one disk to the next (drivers/scsi/sd.c).
const SD_MAJOR: u32 = 8;
const SD_MINORS: u32 = 16;

/// Why a plant of several devices takes no knobs of groups.
const NO_GROUPS: &str = "the loads of several devices are in one control group; leave it out";

impl SimPlant {
    /// A machine under a setting, with nothing running. The devices get the numbers 8:0, 8:16 and
    /// so on. Victims and floods have control groups if the setting names one of their knobs
    /// (`flood:memory.high=max`).
    ///
    /// # Errors
    /// [`SimError`]: whatever a [`SimRunner`] would refuse, devices that can't be of one machine,
    /// and two loads of one name.
    pub fn new(parts: Vec<PlantDevice>, setting: &Setting) -> Result<Self, SimError> {
        check(&parts)?;
        if let (Some(knob), true) = (groups::first_knob(setting), parts.len() > 1) {
            return Err(SimError::NoGroup { knob: knob.into(), why: NO_GROUPS });
        }
        let generation = parts[0].options.generation;
        let mut plant = Self {
            generation,
            machines: Vec::new(),
            devices: Vec::new(),
            holder: 0,
            now: Nanos::ZERO,
            script: Vec::new(),
            bursts: Vec::new(),
            waits: OpLatencies::default(),
        };
        for (i, part) in parts.into_iter().enumerate() {
            plant.add(i, part, setting)?;
        }
        Ok(plant)
    }

    fn add(&mut self, i: usize, part: PlantDevice, setting: &Setting) -> Result<(), SimError> {
        setup::check(&part.scenario)?;
        let runner = SimRunner::new(part.options.clone());
        let (machine, _) = runner.build(setting, i as u64)?;
        let scenario = runner.fit_to(&part.scenario, &machine)?;
        self.machines.push(machine);
        let options = part.options;
        let members = options.member_queues.max(1);
        let limits = knobs::bdi_limits(self, i, setting)?;
        let bdi = if i == 0 {
            BdiId(0)
        } else {
            let (bdi, wb) = self.with(0, |m| {
                let bdi = m.throttle.add_bdi(limits);
                (bdi, m.throttle.add_wb(bdi, None))
            });
            self.machines[i].wbs[0].id = wb;
            bdi
        };
        let seed = options.seed.wrapping_add((i as u64) << 32);
        let loads = self.with(i, |m| PlacedLoads::place(m, &scenario, seed))?;
        let machine = &self.machines[i];
        let device = Device {
            id: DeviceId { major: SD_MAJOR, minor: SD_MINORS * i as u32 },
            facts: options.facts(),
            depth: machine.block.depth() / members,
            given: machine.block.given() / members,
            setting: setting
                .0
                .iter()
                .filter(|(k, _)| knobs::of_queue(k))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            max_sectors_kb: knobs::max_sectors_kb(setting, self.generation),
            bdi,
            limits,
            before: machine.block.counters(Nanos::ZERO),
            loads,
            options,
        };
        self.devices.push(device);
        Ok(())
    }

    /// The devices' numbers, in their order.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.devices.iter().map(|d| d.id)
    }

    /// Virtual time since it was built.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now.0)
    }

    /// Lets something happen later, or now if its moment has passed. Events scheduled for one
    /// moment happen in the order in which they were scheduled.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if there is no such load or device.
    pub fn schedule(&mut self, at: Duration, happening: Happening) -> Result<(), SimError> {
        let unknown = |part: String, why: &str| SimError::Scenario { part, why: why.into() };
        match &happening {
            Happening::Start(name) | Happening::Stop(name) if self.find(name).is_none() => {
                return Err(unknown(format!("load '{name}'"), "there is no such victim or flood"));
            }
            Happening::Burst(device, _) if !self.devices.iter().any(|d| d.id == *device) => {
                return Err(unknown(format!("burst to {device}"), "there is no such device"));
            }
            _ => {}
        }
        let at = Nanos::from(at).max(self.now);
        let place = self.script.partition_point(|(when, _)| *when <= at);
        self.script.insert(place, (at, happening));
        Ok(())
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        let until = self.now + Nanos::from(by);
        while let Some((at, _)) = self.script.first()
            && *at <= until
        {
            let (at, happening) = self.script.remove(0);
            self.run_until(at);
            self.happen(&happening);
        }
        self.run_until(until);
    }

    /// What the victims waited for, in the looks since the last time: whole operations, each from
    /// the moment when it was due. Observations have calls instead: a host's probe sees no more.
    pub fn take_waits(&mut self) -> OpLatencies {
        std::mem::take(&mut self.waits)
    }

    /// The bursts so far.
    pub fn bursts(&self) -> impl Iterator<Item = Burst> + '_ {
        self.bursts.iter().map(|w| w.burst)
    }

    fn find(&self, name: &str) -> Option<(usize, usize)> {
        let placed = |d: &Device| {
            let mut all = d.loads.victims.iter().chain(&d.loads.floods);
            all.find(|p: &&Placed| p.name == name).map(|p| p.load)
        };
        self.devices.iter().enumerate().find_map(|(i, d)| Some((i, placed(d)?)))
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Start(name) => {
                if let Some((i, load)) = self.find(name) {
                    self.with(i, |m| m.start_load(load));
                }
            }
            Happening::Stop(name) => {
                if let Some((i, load)) = self.find(name) {
                    self.with(i, |m| m.stop_load(load));
                }
            }
            Happening::Burst(id, bytes) => {
                let Some(i) = self.devices.iter().position(|d| d.id == *id) else { return };
                let left = bytes.0;
                let load = self.with(i, |m| {
                    let directory = m.fs.new_directory();
                    let file = m.create_file(directory, left, false, false);
                    let load = m.add_load(0, 1 << 20, vec![file]);
                    m.add_task(load, Program::Burst { left }, file, seeded(0, 0));
                    m.start_load(load);
                    load
                });
                let burst = Burst { device: *id, begin: self.now(), totals: None };
                self.bursts.push(Writing { machine: i, load, bytes: left, burst });
            }
        }
    }

    /// One machine's turn: it gets the throttle and the dirty pages of the other machines.
    fn with<R>(&mut self, i: usize, act: impl FnOnce(&mut Machine) -> R) -> R {
        if self.holder != i {
            let (a, b) = (self.holder.min(i), self.holder.max(i));
            let (left, right) = self.machines.split_at_mut(b);
            std::mem::swap(&mut left[a].throttle, &mut right[0].throttle);
            self.holder = i;
        }
        if self.machines.len() > 1 {
            let others = self.machines.iter().enumerate().filter(|(j, _)| *j != i);
            let elsewhere =
                others.fold((0, 0), |(d, w), (_, m)| (d + m.cache.dirty, w + m.cache.writeback));
            self.machines[i].elsewhere = elsewhere;
        }
        act(&mut self.machines[i])
    }

    fn run_until(&mut self, until: Nanos) {
        for i in 0..self.machines.len() {
            self.with(i, Machine::settle);
        }
        loop {
            let due = |(i, m): (usize, &Machine)| Some((m.next_event()?, i));
            let next = self
                .machines
                .iter()
                .enumerate()
                .filter_map(due)
                .min()
                .filter(|(at, _)| *at <= until);
            let Some((at, i)) = next else { break };
            self.with(i, |m| {
                m.advance(at);
                m.settle();
            });
            self.end_bursts(at, i);
        }
        self.now = until;
        for machine in &mut self.machines {
            machine.now = until;
        }
    }

    fn end_bursts(&mut self, at: Nanos, machine: usize) {
        for w in &mut self.bursts {
            let ended = w.machine == machine && w.burst.totals.is_none();
            if ended && self.machines[machine].load_stopped(w.load) {
                let seconds = at.since(Nanos::from(w.burst.begin)).as_secs_f64();
                w.burst.totals = Some(BurstTotals { bytes: w.bytes, seconds });
            }
        }
    }
}

/// Refuses devices that can't be one machine.
fn check(parts: &[PlantDevice]) -> Result<(), SimError> {
    let refuse = |part: &str, why: String| Err(SimError::Scenario { part: part.into(), why });
    let Some(first) = parts.first() else {
        return refuse("plant", "has no device; give at least one".into());
    };
    let machine = |o: &SimOptions| (o.generation, o.ram, o.cpus, o.hz);
    if parts.iter().any(|p| machine(&p.options) != machine(&first.options)) {
        return refuse(
            "plant",
            "its devices differ in kernel, RAM, CPUs or ticks; one machine has one of each".into(),
        );
    }
    let mut names: Vec<&str> = Vec::new();
    for part in parts {
        names.extend(part.scenario.victims.iter().map(|v| v.name.as_str()));
        names.extend(part.scenario.floods.iter().map(|f| f.name.as_str()));
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            refuse(&format!("load '{}'", pair[0]), "two have this name; give each its own".into())
        }
        None => Ok(()),
    }
}

impl Plant for SimPlant {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        Ok(knobs::read(self))
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        Ok(sense::observe(self))
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        knobs::write(self, write)
    }
}
