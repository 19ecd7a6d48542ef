//! The parts of a frame that belong to a disk, or to a unit.

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::workload::Workload;

use crate::commands::recorded::{bare, is_called};

/// A disk, a unit, both, or neither.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// A disk, by the kernel's name or its number.
    device: Option<String>,
    /// A part of the name of a unit, container or pod.
    unit: Option<String>,
}

impl Selection {
    /// Of the command line.
    pub(super) fn new(device: Option<&str>, unit: Option<&str>) -> Self {
        Self { device: device.map(|name| bare(name).to_owned()), unit: unit.map(str::to_owned) }
    }

    /// The part of a frame that is selected; `None` if there is no such part.
    pub(super) fn of(&self, mut frame: Frame) -> Option<Frame> {
        if let Some(device) = &self.device {
            frame.disks.retain(|disk| is_called(disk, device));
            let name = frame.disks.first().map_or(device, |disk| &disk.name);
            frame.processes.retain(|process| process.disk.as_ref() == Some(name));
        }
        if let Some(unit) = &self.unit {
            frame.processes.retain(|process| has(&process.workload, unit));
            let processes = &frame.processes;
            frame.disks.retain(|disk| processes.iter().any(|process| uses(process, disk)));
        }
        if let Some(guard) = frame.guard.as_mut().filter(|_| self.is_some()) {
            let disks = &frame.disks;
            guard.disks.retain(|guarded| disks.iter().any(|disk| disk.name == guarded.name));
        }
        let is_there = match self {
            Self { unit: Some(_), .. } => !frame.processes.is_empty(),
            Self { device: Some(_), .. } => !frame.disks.is_empty() || !frame.processes.is_empty(),
            _ => true,
        };
        is_there.then_some(frame)
    }

    /// Whether a frame has the disk that is selected, if one is.
    pub(super) fn has_disk(&self, frame: &Frame) -> bool {
        self.device.as_ref().is_none_or(|device| {
            frame.disks.iter().any(|disk| is_called(disk, device))
                || frame.processes.iter().any(|process| process.disk.as_ref() == Some(device))
        })
    }

    fn is_some(&self) -> bool {
        self.device.is_some() || self.unit.is_some()
    }
}

fn has(workload: &Workload, part: &str) -> bool {
    let names = [&workload.unit, &workload.container, &workload.pod];
    names.into_iter().flatten().any(|name| name.contains(part))
}

fn uses(process: &Process, disk: &Disk) -> bool {
    process.disk.as_ref() == Some(&disk.name)
}
