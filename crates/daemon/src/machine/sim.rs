//! A simulated machine that runs in real time, to see the guard at work without root.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_device::{DeviceSpec, preset_names};
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::scenario::{self, parse_flood, parse_victim};
use floodwall_model::{Bytes, DeviceId, Setting, toml_text};
use floodwall_sim::plant::Happening;
use floodwall_sim::{PlantDevice, SimOptions, SimPlant};

use crate::error::DaemonError;
use crate::machine::Machine;

/// Seconds of each part of a simulated machine's life: quiet, the database alone, the database
/// beside the copy, the copy alone.
const LIFE: [(u64, &str, bool); 4] =
    [(2, "db", true), (10, "copy", true), (50, "db", false), (60, "copy", false)];
/// After so long it begins again.
const ROUND: u64 = 65;
/// How much of its life is planned ahead.
const ROUNDS: u64 = 10_000;
/// Its memory: enough for a backlog of minutes on a slow disk.
const RAM_GIB: u64 = 8;
/// A machine that was stopped (suspend, Ctrl-Z) goes on where it was instead of catching up.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// A simulated machine: ten threads that commit, and a copy, come and go.
pub(crate) struct SimMachine {
    plant: SimPlant,
    /// The preset of its one device.
    device: String,
    last: Instant,
}

impl SimMachine {
    /// A machine with one device.
    ///
    /// # Errors
    /// [`DaemonError::Usage`] if there is no such preset.
    pub(crate) fn new(preset: &str) -> Result<Self, DaemonError> {
        if !preset_names().any(|name| name == preset) {
            let names: Vec<&str> = preset_names().collect();
            let near = toml_text::nearest(preset, names.iter().copied());
            let hint = near.map_or_else(
                || format!("there are {}", names.join(", ")),
                |near| format!("did you mean '{near}'?"),
            );
            let why = format!("--sim: there is no device '{preset}'; {hint}");
            return Err(DaemonError::Usage(why));
        }
        let spec = DeviceSpec::preset(preset)?;
        let options = SimOptions { ram: Bytes::gib(RAM_GIB), ..SimOptions::new(spec) };
        let mut life = scenario::builtin("copy-vs-database").transpose()?.ok_or_else(|| {
            DaemonError::Failed("the built-in scenario copy-vs-database is gone".into())
        })?;
        life.victims = vec![parse_victim("commit,threads=10,block=16KiB,size=1GiB,name=db")?];
        life.floods = vec![parse_flood("seq,size=16GiB,name=copy")?];
        let mut plant =
            SimPlant::new(vec![PlantDevice { options, scenario: life }], &Setting::default())?;
        for round in 0..ROUNDS {
            for (at, who, begins) in LIFE {
                let what =
                    if begins { Happening::Start(who.into()) } else { Happening::Stop(who.into()) };
                plant.schedule(Duration::from_secs(round * ROUND + at), what)?;
            }
        }
        Ok(Self { plant, device: preset.to_owned(), last: Instant::now() })
    }
}

impl Plant for SimMachine {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.plant.knobs()
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        self.plant.observe()
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        self.plant.write(write)
    }
}

impl Machine for SimMachine {
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError> {
        let end = Instant::now() + time;
        while !stop.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        let now = Instant::now();
        self.plant.advance((now - self.last).min(LONGEST_STEP));
        self.last = now;
        Ok(())
    }

    fn name(&self, _: DeviceId) -> String {
        self.device.clone()
    }

    fn source(&self) -> &'static str {
        "sim"
    }
}
