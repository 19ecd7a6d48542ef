//! Writes that fail: when they are tried again, and when a knob is given up.

use std::time::Duration;

use floodwall_model::Setting;
use floodwall_model::plant::{KnobWrite, PlantError};

use super::{ELEVATOR, Held, Written, follows_elevator};
use crate::config::{RETRIES, RETRY};
use crate::report::Report;

/// How long after so many failures a write is tried again.
fn pause(failures: u32) -> Duration {
    RETRY * 2u32.pow(failures.min(RETRIES))
}

impl Held {
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

    pub(super) fn give_up(&mut self, knob: &str, error: PlantError, report: &mut Report) {
        self.left_alone.insert(knob.to_owned());
        self.written.remove(knob);
        self.moved.remove(knob);
        report.left_alone.push(error);
    }
}
