//! The guard's tables, from the stored data.

use std::fmt::Write;

use floodwall_stats::estimate::mean_and_variance;
use floodwall_stats::student::critical_t;

use super::script::{GRACE, LAST, LEAVE, MEET, Run};
use super::yardstick::FINALISTS;
use super::{Guarded, MACHINES};
use crate::cells::Cell;

/// What a figure should reach of the best fixed setting's, of the default's.
const WANTED: f64 = 0.9;
const WANTED_BURST: f64 = 0.95;
/// The guard may have this many more dead seconds than the best setting.
const MORE_DEAD: f64 = 2.0;
/// So much worse than the default is still like it.
const TOLERANCE: f64 = 0.05;
/// How often an interval misses.
const MISSES: f64 = 0.05;
/// A share of nothing has no logarithm: less than this counts as this.
const LEAST: f64 = 1e-3;

/// A figure that differs from machine to machine.
#[derive(Clone, Copy)]
struct Mean {
    mean: f64,
    /// Standard error.
    error: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let (mean, variance) = mean_and_variance(values).unwrap_or((f64::NAN, f64::NAN));
        Self { mean, error: (variance / values.len() as f64).sqrt() }
    }

    /// In percent with its standard error.
    fn percent(self) -> String {
        format!("{} ± {}", show(self.mean), show(self.error))
    }
}

/// A figure as a share of another one, with its 95 % interval.
#[derive(Clone, Copy)]
struct Share {
    share: f64,
    low: f64,
    high: f64,
}

/// What an interval says of a goal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reached,
    NotReached,
    CouldNotBeTold,
}

impl Share {
    /// The mean of the machines' logarithms of guard over other, with Student's t over the
    /// machines.
    fn of_logs(logs: &[f64]) -> Self {
        let Mean { mean, error } = Mean::of(logs);
        let width = critical_t(MISSES, logs.len().saturating_sub(1) as f64) * error;
        Self { share: mean.exp(), low: (mean - width).exp(), high: (mean + width).exp() }
    }

    /// The guard's of another's, machine by machine.
    fn of_runs(guard: &[Run], other: &[Run], of: fn(&Run) -> f64) -> Self {
        let log = |(guard, other): (&Run, &Run)| (of(guard).max(LEAST) / of(other).max(LEAST)).ln();
        Self::of_logs(&guard.iter().zip(other).map(log).collect::<Vec<_>>())
    }

    fn verdict(self, least: f64) -> Verdict {
        match self {
            s if s.low >= least => Verdict::Reached,
            s if s.high < least => Verdict::NotReached,
            _ => Verdict::CouldNotBeTold,
        }
    }

    fn percent(self) -> String {
        format!("{:.0} ({:.0} to {:.0}) %", self.share * 100.0, self.low * 100.0, self.high * 100.0)
    }
}

/// A cell's figures.
struct Row<'a> {
    cell: &'a Cell,
    stored: &'a Guarded,
    best: &'a [Run],
    best_name: &'a str,
    victim: Share,
    flood: Share,
    score: Share,
}

impl<'a> Row<'a> {
    fn of(cell: &'a Cell, stored: &'a Guarded) -> Option<Self> {
        let score = |runs: &[Run]| Mean::of(&values(runs, |r| r.score)).mean;
        // The default may be the best.
        let named = stored.finalists.iter().map(|(name, runs)| (name.as_str(), runs.as_slice()));
        let all = named.chain([("default", stored.default.as_slice())]);
        let (best_name, best) = all.max_by(|a, b| score(a.1).total_cmp(&score(b.1)))?;
        let share = |of: fn(&Run) -> f64| Share::of_runs(&stored.guard, best, of);
        let scores: Vec<f64> = stored.guard.iter().zip(best).map(|(g, b)| g.score - b.score).collect();
        Some(Self {
            cell,
            stored,
            best,
            best_name,
            victim: share(|r| r.victim_kept),
            flood: share(|r| r.flood_kept),
            score: Share::of_logs(&scores),
        })
    }

    fn both(&self) -> Verdict {
        all(&[self.victim.verdict(WANTED), self.flood.verdict(WANTED)])
    }

