//! `--dry-run`: how much a sweep is, and about how long it takes.
//!
//! The estimate times a few runs, spread over all of them, for a few seconds. Virtual seconds are
//! no measure: a fast drive does a thousand times the operations of a slow one in each.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use floodwall_model::units::human_duration;
use floodwall_sim::SimRunner;

use super::plan::{Cell, Run, Sweep};
use super::shard::Shard;

/// How long runs are timed. At least one is.
const TIMED: Duration = Duration::from_secs(3);

/// What there is to do, as text.
pub(super) fn text(sweep: &Sweep, shard: Shard, cells: &[u64], jobs: usize) -> String {
    let runs = sweep.runs(cells);
    let varying = sweep.axes.iter().filter(|axis| axis.values.len() > 1);
    let axes: Vec<String> =
        varying.map(|axis| format!("{} {}", axis.name, axis.values.len())).collect();
    let (count, grid) = (sweep.cells.len(), sweep.grid);
    let of = if (count as u64) < grid { format!(", a sample of {grid}") } else { String::new() };
    let mut text = format!("{}: {count} cells{of} ({})\n", sweep.name, axes.join(" × "));
    if shard != Shard::WHOLE {
        text += &format!("shard {shard}: {} cells\n", cells.len());
    }
    let more = runs.iter().filter(|run| run.cells.is_empty()).count();
    let planned = |run: &Run| sweep.cell_of(run).scenario.planned_seconds();
    text += &format!(
        "runs: {} ({more} of them only for what floods and bursts are compared with), {} of \
         virtual time at most\n",
        runs.len(),
        human_duration(Duration::from_secs_f64(runs.iter().map(planned).sum()))
    );
    let looked = spread(&runs);
    let problem = |run: &&Run| {
        let Cell { options, scenario, setting } = sweep.cell_of(run);
        SimRunner::new(options).check(&scenario, &setting).err()
    };
    let problems: Vec<_> = looked.iter().filter_map(problem).collect();
    if let Some(first) = problems.first() {
        let share = 100.0 * problems.len() as f64 / looked.len() as f64;
        text += &format!("about {share:.0} % can't be run, such as: {first}\n");
    }
    let began = Instant::now();
    let mut timed = 0;
    for run in looked {
        if timed > 0 && began.elapsed() > TIMED {
            break;
        }
        let _ = sweep.simulate(run, &mut ());
        timed += 1;
    }
    let each = began.elapsed().as_secs_f64() / f64::from(timed.max(1));
    let all = Duration::from_secs_f64((each * runs.len() as f64 / jobs as f64).ceil());
    let all = human_duration(all);
    text + &format!("about {all} on {jobs} threads like this one ({timed} runs timed)\n")
}

/// Up to 256 runs, evenly spread over all however early the list is left: the bits of the places
/// are reversed.
fn spread(runs: &[Run]) -> Vec<&Run> {
    let mut seen = HashSet::new();
    let places = (0..=u8::MAX).map(|i| usize::from(i.reverse_bits()) * runs.len() / 256);
    places.filter(|at| seen.insert(*at)).filter_map(|at| runs.get(at)).collect()
}
