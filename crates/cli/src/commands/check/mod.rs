//! `floodwall check`: is this disk good enough for a program, alone and beside a flood?
//!
//! ```text
//! program ─▶ preset ─▶ scenario of one log and one flood ─▶ bench::HostRunner, one round
//!                 └▶ limit ────────────────┐                  │ phases
//!                        report::check: verdict ◀─────────────┘
//! ```

mod args;
mod presets;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(crate) use args::CheckArgs;
use floodwall_bench::scratch;
use floodwall_bench::space::{self, Fitted};
use floodwall_bench::{BenchError, HostRunner, Options};
use floodwall_host::SysRoot;
use floodwall_model::{Phase, PhaseKind, Runner, Scenario, Setting};
use floodwall_report::check::{self, Beside, Check, Fitness, Measured, Run};

use crate::commands::bench::{FLOOD_COMMAND, leftover_warning, space_notice};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::progress::{Progress, Show};
use crate::{signals, terminal};

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &CheckArgs, origin: Instant) -> anyhow::Result<Exit> {
    let (goal, scenario) = (args.goal()?, args.scenario()?);
    let stop = signals::stop_flag()?;
    let mut runner = open(args, origin, &stop)?;
    let mut warnings: Vec<String> = scratch::leftovers(&args.dir)?
        .iter()
        .map(|left| leftover_warning(left, &args.dir))
        .collect();
    warnings.extend(runner.notes().iter().cloned());
    let Fitted { scenario, needed, warnings: fitting } =
        space::fit(&scenario, runner.room(args.size)?)?;
    warnings.extend(fitting);
    for warning in &warnings {
        notice(&format!("warning: {warning}"));
    }
    if args.progress != Show::Never {
        notice(&space_notice(needed, &args.dir));
    }
    let mut progress = Progress::new(args.progress, &scenario, Arc::clone(&stop));
    let measured = measure(&mut runner, &scenario, &mut progress);
    let facts = runner.facts().clone();
    let directory = runner.location().directory.display().to_string();
    let missing = runner.missing();
    let closed = runner.close();
    warnings.extend(progress.finish());
    let runs = match measured {
        Err(_) if stop.load(Ordering::Relaxed) => return Err(BenchError::Interrupted.into()),
        other => other?,
    };
    closed?;
    let check = Check {
        goal,
        directory,
        filesystem: facts.filesystem,
        device: facts.device.map(|device| device.name),
        runs,
        missing,
        warnings,
        seconds: origin.elapsed().as_secs_f64(),
    };
    output::screen(&check::text(&check, terminal::style()))?;
    Ok(match check::verdict(&check).fitness {
        Fitness::Fit => Exit::Done,
        Fitness::Slow | Fitness::SlowBesideFlood => Exit::Failed,
        Fitness::Inconclusive => Exit::Inconclusive,
    })
}

/// Opens the directory for measuring.
fn open(args: &CheckArgs, origin: Instant, stop: &Arc<AtomicBool>) -> anyhow::Result<HostRunner> {
    let options = Options {
        seed: 1,
        same_group: false,
        // This very program, whatever has become of its file.
        flood_command: vec!["/proc/self/exe".into(), FLOOD_COMMAND.into()],
        ..Options::new(origin, Arc::clone(stop))
    };
    match HostRunner::open(SysRoot::live()?, &args.dir, options) {
        Err(BenchError::NoWriteback { dir, filesystem, reason }) => Err(UsageError(format!(
            "'{}' is on {filesystem}: {reason}; name a directory on a disk",
            dir.display()
        ))
        .into()),
        other => Ok(other?),
    }
}

/// Runs alone and beside the flood.
fn measure(
    runner: &mut HostRunner,
    scenario: &Scenario,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Run>> {
    runner.prepare(scenario, progress)?;
    let trial = runner
        .run(scenario, &Setting::default(), 1, progress)
        .map_err(|error| anyhow::Error::from_boxed(error.source))?;
    let of = |phase: &Phase| {
        let beside = match phase.kind {
            PhaseKind::Victim => Beside::Nothing,
            PhaseKind::Both => Beside::Flood,
            _ => return None,
        };
        Some(Run { beside, measured: Ok(measured(phase)) })
    };
    Ok(trial.phases.iter().filter_map(of).collect())
}

/// What a phase measured.
fn measured(phase: &Phase) -> Measured {
    let latencies = phase.latencies();
    Measured {
        seconds: phase.seconds,
        sync: latencies.sync,
        commit: latencies.commit,
        flood_bytes_per_s: phase.kind.has_flood().then(|| phase.flood_bytes_per_s()),
    }
}
