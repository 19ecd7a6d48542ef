//! `floodwall tune`: arguments → runner (this host, or a simulated machine) → search →
//! recommendation, frontier, every trial kept.

mod keep;
mod resume;
mod space;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, ValueEnum};
use floodwall_device::DeviceSpec;
use floodwall_host::SysRoot;
use floodwall_knobs::Device;
use floodwall_knobs::value::as_written;
use floodwall_model::units::{UnitError, human_duration, parse_duration};
use floodwall_model::{Scenario, Setting, Trial};
use floodwall_report::schema::contest::{Contender, Contest, Outcome as Said, Recommended};
use floodwall_report::schema::{Document, ResultDevice, ResultHost, Run};
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_tune::objective::{Objective, Reference};
use floodwall_tune::space::Space;
use floodwall_tune::tuner::{Clock, Options, Outcome, Recommendation, Stage, Turn, tune};

use crate::commands::bench::{ScenarioArgs, settle_rates};
use crate::commands::compare::contenders;
use crate::commands::compare::host::{self, Host, WhereArgs};
use crate::commands::compare::{Shared, write};
use crate::commands::hwdb::FirstGuess;
use crate::commands::settings;
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::progress::{Progress, Show};
use crate::signals;

/// Below this a search has no time for its final.
const SHORTEST: Duration = Duration::from_secs(60);

/// Search for the best settings of this machine and device, unattended.
///
/// Measures what is possible. Tries limits around the device's drain rate, a paced flood, the
/// victims' priority, elevators and their tunables, queue depths, request sizes and writeback
/// throttling together. Drops what can't win, and measures the winner afresh against the setting in
/// force. Every trial is put in force through the journal and taken back; the machine is left as
/// it was unless --apply is given. Needs root, except with --sim.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall tune /var/lib/postgresql
  floodwall tune --time 30m --p99 20ms --out tune.json /srv
  floodwall tune --resume tune.json --out tune.json /srv
  floodwall tune --set preset:2010-15MB --set theirs=limits.toml /srv
  floodwall tune --sim --device raid10-bbwc-2010 \\
    --victim commit,threads=10,block=16KiB

--time bounds the search and decides how many rounds there are; --quick, --thorough and --measure \
only how long a phase may be.

With cgroup v2 a search also paces the flood by its own control group, and under bfq it raises the \
victims' priority. Such a recommendation is about units that only you know. It comes as a command \
and as lines of systemd drop-ins to fill in. --apply, --persist and --export then only say so.

Exit status: 0 a recommendation, or nothing better than what is in force; 3 the best candidate may \
be better and the measurement can't tell.")]
#[command(args_override_self = true)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// How long it may take.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    time: Duration,
    /// The victim's p99 that is wanted; beyond it only the flood and bursts count.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    p99: Option<Duration>,
    /// Put the recommended setting in force at the end; floodwall rollback takes it back.
    #[arg(long, conflicts_with = "sim")]
    apply: bool,
    /// With --apply: keep it across boots too.
    #[arg(long, requires = "apply", conflicts_with = "sim")]
    persist: bool,
    /// Print the recommended setting for another program; a simulated machine's disks have no
    /// names that one could know.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "sim"])]
    export: Option<settings::export::Format>,
    /// A setting that races beside those that are tried anyway; may be repeated.
    #[arg(long, value_name = "[NAME=]SETTING", conflicts_with = "sim")]
    set: Vec<String>,
    /// Go on from the trials of a stored result of this machine, device and scenario.
    #[arg(long, value_name = "RESULT.json")]
    resume: Option<PathBuf>,
    /// Search on a simulated machine (kernel 6.18, 24 GiB, xfs) in virtual time.
    #[arg(long, requires = "device")]
    sim: bool,
    /// The simulated machine's device; floodwall lab list names the presets.
    #[arg(long, value_name = "PRESET", requires = "sim")]
    device: Option<String>,
    #[command(flatten)]
    loads: ScenarioArgs,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write the JSON document to a file; when interrupted, what was measured until then.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What to show on stderr while it runs.
    #[arg(long, value_enum, default_value = "bar", value_name = "WHEN")]
    progress: Show,
}

