//! The machines of a plant, their devices and loads, and what is to happen to them.

use std::time::Duration;

use floodwall_device::Nanos;
use floodwall_model::trial::{BurstTotals, OpLatencies};
use floodwall_model::{Bytes, DeviceId, Scenario, Setting};

use crate::block::Counters;
use crate::eras::parts::QueueFacts;
use crate::kernel::Generation;
use crate::limits::BdiLimits;
use crate::machine::Machine;
use crate::options::SimOptions;
use crate::setup::PlacedLoads;
use crate::throttle::BdiId;

/// One device of a plant with what uses it.
#[derive(Clone, Debug)]
pub struct PlantDevice {
    /// The device, its filesystem and its queue; kernel, RAM, CPUs and ticks have to be the same
    /// for all devices of a plant.
    pub options: SimOptions,
    /// Its victims and floods, by their names; nothing else of the scenario counts. None runs
    /// before it is started.
    pub scenario: Scenario,
}

/// Something that happens to a plant.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A victim or flood begins (again).
    Start(String),
    /// A victim or flood begins nothing more.
    Stop(String),
    /// A burst: so many bytes are written to a device as fast as the kernel takes them.
    Burst(DeviceId, Bytes),
}

/// A burst and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// The device.
    pub device: DeviceId,
    /// When it began.
    pub begin: Duration,
    /// Bytes and time, once all is accepted.
    pub totals: Option<BurstTotals>,
}

/// What belongs to a device beside its machine.
pub(super) struct Device {
    pub(super) id: DeviceId,
    pub(super) options: SimOptions,
    pub(super) facts: QueueFacts,
    /// Commands that a queue's device can take at once, and that it is given.
    pub(super) depth: u32,
    pub(super) given: u32,
    pub(super) loads: PlacedLoads,
    /// The values set for its queue, for the next elevator.
    pub(super) setting: Setting,
    pub(super) max_sectors_kb: u32,
    pub(super) bdi: BdiId,
    pub(super) limits: BdiLimits,
    pub(super) before: Counters,
}

/// A burst with the load that writes it.
pub(super) struct Writing {
    pub(super) machine: usize,
    pub(super) load: usize,
    pub(super) bytes: u64,
    pub(super) burst: Burst,
}

/// See the [module](super).
pub struct SimPlant {
    pub(super) generation: Generation,
    pub(super) machines: Vec<Machine>,
    pub(super) devices: Vec<Device>,
    /// Which machine holds the throttle that all share.
    pub(super) holder: usize,
    pub(super) now: Nanos,
    /// In the order of time, then of insertion; past events are gone.
    pub(super) script: Vec<(Nanos, Happening)>,
    pub(super) bursts: Vec<Writing>,
    pub(super) waits: OpLatencies,
}
