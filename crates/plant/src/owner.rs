//! The owner of a knob, by which writes find their lane and held knobs are named.

use floodwall_knobs::Target;
use floodwall_knobs::catalogue::{Knob, Scope};
use floodwall_model::setting::PROCESS;

/// The owner of a knob. A device is named by its number, as knobs has it. A limit of a control
/// group is named by its file's path below the mount, after a slash, and so are priorities:
/// `/pid:4711/ioprio`, `/8:0/journal.ioprio`. `None` is the machine.
pub(crate) type Owner = Option<String>;

pub(crate) fn owner(knob: &Knob, target: &Target) -> Owner {
    match target {
        Target::Group { path, .. } => Some(format!("/{path}/{}", knob.name)),
        Target::Process(process) => Some(format!("/{}/{}", process_name(process.pid), knob.name)),
        Target::Device(device) if knob.scope == Scope::Journal => {
            Some(format!("/{}/{}", device.number, knob.name))
        }
        other => other.device().map(|device| device.number.clone()),
    }
}

/// Whether an owner is a limit of a control group or a priority.
pub(crate) fn is_limit(owner: &Owner) -> bool {
    owner.as_ref().is_some_and(|owner| owner.starts_with('/'))
}

/// The name of a process in knobs: `pid:4711`.
pub(crate) fn process_name(pid: u32) -> String {
    format!("{PROCESS}{pid}")
}
