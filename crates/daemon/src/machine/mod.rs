//! The machine that a guard steers: this host, or a simulated machine that runs in real time.

mod gone;
mod host;
mod sim;
mod unjournaled;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_model::plant::{Plant, PlantError};
use floodwall_plant::{DeviceIdentity, KnobName, Yielded};

pub(crate) use self::gone::Gone;
pub(crate) use self::host::open_host;
pub(crate) use self::sim::SimMachine;
pub(crate) use self::unjournaled::Unjournaled;
use crate::document::{HeldKnob, LeftOut};
use crate::log::Priority;

/// A plant with a clock.
pub(crate) trait Machine: Plant {
    /// Waits, and takes in what happens meanwhile; ends early when `stop` is raised.
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError>;

    /// A device's name, such as `sda`.
    fn name(&self, id: DeviceId) -> String {
        id.to_string()
    }

    /// Its devices, in words, if some were given by other words than their names.
    fn named(&self) -> Option<String> {
        None
    }

    /// Where it looks.
    fn source(&self) -> &'static str;

    /// Measurements that it lacks, and why.
    fn blind(&self) -> Vec<String> {
        Vec::new()
    }

    /// Devices that it does not steer, and why.
    fn left_out(&self) -> Vec<LeftOut> {
        Vec::new()
    }

    /// Events that the sensors had no room for, since the start.
    fn lost_events(&self) -> u64 {
        0
    }

    /// Devices that have come since the last call, with what each is known by after a boot, or why
    /// it can't be known again.
    fn arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
        Vec::new()
    }

    /// Messages for the log since the last call.
    fn news(&mut self) -> Vec<(Priority, String)> {
        Vec::new()
    }

    /// Knobs that are not as the administrator has them at this moment. The one source of that.
    fn held(&self) -> Vec<Held> {
        Vec::new()
    }

    /// The same, after a little wait for those that are just being put back.
    fn still_held(&self) -> Vec<Held> {
        self.held()
    }

    /// Puts back knobs that another program has asked for, and leaves them alone from then on.
    ///
    /// # Errors
    /// Why it can't.
    fn yield_knobs(&mut self, _: &[KnobName]) -> Result<Yielded, String> {
        Err("this guard steers no host, and holds no knob of one".to_owned())
    }

    /// Takes a process's word that it floods a device and paces itself. Returns the device as the
    /// control law knows it.
    ///
    /// # Errors
    /// Why it can't.
    fn paces_itself(&mut self, _: u32, _: DeviceId) -> Result<DeviceId, String> {
        Err("this guard steers no host".to_owned())
    }

    /// The end, after everything was given back: nothing is under way any more when this returns.
    fn close(self: Box<Self>) -> Left {
        Left::default()
    }
}

/// A knob that is not as the administrator has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Its device, as the control law knows it; none for a knob of the machine, or if the device
    /// is gone.
    pub(crate) device: Option<DeviceId>,
    /// As people write it: `sda.nr_requests`.
    pub(crate) label: String,
    /// The knob as the control law knows it, with its values.
    pub(crate) knob: HeldKnob,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.label, self.knob.value)?;
        self.knob.own.iter().try_for_each(|own| write!(f, " (yours: {own})"))
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
