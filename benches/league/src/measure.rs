//! The worth of a setting in a cell: trials in the simulator, scored as `tune` scores them.
//!
//! Rounds of the league have separate numbers, so that no trial that chose a setting also judges
//! it. Every setting gets the same rounds, and so the same luck.

use std::time::Duration;

use floodwall_model::{PhaseKind, Runner, Scenario, Setting};
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_stats::estimate::mean_and_variance;
use floodwall_tune::objective::{Kept, Objective, Reference, kept, pooled};

use crate::data::{Alone, Measured};

/// Rounds in which settings are judged, and where they are counted from.
pub(crate) const ROUNDS: u32 = 6;
pub(crate) const JUDGED_FROM: u32 = 1_001;
/// Measured part of the phases that judge.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// Rounds of the reference.
const REFERENCE_ROUNDS: u32 = 3;

/// A cell's machine and scenario.
pub(crate) struct Place {
    pub(crate) machine: SimOptions,
    pub(crate) scenario: Scenario,
}

impl Place {
    /// The rates of the loads alone here, from long rounds under the default setting.
    pub(crate) fn reference(&self) -> anyhow::Result<Reference> {
        let mut scenario = self.scenario.clone();
        scenario.timing.measure = LONG;
        let mut runner = SimRunner::new(self.machine.clone());
        let mut trials = Vec::new();
        for round in 0..REFERENCE_ROUNDS {
            trials.push(runner.run(
                &scenario,
                &Setting::default(),
                JUDGED_FROM + round,
                &mut (),
            )?);
        }
        Reference::of(&trials, &scenario)
            .ok_or_else(|| anyhow::anyhow!("victim or flood does nothing alone"))
    }

    /// A setting's figures in one round; the reason if the kernel refuses it.
    pub(crate) fn trial(
        &self,
        setting: &Setting,
        round: u32,
        measure: Duration,
        reference: &Reference,
    ) -> Result<Kept, String> {
        let mut scenario = self.scenario.clone();
        scenario.timing.measure = measure;
        scenario.phases = vec![PhaseKind::Both, PhaseKind::Burst];
        let mut runner = SimRunner::new(self.machine.clone());
        let trial = runner.run(&scenario, setting, round, &mut ()).map_err(|e| e.to_string())?;
        kept(&trial, reference).ok_or_else(|| "the trial has no complete phase".to_owned())
    }

    /// Measures a setting in long rounds, of random numbers that no search has seen.
    pub(crate) fn judge(
        &self,
        setting: &Setting,
        reference: &Reference,
    ) -> Result<Measured, String> {
        let all: Vec<Kept> = (0..ROUNDS)
            .map(|round| self.trial(setting, JUDGED_FROM + round, LONG, reference))
            .collect::<Result<_, _>>()?;
        let pooled = pooled(&all).ok_or("no rounds")?;
        let objective = Objective::default();
        let scores: Vec<f64> = all.iter().map(|k| objective.log_score(k)).collect();
        let error = mean_and_variance(&scores).map_or(0.0, |(_, v)| (v / f64::from(ROUNDS)).sqrt());
        Ok(Measured::of(&pooled, objective.log_score(&pooled), error))
    }
}

impl Measured {
    /// Rounds taken together, with their score and its standard error.
    pub(crate) fn of(pooled: &Kept, score: f64, error: f64) -> Self {
        Self {
            score: rounded(score),
            error: rounded(error),
            victim_kept: rounded(pooled.point.victim_kept),
            flood_kept: rounded(pooled.point.flood_kept.unwrap_or(0.0)),
            burst_kept: rounded(pooled.point.burst_kept.unwrap_or(0.0)),
            dead_share: rounded(pooled.point.dead_share),
            p99_us: pooled.tail().map_or(0.0, |tail| tail.us).round(),
        }
    }
}

/// Four digits behind the point are more than the rounds say.
pub(crate) fn rounded(value: f64) -> f64 {
    // A zero without a sign.
    (value * 1e4).round() / 1e4 + 0.0
}

impl From<&Reference> for Alone {
    fn from(r: &Reference) -> Self {
        Self {
            iops: rounded(r.iops_alone),
            flood_bytes_per_s: r.flood_bytes_per_s.round(),
            burst_bytes_per_s: r.burst_bytes_per_s.unwrap_or(0.0).round(),
            drain_bytes_per_s: r.drain_bytes_per_s.round(),
        }
    }
}
