//! No machine: what a controller has between two.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};

use crate::machine::Machine;

/// A machine that refuses everything.
pub(crate) struct Gone;

impl Gone {
    fn error() -> PlantError {
        PlantError::Lost { what: "the machine".into(), why: "it is closed".into() }
    }
}

impl Plant for Gone {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        Err(Self::error())
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        Err(Self::error())
    }

    fn write(&mut self, _: &KnobWrite) -> Result<(), PlantError> {
        Err(Self::error())
    }
}

impl Machine for Gone {
    fn wait(&mut self, _: Duration, _: &AtomicBool) -> Result<(), PlantError> {
        Err(Self::error())
    }

    fn source(&self) -> &'static str {
        "none"
    }
}
