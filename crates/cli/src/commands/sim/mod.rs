//! `floodwall sim`: arguments → machine, setting, scenario → simulated runner → rounds → document →
//! the formats that were asked for.
//!
//! Nothing in the result depends on when or where it was made: times are virtual, so that the same
//! command gives the same bytes.

mod args;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use floodwall_model::status::Missing;
use floodwall_model::{Bytes, PhaseKind, Runner, Setting, Trial, Watch};
use floodwall_report::schema::{
    Document, ResultDevice, ResultFilesystem, ResultHost, Run, RunStatus, SIMULATED,
};
use floodwall_report::{markdown, text, timeline};
use floodwall_sim::SimRunner;
use floodwall_sim::explain::{Explained, at_percentile};

pub(crate) use args::{SimArgs, device_of, knob_name, knob_value};

use self::args::SimCommand;
use crate::commands::bench::{concluded, settle_rates};
use crate::commands::sim_sweep;
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::{signals, terminal};

/// Notices an interrupt, and passes warnings on.
struct Interruptible {
    stop: Arc<AtomicBool>,
    warnings: Vec<String>,
}

impl Watch for Interruptible {
    fn warn(&mut self, message: &str) {
        self.warnings.push(message.to_owned());
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<Exit> {
    if let Some(SimCommand::Sweep(sweep)) = &args.command {
        return sim_sweep::run(sweep);
    }
    let (mut scenario, mut warnings) = args.loads.scenario()?;
    for path in [&args.out, &args.timeline].into_iter().flatten() {
        output::check_writable(path)?;
    }
    let setting = args.setting()?;
    let mut runner = SimRunner::new(args.options()?);
    warnings.extend(args.warnings());
    runner.check(&scenario, &setting).map_err(|e| UsageError(e.to_string()))?;
    // The device is known: no flood has to fill a larger cache than it has.
    let device =
        runner.options().device.build(runner.options().capacity().0, runner.options().seed)?;
    let cache = &mut scenario.timing.device_cache;
    *cache = Bytes(device.stats().cache_size_bytes).min(*cache);
    let mut watch = Interruptible { stop: signals::stop_flag()?, warnings: Vec::new() };
    settle_rates(&mut runner, &mut scenario, &Setting::default(), &mut watch)?;
    let mut trials = Vec::new();
    let mut failure = None;
    for round in 1..=scenario.timing.rounds {
        match runner.run(&scenario, &setting, round, &mut watch) {
            Ok(trial) => trials.push(trial),
            Err(error) => {
                trials.extend(error.partial.map(|partial| *partial));
                failure = Some(anyhow::Error::from_boxed(error.source));
                break;
            }
        }
    }
    warnings.append(&mut watch.warnings);
    for warning in &warnings {
        notice(&format!("warning: {warning}"));
    }
    let run = facts(args, &runner, &trials, warnings, failure.as_ref());
    let document = Document::new(run, &scenario, trials, None)?;
    if !document.trials.is_empty() {
        show(args, &document)?;
    }
    if args.explain {
        tell(args, &explain(&runner))?;
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(concluded(&document, args.json)),
    }
}

/// Prints the explanation after the result, or on stderr beside a result for programs.
fn tell(args: &SimArgs, explanation: &str) -> anyhow::Result<()> {
    if args.json {
        notice(explanation);
        Ok(())
    } else if args.markdown {
        output::document(&format!("\n```text\n{explanation}\n```\n"))
    } else {
        output::result(&format!("\n{explanation}\n"))
    }
}

fn show(args: &SimArgs, document: &Document) -> anyhow::Result<()> {
    if args.json {
        output::json(&document.to_json()?)?;
    } else if args.markdown {
        output::document(&markdown::bench(document))?;
    } else {
        output::result(&text::bench(document, terminal::width()))?;
    }
    if let Some(path) = &args.out {
        output::write_file(path, |out| Ok(document.write_json(out)?))?;
    }
    if let Some(path) = &args.timeline {
        output::write_file(path, |out| Ok(out.write_all(timeline::csv(document).as_bytes())?))?;
    }
    Ok(())
}

/// What the result says of the machine.
fn facts(
    args: &SimArgs,
    runner: &SimRunner,
    trials: &[Trial],
    warnings: Vec<String>,
    failure: Option<&anyhow::Error>,
) -> Run {
    let options = runner.options();
    let in_force = trials.first().map_or_else(Setting::default, |t| t.setting.clone());
    let absent = |what: &str| Missing { what: what.into(), why: SIMULATED.into() };
    let end = |t: &Trial| t.phases.iter().map(|p| p.start_s + p.seconds).fold(0.0, f64::max);
    Run {
        command: "sim".into(),
        floodwall_version: env!("CARGO_PKG_VERSION").into(),
        status: failure
            .map_or(RunStatus::Complete, |e| RunStatus::Partial { why: output::message(e) }),
        started_at_unix_s: 0.0,
        seconds: trials.iter().map(end).sum(),
        first_operation_ms: None,
        host: ResultHost {
            kernel: Some(args.release()),
            ram_bytes: Some(options.ram.0),
            cpus: Some(u64::from(options.cpus)),
            distribution: None,
            virtualisation: None,
        },
        device: Some(ResultDevice {
            name: options.device.name.clone(),
            model: Some(options.device.model.clone()),
            firmware: None,
            scheduler: in_force.get("scheduler").map(str::to_owned),
            rotational: Some(options.device.rotational()),
            size_bytes: Some(options.capacity().0),
            leaves: Vec::new(),
        }),
        filesystem: Some(ResultFilesystem {
            kind: options.fs.to_string(),
            mount_options: String::new(),
            path: options.device.name.clone(),
        }),
        missing: ["host.distribution", "host.virtualisation", "psi_io"].map(absent).into(),
        warnings,
    }
}

/// Where the time of some operations went, phase by phase over all rounds.
fn explain(runner: &SimRunner) -> String {
    let mut text = String::new();
    for kind in [PhaseKind::Victim, PhaseKind::Both] {
        let operations: Vec<Explained> = runner
            .explained()
            .iter()
            .filter(|p| p.kind == kind)
            .flat_map(|p| p.operations.iter().copied())
            .collect();
        if operations.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "{}: where the time of one operation of {} went",
            kind.name(),
            operations.len()
        );
        for (name, percentile) in [("median", 50.0), ("p99", 99.0), ("slowest", 100.0)] {
            if let Some(operation) = at_percentile(&operations, percentile) {
                let _ = writeln!(text, "  {name:<8} {operation}");
            }
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        sim: SimArgs,
    }

    fn sim(args: &[&str]) -> anyhow::Result<(SimRunner, SimArgs)> {
        let args =
            Only::try_parse_from(["sim", "--device", "hdd-7200"].iter().chain(args).copied())?.sim;
        Ok((SimRunner::new(args.options()?), args))
    }

    fn refusal(args: &[&str]) -> String {
        let checked = sim(args).and_then(|(runner, args)| {
            let scenario = args.loads.scenario()?.0;
            Ok(runner.check(&scenario, &args.setting()?).map_err(|e| UsageError(e.to_string()))?)
        });
        format!("{:#}", checked.unwrap_err())
    }

    #[test]
    fn what_can_not_be_is_refused_with_what_can() {
        for (args, part) in [
            (
                &["--kernel", "2.6.32", "--set", "scheduler=kyber"][..],
                "it has noop, anticipatory, deadline, cfq",
            ),
            (
                &["--kernel", "2.6.32", "--set", "wbt_lat_usec=0"],
                "Linux 2.6.32 has no wbt_lat_usec; its queues have scheduler, nr_requests",
            ),
            (
                &["--kernel", "2.6.18", "--set", "vm.dirty_bytes=15MB"],
                "Linux 2.6.18 has no vm.dirty_bytes",
            ),
            (&["--kernel", "2.4"], "use 2.6.18, 2.6.32, 3.2 or 6.18"),
            (
                &["--kernel", "6.18", "--fs", "ext3"],
                "Linux 6.18 had no ext3; use xfs, ext4, btrfs or raw",
            ),
            (
                &["--ram", "1GiB", "--set", "vm.dirty_bytes=2GiB"],
                "smaller than what may be dirty in it (2 GiB)",
            ),
            (&["--set", "vm.dirty_bytes=15"], "needs a unit"),
            (&["--set", "schedular=none"], "did you mean scheduler"),
            (&["--set", "victim.ioprio=be/8"], "'be/8' is not an I/O priority"),
            (&["--set", "victim.nr_requests=8"], "there is no knob 'victim.nr_requests'"),
            (&["--set", "ioprio=be/0"], "the model does not have ioprio"),
            (&["--fs", "xfs", "--set", "journal.ioprio=be/0"], "it needs ext4"),
            (
                &["--kernel", "3.2", "--fs", "ext4", "--set", "journal.ioprio=be/0"],
                "Linux 3.2 has no",
            ),
            (
                &["--device", "nvme-consumer", "--set", "device.queue_depth=8"],
                "behind the SCSI layer",
            ),
            (&["--flood-cmd", "cp a b"], "a command can't run in virtual time"),
            (&["--fs", "zfs"], "is no filesystem that the model has"),
            (&["--capacity", "1GiB"], "the device has 1 GiB"),
            (&["--size", "1GiB"], "use --capacity"),
            (&["--force"], "leave it out"),
            (&["--cpus", "0"], "0 is not in 1.."),
            (&["--scenario", "copy-vs-databas"], "(floodwall bench --list-scenarios names them)"),
            (&["--device", "hdd"], "did you mean 'hdd-7200'"),
        ] {
            let message = refusal(args);
            assert!(message.contains(part), "{args:?}: {message}");
        }
    }
}
