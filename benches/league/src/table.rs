//! The tables of docs/league.md.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Context;

use floodwall_stats::student::critical_t;

use crate::cells::Cell;
use crate::contenders;
use crate::data::{CellData, Measured};
use crate::measure::{LONG, ROUNDS};
use crate::run::SEARCH_S;

/// What a recommendation should reach of the best grid point's score.
const WANTED: f64 = 0.95;
/// Fewer operations have no 99th percentile.
const LEAST_OPERATIONS: f64 = 100.0;
/// With at most this share of the grid's trials.
const WANTED_TRIALS: f64 = 0.2;

/// A cell's figures, put together.
struct Row<'a> {
    cell: &'a Cell,
    contenders: Vec<&'a Measured>,
    grid: &'a Measured,
    /// The searches by seed.
    searches: Vec<Found<'a>>,
    trials: u32,
    grid_trials: usize,
    undecided: usize,
    /// Operations a second of the victim alone.
    iops_alone: f64,
}

/// What a search found, as it was measured in the fresh rounds.
struct Found<'a> {
    measured: &'a Measured,
    /// Its score over the best one's, and over the default's.
    of_best: f64,
    of_default: f64,
    /// The 95 % interval of the first; `None` if it is the best one itself.
    interval: Option<(f64, f64)>,
}

fn row<'a>(cell: &'a Cell, data: &'a CellData) -> anyhow::Result<Row<'a>> {
    let missing = || format!("{}: not everything was measured; run it again", cell.name());
    let contenders: Vec<&Measured> = contenders::all()?
        .iter()
        .map(|(_, s)| data.of(s).with_context(missing))
        .collect::<anyhow::Result<_>>()?;
    let grid = data.grid.as_ref().with_context(missing)?;
    // What a search found is a point of the grid too, though the grid's own short trials may have
    // passed it over.
    let found = data.searches.values().map(|s| &s.winner);
    let judged = grid.best.iter().chain(found).filter_map(|s| data.of(s));
    let best = judged.max_by(|a, b| a.score.total_cmp(&b.score));
    let best = best.with_context(missing)?;
    let default = contenders.first().with_context(missing)?.score;
    let mut searches = Vec::new();
    for search in data.searches.values() {
        let found = data.of(&search.setting).with_context(missing)?;
        let of_best = found.score - best.score;
        // Rounds are the same for all, but of each only the error is kept: as if they were
        // independent.
        let error = found.error.hypot(best.error) * critical_t(0.05, f64::from(ROUNDS - 1));
        searches.push(Found {
            measured: found,
            of_best: of_best.exp(),
            of_default: (found.score - default).exp(),
            interval: (found != best).then(|| ((of_best - error).exp(), (of_best + error).exp())),
        });
    }
    Ok(Row {
        cell,
        contenders,
        grid: best,
        searches,
        trials: data.searches.values().map(|s| s.trials).max().unwrap_or(0),
        grid_trials: grid.trials,
        iops_alone: data.reference.iops,
        undecided: data.searches.values().filter(|s| s.outcome == "undecided").count(),
    })
}

/// Both sections: what follows, and cell by cell.
pub(crate) fn sections(there: &[(Cell, CellData)]) -> anyhow::Result<(String, String)> {
    let rows: Vec<Row<'_>> = there.iter().map(|(c, d)| row(c, d)).collect::<anyhow::Result<_>>()?;
    Ok((summary(&rows), tables(&rows)?))
}

