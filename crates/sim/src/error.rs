//! What the simulator can't do, and why.

use floodwall_device::SpecError;
use floodwall_model::Bytes;

use crate::fs::FsKind;
use crate::kernel::Generation;
use crate::limits::KnobError;

/// Why a machine can't be built or a scenario can't be run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A part of a scenario is beyond the model.
    #[error("{part}: {why}")]
    Scenario {
        /// Which victim or flood.
        part: String,
        /// Why, and what to write instead.
        why: String,
    },
    /// Rounds or durations that make no sense.
    #[error("scenario '{scenario}': {problem}")]
    Timing {
        /// Its name.
        scenario: String,
        /// The problem, and a value that is accepted.
        problem: String,
    },
    /// A writeback knob that the kernel did not have, or with a value that it would not take.
    #[error(transparent)]
    Knob(#[from] KnobError),
    /// A queue's knob that the kernel did not have.
    #[error("Linux {generation} has no {knob}; its queues have {had}")]
    NoKnob {
        /// The kernel.
        generation: Generation,
        /// The knob.
        knob: String,
        /// What there is.
        had: String,
    },
    /// A queue's knob where there is no queue.
    #[error("an NFS mount has no request queue, so there is no {knob}; leave it out")]
    NoQueue {
        /// The knob.
        knob: String,
    },
    /// A control group's knob where it would hold nothing.
    #[error("{knob} is not possible here: {why}")]
    NoGroup {
        /// The knob.
        knob: String,
        /// Why, and what to do instead.
        why: &'static str,
    },
    /// A knob of something that this machine does not have.
    #[error("there is no {knob} here: it needs {needs}; leave it out")]
    NoSubject {
        /// The knob.
        knob: &'static str,
        /// What would have it.
        needs: &'static str,
    },
    /// A knob that the model takes with the setting that a machine starts under, and no later.
    #[error(
        "{knob} can't change while the simulated machine runs; give it with the setting it \
         starts under"
    )]
    Fixed {
        /// The knob.
        knob: String,
    },
    /// A knob that exists and that the model does not look at.
    #[error(
        "the model does not have {knob}; leave it out (it knows vm.dirty_*, bdi.*, scheduler, \
         iosched.*, nr_requests, max_sectors_kb, read_ahead_kb, wbt_lat_usec, device.queue_depth, \
         victim.ioprio, journal.ioprio, io.max and memory.high of victim: and flood:)"
    )]
    NotModelled {
        /// The knob.
        knob: String,
    },
    /// A priority under bfq beside limits of a control group.
    #[error(
        "{knob} under bfq together with {group} is not modelled: the kernel's bfq weighs a \
         priority within its control group, and the model's has no groups; leave out one of them, \
         or take another scheduler"
    )]
    PriorityInGroups {
        /// The priority.
        knob: &'static str,
        /// The group's knob.
        group: String,
    },
    /// A queue's knob with a value that is not one.
    #[error("{knob} can't be '{value}': {takes}")]
    Value {
        /// The knob.
        knob: String,
        /// The given value.
        value: String,
        /// The accepted values.
        takes: String,
    },
    /// An elevator that the kernel did not have, or a tunable that it did not take.
    #[error("{0}")]
    Elevator(String),
    /// The kernel did not have this filesystem.
    #[error("Linux {generation} had no {fs}; use xfs, {other} or raw")]
    Filesystem {
        /// The kernel.
        generation: Generation,
        /// The requested filesystem.
        fs: FsKind,
        /// Other filesystems that the kernel had, separated by commas.
        other: String,
    },
    /// RAM that does not hold what may be dirty in it.
    #[error(
        "RAM of {ram} is smaller than what may be dirty in it ({limit}); give more RAM or a lower \
         vm.dirty_bytes"
    )]
    Memory {
        /// RAM.
        ram: Bytes,
        /// The hard limit.
        limit: Bytes,
    },
    /// RAM too small for a kernel at all.
    #[error("RAM of {ram} is too little for a machine; give at least {least}")]
    TooLittleRam {
        /// The given RAM.
        ram: Bytes,
        /// The least RAM.
        least: Bytes,
    },
    /// The device can't be built.
    #[error("device: {0}")]
    Device(#[from] SpecError),
    /// The scenario's files do not fit on the device.
    #[error(
        "scenario '{scenario}' needs {needed} and the device has {capacity}; make its files \
         smaller or the device larger"
    )]
    Space {
        /// Its name.
        scenario: String,
        /// The needed space.
        needed: Bytes,
        /// What there is.
        capacity: Bytes,
    },
    /// The watcher asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// The device reported errors while it was measured.
    #[error("the device failed {0} requests: nothing measured on it counts")]
    DeviceErrors(u64),
}
