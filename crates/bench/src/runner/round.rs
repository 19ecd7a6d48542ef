//! One round of a trial: its phases, in an order that rotates with the round.

use std::sync::atomic::Ordering;

use floodwall_load::{Apart, PreparedFlood};
use floodwall_model::runner::Step;
use floodwall_model::scenario::{Data, unsettled_rate};
use floodwall_model::setting::VICTIMS_PRIORITY;
use floodwall_model::{Bytes, Phase, PhaseKind, Trial, Watch};

use super::HostRunner;
use crate::budget::Budget;
use crate::drain;
use crate::error::BenchError;
use crate::groups::{self, Groups};
use crate::phase::{self, PhaseRun};

impl HostRunner {
    /// Runs the phases of one round into `trial`.
    pub(super) fn run_round(
        &mut self,
        trial: &mut Trial,
        watch: &mut dyn Watch,
    ) -> Result<(), BenchError> {
        let Some(prepared) = &self.prepared else { return Err(BenchError::Interrupted) };
        if let Some(why) = unsettled_rate(&prepared.scenario) {
            return Err(BenchError::Unsettled(why));
        }
        let kinds = prepared.scenario.phases_of_round(trial.round);
        let settle = prepared.scenario.timing.settle;
        for (at, kind) in (0..).zip(kinds) {
            self.clear_backlog(trial.round, watch)?;
            let (sampler, stop) = (&mut self.sampler, &*self.options.stop);
            drain::settle(sampler, settle, stop, trial.round, watch)?;
            let phase = self.run_phase(kind, at, trial, watch)?;
            let cut_short = phase.cut_short.clone();
            trial.phases.push(phase);
            if let Some(cause) = cut_short {
                return Err(BenchError::CutShort(cause));
            }
        }
        // The last phase's writeback errors have to come out too.
        self.clear_backlog(trial.round, watch)
    }

    /// Throws the floods' backlog away, writes back what else is dirty and waits until the device
    /// is idle.
    fn clear_backlog(&mut self, round: u32, watch: &mut dyn Watch) -> Result<(), BenchError> {
        let floods = self.prepared.as_ref().map_or(&[][..], |prepared| &prepared.floods);
        groups::as_flood(&self.groups, || floods.iter().try_for_each(PreparedFlood::discard))??;
        let (options, sampler) = (&self.options, &mut self.sampler);
        drain::drain(self.scratch.dir(), sampler, options, round, watch)
    }

    /// Runs the phase that comes `at` this place in its round.
    fn run_phase(
        &mut self,
        kind: PhaseKind,
        at: u64,
        trial: &Trial,
        watch: &mut dyn Watch,
    ) -> Result<Phase, BenchError> {
        let Some(prepared) = &self.prepared else { return Err(BenchError::Interrupted) };
        let (scenario, options) = (&prepared.scenario, &self.options);
        if let (PhaseKind::Burst, Some(bytes)) = (kind, scenario.burst) {
            let data = scenario.floods.first().map_or(Data::Random, |f| f.data);
            return self.burst(bytes, data, trial.round, watch);
        }
        let kinds = scenario.phase_kinds();
        let with_intervals = kinds.iter().filter(|kind| **kind != PhaseKind::Burst).count();
        let apart = (!options.flood_command.is_empty()).then(|| Apart {
            command: options.flood_command.clone(),
            group: self.groups.as_ref().ok().and_then(Groups::flood),
        });
        let run = PhaseRun {
            kind,
            round: trial.round,
            victims: &prepared.victims,
            floods: &prepared.floods,
            timing: &scenario.timing,
            sampler: &mut self.sampler,
            stop: &options.stop,
            origin: options.origin,
            seed: options.seed.wrapping_add(u64::from(trial.round) << 32 | at << 16),
            proc_root: &self.root.path().join("proc"),
            budget: Budget::of_phase(with_intervals, scenario.timing.rounds),
            command_counts: &mut self.command_counts,
            apart: apart.as_ref(),
            priority: trial.setting.get(VICTIMS_PRIORITY),
            tool: self.tool.as_deref_mut(),
        };
        phase::run(run, watch)
    }

    /// Measures how fast the kernel accepts a burst. It stands for some other program, which is not
    /// in the floods' group.
    fn burst(
        &self,
        bytes: Bytes,
        data: Data,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Phase, BenchError> {
        let phase = Some(PhaseKind::Burst);
        watch.step(Step { what: "measuring", phase, round, expected_s: 1.0 });
        let options = &self.options;
        let start_s = options.origin.elapsed().as_secs_f64();
        let seed = options.seed ^ u64::from(round);
        let totals = floodwall_load::burst(self.scratch.dir(), bytes, data, seed, &options.stop)?;
        let cut_short = options.stop.load(Ordering::Relaxed).then(|| "interrupted".to_owned());
        Ok(Phase::of_burst(start_s, totals, cut_short))
    }
}
