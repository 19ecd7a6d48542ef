//! The guard beside a flood in a separate control group, and victims at a third of their rate alone.
//!
//! ```text
//! 0 s victim at a third ─▶ 15 s flood joins ─▶ 17 … 105 s: rate, p99, dead seconds, flood
//! ```

use std::fmt::Write;

use floodwall_guard::Decision;
use floodwall_model::{LatencyCounts, Setting, scenario};
use floodwall_sim::PlantDevice;
use floodwall_tune::objective::Reference;
use published::origin::Origin;
use serde::{Deserialize, Serialize};

use super::script::{GRACE, LEAVE, MEET};
use super::{GuardArgs, log, read, write};
use crate::cells::Cell;
use crate::measure::{Place, rounded};
use crate::stage::Stage;

/// The section of `docs/league.md`.
pub(super) const SECTION: &str = "league-guard-paced";
/// Machines with other seeds.
const MACHINES: [u64; 4] = [201, 202, 203, 204];
/// The victim's rate, of its rate alone.
const SHARE: f64 = 1.0 / 3.0;
/// When the victim's figures alone begin, in seconds.
const ALONE: u64 = 3;

/// The goals: the victim's rate and its p99 as multiples of those without the flood, and the flood's
/// share of its rate alone.
const LEAST_RATE: f64 = 0.98;
const MOST_P99: f64 = 3.0;
const LEAST_FLOOD: f64 = 0.75;

/// A cell's stored figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paced {
    pub(super) origin: Origin,
    /// Operations a second that the victim asks for.
    rate: f64,
    guard: Vec<Run>,
    default: Vec<Run>,
}

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Run {
    /// The victim's rate beside the flood, as a share of that before it.
    kept: f64,
    alone_p99_us: f64,
    p99_us: f64,
    dead_seconds: usize,
    /// The rate at which the flood reaches the device, as a share of its rate alone.
    flood: f64,
}

/// How the name of a cell's file ends.
pub(super) const FILE: &str = "_third.json";

/// One cell.
pub(super) fn measure(
    cell: &Cell,
    args: &GuardArgs,
    origin: &Origin,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let path = args.data.join(cell.name() + FILE);
    let is_there = |stored: Paced| stored.origin == *origin && stored.guard.len() == MACHINES.len();
    if !args.again && read::<Paced>(&path).ok().flatten().is_some_and(is_there) {
        return Ok(());
    }
    tell("alone");
    let (reference, rate) = third(cell)?;
    let mut paced = Paced { origin: origin.clone(), rate, ..Paced::default() };
    for seed in MACHINES {
        tell("the guard and the default");
        let (guarded, decisions) = run(cell, seed, rate, reference.flood_bytes_per_s, true)?;
        if args.log && seed == MACHINES[0] {
            print!("{}", log(cell, &decisions));
        }
        paced.guard.push(guarded);
        paced.default.push(run(cell, seed, rate, reference.flood_bytes_per_s, false)?.0);
    }
    write(&path, &paced)
}

/// What a cell's loads do alone, and a third of the victim's rate.
pub(super) fn third(cell: &Cell) -> anyhow::Result<(Reference, f64)> {
    let place = Place { machine: cell.machine(1)?, scenario: cell.scenario()? };
    let reference = place.reference()?;
    let rate = (SHARE * reference.iops_alone).max(1.0).round();
    Ok((reference, rate))
}