impl TuneArgs {
    fn p99_us(&self) -> Option<f64> {
        self.p99.map(|d| d.as_secs_f64() * 1e6)
    }
}

fn duration(text: &str) -> Result<Duration, UnitError> {
    parse_duration(text)
}

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &TuneArgs, origin: Instant) -> anyhow::Result<Exit> {
    Ok(found(args, origin)?.exit)
}

/// The outcome of a search.
pub(crate) struct Found {
    /// The status of the search.
    pub(crate) exit: Exit,
    /// The recommended setting, if it can be put in force as it is.
    pub(crate) setting: Option<FoundSetting>,
}

/// A recommended setting.
pub(crate) struct FoundSetting {
    /// As `floodwall apply` takes it.
    pub(crate) words: Vec<String>,
    /// The device of knobs that name none.
    pub(crate) device: Option<String>,
}

/// Runs a search with these arguments of `floodwall tune` and shows it.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn recommend(arguments: &[&str], origin: Instant) -> anyhow::Result<Found> {
    let words = std::iter::once("tune").chain(arguments.iter().copied());
    found(&TuneOnly::try_parse_from(words)?.args, origin)
}

fn found(args: &TuneArgs, origin: Instant) -> anyhow::Result<Found> {
    if args.time < SHORTEST {
        let (given, least) = (human_duration(args.time), human_duration(SHORTEST));
        return Err(UsageError(format!(
            "--time {given} is too short to find anything: give {least} or more"
        ))
        .into());
    }
    if let Some(path) = &args.out {
        output::check_writable(path)?;
    }
    let stored = args.resume.as_deref().map(resume::read).transpose()?;
    let options = Options {
        seconds: args.time.as_secs_f64(),
        objective: Objective { p99_target_us: args.p99_us() },
        seed: args.loads.seed,
        earlier: stored.as_ref().map(resume::earlier).transpose()?.unwrap_or_default(),
        also: Vec::new(),
    };
    let (run, scenario, outcome, failure) = if args.sim {
        on_sim(args, options, stored.as_ref())?
    } else {
        on_host(args, options, origin, stored.as_ref())?
    };
    let document = document(args, run, &scenario, &outcome)?;
    let exit = finish(args, &document, &outcome, failure, stored.as_ref())?;
    let recommended = document.contest.as_ref().and_then(|c| c.recommended.as_ref());
    let recommended = recommended.filter(|r| r.outcome == Said::Recommended && r.keep.is_none());
    let setting = recommended.map(|recommended| FoundSetting {
        words: as_written(&recommended.setting),
        device: document.run.device.as_ref().map(|device| device.name.clone()),
    });
    Ok(Found { exit, setting })
}

type Searched = (Run, Scenario, Outcome, Option<anyhow::Error>);