    /// Whether no fixed setting gives more to the victim and to the flood as well. It can't be told
    /// if the difference is within chance.
    fn is_not_dominated(&self) -> Verdict {
        let others = self.stored.finalists.values().chain([&self.stored.default]);
        let verdict = |other: &Vec<Run>| {
            let shares: [fn(&Run) -> f64; 2] = [|r| r.victim_kept, |r| r.flood_kept];
            let shares = shares.map(|of| Share::of_runs(&self.stored.guard, other, of));
            match shares {
                shares if shares.iter().any(|s| s.share >= 1.0) => Verdict::Reached,
                shares if shares.iter().all(|s| s.high < 1.0) => Verdict::NotReached,
                _ => Verdict::CouldNotBeTold,
            }
        };
        all(&others.map(verdict).collect::<Vec<_>>())
    }

    /// Whether the guard has at most [`MORE_DEAD`] dead seconds more than the best setting.
    fn is_as_alive(&self) -> Verdict {
        let dead = |runs: &[Run]| Mean::of(&values(runs, |r| r.dead_seconds)).mean;
        known(dead(&self.stored.guard) <= dead(self.best) + MORE_DEAD)
    }

    /// Whether nothing is worse than under the default, by the means.
    fn is_like_default(&self) -> bool {
        let mean = |runs: &[Run], of: fn(&Run) -> f64| Mean::of(&values(runs, of)).mean;
        let (guard, default) = (&self.stored.guard, &self.stored.default);
        let shares: [fn(&Run) -> f64; 3] = [|r| r.victim_kept, |r| r.flood_kept, |r| r.burst_kept];
        let least = 1.0 - TOLERANCE;
        shares.iter().all(|of| mean(guard, *of) >= least * mean(default, *of))
            && mean(guard, |r| r.dead_seconds) <= mean(default, |r| r.dead_seconds) * (1.0 + TOLERANCE)
    }

    /// The worst machine's; `None` if it never came on one of them.
    fn worst(&self, of: fn(&super::script::Steered) -> Option<f64>) -> Option<f64> {
        let each = self.stored.guard.iter().map(|run| run.steered.as_ref().and_then(of));
        each.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }

    /// How soon the guard protected and gave back, on the worst machine.
    fn times(&self) -> String {
        let time = |s: Option<f64>| s.map_or("never".to_owned(), |s| format!("{s:.2} s"));
        format!("{}, {}", time(self.worst(|s| s.protected_s)), time(self.worst(|s| s.freed_s)))
    }

    /// Writes a machine.
    fn writes(&self) -> f64 {
        let writes: usize = self.stored.guard.iter().filter_map(|r| Some(r.steered.as_ref()?.writes)).sum();
        writes as f64 / MACHINES.len() as f64
    }

    fn is_given_back(&self) -> bool {
        self.stored.guard.iter().all(|run| run.steered.as_ref().is_some_and(|s| s.given_back))
    }
}

/// What several goals together are.
fn all(verdicts: &[Verdict]) -> Verdict {
    if verdicts.contains(&Verdict::NotReached) {
        return Verdict::NotReached;
    }
    if verdicts.contains(&Verdict::CouldNotBeTold) { Verdict::CouldNotBeTold } else { Verdict::Reached }
}

fn known(is_reached: bool) -> Verdict {
    if is_reached { Verdict::Reached } else { Verdict::NotReached }
}

