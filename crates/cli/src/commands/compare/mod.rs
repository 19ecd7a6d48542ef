//! `floodwall compare`: arguments → contenders → interleaved rounds on this host, or in guests of
//! several kernels → what differs, and how surely.

pub(crate) mod contenders;
mod files;
pub(crate) mod host;
mod kernels;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{ArgGroup, Args};
use floodwall_host::SysRoot;
use floodwall_knobs::Device;
use floodwall_model::runner::{Second, Step};
use floodwall_model::{Runner, Scenario, Setting, Trial, Watch};
use floodwall_report::contest::{self as told, anything_real};
use floodwall_report::schema::contest::{Contender as Row, Contest as Rows};
use floodwall_report::schema::{Document, SchemaError};
use floodwall_tune::contest::{Alone, Contender, Contest, contest};

use crate::commands::bench::{ScenarioArgs, settle_rates};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::progress::{Progress, Show};
use crate::{signals, terminal};
use host::{Host, WhereArgs};
use kernels::{Guests, KernelArgs};

/// Compare settings side by side: interleaved rounds, and what differs how surely.
///
/// Every round measures every setting once, in random order; each is put in force through the
/// journal for its trial and taken back after it. Needs root. The first setting is what the others
/// are compared with. With --kernel, kernels are compared instead: each trial boots one, in front
/// of a virtual device, without root.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall compare --set default --set scheduler=none,vm.dirty_bytes=15MB /srv
  floodwall compare --set default --set preset:cachyos /srv
  floodwall compare --set now=default --set small=vm.dirty_bytes=15MB \\
    --rounds 8 --out result.json /srv
  floodwall compare --each scheduler --victim read,threads=8 --flood none /data
  floodwall compare --kernel old=uml --kernel new=./linux.uml --device hdd-7200

A setting is KNOB=VALUE[,KNOB=VALUE…], preset:NAME, FILE.toml, or default (what is in force), with \
or without a name before it. --each takes scheduler (all that the \
device offers), nr_requests, max_sectors_kb, wbt_lat_usec, read_ahead_kb, vm.dirty_bytes and \
others with a grid (docs/tuning.md).

Exit status 3: measured, and nothing is better or worse.")]
#[command(args_override_self = true)]
#[command(override_usage = "floodwall compare [OPTIONS] --set SETTING --set SETTING… [DIR]
       floodwall compare [OPTIONS] --each KNOB [DIR]
       floodwall compare [OPTIONS] --kernel KERNEL --kernel KERNEL…")]
#[command(group(
    ArgGroup::new("what").args(["set", "each", "kernel"]).required(true).multiple(true)
))]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// A setting to compare; twice or more.
    #[arg(long, value_name = "[NAME=]SETTING")]
    set: Vec<String>,
    /// Every value of a knob.
    #[arg(long, value_name = "KNOB")]
    each: Vec<String>,
    #[command(flatten)]
    kernels: KernelArgs,
    /// Measure victims and floods alone under the first setting only: a third of the time for the
    /// others.
    #[arg(long, conflicts_with = "kernel")]
    alone_once: bool,
    #[command(flatten)]
    loads: ScenarioArgs,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write the JSON document to a file; when interrupted, what was measured until then.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What to show on stderr while it runs.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    progress: Show,
}

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &CompareArgs, origin: Instant) -> anyhow::Result<Exit> {
    if let Some(path) = &args.out {
        output::check_writable(path)?;
    }
    let stop = signals::stop_flag()?;
    if args.kernels.kernel.is_empty() {
        settings(args, origin, &stop)
    } else {
        kernels(args, origin, &stop)
    }
}

