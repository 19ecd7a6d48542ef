//! The table itself, one file a scope. Sources were read in Linux 2.6.18 to 6.18; "seen" marks what
//! a 6.18 kernel was seen to do.

mod bdi;
mod cgroup;
mod elevator;
mod global;
mod priority;
mod queue;
mod scsi;

use super::knob::Knob;

/// All parts, in the order of the documentation.
pub(super) static ALL: [&[Knob]; 7] = [
    global::KNOBS,
    queue::KNOBS,
    elevator::KNOBS,
    scsi::KNOBS,
    bdi::KNOBS,
    cgroup::KNOBS,
    priority::KNOBS,
];
