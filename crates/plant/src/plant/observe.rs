//! An observation out of a look.

use std::collections::HashMap;

use floodwall_host::bdi;
use floodwall_knobs::Device;
use floodwall_model::DeviceId;
use floodwall_model::plant::{Actor, DeviceObservation, Observation, PlantError};
use floodwall_model::trial::DeviceSample;
use floodwall_probe::{Snapshot, SourceKind};

use super::{HostPlant, Known, lost};
use crate::attention::{Look, sees_all};
use crate::cells::ahead;
use crate::groups::Dirtied;
use crate::levels::{Level, MachineLevel, counters_of, flooded, put_down};
use crate::owner::process_name;
use crate::told::Event;
use crate::units::devices_of;

impl HostPlant {
    /// An observation from the probe's snapshot and the figures of dirty pages.
    pub(super) fn see(&mut self, snapshot: &Snapshot) -> Result<Observation, PlantError> {
        let machine = MachineLevel::read(&self.root, &mut self.buffer);
        let sees_waits =
            self.probe.source() != SourceKind::Proc && snapshot.attached >= snapshot.window / 2;
        let mut actors: HashMap<usize, Vec<Actor>> = HashMap::new();
        let mut elsewhere = 0;
        let mut dirtied = Dirtied::default();
        self.paced.look(snapshot.at);
        // The journal of this process waits for a disk as well: that is no victim to protect.
        let own = (!self.probe.has_own_numbers()).then(std::process::id);
        let others = snapshot.processes.iter().filter(|process| Some(process.pid) != own);
        for process in others.filter(|process| !process.is_flusher()) {
            let is_known = !self.probe.has_own_numbers();
            // Files that are closed at once don't tell the device. The word of its pace does.
            let told = || is_known.then(|| self.paced.unit(&self.root, process.pid)).flatten();
            let unit = process
                .device
                .or_else(told)
                .and_then(|device| Some((device, self.units.of(device)?)));
            let Some((device, index)) = unit else {
                elsewhere += process.actors().map(|actor| flooded(&actor)).sum::<u64>();
                continue;
            };
            let group =
                is_known.then(|| self.groups.of(&self.root, process.pid, snapshot.at)).flatten();
            if let (Some(group), Some(unit)) = (&group, self.units.units.get(index)) {
                dirtied.add(group, unit.id, device, process.dirtied_bytes.unwrap_or(0));
            }
            let name = is_known.then(|| process_name(process.pid));
            if let Some(unit) = self.units.units.get(index).filter(|_| is_known)
                && process.calls.keys().any(|call| call.commits())
            {
                self.priorities.commits(&self.root, process.pid, unit.id, snapshot.at);
            }
            let unit = self.units.units.get(index).filter(|_| is_known);
            let paced_by = unit.and_then(|unit| {
                self.paced.claimant(&self.root, process.pid, unit.id, || process.who())
            });
            let its = process.actors().map(|actor| Actor {
                group: group.clone(),
                process: name.clone(),
                paced_by,
                ..actor
            });
            let is_known = |actor: &Actor| sees_waits || !self.attention.is_committer(actor);
            let its = its.filter(is_known);
            actors.entry(index).or_default().extend(its);
        }
        let in_use = self.in_use();
        self.groups.look(&self.root, snapshot.at, dirtied, &in_use);
        let ended = self.priorities.look(&self.root, snapshot.at, &in_use);
        if let Some(writer) = &self.writer {
            writer.put_back_limits(&ended);
        }
        let counters: HashMap<DeviceId, DeviceSample> = snapshot
            .devices
            .iter()
            .map(|device| (device.id, device.counters.unwrap_or_default()))
            .collect();
        let its_turn = self.turn.next(self.units.units.len());
        let just_gone = std::mem::take(&mut self.just_gone);
        let mut devices = Vec::new();
        let mut come = Vec::new();
        for (index, unit) in self.units.units.iter().enumerate() {
            // Without counters the device is unused since the machine was booted.
            let used =
                unit.queues.is_empty() || unit.members.iter().any(|id| counters.contains_key(id));
            if !used || just_gone.contains(&unit.id) {
                continue;
            }
            let known = self.known.entry(unit.id).or_insert_with(|| {
                come.push(Event::Came { id: unit.id, name: unit.name.clone() });
                Known {
                    name: unit.name.clone(),
                    devices: devices_of(unit).cloned().collect(),
                    ..Known::default()
                }
            });
            let mut actors = actors.remove(&index).unwrap_or_default();
            actors.extend(self.paced.resting(unit.id));
            let mut sample = counters_of(unit, &counters);
            let before = known.level;
            known.active = !actors.is_empty()
                || sample.write_ops > 0
                || sample.in_flight > 0
                || before.is_some_and(|level| !level.is_clean());
            if known.active
                || !std::mem::replace(&mut known.asked, true)
                || its_turn(index)
                || unit.queues.is_empty()
            {
                known.level =
                    Level::read(&self.root, unit.limits.iter().map(|device| &device.number));
                let leaves_out = |device: &Device| !bdi::counts_groups(&self.root, &device.number);
                if unit.limits.iter().any(leaves_out) {
                    let groups = self.groups.backlog(&self.root, unit.id);
                    known.level = known.level.map(|level| level.with_groups(groups));
                }
            }
            if unit.queues.is_empty()
                && let (Some(before), Some(now)) = (before, known.level)
            {
                // There are no requests to count: the bytes written back stand for them.
                sample.written_bytes = now.written.saturating_sub(before.written);
                sample.in_flight = u64::from(now.writeback > 0);
            }
            devices.push(DeviceObservation {
                id: unit.id,
                kind: unit.kind,
                counters: sample,
                dirty_bytes: known.level.map(|level| level.dirty),
                writeback_bytes: known.level.map(|level| level.writeback),
                changing: self.writer.as_ref().is_some_and(|writer| writer.is_changing(unit.id)),
                actors,
            });
            if known.active
                && !std::mem::replace(&mut known.saved, true)
                && let Some(writer) = &self.writer
            {
                // Saved at its first activity, and not when the first write is due.
                writer.save(unit.id, ahead(unit));
            }
        }
        if !come.is_empty() {
            self.find_excluded();
        }
        come.into_iter().for_each(|event| self.tell(event));
        put_down(&machine, &mut devices, elsewhere, &mut self.flood);
        let is_needed = self.attention.next(&Look {
            at: snapshot.at,
            window: snapshot.window,
            sees_waits,
            devices: &devices,
            dirty: machine.backlog(),
            steers: self
                .writer
                .as_ref()
                .is_some_and(|writer| !writer.units_held().is_empty() || !in_use.is_empty()),
        });
        if is_needed {
            self.probe.resume().map_err(lost)?;
        } else {
            self.probe.pause();
        }
        Ok(Observation {
            at: snapshot.at,
            dirty_bytes: machine.dirty,
            writeback_bytes: machine.writeback,
            hard_limit_bytes: machine.hard_limit,
            background_limit_bytes: machine.background_limit,
            missed_waits: !sees_waits || !sees_all(snapshot.attached, snapshot.window),
            devices,
        })
    }
}
