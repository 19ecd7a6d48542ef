//! A tool's command line alone and beside a flood, under each setting, in interleaved rounds.
//!
//! ```text
//! words ─▶ part: figure, seconds, directory ─▶ scenario: the tool, the floods
//!       ─▶ bench::HostRunner with the tool for victims ─▶ rounds of tune::contest
//!                 each run: a process `floodwall compat TOOL …`, its counts in memory
//!       ─▶ stdout: what the last run beside the flood printed; stderr: report::beside
//! ```

mod part;
mod run;

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use floodwall_bench::{HostRunner, space};
use floodwall_host::SysRoot;
use floodwall_knobs::Device;
use floodwall_model::units::{UnitError, human_duration};
use floodwall_model::{Bytes, PhaseKind, Runner, Scenario, Setting};
use floodwall_report::beside;
use floodwall_report::repeat::quoted;
use floodwall_report::schema::{Document, Run};
use floodwall_tune::contest::{Alone, Contender, Contest, contest};

use self::part::Part;
use self::run::{Last, Runs, read};
use crate::commands::bench::{Begin, ScenarioArgs, document};
use crate::commands::compare::contenders::{self, DEFAULT};
use crate::commands::compare::host::{self, Host, WhereArgs};
use crate::commands::compare::{Shared, rows};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::progress::{Progress, Show};
use crate::signals;

/// Rounds of a tool with a figure.
const ROUNDS: u32 = 3;
/// How its runs are shown.
const SHOW: Show = Show::Bar;
/// Seconds of the flood alone, and of a run in the estimate, where the tool's options do not say
/// how long it runs.
const SECONDS: u64 = 10;

/// How a tool runs beside a flood.
#[derive(clap::Args, Debug)]
pub(crate) struct BesideArgs {
    /// Run the tool alone and beside a flood of this kind, as bench's --flood; may be repeated
    #[arg(long, value_name = "KIND[,KEY=VALUE…]")]
    flood: Vec<String>,
    /// The same with a shell command as flood
    #[arg(long, value_name = "COMMAND")]
    flood_cmd: Vec<String>,
    /// With a flood: also under this setting, as compare's --set; may be repeated. Needs root
    #[arg(long, visible_alias = "setting", value_name = "[NAME=]SETTING")]
    set: Vec<String>,
    /// With a flood: number of rounds; 3 if not given
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// With a flood: where its scratch directory is made; else beside the tool's files
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// With a flood: the most space that it may take there
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    size: Option<Bytes>,
    /// With a flood: write all that was measured to a file, as bench does
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// With --set: where journals are kept; /var/lib/floodwall/journal if not given
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

/// The options of `bench`, for their grammar.
#[derive(Parser)]
struct Loads {
    #[command(flatten)]
    args: ScenarioArgs,
}

impl BesideArgs {
    /// Whether there is a flood.
    pub(super) fn has_flood(&self) -> bool {
        !self.flood.is_empty() || !self.flood_cmd.is_empty()
    }