fn run(
    cell: &Cell,
    seed: u64,
    rate: f64,
    flood_alone: f64,
    guarded: bool,
) -> anyhow::Result<(Run, Vec<Decision>)> {
    let mut scenario = cell.scenario()?;
    scenario.victims = vec![scenario::parse_victim(&format!("{},rate={rate}", cell.victim_spec()))?];
    scenario::name_apart(&mut scenario);
    let (victim, flood) = (scenario.victims[0].name.clone(), scenario.floods[0].name.clone());
    let part = PlantDevice { options: cell.machine(seed)?, scenario };
    // The floods' group, without a limit.
    let grouped: Setting = [("flood:memory.high".to_owned(), "max".to_owned())].into_iter().collect();
    let mut stage = Stage::new(vec![part], &grouped, guarded)?;
    stage.start(0, &victim)?;
    stage.start(MEET, &flood)?;
    stage.until(LEAVE)?;
    let p99 = |from: u64, to: u64| {
        let mut all = LatencyCounts::default();
        for second in &stage.seconds[from as usize..to as usize] {
            all.merge(&second.latencies.commit);
            all.merge(&second.latencies.read);
        }
        rounded(all.nearest_rank_ns(0.99).unwrap_or(0) as f64 / 1e3)
    };
    let (alone, _) = stage.rate(&victim, ALONE, MEET);
    let (beside, _) = stage.rate(&victim, MEET + GRACE, LEAVE);
    let (_, dirtied) = stage.rate(&flood, MEET + GRACE, LEAVE);
    // A flood fills the page cache at once, whatever holds it back later. What reaches the device
    // tells how soon it ends.
    let backlog = |second: u64| {
        let host = &stage.seconds[second as usize - 1].host;
        (host.dirty_bytes.unwrap_or(0) + host.writeback_bytes.unwrap_or(0)) as f64
    };
    let drained = (backlog(MEET + GRACE) - backlog(LEAVE)) / (LEAVE - MEET - GRACE) as f64;
    let flooded = dirtied + drained;
    let run = Run {
        kept: rounded(beside / alone.max(1e-9)),
        alone_p99_us: p99(ALONE, MEET),
        p99_us: p99(MEET + GRACE, LEAVE),
        dead_seconds: stage.dead(&victim, alone, MEET + GRACE, LEAVE),
        flood: rounded(flooded / flood_alone),
    };
    Ok((run, stage.decisions))
}

/// What a cell has to reach on every machine.
type Goal = (&'static str, &'static str, fn(&Run) -> bool);

const GOALS: [Goal; 4] = [
    ("victim's rate, of its rate before the flood", "≥ 98 %", |r| r.kept >= LEAST_RATE),
    ("p99, of the p99 before the flood", "≤ 3 ×", |r| r.p99_us <= MOST_P99 * r.alone_p99_us),
    ("dead seconds after the first two", "0", |r| r.dead_seconds == 0),
    ("flood's rate on the device, of its rate alone", "≥ 75 %", |r| r.flood >= LEAST_FLOOD),
];

/// The section, of as many cells as there should be.
pub(super) fn section(rows: &[(Cell, Paced)], all: usize) -> String {
    let mut out = format!(
        "{} of {all} cells are measured, on {} machines each. Victims run at a third of their rate alone, \
         from {MEET} s before the flood to {} s after it came. The flood is in a separate control group. \
         A cell reaches a goal if it does on every machine.\n\n| figure | goal | cells with the guard | without |\n|---|---|---|---|\n",
        rows.len(),
        MACHINES.len(),
        LEAVE - MEET,
    );
    let reached = |runs: &[Run], of: &dyn Fn(&Run) -> bool| runs.iter().all(of);
    let mut figure = |name: &str, goal: &str, of: &dyn Fn(&Run) -> bool| {
        let count = |side: fn(&Paced) -> &[Run]| rows.iter().filter(|(_, p)| reached(side(p), of)).count();
        let _ = writeln!(out, "| {name} | {goal} | {} | {} |", count(|p| &p.guard), count(|p| &p.default));
    };
    for (name, goal, of) in GOALS {
        figure(name, goal, &of);
    }
    figure("the first three", "", &|r| GOALS[..3].iter().all(|(_, _, of)| of(r)));
    figure("all four", "", &|r| GOALS.iter().all(|(_, _, of)| of(r)));
    out.push_str("\nThe worst machine's figures:\n\n| cell | rate, per second | victim kept: default | guard | p99 alone, ms | default | guard | dead s: default, guard | flood: default | guard |\n|---|---|---|---|---|---|---|---|---|---|\n");
    let most = |runs: &[Run], of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let least = |runs: &[Run], of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::INFINITY, f64::min);
    for (cell, paced) in rows {
        let kept = |runs: &[Run]| format!("{:.0} %", 100.0 * least(runs, |r| r.kept));
        let flood = |runs: &[Run]| format!("{:.0} %", 100.0 * least(runs, |r| r.flood));
        let p99 = |runs: &[Run]| format!("{:.1}", most(runs, |r| r.p99_us) / 1e3);
        let dead = |runs: &[Run]| format!("{:.0}", most(runs, |r| r.dead_seconds as f64));
        let _ = writeln!(
            out,
            "| {}, {}, {} | {:.0} | {} | {} | {:.1} | {} | {} | {}, {} | {} | {} |",
            cell.device,
            cell.victim,
            cell.streams,
            paced.rate,
            kept(&paced.default),
            kept(&paced.guard),
            most(&paced.guard, |r| r.alone_p99_us) / 1e3,
            p99(&paced.default),
            p99(&paced.guard),
            dead(&paced.default),
            dead(&paced.guard),
            flood(&paced.default),
            flood(&paced.guard),
        );
    }
    out
}
