//! `--dry-run`: how much a sweep is, and about how long it takes.
//!
//! The estimate times a few runs, spread over all of them, for a few seconds. Virtual seconds are
//! no measure: a fast drive does a thousand times the operations of a slow one in each.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use floodwall_model::units::human_duration;
use floodwall_sim::sweep::{Key, Run, Shard, Sweep, Which};

/// How long runs are timed. At least one is.
const TIMED: Duration = Duration::from_secs(3);
/// How many runs are looked at: timed as far as there is time, and all of them checked.
const LOOKED_AT: usize = 200;

/// What there is to do, as text.
pub(super) fn text(sweep: &Sweep, shard: Shard, runs: &[Run], jobs: usize) -> String {
    let mut text = String::new();
    let axes: Vec<String> = sweep
        .axes()
        .varying()
        .into_iter()
        .map(|(name, length)| format!("{name} {length}"))
        .collect();
    let of = if sweep.len() < sweep.grid() {
        format!(", a sample of {}", sweep.grid())
    } else {
        String::new()
    };
    let _ = writeln!(text, "{}: {} cells{of} ({})", sweep.name(), sweep.len(), axes.join(" × "));
    let cells = sweep.cells(shard);
    if shard != Shard::WHOLE {
        let _ = writeln!(text, "shard {shard}: {} cells", cells.len());
    }
    let own: HashSet<Key> = cells.iter().map(|cell| sweep.key(Which::Cell(*cell))).collect();
    let more = runs.iter().filter(|run| !own.contains(&run.key)).count();
    let planned: f64 = runs.iter().map(|run| sweep.planned_s(run.which)).sum();
    let _ = writeln!(
        text,
        "runs: {} ({more} of them only for what floods and bursts are compared with), {} of \
         virtual time at most",
        runs.len(),
        human_duration(Duration::from_secs_f64(planned))
    );
    let stride = runs.len().div_ceil(LOOKED_AT).max(1);
    let looked: Vec<Run> = runs.iter().copied().step_by(stride).collect();
    let impossible: Vec<String> = looked
        .iter()
        .filter_map(|run| sweep.check(run.which))
        .map(|error| error.to_string())
        .collect();
    if let Some(first) = impossible.first() {
        let share = 100.0 * impossible.len() as f64 / looked.len() as f64;
        let _ = writeln!(text, "about {share:.0} % can't be run, such as: {first}");
    }
    let (timed, took) = time(sweep, &looked);
    let each = took.as_secs_f64() / timed.max(1) as f64;
    let all = Duration::from_secs_f64((each * runs.len() as f64 / jobs as f64).ceil());
    let _ = writeln!(
        text,
        "about {} on {jobs} threads like this one ({timed} runs timed)",
        human_duration(all)
    );
    text
}

/// Runs some for a while, those far apart first; how many, and how long they took.
fn time(sweep: &Sweep, runs: &[Run]) -> (usize, Duration) {
    let began = Instant::now();
    let mut timed = 0;
    // A golden-ratio stride visits a list evenly however early it is left.
    let stride = ((runs.len() as f64 * 0.618) as usize).max(1);
    let stride = (stride..).find(|s| gcd(*s, runs.len()) == 1).unwrap_or(1);
    for i in 0..runs.len() {
        if timed > 0 && began.elapsed() > TIMED {
            break;
        }
        let _ = sweep.run(runs[i * stride % runs.len()].which, &mut ());
        timed += 1;
    }
    (timed, began.elapsed())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
