//! This host as a machine: the plant of `floodwall_plant`, less what is excluded, with what it has
//! to tell.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::{DeviceId, Reading};
use floodwall_plant::{DeviceIdentity, Event, HostPlant, KnobName, Options, Which, Yielded};

use crate::config::Settings;
use crate::document::{HeldKnob, LeftOut};
use crate::error::DaemonError;
use crate::log::Priority;
use crate::machine::{Held, Left, Machine};

/// How long putting everything back may take at the end: a queue changes its length only when it
/// has run dry. A slower write stays open in the journal. The worker then ends with an error, and
/// its parent tries again.
const PATIENCE: Duration = Duration::from_secs(45);

/// How long a pause's answer waits for what is being put back: most queues take milliseconds, and
/// the worker has to give signs of life.
const SETTLE: Duration = Duration::from_millis(500);

/// See the [module](self).
pub(crate) struct HostMachine {
    plant: HostPlant,
    exclude: Vec<String>,
    /// Their numbers, as far as they are there.
    excluded: BTreeSet<DeviceId>,
    /// Devices of the last observation, and those of them that are still to be reported.
    present: BTreeSet<DeviceId>,
    arrived: Vec<DeviceId>,
    /// Knobs that an earlier guard had left behind, until they are reported.
    recovered: Vec<String>,
}

impl HostMachine {
    /// Opens sensors and journal.
    ///
    /// # Errors
    /// A missing requirement, and what works without it; a name that is not a device.
    pub(crate) fn open(settings: &Settings) -> Result<Self, DaemonError> {
        let devices =
            if settings.devices.is_empty() { Which::All } else { Which::Named(settings.devices.clone()) };
        let options = Options {
            devices,
            source: settings.source_kind(),
            dry_run: settings.dry_run,
            socket: std::path::absolute(&settings.socket).ok(),
            ..Options::new(&settings.journal, "floodwall guard")
        };
        let plant = HostPlant::open(&options).map_err(|e| {
            if e.is_missing_requirement() {
                let without = "floodwall guard --sim hdd-7200 works without root, and floodwall status shows what there is";
                DaemonError::Missing(format!("can't guard this machine: {e}; {without}"))
            } else {
                e.into()
            }
        })?;
        if plant.source() == floodwall_probe::SourceKind::Proc {
            // Why the better sources can't be used; what /proc does not tell follows from that.
            let through = plant.blind().iter().filter(|blind| blind.what.starts_with("through "));
            let why: Vec<String> = through.map(ToString::to_string).collect();
            let why = format!(
                "can't see who waits on this machine, so there is nothing to steer by: {}; floodwall guard --sim hdd-7200, status and apply work without",
                why.join("; ")
            );
            return Err(DaemonError::Missing(why));
        }
        let recovered = plant.recovered().to_vec();
        let mut machine = Self {
            plant,
            exclude: settings.exclude.clone(),
            excluded: BTreeSet::new(),
            present: BTreeSet::new(),
            arrived: Vec::new(),
            recovered,
        };
        machine.find_excluded();
        Ok(machine)
    }

    fn find_excluded(&mut self) {
        if let (false, Ok(root)) = (self.exclude.is_empty(), SysRoot::live()) {
            let found = self.exclude.iter().filter_map(|name| floodwall_probe::device(&root, name).ok());
            self.excluded = found.collect();
        }
    }

    fn is_excluded(&self, id: DeviceId) -> bool {
        let unit = self.plant.units().iter().find(|unit| unit.id == id);
        unit.is_some_and(|unit| {
            self.exclude.contains(&unit.name) || !self.excluded.is_disjoint(&unit.members)
        })
    }
}

impl Plant for HostMachine {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.plant.knobs()
    }

    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        self.plant.read_passing(device, asked)
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        let mut observation = self.plant.observe()?;
        if !self.exclude.is_empty() {
            observation.devices.retain(|device| !self.is_excluded(device.id));
        }
        let present = observation.devices.iter().map(|device| device.id).collect();
        let before = std::mem::replace(&mut self.present, present);
        self.arrived.extend(self.present.difference(&before));
        Ok(observation)
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        self.plant.write(write)
    }

    fn failures(&mut self, device: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        self.plant.failures(device)
    }
}

impl Machine for HostMachine {
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError> {
        self.plant.wait(time, stop)
    }

    fn name(&self, id: DeviceId) -> String {
        self.plant.name(id)
    }

    fn source(&self) -> &'static str {
        self.plant.source().name()
    }

    fn blind(&self) -> Vec<String> {
        self.plant.blind().iter().map(ToString::to_string).collect()
    }

    fn left_out(&self) -> Vec<LeftOut> {
        let left = self.plant.left_out().iter().map(|l| LeftOut { name: l.what.clone(), why: l.why.clone() });
        let excluded = self.plant.units().iter().filter(|unit| self.is_excluded(unit.id));
        let why = || "it is excluded".to_owned();
        left.chain(excluded.map(|unit| LeftOut { name: unit.name.clone(), why: why() })).collect()
    }

    fn lost_events(&self) -> u64 {
        self.plant.lost_events()
    }

    fn arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
        let arrived = std::mem::take(&mut self.arrived);
        if arrived.is_empty() { Vec::new() } else { self.plant.identities(&arrived) }
    }

    fn news(&mut self) -> Vec<(Priority, String)> {
        let mut news: Vec<(Priority, String)> =
            std::mem::take(&mut self.recovered).into_iter().map(|line| (Priority::Notice, line)).collect();
        for event in self.plant.take_events() {
            news.push(match event {
                Event::Came { name, .. } => {
                    // One that is excluded by name may be another one than before.
                    self.find_excluded();
                    (Priority::Info, format!("{name} has come"))
                }
                Event::Gone { name, .. } => (Priority::Info, format!("{name} has gone")),
                Event::Failed(error) => (Priority::Warning, format!("{error}: the value before is in force")),
                Event::Waiting { holder } => {
                    (Priority::Warning, format!("writes wait: {holder} is changing settings"))
                }
            });
        }
        news
    }

    fn held(&self) -> Vec<Held> {
        let held = |held: floodwall_plant::HeldKnob| {
            let (device, knob) = self.plant.place(&held);
            Held { device, label: held.label, knob: HeldKnob { knob, value: held.now, own: Some(held.own) } }
        };
        self.plant.held().into_iter().map(held).collect()
    }

    fn still_held(&self) -> Vec<Held> {
        let begin = Instant::now();
        loop {
            let held = self.held();
            if held.is_empty() || begin.elapsed() >= SETTLE {
                return held;
            }
            std::thread::sleep(SETTLE / 20);
        }
    }

    fn yield_knobs(&mut self, knobs: &[KnobName]) -> Result<Yielded, String> {
        Ok(self.plant.yield_knobs(knobs))
    }

    fn close(self: Box<Self>) -> Left {
        let closed = self.plant.close(PATIENCE);
        Left { alone: closed.left_alone, failed: closed.failed }
    }
}
