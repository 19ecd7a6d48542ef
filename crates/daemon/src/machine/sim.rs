//! A simulated machine that runs in real time, to see the guard at work without root.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_device::{DeviceSpec, preset_names};
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::{DeviceId, toml_text};
use floodwall_sim::{SimPlant, life};

use crate::error::DaemonError;
use crate::machine::Machine;

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
        let plant = life(DeviceSpec::preset(preset)?)?;
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
