//! A plant's devices: they come, go, and may be excluded.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_model::plant::Observation;
use floodwall_probe::Snapshot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{HostPlant, Known};
use crate::identity::{DeviceIdentity, identities};
use crate::told::Event;
use crate::units::{LeftOut, Unit, Which, devices_of};

/// Devices and mounts are read again after this at the latest, in looks' time …
const REFRESH: Duration = Duration::from_secs(60);
/// … and no more often than this because of mounts: containers mount all the time.
const REFRESH_AT_MOST: Duration = Duration::from_secs(5);

impl HostPlant {
    /// The devices, including unused ones.
    #[must_use]
    pub fn units(&self) -> &[Unit] {
        &self.units.units
    }

    /// Which devices were asked for.
    #[must_use]
    pub fn which(&self) -> &Which {
        &self.which
    }

    /// Devices and mounts that are not steered, and why.
    #[must_use]
    pub fn left_out(&self) -> Vec<LeftOut> {
        let excluded = self.units.units.iter().filter(|unit| self.is_excluded(unit));
        let why =
            |unit: &Unit| LeftOut { what: unit.name.clone(), why: "it is excluded".to_owned() };
        self.units.left_out.iter().cloned().chain(excluded.map(why)).collect()
    }

    pub(super) fn find_excluded(&mut self) {
        let found =
            self.exclude.iter().filter_map(|name| floodwall_probe::device(&self.root, name).ok());
        self.excluded = found.collect();
    }

    fn is_excluded(&self, unit: &Unit) -> bool {
        self.exclude.contains(&unit.name) || !self.excluded.is_disjoint(&unit.members)
    }

    /// A device's name; its number if the device is absent.
    #[must_use]
    pub fn name(&self, id: DeviceId) -> String {
        self.units.get(id).map_or_else(|| id.to_string(), |unit| unit.name.clone())
    }

    /// Devices that are new in the observations since the last call. Each has the identity that
    /// stays after a boot, or the reason why it has none.
    pub fn take_arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
        let arrived: Vec<DeviceId> = std::mem::take(&mut self.arrived).into_iter().collect();
        if arrived.is_empty() { Vec::new() } else { identities(&self.root, &self.units, &arrived) }
    }

    /// Leaves out excluded devices, and notes those that the observation before did not have.
    pub(super) fn steered(&mut self, mut seen: Observation) -> Observation {
        if !self.exclude.is_empty() {
            let is_excluded = |id| self.units.get(id).is_some_and(|unit| self.is_excluded(unit));
            seen.devices.retain(|device| !is_excluded(device.id));
        }
        let present = seen.devices.iter().map(|device| device.id).collect();
        let before = std::mem::replace(&mut self.present, present);
        self.arrived.extend(self.present.difference(&before));
        seen
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(writer) = &self.writer {
            writer.tell(event);
        }
    }

    /// Reads devices and mounts again if they may have changed.
    pub(super) fn refresh(&mut self, snapshot: &Snapshot) {
        self.mounts_changed |= self.mounts.as_ref().is_some_and(mounts_changed);
        let age = snapshot.at.saturating_sub(self.refreshed);
        let used: BTreeSet<DeviceId> = snapshot.devices.iter().map(|device| device.id).collect();
        // A known disk that has gone, or one that was never seen, makes the plant read at once.
        let gone = self.known.keys().filter_map(|id| self.units.get(*id)).any(|unit| {
            let mut queues = unit.queues.iter().filter_map(|device| device.number.parse().ok());
            queues.any(|id| !used.contains(&id))
        });
        // If devices were named, only an absent one of them can come.
        let may_come = matches!(self.which, Which::All) || !self.units.absent.is_empty();
        let come = may_come
            && used.iter().any(|id| self.units.of(*id).is_none() && !self.ignored.contains(id));
        if !(gone || come || age > REFRESH || (self.mounts_changed && age > REFRESH_AT_MOST)) {
            return;
        }
        self.refreshed = snapshot.at;
        self.mounts_changed = false;
        // An unreadable /sys says nothing about which devices exist.
        let Some(units) = self.units.read_again(&self.root, &self.which) else { return };
        self.units = units;
        // A name, a path or a number may be another device's than before.
        self.find_excluded();
        self.ignored = used.into_iter().filter(|id| self.units.of(*id).is_none()).collect();
        self.units_changed();
    }

    /// Forgets units that have gone, or whose number another disk has.
    pub(super) fn units_changed(&mut self) {
        let mut unit_of = HashMap::new();
        for unit in &self.units.units {
            let devices = unit.queues.iter().chain(&unit.limits);
            unit_of.extend(devices.map(|device| (device.number.clone(), unit.id)));
        }
        if let Some(writer) = &self.writer {
            writer.set_units(unit_of);
        }
        let is_there = |id: &DeviceId, known: &Known| {
            self.units.get(*id).is_some_and(|unit| devices_of(unit).eq(&known.devices))
        };
        let all = self.known.iter();
        let gone: Vec<DeviceId> =
            all.filter(|(id, known)| !is_there(id, known)).map(|(id, _)| *id).collect();
        for id in gone {
            let Some(known) = self.known.remove(&id) else { continue };
            let mut limits = self.groups.unit_gone(id);
            limits.extend(self.priorities.unit_gone(id, &known.devices));
            if let Some(writer) = &self.writer {
                // Devices that were grouped anew still exist, and no unit remembers the writes to
                // them.
                writer.put_back(id, &known.devices);
                writer.put_back_limits(&limits);
            }
            self.just_gone.insert(id);
            self.tell(Event::Gone { id, name: known.name });
        }
    }
}

/// Whether anything was mounted or unmounted since the last call.
fn mounts_changed(mounts: &File) -> bool {
    let mut events = [PollFd::new(mounts, PollFlags::PRI)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut events, Some(&at_once)).is_ok_and(|n| n > 0)
}
