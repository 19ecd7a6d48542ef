//! The best fixed setting of a cell: all known settings, and those that the guard held, through the
//! guard's script.
//!
//! ```text
//! recipes, presets, the grid's finalists, what searches found ─┐
//! what the guard held at the end of each machine ──────────────┴─▶ 2 machines, to choose 4
//! those 4 ─▶ the guard's 6 machines ─▶ the best
//! ```
//!
//! A drawn device has no grid. Every 15th point gets a trial of 8 s there, and the best 12 of them
//! go on; three searches of 10 minutes are run on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use floodwall_model::Setting;
use floodwall_sim::SimRunner;
use floodwall_tune::objective::{Objective, Reference};
use published::stored::read;

use super::script::{self, Run};
use crate::cells::{self, Cell};
use crate::contenders;
use crate::data::CellData;
use crate::measure::Place;
use crate::run::search;

/// Machines that choose; none of them judges.
const CHOOSING: [u64; 2] = [201, 202];
/// Settings that go through the script on the guard's machines.
pub(crate) const FINALISTS: usize = 4;
/// A setting whose score in the league is below this share of the best is no candidate.
const HOPELESS: f64 = 1.0 / 3.0;
/// Of a drawn device's space only every Nth point is looked at, for so long, and so many go on.
pub(crate) const EVERY: usize = 15;
const LOOK: Duration = Duration::from_secs(8);
const LOOKED_AT: usize = 12;
/// Searches on a drawn device, one a seed.
pub(crate) const SEARCHES: u64 = 3;

/// The known scores of a cell's fixed settings.
#[derive(Default)]
pub(crate) struct Known {
    /// Settings that went through the script on the choosing machines, with the mean of their
    /// scores' logarithms.
    pub(crate) scores: BTreeMap<String, f64>,
    /// The best of them, the best first.
    pub(crate) finalists: Vec<Setting>,
}

/// Chooses among everything known and what the guard held.
pub(crate) fn choose(
    cell: &Cell,
    place: &Place,
    league: &Path,
    reference: &Reference,
    held: Vec<Setting>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Known> {
    let stored = league.join(cell.closed_loop().name() + ".json");
    let mut candidates = match read::<CellData>(&stored)? {
        Some(data) => of_league(&data)?,
        None => looked_at(place, reference, tell)?,
    };
    if cell.drawn.is_some() {
        for seed in 1..=SEARCHES {
            tell(&format!("search {seed} of {SEARCHES}"));
            let found = search(cell, seed)?;
            candidates.extend([found.setting, found.winner]);
        }
    }
    let in_force =
        SimRunner::new(place.machine.clone()).check(&place.scenario, &Setting::default())?;
    let space = cells::space(&place.machine, &in_force, reference);
    candidates.extend(space.starts.iter().map(|point| space.setting(point)));
    candidates.extend(held);
    candidates.retain(|setting| !setting.is_empty());
    candidates.sort_by_key(ToString::to_string);
    candidates.dedup();
    let mut chosen: Vec<(f64, Setting)> = Vec::new();
    for (i, setting) in candidates.iter().enumerate() {
        tell(&format!("{i} of {} fixed settings", candidates.len()));
        let runs: anyhow::Result<Vec<Run>> = CHOOSING
            .iter()
            .map(|seed| Ok(script::run(cell, *seed, setting, false, reference)?.0))
            .collect();
        // The kernel may refuse what only makes sense together with something that the guard had
        // changed before.
        let Ok(runs) = runs else { continue };
        let mean = runs.iter().map(|run| run.score).sum::<f64>() / runs.len() as f64;
        chosen.push((mean, setting.clone()));
    }
    chosen.sort_by(|a, b| b.0.total_cmp(&a.0));
    let finalists = chosen.iter().take(FINALISTS).map(|(_, setting)| setting.clone()).collect();
    let score =
        |(score, setting): (f64, Setting)| (setting.to_string(), crate::measure::rounded(score));
    Ok(Known { scores: chosen.into_iter().map(score).collect(), finalists })
}

/// All settings that the league measured in a cell and did not find hopeless.
fn of_league(data: &CellData) -> anyhow::Result<Vec<Setting>> {
    let presets = contenders::all()?.into_iter().map(|(_, setting)| setting);
    let grid = data.grid.iter().flat_map(|grid| grid.best.iter().cloned());
    let found =
        data.searches.values().flat_map(|search| [search.setting.clone(), search.winner.clone()]);
    let measured = presets.chain(grid).chain(found).filter_map(|s| Some((data.of(&s)?.score, s)));
    let measured: Vec<(f64, Setting)> = measured.collect();
    let best = measured.iter().map(|(score, _)| *score).fold(f64::NEG_INFINITY, f64::max);
    Ok(measured
        .into_iter()
        .filter(|(score, _)| *score >= best + HOPELESS.ln())
        .map(|(_, s)| s)
        .collect())
}

/// The best of a first look at presets and every [`EVERY`]th point.
fn looked_at(
    place: &Place,
    reference: &Reference,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Vec<Setting>> {
    let in_force =
        SimRunner::new(place.machine.clone()).check(&place.scenario, &Setting::default())?;
    let space = cells::space(&place.machine, &in_force, reference);
    let presets = contenders::all()?.into_iter().map(|(_, setting)| setting);
    let points = space.points().into_iter().step_by(EVERY).map(|point| space.setting(&point));
    let all: Vec<Setting> = presets.chain(points).collect();
    let objective = Objective::default();
    let mut looks = Vec::new();
    for (i, setting) in all.iter().enumerate() {
        tell(&format!("first look: {i} of {}", all.len()));
        if let Ok(kept) = place.trial(setting, 1, LOOK, reference) {
            looks.push((objective.log_score(&kept), setting.clone()));
        }
    }
    looks.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(looks.into_iter().take(LOOKED_AT).map(|(_, setting)| setting).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Grid, Measured, Search};

    #[test]
    fn everything_that_the_league_found_is_a_candidate_and_what_is_hopeless_is_none() {
        let one =
            |knob: &str| -> Setting { [(knob.to_owned(), "8".to_owned())].into_iter().collect() };
        let grid = Grid { best: vec![one("grid"), one("far")], ..Grid::default() };
        let mut data = CellData { grid: Some(grid), ..CellData::default() };
        data.searches.insert(
            1,
            Search { setting: one("recommended"), winner: one("winner"), ..Search::default() },
        );
        for (knob, score) in
            [("grid", -2.0), ("far", -4.0), ("recommended", -1.0), ("winner", -2.05)]
        {
            data.measured.insert(one(knob).to_string(), Measured { score, ..Measured::default() });
        }
        data.measured.insert(
            Setting::default().to_string(),
            Measured { score: -7.0, ..Measured::default() },
        );
        // ln 3 is 1.099.
        assert_eq!(of_league(&data).unwrap(), [one("grid"), one("recommended"), one("winner")]);
    }
}