    /// Refuses options that mean nothing without a flood.
    ///
    /// # Errors
    /// [`UsageError`].
    pub(super) fn check_without_flood(&self) -> Result<(), UsageError> {
        let given = [
            ("--set", !self.set.is_empty()),
            ("--rounds", self.rounds.is_some()),
            ("--directory", self.directory.is_some()),
            ("--size", self.size.is_some()),
            ("--out", self.out.is_some()),
            ("--journal", self.journal.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(UsageError(format!(
                "compat: {name} means nothing without a flood; add --flood seq, or leave it out"
            ))),
            None => Ok(()),
        }
    }

    /// As `bench` has them: the tool is the victim.
    fn loads(&self, line: &str, part: &Part) -> anyhow::Result<ScenarioArgs> {
        // A tool without a figure has nothing to compare.
        let rounds = self.rounds.unwrap_or(if part.unit.is_some() { ROUNDS } else { 1 });
        let (rounds, seconds) = (rounds.to_string(), format!("{}s", seconds(part)));
        let size = self.size.map(|size| size.as_argument().to_string());
        let mut words = vec!["compat", "--no-burst", "--victim-cmd", line];
        words.extend(["--rounds", &rounds, "--measure", &seconds]);
        words.extend(size.iter().flat_map(|size| ["--size", size]));
        words.extend(self.flood.iter().flat_map(|flood| ["--flood", flood]));
        words.extend(self.flood_cmd.iter().flat_map(|command| ["--flood-cmd", command]));
        Ok(Loads::try_parse_from(words)?.args)
    }
}

fn seconds(part: &Part) -> u64 {
    part.seconds.unwrap_or(SECONDS).max(1)
}

/// A command line beside a flood.
struct Plan<'a> {
    args: &'a BesideArgs,
    part: Part,
    loads: ScenarioArgs,
    directory: PathBuf,
    tool: String,
    stop: Arc<AtomicBool>,
    origin: Instant,
}

/// Runs a tool's words. `words` are all that follows `compat`, without this file's options.
///
/// # Errors
/// Wrong words, a tool that failed, a flood that can't run, settings that can't be put in force.
pub(super) fn run(
    args: &BesideArgs,
    words: &[OsString],
    tool: (&OsStr, &[OsString]),
    origin: Instant,
) -> anyhow::Result<Exit> {
    let part = Part::of(tool.0, tool.1)?;
    let directory = args.directory.clone().or_else(|| part.directory.clone()).ok_or_else(|| {
        let why = "compat --flood: the tool's words name no file; give --directory, a directory \
            on the disk that they mean";
        UsageError(why.into())
    })?;
    if let Some(path) = &args.out {
        output::check_writable(path)?;
    }
    let line: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let loads = args.loads(&format!("floodwall compat {}", line.join(" ")), &part)?;
    if loads.scenario()?.0.floods.is_empty() {
        let why =
            "compat --flood none: there is no flood; name one as --flood seq, or leave it out";
        return Err(UsageError(why.into()).into());
    }
    let tool = tool.0.to_string_lossy().into_owned();
    let stop = signals::stop_flag()?;
    let plan = Plan { args, part, loads, directory, tool, stop, origin };
    let counts = Rc::new(Cell::new(false));
    let (runs, last) = Runs::new(&plan.tool, words.to_owned(), Rc::clone(&counts));
    let measured = if args.set.is_empty() {
        in_force(&plan, runs, &counts)
    } else {
        sets(&plan, runs, &counts)
    };
    conclude(&plan, measured?, &last)
}

/// The measurements, before they are judged.
struct Found {
    run: Run,
    scenario: Scenario,
    result: Option<Contest>,
    /// Warnings that are on stderr already.
    printed: Vec<String>,
    failure: Option<anyhow::Error>,
}

/// Under the setting in force, which needs no privilege.
fn in_force(plan: &Plan<'_>, runs: Runs, counts: &Cell<bool>) -> anyhow::Result<Found> {
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (scenario, warnings) = plan.loads.scenario()?;
    let options = plan.loads.options(None, plan.origin, &plan.stop);
    let mut runner = HostRunner::open(SysRoot::live()?, &plan.directory, options)?;
    let Begin { mut scenario, mut warnings, lab } =
        Begin::of(&runner, &plan.directory, warnings, SHOW, || {
            Ok(space::fit(&scenario, runner.room(plan.loads.size)?)?)
        })?;
    plan.adapt(&mut scenario);
    runner.set_tool(Box::new(runs));
    let contenders = [Contender { name: DEFAULT.into(), setting: Setting::default() }];
    let progress = plan.progress(&scenario, contenders.len());
    let prepared = runner.prepare(&scenario, &mut progress.clone()).map_err(anyhow::Error::from);
    let (result, mut failure) = match prepared {
        Ok(()) => plan.rounds(&mut runner, &scenario, &contenders, &progress, counts),
        Err(error) => (None, Some(error)),
    };
    warnings.extend(progress.finish());
    let printed = warnings.clone();
    warnings.extend(lab.and_then(|lab| lab.warning()));
    let (facts, missing) = (runner.facts().clone(), runner.missing());
    let first_operation = runner.first_operation();
    if let Err(error) = runner.close() {
        failure.get_or_insert(error.into());
    }
    let run = document::run_facts(document::Facts {
        host: &facts,
        missing,
        warnings,
        failure: failure.as_ref(),
        started_at,
        seconds: plan.origin.elapsed().as_secs_f64(),
        first_operation,
    });
    Ok(Found { run, scenario, result, printed, failure })
}

/// Under each setting, through the journal.
fn sets(plan: &Plan<'_>, runs: Runs, counts: &Cell<bool>) -> anyhow::Result<Found> {
    let place = WhereArgs {
        dir: plan.directory.clone(),
        allow_userspace_servers: false,
        journal: plan.args.journal.clone(),
    };
    let of = |root: &SysRoot, device: Option<&Device>| {
        contenders::contenders(root, device, &Setting::default(), &plan.args.set, &[])
    };
    let check = |root: &SysRoot, device: Option<&Device>| of(root, device).map(drop);
    let mut host = Host::open(&place, &plan.loads, SHOW, plan.origin, &plan.stop, check)?;
    let (contenders, warned) = of(&host.root, host.device.as_ref())?;
    warned.into_iter().for_each(|warning| host.warn(warning));
    host.refuse_settings(&contenders)?;
    host.warn_of_plans(&contenders)?;
    let mut scenario = host.scenario.clone();
    plan.adapt(&mut scenario);
    host.runner.inner_mut().set_tool(Box::new(runs));
    let progress = plan.progress(&scenario, contenders.len());
    let prepared = host.runner.inner_mut().prepare(&scenario, &mut progress.clone());
    let (result, mut failure) = match prepared.map_err(anyhow::Error::from) {
        Ok(()) => plan.rounds(&mut host.runner, &scenario, &contenders, &progress, counts),
        Err(error) => (None, Some(error)),
    };
    let warned = progress.finish();
    let printed = [host.warnings.clone(), warned.clone()].concat();
    let (mut run, trouble) = host.close("compat", failure.as_ref());
    run.warnings.extend(warned);
    // A machine that is not as it was matters more than whatever else happened.
    if let Some(trouble) = trouble
        && let Some(earlier) = failure.replace(trouble)
    {
        notice(&format!("floodwall: {}", output::message(&earlier)));
    }
    Ok(Found { run, scenario, result, printed, failure })
}

impl Plan<'_> {
    /// The scenario of `bench`, with this tool for its victim.
    fn adapt(&self, scenario: &mut Scenario) {
        let floods: Vec<&str> = scenario.floods.iter().map(|flood| flood.name.as_str()).collect();
        scenario.description = format!("{} alone and beside {}", self.tool, floods.join(", "));
        scenario.name = "compat".into();
        if let Some(victim) = scenario.victims.first_mut() {
            victim.name.clone_from(&self.tool);
        }
        if self.part.unit.is_none() {
            scenario.phases = vec![PhaseKind::Both];
        }
    }

