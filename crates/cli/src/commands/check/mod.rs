//! `floodwall check`: is this disk good enough for a program, alone and beside a flood?
//!
//! ```text
//! program ─▶ preset ─▶ scenario of one log and one flood ─▶ bench::HostRunner, one round
//!                 └▶ limit ────────────────┐  and, with a     │ phases
//!                        report::check: verdict ◀─ guard, again ┘
//! ```

mod args;
mod deadline;
mod guarded;
mod measure;
mod presets;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use floodwall_bench::space::{self, Fitted, SpaceError};
use floodwall_bench::{BenchError, HostRunner, Options};
use floodwall_host::SysRoot;
use floodwall_model::{Bytes, Scenario};
use floodwall_report::check::{self, Check, Fitness};
use floodwall_report::schema::Document;

pub(crate) use args::CheckArgs;
use deadline::Deadline;

use crate::commands::bench::{Begin, FLOOD_COMMAND, SYNC_COMMAND, document};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::progress::Progress;
use crate::{signals, terminal};

/// Filesystems in memory, on which a sync costs nothing.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "rootfs"];

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status. With `--nagios` the line on stdout
/// tells it.
pub(crate) fn run(args: &CheckArgs, origin: Instant) -> anyhow::Result<Exit> {
    let checked = checked(args, origin);
    if !args.nagios {
        return checked.and_then(|check| concluded(args, &check));
    }
    let (line, status) = match &checked {
        Ok(check) => check::nagios(check),
        Err(error) => {
            (check::nagios_failed(args.program(), &output::message(error)), check::UNKNOWN)
        }
    };
    output::result(&(line + "\n"))?;
    if let (Some(file), Ok(check)) = (&args.junit, &checked) {
        write_junit(file, check)?;
    }
    Ok(Exit::Of(status))
}

/// Prints a check and ends with its status.
fn concluded(args: &CheckArgs, check: &Check) -> anyhow::Result<Exit> {
    if args.json {
        output::json(&check::json(check)?)?;
    } else {
        output::result(&check::text(check, terminal::style()))?;
    }
    if let Some(file) = &args.junit {
        write_junit(file, check)?;
    }
    Ok(match check::verdict(check).fitness {
        Fitness::Fit => Exit::Done,
        Fitness::Slow | Fitness::SlowBesideFlood => Exit::Failed,
        Fitness::Inconclusive => Exit::Inconclusive,
    })
}

fn write_junit(file: &Path, check: &Check) -> anyhow::Result<()> {
    output::write_file(file, |out| Ok(out.write_all(check::junit(check).as_bytes())?))
}

/// Measures, and leaves nothing behind.
fn checked(args: &CheckArgs, origin: Instant) -> anyhow::Result<Check> {
    let (goal, scenario) = (args.goal()?, args.scenario()?);
    for file in [&args.junit, &args.out].into_iter().flatten() {
        output::check_writable(file)?;
    }
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let stop = signals::stop_flag()?;
    let deadline = Deadline::start(origin, args.timeout, args.measure, &stop)?;
    let mut runner = open(args, origin, &stop)?;
    let Begin { scenario, mut warnings, lab } =
        Begin::of(&runner, &args.dir, Vec::new(), args.progress, || {
            fitted(&scenario, &runner, args.size)
        })?;
    let mut progress = Progress::new(args.progress, &scenario, Arc::clone(&stop));
    let runs = measure::runs(&mut runner, &scenario, &goal, (&deadline, &stop), &mut progress);
    let facts = runner.facts().clone();
    let directory = runner.location().directory.display().to_string();
    let missing = runner.missing();
    let first_operation = runner.first_operation();
    let closed = runner.close();
    warnings.extend(progress.finish());
    // The first error is returned; what is left on the disk is told all the same.
    if let (Err(_), Err(left)) = (&runs, &closed) {
        notice(&left.to_string());
    }
    // A signal explains whatever else went wrong at the same time. The deadline explains nothing:
    // a run that it ended is no error.
    if runs.is_err() && stop.load(Ordering::Relaxed) && !deadline.is_over() {
        return Err(BenchError::Interrupted.into());
    }
    let (runs, trial) = runs?;
    closed?;
    if let Some(late) = lab.and_then(|lab| lab.warning()) {
        notice(&format!("warning: {late}"));
        warnings.push(late);
    }
    let seconds = origin.elapsed().as_secs_f64();
    if let Some(file) = &args.out {
        // As the result of a bench, which repeats it.
        let late = deadline.is_over().then(|| anyhow::anyhow!(deadline.why()));
        let run = document::run_facts(document::Facts {
            host: &facts,
            missing: missing.clone(),
            warnings: warnings.clone(),
            failure: late.as_ref(),
            started_at,
            seconds,
            first_operation,
        });
        let document = Document::new(run, &scenario, vec![trial], None)?;
        output::write_file(file, |out| Ok(document.write_json(out)?))?;
    }
    Ok(Check {
        goal,
        directory,
        filesystem: facts.filesystem,
        device: facts.device.map(|device| device.name),
        runs,
        missing,
        warnings,
        seconds,
    })
}

/// Settles the sizes. Where there is too little space for a flood, tells how much it takes without.
fn fitted(scenario: &Scenario, runner: &HostRunner, cap: Option<Bytes>) -> anyhow::Result<Fitted> {
    let room = runner.room(cap)?;
    let error = match space::fit(scenario, room) {
        Err(error @ SpaceError::TooLittle { .. }) if !scenario.floods.is_empty() => error,
        other => return Ok(other?),
    };
    let alone = Scenario { floods: Vec::new(), ..scenario.clone() };
    Err(match space::fit(&alone, room) {
        Ok(alone) => UsageError(format!("{error}; --alone needs {}", alone.needed)).into(),
        Err(_) => error.into(),
    })
}

/// Opens the directory for measuring. One in memory is refused also with `--force`.
fn open(args: &CheckArgs, origin: Instant, stop: &Arc<AtomicBool>) -> anyhow::Result<HostRunner> {
    let options = |force| Options {
        force,
        seed: 1,
        same_group: false,
        // This very program, whatever has become of its file.
        flood_command: vec!["/proc/self/exe".into(), FLOOD_COMMAND.into()],
        sync_command: vec!["/proc/self/exe".into(), SYNC_COMMAND.into()],
        ..Options::new(origin, Arc::clone(stop))
    };
    match HostRunner::open(SysRoot::live()?, &args.dir, options(false)) {
        Err(BenchError::NoWriteback { dir, filesystem, .. })
            if IN_MEMORY.contains(&filesystem.as_str()) =>
        {
            Err(UsageError(format!(
                "'{}' is on {filesystem}, in memory: a sync costs nothing there, so every check \
                 would pass; name a directory on a disk",
                dir.display()
            ))
            .into())
        }
        Err(BenchError::NoWriteback { .. }) if args.force => {
            Ok(HostRunner::open(SysRoot::live()?, &args.dir, options(true))?)
        }
        other => Ok(other?),
    }
}
