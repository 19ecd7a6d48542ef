//! How much is dirty: of the machine (/proc/vmstat) and of each unit (debugfs).
//!
//! A backing device's figures cost some 20 µs, so that of a thousand only those are read that something happened to, and [`IN_TURN`] of the others.

use floodwall_host::{SysRoot, bdi};
use floodwall_model::DeviceId;
use floodwall_model::plant::DeviceObservation;

/// Units that nothing happened to and that are read all the same, per look: a thousand come round in half a minute.
const IN_TURN: usize = 8;

/// The machine's figures, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) dirty: Option<u64>,
    pub(crate) writeback: Option<u64>,
    pub(crate) hard_limit: Option<u64>,
    pub(crate) background_limit: Option<u64>,
}

/// Bytes dirtied between two looks that make their writer's device the one that is flooded.
const FLOODED: u64 = 1 << 20;

/// With less dirty in the whole machine nothing is left of a flood.
const LEFT: u64 = 8 << 20;

/// Where no device's own dirty pages are to be had (without debugfs), all of the machine's are taken for those of the device that was flooded last: most of them are. `flooded` is that device, from one look
/// to the next.
pub(crate) fn put_down(machine: &Machine, devices: &mut [DeviceObservation], flooded: &mut Option<DeviceId>) {
    let dirtied = |d: &DeviceObservation| d.actors.iter().map(|a| a.dirtied_bytes).sum::<u64>();
    let most = devices.iter().filter(|d| dirtied(d) >= FLOODED).max_by_key(|d| dirtied(d));
    let is_there = |id: &DeviceId| devices.iter().any(|d| d.id == *id);
    let left = machine.dirty.unwrap_or(0) + machine.writeback.unwrap_or(0) >= LEFT;
    // What it had made is written, or it is gone.
    *flooded = most.map(|d| d.id).or(flooded.filter(|id| left && is_there(id)));
    let unknown = |d: &&mut DeviceObservation| Some(d.id) == *flooded && d.dirty_bytes.is_none();
    if let Some(device) = devices.iter_mut().find(unknown) {
        (device.dirty_bytes, device.writeback_bytes) = (machine.dirty, machine.writeback);
    }
}

impl Machine {
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
            *place = pages.trim().parse::<u64>().ok().map(|pages| pages.saturating_mul(root.page_bytes()));
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
    pub(crate) fn read(root: &SysRoot, names: impl Iterator<Item = impl AsRef<str>>) -> Option<Self> {
        let mut sum = Self::default();
        for name in names {
            let stats = bdi::read_stats(root, name.as_ref());
            sum.dirty += stats.dirty_bytes.into_value()?;
            sum.writeback += stats.writeback_bytes.into_value()?;
            sum.written += stats.written_bytes.into_value().unwrap_or(0);
        }
        Some(sum)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.dirty == 0 && self.writeback == 0
    }
}

/// Which of the quiet units are read this time.
#[derive(Debug, Default)]
pub(crate) struct Turn(usize);

impl Turn {
    pub(crate) fn next(&mut self, units: usize) -> impl Fn(usize) -> bool + use<> {
        let first = self.0;
        self.0 = if units == 0 { 0 } else { (first + IN_TURN) % units };
        move |index| (index + units - first % units.max(1)) % units.max(1) < IN_TURN
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::plant::Actor;
    use floodwall_model::trial::DeviceSample;

    use super::*;

    #[test]
    fn without_debugfs_all_that_is_dirty_is_the_flooded_devices() {
        let mut machine = Machine { dirty: Some(90 << 20), writeback: Some(10 << 20), ..Machine::default() };
        let device = |minor, dirtied_bytes| DeviceObservation {
            id: DeviceId { major: 8, minor },
            actors: vec![Actor { dirtied_bytes, ..Actor::default() }],
            counters: DeviceSample::default(),
            dirty_bytes: None,
            writeback_bytes: None,
            changing: false,
        };
        let mut flooded = None;
        let mut look = |machine: &Machine, dirtied: [u64; 2], known: Option<u64>| {
            let mut devices = vec![device(0, dirtied[0]), device(16, dirtied[1])];
            devices[0].dirty_bytes = known;
            put_down(machine, &mut devices, &mut flooded);
            (devices[0].dirty_bytes, devices[1].dirty_bytes)
        };
        assert_eq!(look(&machine, [4096, 0], None), (None, None), "nobody floods");
        assert_eq!(look(&machine, [4096, 5 << 20], None), (None, Some(90 << 20)));
        assert_eq!(
            look(&machine, [4096, 0], None),
            (None, Some(90 << 20)),
            "what it has made is there still"
        );
        assert_eq!(look(&machine, [9 << 20, 5 << 20], None), (Some(90 << 20), None));
        assert_eq!(look(&machine, [9 << 20, 0], Some(7)), (Some(7), None), "its own figure is better");
        machine.dirty = Some(5000);
        machine.writeback = None;
        assert_eq!(look(&machine, [4096, 0], None), (None, None), "all of it is written");
        machine.dirty = Some(90 << 20);
        assert_eq!(look(&machine, [4096, 0], None), (None, None), "somebody else's");
    }
}
