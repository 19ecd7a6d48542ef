//! The verdict on a disk: in one word, in one sentence, and what to do about it.

use floodwall_stats::quantiles::Tail;
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

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// In one word.
    pub fitness: Fitness,
    /// In sentences.
    pub sentence: String,
    /// Commands that help, each with what it does.
    pub next: Vec<(String, &'static str)>,
}

/// What a check says. The guarded run tells what a guard would gain; the disk is judged without.
#[must_use]
pub fn verdict(check: &Check) -> Verdict {
    let (alone, flood) = (check.grade_of(Beside::Nothing), check.grade_of(Beside::Flood));
    let fitness = match (alone, flood) {
        (Some(Grade::Slow), _) => Fitness::Slow,
        (Some(Grade::Fast), Some(Grade::Slow)) => Fitness::SlowBesideFlood,
        (Some(Grade::Fast), None | Some(Grade::Fast)) => Fitness::Fit,
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
    let of = |beside| figure(check, beside).unwrap_or_default();
    let (alone, flood) = (of(Beside::Nothing), of(Beside::Flood));
    let has_flood = check.measured(Beside::Flood).is_some();
    match fitness {
        Fitness::Fit if has_flood => format!(
            "Good enough for {program}, alone and beside a flood: the {operation} has {alone} \
             alone and {flood} beside a flood, and the limit is {limit}."
        ),
        Fitness::Fit => format!(
            "Good enough for {program} alone: the {operation} has {alone}, and the limit is \
             {limit}. Whether it is beside a flood was not measured."
        ),
        Fitness::Slow => {
            let beside =
                if has_flood { format!(", and {flood} beside a flood") } else { String::new() };
            format!(
                "Not good enough for {program}: the {operation} has {alone} alone{beside}; the \
                 limit is {limit}."
            )
        }
        Fitness::SlowBesideFlood => format!(
            "Good enough for {program} alone, but not beside a flood: the {operation} has {alone} \
             alone and {flood} beside a flood, and the limit is {limit}."
        ),
        Fitness::Inconclusive => format!("Not conclusive for {program}: {}.", unknown(check)),
    }
}

/// Why nothing can be concluded.
fn unknown(check: &Check) -> String {
    let runs = [Beside::Nothing, Beside::Flood];
    let unknown = runs.into_iter().find(|run| check.grade_of(*run) == Some(Grade::Unknown));
    let measured = unknown.and_then(|run| Some((run, check.measured(run)?)));
    let Some((run, measured)) = measured else { return "nothing was measured alone".to_owned() };
    let count = check.goal.counted(measured).count();
    format!(
        "{} {}s in {:.0} s {} are too few for a p99, which takes 100",
        whole(count),
        check.goal.operation(),
        measured.seconds,
        run.name()
    )
}

/// The slow end of a run's times: `a p99 of 6.9 ms`.
fn figure(check: &Check, run: Beside) -> Option<String> {
    let tail = Tail::of(check.goal.counted(check.measured(run)?))?;
    let us = duration_us(tail.us);
    Some(match tail.kind.name() {
        "p99" => format!("a p99 of {us}"),
        name => format!("its {name} at {us}"),
    })
}

/// What the guard gained.
fn guarded(check: &Check) -> Option<String> {
    let (grade, figure) =
        (check.grade_of(Beside::GuardedFlood)?, figure(check, Beside::GuardedFlood)?);
    let enough = match grade {
        Grade::Fast => "which is good enough",
        Grade::Slow => "which is still not good enough",
        Grade::Unknown => "of too few operations to tell",
    };
    Some(format!("With floodwall guard it has {figure} beside the same flood, {enough}."))
}

fn next(check: &Check, fitness: Fitness) -> Vec<(String, &'static str)> {
    let directory = quoted(&check.directory);
    let guard = ("sudo floodwall guard".to_owned(), "acts while something floods the disk");
    let tune = (
        format!("sudo floodwall fix {directory} --tune"),
        "searches for the best setting in ten minutes, and asks before it keeps it",
    );
    let why = (format!("sudo floodwall why {directory}"), "who else uses the disk now");
    match fitness {
        Fitness::Fit => Vec::new(),
        Fitness::Slow => vec![why],
        Fitness::SlowBesideFlood => match check.grade_of(Beside::GuardedFlood) {
            Some(Grade::Slow) => vec![tune, why],
            _ => vec![guard, tune],
        },
        Fitness::Inconclusive => {
            let program = &check.goal.program;
            let again = format!("floodwall check {program} {directory} --measure 60s");
            vec![(again, "measures longer")]
        }
    }
}
