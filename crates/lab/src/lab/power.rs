//! Power cuts.

use std::sync::atomic::AtomicBool;

use floodwall_device::DeviceSpec;

use super::Lab;
use super::info::{LabInfo, info};
use super::up::attach;
use crate::control::{self, Answer, PowerCut, Request};
use crate::error::LabError;
use crate::teardown;

impl Lab {
    /// Cuts a device's power. Acknowledged data in a volatile cache that were not flushed are lost,
    /// requests in flight fail, and so do all requests until [`Self::powerup`].
    ///
    /// # Errors
    /// [`LabError::Power`] if it has none.
    pub fn powercut(&self, name: &str) -> Result<PowerCut, LabError> {
        if !self.stats(name)?.power {
            return Err(LabError::Power {
                name: name.into(),
                state: "has no power already; 'powerup' gives it back",
            });
        }
        let state = self.find(name)?;
        match control::ask(name, &state.control(), &Request::PowerCut)? {
            Answer::PowerCut(cut) => Ok(cut),
            _ => Err(LabError::NoAnswer { name: name.into() }),
        }
    }

    /// Gives a device its power back, as a booting machine would find it. Its filesystem is
    /// unmounted, the loop device is a new one, and its original filesystem is mounted again.
    ///
    /// # Errors
    /// [`LabError::Power`] if it has power; [`LabError::Busy`] if a process still uses the dead
    /// filesystem.
    pub fn powerup(&self, name: &str) -> Result<LabInfo, LabError> {
        if self.stats(name)?.power {
            return Err(LabError::Power {
                name: name.into(),
                state: "has power; 'powercut' takes it",
            });
        }
        let state = self.find(name)?;
        let spec = state.spec()?;
        teardown::free_devices(&state, &spec.file_name(), false)?;
        control::ask(name, &state.control(), &Request::PowerUp)?;
        let profile = DeviceSpec::parse(&spec.text)?.build(spec.size.0, spec.seed)?.profile();
        let never = AtomicBool::new(false);
        attach(&state, &spec, profile.rotational, profile.volatile_cache, &never, false)?;
        Ok(info(&state))
    }
}
