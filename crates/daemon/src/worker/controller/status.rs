//! A guard's status: for clients, and in a few words for `systemctl status`.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_guard::{Learnt, Level, State};
use floodwall_model::DeviceId;
use floodwall_model::units::{Rate, human_duration};

use super::memory::words;
use super::{Controller, Now, UNMET, levers, texts};
use crate::document::{Beside, Device, Paused, SCHEMA, Status};
use crate::pipe::Pause;

/// The pace of a flood in words; `None` if it is not paced.
fn paced(rate: Option<f64>) -> Option<String> {
    rate.map(|rate| format!("flood at {}", Rate(rate)))
}

impl Controller {
    /// How far the levers of a device are pulled that the guard has not left alone.
    fn pulled(&self, device: DeviceId, level: Level) -> Level {
        let is_ours = |knob| !self.plant.is_left(device, knob);
        Level {
            elevator: if is_ours("scheduler") { level.elevator } else { 0 },
            depth: if is_ours("nr_requests") { level.depth } else { 0 },
            size: if is_ours("max_sectors_kb") { level.size } else { 0 },
            wbt_off: level.wbt_off && is_ours("wbt_lat_usec"),
            ..level
        }
    }

    /// In a few words.
    pub(crate) fn line(&self, now: Now) -> String {
        match self.pause_left(now) {
            Pause::None => {}
            Pause::Endless => return "paused".into(),
            Pause::For(left) => return format!("paused for {} more", human_duration(left)),
        }
        let busy: Vec<String> = self
            .guard
            .status()
            .filter(|s| s.state != State::Free)
            .map(|s| format!("{} {}", self.plant.machine.name(s.device), s.state))
            .collect();
        let all = self.guard.status().count();
        match busy.len() {
            0 => format!("{all} devices, all free"),
            _ => format!("{all} devices; {}", busy.join(", ")),
        }
    }

    /// A device for a flood that paces itself.
    pub(super) fn beside(&mut self, now: Now, device: DeviceId) -> Beside {
        let id = device.to_string();
        let found = self.status(now).devices.into_iter().find(|device| device.id == id);
        found.map_or_else(Beside::default, |device| Beside {
            wait_us: device.pressure.map(|pressure| pressure * device.goal_us),
            base_us: device.base_us,
            levers: device.levers,
            victims: device.victims,
        })
    }

    /// The whole document.
    pub(super) fn status(&mut self, now: Now) -> Status {
        let mut devices = Vec::new();
        let mut all_held = self.plant.held();
        let known: BTreeMap<DeviceId, Learnt> = self.guard.learnt().collect();
        for status in self.guard.status() {
            let id = status.device;
            let (victims, floods) = self.guard.who(id);
            let held = all_held.remove(&id).unwrap_or_default();
            let e = status.estimate;
            // During a pause the estimate is from before it.
            let seen = self.is_measured;
            let record = self.records.get(&id);
            let since =
                record.and_then(|r| r.since).map_or(Duration::ZERO, |since| now.instant - since);
            let unmet =
                record.and_then(|r| r.harmed).is_some_and(|since| now.instant - since >= UNMET);
            devices.push(Device {
                name: self.plant.machine.name(id),
                id: id.to_string(),
                state: status.state.to_string(),
                since_s: since.as_secs_f64(),
                queue_level: status.level.queue(),
                limit_level: status.level.limit,
                levers: paced(status.pace_bytes_per_s).or(levers(self.pulled(id, status.level))),
                goal_us: e.goal.as_secs_f64() * 1e6,
                goal_is_given: e.goal_is_given,
                goal_unmet: unmet,
                pressure: e.pressure.filter(|_| seen),
                base_us: e.base.map(|d| d.as_secs_f64() * 1e6),
                drain_bytes_per_s: e.drain_bytes_per_s.filter(|_| seen),
                backlog_bytes: seen.then_some(e.backlog_bytes),
                queue_delay_us: e.queue_delay.filter(|_| seen).map(|d| d.as_secs_f64() * 1e6),
                victims,
                floods,
                paced: self.guard.spared(id),
                flood_bytes_per_s: record
                    .filter(|_| seen && e.floods)
                    .and_then(|r| r.flooded.bytes_per_s()),
                unpaced: e.unpaced.filter(|_| seen).map(|why| why.to_string()),
                raised: self.plant.raised(held.keys()),
                held: held.into_values().collect(),
                known: known.get(&id).and_then(words),
                decisions: record.map_or(0, |r| r.decisions),
                knob_writes: record.map_or(0, |r| r.knob_writes),
                last: record.and_then(|r| r.last.clone()),
            });
        }
        let paused = match self.pause_left(now) {
            Pause::None => None,
            Pause::Endless => Some(None),
            Pause::For(left) => Some(Some(left.as_secs_f64())),
        };
        let machine = &self.plant.machine;
        let paused = paused.map(|left_s| Paused { left_s, held: texts(&machine.held()) });
        Status {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            parent_pid: self.origin.parent_pid,
            uptime_s: (now.instant - self.origin.started).as_secs_f64(),
            restarts: self.origin.restarts,
            config: self.settings.file.as_ref().map(|f| f.display().to_string()),
            dry_run: self.settings.dry_run,
            p99_us: self.settings.p99.map(|d| d.as_secs_f64() * 1e6),
            mode: self.settings.mode.to_string(),
            source: machine.source().to_owned(),
            blind: machine.blind(),
            left_out: machine.left_out(),
            paused,
            devices,
            left_alone: self.left_alone.clone(),
            counts: self.counts.clone(),
        }
    }
}
