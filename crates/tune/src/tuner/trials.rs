//! One trial of a search: repeated where it was disturbed, or where the setting in force failed.

use std::time::Duration;

use floodwall_model::{PhaseKind, Trial};

use super::{Outcome, Search, Stage, Stop, Turn};

/// Trials in a row that fail until it may be the device and not the settings.
const FAILURES: u32 = 3;
/// After this many disturbed repetitions in a row no trial is repeated until one is undisturbed:
/// the disturbance is there to stay.
pub(super) const IN_VAIN: u32 = 2;

impl Search<'_> {
    /// Runs a trial; a disturbed one is repeated once. A failure is the candidate's, unless nothing
    /// works any more. The setting in force is needed for every comparison: its failed trial is
    /// repeated once, and a second failure ends the search.
    pub(super) fn trial(
        &mut self,
        outcome: &mut Outcome,
        i: usize,
        stage: Stage,
        phases: &[PhaseKind],
        measure_s: f64,
    ) -> Result<(), Stop> {
        let mut scenario = self.scenario.clone();
        scenario.phases = phases.to_vec();
        scenario.timing.measure = Duration::from_secs_f64(measure_s.max(1.0).floor());
        let (mut repeated, mut failed) = (false, false);
        loop {
            if self.watch.inner.stop() {
                return Err(Stop { why: "interrupted".into(), interrupted: true });
            }
            let (round, spent_s) = (self.round, self.now());
            let candidate = &mut outcome.candidates[i];
            (self.tell)(Turn { stage, round, name: &candidate.name, spent_s });
            self.watch.begin();
            self.trials_run += 1;
            match self.runner.run(&scenario, &candidate.setting, round, &mut self.watch) {
                Ok(trial) => {
                    self.failures = 0;
                    self.spent_on_trials += length_s(&trial);
                    match self.watch.verdict(&trial) {
                        Some(_) if !repeated && self.in_vain < IN_VAIN => {
                            repeated = true;
                            candidate.disturbed.push(trial);
                            continue;
                        }
                        // Disturbed again is how it is here: counted, and said.
                        Some(why) => {
                            self.in_vain += u32::from(repeated);
                            let name = &candidate.name;
                            self.watch.inner.warn(&format!(
                                "round {round}, '{name}': {why}; the trial counts all the same"
                            ));
                        }
                        None => self.in_vain = 0,
                    }
                    let trials = if stage == Stage::Final {
                        &mut candidate.final_trials
                    } else {
                        &mut candidate.trials
                    };
                    trials.push(trial);
                    return Ok(());
                }
                Err(error) => {
                    let why = error.source.to_string();
                    // The phases until then are kept, and do not count.
                    candidate
                        .disturbed
                        .extend(error.partial.map(|p| *p).filter(|p| !p.phases.is_empty()));
                    if error.interrupted {
                        return Err(Stop { why, interrupted: true });
                    }
                    self.failures += 1;
                    if i == 0 && !failed {
                        failed = true;
                        let name = &candidate.name;
                        self.watch
                            .inner
                            .warn(&format!("'{name}' failed and is tried once more: {why}"));
                        continue;
                    }
                    self.watch.inner.warn(&format!("'{}' is out: {why}", candidate.name));
                    candidate.failure = Some(why.clone());
                    if self.failures < FAILURES && i == 0 {
                        let why = format!("the setting in force could not be measured: {why}");
                        return Err(Stop { why, interrupted: false });
                    }
                    if self.failures < FAILURES {
                        return Ok(());
                    }
                    if i > 0 && stage == Stage::Race {
                        // The settings, or the device? The first setting has run once.
                        self.trial(outcome, 0, stage, phases, measure_s)?;
                        return Ok(());
                    }
                    let why =
                        format!("{} trials in a row failed; the last one: {why}", self.failures);
                    return Err(Stop { why, interrupted: false });
                }
            }
        }
    }
}

/// From the begin of a trial to the end of its last phase.
fn length_s(trial: &Trial) -> f64 {
    trial.phases.iter().map(|p| p.start_s + p.seconds).fold(0.0, f64::max)
}