fn on_host(
    args: &TuneArgs,
    mut options: Options,
    origin: Instant,
    stored: Option<&Document>,
) -> anyhow::Result<Searched> {
    let stop = signals::stop_flag()?;
    let named = |root: &SysRoot, device: Option<&Device>| {
        contenders::named(root, device, &args.set).map(drop)
    };
    let mut host = Host::open(&args.place, &args.loads, args.progress, origin, &stop, named)?;
    let mut scenario = host.scenario.clone();
    check(&scenario)?;
    if let Some(stored) = stored {
        let (run, in_force) = (resume::run_of(&host), host.runner.inner().setting().clone());
        let here = resume::Here { run: &run, scenario: &scenario, in_force: &in_force };
        for warning in here.check(stored)? {
            host.warn(warning);
        }
    }
    let (also, warned) = contenders::named(&host.root, host.device.as_ref(), &args.set)?;
    for warning in warned {
        host.warn(warning);
    }
    host.warn_of_plans(&also)?;
    options.also = also.into_iter().filter(|c| !c.setting.is_empty()).collect();
    let disk = host.runner.inner().location().queue_device;
    let first = disk.and_then(|id| FirstGuess::read(&host.root).contender(id, &scenario));
    match first {
        Some(it) if options.also.iter().any(|c| c.setting == it.setting) => {}
        Some(it) => match host.runner.check(&it.setting) {
            Ok(_) => options.also.push(it),
            Err(why) => host.warn(format!("the setting {} is not tried: {why}", it.name)),
        },
        None => {}
    }
    let options = &options;
    let progress =
        Progress::new(args.progress, &scenario, Arc::clone(&stop)).of_search(options.seconds);
    let progress = Shared(Rc::new(RefCell::new(progress)));
    let mut watch = progress.clone();
    let root = host.root.clone();
    let least = if args.place.allow_userspace_servers { None } else { space::Least::read(&root) };
    if let Some(least) = &least {
        host.warn(least.warning());
    }
    let least = least.map(|least| least.hard_bytes.unwrap_or(u64::MAX));
    let offers = space::Offers::of(&root, host.runner.inner(), &scenario);
    if let Some(warning) = offers.doubt(&root) {
        host.warn(warning);
    }
    let mut space_of =
        |reference: &Reference| Space::of(&offers.description(&root, least, reference));
    let prepared =
        host.runner.inner_mut().prepare(&scenario, &mut watch).map_err(anyhow::Error::from);
    let settled = prepared.and_then(|()| {
        settle_rates(&mut host.runner, &mut scenario, &Setting::default(), &mut watch)
    });
    let begin = Instant::now();
    let searched = settled.map(|()| {
        let mut now = || begin.elapsed().as_secs_f64();
        let mut tell = |turn: Turn<'_>| show(&progress, &turn);
        tune(
            &mut host.runner,
            &scenario,
            &mut space_of,
            options,
            Clock::Wall(&mut now),
            &mut watch,
            &mut tell,
        )
    });
    let failure = match &searched {
        Err(error) => Some(format!("{error:#}")),
        Ok(outcome) => stopped(outcome),
    };
    let mut failure = host::failure(failure, &stop);
    drop(watch);
    let warned = progress.finish();
    let (mut run, trouble) = host.close("tune", failure.as_ref());
    run.warnings.extend(warned);
    if let Some(trouble) = trouble
        && let Some(earlier) = failure.replace(trouble)
    {
        notice(&format!("floodwall: {}", output::message(&earlier)));
    }
    Ok((run, scenario, searched?, failure))
}

fn on_sim(
    args: &TuneArgs,
    options: Options,
    stored: Option<&Document>,
) -> anyhow::Result<Searched> {
    let (mut scenario, warnings) = args.loads.scenario()?;
    check(&scenario)?;
    let name = args.device.as_deref().unwrap_or_default();
    let spec = DeviceSpec::preset(name).map_err(|e| UsageError(format!("--device: {e}")))?;
    let machine = SimOptions { seed: args.loads.seed, ..SimOptions::new(spec) };
    let mut runner = SimRunner::new(machine.clone());
    let in_force =
        runner.check(&scenario, &Setting::default()).map_err(|e| UsageError(e.to_string()))?;
    let run = Run {
        command: "tune".into(),
        floodwall_version: env!("CARGO_PKG_VERSION").into(),
        host: ResultHost {
            kernel: Some(format!("{} (simulated)", machine.generation)),
            ram_bytes: Some(machine.ram.0),
            cpus: Some(u64::from(machine.cpus)),
            ..ResultHost::default()
        },
        device: Some(ResultDevice {
            name: name.to_owned(),
            model: Some("simulated".into()),
            ..ResultDevice::default()
        }),
        warnings,
        ..Run::default()
    };
    if let Some(stored) = stored {
        let here = resume::Here { run: &run, scenario: &scenario, in_force: &in_force };
        for warning in here.check(stored)? {
            notice(&format!("warning: {warning}"));
        }
    }
    let stop = signals::stop_flag()?;
    let progress =
        Progress::new(args.progress, &scenario, Arc::clone(&stop)).of_search(options.seconds);
    let progress = Shared(Rc::new(RefCell::new(progress)));
    let mut watch = progress.clone();
    settle_rates(&mut runner, &mut scenario, &Setting::default(), &mut watch)?;
    let mut space_of = |reference: &Reference| {
        Space::of(&space::of_sim(&machine, &scenario, &in_force, reference))
    };
    let mut tell = |turn: Turn<'_>| show(&progress, &turn);
    let outcome =
        tune(&mut runner, &scenario, &mut space_of, &options, Clock::Trials, &mut watch, &mut tell);
    let failure = host::failure(stopped(&outcome), &stop);
    let run = Run { seconds: outcome.seconds, ..run };
    Ok((run, scenario, outcome, failure))
}

