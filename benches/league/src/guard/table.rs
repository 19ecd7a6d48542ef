//! The guard's tables, from the stored data.

use std::fmt::Write;

use super::script::{GRACE, LAST, LEAVE, MEET, Run};
use super::share::{Mean, Share, Verdict, all, known};
use super::stored::{Draws, Guarded, MACHINES};
use super::yardstick::FINALISTS;
use crate::cells::Cell;
use crate::random;

/// What a figure should reach of the best fixed setting's, of the default's.
const WANTED: f64 = 0.9;
const WANTED_BURST: f64 = 0.95;
/// The guard may have this many more dead seconds than the best setting.
const MORE_DEAD: f64 = 2.0;
/// So much worse than the default is still like it.
const TOLERANCE: f64 = 0.05;

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
        let scores: Vec<f64> =
            stored.guard.iter().zip(best).map(|(g, b)| g.score - b.score).collect();
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
    /// if the difference is within chance. A victim that asks for a rate gets it under many
    /// settings: there a setting has to give it shorter waits, too.
    fn is_not_dominated(&self) -> Verdict {
        let others = self.stored.finalists.values().chain([&self.stored.default]);
        let mut figures: Vec<fn(&Run) -> f64> = vec![|r| r.victim_kept, |r| r.flood_kept];
        if self.cell.rate.is_some() {
            if others.clone().chain([&self.stored.guard]).flatten().any(|run| run.p90_us.is_none())
            {
                return Verdict::CouldNotBeTold;
            }
            figures.push(|r| 1e6 / r.p90_us.unwrap_or(f64::INFINITY).max(1.0));
        }
        let verdict = |other: &Vec<Run>| {
            let of_other = |of: &fn(&Run) -> f64| Share::of_runs(&self.stored.guard, other, *of);
            let shares: Vec<Share> = figures.iter().map(of_other).collect();
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

    /// What the guard is judged by: not dominated, score and dead seconds.
    fn all_three(&self) -> Verdict {
        all(&[self.is_not_dominated(), self.score.verdict(WANTED), self.is_as_alive()])
    }

    /// Whether nothing is worse than under the default, by the means.
    fn is_like_default(&self) -> bool {
        let mean = |runs: &[Run], of: fn(&Run) -> f64| Mean::of(&values(runs, of)).mean;
        let (guard, default) = (&self.stored.guard, &self.stored.default);
        let shares: [fn(&Run) -> f64; 3] = [|r| r.victim_kept, |r| r.flood_kept, |r| r.burst_kept];
        let least = 1.0 - TOLERANCE;
        shares.iter().all(|of| mean(guard, *of) >= least * mean(default, *of))
            && mean(guard, |r| r.dead_seconds)
                <= mean(default, |r| r.dead_seconds) * (1.0 + TOLERANCE)
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
        let writes: usize =
            self.stored.guard.iter().filter_map(|r| Some(r.steered.as_ref()?.writes)).sum();
        writes as f64 / MACHINES.len() as f64
    }

    fn is_given_back(&self) -> bool {
        self.stored.guard.iter().all(|run| run.steered.as_ref().is_some_and(|s| s.given_back))
    }
}

fn values(runs: &[Run], of: fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

/// The section of some cells, of as many as there should be.
pub(super) fn section(cells: &[(Cell, Guarded)], all: usize) -> String {
    let rows = rows(cells);
    let mut out = figures(&rows, all);
    lines(&mut out, &rows);
    out
}

/// The section of drawn devices: the figures are of every draw, the lines of the first.
pub(super) fn drawn(cells: &[(Cell, Guarded)], draws: &Draws) -> anyhow::Result<String> {
    let rows = rows(cells);
    let first = Some(draws.first()?);
    let law = draws.law.get(..12).unwrap_or(&draws.law);
    let mut out = format!(
        "{} {} of {} devices, with the seeds from `{}` on, the law's last commit being \
         `{law}`.\n\n",
        draws.count,
        if draws.count == 1 { "draw" } else { "draws" },
        random::CLASSES.len(),
        draws.seed,
    );
    out.push_str(&figures(&rows, draws.cells()?.len()));
    classes(&mut out, &rows);
    let of_first: Vec<Row<'_>> = rows.into_iter().filter(|row| row.cell.drawn == first).collect();
    devices(&mut out, &of_first)?;
    lines(&mut out, &of_first);
    Ok(out)
}

fn rows(cells: &[(Cell, Guarded)]) -> Vec<Row<'_>> {
    cells.iter().filter_map(|(cell, stored)| Row::of(cell, stored)).collect()
}

/// How many of the rows reach each goal.
fn figures(rows: &[Row<'_>], all: usize) -> String {
    let mut out = format!(
        "{} of {all} cells are measured. An encounter of {} s in each, on {} machines. The kept \
         shares are those of its last {LAST} s: the mean over the machines and its standard error. \
         *Best* is the fixed setting with the best score on the same machines, of the default and \
         the {FINALISTS} that two other machines chose from everything known. \
         Shares of it are means over the machines of the logarithms of guard over best, with \
         Student's 95 % interval; *reached* is what the whole interval reaches. \
         Dead seconds are those after the first two, of {}.\n\n",
        rows.len(),
        LEAVE - MEET,
        MACHINES.len(),
        LEAVE - MEET - GRACE
    );
    summary(&mut out, rows);
    out
}

fn lines(out: &mut String, rows: &[Row<'_>]) {
    let _ = writeln!(
        out,
        "\n| cell | victim kept: default | best | guard | flood kept: default | best | guard | \
         guard of best: victim | flood | score | dead s: default, best, guard | protected, free | \
         writes | best, of so many |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        line(out, row);
    }
}

/// How many cells of each class of devices reach what the guard is judged by.
fn classes(out: &mut String, rows: &[Row<'_>]) {
    out.push_str(
        "\n| class | cells | not dominated | score | dead seconds | all three |\n\
         |---|---|---|---|---|---|\n",
    );
    for class in random::CLASSES {
        let own: Vec<&Row<'_>> = rows.iter().filter(|row| row.cell.device == class).collect();
        let reached = |of: &dyn Fn(&Row<'_>) -> Verdict| {
            own.iter().filter(|row| of(row) == Verdict::Reached).count()
        };
        let _ = writeln!(
            out,
            "| {class} | {} | {} | {} | {} | {} |",
            own.len(),
            reached(&|row| row.is_not_dominated()),
            reached(&|row| row.score.verdict(WANTED)),
            reached(&|row| row.is_as_alive()),
            reached(&|row| row.all_three())
        );
    }
}

fn summary(out: &mut String, rows: &[Row<'_>]) {
    out.push_str(
        "| figure | goal | reached | not reached | could not be told | quarter, middle, \
        three quarters of the cells |\n|---|---|---|---|---|---|\n",
    );
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
    let seconds =
        |of: &dyn Fn(&Row<'_>) -> f64| quarters(of).map(|s| format!("{s:.2}")).join(", ") + " s";
    let protected = |row: &Row<'_>| row.worst(|s| s.protected_s).unwrap_or(f64::INFINITY);
    let freed = |row: &Row<'_>| row.worst(|s| s.freed_s).unwrap_or(f64::INFINITY);
    figure(
        "victim's share of the best's",
        "90 %",
        &|r| r.victim.verdict(WANTED),
        percents(&|r| r.victim.share),
    );
    figure(
        "flood's share of the best's",
        "90 %",
        &|r| r.flood.verdict(WANTED),
        percents(&|r| r.flood.share),
    );
    figure("both", "90 %", &|r| r.both(), "–".into());
    figure(
        "score of the best's",
        "90 %",
        &|r| r.score.verdict(WANTED),
        percents(&|r| r.score.share),
    );
    figure("not dominated by a fixed setting", "–", &|r| r.is_not_dominated(), "–".into());
    figure("dead seconds more than the best's", "2", &|r| r.is_as_alive(), "–".into());
    figure("not dominated, score and dead seconds", "–", &|r| r.all_three(), "–".into());
    let dead_spread = quarters(&dead).map(|s| format!("{s:.1}")).join(", ");
    figure("dead seconds", "0", &|r| known(dead(r) == 0.0), dead_spread);
    figure("burst kept", "95 %", &|r| known(burst(r) >= WANTED_BURST), percents(&burst));
    figure("nothing worse than the default", "5 %", &|r| known(r.is_like_default()), "–".into());
    figure(
        "protected after the flood comes",
        "1 s",
        &|r| known(protected(r) <= 1.0),
        seconds(&protected),
    );
    figure("free after the victim leaves", "10 s", &|r| known(freed(r) <= 10.0), seconds(&freed));
    figure("every knob as before", "all", &|r| known(r.is_given_back()), "–".into());
}

fn line(out: &mut String, row: &Row<'_>) {
    let ways = [row.stored.default.as_slice(), row.best, row.stored.guard.as_slice()];
    let percent =
        |of: fn(&Run) -> f64| ways.map(|runs| Mean::of(&values(runs, of)).percent()).join(" | ");
    let dead = ways
        .map(|runs| format!("{:.1}", Mean::of(&values(runs, |r| r.dead_seconds)).mean))
        .join(", ");
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
    let rows = rows(cells);
    let mut out = "| device | alone, per second | victim kept: default | guard | dead s: default, \
        guard | flood kept: default | guard | protected, free | writes |\n\
        |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in &rows {
        let ways = [&row.stored.default, &row.stored.guard];
        let percent = |of: fn(&Run) -> f64| {
            ways.map(|runs| Mean::of(&values(runs, of)).percent()).join(" | ")
        };
        let dead =
            ways.map(|runs| format!("{:.1}", Mean::of(&values(runs, |r| r.dead_seconds)).mean));
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

/// What each device was drawn as.
fn devices(out: &mut String, rows: &[Row<'_>]) -> anyhow::Result<()> {
    out.push_str("\nThe devices of the first draw:\n\n| device | drawn |\n|---|---|\n");
    let mut last = "";
    for Row { cell, .. } in rows {
        if cell.device != last {
            last = cell.device;
            let _ = writeln!(out, "| {} | {} |", cell.device, cell.machine(1)?.device.description);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(score: f64, victim_kept: f64) -> Vec<Run> {
        let run = |i| Run {
            score: score + 0.01 * f64::from(i),
            victim_kept,
            flood_kept: 0.5,
            ..Run::default()
        };
        (0..6).map(run).collect()
    }

    #[test]
    fn the_yardstick_is_the_best_of_the_finalists_and_the_default() {
        let mut stored =
            Guarded { default: runs(-7.0, 0.01), guard: runs(-2.0, 0.2), ..Guarded::default() };
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