/// Compares settings of this host.
fn settings(args: &CompareArgs, origin: Instant, stop: &Arc<AtomicBool>) -> anyhow::Result<Exit> {
    let check = |root: &SysRoot, device: Option<&Device>| {
        contenders::contenders(root, device, &Setting::default(), &args.set, &args.each).map(drop)
    };
    let mut host = Host::open(&args.place, &args.loads, args.progress, origin, stop, check)?;
    let in_force: Setting = host.runner.inner().setting().clone();
    let (contenders, warned) =
        contenders::contenders(&host.root, host.device.as_ref(), &in_force, &args.set, &args.each)?;
    for warning in warned {
        host.warn(warning);
    }
    host.warn_of_plans(&contenders)?;
    for source in contenders::sources(&args.set).iter().filter(|_| args.progress != Show::Never) {
        notice(source);
    }
    let mut scenario = host.scenario.clone();
    let mut contest = Rounds::of(args, &scenario, &contenders, stop)?;
    let mut watch = contest.progress.clone();
    let prepared =
        host.runner.inner_mut().prepare(&scenario, &mut watch).map_err(anyhow::Error::from);
    let settled = prepared.and_then(|()| {
        settle_rates(&mut host.runner, &mut scenario, &Setting::default(), &mut watch)
    });
    drop(watch);
    let (result, mut failure) = match settled {
        Ok(()) => {
            let (result, failure) = contest.run(&mut host.runner, &scenario);
            (Some(result), failure)
        }
        Err(error) => (None, Some(error)),
    };
    let warned = contest.progress.finish();
    let (mut run, trouble) = host.close("compare", failure.as_ref());
    run.warnings.extend(warned);
    if let Some(trouble) = trouble {
        // A machine that is not as it was matters more than whatever else happened.
        if let Some(earlier) = failure.replace(trouble) {
            notice(&format!("floodwall: {}", output::message(&earlier)));
        }
    }
    conclude(args, result, failure, |trials, rows| {
        Document::of_contest(run, &scenario, trials, rows)
    })
}

/// Compares kernels in guests.
fn kernels(args: &CompareArgs, origin: Instant, stop: &Arc<AtomicBool>) -> anyhow::Result<Exit> {
    let (scenario, mut warnings) = args.loads.scenario()?;
    for warning in &warnings {
        notice(&format!("warning: {warning}"));
    }
    let (mut guests, contenders) = Guests::find(&args.kernels, &args.loads, origin)?;
    contenders::check_names(&contenders)?;
    args.loads.user(&scenario)?;
    let mut contest = Rounds::of(args, &scenario, &contenders, stop)?;
    // The first guest settles sizes and rates for all.
    let (result, failure) = contest.run(&mut guests, &scenario);
    let failure = failure.map(|error| guests.failure(error));
    warnings.extend(contest.progress.finish());
    let closed = guests.close(failure.as_ref());
    conclude(args, closed.is_some().then_some(result), failure, |trials, rows| {
        let (mut run, settled) = closed.unwrap_or_default();
        run.warnings = warnings;
        let mut document = Document::of_contest(run, &scenario, trials, rows)?;
        document.scenario = settled;
        Ok(document)
    })
}

/// The rounds of a contest, and their display.
struct Rounds<'a> {
    contenders: &'a [Contender],
    alone: Alone,
    seed: u64,
    stop: &'a Arc<AtomicBool>,
    progress: Shared,
}

impl<'a> Rounds<'a> {
    fn of(
        args: &CompareArgs,
        scenario: &Scenario,
        contenders: &'a [Contender],
        stop: &'a Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        if scenario.timing.rounds < 2 {
            return Err(UsageError(
                "one round does not tell how much rounds differ: give --rounds 2 or more".into(),
            )
            .into());
        }
        let alone = if args.alone_once { Alone::First } else { Alone::Each };
        let trials = scenario.timing.rounds * contenders.len() as u32;
        let progress = Progress::new(args.progress, scenario, Arc::clone(stop)).of_trials(trials);
        let progress = Shared(Rc::new(RefCell::new(progress)));
        Ok(Self { contenders, alone, seed: args.loads.seed, stop, progress })
    }

    /// Runs them all; and why they ended early.
    fn run(
        &mut self,
        runner: &mut dyn Runner,
        scenario: &Scenario,
    ) -> (Contest, Option<anyhow::Error>) {
        let mut watch = self.progress.clone();
        let progress = self.progress.clone();
        let mut tell = |round: u32, contender: &Contender| {
            progress.0.borrow().announce(&format!("round {round}: {}", contender.name));
        };
        let result = contest(
            runner,
            scenario,
            self.contenders,
            self.alone,
            self.seed,
            &mut watch,
            &mut tell,
        );
        let failure = host::failure(result.stopped.clone(), self.stop);
        (result, failure)
    }
}