fn check(scenario: &Scenario) -> anyhow::Result<()> {
    if scenario.victims.is_empty() || scenario.floods.is_empty() {
        let why =
            "a search needs a victim and a flood; floodwall compare measures one without the other";
        return Err(UsageError(why.into()).into());
    }
    Ok(())
}

/// Why a search ended before its end, if it did.
fn stopped(outcome: &Outcome) -> Option<String> {
    match &outcome.recommendation {
        Recommendation::NotMeasured { why } => Some(why.clone()),
        _ => None,
    }
}

/// Shows the setting whose turn it is.
fn show(progress: &Shared, turn: &Turn<'_>) {
    let part = match turn.stage {
        Stage::Reference => "measuring what is possible",
        Stage::Race => "trying settings",
        Stage::Final => "comparing the best with the setting in force",
    };
    progress.0.borrow_mut().turn(part, turn.name, turn.spent_s);
}

/// The result: every trial, every candidate that ran, the frontier, the recommendation.
fn document(
    args: &TuneArgs,
    run: Run,
    scenario: &Scenario,
    outcome: &Outcome,
) -> anyhow::Result<Document> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut add = |more: &[Trial]| -> Vec<usize> {
        let from = trials.len();
        trials.extend(more.iter().cloned());
        (from..trials.len()).collect()
    };
    let (mut contenders, mut index) = (Vec::new(), Vec::new());
    for (i, candidate) in outcome.candidates.iter().enumerate() {
        let ran = !candidate.trials.is_empty()
            || !candidate.disturbed.is_empty()
            || candidate.failure.is_some();
        index.push((ran || i == 0).then_some(contenders.len()));
        if !ran && i > 0 {
            continue;
        }
        let search = add(&candidate.trials);
        let final_trials = add(&candidate.final_trials);
        let disturbed = add(&candidate.disturbed);
        contenders.push(Contender {
            name: candidate.name.clone(),
            setting: candidate.setting.clone(),
            trials: [search, final_trials.clone()].concat(),
            final_trials,
            disturbed,
            failure: candidate.failure.clone(),
            dropped_after_round: candidate.dropped_after_round,
            score: candidate.score.map(f64::exp),
            ..Contender::default()
        });
    }
    let (said, why, settle_s) = match &outcome.recommendation {
        Recommendation::Winner => (Said::Recommended, String::new(), None),
        Recommendation::Default => (Said::Keep, String::new(), None),
        Recommendation::Undecided { settle_s } => (Said::Undecided, String::new(), *settle_s),
        Recommendation::NotMeasured { why } => {
            (Said::NotMeasured, format!("No recommendation: {why}."), None)
        }
    };
    let chosen =
        outcome.winner.filter(|_| said == Said::Recommended).map(|i| &outcome.candidates[i]);
    let recommended = Recommended {
        outcome: said,
        contender: outcome.winner.and_then(|i| index.get(i).copied().flatten()),
        setting: chosen.map(|c| c.setting.clone()).unwrap_or_default(),
        why,
        summary: None,
        settle_s,
        score_ratio: outcome.last.as_ref().map(|last| last.factor),
        p99_target_us: args.p99_us(),
        keep: None,
    };
    let contest = Contest { contenders, frontier: Vec::new(), recommended: Some(recommended) };
    Ok(Document::of_contest(run, scenario, trials, contest)?)
}

