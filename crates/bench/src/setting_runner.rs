//! A runner that applies a setting for a trial and restores the old values afterwards.
//!
//! ```text
//! open:  journal locked → what an earlier, killed run left in force is put back
//! run:   a guard yields its knobs → changes → journal fsynced → apply → read back
//!                 └ refused: everything as before, the trial fails
//!        ─▶ inner runner's trial ─▶ read back again → roll back
//! ```
//!
//! A trial's setting is what was read back while it was in force. An empty setting means the
//! setting in force: nothing is written for it.
//!
//! A trial may end with an error, a signal or a panic: the roll back follows. After SIGKILL the
//! journal remains. The next [`SettingRunner`] rolls it back at once, and `floodwall rollback` at
//! any time. Any other change of settings does so once the trial's longest time is over. The
//! journal stays locked throughout, so that no other floodwall changes settings during a
//! measurement. It is let go only while a guard is asked for knobs that it holds. Changes by other
//! programs are noticed and fail the trial.

mod applier;
mod error;
mod in_force;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use floodwall_host::SysRoot;
use floodwall_knobs::cell::{Cell, State};
use floodwall_knobs::{Ask, Change, Device, Plan, may_write, plan};
use floodwall_model::setting::VICTIMS_PRIORITY;
use floodwall_model::{Runner, RunnerError, Scenario, Setting, Trial, Watch};

use applier::Applier;
pub use error::SettingError;
pub use in_force::InForce;

/// A runner with settings.
pub struct SettingRunner<R: InForce> {
    inner: R,
    applier: Applier,
}

impl<R: InForce> SettingRunner<R> {
    /// Takes the journal's lock and puts back the setting of a killed run. `device` is meant where
    /// a device's knob names none. `ask` has a process that steers yield knobs. Setting `stop` ends
    /// the run.
    ///
    /// Returns what had to be put back, for people.
    ///
    /// # Errors
    /// [`SettingError::Journal`] if another process holds the journal or it can't be used.
    /// [`SettingError::NotRestored`] if an earlier run's setting can't be put back.
    pub fn open(
        mut inner: R,
        root: &SysRoot,
        journal: &Path,
        device: Option<Device>,
        ask: Ask,
        stop: Arc<AtomicBool>,
    ) -> Result<(Self, Vec<String>), SettingError> {
        let (applier, put_back) = Applier::open(root, journal, device, ask, stop)?;
        inner.reread();
        Ok((Self { inner, applier }, put_back))
    }

    /// Lets limits be tried that could hang a userspace block server (`floodwall_host::servers`),
    /// or not.
    pub fn allow_userspace_servers(&mut self, allow: bool) {
        self.applier.files.set_allow_userspace_servers(allow);
    }

    /// The runner below.
    #[must_use]
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// The runner below, to prepare it.
    #[must_use]
    pub fn inner_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Gives the runner below back and lets the journal go. A knob that could not be put back is
    /// tried once more; its trial has reported it.
    ///
    /// # Errors
    /// [`SettingError::NotRestored`].
    pub fn close(mut self) -> (R, Result<(), SettingError>) {
        let restored = self.applier.put_back();
        (self.inner, restored)
    }

    /// The effects of trying a setting, without trying it.
    ///
    /// # Errors
    /// [`SettingError::Change`], [`SettingError::NoGroup`], [`SettingError::Plan`] or
    /// [`SettingError::Apply`]: it can't be put in force here and now.
    pub fn check(&self, setting: &Setting) -> Result<Plan, SettingError> {
        let changes = self.applier.changes(setting, self.inner.groups())?;
        let changes: Vec<Change> = changes.into_iter().map(|(_, change)| change).collect();
        let plan = plan(&changes, &self.applier.files)?;
        may_write(&plan, &self.applier.files)?;
        Ok(plan)
    }
}

