//! This host as a runner that can change settings: what `compare` and `tune` open before they
//! measure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use floodwall_bench::{BenchError, HostRunner, SettingError, SettingRunner, space};
use floodwall_host::SysRoot;
use floodwall_knobs::Device;
use floodwall_model::{Scenario, Setting};
use floodwall_report::schema::Run;
use floodwall_tune::contest::Contender;

use crate::commands::bench::{Begin, ScenarioArgs, document};
use crate::commands::lab::Measured;
use crate::commands::settings::held;
use crate::exit::UsageError;
use crate::output::notice;
use crate::progress::Show;

/// Where journals are.
const JOURNAL: &str = "/var/lib/floodwall/journal";

/// Where measurements are made.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct WhereArgs {
    /// Directory on the device to measure.
    #[arg(default_value = ".", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Try limits also where they could hang a process that serves a block device of this machine
    /// (FW045).
    #[arg(long)]
    pub(crate) allow_userspace_servers: bool,
    /// Where journals are kept; /var/lib/floodwall/journal if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
}

/// A host that is ready to measure.
pub(crate) struct Host {
    pub(crate) runner: SettingRunner<HostRunner>,
    pub(crate) root: SysRoot,
    /// The device of knobs that name none.
    pub(crate) device: Option<Device>,
    /// With its sizes settled.
    pub(crate) scenario: Scenario,
    pub(crate) warnings: Vec<String>,
    /// The device, if it is a lab's.
    lab: Option<Measured>,
    started_at: Duration,
    origin: Instant,
}