fn values(runs: &[Run], of: fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

/// The section of some cells, of as many as there should be.
pub(super) fn section(cells: &[(Cell, Guarded)], all: usize) -> String {
    let rows: Vec<Row<'_>> = cells.iter().filter_map(|(cell, stored)| Row::of(cell, stored)).collect();
    let mut out = format!(
        "{} of {all} cells are measured. An encounter of {} s in each, on {} machines; what is kept is that of its last {LAST} s, as the mean over the machines and its standard error. \
         *Best* is the fixed setting with the best score on the same machines, of the default and the {FINALISTS} that two other machines chose from everything known. \
         Shares of it are means over the machines of the logarithms of guard over best, with Student's 95 % interval; *reached* is what the whole interval reaches. \
         Dead seconds are those after the first two, of {}.\n\n",
        rows.len(),
        LEAVE - MEET,
        MACHINES.len(),
        LEAVE - MEET - GRACE
    );
    summary(&mut out, &rows);
    let _ = writeln!(
        out,
        "\n| cell | victim kept: default | best | guard | flood kept: default | best | guard | guard of best: victim | flood | score | dead s: default, best, guard | protected, free | writes | best, of so many |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for row in &rows {
        line(&mut out, row);
    }
    out
}

fn summary(out: &mut String, rows: &[Row<'_>]) {
    out.push_str("| figure | goal | reached | not reached | could not be told | quarter, middle, three quarters of the cells |\n|---|---|---|---|---|---|\n");
    let quarters = |of: &dyn Fn(&Row<'_>) -> f64| {
        let mut all: Vec<f64> = rows.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        [1, 2, 3].map(|q| all.get(all.len() * q / 4).copied().unwrap_or(f64::NAN))
    };
    let percents = |of: &dyn Fn(&Row<'_>) -> f64| {
        quarters(of).map(|share| format!("{:.0}", share * 100.0)).join(", ") + " %"
    };
    let mut figure = |name: &str, goal: &str, of: &dyn Fn(&Row<'_>) -> Verdict, spread: String| {
        let count = |verdict| rows.iter().filter(|row| of(row) == verdict).count();
        let [reached, not, open] =
            [Verdict::Reached, Verdict::NotReached, Verdict::CouldNotBeTold].map(count);
        let _ = writeln!(out, "| {name} | {goal} | {reached} | {not} | {open} | {spread} |");
    };
    let dead = |row: &Row<'_>| Mean::of(&values(&row.stored.guard, |r| r.dead_seconds)).mean;
    let burst = |row: &Row<'_>| Mean::of(&values(&row.stored.guard, |r| r.burst_kept)).mean;
    let seconds = |of: &dyn Fn(&Row<'_>) -> f64| quarters(of).map(|s| format!("{s:.2}")).join(", ") + " s";
    let protected = |row: &Row<'_>| row.worst(|s| s.protected_s).unwrap_or(f64::INFINITY);
    let freed = |row: &Row<'_>| row.worst(|s| s.freed_s).unwrap_or(f64::INFINITY);
    figure(
        "victim's share of the best's",
        "90 %",
        &|r| r.victim.verdict(WANTED),
        percents(&|r| r.victim.share),
    );
    figure("flood's share of the best's", "90 %", &|r| r.flood.verdict(WANTED), percents(&|r| r.flood.share));
    figure("both", "90 %", &|r| r.both(), "–".into());
    figure("score of the best's", "90 %", &|r| r.score.verdict(WANTED), percents(&|r| r.score.share));
    figure("not dominated by a fixed setting", "–", &|r| r.is_not_dominated(), "–".into());
    figure("dead seconds more than the best's", "2", &|r| r.is_as_alive(), "–".into());
    let three = |r: &Row<'_>| all(&[r.is_not_dominated(), r.score.verdict(WANTED), r.is_as_alive()]);
    figure("not dominated, score and dead seconds", "–", &three, "–".into());
    let dead_spread = quarters(&dead).map(|s| format!("{s:.1}")).join(", ");
    figure("dead seconds", "0", &|r| known(dead(r) == 0.0), dead_spread);
    figure("burst kept", "95 %", &|r| known(burst(r) >= WANTED_BURST), percents(&burst));
    figure("nothing worse than the default", "5 %", &|r| known(r.is_like_default()), "–".into());
    figure("protected after the flood comes", "1 s", &|r| known(protected(r) <= 1.0), seconds(&protected));
    figure("free after the victim leaves", "10 s", &|r| known(freed(r) <= 10.0), seconds(&freed));
    figure("every knob as before", "all", &|r| known(r.is_given_back()), "–".into());
}

fn line(out: &mut String, row: &Row<'_>) {
    let ways = [row.stored.default.as_slice(), row.best, row.stored.guard.as_slice()];
    let percent = |of: fn(&Run) -> f64| ways.map(|runs| Mean::of(&values(runs, of)).percent()).join(" | ");
    let dead = ways.map(|runs| format!("{:.1}", Mean::of(&values(runs, |r| r.dead_seconds)).mean)).join(", ");
    let _ = writeln!(
        out,
        "| {}, {}, {} | {} | {} | {} | {} | {} | {dead} | {} | {:.0} | {}, {} |",
        row.cell.device,
        row.cell.victim,
        row.cell.streams,
        percent(|r| r.victim_kept),
        percent(|r| r.flood_kept),
        row.victim.percent(),
        row.flood.percent(),
        row.score.percent(),
        row.times(),
        row.writes(),
        row.best_name.replace(',', " "),
        row.stored.chosen_from.len() + 1,
    );
}

/// The default and the guard on every preset.
pub(super) fn presets(cells: &[(Cell, Guarded)]) -> String {
    let rows: Vec<Row<'_>> = cells.iter().filter_map(|(cell, stored)| Row::of(cell, stored)).collect();
    let mut out = "| device | alone, per second | victim kept: default | guard | dead s: default, guard | flood kept: default | guard | protected, free | writes |\n|---|---|---|---|---|---|---|---|---|\n".to_owned();
    for row in &rows {
        let ways = [&row.stored.default, &row.stored.guard];
        let percent =
            |of: fn(&Run) -> f64| ways.map(|runs| Mean::of(&values(runs, of)).percent()).join(" | ");
        let dead = ways.map(|runs| format!("{:.1}", Mean::of(&values(runs, |r| r.dead_seconds)).mean));
        let _ = writeln!(
            out,
            "| {} | {:.0} | {} | {} | {} | {} | {:.0} |",
            row.cell.device,
            row.stored.reference.iops,
            percent(|r| r.victim_kept),
            dead.join(", "),
            percent(|r| r.flood_kept),
            row.times(),
            row.writes(),
        );
    }
    out
}

/// The drawn devices.
pub(super) fn devices(cells: &[(Cell, Guarded)], seed: &str, law: &str) -> anyhow::Result<String> {
    let mut out = format!(
        "Devices drawn with the seed `{seed}`, the law's last commit being `{}`.\n\n| device | drawn |\n|---|---|\n",
        law.get(..12).unwrap_or(law)
    );
    let mut last = "";
    for (cell, _) in cells {
        if cell.device != last {
            last = cell.device;
            let _ = writeln!(out, "| {} | {} |", cell.device, cell.machine(1)?.device.description);
        }
    }
    out.push('\n');
    Ok(out)
}

/// A share in percent.
fn show(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{p:.0}"),
        p => format!("{p:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_by_a_whole_interval_and_missed_by_a_whole_interval() {
        let verdict = |logs: &[f64]| Share::of_logs(logs).verdict(WANTED);
        assert!(verdict(&[0.0, 0.01, -0.01, 0.02]) == Verdict::Reached);
        assert!(verdict(&[-0.5, -0.51, -0.49, -0.5]) == Verdict::NotReached);
        assert!(verdict(&[0.5, -0.5, 0.6, -0.4]) == Verdict::CouldNotBeTold);
        // By hand: mean 0, standard deviation √0.02, t of 1 degree of freedom 12.706.
        let share = Share::of_logs(&[0.1, -0.1]);
        assert!((share.high.ln() - 12.706 * 0.1).abs() < 1e-3 && (share.share - 1.0).abs() < 1e-12);
    }

    fn runs(score: f64, victim_kept: f64) -> Vec<Run> {
        let run =
            |i| Run { score: score + 0.01 * f64::from(i), victim_kept, flood_kept: 0.5, ..Run::default() };
        (0..6).map(run).collect()
    }

    #[test]
    fn the_yardstick_is_the_best_of_the_finalists_and_the_default() {
        let mut stored = Guarded { default: runs(-7.0, 0.01), guard: runs(-2.0, 0.2), ..Guarded::default() };
        stored.finalists.insert("scheduler=bfq".into(), runs(-1.0, 0.4));
        stored.finalists.insert("nr_requests=8".into(), runs(-3.0, 0.1));
        let cell = crate::cells::all()[0];
        let row = Row::of(&cell, &stored).unwrap();
        assert_eq!(row.best_name, "scheduler=bfq");
        assert_eq!(row.score.percent(), "37 (37 to 37) %");
        assert!(
            row.victim.verdict(WANTED) == Verdict::NotReached
                && row.flood.verdict(WANTED) == Verdict::Reached
        );
        assert!(row.both() == Verdict::NotReached);
        stored.default = runs(-0.5, 0.9);
        assert_eq!(Row::of(&cell, &stored).unwrap().best_name, "default");
    }
}
