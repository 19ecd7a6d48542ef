//! Dirty bytes of the machine (/proc/vmstat) and of each unit (debugfs), and a unit's counters.
//!
//! A backing device's figures cost some 20 µs. So a look reads those of active devices, and of
//! [`IN_TURN`] others.

use std::collections::HashMap;

use floodwall_host::{SysRoot, bdi};
use floodwall_model::DeviceId;
use floodwall_model::plant::{Actor, DeviceObservation};
use floodwall_model::trial::DeviceSample;

use crate::units::Unit;

/// Idle units whose figures a look reads all the same: a thousand come round in half a minute.
const IN_TURN: usize = 8;

/// The machine's figures, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineLevel {
    pub(crate) dirty: Option<u64>,
    pub(crate) writeback: Option<u64>,
    pub(crate) hard_limit: Option<u64>,
    pub(crate) background_limit: Option<u64>,
}

/// Bytes dirtied between two looks that make a device the flooded one.
const FLOODED: u64 = 1 << 20;

/// With fewer dirty bytes in the whole machine nothing is left of a flood.
const LEFT: u64 = 8 << 20;

/// The device that is flooded, and the bytes that floods dirtied for it since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flood {
    device: DeviceId,
    dirtied: u64,
}

/// The bytes that an actor dirtied as a flood. The pages of a large folio count as dirtied with
/// each commit to one of them, so an actor that commits does not count.
pub(crate) fn flooded(actor: &Actor) -> u64 {
    if actor.commits.is_empty() { actor.dirtied_bytes } else { 0 }
}

/// Estimates the flooded device's dirty pages where debugfs can't be seen: the smaller of the
/// machine's dirty bytes and the bytes that floods dirtied for this device. `elsewhere` bytes were
/// dirtied for devices that are not steered, or not known. While they are more, no other device
/// becomes the flooded one.
pub(crate) fn put_down(
    machine: &MachineLevel,
    devices: &mut [DeviceObservation],
    elsewhere: u64,
    flood: &mut Option<Flood>,
) {
    let dirtied = |d: &DeviceObservation| d.actors.iter().map(flooded).sum::<u64>();
    let all = devices.iter().map(|d| Flood { device: d.id, dirtied: dirtied(d) });
    let most = all.filter(|d| d.dirtied >= FLOODED).max_by_key(|d| d.dirtied);
    let left = machine.backlog() >= LEFT;
    let is_there = |flood: &Flood| devices.iter().any(|d| d.id == flood.device);
    let last = flood.filter(|flood| left && is_there(flood));
    *flood = match (most, last) {
        (Some(most), Some(last)) if last.device == most.device => {
            Some(Flood { dirtied: last.dirtied + most.dirtied, ..last })
        }
        (Some(most), last) if elsewhere > most.dirtied => last,
        (most, last) => most.or(last),
    };
    let Some(Flood { device, dirtied }) = *flood else { return };
    let unknown = |d: &&mut DeviceObservation| d.id == device && d.dirty_bytes.is_none();
    if let Some(device) = devices.iter_mut().find(unknown) {
        device.dirty_bytes = machine.dirty.map(|dirty| dirty.min(dirtied));
        let rest = dirtied - device.dirty_bytes.unwrap_or(0);
        device.writeback_bytes = machine.writeback.map(|writeback| writeback.min(rest));
    }
}

impl MachineLevel {
    /// Bytes dirty and under writeback; none where the kernel does not say.
    pub(crate) fn backlog(&self) -> u64 {
        self.dirty.unwrap_or(0) + self.writeback.unwrap_or(0)
    }

    pub(crate) fn read(root: &SysRoot, buffer: &mut Vec<u8>) -> Self {
        let mut levels = Self::default();
        if root.read_into("/proc/vmstat", buffer).is_err() {
            return levels;
        }
        let text = std::str::from_utf8(buffer).unwrap_or_default();
        for line in text.lines() {
            let Some((name, pages)) = line.split_once(' ') else { continue };
            let place = match name {
                "nr_dirty" => &mut levels.dirty,
                "nr_writeback" => &mut levels.writeback,
                "nr_dirty_threshold" => &mut levels.hard_limit,
                "nr_dirty_background_threshold" => &mut levels.background_limit,
                _ => continue,
            };
            *place = pages
                .trim()
                .parse::<u64>()
                .ok()
                .map(|pages| pages.saturating_mul(root.page_bytes()));
        }
        levels
    }
}

/// A unit's figures, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    /// Written back since the device appeared.
    pub(crate) written: u64,
}

impl Level {
    /// The sum over backing devices; `None` if any can't be read.
    pub(crate) fn read(
        root: &SysRoot,
        names: impl Iterator<Item = impl AsRef<str>>,
    ) -> Option<Self> {
        let mut sum = Self::default();
        for name in names {
            let stats = bdi::read_stats(root, name.as_ref());
            sum.dirty += stats.dirty_bytes.into_value()?;
            sum.writeback += stats.writeback_bytes.into_value()?;
            sum.written += stats.written_bytes.into_value().unwrap_or(0);
        }
        Some(sum)
    }

