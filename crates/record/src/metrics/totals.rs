//! Frames and stalls added up, each at its device.

use std::collections::BTreeMap;

use floodwall_model::frame::{Frame, Machine, Process};
use floodwall_model::stall::Stall;

use super::device::Device;
use super::label::{self, OTHER, UNKNOWN};
use super::places;

/// How many series there may be.
///
/// There are 10 for the machine, 19 at most for a device, and 12 at most for each of its workloads.
/// At most `2 · workloads + 1` workloads of `devices + 1` devices have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Devices with separate series. All others are one, called `other`, without gauges. A
    /// device that was in no frame of an hour makes room.
    pub devices: usize,
    /// Workloads of a device with separate series, the heaviest. All others are one, `other`.
    pub workloads: usize,
    /// Characters of a label.
    pub label_chars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { devices: 128, workloads: 64, label_chars: 128 }
    }
}

/// A recorder's sums and newest values.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    limits: Limits,
    pub(super) devices: BTreeMap<String, Device>,
    pub(super) machine: Machine,
    pub(super) source: String,
    /// When the newest frame ended, by the wall clock, in milliseconds since 1970.
    pub(super) at_unix_ms: Option<u64>,
    /// The time that all frames took, in milliseconds.
    pub(super) elapsed_ms: u64,
    pub(super) frames: u64,
    pub(super) lost_frames: u64,
    pub(super) lost_events: u64,
}

impl Totals {
    /// Nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a frame. Gauges have its values from then on.
    pub fn frame(&mut self, frame: &Frame) {
        self.elapsed_ms = self.elapsed_ms.saturating_add(frame.window_ms);
        self.frames = self.frames.saturating_add(1);
        self.lost_events = self.lost_events.saturating_add(frame.lost_events);
        self.at_unix_ms = Some(frame.at_unix_ms);
        self.machine.clone_from(&frame.machine);
        let (at_ms, label_chars) = (self.elapsed_ms, self.limits.label_chars);
        self.source = label::of(&frame.source, label_chars);
        for device in self.devices.values_mut() {
            (device.disk, device.guard) = (None, None);
        }
        for disk in &frame.disks {
            let name = self.device_of(Some(&disk.name));
            // Gauges of several disks have no sum.
            if name != OTHER {
                self.device(name).disk(disk, frame.window_ms);
            }
        }
        for disk in frame.guard.iter().flat_map(|guard| &guard.disks) {
            if let Some(device) = self.devices.get_mut(&label::of(&disk.name, label_chars)) {
                device.guard = Some(disk.state.clone());
            }
        }
        let mut processes: BTreeMap<String, Vec<&Process>> = BTreeMap::new();
        for process in &frame.processes {
            let name = self.device_of(process.disk.as_deref());
            self.device(name.clone());
            processes.entry(name).or_default().push(process);
        }
        for (name, device) in &mut self.devices {
            let its = processes.remove(name).unwrap_or_default();
            device.processes(at_ms, frame.window_ms, its.into_iter(), label_chars);
        }
        // At the end: a device that comes back in this very frame goes on with its sums.
        self.devices.retain(|_, device| at_ms - device.used_ms < places::KEPT_MS);
    }

    /// Notes that a stall has begun. It is over with [`Self::stall_ended`].
    pub fn stall_began(&mut self, stall: &Stall) {
        let name = self.device_of(Some(&stall.disk));
        self.device(name).is_stalled = true;
    }

    /// Adds a stall that is over.
    pub fn stall_ended(&mut self, stall: &Stall) {
        let (at_ms, label_chars) = (self.elapsed_ms, self.limits.label_chars);
        let name = self.device_of(Some(&stall.disk));
        self.device(name).stall(at_ms, stall, label_chars);
    }

    /// Adds frames that could not be recorded.
    pub fn frames_lost(&mut self, frames: u64) {
        self.lost_frames = self.lost_frames.saturating_add(frames);
    }

    /// The device that a disk is counted at: itself if there is room.
    fn device_of(&self, disk: Option<&str>) -> String {
        let name = label::of(disk.unwrap_or(UNKNOWN), self.limits.label_chars);
        let devices = self.devices.len() - usize::from(self.devices.contains_key(OTHER));
        if self.devices.contains_key(&name) || devices < self.limits.devices {
            name
        } else {
            OTHER.to_owned()
        }
    }

    fn device(&mut self, name: String) -> &mut Device {
        let new = || Device::new(self.limits.workloads);
        let device = self.devices.entry(name).or_insert_with(new);
        device.used_ms = self.elapsed_ms;
        device
    }
}
