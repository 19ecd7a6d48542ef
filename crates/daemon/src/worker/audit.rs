//! A plant between the law and the machine that keeps an audit log: the values that knobs had and
//! were given, and the processes that were seen. In a dry run nothing passes through to the
//! machine: the law goes on as if it had.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use floodwall_guard::{is_flood, is_victim};
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::setting::{JOURNAL_PRIORITY, is_passing};
use floodwall_model::{DeviceId, Reading};

use crate::document::HeldKnob;
use crate::machine::Machine;

/// How long a process that was seen is named: as long as the law counts it as present.
const PRESENCE: Duration = floodwall_guard::config::PRESENCE;
/// Names of each kind and device that are kept: a machine may have ten thousand writers.
const MOST_NAMES: usize = 64;

type Knob = (Option<DeviceId>, String);

/// How the knob of a process's I/O priority ends: `pid:4711.ioprio`.
const PRIORITY: &str = ".ioprio";

/// Victims and floods seen at a device, and when.
#[derive(Default)]
struct Seen {
    victims: BTreeMap<String, Duration>,
    floods: BTreeMap<String, Duration>,
}

/// See the [module](self).
pub(crate) struct AuditedPlant {
    machine: Box<dyn Machine>,
    pretends: bool,
    own: BTreeMap<Knob, String>,
    held: BTreeMap<Knob, String>,
    /// The value held of a knob before its last write.
    before: BTreeMap<Knob, Option<String>>,
    /// Writes that failed after they were accepted, for the controller.
    failures: Vec<(KnobWrite, PlantError)>,
    seen: BTreeMap<DeviceId, Seen>,
    /// Victims by the process that a knob names: `pid:4711` is `postgres (4711)`.
    names: BTreeMap<String, String>,
    last_look: Option<Duration>,
    written: Vec<(Option<DeviceId>, String)>,
}

impl AuditedPlant {
    pub(crate) fn new(machine: Box<dyn Machine>, pretends: bool) -> Self {
        Self {
            machine,
            pretends,
            own: BTreeMap::new(),
            held: BTreeMap::new(),
            before: BTreeMap::new(),
            failures: Vec::new(),
            seen: BTreeMap::new(),
            names: BTreeMap::new(),
            last_look: None,
            written: Vec::new(),
        }
    }

    pub(crate) fn machine(&mut self) -> &mut dyn Machine {
        self.machine.as_mut()
    }

    pub(crate) fn into_machine(self) -> Box<dyn Machine> {
        self.machine
    }

    /// A device's name.
    pub(crate) fn name(&self, id: DeviceId) -> String {
        self.machine.name(id)
    }

    /// Whether nothing passes through.
    pub(crate) fn pretends(&self) -> bool {
        self.pretends
    }

