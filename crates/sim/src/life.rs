//! A simulated machine whose life repeats itself, to see the guard and the screen without root: ten
//! threads that commit, and a copy, come and go.

use std::time::Duration;

use floodwall_device::DeviceSpec;
use floodwall_model::scenario::{self, ScenarioError, parse_flood, parse_victim};
use floodwall_model::{Bytes, Setting};

use crate::error::SimError;
use crate::options::SimOptions;
use crate::plant::{Happening, PlantDevice, SimPlant};

/// Seconds of each part of its life: quiet, the database alone, the database beside the copy, the
/// copy alone.
const LIFE: [(u64, &str, bool); 4] =
    [(2, "db", true), (10, "copy", true), (50, "db", false), (60, "copy", false)];
/// After so long it begins again.
const ROUND: u64 = 65;
/// How much of its life is planned ahead.
const ROUNDS: u64 = 10_000;
/// Its memory: enough for a backlog of minutes on a slow disk.
const RAM_GIB: u64 = 8;

/// Why such a machine can't be made.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// Its victim or its flood.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The machine.
    #[error(transparent)]
    Sim(#[from] SimError),
}

/// A machine with one device.
///
/// # Errors
/// If the device can't be built.
pub fn life(spec: DeviceSpec) -> Result<SimPlant, LifeError> {
    let options = SimOptions { ram: Bytes::gib(RAM_GIB), ..SimOptions::new(spec) };
    let mut life = scenario::parse(scenario::builtin_text("copy-vs-database").unwrap_or_default())?;
    life.victims = vec![parse_victim("commit,threads=10,block=16KiB,size=1GiB,name=db")?];
    life.floods = vec![parse_flood("seq,size=16GiB,name=copy")?];
    let parts = vec![PlantDevice { options, scenario: life }];
    let mut plant = SimPlant::new(parts, &Setting::default())?;
    for round in 0..ROUNDS {
        for (at, who, begins) in LIFE {
            let what =
                if begins { Happening::Start(who.into()) } else { Happening::Stop(who.into()) };
            plant.schedule(Duration::from_secs(round * ROUND + at), what)?;
        }
    }
    Ok(plant)
}

#[cfg(test)]
mod tests {
    use floodwall_model::Plant;

    use super::*;

    #[test]
    fn after_a_quarter_of_a_minute_the_database_waits_beside_the_copy() {
        let mut plant = life(DeviceSpec::preset("hdd-7200").unwrap()).unwrap();
        plant.advance(Duration::from_secs(1));
        let quiet = plant.observe().unwrap();
        assert!(quiet.devices[0].actors.is_empty());
        plant.advance(Duration::from_secs(15));
        let seen = plant.observe().unwrap();
        let actors = &seen.devices[0].actors;
        let of = |who: &str| actors.iter().find(|actor| actor.who.starts_with(who)).unwrap();
        assert!(of("db").commits.count() > 0);
        assert!(of("copy").dirtied_bytes > 100 << 20);
    }
}
