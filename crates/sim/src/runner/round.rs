//! One round of a trial: its phases, in an order that rotates with the round.

use floodwall_device::Nanos;
use floodwall_model::runner::Step;
use floodwall_model::scenario::unsettled_rate;
use floodwall_model::trial::BurstTotals;
use floodwall_model::{Bytes, Phase, PhaseKind, Scenario, Setting, Trial, Watch, setting};

use super::{ExplainedPhase, SimRunner};
use crate::error::SimError;
use crate::explain::Explainer;
use crate::machine::Machine;
use crate::phase::{self, PhaseRun};
use crate::setup::PlacedLoads;
use crate::workload::{Program, seeded};

/// How long a backlog may take to drain between phases.
const DRAIN: Nanos = Nanos::from_secs(3_600);
/// How long a device is idle until it counts as such.
const IDLE: Nanos = Nanos::from_millis(200);

impl SimRunner {
    /// Runs the phases of one round into `trial`.
    pub(super) fn run_round(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        trial: &mut Trial,
        watch: &mut dyn Watch,
    ) -> Result<(), SimError> {
        if let Some(why) = unsettled_rate(scenario) {
            return Err(SimError::Scenario { part: format!("scenario '{}'", scenario.name), why });
        }
        trial.setting = self.check(scenario, setting)?;
        let round = trial.round;
        let seed = self.options.seed.wrapping_add(u64::from(round) << 32);
        let (mut machine, _) = self.build(setting, u64::from(round) << 32)?;
        let scenario = self.fit(scenario, &machine);
        let loads = PlacedLoads::place(&mut machine, &scenario, seed)?;
        machine.explainer = self.options.explain.then(Explainer::default);
        for kind in scenario.phases_of_round(round) {
            prepare(&mut machine, &loads, &scenario, round, watch);
            let phase = match (kind, scenario.burst) {
                (PhaseKind::Burst, Some(bytes)) => burst(&mut machine, bytes, round, watch),
                _ => phase::run(
                    &PhaseRun { kind, round, loads: &loads, timing: &scenario.timing },
                    &mut machine,
                    watch,
                ),
            };
            if let Some(explainer) = &mut machine.explainer {
                let operations = std::mem::take(&mut explainer.operations);
                self.explained.push(ExplainedPhase { round, kind, operations });
            }
            let cut = phase.cut_short.is_some();
            trial.phases.push(phase);
            if cut {
                return Err(SimError::Interrupted);
            }
        }
        match machine.block.counters(machine.now).errors {
            0 => Ok(()),
            n => Err(SimError::DeviceErrors(n)),
        }
    }
}

/// The known state that every phase starts from: no backlog, and the device left alone for a while.
fn prepare(
    machine: &mut Machine,
    loads: &PlacedLoads,
    scenario: &Scenario,
    round: u32,
    watch: &mut dyn Watch,
) {
    loads.floods.iter().for_each(|flood| machine.discard(flood));
    watch.step(Step { what: "draining", phase: None, round, expected_s: 0.5 });
    if !machine.drain(DRAIN) {
        watch.warn(
            "the backlog did not drain within an hour: the phases do not start from an idle device",
        );
    }
    machine.run_until(machine.now + IDLE);
    let settle = scenario.timing.settle;
    watch.step(Step { what: "settling", phase: None, round, expected_s: settle.as_secs_f64() });
    machine.run_until(machine.now + settle.into());
    // What the loads did before they were stopped belongs to no phase.
    for load in &mut machine.loads {
        load.meter.take();
    }
}

/// How fast the kernel accepts a burst.
fn burst(machine: &mut Machine, bytes: Bytes, round: u32, watch: &mut dyn Watch) -> Phase {
    watch.step(Step { what: "measuring", phase: Some(PhaseKind::Burst), round, expected_s: 1.0 });
    let begin = machine.now;
    let directory = machine.fs.new_directory();
    let file = machine.create_file(directory, bytes.0, false, false);
    let load = machine.add_load(machine.group_called(setting::FLOOD), 1 << 20, vec![file]);
    machine.add_task(load, Program::Burst { left: bytes.0 }, file, seeded(0, 0));
    machine.start_load(load);
    machine.run_while(begin + DRAIN, |m| !m.load_stopped(load));
    let seconds = machine.now.since(begin).as_secs_f64();
    machine.cache.truncate(file);
    Phase::of_burst(begin.as_secs_f64(), BurstTotals { bytes: bytes.0, seconds }, None)
}
