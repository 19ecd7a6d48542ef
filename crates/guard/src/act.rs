//! From a level to the writes that bring it about, and back to what the administrator had.
//!
//! Every knob that is written is remembered with the value that it had; what is no longer wanted gets that value back. A knob that does not read what was written to it
//! belongs to somebody else from then on: it is neither written nor taken back.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_model::plant::{KnobWrite, Plant, PlantError};
use floodwall_model::{DeviceId, Setting};

use crate::Report;
use crate::estimate::Estimate;
use crate::levers::{self, Level, Ramp};

/// A device's knobs.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// What the administrator had, as it was read at first.
    own: Setting,
    /// What was written and is in force.
    written: BTreeMap<String, String>,
    /// Refused, or somebody else's.
    left_alone: BTreeSet<String>,
    ramp: Ramp,
}

impl Held {
    pub(crate) fn new(own: Setting) -> Self {
        Self { own, written: BTreeMap::new(), left_alone: BTreeSet::new(), ramp: Ramp::default() }
    }

    /// Writes the difference between what is in force and what a level wants.
    pub(crate) fn act<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        level: Level,
        estimate: &Estimate,
        hard_limit: Option<u64>,
        report: &mut Report,
    ) -> Result<(), PlantError> {
        self.ramp.tick(level.limit, estimate, hard_limit);
        let wanted = levers::wanted(level, self.ramp, estimate, &self.own, &self.written, hard_limit);
        let changes = self.changes(&wanted);
        if changes.is_empty() {
            return Ok(());
        }
        let now = plant.knobs()?;
        let now = now.devices.get(&device);
        for (knob, value) in changes {
            let write = KnobWrite { device: Some(device), knob: knob.clone(), value };
            let reads = now.and_then(|setting| setting.get(&knob));
            let expected = self.written.get(&knob).map(String::as_str).or(self.own.get(&knob));
            if reads != expected {
                let why = format!(
                    "it reads {}, not {} as it was left: somebody else has set it",
                    reads.unwrap_or("nothing"),
                    expected.unwrap_or("nothing")
                );
                self.give_up(&knob, PlantError::Refused { write, why }, report);
                continue;
            }
            match plant.write(&write) {
                Ok(()) => {
                    if wanted.contains_key(&knob) {
                        self.written.insert(knob, write.value.clone());
                    } else {
                        self.written.remove(&knob);
                    }
                    report.writes.push(write);
                }
                Err(error) => self.give_up(&knob, error, report),
            }
        }
        Ok(())
    }

    /// Whether the limit has arrived where its level wants it.
    pub(crate) fn is_at_target(&self, level: Level, estimate: &Estimate) -> bool {
        self.ramp.is_at_target(level.limit, estimate)
    }

    fn give_up(&mut self, knob: &str, error: PlantError, report: &mut Report) {
        self.left_alone.insert(knob.to_owned());
        self.written.remove(knob);
        report.left_alone.push(error);
    }

    /// Knobs to write, in an order in which each takes effect: the strict limit is the last to come and the first to go.
    fn changes(&self, wanted: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let mut changes = Vec::new();
        for (knob, value) in wanted {
            if !self.left_alone.contains(knob) && self.written.get(knob) != Some(value) {
                changes.push((knob.clone(), value.clone()));
            }
        }
        let mut back: Vec<(String, String)> = self
            .written
            .keys()
            .filter(|knob| !wanted.contains_key(*knob))
            .filter_map(|knob| Some((knob.clone(), self.own.get(knob)?.to_owned())))
            .collect();
        back.reverse();
        back.append(&mut changes);
        back
    }
}