    /// A write as people read it: `nr_requests 64 → 8`, `priority of postgres (4711) none → be/0`.
    /// Before it is made.
    fn describe(&self, write: &KnobWrite) -> String {
        let key = (write.device, write.knob.clone());
        let whose = self.whose_priority(&write.knob);
        let knob = whose.map_or_else(|| write.knob.clone(), |whose| format!("priority of {whose}"));
        match self.held.get(&key).or_else(|| self.own.get(&key)) {
            // The kernel has taken another value with a new elevator.
            Some(before) if *before == write.value => format!("{knob} {before} again"),
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
        Some(self.names.get(process).map_or(process, String::as_str).to_owned())
    }

    /// The processes of a device, and its journal, that are put before the flood by I/O priority.
    pub(crate) fn raised(&self, device: DeviceId) -> Vec<String> {
        let of = self.held.keys().filter(|(id, _)| *id == Some(device));
        let mut raised: Vec<String> = of.filter_map(|(_, knob)| self.whose_priority(knob)).collect();
        // The journal comes last.
        raised.sort_by_key(|name| name.starts_with("ext4's"));
        raised
    }

    /// Knobs of a device that are not as the administrator has them.
    pub(crate) fn held(&self, device: DeviceId) -> Vec<HeldKnob> {
        let of = |((id, _), _): &(&Knob, &String)| *id == Some(device);
        self.held
            .iter()
            .filter(of)
            .map(|(key, value)| HeldKnob {
                knob: key.1.clone(),
                value: value.clone(),
                own: self.own.get(key).cloned(),
            })
            .collect()
    }

    /// Whether any knob is not as the administrator has it.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// The guard no longer holds a knob of a device, or of all devices.
    pub(crate) fn lose(&mut self, device: Option<DeviceId>, knob: &str) {
        self.held.retain(|(of, held), _| held != knob || (device.is_some() && *of != device));
    }

    /// Victims and floods of the last seconds.
    pub(crate) fn who(&self, device: DeviceId) -> (Vec<String>, Vec<String>) {
        let names = |of: &BTreeMap<String, Duration>| of.keys().cloned().collect();
        self.seen
            .get(&device)
            .map_or_else(Default::default, |seen| (names(&seen.victims), names(&seen.floods)))
    }

    fn note_who(&mut self, observation: &Observation) {
        let at = observation.at;
        let tick = self.last_look.replace(at).map_or(Duration::ZERO, |then| at.saturating_sub(then));
        for device in &observation.devices {
            if device.actors.is_empty() && !self.seen.contains_key(&device.id) {
                continue;
            }
            let seen = self.seen.entry(device.id).or_default();
            for actor in &device.actors {
                let kind = if is_flood(actor, tick) {
                    &mut seen.floods
                } else if is_victim(actor, tick) {
                    if let Some(process) = &actor.process {
                        self.names.insert(process.clone(), actor.who.clone());
                    }
                    &mut seen.victims
                } else {
                    continue;
                };
                if kind.len() < MOST_NAMES || kind.contains_key(&actor.who) {
                    kind.insert(actor.who.clone(), at);
                }
            }
            for kind in [&mut seen.victims, &mut seen.floods] {
                kind.retain(|_, then| at.saturating_sub(*then) < PRESENCE);
            }
        }
        let there = |id: &DeviceId| observation.devices.iter().any(|d| d.id == *id);
        self.seen.retain(|id, seen| there(id) && !(seen.victims.is_empty() && seen.floods.is_empty()));
        self.held.retain(|(id, _), _| id.as_ref().is_none_or(there));
        let waits = |name: &String| self.seen.values().any(|seen| seen.victims.contains_key(name));
        let has_priority = |process: &str| {
            let is_its = |(_, knob): &Knob| knob.strip_suffix(PRIORITY) == Some(process);
            self.held.keys().any(is_its)
        };
        self.names.retain(|process, name| waits(name) || has_priority(process));
    }

    /// Writes that were taken and have failed after all: what was held before them still is.
    fn learn_failures(&mut self) {
        let devices: BTreeSet<DeviceId> = self.before.keys().filter_map(|(device, _)| *device).collect();
        for (write, error) in devices.into_iter().flat_map(|device| self.machine.failures(device)) {
            let key = (write.device, write.knob.clone());
            match self.before.remove(&key) {
                Some(Some(before)) => self.held.insert(key, before),
                Some(None) => self.held.remove(&key),
                None => None,
            };
            self.failures.push((write, error));
        }
    }

    /// Takes in values of a device's knobs. While the guard holds a knob of the device, an elevator
    /// for example, its other values may have come with that.
    fn note_own<'a>(
        &mut self,
        device: Option<DeviceId>,
        values: impl Iterator<Item = (&'a String, &'a String)>,
    ) {
        let is_steered = self.held.keys().any(|(its, _)| *its == device);
        for (knob, value) in values {
            let key = (device, knob.clone());
            if is_steered {
                self.own.entry(key).or_insert_with(|| value.clone());
            } else {
                self.own.insert(key, value.clone());
            }
        }
    }

    /// Writes since the last call, as `nr_requests 64 → 8`, by device.
    pub(crate) fn take_written(&mut self) -> Vec<(Option<DeviceId>, String)> {
        std::mem::take(&mut self.written)
    }
}

