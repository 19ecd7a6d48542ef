//! Whether a device may get another elevator, which would change its tunables too. When it gets one
//! is decided in `decide`.

use floodwall_model::plant::KnobWrite;
use floodwall_model::{DeviceId, Setting};

use super::{ELEVATOR, Held, follows_elevator};
use crate::report::Report;

impl Held {
    /// Whether an elevator may be tried. One that was refused is not tried again. None is tried
    /// that would overwrite a value of another program.
    pub(crate) fn may_switch_elevator(&self, name: &str) -> bool {
        self.has(ELEVATOR) && !self.unknown.contains(name) && !self.would_overwrite()
    }

    /// Whether a new elevator would overwrite a value that another program has set.
    pub(super) fn would_overwrite(&self) -> bool {
        self.theirs.iter().any(|knob| follows_elevator(knob))
    }

    /// Finds knobs that another program has set and that a new elevator would change, and leaves
    /// them alone.
    pub(super) fn find_theirs(&mut self, device: DeviceId, reads: &Setting, report: &mut Report) {
        let follows: Vec<String> =
            self.own.0.keys().filter(|knob| follows_elevator(knob)).cloned().collect();
        for knob in follows {
            if let (Some(why), Some(value)) = (self.somebody_elses(&knob, reads), reads.get(&knob))
            {
                let write = KnobWrite { device: Some(device), value: value.to_owned(), knob };
                self.leave_to_them(write, reads, why, report);
            }
        }
    }
}
