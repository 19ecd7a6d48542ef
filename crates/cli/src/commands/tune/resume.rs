//! `--resume`: the trials of a stored search, if it was made here.
//!
//! ```text
//! stored result ─▶ same loads, same device, same RAM, every knob as it was? ─┬ no: what differs, knob by knob, and nothing is measured
//!                                                                           └ yes ─▶ its trials, without those that say nothing
//! ```
//!
//! A trial counts for a setting by what it was compared with. Under other knobs, on another disk or beside another flood it would be compared with
//! something else, and nobody could tell afterwards.

use std::path::Path;
use std::time::Duration;

use floodwall_model::{Scenario, Setting, Trial};
use floodwall_report::schema::contest::pick;
use floodwall_report::schema::{Document, Run};
use floodwall_tune::tuner::Earlier;
use serde_json::Value;

use crate::commands::bench::document::{Facts, run_facts};
use crate::commands::compare::host::Host;
use crate::exit::UsageError;

/// Values that follow from the memory that is free at the moment.
const MOVING: [&str; 2] = ["bdi.max_bytes", "bdi.min_bytes"];

/// Reads a stored search.
pub(super) fn read(path: &Path) -> anyhow::Result<Document> {
    let usage = |why: String| UsageError(format!("--resume '{}': {why}", path.display()));
    let json = std::fs::read_to_string(path).map_err(|e| usage(e.to_string()))?;
    let document = Document::read(&json).map_err(|e| usage(e.to_string()))?;
    if document.contest.is_none() {
        return Err(usage("it is a result of a single setting; give one of floodwall tune".into()).into());
    }
    Ok(document)
}

/// What was tried before. Trials of an earlier final have served: they count like any other now.
pub(super) fn earlier(stored: &Document) -> anyhow::Result<Vec<Earlier>> {
    let contenders = stored.contest.iter().flat_map(|c| &c.contenders);
    let all: Vec<Earlier> = contenders
        .map(|c| {
            let counted: Vec<usize> = c.trials.iter().copied().filter(|i| !c.disturbed.contains(i)).collect();
            let trials = pick(&stored.trials, &counted).into_iter().filter(says_something).collect();
            Earlier { setting: c.setting.clone(), trials }
        })
        .filter(|e| !e.trials.is_empty())
        .collect();
    if all.is_empty() {
        return Err(
            UsageError("--resume: the stored result has no complete trial to go on from".into()).into()
        );
    }
    Ok(all)
}

/// Whether a trial has figures: a file may have been edited, or cut by hand.
fn says_something(trial: &Trial) -> bool {
    let sound = |seconds: f64| seconds.is_finite() && seconds > 0.0;
    !trial.phases.is_empty()
        && trial.phases.iter().all(|p| {
            sound(p.seconds)
                && p.burst.is_none_or(|b| sound(b.seconds))
                && p.intervals.iter().all(|i| sound(i.seconds))
        })
}

/// Where a search is about to run.
pub(super) struct Here<'a> {
    pub(super) run: &'a Run,
    pub(super) scenario: &'a Scenario,
    /// Every knob as it reads now.
    pub(super) in_force: &'a Setting,
}

/// What a host is, as a result says it.
pub(super) fn run_of(host: &Host) -> Run {
    run_facts(Facts {
        host: host.rig.inner().facts(),
        missing: Vec::new(),
        warnings: Vec::new(),
        failure: None,
        started_at: Duration::ZERO,
        seconds: 0.0,
        first_operation: None,
    })
}

impl Here<'_> {
    /// Whether a stored search was made here; what differs without making it worthless.
    ///
    /// # Errors
    /// [`UsageError`]: everything that differs.
    pub(super) fn check(&self, stored: &Document) -> anyhow::Result<Vec<String>> {
        let (ours, theirs) = (self.run, &stored.run);
        let mut wrong = Vec::new();
        let mut same = |what: &str, here: Option<String>, there: Option<String>| {
            if here != there {
                let text = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
                wrong.push(format!("{what} is {} here and was {}", text(here), text(there)));
            }
        };
        let device = |run: &Run, of: fn(&floodwall_report::schema::ResultDevice) -> Option<String>| {
            run.device.as_ref().and_then(of)
        };
        same("the device", device(ours, |d| Some(d.name.clone())), device(theirs, |d| Some(d.name.clone())));
        same("its model", device(ours, |d| d.model.clone()), device(theirs, |d| d.model.clone()));
        let size = |d: &floodwall_report::schema::ResultDevice| d.size_bytes.map(|b| b.to_string());
        same("its size in bytes", device(ours, size), device(theirs, size));
        let filesystem = |run: &Run| run.filesystem.as_ref().map(|f| f.kind.clone());
        same("the filesystem", filesystem(ours), filesystem(theirs));
        let ram = |run: &Run| run.host.ram_bytes.map(|b| floodwall_model::Bytes(b).to_string());
        same("RAM", ram(ours), ram(theirs));
        let scenario = serde_json::to_value(self.scenario)?;
        for (what, key) in [("victims", "victims"), ("floods", "floods"), ("burst", "burst_bytes")] {
            if load(&scenario, key) != load(&stored.scenario, key) {
                wrong.push(format!("the scenario's {what} differ"));
            }
        }
        let before = reference_setting(stored);
        for (knob, value) in before.0.iter().filter(|(knob, _)| !MOVING.contains(&knob.as_str())) {
            if let Some(now) = self.in_force.get(knob)
                && now != value
            {
                wrong.push(format!("{knob} is {now} here and was {value}"));
            }
        }
        if !wrong.is_empty() {
            let what = wrong.join("; ");
            let remedy = "put it back as it was, or begin anew without --resume";
            return Err(UsageError(format!(
                "--resume: the stored trials are from another situation: {what}; {remedy}"
            ))
            .into());
        }
        let mut warnings = Vec::new();
        let mut differs = |what: &str, here: Option<&String>, there: Option<&String>| {
            if let (Some(here), Some(there)) = (here, there)
                && here != there
            {
                warnings.push(format!("--resume: {what} is {here} here and was {there}"));
            }
        };
        differs("the kernel", ours.host.kernel.as_ref(), theirs.host.kernel.as_ref());
        differs("floodwall", Some(&ours.floodwall_version), Some(&theirs.floodwall_version));
        Ok(warnings)
    }
}

