//! One cell: reference → grid → searches → all settings judged in the same fresh rounds.
//!
//! ```text
//! reference   default, all phases ─▶ what is possible; stale data are noticed by it
//! grid        every point of the space once, the best again ─▶ finalists
//! searches    floodwall_tune::tuner, 10 minutes of virtual time, one a seed ─▶ recommendations
//! judged      default, presets, finalists, recommendations: fresh rounds, longer phases,
//!             the same for all
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use floodwall_model::Setting;
use floodwall_sim::SimRunner;
use floodwall_tune::objective::{Objective, Reference, pooled};
use floodwall_tune::space::Space;
use floodwall_tune::tuner::{Clock, Options, Outcome, Recommendation, tune};
use published::origin::{self, Origin};
use published::stored;

use crate::cells::{self, Cell};
use crate::contenders;
use crate::data::{Alone, CellData, Grid, MEASURED_WITH, SEARCHED_WITH, Search};
use crate::measure::Place;

/// Measured part of a grid point's trial.
const GRID_MEASURE: Duration = Duration::from_secs(8);
/// Points that get a second trial, and of them those that are judged.
const SECOND_LOOK: usize = 48;
const FINALISTS: usize = 12;
/// A search's time: the default of `floodwall tune`.
pub(crate) const SEARCH_S: f64 = 600.0;

/// The requested parts of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Searches a cell, one a seed.
    pub(crate) searches: u64,
    /// Every how manyth point of the grid; 0: none.
    pub(crate) every: usize,
    /// Forget earlier searches.
    pub(crate) search_again: bool,
}

/// Runs the missing parts of a cell and stores it. `tell` hears of progress.
pub(crate) fn cell(
    cell: &Cell,
    path: &Path,
    plan: Plan,
    tell: &dyn Fn(&str),
) -> anyhow::Result<CellData> {
    let begin = Instant::now();
    let place = Place { machine: cell.machine(1)?, scenario: cell.scenario()? };
    let reference = place.reference()?;
    let alone = Alone::from(&reference);
    let mut data = match stored::read::<CellData>(path)? {
        Some(data) if data.reference == alone => data,
        Some(_) => {
            tell("its data are of another simulator: begun anew");
            CellData::default()
        }
        None => CellData::default(),
    };
    data.reference = alone;
    let root = origin::root()?;
    let measured_with = Origin::now(&root, &MEASURED_WITH)?;
    let searched_with = Origin::now(&root, &SEARCHED_WITH)?;
    let before = data.wall_s;
    let keep = |data: &mut CellData| {
        data.wall_s = (before + begin.elapsed().as_secs_f64()).round();
        stored::write(path, data)
    };
    let in_force =
        SimRunner::new(place.machine.clone()).check(&place.scenario, &Setting::default())?;
    let space = cells::space(&place.machine, &in_force, &reference);
    if is_missing(data.grid.as_ref(), plan.every, space.size()) {
        data.grid = Some(grid(&place, &space, plan.every, &reference, tell));
        data.measured_with = and(!data.measured.is_empty(), &data.measured_with, &measured_with);
        keep(&mut data)?;
    }
    if plan.search_again {
        data.searches.clear();
    }
    for seed in 1..=plan.searches {
        if let std::collections::btree_map::Entry::Vacant(missing) = data.searches.entry(seed) {
            missing.insert(search(cell, seed)?);
            let earlier = data.searches.len() > 1;
            data.searched_with = and(earlier, &data.searched_with, &searched_with);
            keep(&mut data)?;
        }
    }
    let wanted = contenders::all()?
        .into_iter()
        .map(|(_, s)| s)
        .chain(data.grid.iter().flat_map(|g| g.best.iter().cloned()))
        .chain(data.searches.values().flat_map(|s| [s.setting.clone(), s.winner.clone()]));
    for setting in wanted.collect::<Vec<_>>() {
        if data.of(&setting).is_none() {
            let earlier = data.grid.is_some() || !data.measured.is_empty();
            data.measured_with = and(earlier, &data.measured_with, &measured_with);
            let judged = place
                .judge(&setting, &reference)
                .map_err(|why| anyhow::anyhow!("{setting}: {why}"))?;
            data.measured.insert(setting.to_string(), judged);
        }
    }
    keep(&mut data)?;
    Ok(data)
}