    /// The display of all runs, after a line that says how long they take.
    fn progress(&self, scenario: &Scenario, contenders: usize) -> Shared {
        let trials = scenario.timing.rounds * contenders as u32;
        let progress = Progress::new(SHOW, scenario, Arc::clone(&self.stop)).of_trials(trials);
        let (takes, tool) = (human_duration(progress.planned()), &self.tool);
        notice(&match self.part.seconds {
            Some(_) => format!("takes about {takes}"),
            None => format!("takes about {takes} if a run of {tool} takes {SECONDS} s"),
        });
        Shared(Rc::new(RefCell::new(progress)))
    }

    /// Runs all rounds. Of the last contender a run beside the flood counts as the last one.
    fn rounds(
        &self,
        runner: &mut dyn Runner,
        scenario: &Scenario,
        contenders: &[Contender],
        progress: &Shared,
        counts: &Cell<bool>,
    ) -> (Option<Contest>, Option<anyhow::Error>) {
        let last = contenders.last().map(|contender| &contender.name);
        let mut tell = |_: u32, contender: &Contender| counts.set(Some(&contender.name) == last);
        let (alone, seed) = (Alone::Each, self.loads.seed);
        let mut watch = progress.clone();
        let result = contest(runner, scenario, contenders, alone, seed, &mut watch, &mut tell);
        let failure = host::failure(result.stopped.clone(), &self.stop);
        (Some(result), failure)
    }
}

/// Stores what was measured, passes the last run's output on and prints the figures.
fn conclude(plan: &Plan<'_>, measured: Found, last: &Last) -> anyhow::Result<Exit> {
    let Found { run, scenario, result, printed, failure } = measured;
    let is_measured = |result: &Contest| result.entrants.iter().any(|e| !e.trials.is_empty());
    let Some(result) = result.filter(is_measured) else {
        return Err(failure.unwrap_or_else(|| anyhow::anyhow!("nothing was measured")));
    };
    let (trials, rows) = rows(&result);
    let document = Document::of_contest(run, &scenario, trials, rows)?;
    // What was measured is kept first: stdout may be full or closed.
    let stored = match &plan.args.out {
        Some(path) => output::write_file(path, |out| Ok(document.write_json(out)?)),
        None => Ok(()),
    };
    let passed_on = if failure.is_none() { pass_on(last) } else { Ok(()) };
    beside::text(&document, plan.part.unit, &printed).lines().for_each(notice);
    match failure.or(stored.err()).or(passed_on.err()) {
        Some(error) => Err(error),
        None => Ok(Exit::Done),
    }
}

/// Prints what the last run printed, if one ended well.
fn pass_on(last: &Last) -> anyhow::Result<()> {
    let Some(mut output) = last.borrow_mut().take() else { return Ok(()) };
    let (report, said) = (read(&mut output.stdout)?, read(&mut output.stderr)?);
    let passed_on = output::result_with(|out| Ok(out.write_all(&report)?));
    // A closed stderr is ignored, as of notices.
    let _ = io::stderr().write_all(&said);
    passed_on
}
