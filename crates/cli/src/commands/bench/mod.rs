//! `floodwall bench`: arguments → scenario → host runner → rounds → document → the formats that
//! were asked for.

mod args;
pub(crate) mod document;

use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use floodwall_bench::scratch::{self, Leftover};
use floodwall_bench::space::{self, Fitted};
use floodwall_bench::{BenchError, HostRunner};
use floodwall_host::SysRoot;
use floodwall_model::{Bytes, Runner, Scenario, Setting, Trial, Watch, scenario, toml_text};
use floodwall_report::schema::{Baseline, Document};
use floodwall_report::verdict::{self, Outcome};
use floodwall_report::{markdown, text, timeline};

pub(crate) use args::{BenchArgs, FLOOD_COMMAND, SYNC_COMMAND, ScenarioArgs, named_scenario};

use crate::commands::lab::Measured as LabRun;
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, notice};
use crate::progress::{Progress, Show};
use crate::{signals, terminal};

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &BenchArgs, origin: Instant) -> anyhow::Result<Exit> {
    if args.list_scenarios {
        return list_scenarios();
    }
    if let Some(name) = &args.show_scenario {
        return show_scenario(name);
    }
    if args.clean {
        return clean(&args.dir);
    }
    let (scenario, warnings) = args.loads.scenario()?;
    for path in [&args.out, &args.hlog, &args.timeline].into_iter().flatten() {
        output::check_writable(path)?;
    }
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let stop = signals::stop_flag()?;
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let user = args.loads.user(&scenario)?;
    let options = args.loads.options(user, origin, &stop);
    let runner = HostRunner::open(SysRoot::live()?, &args.dir, options)?;
    let Begin { mut scenario, mut warnings, lab } =
        Begin::of(&runner, &args.dir, warnings, args.progress, || {
            Ok(space::fit(&scenario, runner.room(args.loads.size)?)?)
        })?;
    let measured = measure(runner, &mut scenario, args, &stop)?;
    warnings.extend(measured.warnings);
    warnings.extend(lab.and_then(|lab| lab.warning()));
    let failure = measured.failure;
    let run = document::run_facts(document::Facts {
        host: &measured.host,
        missing: measured.missing,
        warnings,
        failure: failure.as_ref(),
        started_at,
        seconds: origin.elapsed().as_secs_f64(),
        first_operation: measured.first_operation,
    });
    let stored = baseline
        .as_ref()
        .map(|(document, source)| Baseline::from_document(document, source.as_str()));
    let mut document = Document::new(run, &scenario, measured.trials, stored)?;
    if let Some((stored, source)) = &baseline {
        for difference in document.differences(stored) {
            let warning = format!("--baseline '{source}' is from another situation: {difference}");
            notice(&format!("warning: {warning}"));
            document.run.warnings.push(warning);
        }
    }
    let mut errors: Vec<anyhow::Error> =
        failure.into_iter().chain(write_outputs(args, &document)).collect();
    // The first error is the one that ends the program; the others are said before it.
    for error in errors.iter().skip(1) {
        notice(&format!("floodwall: {}", output::message(error)));
    }
    match (!errors.is_empty()).then(|| errors.swap_remove(0)) {
        Some(error) => Err(error),
        None => Ok(concluded(&document, args.json)),
    }
}

/// How a measured run ends. A result for people has the verdict; beside one for programs, stderr
/// says what was not conclusive.
pub(crate) fn concluded(document: &Document, json: bool) -> Exit {
    let verdict = verdict::verdict(document);
    if verdict.outcome != Outcome::Inconclusive {
        return Exit::Done;
    }
    if json {
        notice(&verdict.sentence);
    }
    Exit::Inconclusive
}

/// Floods as its input orders, until that ends ([`floodwall_load::apart`]).
///
/// # Errors
/// No order came.
pub(crate) fn flood() -> anyhow::Result<Exit> {
    let input = BufReader::new(io::stdin());
    floodwall_load::apart::serve(input, io::stdout())
        .context("a flood's process is started by bench")?;
    Ok(Exit::Done)
}