/// The origin of figures; some of them may be there from an earlier run.
fn and(earlier: bool, stored: &Origin, now: &Origin) -> Origin {
    if earlier { Origin::of_parts([stored, now]) } else { now.clone() }
}

/// Whether a grid of every `every`th point is still to be run: a quick look does not stand for the
/// whole one.
fn is_missing(there: Option<&Grid>, every: usize, points: usize) -> bool {
    match (there, every) {
        (_, 0) => false,
        (Some(grid), 1) => grid.points != points,
        (there, _) => there.is_none(),
    }
}

/// Every point once, the best again.
fn grid(
    place: &Place,
    space: &Space,
    every: usize,
    reference: &Reference,
    tell: &dyn Fn(&str),
) -> Grid {
    let objective = Objective::default();
    let settings: Vec<Setting> =
        space.points().iter().step_by(every).map(|p| space.setting(p)).collect();
    let mut first = Vec::new();
    for (i, setting) in settings.iter().enumerate() {
        tell(&format!("grid: {i} of {}", settings.len()));
        first.push(place.trial(setting, 1, GRID_MEASURE, reference).ok());
    }
    let score =
        |i: &usize| first[*i].as_ref().map_or(f64::NEG_INFINITY, |k| objective.log_score(k));
    let mut order: Vec<usize> = (0..settings.len()).filter(|i| first[*i].is_some()).collect();
    order.sort_by(|a, b| score(b).total_cmp(&score(a)));
    order.truncate(SECOND_LOOK);
    let mut again: Vec<(f64, usize)> = order
        .iter()
        .filter_map(|i| {
            let second = place.trial(&settings[*i], 2, GRID_MEASURE, reference).ok()?;
            Some((objective.log_score(&pooled(&[first[*i].clone()?, second])?), *i))
        })
        .collect();
    again.sort_by(|a, b| b.0.total_cmp(&a.0));
    Grid {
        points: settings.len(),
        trials: settings.len() + order.len(),
        centi_scores: first
            .iter()
            .map(|k| k.as_ref().map(|k| (objective.log_score(k) * 100.0).round() as i32))
            .collect(),
        best: again.into_iter().take(FINALISTS).map(|(_, i)| settings[i].clone()).collect(),
    }
}

/// `floodwall tune --sim` in a cell.
pub(crate) fn search(cell: &Cell, seed: u64) -> anyhow::Result<Search> {
    let machine = cell.machine(seed)?;
    let scenario = cell.scenario()?;
    let mut runner = SimRunner::new(machine.clone());
    let in_force = runner.check(&scenario, &Setting::default())?;
    let options = Options { seconds: SEARCH_S, seed, ..Options::default() };
    let mut space_of = |reference: &Reference| cells::space(&machine, &in_force, reference);
    let outcome =
        tune(&mut runner, &scenario, &mut space_of, &options, Clock::Trials, &mut (), &mut |_| ());
    Ok(told(&outcome))
}

/// A search as it is kept.
pub(crate) fn told(outcome: &Outcome) -> Search {
    let winner = outcome.winner.and_then(|i| outcome.candidates.get(i)).map(|c| c.setting.clone());
    let winner = winner.unwrap_or_default();
    Search {
        trials: outcome.trials_run,
        seconds: outcome.seconds.round(),
        outcome: match &outcome.recommendation {
            Recommendation::Winner => "recommended".into(),
            Recommendation::Default => "keep".into(),
            Recommendation::Undecided { .. } => "undecided".into(),
            Recommendation::NotMeasured { why } => format!("not measured: {why}"),
        },
        setting: match outcome.recommendation {
            Recommendation::Winner => winner.clone(),
            _ => Setting::default(),
        },
        winner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_look_does_not_count_as_the_whole_grid() {
        let quick = Grid { points: 10, ..Grid::default() };
        let whole = Grid { points: 100, ..Grid::default() };
        assert!(is_missing(None, 1, 100) && is_missing(Some(&quick), 1, 100));
        assert!(!is_missing(Some(&whole), 1, 100));
        assert!(is_missing(None, 10, 100) && !is_missing(Some(&quick), 10, 100));
        assert!(!is_missing(None, 0, 100) && !is_missing(Some(&quick), 0, 100));
    }
}
