//! A machine whose writes no journal keeps: a simulated one, and any in a dry run. Remembers the
//! values that knobs had and were given. In a dry run nothing passes through, and the law reads
//! what it would have written.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::setting::is_passing;
use floodwall_model::{DeviceId, Reading};
use floodwall_plant::{DeviceIdentity, KnobName, Yielded};

use crate::document::{HeldKnob, LeftOut};
use crate::log::Priority;
use crate::machine::{Held, Left, Machine};

type Knob = (Option<DeviceId>, String);

/// See the [module](self).
pub(crate) struct Unjournaled {
    machine: Box<dyn Machine>,
    is_dry: bool,
    /// The administrator's values.
    own: BTreeMap<Knob, String>,
    /// Written values, until the administrator's value is back.
    held: BTreeMap<Knob, String>,
}

impl Unjournaled {
    /// `is_dry`: nothing is written.
    pub(crate) fn new(machine: impl Machine + 'static, is_dry: bool) -> Self {
        Self { machine: Box::new(machine), is_dry, own: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Takes in values of a device's knobs. While a knob of the device is held, an elevator for
    /// example, its other values may have come with that.
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
}

impl Plant for Unjournaled {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
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
        let all = std::iter::once((None, &knobs.machine))
            .chain(knobs.devices.iter().map(|(id, s)| (Some(*id), s)));
        for (device, setting) in all {
            self.note_own(device, setting.0.iter());
        }
        if self.is_dry {
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
        let mut readings = self.machine.read_passing(device, asked)?;
        let values = asked.iter().zip(&readings);
        self.note_own(
            Some(device),
            values.filter_map(|(knob, reading)| Some((knob, reading.value()?))),
        );
        for (knob, reading) in asked.iter().zip(&mut readings) {
            let key = (Some(device), knob.clone());
            if matches!(reading, Reading::Absent(_)) {
                self.held.remove(&key);
                self.own.remove(&key);
            } else if let Some(value) = self.held.get(&key).filter(|_| self.is_dry) {
                *reading = Reading::Value(value.clone());
            }
        }
        Ok(readings)
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        let observation = self.machine.observe()?;
        let there = |id: DeviceId| observation.devices.iter().any(|device| device.id == id);
        self.held.retain(|(id, _), _| id.is_none_or(there));
        Ok(observation)
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        if !self.is_dry {
            self.machine.write(write)?;
        }
        let key = (write.device, write.knob.clone());
        if self.own.get(&key) == Some(&write.value) {
            self.held.remove(&key);
        } else {
            self.held.insert(key, write.value.clone());
        }
        Ok(())
    }
}

impl Machine for Unjournaled {
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError> {
        self.machine.wait(time, stop)
    }

    fn name(&self, id: DeviceId) -> String {
        self.machine.name(id)
    }

    fn source(&self) -> &'static str {
        self.machine.source()
    }

    fn named(&self) -> Option<String> {
        self.machine.named()
    }

    fn blind(&self) -> Vec<String> {
        self.machine.blind()
    }

    fn left_out(&self) -> Vec<LeftOut> {
        self.machine.left_out()
    }

    fn lost_events(&self) -> u64 {
        self.machine.lost_events()
    }

    fn arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
        self.machine.arrived()
    }

    fn news(&mut self) -> Vec<(Priority, String)> {
        self.machine.news()
    }

    fn held(&self) -> Vec<Held> {
        let held = |(key, value): (&Knob, &String)| {
            let (device, knob) = key.clone();
            let name = device.map(|id| self.machine.name(id));
            let label = name.into_iter().chain([knob.clone()]).collect::<Vec<_>>().join(".");
            let own = self.own.get(key).cloned();
            Held { device, label, knob: HeldKnob { knob, value: value.clone(), own } }
        };
        self.held.iter().map(held).collect()
    }

    fn yield_knobs(&mut self, asked: &[KnobName]) -> Result<Yielded, String> {
        let yielded = self.machine.yield_knobs(asked)?;
        let is_yielded = |(device, knob): &Knob| {
            let is_it = |(id, name): &Knob| name == knob && (id.is_none() || id == device);
            yielded.knobs.iter().any(is_it)
        };
        self.held.retain(|key, _| !is_yielded(key));
        Ok(yielded)
    }

    fn paces_itself(&mut self, pid: u32, device: DeviceId) -> Result<DeviceId, String> {
        self.machine.paces_itself(pid, device)
    }

