//! The verdict on a disk: in one word, in one sentence, and what to do about it.

use floodwall_model::{Bytes, LatencyCounts};
use floodwall_stats::quantiles::{Tail, TailKind};
use serde::Serialize;

use super::{Beside, Check, Grade};
use crate::numbers::{duration_us, whole};
use crate::repeat::quoted;

/// Whether a disk is good enough for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// In every run that counts.
    Fit,
    /// Not even alone.
    Slow,
    /// Alone, but not beside a flood.
    SlowBesideFlood,
    /// The figures do not tell.
    Inconclusive,
}

/// The answer of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// In one word.
    pub fitness: Fitness,
    /// In sentences.
    pub sentence: String,
    /// Commands that help, each with what it does.
    pub next: Vec<(String, &'static str)>,
}

/// The answer of a check. The guarded run tells a guard's gain; the disk is judged without.
#[must_use]
pub fn verdict(check: &Check) -> Verdict {
    let alone = check.grade_of(Beside::Nothing);
    // A flood that stays in memory disturbs nothing, so only a slow run tells.
    let flood = check.grade_of(Beside::Flood).map(|grade| match (grade, in_memory(check)) {
        (Grade::Fast, Some(_)) => Grade::Unknown,
        (grade, _) => grade,
    });
    let fitness = match (alone, flood) {
        (Some(Grade::Slow), _) => Fitness::Slow,
        (Some(Grade::Fast), Some(Grade::Slow)) => Fitness::SlowBesideFlood,
        (Some(Grade::Fast), None) if left_out(check).is_none() => Fitness::Fit,
        (Some(Grade::Fast), Some(Grade::Fast)) => Fitness::Fit,
        _ => Fitness::Inconclusive,
    };
    let mut sentence = sentence(check, fitness);
    if let Some(more) = guarded(check) {
        sentence.push(' ');
        sentence.push_str(&more);
    }
    Verdict { fitness, sentence, next: next(check, fitness) }
}

fn sentence(check: &Check, fitness: Fitness) -> String {
    let goal = &check.goal;
    let (program, operation) = (&goal.program, goal.operation());
    let limit = duration_us(goal.limit.as_secs_f64() * 1e6);
    let of = |beside| {
        let counted = check.measured(beside).map(|measured| goal.counted(measured));
        counted.and_then(figure).unwrap_or_default()
    };
    let (alone, flood) = (of(Beside::Nothing), of(Beside::Flood));
    let has_flood = check.measured(Beside::Flood).is_some();
    let beside = if has_flood { format!(" and {flood} beside a flood") } else { String::new() };
    let figures = format!("the p99 of {operation} is {alone} alone{beside}; the limit is {limit}.");
    match fitness {
        Fitness::Fit if has_flood => {
            format!("Good enough for {program}, alone and beside a flood: {figures}")
        }
        Fitness::Fit => {
            format!("Good enough for {program} alone: {figures} No flood ran beside it.")
        }
        Fitness::Slow => format!("Not good enough for {program}: {figures}"),
        Fitness::SlowBesideFlood => {
            format!("Good enough for {program} alone, but not beside a flood: {figures}")
        }
        Fitness::Inconclusive => format!("Not conclusive for {program}: {}.", unknown(check)),
    }
}

/// The limit below which the flood stayed, if it stayed in memory.
fn in_memory(check: &Check) -> Option<Bytes> {
    check.measured(Beside::Flood)?.flood_stays_below
}

/// The first run that was to judge the disk and could not, and why.
fn left_out(check: &Check) -> Option<(Beside, &str)> {
    check
        .runs
        .iter()
        .filter(|run| run.beside != Beside::GuardedFlood)
        .find_map(|run| Some((run.beside, run.measured.as_ref().err()?.as_str())))
}

/// Why nothing can be concluded.
fn unknown(check: &Check) -> String {
    if let (Some(Grade::Fast), Some(Grade::Fast), Some(limit)) =
        (check.grade_of(Beside::Nothing), check.grade_of(Beside::Flood), in_memory(check))
    {
        return format!(
            "alone it is good enough, but the flood was too small for the disk to notice: the \
             kernel writes back from {limit} of dirty data on"
        );
    }
    let runs = [Beside::Nothing, Beside::Flood];
    let unknown = runs.into_iter().find(|run| check.grade_of(*run) == Some(Grade::Unknown));
    let measured = unknown.and_then(|run| Some((run, check.measured(run)?)));
    let Some((run, measured)) = measured else {
        return left_out(check).map_or_else(
            || "nothing was measured".to_owned(),
            |(beside, why)| {
                let alone =
                    check.grade_of(Beside::Nothing).map(|_| "alone it is good enough, but ");
                let alone = alone.unwrap_or_default();
                format!("{alone}the run {} is left out: {why}", beside.name())
            },
        );
    };
    let count = check.goal.counted(measured).count();
    format!(
        "{} {}s in {:.0} s {} are too few for a p99, which takes 100",
        whole(count),
        check.goal.operation(),
        measured.seconds,
        run.name()
    )
}

/// The p99 of some times: `6.90 ms`; of too few the slowest, which is called so.
pub(super) fn figure(latencies: &LatencyCounts) -> Option<String> {
    let tail = Tail::of(latencies)?;
    let us = duration_us(tail.us);
    Some(match tail.kind {
        TailKind::P99 => us,
        TailKind::Slowest => format!("{us} (the slowest of {})", whole(latencies.count())),
    })
}

/// The gain of the guard.
fn guarded(check: &Check) -> Option<String> {
    let measured = check.measured(Beside::GuardedFlood)?;
    let figure = figure(check.goal.counted(measured))?;
    let enough = match check.goal.grade(measured) {
        Grade::Fast => "which is good enough",
        Grade::Slow => "which is still not good enough",
        Grade::Unknown => "of too few operations to tell",
    };
    Some(format!("With floodwall guard it is {figure} beside the same flood, {enough}."))
}

fn next(check: &Check, fitness: Fitness) -> Vec<(String, &'static str)> {
    let directory = quoted(&check.directory);
    let guard = ("sudo floodwall guard".to_owned(), "acts while something floods the disk");
    let tune = (
        format!("sudo floodwall fix {directory} --tune"),
        "searches for the best setting in ten minutes, and asks before it keeps it",
    );
    let why = (format!("sudo floodwall why {directory}"), "who else uses the disk now");
    let status = ("floodwall status".to_owned(), "findings about this machine's disks");
    match fitness {
        Fitness::Fit => Vec::new(),
        Fitness::Slow => vec![why, status],
        // What was too little with a guard may still be better than without one.
        Fitness::SlowBesideFlood => match check.grade_of(Beside::GuardedFlood) {
            Some(Grade::Slow) => vec![tune, guard],
            _ => vec![guard, tune],
        },
        Fitness::Inconclusive => {
            let again = format!("floodwall check {} {directory}", check.goal.program);
            let alone = (format!("{again} --alone"), "judges the disk without a flood");
            if left_out(check).is_some() {
                let longer = again + " --timeout 5m";
                vec![why, (longer, "has more time")]
            } else if in_memory(check).is_some() {
                vec![(again, "without --size, makes a flood of the size that it takes"), alone]
            } else {
                vec![(again + " --measure 60s", "measures longer")]
            }
        }
    }
}
