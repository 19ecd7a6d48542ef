//! The controller's record of its decisions: the history, the log's lines, counts, goals that can't
//! be met.

use std::collections::BTreeMap;

use floodwall_guard::config::HARMED;
use floodwall_guard::{Report, State};
use floodwall_model::DeviceId;
use floodwall_model::plant::PlantError;
use floodwall_model::units::human_duration;

use super::{Controller, Now, UNMET, levers};
use crate::document::{Entry, LeftAlone};
use crate::log::Priority;

/// Whether something is done for victims.
fn protects(state: State) -> bool {
    matches!(state, State::Protect | State::Probe | State::Pace)
}

impl Controller {
    /// Into the history and the log.
    pub(super) fn note(&mut self, now: Now, report: Report, otherwise: &str) {
        let mut writes: BTreeMap<Option<DeviceId>, Vec<String>> = BTreeMap::new();
        for (device, text) in self.plant.take_written() {
            writes.entry(device).or_default().push(text);
        }
        let pretended = self.settings.dry_run;
        for decision in report.decisions {
            let id = decision.device;
            self.encounter_ended |= decision.from != State::Watch && decision.to == State::Free;
            let written = writes.remove(&Some(id)).unwrap_or_default();
            self.counts.decisions += 1;
            self.counts.knob_writes += written.len() as u64;
            let spares = decision.to == State::Watch && !self.guard.spared(id).is_empty();
            let begins = protects(decision.to) && !protects(decision.from) || spares;
            let (victims, floods) = if begins { self.guard.who(id) } else { Default::default() };
            let entry = Entry {
                at_unix_s: now.unix_s,
                device: Some(self.plant.machine.name(id)),
                from: Some(decision.from.to_string()),
                to: Some(decision.to.to_string()),
                levers: levers(decision.level),
                writes: written,
                pretended,
                victims,
                floods,
                why: decision.why,
            };
            let record = self.records.entry(id).or_default();
            record.decisions += 1;
            record.knob_writes += entry.writes.len() as u64;
            if decision.from != decision.to || record.since.is_none() {
                (record.state, record.since) = (decision.to, Some(now.instant));
            }
            record.last = Some(entry.clone());
            self.keep(Priority::Notice, entry);
        }
        for (id, written) in writes {
            self.counts.knob_writes += written.len() as u64;
            let state = id.map(|id| {
                let record = self.records.entry(id).or_default();
                record.knob_writes += written.len() as u64;
                record.state.to_string()
            });
            let entry = Entry {
                at_unix_s: now.unix_s,
                device: id.map(|id| self.plant.machine.name(id)),
                from: state.clone(),
                to: state,
                writes: written,
                pretended,
                why: otherwise.to_owned(),
                ..Entry::default()
            };
            self.keep(Priority::Info, entry);
        }
        for error in report.left_alone {
            let mut left = LeftAlone { why: error.to_string(), ..LeftAlone::default() };
            if let PlantError::Refused { write, why } = &error {
                self.plant.leave(write.device, &write.knob);
                left.device = write.device.map(|id| self.plant.machine.name(id));
                left.knob = Some(write.knob.clone());
                left.why.clone_from(why);
            }
            self.say(now, Priority::Warning, format!("{error}: left alone from now on"));
            self.left_alone.push(left);
        }
    }

    /// The last event of each device about which a decision was made.
    pub(super) fn note_last(&mut self, now: Now, why: &str) {
        for last in self.records.values_mut().filter_map(|record| record.last.as_mut()) {
            let device = last.device.take();
            *last =
                Entry { at_unix_s: now.unix_s, device, why: why.to_owned(), ..Entry::default() };
        }
    }

    /// Goals that can't be met are said once an encounter.
    pub(super) fn watch_goals(&mut self, now: Now) {
        let mut unmet = Vec::new();
        for status in self.guard.status() {
            let record = self.records.entry(status.device).or_default();
            record.since.get_or_insert(now.instant);
            record.flooded.add(status.estimate.flooded_bytes, status.estimate.tick);
            let protects = protects(status.state);
            let harmed = protects && status.estimate.pressure.is_some_and(|p| p > HARMED);
            if !protects {
                record.unmet_said = false;
            }
            if !harmed {
                record.harmed = None;
                continue;
            }
            let since = *record.harmed.get_or_insert(now.instant);
            if now.instant - since >= UNMET && !record.unmet_said {
                record.unmet_said = true;
                unmet.push((status.device, status.estimate.goal));
            }
        }
        let there: Vec<DeviceId> = self.guard.status().map(|s| s.device).collect();
        if there.len() < self.records.len() {
            self.records.retain(|id, _| there.contains(id));
        }
        for (id, goal) in unmet {
            let name = self.plant.machine.name(id);
            let goal = human_duration(goal);
            let said = if self.settings.dry_run {
                let s = UNMET.as_secs();
                format!(
                    "{name}: victims have waited for more than the goal of {goal} for {s} s; this \
                     is a dry run, so nothing was done about it"
                )
            } else {
                format!(
                    "{name}: the goal of {goal} can't be met with any lever; the best that there \
                     is stays in force"
                )
            };
            self.say(now, Priority::Warning, said);
        }
    }
}
