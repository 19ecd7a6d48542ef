//! `fio`: jobs over files and devices, by crate load.
//!
//! ```text
//! words, job files ─▶ compat::fio::line::Command ─▶ plan: names, sizes, in use?
//!   ─▶ load::jobs: lay_out, run ─▶ outcome ─▶ compat::fio::report ─▶ stdout or --output
//!                                          └▶ logs
//! ```

mod logs;
mod machine;
mod outcome;
mod plan;

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_compat::fio::line::{Command, JobSpec};
use floodwall_compat::fio::report::{self, Announced};
use floodwall_load::LoadError;
use floodwall_load::apart::Counters;
use floodwall_load::jobs::{self, JobRun, LayoutError, Progress, Removal};

use self::machine::Machine;
use self::outcome::Disks;
use super::meter::Meter;
use crate::exit::{Exit, UsageError};
use crate::{output, signals};

/// The status after a signal.
const INTERRUPTED: Exit = Exit::Of(128);

/// Runs the tool.
///
/// # Errors
/// An option that is not supported, a job file or a target that is missing, in use or too small, an
/// output that can't be written.
pub(super) fn run(words: &[String], may_destroy: bool, meter: Meter<'_>) -> anyhow::Result<Exit> {
    let command = Command::parse(words, &mut Machine).map_err(|e| UsageError(e.to_string()))?;
    if command.version {
        return output::part_with(|out| Ok(writeln!(out, "{}", report::VERSION)?))
            .map(|_| Exit::Done);
    }
    command.warnings.iter().for_each(|warning| output::notice(warning));
    if command.parse_only {
        return Ok(Exit::Done);
    }
    let printer = Printer::new(command.output.as_deref())?;
    let progress = Arc::new(Progress::default());
    let counted = Arc::clone(&progress);
    let _followed =
        meter.follow(move || Counters { ops: counted.requests(), bytes: counted.bytes() })?;
    measure(&command, may_destroy, printer, (&*signals::stop_flag()?, &progress))
}

/// The seconds of a command line beside a flood, if each job has a time, and a file of the first
/// job.
///
/// # Errors
/// A command line that can't be followed, or that can't be repeated.
pub(super) fn repeated(words: &[String]) -> anyhow::Result<(Option<u64>, PathBuf)> {
    let failed = |why: String| UsageError(format!("compat --flood: {why}"));
    if words.iter().any(|word| word == "-") {
        return Err(failed("fio runs several times; write its jobs to a file".into()).into());
    }
    let command = Command::parse(words, &mut Machine).map_err(|e| UsageError(e.to_string()))?;
    let jobs = command.jobs.iter().enumerate();
    let plans = jobs.map(|(number, job)| plan::plan(job, number, command.is_read_only));
    let plans = plans.collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = plans.iter().find_map(jobs::missing) {
        let path = path.display();
        return Err(
            failed(format!("'{path}' is made by a run; run fio without a flood before")).into()
        );
    }
    let mut stages: BTreeMap<u32, Option<Duration>> = BTreeMap::new();
    for plan in &plans {
        let lasts = plan.time.map(|time| plan.delay + plan.ramp + time);
        let longest = stages.entry(plan.stage).or_insert(Some(Duration::ZERO));
        *longest = longest.zip(lasts).map(|(a, b)| a.max(b));
    }
    let lasts: Option<Duration> = stages.into_values().sum();
    let file = plans.iter().flat_map(|plan| &plan.files).next();
    let file = file.ok_or_else(|| failed("fio has no job".into()))?;
    Ok((lasts.map(|lasts| lasts.as_secs_f64().ceil() as u64), file.path.clone()))
}

/// Where the report goes: to stdout at once, or to a file at the end.
struct Printer<'a> {
    file: Option<&'a Path>,
    text: String,
}