impl Plant for AuditedPlant {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.learn_failures();
        let mut knobs = self.machine.knobs()?;
        // The limits of a control group that has gone went with it, and so did the priority of a
        // process. One that can't be read is missing, too, and is still held.
        let is_missing = |(device, knob): &Knob| {
            let setting = device.and_then(|id| knobs.devices.get(&id));
            is_passing(knob) && setting.is_some_and(|setting| setting.get(knob).is_none())
        };
        self.own.retain(|key, _| !is_missing(key) || self.held.contains_key(key));
        let missing: Vec<Knob> = self.held.keys().filter(|key| is_missing(key)).cloned().collect();
        for (device, knob) in missing {
            if let Some(device) = device {
                self.read_passing(device, &[knob])?;
            }
        }
        let all =
            std::iter::once((None, &knobs.machine)).chain(knobs.devices.iter().map(|(id, s)| (Some(*id), s)));
        for (device, setting) in all {
            self.note_own(device, setting.0.iter());
        }
        if self.pretends {
            for ((device, knob), value) in &self.held {
                let setting = match device {
                    Some(id) => knobs.devices.entry(*id).or_default(),
                    None => &mut knobs.machine,
                };
                setting.0.insert(knob.clone(), value.clone());
            }
        }
        Ok(knobs)
    }

    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        self.learn_failures();
        let mut readings = self.machine.read_passing(device, asked)?;
        let values = asked.iter().zip(&readings);
        self.note_own(Some(device), values.filter_map(|(knob, reading)| Some((knob, reading.value()?))));
        for (knob, reading) in asked.iter().zip(&mut readings) {
            let key = (Some(device), knob.clone());
            if matches!(reading, Reading::Absent(_)) {
                self.held.remove(&key);
                self.own.remove(&key);
            } else if let Some(value) = self.held.get(&key).filter(|_| self.pretends) {
                *reading = Reading::Value(value.clone());
            }
        }
        Ok(readings)
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        let observation = self.machine.observe()?;
        self.learn_failures();
        self.note_who(&observation);
        Ok(observation)
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        if !self.pretends {
            self.machine.write(write)?;
        }
        self.written.push((write.device, self.describe(write)));
        let key = (write.device, write.knob.clone());
        let before = if self.own.get(&key) == Some(&write.value) {
            self.held.remove(&key)
        } else {
            self.held.insert(key.clone(), write.value.clone())
        };
        self.before.insert(key, before);
        Ok(())
    }

    fn failures(&mut self, device: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        self.learn_failures();
        let all = std::mem::take(&mut self.failures);
        let (its, others) = all.into_iter().partition(|(write, _)| write.device == Some(device));
        self.failures = others;
        its
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::plant::Actor;

    use super::*;
    use crate::worker::fake::{DISK, Fake, flood, victim};

    fn set(knob: &str, value: &str) -> KnobWrite {
        KnobWrite { device: Some(DISK), knob: knob.into(), value: value.into() }
    }

    #[test]
    fn what_is_held_is_known_with_what_it_gets_back() {
        let fake = Fake::disk();
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), false);
        plant.knobs().unwrap();
        plant.write(&set("nr_requests", "8")).unwrap();
        plant.write(&set("nr_requests", "4")).unwrap();
        let held = |value: &str| HeldKnob {
            knob: "nr_requests".into(),
            value: value.into(),
            own: Some("64".into()),
        };
        assert_eq!(plant.held(DISK), [held("4")]);
        plant.knobs().unwrap();
        assert_eq!(plant.held(DISK), [held("4")], "what we wrote is not the administrator's");
        plant.write(&set("nr_requests", "64")).unwrap();
        assert_eq!(plant.held(DISK), []);
        plant.write(&set("nr_requests", "64")).unwrap();
        let said: Vec<String> = plant.take_written().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            said,
            ["nr_requests 64 → 8", "nr_requests 8 → 4", "nr_requests 4 → 64", "nr_requests 64 again"]
        );
        assert_eq!(plant.take_written(), []);
        plant.write(&set("nr_requests", "8")).unwrap();
        plant.lose(Some(DISK), "nr_requests");
        assert_eq!(plant.held(DISK), []);
    }

    #[test]
    fn what_came_with_our_elevator_is_not_the_administrators() {
        let fake = Fake::disk();
        let put = |knob: &str, value: &str| {
            let mut inside = fake.0.lock().unwrap();
            inside.knobs.devices.get_mut(&DISK).unwrap().0.insert(knob.into(), value.into());
        };
        put("iosched.async_depth", "256");
        put("scheduler", "mq-deadline");
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), false);
        plant.knobs().unwrap();
        plant.write(&set("scheduler", "bfq")).unwrap();
        put("iosched.async_depth", "4");
        plant.knobs().unwrap();
        for (knob, value) in [("scheduler", "mq-deadline"), ("iosched.async_depth", "256")] {
            plant.write(&set(knob, value)).unwrap();
        }
        assert_eq!(plant.held(DISK), []);
        assert_eq!(plant.take_written().last().unwrap().1, "iosched.async_depth 256 again");
    }

    #[test]
    fn the_limits_of_a_control_group_that_has_gone_are_not_held() {
        let fake = Fake::disk();
        let put = |limits: &[(&str, &str)]| {
            let mut inside = fake.0.lock().unwrap();
            let own = inside.knobs.devices.get_mut(&DISK).unwrap();
            own.0.retain(|knob, _| !knob.contains(':'));
            own.0.extend(limits.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())));
        };
        put(&[("backup:io.max", "wbps=max")]);
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), false);
        plant.knobs().unwrap();
        plant.write(&set("backup:io.max", "wbps=5")).unwrap();
        plant.write(&set("nr_requests", "8")).unwrap();
        plant.knobs().unwrap();
        assert_eq!(plant.held(DISK).len(), 2);
        put(&[]);
        plant.knobs().unwrap();
        let held: Vec<String> = plant.held(DISK).into_iter().map(|held| held.knob).collect();
        assert_eq!(held, ["nr_requests"]);
    }

    #[test]
    fn raised_processes_are_named() {
        let fake = Fake::disk();
        let named = Actor { process: Some("pid:41".into()), ..victim() };
        let put = |priorities: &[&str]| {
            let mut inside = fake.0.lock().unwrap();
            inside.actors = vec![named.clone()];
            let own = inside.knobs.devices.get_mut(&DISK).unwrap();
            own.0.retain(|knob, _| !knob.ends_with(PRIORITY));
            own.0.extend(priorities.iter().map(|knob| ((*knob).to_owned(), "none".to_owned())));
        };
        put(&["pid:41.ioprio", "journal.ioprio"]);
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), false);
        plant.observe().unwrap();
        plant.knobs().unwrap();
        for knob in ["journal.ioprio", "pid:41.ioprio"] {
            plant.write(&set(knob, "be/0")).unwrap();
        }
        assert_eq!(plant.raised(DISK), ["postgres (41)", "ext4's journal"]);
        // It is named as long as it is raised, whether it waits or not.
        fake.0.lock().unwrap().actors.clear();
        for _ in 0..20 {
            plant.observe().unwrap();
        }
        plant.write(&set("pid:41.ioprio", "none")).unwrap();
        let said: Vec<String> = plant.take_written().into_iter().map(|(_, text)| text).collect();
        let journal = "priority of ext4's journal none → be/0";
        let both = ["priority of postgres (41) none → be/0", "priority of postgres (41) be/0 → none"];
        assert_eq!(said, [journal, both[0], both[1]]);
        assert_eq!(plant.raised(DISK), ["ext4's journal"]);
        put(&[]);
        plant.knobs().unwrap();
        assert!(plant.raised(DISK).is_empty() && plant.held(DISK).is_empty());
    }

    #[test]
    fn a_priority_that_cant_be_read_is_held_and_one_that_has_gone_is_not() {
        let fake = Fake::disk();
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), false);
        let set_unreadable = |is_so: bool| {
            let mut inside = fake.0.lock().unwrap();
            inside.unreadable = is_so;
            inside.knobs.devices.get_mut(&DISK).unwrap().0.remove("pid:41.ioprio");
        };
        let own = |fake: &Fake| fake.0.lock().unwrap().knobs.devices[&DISK].clone();
        fake.0.lock().unwrap().knobs.devices.get_mut(&DISK).unwrap().0.extend([priority()]);
        plant.knobs().unwrap();
        plant.write(&set("pid:41.ioprio", "be/0")).unwrap();
        set_unreadable(true);
        plant.knobs().unwrap();
        assert_eq!(own(&fake).get("pid:41.ioprio"), None);
        assert_eq!(plant.held(DISK)[0].own.as_deref(), Some("none"));
        set_unreadable(false);
        plant.knobs().unwrap();
        assert_eq!(plant.held(DISK), []);
    }

    fn priority() -> (String, String) {
        ("pid:41.ioprio".to_owned(), "none".to_owned())
    }

    #[test]
    fn a_dry_run_writes_nothing_and_reads_what_it_would_have_written() {
        let fake = Fake::disk();
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), true);
        plant.knobs().unwrap();
        plant.write(&set("nr_requests", "8")).unwrap();
        assert_eq!(plant.knobs().unwrap().devices[&DISK].get("nr_requests"), Some("8"));
        assert_eq!(fake.0.lock().unwrap().knobs.devices[&DISK].get("nr_requests"), Some("64"));
        assert_eq!(fake.0.lock().unwrap().writes, []);
        assert_eq!(plant.held(DISK).len(), 1);
    }

    #[test]
    fn who_was_seen_is_named_for_a_while_and_a_device_that_is_gone_is_forgotten() {
        let fake = Fake::disk();
        let mut plant = AuditedPlant::new(Box::new(fake.clone()), false);
        fake.0.lock().unwrap().actors = vec![victim(), flood()];
        for _ in 0..2 {
            plant.observe().unwrap();
        }
        let both = (vec!["postgres (41)".to_owned()], vec!["cp (42)".to_owned()]);
        assert_eq!(plant.who(DISK), both);
        fake.0.lock().unwrap().actors.clear();
        plant.observe().unwrap();
        assert_eq!(plant.who(DISK), both);
        for _ in 0..12 {
            plant.observe().unwrap();
        }
        assert_eq!(plant.who(DISK), (vec![], vec![]));
        plant.knobs().unwrap();
        plant.write(&set("nr_requests", "8")).unwrap();
        fake.0.lock().unwrap().devices.clear();
        plant.observe().unwrap();
        assert_eq!(plant.held(DISK), []);
    }
}
