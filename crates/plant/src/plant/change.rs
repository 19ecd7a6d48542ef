//! The cells behind a controller's write.

use floodwall_knobs::catalogue::{Knob, Scope, find};
use floodwall_knobs::value::{Form, check};
use floodwall_knobs::{Change, Target};
use floodwall_model::plant::{KnobWrite, PlantError};
use floodwall_model::setting::is_priority;

use super::HostPlant;

impl HostPlant {
    /// The changes of all cells that one write concerns.
    pub(super) fn changes(&self, write: &KnobWrite) -> Result<Vec<Change>, PlantError> {
        let refused = |why: String| PlantError::Refused { write: write.clone(), why };
        if is_priority(&write.knob) {
            let id =
                write.device.ok_or_else(|| refused("say on which device it commits".to_owned()))?;
            let unit = self.units.get(id).ok_or(PlantError::NoDevice(id))?;
            let targets = self.priorities.targets(unit, &write.knob, &self.files);
            let change = |(knob, target): (&'static Knob, Target)| {
                let value =
                    check(knob, &write.value, Form::Kernel).map_err(|e| refused(e.to_string()))?;
                Ok(Change { knob, target, value })
            };
            let changes: Vec<Change> =
                targets.into_iter().map(change).collect::<Result<_, PlantError>>()?;
            let gone =
                || refused("nothing of this name commits on this device any more".to_owned());
            return if changes.is_empty() { Err(gone()) } else { Ok(changes) };
        }
        if let Some((group, _)) = write.knob.rsplit_once(':') {
            let limit = write.device.and_then(|unit| self.groups.limit(unit, &write.knob));
            let gone = || refused(format!("{group} does not write to this device any more"));
            let (knob, target) = limit.ok_or_else(gone)?;
            let value =
                check(knob, &write.value, Form::Kernel).map_err(|e| refused(e.to_string()))?;
            return Ok(vec![Change { knob, target, value }]);
        }
        let knob = find(&write.knob).ok_or_else(|| refused("there is no such knob".to_owned()))?;
        let value = check(knob, &write.value, Form::Kernel).map_err(|e| refused(e.to_string()))?;
        let targets: Vec<Target> = match (write.device, knob.scope) {
            (None, Scope::Global) => vec![Target::Machine],
            (None, _) => return Err(refused("it is a device's knob; say which device".to_owned())),
            (Some(id), Scope::Queue | Scope::Elevator(_) | Scope::Scsi) => {
                let unit = self.units.get(id).ok_or(PlantError::NoDevice(id))?;
                unit.queues.iter().cloned().map(Target::Device).collect()
            }
            (Some(id), Scope::Bdi) => {
                let unit = self.units.get(id).ok_or(PlantError::NoDevice(id))?;
                unit.limits.iter().cloned().map(Target::Device).collect()
            }
            (Some(_), _) => return Err(refused("it is not a device's knob".to_owned())),
        };
        if targets.is_empty() {
            return Err(refused("the device does not have it".to_owned()));
        }
        Ok(targets
            .into_iter()
            .map(|target| Change { knob, target, value: value.clone() })
            .collect())
    }
}
