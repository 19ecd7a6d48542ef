//! The same cell in the simulator: the same model of the device, the same settings.

use anyhow::Context;
use floodwall_model::scenario::settle_rates;
use floodwall_model::{PhaseKind, Runner, Scenario, Setting};
use floodwall_sim::SimRunner;
use floodwall_stats::figures::{Reference, summarise};
use floodwall_stats::versus::with_alone_of_round;
use floodwall_tune::contest::{Alone, Contender, contest};
use published::origin::{self, Origin};

use crate::cells::{Cell, Pace, Place};
use crate::data::{Row, Run};
use crate::families;

/// What the figures depend on.
const INPUTS: [&str; 2] = ["simulator", "device-presets"];

/// Simulates a cell. The paced group has the lab's rate where that is known, so that both sides
/// have one setting.
pub(crate) fn measure(cell: &Cell, pace: Pace, lab: Option<&Run>) -> anyhow::Result<Run> {
    let mut runner = SimRunner::new(cell.machine()?);
    let mut scenario = cell.scenario(pace)?;
    let flood = match lab {
        Some(lab) => lab.flood_bytes_per_s,
        None => flood_alone(&mut runner, &scenario)?,
    };
    let mut families = families::of(cell, flood);
    if cell.place == Place::Guest {
        // A bench has control groups there under every setting; a simulated machine has them under
        // one that names them.
        for (_, setting) in &mut families {
            setting.0.entry("flood:memory.high".to_owned()).or_insert_with(|| "max".to_owned());
        }
    }
    settle_rates(&mut runner, &mut scenario, &families[0].1, &mut ())?;
    let contenders: Vec<Contender> = families
        .iter()
        .map(|(name, setting)| Contender { name: (*name).to_owned(), setting: setting.clone() })
        .collect();
    let contest =
        contest(&mut runner, &scenario, &contenders, Alone::First, 1, &mut (), &mut |_, _| ());
    let alone = contest.entrants.first().map(|first| first.trials.clone()).unwrap_or_default();
    let rows = families.into_iter().zip(contest.entrants).enumerate().map(
        |(i, ((name, setting), entrant))| {
            let summary = match i {
                0 => summarise(&entrant.trials, Reference::InForce),
                _ => summarise(
                    &with_alone_of_round(&entrant.trials, &alone),
                    Reference::Baseline(&alone),
                ),
            };
            Row {
                family: name.to_owned(),
                setting,
                summary: (!entrant.trials.is_empty()).then_some(summary),
                failure: entrant.failure,
            }
        },
    );
    Ok(Run {
        kernel: runner.options().generation.to_string(),
        flood_bytes_per_s: flood,
        origin: Origin::now(&origin::root()?, &INPUTS)?,
        warnings: Vec::new(),
        rows: rows.collect(),
    })
}

/// What the device takes from the flood alone under the default setting, in bytes a second, over
/// all rounds as in the lab.
fn flood_alone(runner: &mut SimRunner, scenario: &Scenario) -> anyhow::Result<f64> {
    let mut alone = Scenario { phases: vec![PhaseKind::Flood], ..scenario.clone() };
    alone.victims.clear();
    let round = |round| Ok(runner.run(&alone, &Setting::default(), round, &mut ())?);
    let trials = (1..=scenario.timing.rounds).map(round).collect::<anyhow::Result<Vec<_>>>()?;
    let flood = summarise(&trials, Reference::InForce).flood;
    let rate = flood.and_then(|flood| flood.flood_bytes_per_s).filter(|rate| *rate > 0.0);
    rate.context("the flood alone wrote nothing")
}
