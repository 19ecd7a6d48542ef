//! A plant between the law and the machine that keeps an audit log: each write as people read it,
//! with the value before. The machine itself tells what it holds.
//!
//! The law's report has neither that value nor the writes of a tick that fails, so each write is
//! noted on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use floodwall_guard::config::RAISED_FOR;
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::setting::JOURNAL_PRIORITY;
use floodwall_model::{DeviceId, Reading};

use crate::document::HeldKnob;
use crate::machine::Machine;

/// How long a process is named after a commit. It gets its own priority back before.
const NAMED: Duration = RAISED_FOR.saturating_mul(2);

/// How the knob of a process's I/O priority ends: `pid:4711.ioprio`.
const PRIORITY: &str = ".ioprio";

/// See the [module](self).
pub(crate) struct AuditedPlant {
    /// Its clock, names and news. Writes go through the audited plant.
    pub(super) machine: Box<dyn Machine>,
    /// The knobs as they were last read, with later writes.
    read: Knobs,
    /// Knobs that the law has left alone since their last write. The machine may hold them until
    /// it is closed.
    left: BTreeSet<(DeviceId, String)>,
    /// Processes that commit, by the name in a knob, and when each was seen: `pid:4711` is
    /// `postgres (4711)`.
    names: BTreeMap<String, (String, Duration)>,
    written: Vec<(Option<DeviceId>, String)>,
}

impl AuditedPlant {
    pub(crate) fn new(machine: Box<dyn Machine>) -> Self {
        Self {
            machine,
            read: Knobs::default(),
            left: BTreeSet::new(),
            names: BTreeMap::new(),
            written: Vec::new(),
        }
    }

    /// A write as people read it: `nr_requests 64 → 8`, `priority of postgres (4711) none → be/0`.
    fn describe(&mut self, write: &KnobWrite) -> String {
        let whose = self.whose_priority(&write.knob);
        let knob = whose.map_or_else(|| write.knob.clone(), |whose| format!("priority of {whose}"));
        let setting = match write.device {
            Some(id) => self.read.devices.entry(id).or_default(),
            None => &mut self.read.machine,
        };
        match setting.0.insert(write.knob.clone(), write.value.clone()) {
            // The kernel has taken another value with a new elevator.
            Some(before) if before == write.value => format!("{knob} {before} again"),
            Some(before) => format!("{knob} {before} → {}", write.value),
            None => format!("{knob} → {}", write.value),
        }
    }

    /// The process whose threads a priority is for; `None` for other knobs.
    fn whose_priority(&self, knob: &str) -> Option<String> {
        if knob == JOURNAL_PRIORITY {
            return Some("ext4's journal".to_owned());
        }
        let process = knob.strip_suffix(PRIORITY)?;
        Some(self.names.get(process).map_or(process, |(name, _)| name).to_owned())
    }

    /// The knobs of each device that are not as the administrator has them, in order. Of several
    /// disks under one device the first is shown.
    pub(crate) fn held(&self) -> BTreeMap<DeviceId, BTreeMap<String, HeldKnob>> {
        let mut all: BTreeMap<DeviceId, BTreeMap<String, HeldKnob>> = BTreeMap::new();
        for held in self.machine.held() {
            if let Some(id) = held.device
                && !self.left.contains(&(id, held.knob.knob.clone()))
            {
                all.entry(id).or_default().entry(held.knob.knob.clone()).or_insert(held.knob);
            }
        }
        all
    }

    /// The processes, and ext4's journal, whose held priorities put them before the flood.
    pub(crate) fn raised<'a>(&self, held: impl Iterator<Item = &'a String>) -> Vec<String> {
        let mut raised: Vec<String> = held.filter_map(|knob| self.whose_priority(knob)).collect();
        // The journal comes last.
        raised.sort_by_key(|name| name.starts_with("ext4's"));
        raised
    }

    /// Whether the law has left a knob alone.
    pub(crate) fn is_left(&self, device: DeviceId, knob: &str) -> bool {
        self.left.contains(&(device, knob.to_owned()))
    }

    /// The law has left a knob alone, on a device or on all.
    pub(crate) fn leave(&mut self, device: Option<DeviceId>, knob: &str) {
        let all = self
            .read
            .devices
            .keys()
            .copied()
            .filter(|id| device.is_none_or(|device| device == *id));
        self.left.extend(all.map(|id| (id, knob.to_owned())));
    }

    /// The names of processes that commit, for their priorities.
    fn note_names(&mut self, observation: &Observation) {
        let at = observation.at;
        for actor in observation.devices.iter().flat_map(|device| &device.actors) {
            if let Some(process) = actor.process.as_ref().filter(|_| !actor.commits.is_empty()) {
                self.names.insert(process.clone(), (actor.who.clone(), at));
            }
        }
        self.names.retain(|_, (_, seen)| at.saturating_sub(*seen) < NAMED);
    }

    /// Writes since the last call, as `nr_requests 64 → 8`, by device.
    pub(crate) fn take_written(&mut self) -> Vec<(Option<DeviceId>, String)> {
        std::mem::take(&mut self.written)
    }
}

