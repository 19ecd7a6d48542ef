//! One unit.

use std::collections::BTreeSet;

use floodwall_knobs::Device;
use floodwall_model::DeviceId;
use floodwall_model::plant::DeviceKind;

/// A device as a controller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its number: the queue's if there is one, else the array's, else that of the mount (`0:45`).
    pub id: DeviceId,
    /// The kernel's name of it, or the mount's source.
    pub name: String,
    /// What its disks are.
    pub kind: DeviceKind,
    /// Every device that belongs to it, itself included.
    pub members: BTreeSet<DeviceId>,
    /// Those with a queue: their knobs are the unit's.
    pub queues: Vec<Device>,
    /// Backing devices whose limits are the unit's, as in /sys/class/bdi.
    pub limits: Vec<Device>,
    /// Where it is mounted, for people.
    pub mounts: Vec<String>,
}

/// A device or mount that is not steered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The device or mount point.
    pub what: String,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// A unit's queues and backing devices.
pub(crate) fn devices_of(unit: &Unit) -> impl Iterator<Item = &Device> {
    unit.queues.iter().chain(&unit.limits)
}