impl<'a> Printer<'a> {
    fn new(file: Option<&'a str>) -> anyhow::Result<Self> {
        let file = file.map(Path::new);
        file.map(output::check_writable).transpose()?;
        Ok(Self { file, text: String::new() })
    }

    fn print(&mut self, text: &str) -> anyhow::Result<()> {
        if self.file.is_some() {
            self.text += text;
            return Ok(());
        }
        // Without a reader the files are written all the same.
        output::part_with(|out| Ok(out.write_all(text.as_bytes())?)).map(drop)
    }

    fn close(self) -> anyhow::Result<()> {
        let write =
            |file: &Path| output::write_file(file, |out| Ok(out.write_all(self.text.as_bytes())?));
        self.file.map_or(Ok(()), write)
    }
}

/// Lays the files out, runs the jobs and reports them.
fn measure(
    command: &Command,
    may_destroy: bool,
    mut printer: Printer<'_>,
    (stop, progress): (&AtomicBool, &Progress),
) -> anyhow::Result<Exit> {
    let is_normal = command.formats.normal;
    // A command line that can't be followed says so alone: nothing is printed before.
    let mut head = if is_normal { report::head(&announced(&command.jobs)) } else { String::new() };
    command.jobs.iter().try_for_each(|job| plan::check(job, may_destroy))?;
    let mut plans = Vec::new();
    // Also after an error or a signal.
    let mut removal = Removal::default();
    for (number, job) in command.jobs.iter().enumerate() {
        let plan = plan::plan(job, number, command.is_read_only)?;
        removal.add(&plan);
        let name = &job.options.name;
        let mut printed = Ok(());
        let mut told = |files, bytes| {
            if is_normal {
                let text = mem::take(&mut head) + &report::laying_out(name, files, bytes);
                printed = printer.print(&text);
            }
        };
        match jobs::lay_out(&plan, &mut told, stop) {
            Err(LayoutError::Load(LoadError::Interrupted)) => {
                return printer.close().map(|()| INTERRUPTED);
            }
            laid => laid.with_context(|| format!("fio: job '{name}'"))?,
        }
        printed?;
        plans.push(plan);
    }
    printer.print(&head)?;
    let (begin, disks) = (Instant::now(), Disks::before(&command.jobs, &plans));
    let runs = jobs::run(&plans, stop, progress).context("fio")?;
    let was_stopped = stop.load(Ordering::Relaxed);
    if was_stopped {
        output::notice("\nfio: terminating on signal 2");
    }
    let has_failed = tell_failures(&command.jobs, &runs);
    let outcome = outcome::outcome(command, &runs, begin, disks.after());
    printer.print(&report::report(&outcome, command.formats))?;
    // The report is worth more than the logs.
    printer.close()?;
    logs::write(&command.jobs, &runs)?;
    Ok(match (was_stopped, has_failed) {
        (true, _) => INTERRUPTED,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Done,
    })
}

/// Jobs as they are announced: one line for all clones of one.
fn announced(jobs: &[JobSpec]) -> Vec<Announced> {
    let line = |job: &JobSpec| {
        let options = &job.options;
        Announced {
            name: options.name.clone(),
            group: job.group,
            mode: options.pattern.name().to_owned(),
            blocks: options.block.map(|block| (block, block)),
            engine: options.engine.name.to_owned(),
            depth: options.depth,
            copies: options.jobs,
            is_thread: options.thread,
            is_decimal: options.kb_base == 1000,
        }
    };
    jobs.iter().filter(|job| job.clone == 0).map(line).collect()
}

/// A line for each job that failed; whether there is one.
fn tell_failures(jobs: &[JobSpec], runs: &[JobRun]) -> bool {
    for (job, run) in jobs.iter().zip(runs) {
        if let Some(failure) = &run.failure {
            let why = outcome::why(failure);
            output::notice(&format!("fio: job '{}': {why}", job.options.name));
        }
    }
    runs.iter().any(|run| run.failure.is_some())
}