/// Loads without how large their files are: that follows from the space that is free.
fn load(scenario: &Value, key: &str) -> Option<Value> {
    let mut part = scenario.get(key).cloned()?;
    for one in part.as_array_mut().into_iter().flatten() {
        if let Some(table) = one.as_object_mut() {
            table.remove("size_bytes");
        }
    }
    Some(part)
}

/// What was in force under the stored reference's first trial.
fn reference_setting(stored: &Document) -> Setting {
    let first = stored.contest.iter().flat_map(|c| &c.contenders).find(|c| c.setting.is_empty());
    let index = first.and_then(|c| c.trials.first());
    index.and_then(|i| stored.trials.get(*i)).map(|t| t.setting.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use floodwall_model::scenario;
    use floodwall_report::schema::contest::{Contender, Contest};
    use floodwall_report::schema::{ResultDevice, ResultHost};

    use super::*;

    fn scenario() -> Scenario {
        scenario::builtin("copy-vs-database").unwrap().unwrap()
    }

    fn run(device: &str) -> Run {
        Run {
            host: ResultHost {
                kernel: Some("6.18".into()),
                ram_bytes: Some(8 << 30),
                ..ResultHost::default()
            },
            device: Some(ResultDevice {
                name: device.into(),
                model: Some("DISK".into()),
                ..ResultDevice::default()
            }),
            ..Run::default()
        }
    }

    fn setting(depth: &str) -> Setting {
        [("nr_requests", depth), ("bdi.max_bytes", depth)]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into_iter()
            .collect()
    }

    fn stored(device: &str, depth: &str, scenario: &Scenario) -> Document {
        let trial = Trial { setting: setting(depth), round: 1, phases: Vec::new() };
        let reference = Contender { name: "default".into(), trials: vec![0], ..Contender::default() };
        let contest = Contest { contenders: vec![reference], ..Contest::default() };
        Document::of_contest(run(device), scenario, vec![trial], contest).unwrap()
    }

    fn check(stored: &Document) -> Result<Vec<String>, String> {
        let (run, scenario) = (run("sda"), scenario());
        let here = Here { run: &run, scenario: &scenario, in_force: &setting("64") };
        here.check(stored).map_err(|e| e.to_string())
    }

    #[test]
    fn the_same_place_is_taken_and_file_sizes_do_not_matter() {
        assert_eq!(check(&stored("sda", "64", &scenario())), Ok(vec![]));
        let mut other = scenario();
        other.floods[0].size = Some(floodwall_model::Bytes::gib(3));
        assert_eq!(check(&stored("sda", "64", &other)), Ok(vec![]));
    }

    #[test]
    fn whatever_else_differs_is_named_knob_by_knob() {
        let said = check(&stored("sdb", "128", &scenario())).unwrap_err();
        assert!(said.contains("the device is sda here and was sdb"), "{said}");
        assert!(said.contains("nr_requests is 64 here and was 128"), "{said}");
        assert!(!said.contains("bdi.max_bytes"), "{said}");
        let mut other = scenario();
        other.victims[0].threads = 9;
        assert!(check(&stored("sda", "64", &other)).unwrap_err().contains("victims differ"));
        let mut newer = stored("sda", "64", &scenario());
        newer.run.host.kernel = Some("7.0".into());
        assert!(check(&newer).unwrap()[0].contains("the kernel is 6.18 here and was 7.0"));
    }

    #[test]
    fn trials_without_figures_are_left_out() {
        let empty = stored("sda", "64", &scenario());
        assert!(earlier(&empty).unwrap_err().to_string().contains("no complete trial"));
    }
}
