//! Writes that fail, and knobs that another program has set or has asked for.

use std::time::Duration;

use floodwall_model::plant::{KnobWrite, PlantError};
use floodwall_model::setting::is_priority;
use floodwall_model::{DeviceId, Setting};

use super::{ELEVATOR, Held, REQUESTS, Written, follows_elevator};
use crate::config::{RETRIES, RETRY};
use crate::report::Report;

/// How long after so many failures a write is tried again.
fn pause(failures: u32) -> Duration {
    RETRY * 2u32.pow(failures.min(RETRIES))
}

impl Held {
    /// Why a knob belongs to another program; `None` if it does not.
    pub(super) fn somebody_elses<'a>(&'a self, knob: &str, reads: &'a Setting) -> Option<String> {
        // Single threads of a process may differ: they come and go.
        let common =
            |value: &'a str| if is_priority(knob) { value.split(' ').next() } else { Some(value) };
        let (found, expected) =
            (reads.get(knob).and_then(common), self.expected(knob).and_then(common));
        (found != expected).then(|| {
            let (found, expected) = (found.unwrap_or("nothing"), expected.unwrap_or("nothing"));
            format!("it reads {found}, not {expected} as it was left: somebody else has set it")
        })
    }

    /// Finds knobs that another program has set and that a new elevator would change, and leaves
    /// them alone.
    pub(super) fn find_theirs(&mut self, device: DeviceId, reads: &Setting, report: &mut Report) {
        let follows: Vec<String> =
            self.own.0.keys().filter(|knob| follows_elevator(knob)).cloned().collect();
        for knob in follows {
            if let (Some(why), Some(value)) = (self.somebody_elses(&knob, reads), reads.get(&knob))
            {
                let write = KnobWrite { device: Some(device), value: value.to_owned(), knob };
                self.leave_to_them(write, reads, why, report);
            }
        }
    }

    /// Whether a new elevator would overwrite a value that another program has set.
    pub(super) fn would_overwrite(&self) -> bool {
        self.theirs.iter().any(|knob| follows_elevator(knob))
    }

    /// Leaves a knob to the program that has set it. If an elevator would change it, its value
    /// counts as the administrator's. It then comes back with the administrator's elevator.
    pub(super) fn leave_to_them(
        &mut self,
        write: KnobWrite,
        reads: &Setting,
        why: String,
        report: &mut Report,
    ) {
        let knob = write.knob.clone();
        if let Some(theirs) =
            reads.get(&knob).filter(|_| knob == ELEVATOR || follows_elevator(&knob))
        {
            self.own.0.insert(knob.clone(), theirs.to_owned());
        }
        self.theirs.insert(knob.clone());
        self.give_up(&knob, PlantError::Refused { write, why }, report);
    }

    /// Leaves a knob to the program that has asked for it. The plant puts it back, with the knobs
    /// that it had moved.
    pub(crate) fn yield_knob(&mut self, knob: &str) {
        if knob == ELEVATOR || knob == REQUESTS {
            self.unread = false;
            self.moved.retain(|knob, _| !follows_elevator(knob));
        }
        self.written.remove(knob);
        self.moved.remove(knob);
        self.later.remove(knob);
        self.theirs.insert(knob.to_owned());
        self.left_alone.insert(knob.to_owned());
        self.yielded.insert(knob.to_owned());
    }

    /// A wanted value could not be written.
    pub(super) fn not_written(
        &mut self,
        write: KnobWrite,
        now: Duration,
        error: PlantError,
        report: &mut Report,
    ) {
        let KnobWrite { knob, value, .. } = write;
        if let PlantError::Lost { .. } = error {
            let (times, again) = self.later.entry(knob).or_default();
            *again = now + pause(*times);
            *times += 1;
            if *times == 1 {
                report.left_alone.push(error);
            }
        } else if knob == ELEVATOR {
            self.unknown.insert(value);
        } else if let Some(elevator) = self.written(ELEVATOR).filter(|_| follows_elevator(&knob)) {
            // The elevator does not take the value, such as so many requests: it is not tried
            // again.
            self.unknown.insert(elevator.to_owned());
        } else {
            // Not tried again. The value that is in force already is still taken back.
            self.left_alone.insert(knob);
            report.left_alone.push(error);
        }
    }

    /// Learns of writes that failed after the plant had accepted them. Such a knob reads the value
    /// from before, not one of another program.
    pub(super) fn learn_failures(&mut self, now: Duration, reads: &Setting, report: &mut Report) {
        for (write, error) in std::mem::take(&mut self.failed) {
            let knob = write.knob.clone();
            let Some(found) = reads.get(&knob).map(str::to_owned) else {
                if self.unreadable.contains_key(&knob) {
                    self.failed.push((write, error));
                }
                continue;
            };
            let own = self.own.get(&knob).map(str::to_owned);
            self.moved.remove(&knob);
            if own.as_ref() == Some(&found) {
                self.written.remove(&knob);
            } else {
                let failures = self.late.get(&knob).copied().unwrap_or(0);
                let written = Written { value: found, failures, again: Duration::ZERO };
                self.written.insert(knob.clone(), written);
            }
            if own.as_ref() != Some(&write.value) {
                self.not_written(write, now, error, report);
            } else if self.written.contains_key(&knob) {
                *self.late.entry(knob.clone()).or_default() += 1;
                self.could_not_take_back(&knob, now, error, report);
            }
        }
    }

    /// Tries again later, each time after twice as long. Reports the first failure and the last.
    pub(super) fn could_not_take_back(
        &mut self,
        knob: &str,
        now: Duration,
        error: PlantError,
        report: &mut Report,
    ) {
        let Some(written) = self.written.get_mut(knob) else {
            self.moved.remove(knob);
            report.left_alone.push(error);
            return;
        };
        written.failures += 1;
        written.again = now + pause(written.failures - 1);
        let failures = written.failures;
        // A lost journal, or a knob that can't be read for now, is no fault of the knob.
        if failures >= RETRIES && !matches!(error, PlantError::Lost { .. }) {
            let error = match error {
                PlantError::Refused { write, why } => PlantError::Refused {
                    write,
                    why: format!("{why}; tried {failures} times, write it yourself"),
                },
                other => other,
            };
            self.give_up(knob, error, report);
        } else if failures == 1 {
            report.left_alone.push(error);
        }
    }

    fn give_up(&mut self, knob: &str, error: PlantError, report: &mut Report) {
        self.left_alone.insert(knob.to_owned());
        self.written.remove(knob);
        self.moved.remove(knob);
        report.left_alone.push(error);
    }
}