    fn close(self: Box<Self>) -> Left {
        self.machine.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::fake::{DISK, Fake};

    fn set(knob: &str, value: &str) -> KnobWrite {
        KnobWrite { device: Some(DISK), knob: knob.into(), value: value.into() }
    }

    fn put(fake: &Fake, knob: &str, value: &str) {
        let mut inside = fake.0.lock().unwrap();
        inside.knobs.devices.get_mut(&DISK).unwrap().0.insert(knob.into(), value.into());
    }

    fn held(machine: &Unjournaled) -> Vec<String> {
        machine.held().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_held_is_known_with_what_it_gets_back() {
        let mut machine = Unjournaled::new(Fake::disk(), false);
        machine.knobs().unwrap();
        machine.write(&set("nr_requests", "8")).unwrap();
        machine.write(&set("nr_requests", "4")).unwrap();
        assert_eq!(held(&machine), ["sda.nr_requests 4 (yours: 64)"]);
        machine.knobs().unwrap();
        assert_eq!(
            held(&machine),
            ["sda.nr_requests 4 (yours: 64)"],
            "ours is not the administrator's"
        );
        machine.write(&set("nr_requests", "64")).unwrap();
        assert_eq!(machine.held(), []);
    }

    #[test]
    fn what_came_with_our_elevator_is_not_the_administrators() {
        let fake = Fake::disk();
        put(&fake, "iosched.async_depth", "256");
        put(&fake, "scheduler", "mq-deadline");
        let mut machine = Unjournaled::new(fake.clone(), false);
        machine.knobs().unwrap();
        machine.write(&set("scheduler", "bfq")).unwrap();
        put(&fake, "iosched.async_depth", "4");
        machine.knobs().unwrap();
        for (knob, value) in [("scheduler", "mq-deadline"), ("iosched.async_depth", "256")] {
            machine.write(&set(knob, value)).unwrap();
        }
        assert_eq!(machine.held(), []);
    }

    #[test]
    fn what_has_gone_is_not_held() {
        let fake = Fake::disk();
        put(&fake, "backup:io.max", "wbps=max");
        let mut machine = Unjournaled::new(fake.clone(), false);
        machine.knobs().unwrap();
        machine.write(&set("backup:io.max", "wbps=5")).unwrap();
        machine.write(&set("nr_requests", "8")).unwrap();
        machine.knobs().unwrap();
        assert_eq!(machine.held().len(), 2);
        fake.0.lock().unwrap().knobs.devices.get_mut(&DISK).unwrap().0.remove("backup:io.max");
        machine.knobs().unwrap();
        assert_eq!(held(&machine), ["sda.nr_requests 8 (yours: 64)"]);
        fake.0.lock().unwrap().devices.clear();
        machine.observe().unwrap();
        assert_eq!(machine.held(), []);
    }

    #[test]
    fn a_priority_that_cant_be_read_is_held_and_one_that_has_gone_is_not() {
        let fake = Fake::disk();
        put(&fake, "pid:41.ioprio", "none");
        let mut machine = Unjournaled::new(fake.clone(), false);
        machine.knobs().unwrap();
        machine.write(&set("pid:41.ioprio", "be/0")).unwrap();
        for (unreadable, still) in [(true, 1), (false, 0)] {
            {
                let mut inside = fake.0.lock().unwrap();
                inside.unreadable = unreadable;
                inside.knobs.devices.get_mut(&DISK).unwrap().0.remove("pid:41.ioprio");
            }
            machine.knobs().unwrap();
            assert_eq!(machine.held().len(), still, "{:?}", machine.held());
        }
    }

    #[test]
    fn a_dry_run_writes_nothing_and_reads_what_it_would_have_written() {
        let fake = Fake::disk();
        let mut machine = Unjournaled::new(fake.clone(), true);
        machine.knobs().unwrap();
        machine.write(&set("nr_requests", "8")).unwrap();
        assert_eq!(machine.knobs().unwrap().devices[&DISK].get("nr_requests"), Some("8"));
        assert_eq!(fake.0.lock().unwrap().knobs.devices[&DISK].get("nr_requests"), Some("64"));
        assert_eq!(fake.0.lock().unwrap().writes, []);
        assert_eq!(held(&machine), ["sda.nr_requests 8 (yours: 64)"]);
        let name = KnobName { device: Some("8:0".into()), knob: "nr_requests".into() };
        machine.yield_knobs(&[name]).unwrap();
        assert_eq!(machine.held(), []);
    }
}
