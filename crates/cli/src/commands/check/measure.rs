//! The runs of a check: alone, beside a flood, beside a flood with a guard.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_bench::{BenchError, HostRunner};
use floodwall_load::LoadError;
use floodwall_model::{Bytes, Phase, PhaseKind, Runner, Scenario, Setting, Trial};
use floodwall_report::check::{Beside, Goal, Grade, Measured, Run};

use super::deadline::Deadline;
use super::guarded::{self, Guarded};
use crate::progress::Progress;

/// Longest warm-up of a guarded run: the guard has to find out what helps.
const GUARDED_WARMUP: Duration = Duration::from_secs(8);
/// A flood reaches the disk if the disk gets one in so many of its bytes.
const REACHES: u64 = 10;

/// Runs the scenario alone and beside its flood, and with a guard where that was too slow. Also
/// returns the raw data of the runs without a guard.
pub(super) fn runs(
    runner: &mut HostRunner,
    scenario: &Scenario,
    goal: &Goal,
    (deadline, stop): (&Deadline, &AtomicBool),
    progress: &mut Progress,
) -> anyhow::Result<(Vec<Run>, Trial)> {
    let trial = round(runner, scenario, deadline, progress)?;
    let kinds = scenario.phase_kinds();
    let mut runs: Vec<Run> = kinds
        .iter()
        .filter_map(|kind| {
            let measured = trial.phases.iter().find(|phase| phase.kind == *kind).map(measured);
            Some(Run { beside: beside(*kind)?, measured: measured.ok_or_else(|| deadline.why()) })
        })
        .collect();
    let flooded = runs.iter().find(|run| run.beside == Beside::Flood);
    if let Some(Run { measured: Ok(flooded), .. }) = flooded {
        let measured = match goal.grade(flooded) {
            Grade::Fast => Err("beside a flood it was fast enough without a guard".to_owned()),
            _ => guarded(runner, scenario, goal, (deadline, stop), progress)?,
        };
        runs.push(Run { beside: Beside::GuardedFlood, measured });
    }
    Ok((runs, trial))
}

fn beside(kind: PhaseKind) -> Option<Beside> {
    match kind {
        PhaseKind::Victim => Some(Beside::Nothing),
        PhaseKind::Both => Some(Beside::Flood),
        PhaseKind::Flood | PhaseKind::Burst => None,
    }
}

/// Runs beside the flood once more, with a guard; or tells why there is none.
fn guarded(
    runner: &mut HostRunner,
    scenario: &Scenario,
    goal: &Goal,
    (deadline, stop): (&Deadline, &AtomicBool),
    progress: &mut Progress,
) -> anyhow::Result<Result<Measured, String>> {
    if let Some(why) = guarded::refusal().or_else(|| deadline.refusal(scenario.timing.measure)) {
        return Ok(Err(why));
    }
    let guard = match Guarded::start(&runner.location().directory, goal.limit, stop) {
        Ok(guard) => guard,
        Err(why) => return Ok(Err(why)),
    };
    let mut scenario = scenario.clone();
    scenario.phases = vec![PhaseKind::Both];
    scenario.timing.warmup_max = GUARDED_WARMUP;
    let trial = round(runner, &scenario, deadline, progress);
    drop(guard);
    Ok(trial?.phases.first().map(measured).ok_or_else(|| deadline.why()))
}

/// One round of a scenario; of one that the deadline ended, the phases that were over by then.
fn round(
    runner: &mut HostRunner,
    scenario: &Scenario,
    deadline: &Deadline,
    progress: &mut Progress,
) -> anyhow::Result<Trial> {
    let error = match runner.run(scenario, &Setting::default(), 1, progress) {
        Ok(trial) => return Ok(trial),
        Err(error) => error,
    };
    let was_told = matches!(
        error.source.downcast_ref(),
        Some(
            BenchError::Interrupted
                | BenchError::CutShort(_)
                | BenchError::Load(LoadError::Interrupted)
        )
    );
    if !(was_told && deadline.is_over()) {
        return Err(anyhow::Error::from_boxed(error.source));
    }
    let empty = Trial { setting: runner.setting().clone(), round: 1, phases: Vec::new() };
    let mut trial = error.partial.map_or(empty, |trial| *trial);
    trial.phases.retain(|phase| phase.cut_short.is_none());
    Ok(trial)
}

/// The figures of a phase.
fn measured(phase: &Phase) -> Measured {
    let latencies = phase.latencies();
    Measured {
        seconds: phase.seconds,
        sync: latencies.sync,
        commit: latencies.commit,
        flood_bytes_per_s: phase.kind.has_flood().then(|| phase.flood_bytes_per_s()),
        flood_stays_below: if phase.kind.has_flood() { stays_below(phase) } else { None },
    }
}

/// The limit from which on the kernel writes back, if the flood's dirty pages stayed below it. The
/// limit of a control group may be lower: then the disk gets much of what the flood writes.
fn stays_below(phase: &Phase) -> Option<Bytes> {
    let hosts = || phase.intervals.iter().map(|interval| &interval.host);
    let backlog = hosts().map(|host| Some(host.dirty_bytes? + host.writeback_bytes?)).max()??;
    let limit = hosts().map(|host| host.background_threshold_bytes).min()??;
    let written: Option<u64> = hosts().map(|host| Some(host.device?.written_bytes)).sum();
    let reaches_disk = written.is_some_and(|bytes| bytes >= phase.flood_bytes() / REACHES);
    (backlog < limit && !reaches_disk).then_some(Bytes(limit))
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::{BurstTotals, DeviceSample, HostSample};
    use floodwall_model::{Interval, PhaseKind};

    use super::*;

    fn flooded(dirty: Option<u64>, written_bytes: u64) -> Phase {
        let device = Some(DeviceSample { written_bytes, ..DeviceSample::default() });
        let host = HostSample {
            dirty_bytes: dirty,
            writeback_bytes: Some(0),
            background_threshold_bytes: Some(1000),
            device,
            ..HostSample::default()
        };
        let interval = Interval { flood_bytes: 500, host, ..Interval::default() };
        let mut phase = Phase::of_burst(0.0, BurstTotals { bytes: 0, seconds: 1.0 }, None);
        (phase.kind, phase.intervals) = (PhaseKind::Both, vec![interval]);
        phase
    }

    #[test]
    fn a_flood_that_the_kernel_does_not_write_back_is_known() {
        assert_eq!(stays_below(&flooded(Some(900), 10)), Some(Bytes(1000)));
        assert_eq!(stays_below(&flooded(Some(1000), 10)), None);
        assert_eq!(stays_below(&flooded(Some(900), 400)), None, "a group's own limit");
        assert_eq!(stays_below(&flooded(None, 10)), None);
    }
}
