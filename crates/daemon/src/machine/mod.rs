//! The machine that a guard steers: this host, or a simulated machine that runs in real time.

mod gone;
mod host;
mod sim;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_model::plant::{Plant, PlantError};
use floodwall_plant::{DeviceIdentity, KnobName, Yielded};

pub(crate) use self::gone::Gone;
pub(crate) use self::host::HostMachine;
pub(crate) use self::sim::SimMachine;
use crate::document::LeftOut;
use crate::log::Priority;

/// A plant with a clock.
pub(crate) trait Machine: Plant {
    /// Waits, and takes in what happens meanwhile; ends early when `stop` is raised.
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError>;

    /// A device's name, such as `sda`.
    fn name(&self, id: DeviceId) -> String;

    /// Where it looks.
    fn source(&self) -> &'static str;

    /// Measurements that it lacks, and why.
    fn blind(&self) -> Vec<String>;

    /// Devices that it does not steer, and why.
    fn left_out(&self) -> Vec<LeftOut>;

    /// Events that the sensors had no room for, since the start.
    fn lost_events(&self) -> u64;

    /// Devices that have come since the last call, with what each is known by after a boot, or why
    /// it can't be known again.
    fn arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
        Vec::new()
    }

    /// News since the last call.
    fn news(&mut self) -> Vec<(Priority, String)> {
        Vec::new()
    }

    /// Knobs that hold something else than the administrator's value at this moment, in words.
    fn held(&self) -> Vec<String> {
        Vec::new()
    }

    /// The same, after a little wait for those that are just being put back.
    fn still_held(&self) -> Vec<String> {
        self.held()
    }

    /// Puts back knobs that another program has asked for, and leaves them alone from then on.
    ///
    /// # Errors
    /// Why it can't.
    fn yield_knobs(&mut self, _: &[KnobName]) -> Result<Yielded, String> {
        Err("this guard steers no host, and holds no knob of one".to_owned())
    }

    /// The end, after everything was given back: nothing is under way any more when this returns.
    fn close(self: Box<Self>) -> Left {
        Left::default()
    }
}

/// Knobs without the administrator's value when a machine was closed, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Changed by another program, or on a device that is gone. Nothing has to be done.
    pub(crate) alone: Vec<String>,
    /// Could not be put back. The next recovery of the journal tries again.
    pub(crate) failed: Vec<String>,
}
