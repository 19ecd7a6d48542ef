//! The axes of a sweep and their values.

use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Scenario, Setting};

use super::digest::Key;
use crate::fs::FsKind;
use crate::kernel::Generation;

/// A value with the name that the file gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// As the file spells it.
    pub label: String,
    /// The value behind the name.
    pub value: T,
    /// Digest of the value: changes when the file behind a name does.
    pub digest: Key,
}

impl<T: std::fmt::Debug> Named<T> {
    pub(crate) fn new(label: impl Into<String>, value: T) -> Self {
        let digest = Key::of(&format!("{value:?}"));
        Self { label: label.into(), value, digest }
    }
}

/// A knob that varies.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobAxis {
    /// The knob.
    pub knob: String,
    /// Its values as the kernel's file takes them; `None` leaves it at its default.
    pub values: Vec<Option<String>>,
}

/// All axes; none is empty. Their order here is that of the cells' numbers: the last varies
/// fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Axes {
    /// Devices.
    pub devices: Vec<Named<DeviceSpec>>,
    /// Scenarios, with the sweep's timing.
    pub scenarios: Vec<Named<Scenario>>,
    /// Kernels.
    pub kernels: Vec<Named<Generation>>,
    /// RAM.
    pub ram: Vec<Bytes>,
    /// Filesystems.
    pub filesystems: Vec<FsKind>,
    /// CPUs.
    pub cpus: Vec<u32>,
    /// Timer ticks a second; `None`: as kernels of the generation were mostly built.
    pub hz: Vec<Option<u32>>,
    /// Commands that the device takes at once; `None`: as many as it can use.
    pub queue_depths: Vec<Option<u32>>,
    /// Queues with an elevator each.
    pub member_queues: Vec<u32>,
    /// How much of the device is used; `None`: all.
    pub capacities: Vec<Option<Bytes>>,
    /// Seeds of offsets.
    pub seeds: Vec<u64>,
    /// Settings with a name; a single empty one if the file has none.
    pub settings: Vec<Named<Setting>>,
    /// Knobs, each an axis.
    pub knobs: Vec<KnobAxis>,
}

impl Axes {
    /// Lengths of the axes that make up a machine and what runs on it: those of a group.
    pub(crate) fn machine_lengths(&self) -> [usize; 11] {
        [
            self.devices.len(),
            self.scenarios.len(),
            self.kernels.len(),
            self.ram.len(),
            self.filesystems.len(),
            self.cpus.len(),
            self.hz.len(),
            self.queue_depths.len(),
            self.member_queues.len(),
            self.capacities.len(),
            self.seeds.len(),
        ]
    }

    /// Lengths of the axes that make up a setting.
    pub(crate) fn setting_lengths(&self) -> Vec<usize> {
        std::iter::once(self.settings.len())
            .chain(self.knobs.iter().map(|k| k.values.len()))
            .collect()
    }

    /// Names and lengths of the axes that vary, in order.
    #[must_use]
    pub fn varying(&self) -> Vec<(&str, usize)> {
        const MACHINE: [&str; 11] = [
            "device",
            "scenario",
            "kernel",
            "ram",
            "fs",
            "cpus",
            "hz",
            "queue_depth",
            "member_queues",
            "capacity",
            "seed",
        ];
        let settings = std::iter::once("setting").chain(self.knobs.iter().map(|k| k.knob.as_str()));
        let machine = MACHINE.into_iter().zip(self.machine_lengths());
        machine.chain(settings.zip(self.setting_lengths())).filter(|(_, n)| *n > 1).collect()
    }
}

/// How many cells the grid of such axes has; `None` beyond 2⁶⁴.
pub(crate) fn product(lengths: &[usize]) -> Option<u64> {
    lengths.iter().try_fold(1u64, |product, n| product.checked_mul(*n as u64))
}

/// The index on each axis of a number, the last varying fastest.
pub(crate) fn indexes<const N: usize>(mut number: u64, lengths: [usize; N]) -> [usize; N] {
    let mut at = [0; N];
    for (index, length) in at.iter_mut().zip(lengths).rev() {
        *index = (number % length as u64) as usize;
        number /= length as u64;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_varies_fastest() {
        let all: Vec<[usize; 3]> = (0..12).map(|n| indexes(n, [2, 3, 2])).collect();
        assert_eq!(all[..4], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]);
        assert_eq!(all[11], [1, 2, 1]);
        assert_eq!(product(&[2, 3, 2]), Some(12));
        assert_eq!(product(&[usize::MAX, 3]), None);
    }
}
