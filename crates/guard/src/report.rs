//! What the guard tells of itself: decisions, writes, and its view of each device.

use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, PlantError};

use crate::estimate::Estimate;
use crate::level::Level;
use crate::state::State;

/// One decision: what changed about a device, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, by the plant's clock.
    pub at: Duration,
    /// Which device.
    pub device: DeviceId,
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// How far the levers are pulled now.
    pub level: Level,
    /// Why, with the figures that decided.
    pub why: String,
}

/// The outcome of a tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Changes of state and level.
    pub decisions: Vec<Decision>,
    /// Knobs that were written.
    pub writes: Vec<KnobWrite>,
    /// Writes that failed, and knobs that another program has set. The guard leaves such a knob
    /// alone, or tries again later.
    pub left_alone: Vec<PlantError>,
}

/// The guard's view of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Which device.
    pub device: DeviceId,
    /// The state of the control law.
    pub state: State,
    /// How far the levers are pulled.
    pub level: Level,
    /// Measurements of the device.
    pub estimate: Estimate,
    /// Time to drain as many bytes as the limit allows; `None` without a limit.
    pub limit_time: Option<Duration>,
    /// Bytes a second that a paced flood may write; `None` if none is paced.
    pub pace_bytes_per_s: Option<f64>,
}
