//! `--resume`: the trials of a stored search, if it was made here.
//!
//! ```text
//! stored result ─▶ same loads, same device, same RAM, every knob as it was?
//!                    ├ no: what differs, knob by knob, and nothing is measured
//!                    └ yes ─▶ its trials, without those that say nothing
//! ```
//!
//! A trial counts for a setting by comparison with others. Under other knobs, on another disk or
//! beside another flood the comparison would be another, and later readers could not tell.

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
use crate::input;

/// Values that follow from the memory that is free at the moment.
const MOVING: [&str; 2] = ["bdi.max_bytes", "bdi.min_bytes"];

/// Reads a stored search.
pub(super) fn read(path: &Path) -> anyhow::Result<Document> {
    let usage = |why: String| UsageError(format!("--resume '{}': {why}", path.display()));
    let json = input::result(path).and_then(input::text).map_err(|e| usage(e.to_string()))?;
    let document = Document::read(&json).map_err(|e| usage(e.to_string()))?;
    if document.contest.is_none() {
        return Err(
            usage("it is a result of a single setting; give one of floodwall tune".into()).into()
        );
    }
    Ok(document)
}

/// The settings tried before. Trials of an earlier final have served: they count like any other
/// now.
pub(super) fn earlier(stored: &Document) -> anyhow::Result<Vec<Earlier>> {
    let contenders = stored.contest.iter().flat_map(|c| &c.contenders);
    let all: Vec<Earlier> = contenders
        .map(|c| {
            let counted: Vec<usize> =
                c.trials.iter().copied().filter(|i| !c.disturbed.contains(i)).collect();
            let (trials, mute): (Vec<Trial>, Vec<Trial>) =
                pick(&stored.trials, &counted).into_iter().partition(says_something);
            // What does not count is kept all the same: the new result may take the old one's
            // place.
            let disturbed = [pick(&stored.trials, &c.disturbed), mute].concat();
            Earlier { name: c.name.clone(), setting: c.setting.clone(), trials, disturbed }
        })
        .filter(|e| !e.trials.is_empty() || !e.disturbed.is_empty())
        .collect();
    if all.iter().all(|e| e.trials.is_empty()) {
        return Err(UsageError(
            "--resume: the stored result has no complete trial to go on from".into(),
        )
        .into());
    }
    Ok(all)
}

/// Refuses to replace a result that has more trials: measurements are not lost, whatever went
/// wrong.
pub(super) fn keeps_all(stored: &Document, new: &Document) -> anyhow::Result<()> {
    let (before, now) = (stored.trials.len(), new.trials.len());
    if now < before {
        return Err(UsageError(format!(
            "--out: the resumed result has {before} trials and the new one {now}, so it is left as \
             it is; give another file"
        ))
        .into());
    }
    Ok(())
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
        host: host.runner.inner().facts(),
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
        let device =
            |run: &Run, of: fn(&floodwall_report::schema::ResultDevice) -> Option<String>| {
                run.device.as_ref().and_then(of)
            };
        same(
            "the device",
            device(ours, |d| Some(d.name.clone())),
            device(theirs, |d| Some(d.name.clone())),
        );
        same("its model", device(ours, |d| d.model.clone()), device(theirs, |d| d.model.clone()));
        let size = |d: &floodwall_report::schema::ResultDevice| d.size_bytes.map(|b| b.to_string());
        same("its size in bytes", device(ours, size), device(theirs, size));
        let filesystem = |run: &Run| run.filesystem.as_ref().map(|f| f.kind.clone());
        same("the filesystem", filesystem(ours), filesystem(theirs));
        let ram = |run: &Run| run.host.ram_bytes.map(|b| floodwall_model::Bytes(b).to_string());
        same("RAM", ram(ours), ram(theirs));
        let scenario = serde_json::to_value(self.scenario)?;
        for (what, key) in [("victims", "victims"), ("floods", "floods"), ("burst", "burst_bytes")]
        {
            if load(&scenario, key) != load(&stored.scenario, key) {
                wrong.push(format!("the scenario's {what} differ"));
            }
        }
        let Some(before) = reference_setting(stored) else {
            let why = "the stored result has no trial of the setting in force, so nobody can tell \
                under which settings it was measured; \
                       begin anew without --resume";
            return Err(UsageError(format!("--resume: {why}")).into());
        };
        for (knob, value) in before.0.iter().filter(|(knob, _)| !MOVING.contains(&knob.as_str())) {
            match self.in_force.get(knob) {
                Some(now) if now == value => {}
                Some(now) => wrong.push(format!("{knob} is {now} here and was {value}")),
                None => wrong.push(format!("{knob} is not there and was {value}")),
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

/// The setting in force under the first trial of the stored reference that has one.
fn reference_setting(stored: &Document) -> Option<&Setting> {
    let first = stored.contest.iter().flat_map(|c| &c.contenders).find(|c| c.setting.is_empty())?;
    let trials = first.trials.iter().chain(&first.disturbed).filter_map(|i| stored.trials.get(*i));
    trials.map(|t| &t.setting).find(|setting| !setting.is_empty())
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
        let reference =
            Contender { name: "default".into(), trials: vec![0], ..Contender::default() };
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
    fn without_a_trial_of_the_setting_in_force_nothing_can_be_checked() {
        let mut without = stored("sda", "64", &scenario());
        without.contest.as_mut().unwrap().contenders[0].setting = setting("8");
        assert!(check(&without).unwrap_err().contains("no trial of the setting in force"));
        let mut mute = stored("sda", "64", &scenario());
        mute.trials[0].setting = Setting::default();
        assert!(check(&mute).unwrap_err().contains("no trial of the setting in force"));
    }

    #[test]
    fn a_knob_that_is_gone_is_named() {
        let mut more = stored("sda", "64", &scenario());
        more.trials[0].setting.0.insert("wbt_lat_usec".into(), "2000".into());
        assert!(check(&more).unwrap_err().contains("wbt_lat_usec is not there and was 2000"));
    }

    #[test]
    fn trials_without_figures_are_kept_and_do_not_count() {
        let mut one = stored("sda", "64", &scenario());
        assert!(earlier(&one).unwrap_err().to_string().contains("no complete trial"));
        let phase = floodwall_model::Phase {
            kind: floodwall_model::PhaseKind::Both,
            start_s: 0.0,
            seconds: 10.0,
            warmup: Default::default(),
            intervals: Vec::new(),
            overrun: Default::default(),
            victims: Vec::new(),
            floods: Vec::new(),
            burst: None,
            cut_short: None,
        };
        let whole = Trial { phases: vec![phase], ..one.trials[0].clone() };
        one.trials.extend([whole.clone(), whole]);
        let reference = &mut one.contest.as_mut().unwrap().contenders[0];
        (reference.trials, reference.disturbed) = (vec![0, 1], vec![2]);
        let all = earlier(&one).unwrap();
        assert_eq!((all[0].trials.len(), all[0].disturbed.len()), (1, 2));
        assert_eq!(all[0].name, "default");
    }

    #[test]
    fn a_result_with_fewer_trials_takes_no_other_ones_place() {
        let old = stored("sda", "64", &scenario());
        let new = Document { trials: Vec::new(), ..old.clone() };
        assert!(
            keeps_all(&old, &new)
                .unwrap_err()
                .to_string()
                .contains("has 1 trials and the new one 0")
        );
        assert!(keeps_all(&new, &old).is_ok() && keeps_all(&old, &old).is_ok());
    }
}
