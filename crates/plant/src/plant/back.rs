//! Held knobs and their way back: at once, at the end, or because another process asks for one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use floodwall_knobs::KnobName;
use floodwall_knobs::catalogue::{Scope, find};
use floodwall_model::DeviceId;
use floodwall_model::setting::PROCESS;

use super::HostPlant;
use crate::told::{Closed, Event, HeldKnob, Yielded};
use crate::units::{Unit, devices_of};
use crate::writer::Writer;

/// How long a plant that is dropped without being closed tries to put things back.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

impl HostPlant {
    /// Changes that were put back when the plant was opened, a line each, at the first call.
    pub fn take_recovered(&mut self) -> Vec<String> {
        std::mem::take(&mut self.recovered)
    }

    /// Knobs that hold another value than the administrator's, with both values; none in a dry run.
    #[must_use]
    pub fn held(&self) -> Vec<HeldKnob> {
        self.writer.as_ref().map(Writer::held).unwrap_or_default()
    }

    /// The unit of a held knob, if it is still there, and the knob's name among the unit's.
    #[must_use]
    pub fn place(&self, held: &HeldKnob) -> (Option<DeviceId>, String) {
        let name = &held.name;
        if let Some((whose, knob)) = name.knob.rsplit_once(':') {
            return match whose.strip_prefix(PROCESS) {
                Some(pid) => {
                    let unit = pid.parse().ok().and_then(|pid| self.priorities.unit(pid));
                    (unit, format!("{whose}.{knob}"))
                }
                None => (self.groups.unit(whose), name.knob.clone()),
            };
        }
        (self.unit_with(name).map(|unit| unit.id), name.knob.clone())
    }

    /// The unit that has the device of a knob.
    fn unit_with(&self, name: &KnobName) -> Option<&Unit> {
        let number = name.device.as_ref()?;
        self.units.units.iter().find(|unit| devices_of(unit).any(|device| device.number == *number))
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.writer.as_ref().map(Writer::take_events).unwrap_or_default()
    }

    /// Puts everything back at once, all devices beside each other, and goes on: for a pause, or
    /// when sensors are lost. The caller has to tell the controller, which otherwise believes that
    /// its values are in force.
    pub fn give_back(&mut self, patience: Duration) -> Closed {
        self.writer.as_ref().map(|writer| writer.give_back(patience)).unwrap_or_default()
    }

    /// Puts back knobs that another process has asked for, and leaves them alone from then on. A
    /// knob of a device is yielded for all devices of its unit. The caller has to tell the
    /// controller.
    pub fn yield_knobs(&mut self, asked: &[KnobName]) -> Yielded {
        let (mut knobs, mut all) = (Vec::new(), BTreeMap::new());
        for name in asked {
            let of_process =
                name.knob.strip_suffix(".ioprio").filter(|pid| pid.starts_with(PROCESS));
            let knob = of_process.map(|pid| format!("{pid}:ioprio"));
            if let Some((group, limit)) = knob.as_ref().unwrap_or(&name.knob).rsplit_once(':') {
                all.insert(name.clone(), Some(format!("/{group}/{limit}")));
                // A process's priority has a dot in a controller's name.
                let is_process = group.starts_with(PROCESS);
                let knob = if is_process { format!("{group}.{limit}") } else { name.knob.clone() };
                knobs.push((None, knob));
                continue;
            }
            let unit = self.unit_with(name);
            let its =
                unit.into_iter().flat_map(devices_of).map(|device| Some(device.number.clone()));
            let is_journals = find(&name.knob).is_some_and(|knob| knob.scope == Scope::Journal);
            for device in its.chain([name.device.clone()]) {
                let number = device.as_deref().filter(|_| is_journals);
                let owner =
                    number.map(|number| format!("/{number}/{}", name.knob)).or(device.clone());
                all.insert(KnobName { device, knob: name.knob.clone() }, owner);
            }
            // The controller does not know a device that is in no unit.
            if unit.is_some() || name.device.is_none() {
                knobs.push((unit.map(|unit| unit.id), name.knob.clone()));
            }
        }
        let waiting: BTreeSet<KnobName> =
            self.writer.as_ref().map(|writer| writer.yield_knobs(&all)).unwrap_or_default();
        let back = asked.iter().filter(|name| !waiting.contains(name)).cloned().collect();
        Yielded { back, waiting: waiting.into_iter().collect(), knobs }
    }

    /// Puts everything back and ends. Knobs of a stuck device stay open in the journal. A recovery
    /// after this process has ended tries them again ([`crate::restore()`]).
    #[must_use = "it says what could not be put back"]
    pub fn close(mut self, patience: Duration) -> Closed {
        self.is_closed = true;
        self.writer.as_ref().map(|writer| writer.close(patience)).unwrap_or_default()
    }
}

impl Drop for HostPlant {
    fn drop(&mut self) {
        // A convenience: a killed process never gets here, and the journal has its changes.
        if let (Some(writer), false) = (&self.writer, self.is_closed) {
            let _ = writer.close(LAST_PATIENCE);
        }
    }
}