/// Prints the result, and treats the recommendation as requested.
fn finish(
    args: &TuneArgs,
    document: &Document,
    outcome: &Outcome,
    failure: Option<anyhow::Error>,
    resumed: Option<&Document>,
) -> anyhow::Result<Exit> {
    let recommended = document.contest.as_ref().and_then(|c| c.recommended.as_ref());
    let setting =
        recommended.filter(|r| r.outcome == Said::Recommended).map(|r| as_written(&r.setting));
    let device = document.run.device.as_ref().map(|d| d.name.clone());
    let kept = match (resumed, is_same_file(args.resume.as_deref(), args.out.as_deref())) {
        (Some(resumed), true) => resume::keeps_all(resumed, document),
        _ => Ok(()),
    };
    let out = args.out.as_ref().filter(|_| kept.is_ok());
    let mut errors: Vec<anyhow::Error> =
        failure.into_iter().chain(kept.err()).chain(write(args.json, out, document)).collect();
    let of_units = recommended.and_then(|r| r.keep.as_ref());
    if let (Some(keep), true) = (of_units, args.apply || args.export.is_some()) {
        // A setting was measured as a whole, so no part of it is put in force alone.
        let command = &keep.apply;
        notice(&format!(
            "floodwall: nothing was put in force or exported, because only you know whose units \
             are meant; fill them in: {command}"
        ));
    }
    if let (Some(setting), None, true) = (&setting, of_units, errors.is_empty()) {
        let device = device.as_deref();
        if let Some(format) = args.export.and_then(|format| format.to_possible_value()) {
            errors.extend(keep::export(format.get_name(), device, setting).err());
        }
        if args.apply {
            let allow = args.place.allow_userspace_servers;
            errors.extend(keep::apply(device, allow, setting, args.persist).err());
        }
    }
    for error in errors.iter().skip(1) {
        notice(&format!("floodwall: {}", output::message(error)));
    }
    match (!errors.is_empty()).then(|| errors.swap_remove(0)) {
        Some(error) => Err(error),
        None if matches!(outcome.recommendation, Recommendation::Undecided { .. }) => {
            Ok(Exit::Inconclusive)
        }
        None => Ok(Exit::Done),
    }
}

/// Whether two paths lead to one file that is there.
fn is_same_file(one: Option<&Path>, other: Option<&Path>) -> bool {
    let real = |path: Option<&Path>| path.and_then(|path| path.canonicalize().ok());
    real(one).is_some_and(|one| Some(one) == real(other))
}

/// The arguments of a command line.
#[derive(Parser)]
struct TuneOnly {
    #[command(flatten)]
    args: TuneArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_units_is_not_applied_and_still_recommended() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("result.json");
        let setting: Setting =
            [("flood:io.max".to_owned(), "wbps=180000000".to_owned())].into_iter().collect();
        let contenders = ["default", "paced"]
            .map(|name| Contender { name: name.into(), ..Contender::default() });
        let recommended = Recommended {
            outcome: Said::Recommended,
            contender: Some(1),
            setting,
            ..Recommended::default()
        };
        let contest = Contest {
            contenders: contenders.to_vec(),
            frontier: Vec::new(),
            recommended: Some(recommended),
        };
        let scenario = floodwall_model::scenario::builtin("copy-vs-database").unwrap().unwrap();
        let document =
            Document::of_contest(Run::default(), &scenario, Vec::new(), contest).unwrap();
        let outcome = Outcome {
            candidates: Vec::new(),
            reference: None,
            space: 1,
            winner: Some(1),
            last: None,
            recommendation: Recommendation::Winner,
            trials_run: 0,
            interrupted: false,
            seconds: 0.0,
        };
        let path = out.to_str().unwrap();
        for more in [&["--apply", "--persist"][..], &["--export", "sysctl"]] {
            let words = [&["tune", "--out", path], more].concat();
            let args = TuneOnly::try_parse_from(words).unwrap().args;
            // There is no group 'flood' here, so an attempt would fail.
            assert_eq!(finish(&args, &document, &outcome, None, None).unwrap(), Exit::Done);
            let json: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
            assert_eq!(json["recommended"]["outcome"], "recommended");
            for command in ["apply", "persist"] {
                let words = "--device DISK unit:FLOOD.service:io.max=wbps=180000000B";
                assert_eq!(
                    json["recommended"]["keep"][command],
                    format!("floodwall {command} {words}")
                );
            }
        }
    }

    #[test]
    fn a_file_is_the_same_by_whatever_path() {
        let dir = std::env::temp_dir();
        let there = Some(dir.as_path());
        let round_about = dir.join(".");
        assert!(is_same_file(there, Some(&round_about)));
        assert!(!is_same_file(there, None) && !is_same_file(None, None));
        let missing = dir.join("floodwall-no-such-file");
        assert!(!is_same_file(Some(&missing), Some(&missing)));
    }
}