fn summary(rows: &[Row<'_>]) -> String {
    let shares = || rows.iter().flat_map(|r| r.searches.iter().map(|s| s.of_best));
    let all = shares().count();
    let reached = shares().filter(|s| *s >= WANTED).count();
    let first = rows.iter().filter_map(|r| r.searches.first());
    let cells = first.clone().filter(|s| s.of_best >= WANTED).count();
    let middle = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v.get(v.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let worst = rows
        .iter()
        .flat_map(|r| r.searches.iter().map(move |s| (s, r.cell.name())))
        .min_by(|a, b| a.0.of_best.total_cmp(&b.0.of_best));
    let worse = rows.iter().flat_map(|r| &r.searches).filter(|s| s.of_default < 1.0).count();
    let trials =
        rows.iter().map(|r| f64::from(r.trials) / r.grid_trials.max(1) as f64).fold(0.0, f64::max);
    let undecided: usize = rows.iter().map(|r| r.undecided).sum();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "| figure | goal | measured |\n|---|---|---|\n\
         | cells whose first search reaches {:.0} % of the best grid point's score | {} | \
         {cells} |\n\
         | searches that do | {all} | {reached} |\n\
         | the middle of their shares | – | {:.1} % |\n\
         | the least | – | {} |\n\
         | searches whose recommendation is worse than the default | 0 | {worse} |\n\
         | searches that end undecided, and so keep the default | – | {undecided} |\n\
         | the most trials that a search took, of the grid's | {:.0} % | {:.1} % |",
        WANTED * 100.0,
        rows.len(),
        middle(shares().collect()) * 100.0,
        worst.map_or("–".into(), |(found, name)| format!("{} % ({name})", found.share())),
        WANTED_TRIALS * 100.0,
        trials * 100.0,
    );
    out
}

fn tables(rows: &[Row<'_>]) -> anyhow::Result<String> {
    let mut out = format!(
        "Scores in percent, in {ROUNDS} rounds of 30 s from which nothing was chosen. `tune` is \
         its first search, with {SEARCH_S:.0} s. *Of best* has all its searches, with 95 % \
         intervals. Behind ± is the standard error.\n"
    );
    let names: Vec<&str> = contenders::all()?.iter().map(|(name, _)| *name).collect();
    let mut device = "";
    for row in rows {
        if row.cell.device != device {
            device = row.cell.device;
            let _ = write!(out, "\n### {device}\n\n| victim, streams |");
            for name in &names {
                let _ = write!(out, " {name} |");
            }
            let _ = writeln!(out, " best of the grid | tune | of best | trials, grid's |");
            let _ = writeln!(out, "|---|{}", "---|".repeat(names.len() + 4));
        }
        let _ = write!(out, "| {}, {} |", row.cell.victim, row.cell.streams);
        for measured in &row.contenders {
            let _ = write!(out, " {} |", percent(measured.score));
        }
        let first = row.searches.first().map_or("–".into(), |s| percent(s.measured.score));
        let shares: Vec<String> = row.searches.iter().map(Found::share).collect();
        let _ = writeln!(
            out,
            " {} ± {:.0} % | {first} | {} % | {}, {} |",
            percent(row.grid.score),
            row.grid.error * 100.0,
            shares.join(", "),
            row.trials,
            row.grid_trials
        );
    }
    let _ = writeln!(
        out,
        "\n### What it means for the victim\n\n\
         *Slowest* stands where a round had fewer than {LEAST_OPERATIONS} operations: the mean \
         over the rounds of each one's slowest.\n\n\
         | cell | victim kept: default | tune | dead seconds: default | tune | p99: default | tune \
         | flood kept | burst kept |\n|---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let (Some(default), Some(tune)) = (row.contenders.first(), row.searches.first()) else {
            continue;
        };
        let tune = tune.measured;
        let _ = writeln!(
            out,
            "| {}, {}, {} | {:.1} % | {:.1} % | {:.0} % | {:.0} % | {} | {} | {:.0} % | {:.0} % |",
            row.cell.device,
            row.cell.victim,
            row.cell.streams,
            default.victim_kept * 100.0,
            tune.victim_kept * 100.0,
            default.dead_share.abs() * 100.0,
            tune.dead_share.abs() * 100.0,
            row.latency(default),
            row.latency(tune),
            tune.flood_kept * 100.0,
            tune.burst_kept * 100.0,
        );
    }
    Ok(out)
}

/// A log score in percent.
fn percent(score: f64) -> String {
    let percent = score.exp() * 100.0;
    match percent {
        p if p >= 9.95 => format!("{p:.0}"),
        p if p >= 0.095 => format!("{p:.1}"),
        p => format!("{p:.2}"),
    }
}

impl Found<'_> {
    /// Of the best one's score in percent, with the interval.
    fn share(&self) -> String {
        let interval =
            |(low, high): (f64, f64)| format!(" ({:.0} to {:.0})", low * 100.0, high * 100.0);
        format!("{:.0}{}", self.of_best * 100.0, self.interval.map_or(String::new(), interval))
    }
}

impl Row<'_> {
    /// The p99 of a setting, or its slowest operation where the rounds are too short for a p99.
    fn latency(&self, measured: &Measured) -> String {
        let time = Duration::try_from_secs_f64(measured.p99_us / 1e6).unwrap_or_default();
        let operations = self.iops_alone * measured.victim_kept * LONG.as_secs_f64();
        let what = if operations < LEAST_OPERATIONS { "slowest " } else { "" };
        format!("{what}{}", floodwall_model::units::human_duration(time))
    }
}