/// A run that is about to begin.
pub(crate) struct Begin {
    /// With its sizes settled.
    pub(crate) scenario: Scenario,
    /// They are printed already.
    pub(crate) warnings: Vec<String>,
    /// The device, if it is a lab's. Its warning comes after the run.
    pub(crate) lab: Option<LabRun>,
}

impl Begin {
    /// Prints `warnings`, those that the directory gives rise to, and the space that the run takes.
    /// `fit` settles the sizes.
    ///
    /// # Errors
    /// The directory can't be read, or `fit` fails. Warnings of left-overs, which take space, come
    /// before that.
    pub(crate) fn of(
        runner: &HostRunner,
        dir: &Path,
        mut warnings: Vec<String>,
        show: Show,
        fit: impl FnOnce() -> anyhow::Result<Fitted>,
    ) -> anyhow::Result<Self> {
        let tell = |warnings: &[String]| {
            warnings.iter().for_each(|warning| notice(&format!("warning: {warning}")));
        };
        let left = scratch::leftovers(dir)?;
        warnings.extend(left.iter().map(|left| leftover_warning(left, dir)));
        warnings.extend(runner.notes().iter().cloned());
        tell(&warnings);
        let Fitted { scenario, needed, warnings: fitting } = fit()?;
        tell(&fitting);
        warnings.extend(fitting);
        let device = runner.facts().device.as_ref();
        let lab = device.and_then(|device| LabRun::begin(&device.name));
        // A lab device takes no space on a disk.
        if show != Show::Never && lab.is_none() {
            notice(&space_notice(needed, dir));
        }
        Ok(Self { scenario, warnings, lab })
    }
}

/// The measurements of a run, whether it came to its end or not.
struct Measured {
    trials: Vec<Trial>,
    failure: Option<anyhow::Error>,
    warnings: Vec<String>,
    host: floodwall_host::HostFacts,
    missing: Vec<floodwall_model::status::Missing>,
    first_operation: Option<Duration>,
}

/// Settles rates that are shares of the victims' rates alone, and reports the result.
///
/// # Errors
/// Why that could not be measured.
pub(crate) fn settle_rates(
    runner: &mut dyn Runner,
    scenario: &mut Scenario,
    setting: &Setting,
    watch: &mut dyn Watch,
) -> anyhow::Result<()> {
    let lines = scenario::settle_rates(runner, scenario, setting, watch)
        .map_err(|error| anyhow::Error::from_boxed(error.source))?;
    lines.iter().for_each(|line| notice(line));
    Ok(())
}

