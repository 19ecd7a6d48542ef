//! The limits of control groups and the priorities of processes. They come and go with their group
//! or process, and are read when an encounter begins.

use std::time::Duration;

use floodwall_model::plant::{KnobWrite, Plant, PlantError};
use floodwall_model::setting::{JOURNAL_PRIORITY, is_passing};
use floodwall_model::{DeviceId, Reading, Setting};

use super::Held;
use crate::config::LIMITS_AGAIN;
use crate::pace::limits;
use crate::raise::is_unset;
use crate::report::Report;

impl Held {
    /// Reads the limits of a control group: once an encounter, and again after [`LIMITS_AGAIN`] if
    /// one was absent. A unit that starts again has a new group of the same path, and an
    /// administrator may have set other limits.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant's knobs can't be read.
    pub(crate) fn meet_group<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        now: Duration,
        group: &str,
    ) -> Result<(), PlantError> {
        let has_all = limits(group).iter().all(|limit| self.own.get(limit).is_some());
        if self.groups.get(group).is_some_and(|then| has_all || now - *then < LIMITS_AGAIN) {
            return Ok(());
        }
        self.meet(plant, device, &limits(group))?;
        self.groups.insert(group.to_owned(), now);
        Ok(())
    }

    /// Takes in the administrator's values of limits and priorities that are not written.
    fn meet<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        knobs: &[String],
    ) -> Result<(), PlantError> {
        let knobs: Vec<String> =
            knobs.iter().filter(|knob| !self.written.contains_key(*knob)).cloned().collect();
        for (knob, reading) in knobs.iter().zip(plant.read_passing(device, &knobs)?) {
            match reading {
                Reading::Value(value) => self.own.0.insert(knob.clone(), value),
                Reading::Absent(_) => self.own.0.remove(knob),
                Reading::Unreadable(_) => None,
            };
        }
        Ok(())
    }

    /// Reads the priorities of processes that are not known yet, every [`LIMITS_AGAIN`].
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant's knobs can't be read.
    pub(crate) fn meet_processes<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        now: Duration,
        priorities: &[String],
    ) -> Result<(), PlantError> {
        let is_known = |knob: &String| knob == JOURNAL_PRIORITY || self.own.get(knob).is_some();
        if priorities.iter().all(is_known) || now.saturating_sub(self.met) < LIMITS_AGAIN {
            return Ok(());
        }
        self.met = now;
        self.meet(plant, device, priorities)
    }

    /// Those of these priorities that the guard may raise: they are there, and no administrator has
    /// set them.
    pub(crate) fn raisable(&self, priorities: Vec<String>) -> Vec<String> {
        priorities.into_iter().filter(|knob| self.has(knob) && is_unset(knob, &self.own)).collect()
    }

    /// Reads the written limits and priorities again, every [`LIMITS_AGAIN`]. One that reads
    /// another value belongs to another program: `systemctl daemon-reload` sets `memory.high`
    /// anew. A pace without it fills the machine's dirty limit.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the plant's knobs can't be read.
    pub(crate) fn check_limits<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        now: Duration,
        report: &mut Report,
    ) -> Result<(), PlantError> {
        let limits: Vec<String> =
            self.written.keys().filter(|knob| is_passing(knob)).cloned().collect();
        if limits.is_empty() || now.saturating_sub(self.checked) < LIMITS_AGAIN {
            return Ok(());
        }
        self.checked = now;
        let readings = plant.read_passing(device, &limits)?;
        for (limit, reading) in limits.into_iter().zip(readings) {
            let value = match reading {
                Reading::Value(value) => value,
                Reading::Absent(_) => {
                    self.lose(&limit);
                    continue;
                }
                Reading::Unreadable(_) => continue,
            };
            let reads = [(limit.clone(), value)].into_iter().collect();
            if let Some(why) = self.somebody_elses(&limit, &reads) {
                let value = self.written(&limit).unwrap_or_default().to_owned();
                let write = KnobWrite { device: Some(device), knob: limit, value };
                self.leave_to_them(write, &reads, why, report);
            }
        }
        Ok(())
    }

    /// A control group or a process has gone, and its limit or priority with it.
    pub(super) fn lose(&mut self, limit: &str) {
        self.written.remove(limit);
        self.own.0.remove(limit);
    }

    /// Forgets the control groups and processes of an encounter that is over, once their limits and
    /// priorities are back.
    pub(crate) fn forget_passing(&mut self) {
        if self.written.keys().any(|knob| is_passing(knob)) {
            return;
        }
        self.groups.clear();
        self.own.0.retain(|knob, _| !is_passing(knob));
        let stays = |knob: &String| !is_passing(knob) || self.yielded.contains(knob);
        self.left_alone.retain(stays);
        self.theirs.retain(stays);
        self.later.retain(|knob, _| !is_passing(knob));
        self.late.retain(|knob, _| !is_passing(knob));
    }

    /// Tells limits and priorities that can't be read from those that have gone. Both are missing
    /// among all knobs.
    pub(super) fn find_unreadable<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        reads: &mut Setting,
    ) -> Result<(), PlantError> {
        self.unreadable.clear();
        let all = self.written.keys().chain(self.failed.iter().map(|(write, _)| &write.knob));
        let is_missing = |knob: &&String| is_passing(knob) && reads.get(knob).is_none();
        let missing: Vec<String> = all.filter(is_missing).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let readings = plant.read_passing(device, &missing)?;
        for (knob, reading) in missing.into_iter().zip(readings) {
            match reading {
                Reading::Value(value) => drop(reads.0.insert(knob, value)),
                Reading::Absent(_) => {}
                Reading::Unreadable(why) => drop(self.unreadable.insert(knob, why)),
            }
        }
        Ok(())
    }
}
