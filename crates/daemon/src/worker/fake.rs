//! A fake machine that a test can inspect and change.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floodwall_model::plant::{
    Actor, Claimant, DeviceKind, DeviceObservation, KnobWrite, Knobs, Observation, Plant,
    PlantError,
};
use floodwall_model::trial::DeviceSample;
use floodwall_model::{DeviceId, LatencyCounts, Reading, Setting};

use floodwall_plant::{KnobName, Yielded};

use crate::machine::{Held, Left, Machine};

pub(crate) const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

/// The inside of a fake machine: knobs, the next observation, whether sensors are lost.
#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) knobs: Knobs,
    pub(crate) writes: Vec<KnobWrite>,
    pub(crate) at: Duration,
    pub(crate) actors: Vec<Actor>,
    pub(crate) devices: Vec<DeviceId>,
    /// Nothing is dirty.
    pub(crate) clean: bool,
    /// Can't be put back.
    pub(crate) stuck: Vec<String>,
    /// Not back yet.
    pub(crate) held: Vec<Held>,
    /// Limits and priorities can't be read.
    pub(crate) unreadable: bool,
    /// The knobs of queues that do not run dry.
    pub(crate) slow: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Fake(pub(crate) Arc<Mutex<Inside>>);

impl Fake {
    /// One disk with the knobs of a queue.
    pub(crate) fn disk() -> Self {
        let fake = Self::default();
        {
            let mut inside = fake.0.lock().unwrap();
            inside.devices.push(DISK);
            let knobs = [("nr_requests", "64"), ("max_sectors_kb", "1280")];
            let own: Setting =
                knobs.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
            inside.knobs.devices.insert(DISK, own);
        }
        fake
    }
}

impl Plant for Fake {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        Ok(self.0.lock().unwrap().knobs.clone())
    }

    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        let inside = self.0.lock().unwrap();
        let all =
            || asked.iter().map(|_| Reading::Unreadable("no permission".to_owned())).collect();
        Ok(if inside.unreadable { all() } else { inside.knobs.read(device, asked) })
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        let mut inside = self.0.lock().unwrap();
        inside.at += Duration::from_millis(250);
        let device = |id: &DeviceId| DeviceObservation {
            id: *id,
            kind: DeviceKind::Unknown,
            counters: DeviceSample::default(),
            dirty_bytes: Some(if inside.clean { 0 } else { 4 << 30 }),
            writeback_bytes: Some(0),
            changing: false,
            actors: inside.actors.clone(),
        };
        Ok(Observation {
            at: inside.at,
            devices: inside.devices.iter().map(device).collect(),
            ..Observation::default()
        })
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        let mut inside = self.0.lock().unwrap();
        inside.writes.push(write.clone());
        if let Some(setting) = write.device.and_then(|id| inside.knobs.devices.get_mut(&id)) {
            setting.0.insert(write.knob.clone(), write.value.clone());
        }
        Ok(())
    }
}

impl Machine for Fake {
    fn wait(&mut self, _: Duration, _: &AtomicBool) -> Result<(), PlantError> {
        Ok(())
    }
    fn name(&self, _: DeviceId) -> String {
        "sda".into()
    }
    fn source(&self) -> &'static str {
        "fake"
    }
    fn lost_events(&self) -> u64 {
        7
    }
    fn held(&self) -> Vec<Held> {
        self.0.lock().unwrap().held.clone()
    }
    fn yield_knobs(&mut self, knobs: &[KnobName]) -> Result<Yielded, String> {
        let mut inside = self.0.lock().unwrap();
        let left = knobs.iter().map(|name| (Some(DISK), name.knob.clone())).collect();
        let (back, waiting) =
            if inside.slow { (Vec::new(), knobs.to_vec()) } else { (knobs.to_vec(), Vec::new()) };
        for name in &back {
            let own = if name.knob == "nr_requests" { "64" } else { "1280" };
            inside
                .knobs
                .devices
                .get_mut(&DISK)
                .unwrap()
                .0
                .insert(name.knob.clone(), own.to_owned());
        }
        Ok(Yielded { back, waiting, knobs: left })
    }
    fn paces_itself(&mut self, pid: u32, device: DeviceId) -> Result<DeviceId, String> {
        let mut inside = self.0.lock().unwrap();
        let who = format!("({pid})");
        let its = inside.actors.iter_mut().filter(|actor| actor.who.ends_with(&who));
        its.for_each(|actor| actor.paced_by = Some(Claimant { pid, start_ticks: 100 }));
        Some(device).filter(|device| *device == DISK).ok_or_else(|| "no such device".to_owned())
    }

    fn close(self: Box<Self>) -> Left {
        Left { alone: vec!["sdb.nr_requests".into()], failed: self.0.lock().unwrap().stuck.clone() }
    }
}

pub(crate) fn victim() -> Actor {
    let commits = LatencyCounts::from_values(vec![900_000_000; 20]);
    Actor { who: "postgres (41)".into(), commits, waiting: 3, ..Actor::default() }
}

pub(crate) fn flood() -> Actor {
    Actor { who: "cp (42)".into(), dirtied_bytes: 100 << 20, ..Actor::default() }
}