impl Host {
    /// Opens the directory, its device, the journal; settles the scenario's sizes. Nothing is
    /// written yet, but that what a killed run left is put back. `check` refuses settings of the
    /// command line: before the room that they would need is looked for.
    ///
    /// # Errors
    /// Every fault that can be known before the first byte is written.
    pub(crate) fn open(
        place: &WhereArgs,
        loads: &ScenarioArgs,
        show: Show,
        origin: Instant,
        stop: &Arc<AtomicBool>,
        check: impl FnOnce(&SysRoot, Option<&Device>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let (scenario, mut warnings) = loads.scenario()?;
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let root = SysRoot::live()?;
        let user = loads.user(&scenario)?;
        let options = loads.options(user, origin, stop);
        let runner = HostRunner::open(root.clone(), &place.dir, options)?;
        let device = runner
            .location()
            .queue_device
            .map(|id| Device::find(&root, &id.to_string()))
            .transpose();
        let device = device.map_err(|e| UsageError(e.to_string()))?;
        check(&root, device.as_ref())?;
        let journal = place.journal.as_deref().unwrap_or(Path::new(JOURNAL));
        let opened = SettingRunner::open(
            runner,
            &root,
            journal,
            device.clone(),
            held::ask,
            Arc::clone(stop),
        );
        let (mut runner, put_back) = opened.map_err(plain)?;
        runner.allow_userspace_servers(place.allow_userspace_servers);
        warnings.extend(put_back);
        let inner = runner.inner();
        let Begin { scenario, warnings, lab } =
            Begin::of(inner, &place.dir, warnings, show, || {
                Ok(space::fit(&scenario, inner.room(loads.size)?)?)
            })?;
        Ok(Self { runner, root, device, scenario, warnings, lab, started_at, origin })
    }

    /// Says something at once and keeps it for the result.
    pub(crate) fn warn(&mut self, warning: String) {
        notice(&format!("warning: {warning}"));
        self.warnings.push(warning);
    }

    /// Says what plans of settings say of them: a limit that does not reach some writes, a priority
    /// that no elevator honours. A setting that can't be tried says so when its turn comes.
    ///
    /// # Errors
    /// [`UsageError`] for a knob of a group that the benchmark does not have: no turn changes that.
    pub(crate) fn warn_of_plans(&mut self, contenders: &[Contender]) -> Result<(), UsageError> {
        let notes = |setting: &Setting| self.runner.check(setting).map(|plan| plan.notes);
        for warning in plan_notes(contenders, notes)? {
            self.warn(warning);
        }
        Ok(())
    }

    /// Refuses settings that can't be put in force here and now.
    ///
    /// # Errors
    /// Why not, for the first of them.
    pub(crate) fn refuse_settings(&self, contenders: &[Contender]) -> anyhow::Result<()> {
        contenders.iter().try_for_each(|named| {
            let planned = self.runner.check(&named.setting).map_err(plain);
            planned.map(drop).with_context(|| format!("--set {}", named.name))
        })
    }

    /// Removes every file, lets go of device and journal, and says what a result says of the run.
    /// `failure` is why it ended early.
    pub(crate) fn close(
        self,
        command: &str,
        failure: Option<&anyhow::Error>,
    ) -> (Run, Option<anyhow::Error>) {
        let (host, missing) = (self.runner.inner().facts().clone(), self.runner.inner().missing());
        let first_operation = self.runner.inner().first_operation();
        let (runner, restored) = self.runner.close();
        let closed = runner.close();
        let mut warnings = self.warnings;
        warnings.extend(self.lab.and_then(|lab| lab.warning()));
        let mut run = document::run_facts(document::Facts {
            host: &host,
            missing,
            warnings,
            failure,
            started_at: self.started_at,
            seconds: self.origin.elapsed().as_secs_f64(),
            first_operation,
        });
        run.command = command.into();
        let trouble = restored.map_err(plain).and(closed.map_err(anyhow::Error::from)).err();
        (run, trouble)
    }
}

/// The notes of the settings' plans, each behind its setting's name.
fn plan_notes(
    contenders: &[Contender],
    notes: impl Fn(&Setting) -> Result<Vec<String>, SettingError>,
) -> Result<Vec<String>, UsageError> {
    let mut all = Vec::new();
    for named in contenders {
        match notes(&named.setting) {
            Ok(notes) => {
                all.extend(notes.into_iter().map(|note| format!("{}: {note}", named.name)))
            }
            Err(error @ SettingError::NoGroup { .. }) => return Err(UsageError(error.to_string())),
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Takes the error out that says which status the program ends with.
pub(crate) fn plain(error: SettingError) -> anyhow::Error {
    match error {
        SettingError::Plan(e) => e.into(),
        SettingError::Apply(e) => e.into(),
        SettingError::Journal(e) if e.lacks_privilege() => anyhow::Error::from(e)
            .context("changing settings needs root: run this as root, outside any container"),
        SettingError::Journal(e) => e.into(),
        wrong @ (SettingError::Change(_) | SettingError::NoGroup { .. }) => {
            UsageError(wrong.to_string()).into()
        }
        other => other.into(),
    }
}

/// Why a run that was stopped or failed ended, as an error; a signal explains whatever else went
/// wrong at the same time.
pub(crate) fn failure(stopped: Option<String>, stop: &AtomicBool) -> Option<anyhow::Error> {
    stopped.map(|why| {
        if stop.load(Ordering::Relaxed) {
            BenchError::Interrupted.into()
        } else {
            anyhow::anyhow!(why)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_told_with_the_name_of_their_setting() {
        let named = |name: &str, knob: &str| {
            let setting = [(knob.to_owned(), "1".to_owned())].into_iter().collect();
            Contender { name: name.to_owned(), setting }
        };
        let all = [named("plain", "a"), named("paced", "b"), named("refused", "c")];
        let notes = |setting: &Setting| match setting.get("c") {
            Some("2") => Err(SettingError::NoGroup {
                name: "flood:io.max".to_owned(),
                group: "flood".to_owned(),
                why: "--same-group keeps victims and floods in one group".to_owned(),
            }),
            Some(_) => Err(SettingError::ChangedMeanwhile("no".to_owned())),
            None => Ok(setting.get("b").map(|_| "too slow".to_owned()).into_iter().collect()),
        };
        assert_eq!(plan_notes(&all, notes).unwrap(), ["paced: too slow"]);
        // What no turn changes is refused before anything is measured.
        let groupless = [("c".to_owned(), "2".to_owned())].into_iter().collect();
        let groupless = Contender { name: "own".to_owned(), setting: groupless };
        let refused = plan_notes(&[all[1].clone(), groupless], notes).unwrap_err();
        insta::assert_snapshot!(refused.0, @"flood:io.max can't be set: the benchmark has no \
            control group 'flood' here (--same-group keeps victims and floods in one group); leave \
            --same-group or the knob out");
    }
}
