//! The common script of the default, fixed settings and the guard.
//!
//! ```text
//! 0 s victim ─▶ 15 s flood joins ──▶ 75 … 105 s: what is kept ─▶ 105 s victim leaves ─▶ 120 s end
//!                 └ dead seconds from the third on
//! another machine: 0 s victim ─▶ 10 s it leaves ─▶ 20 s burst
//! ```

use anyhow::Context;
use floodwall_guard::{Decision, State};
use floodwall_model::trial::BurstTotals;
use floodwall_model::{Bytes, Phase, PhaseKind, Setting};
use floodwall_sim::PlantDevice;
use floodwall_sim::plant::Happening;
use floodwall_tune::objective::{Objective, Reference, kept};
use serde::{Deserialize, Serialize};

use crate::cells::Cell;
use crate::measure::rounded;
use crate::stage::Stage;

/// When the flood joins, when the victim leaves, the end; in seconds.
pub(crate) const MEET: u64 = 15;
pub(crate) const LEAVE: u64 = 105;
const END: u64 = 120;
/// The shares kept are measured in the last seconds of the encounter.
pub(crate) const LAST: u64 = 30;
/// Dead seconds count after so many of an encounter.
pub(crate) const GRACE: u64 = 2;
/// When the burst's victim leaves, and when the burst comes.
const VICTIM_STOPS: u64 = 10;
const BURST: u64 = 20;

/// One machine's way through the script. Shares are of the reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The score's logarithm.
    pub(crate) score: f64,
    pub(crate) victim_kept: f64,
    pub(crate) flood_kept: f64,
    pub(crate) burst_kept: f64,
    /// Nine of ten operations of the last seconds took no longer, in microseconds; `None` of a run
    /// before that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p90_us: Option<f64>,
    /// Dead seconds after the first two of the encounter.
    pub(crate) dead_seconds: f64,
    /// The guard's; `None` of a fixed setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) steered: Option<Steered>,
}

/// What the guard did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steered {
    /// Seconds until it protected, and until it had given the device back; `None`: never.
    pub(crate) protected_s: Option<f64>,
    pub(crate) freed_s: Option<f64>,
    pub(crate) writes: usize,
    /// Every knob read as before at the end.
    pub(crate) given_back: bool,
    /// The setting in force when the victim left, as a fixed setting.
    pub(crate) level: Setting,
}

fn stage(cell: &Cell, seed: u64, setting: &Setting, guarded: bool) -> anyhow::Result<Stage> {
    let part = PlantDevice { options: cell.machine(seed)?, scenario: cell.scenario()? };
    Stage::new(vec![part], setting, guarded)
}

/// A setting's or the guard's way through the script on the machine with this seed, and the guard's
/// decisions.
pub(crate) fn run(
    cell: &Cell,
    seed: u64,
    setting: &Setting,
    guarded: bool,
    reference: &Reference,
) -> anyhow::Result<(Run, Vec<Decision>)> {
    let scenario = cell.scenario()?;
    let (victim, flood) = (&scenario.victims[0].name, &scenario.floods[0].name);
    let mut stage = stage(cell, seed, setting, guarded)?;
    stage.start(0, victim)?;
    stage.start(MEET, flood)?;
    stage.stop(LEAVE, victim)?;
    stage.until(LEAVE)?;
    let level = stage.level();
    stage.until(if guarded { END } else { LEAVE })?;
    let mut trial = stage.trial(victim, flood, LEAVE - LAST, LEAVE);
    trial.phases.extend(burst(cell, seed, setting, guarded, victim)?);
    let kept = kept(&trial, reference).context("the trial has no complete phase")?;
    let dead = stage.dead(victim, reference.iops_alone, MEET + GRACE, LEAVE);
    let steered = guarded.then(|| -> anyhow::Result<Steered> {
        Ok(Steered {
            protected_s: stage.entered(State::Protect, MEET),
            freed_s: stage.entered(State::Free, LEAVE),
            writes: stage.writes.len(),
            given_back: stage.is_as_it_was()?,
            level,
        })
    });
    let run = Run {
        score: rounded(Objective::default().log_score(&kept)),
        victim_kept: rounded(kept.point.victim_kept),
        flood_kept: rounded(kept.point.flood_kept.unwrap_or(0.0)),
        burst_kept: rounded(kept.point.burst_kept.unwrap_or(0.0)),
        p90_us: Some(stage.quantile_us(0.9, LEAVE - LAST, LEAVE)),
        dead_seconds: f64::from(u32::try_from(dead)?),
        steered: steered.transpose()?,
    };
    Ok((run, stage.decisions))
}

/// A burst ten seconds after a victim that was alone has gone; `None` if it is not accepted in
/// time.
fn burst(
    cell: &Cell,
    seed: u64,
    setting: &Setting,
    guarded: bool,
    victim: &str,
) -> anyhow::Result<Option<Phase>> {
    let bytes = cell.scenario()?.burst.unwrap_or(Bytes::gib(1));
    let mut stage = stage(cell, seed, setting, guarded)?;
    let device = stage.first_device().context("there is no device")?;
    stage.start(0, victim)?;
    stage.stop(VICTIM_STOPS, victim)?;
    stage.at(BURST, Happening::Burst(device, bytes))?;
    let mut end = BURST;
    // A small limit makes it as slow as the device.
    while stage.burst_bytes_per_s().is_none() && end < 100 * BURST {
        end += 5;
        stage.until(end)?;
    }
    let Some(rate) = stage.burst_bytes_per_s() else { return Ok(None) };
    let mut trial = stage.trial(victim, "", 0, 1);
    Ok(trial.phases.pop().map(|phase| Phase {
        kind: PhaseKind::Burst,
        burst: Some(BurstTotals { bytes: bytes.0, seconds: bytes.0 as f64 / rate }),
        ..phase
    }))
}

/// What the guard decided, line by line.
pub(super) fn log(cell: &Cell, decisions: &[Decision]) -> String {
    let line = |d: &Decision| {
        let at = d.at.as_secs_f64();
        format!("{} {at:7.2} s {:>7} → {:7} [{}] {}\n", cell.name(), d.from, d.to, d.level, d.why)
    };
    decisions.iter().map(line).collect()
}