/// Judges the measurements, if any, and prints the result.
fn conclude(
    args: &CompareArgs,
    result: Option<Contest>,
    failure: Option<anyhow::Error>,
    document: impl FnOnce(Vec<Trial>, Rows) -> Result<Document, SchemaError>,
) -> anyhow::Result<Exit> {
    let Some(result) = result.filter(|r| r.entrants.iter().any(|e| !e.trials.is_empty())) else {
        return Err(failure.unwrap_or_else(|| anyhow::anyhow!("nothing was measured")));
    };
    let (trials, rows) = rows(&result);
    let document = document(trials, rows)?;
    let real = document.contest.as_ref().is_some_and(anything_real);
    if args.json && !real && failure.is_none() {
        notice(&format!("not conclusive: {}", told::NOTHING_REAL));
    }
    let mut errors: Vec<anyhow::Error> =
        failure.into_iter().chain(write(args.json, args.out.as_ref(), &document)).collect();
    for error in errors.iter().skip(1) {
        notice(&format!("floodwall: {}", output::message(error)));
    }
    match (!errors.is_empty()).then(|| errors.swap_remove(0)) {
        Some(error) => Err(error),
        None if real => Ok(Exit::Done),
        None => Ok(Exit::Inconclusive),
    }
}

/// A contest as a result stores it.
pub(crate) fn rows(result: &Contest) -> (Vec<Trial>, Rows) {
    let (trials, indices) = result.trials();
    let contenders =
        result.entrants.iter().zip(indices).map(|(entrant, [trials, disturbed])| Row {
            name: entrant.contender.name.clone(),
            setting: entrant.contender.setting.clone(),
            trials,
            disturbed,
            failure: entrant.failure.clone(),
            ..Row::default()
        });
    let rows = Rows { contenders: contenders.collect(), ..Rows::default() };
    (trials, rows)
}

/// Prints the requested forms. Stdout comes first and one failure does not stop the rest.
pub(crate) fn write(json: bool, out: Option<&PathBuf>, document: &Document) -> Vec<anyhow::Error> {
    let printed = if json {
        document.to_json().map_err(anyhow::Error::from).and_then(|json| output::json(&json))
    } else {
        output::result(&told::text(document, terminal::width()))
    };
    let store = |path: &PathBuf| output::write_file(path, |out| Ok(document.write_json(out)?));
    let stored = out.map(store).unwrap_or(Ok(()));
    printed.err().into_iter().chain(stored.err()).collect()
}

/// One progress display for the code that runs trials and the code that announces them.
#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Rc<RefCell<Progress>>);

impl Shared {
    /// Takes the bar away and hands over the warnings, if this is the last holder.
    pub(crate) fn finish(self) -> Vec<String> {
        Rc::try_unwrap(self.0).map(|progress| progress.into_inner().finish()).unwrap_or_default()
    }
}

impl Watch for Shared {
    fn step(&mut self, step: Step<'_>) {
        self.0.borrow_mut().step(step);
    }

    fn second(&mut self, second: &Second<'_>) {
        self.0.borrow_mut().second(second);
    }

    fn warn(&mut self, message: &str) {
        self.0.borrow_mut().warn(message);
    }

    fn warn_once(&mut self, kind: &'static str, message: &str) {
        self.0.borrow_mut().warn_once(kind, message);
    }

    fn stop(&self) -> bool {
        self.0.borrow().stop()
    }
}