/// Prefills, settles rates, runs all rounds and removes every file, whatever happens in between.
fn measure(
    mut runner: HostRunner,
    scenario: &mut Scenario,
    args: &BenchArgs,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Measured> {
    let mut progress = Progress::new(args.progress, scenario, Arc::clone(stop));
    let mut trials = Vec::new();
    let mut failure = runner.prepare(scenario, &mut progress).err().map(anyhow::Error::from);
    if failure.is_none() {
        failure = settle_rates(&mut runner, scenario, &Setting::default(), &mut progress).err();
    }
    for unseen in runner.unseen() {
        notice(&format!("warning: can't see {}: {}", unseen.what, unseen.why));
    }
    for round in 1..=scenario.timing.rounds {
        if failure.is_some() {
            break;
        }
        match runner.run(scenario, &Setting::default(), round, &mut progress) {
            Ok(trial) => trials.push(trial),
            Err(error) => {
                trials.extend(error.partial.map(|partial| *partial));
                failure = Some(anyhow::Error::from_boxed(error.source));
            }
        }
    }
    // A signal explains whatever else went wrong at the same time.
    if stop.load(Ordering::Relaxed) && failure.is_some() {
        failure = Some(BenchError::Interrupted.into());
    }
    let (host, missing, first_operation) =
        (runner.facts().clone(), runner.missing(), runner.first_operation());
    let closed = runner.close();
    let warnings = progress.finish();
    if let Err(error) = closed {
        failure.get_or_insert(error.into());
    }
    Ok(Measured { trials, failure, warnings, host, missing, first_operation })
}

fn read_baseline(path: &Path) -> anyhow::Result<(Document, String)> {
    let source = path.display().to_string();
    let usage = |why: String| UsageError(format!("--baseline '{source}': {why}"));
    let json = input::result(path).and_then(input::text).map_err(|e| usage(e.to_string()))?;
    let document = Document::read(&json).map_err(|e| usage(e.to_string()))?;
    Ok((document, source))
}

/// How much a run writes at most, and where.
fn space_notice(needed: Bytes, dir: &Path) -> String {
    // Rounded up: the promised time must suffice.
    let gib = (needed.as_f64() / Bytes::gib(1).as_f64() * 10.0).ceil() / 10.0;
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let most = Bytes((gib * Bytes::gib(1).as_f64()).round() as u64);
    format!("writes up to {most} below '{}' and removes it again", dir.display())
}

fn leftover_warning(left: &Leftover, dir: &Path) -> String {
    format!(
        "a killed run left '{}' ({}); remove it with: floodwall bench --clean {}",
        left.path.display(),
        Bytes(left.bytes),
        dir.display()
    )
}

/// Gives out everything that was asked for. Stdout comes first and one failure does not stop the
/// rest: a measurement must not be lost for a full disk somewhere else.
fn write_outputs(args: &BenchArgs, document: &Document) -> Vec<anyhow::Error> {
    let mut errors = Vec::new();
    let mut attempt = |result: anyhow::Result<()>| errors.extend(result.err());
    let measured = !document.trials.is_empty();
    if args.json {
        attempt(
            document.to_json().map_err(anyhow::Error::from).and_then(|json| output::json(&json)),
        );
    } else if measured && args.markdown {
        attempt(output::document(&markdown::bench(document)));
    } else if measured {
        attempt(output::result(&text::bench(document, terminal::width())));
    }
    for (path, format) in [
        (&args.out, to_json as fn(&Document, &mut dyn Write) -> anyhow::Result<()>),
        (&args.hlog, to_hlog),
        (&args.timeline, to_csv),
    ] {
        let Some(path) = path else { continue };
        if !measured && path.exists() {
            notice(&format!("nothing was measured: '{}' is left as it was", path.display()));
            continue;
        }
        attempt(output::write_file(path, |out| format(document, out)));
    }
    errors
}

fn to_json(document: &Document, out: &mut dyn Write) -> anyhow::Result<()> {
    Ok(document.write_json(out)?)
}

fn to_hlog(document: &Document, mut out: &mut dyn Write) -> anyhow::Result<()> {
    let started = Duration::from_secs_f64(document.run.started_at_unix_s.max(0.0));
    Ok(floodwall_stats::hlog::write(&document.trials, started, &mut out)?)
}

fn to_csv(document: &Document, out: &mut dyn Write) -> anyhow::Result<()> {
    Ok(out.write_all(timeline::csv(document).as_bytes())?)
}

fn list_scenarios() -> anyhow::Result<Exit> {
    let mut list = String::new();
    for name in scenario::builtin_names() {
        let description =
            scenario::builtin(name).transpose()?.map_or_else(String::new, |s| s.description);
        list.push_str(&format!("{name:<26} {description}\n"));
    }
    output::result(&list)?;
    Ok(Exit::Done)
}

fn show_scenario(name: &str) -> anyhow::Result<Exit> {
    let text = scenario::builtin_text(name).ok_or_else(|| {
        let hint = toml_text::nearest(name, scenario::builtin_names())
            .map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        UsageError(format!(
            "there is no built-in scenario '{name}'{hint} (floodwall bench --list-scenarios names \
             them)"
        ))
    })?;
    output::result(text)?;
    Ok(Exit::Done)
}

fn clean(dir: &Path) -> anyhow::Result<Exit> {
    let removed = scratch::clean(dir)?;
    for left in &removed {
        output::result(&format!("removed '{}' ({})\n", left.path.display(), Bytes(left.bytes)))?;
    }
    if removed.is_empty() {
        output::result(&format!("nothing to remove in '{}'\n", dir.display()))?;
    }
    Ok(Exit::Done)
}
