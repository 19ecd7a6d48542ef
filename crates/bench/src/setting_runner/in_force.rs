//! Runners whose settings can be changed while they are open.

use floodwall_model::{Runner, Setting};

use crate::HostRunner;
use crate::groups::Groups;

/// A runner whose knobs can be changed from outside.
pub trait InForce: Runner {
    /// Reads the knob values in force again.
    fn reread(&mut self) -> Setting;

    /// The control groups of its victims and floods, which settings name `victim` and `flood`.
    ///
    /// # Errors
    /// The reason why the groups are missing, for people.
    fn groups(&self) -> Result<&Groups, &str> {
        Err("its victims and floods have none")
    }
}

impl InForce for HostRunner {
    fn reread(&mut self) -> Setting {
        self.reread_setting();
        self.setting().clone()
    }

    fn groups(&self) -> Result<&Groups, &str> {
        HostRunner::groups(self)
    }
}