    /// Adds the bytes of control groups: dirty, and under writeback.
    pub(crate) fn with_groups(self, (dirty, writeback): (u64, u64)) -> Self {
        Self { dirty: self.dirty + dirty, writeback: self.writeback + writeback, ..self }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.dirty == 0 && self.writeback == 0
    }
}

/// The turn of the idle units.
#[derive(Debug, Default)]
pub(crate) struct Turn(usize);

impl Turn {
    pub(crate) fn next(&mut self, units: usize) -> impl Fn(usize) -> bool + use<> {
        let first = self.0;
        self.0 = if units == 0 { 0 } else { (first + IN_TURN) % units };
        move |index| (index + units - first % units.max(1)) % units.max(1) < IN_TURN
    }
}

/// The unit's counters. For an array without counters: those of its disks together.
pub(crate) fn counters_of(unit: &Unit, counters: &HashMap<DeviceId, DeviceSample>) -> DeviceSample {
    if let Some(sample) = counters.get(&unit.id) {
        return *sample;
    }
    let disks = unit.queues.iter().filter_map(|device| device.number.parse().ok());
    let samples = disks.filter_map(|id: DeviceId| counters.get(&id).copied());
    samples.reduce(DeviceSample::beside).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use floodwall_model::LatencyCounts;
    use floodwall_model::plant::DeviceKind;
    use floodwall_model::trial::DeviceSample;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn device(minor: u32, dirtied: u64, commits: &[u64]) -> DeviceObservation {
        let commits = LatencyCounts::from_values(commits.iter().copied());
        DeviceObservation {
            id: DeviceId { major: 8, minor },
            kind: DeviceKind::Unknown,
            actors: vec![Actor { dirtied_bytes: dirtied, commits, ..Actor::default() }],
            counters: DeviceSample::default(),
            dirty_bytes: None,
            writeback_bytes: None,
            changing: false,
        }
    }

    #[test]
    fn without_debugfs_the_flooded_device_has_what_floods_dirtied_for_it() {
        let mut machine = MachineLevel {
            dirty: Some(90 * MIB),
            writeback: Some(10 * MIB),
            ..MachineLevel::default()
        };
        let mut flood = None;
        let mut look = |machine: &MachineLevel, dirtied: [u64; 2], known: Option<u64>| {
            let mut devices = vec![device(0, dirtied[0], &[]), device(16, dirtied[1], &[])];
            devices[0].dirty_bytes = known;
            put_down(machine, &mut devices, 0, &mut flood);
            let levels =
                |d: &DeviceObservation| d.dirty_bytes.map(|dirty| (dirty, d.writeback_bytes));
            (levels(&devices[0]), levels(&devices[1]))
        };
        assert_eq!(look(&machine, [4096, 0], None), (None, None), "no flood");
        assert_eq!(look(&machine, [4096, 5 * MIB], None), (None, Some((5 * MIB, Some(0)))));
        assert_eq!(
            look(&machine, [4096, 0], None),
            (None, Some((5 * MIB, Some(0)))),
            "it is there still"
        );
        // In the end it is all that is dirty, and no more.
        assert_eq!(look(&machine, [4096, 90 * MIB], None), (None, Some((90 * MIB, Some(5 * MIB)))));
        assert_eq!(
            look(&machine, [4096, 90 * MIB], None),
            (None, Some((90 * MIB, Some(10 * MIB))))
        );
        assert_eq!(look(&machine, [9 * MIB, 5 * MIB], None), (Some((9 * MIB, Some(0))), None));
        assert_eq!(
            look(&machine, [9 * MIB, 0], Some(7)).0,
            Some((7, None)),
            "its own figure is better"
        );
        machine.dirty = Some(5000);
        machine.writeback = None;
        assert_eq!(look(&machine, [4096, 0], None), (None, None), "all of it is written");
        machine.dirty = Some(90 * MIB);
        assert_eq!(look(&machine, [4096, 0], None), (None, None), "of another flood");
    }

    #[test]
    fn a_flood_of_another_device_is_not_put_down_to_a_steered_one() {
        let machine = MachineLevel {
            dirty: Some(900 * MIB),
            writeback: Some(100 * MIB),
            ..MachineLevel::default()
        };
        let mut flood = None;
        let mut look = |dirtied: u64, commits: &[u64], elsewhere: u64| {
            let mut devices = vec![device(0, dirtied, commits)];
            put_down(&machine, &mut devices, elsewhere, &mut flood);
            devices[0].dirty_bytes
        };
        assert_eq!(look(2 * MIB, &[], 200 * MIB), None);
        assert_eq!(look(0, &[], 200 * MIB), None);
        assert_eq!(
            look(20 * MIB, &[1000], 0),
            None,
            "a process that commits pages of large folios"
        );
        assert_eq!(look(20 * MIB, &[], 3 * MIB), Some(20 * MIB));
        assert_eq!(look(0, &[], 30 * MIB), Some(20 * MIB), "it is there still");
        assert_eq!(look(2 * MIB, &[], 30 * MIB), Some(22 * MIB), "beside a faster flood elsewhere");
    }
}