impl<R: InForce> SettingRunner<R> {
    /// The values in force: those that the inner runner reads, and of the changed knobs the others
    /// (another device's, a group's, threads'). A knob whose cell is kept in another file and unit,
    /// such as `bdi.max_bytes`, has no other value.
    fn in_force(&mut self, changes: &[(String, Change)]) -> Setting {
        let mut found = self.inner.reread();
        let files = &self.applier.files;
        for (name, change) in changes {
            if found.0.contains_key(name) {
                continue;
            }
            let state = Cell::of(change.knob, &change.target, files).read(files).into_value();
            let is_named =
                |state: &State| state.path.rsplit('/').next() == Some(change.knob.file_name());
            if let Some(state) = state.filter(is_named) {
                found.0.insert(name.clone(), state.value);
            }
        }
        found
    }

    /// Whether all knobs stayed the same during a trial. Threads come and go: of their priorities
    /// the common one counts.
    fn unchanged(&self, changes: &[(String, Change)], before: &Setting, after: &Setting) -> bool {
        let same = |name: &String| {
            let (Some(before), Some(after)) = (before.get(name), after.get(name)) else {
                return false;
            };
            let change = changes.iter().find(|(changed, _)| changed == name);
            before == after
                || change.is_some_and(|(_, Change { knob, target, .. })| {
                    let state =
                        |value: &str| State { path: target.path(knob), value: value.to_owned() };
                    Cell::of(knob, target, &self.applier.files).same(&state(before), &state(after))
                })
        };
        before.0.keys().eq(after.0.keys()) && before.0.keys().all(same)
    }

    fn measure(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let seconds = scenario.planned_seconds() / f64::from(scenario.timing.rounds.max(1));
        let stopped = Arc::clone(&self.applier.clock.0);
        let failed = |error: SettingError, partial| RunnerError {
            interrupted: stopped.load(Ordering::Relaxed),
            source: Box::new(error),
            partial,
        };
        let changes = self
            .applier
            .put_in_force(setting, self.inner.groups(), seconds)
            .map_err(|e| failed(e, None))?;
        let of_victims = setting.0.iter().filter(|(knob, _)| *knob == VICTIMS_PRIORITY);
        let of_victims: Setting =
            of_victims.map(|(knob, value)| (knob.clone(), value.clone())).collect();
        let before = self.in_force(&changes);
        let measured = self.inner.run(scenario, &of_victims, round, watch);
        let after = self.in_force(&changes);
        let with_setting = |trial: Trial| {
            let mut setting = before.clone();
            setting.0.extend(of_victims.0.clone());
            Trial { setting, ..trial }
        };
        match measured {
            Ok(trial) if self.unchanged(&changes, &before, &after) => Ok(with_setting(trial)),
            Ok(trial) => {
                let partial = Some(Box::new(with_setting(trial)));
                Err(failed(SettingError::ChangedMeanwhile(difference(&before, &after)), partial))
            }
            Err(error) => Err(RunnerError {
                partial: error.partial.map(|p| Box::new(with_setting(*p))),
                ..error
            }),
        }
    }
}

impl<R: InForce> Runner for SettingRunner<R> {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let measured = self.measure(scenario, setting, round, watch);
        let restored = self.applier.put_back();
        self.inner.reread();
        match restored {
            Ok(()) => measured,
            Err(error) => Err(RunnerError {
                source: Box::new(error),
                partial: measured.map_or_else(|e| e.partial, |trial| Some(Box::new(trial))),
                interrupted: false,
            }),
        }
    }

    fn refusal(&self, _: &Scenario, setting: &Setting) -> Option<String> {
        self.check(setting).err().map(|why| why.to_string())
    }
}

/// The knobs that differ, each as `knob: before → after`.
fn difference(before: &Setting, after: &Setting) -> String {
    let knobs: std::collections::BTreeSet<&String> =
        before.0.keys().chain(after.0.keys()).collect();
    let shown = |value: Option<&str>| value.unwrap_or("not there").to_owned();
    let differing = knobs.into_iter().filter(|knob| before.get(knob) != after.get(knob));
    differing
        .map(|knob| format!("{knob}: {} → {}", shown(before.get(knob)), shown(after.get(knob))))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