impl Plant for AuditedPlant {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.read = self.machine.knobs()?;
        let reads =
            |id: &DeviceId, knob: &str| self.read.devices.get(id).and_then(|its| its.get(knob));
        self.left.retain(|(id, knob)| reads(id, knob).is_some());
        Ok(self.read.clone())
    }

    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        let readings = self.machine.read_passing(device, asked)?;
        let setting = self.read.devices.entry(device).or_default();
        for (knob, reading) in asked.iter().zip(&readings) {
            match reading {
                Reading::Value(value) => {
                    setting.0.insert(knob.clone(), value.clone());
                }
                Reading::Absent(_) => {
                    setting.0.remove(knob);
                    self.left.remove(&(device, knob.clone()));
                }
                Reading::Unreadable(_) => {}
            }
        }
        Ok(readings)
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        let observation = self.machine.observe()?;
        self.note_names(&observation);
        Ok(observation)
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        self.machine.write(write)?;
        let text = self.describe(write);
        self.written.push((write.device, text));
        self.left.retain(|(id, knob)| Some(*id) != write.device || *knob != write.knob);
        Ok(())
    }

    fn failures(&mut self, device: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        self.machine.failures(device)
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::plant::Actor;

    use super::*;
    use crate::machine::Unjournaled;
    use crate::worker::fake::{DISK, Fake, victim};

    fn set(knob: &str, value: &str) -> KnobWrite {
        KnobWrite { device: Some(DISK), knob: knob.into(), value: value.into() }
    }

    fn audited(fake: &Fake) -> AuditedPlant {
        AuditedPlant::new(Box::new(Unjournaled::new(fake.clone(), false)))
    }

    fn held(plant: &AuditedPlant) -> Vec<String> {
        plant.held().remove(&DISK).unwrap_or_default().into_keys().collect()
    }

    fn written(plant: &mut AuditedPlant) -> Vec<String> {
        plant.take_written().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn writes_are_told_with_the_value_before() {
        let mut plant = audited(&Fake::disk());
        plant.knobs().unwrap();
        for value in ["8", "4", "64", "64"] {
            plant.write(&set("nr_requests", value)).unwrap();
        }
        plant.write(&set("wbt_lat_usec", "0")).unwrap();
        let said = [
            "nr_requests 64 → 8",
            "nr_requests 8 → 4",
            "nr_requests 4 → 64",
            "nr_requests 64 again",
        ];
        assert_eq!(written(&mut plant), [&said[..], &["wbt_lat_usec → 0"]].concat());
        assert_eq!(plant.take_written(), []);
    }

    #[test]
    fn what_the_law_has_left_alone_is_not_held_until_it_is_written_again() {
        let mut plant = audited(&Fake::disk());
        plant.knobs().unwrap();
        for device in [Some(DISK), None] {
            plant.write(&set("nr_requests", "8")).unwrap();
            assert_eq!(held(&plant), ["nr_requests"]);
            plant.leave(device, "nr_requests");
            assert!(plant.held().is_empty());
        }
    }

    #[test]
    fn raised_processes_are_named() {
        let fake = Fake::disk();
        {
            let mut inside = fake.0.lock().unwrap();
            inside.actors = vec![Actor { process: Some("pid:41".into()), ..victim() }];
            let own = inside.knobs.devices.get_mut(&DISK).unwrap();
            own.0.extend(
                ["pid:41.ioprio", "journal.ioprio"]
                    .map(|knob| (knob.to_owned(), "none".to_owned())),
            );
        }
        let mut plant = audited(&fake);
        plant.observe().unwrap();
        plant.knobs().unwrap();
        for knob in ["journal.ioprio", "pid:41.ioprio"] {
            plant.write(&set(knob, "be/0")).unwrap();
        }
        assert_eq!(plant.raised(held(&plant).iter()), ["postgres (41)", "ext4's journal"]);
        // It is named as long as it is raised, whether it waits or not.
        fake.0.lock().unwrap().actors.clear();
        for _ in 0..4 * RAISED_FOR.as_secs() {
            plant.observe().unwrap();
        }
        plant.write(&set("pid:41.ioprio", "none")).unwrap();
        let journal = "priority of ext4's journal none → be/0";
        let both =
            ["priority of postgres (41) none → be/0", "priority of postgres (41) be/0 → none"];
        assert_eq!(written(&mut plant), [journal, both[0], both[1]]);
        assert_eq!(plant.raised(held(&plant).iter()), ["ext4's journal"]);
    }
}
