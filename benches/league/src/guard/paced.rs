//! The guard beside a flood in a separate control group, and victims at a third of their rate
//! alone.
//!
//! ```text
//! 0 s victim at a third ─▶ 15 s flood joins ─▶ 17 … 105 s: rate, p99, dead seconds, flood
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use floodwall_guard::config::{DOMAIN, LEAST_DOMAIN, LEAST_GOAL};
use floodwall_guard::{Config, Decision};
use floodwall_model::{Setting, scenario};
use floodwall_sim::PlantDevice;
use floodwall_tune::objective::Reference;
use published::origin::Origin;
use published::stored::{read, write};
use serde::{Deserialize, Serialize};

use super::args::GuardArgs;
use super::script::{GRACE, LEAVE, MEET, log};
use crate::cells::Cell;
use crate::measure::{Place, rounded};
use crate::stage::Stage;

/// The section of `docs/league.md`.
pub(super) const SECTION: &str = "league-guard-paced";
/// The same of drawn devices.
pub(super) const DRAWN_SECTION: &str = "league-guard-paced-drawn";
/// Machines with other seeds.
const MACHINES: [u64; 4] = [201, 202, 203, 204];
/// The victim's rate, of its rate alone.
const SHARE: f64 = 1.0 / 3.0;
/// When the victim's figures alone begin, in seconds.
const ALONE: u64 = 3;

/// The goals: the victim's rate and its p99 as multiples of those without the flood, and the
/// flood's share of its rate alone.
const LEAST_RATE: f64 = 0.98;
const MOST_P99: f64 = 3.0;
const LEAST_FLOOD: f64 = 0.75;

/// Fixed paces beside which the guard is judged, of the flood's rate alone, in percent. They have
/// the guard's `memory.high`.
const FIXED: [u32; 9] = [5, 10, 20, 30, 40, 50, 60, 80, 90];

/// A cell's stored figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paced {
    pub(super) origin: Origin,
    /// Operations a second that the victim asks for.
    rate: f64,
    guard: Vec<Run>,
    /// The guard with `--p99` of [`MOST_P99`] times the victim's p99 before the flood.
    #[serde(default)]
    asked: Vec<Run>,
    default: Vec<Run>,
    /// Machines beside a flood with a fixed pace, by its percent of the flood's rate alone.
    #[serde(default)]
    fixed: BTreeMap<u32, Vec<Run>>,
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
    let is_there = |stored: Paced| {
        stored.origin == *origin
            && stored.guard.len() == MACHINES.len()
            && stored.asked.len() == MACHINES.len()
            && stored.fixed.keys().copied().eq(FIXED)
    };
    if !args.again && read::<Paced>(&path).ok().flatten().is_some_and(is_there) {
        return Ok(());
    }
    tell("alone");
    let (reference, rate) = third(cell)?;
    let mut paced = Paced { origin: origin.clone(), rate, ..Paced::default() };
    for seed in MACHINES {
        tell("the default and the guard");
        let alone = reference.flood_bytes_per_s;
        let (default, _) = run(cell, seed, rate, alone, &grouped(), None)?;
        let goal = Duration::from_secs_f64(MOST_P99 * default.alone_p99_us / 1e6).max(LEAST_GOAL);
        let (guarded, decisions) =
            run(cell, seed, rate, alone, &grouped(), Some(Config::default()))?;
        if args.log && seed == MACHINES[0] {
            print!("{}", log(cell, &decisions));
        }
        let asked = Config { goal: Some(goal), ..Config::default() };
        paced.guard.push(guarded);
        paced.asked.push(run(cell, seed, rate, alone, &grouped(), Some(asked))?.0);
        paced.default.push(default);
        for percent in FIXED {
            tell(&format!("a pace of {percent} %"));
            let pace = fixed(alone, percent);
            paced
                .fixed
                .entry(percent)
                .or_default()
                .push(run(cell, seed, rate, alone, &pace, None)?.0);
        }
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

/// The floods' group, without a limit.
fn grouped() -> Setting {
    [("flood:memory.high".to_owned(), "max".to_owned())].into_iter().collect()
}

/// The floods' group, held to a share of the flood's rate alone.
fn fixed(flood_alone: f64, percent: u32) -> Setting {
    let wbps = (flood_alone * f64::from(percent) / 100.0).max(1.0) as u64;
    let high = ((flood_alone * DOMAIN.as_secs_f64()) as u64 >> 16 << 16).max(LEAST_DOMAIN);
    let knobs = [("flood:io.max", format!("wbps={wbps}")), ("flood:memory.high", high.to_string())];
    knobs.into_iter().map(|(knob, value)| (knob.to_owned(), value)).collect()
}

fn run(
    cell: &Cell,
    seed: u64,
    rate: f64,
    flood_alone: f64,
    setting: &Setting,
    guard: Option<Config>,
) -> anyhow::Result<(Run, Vec<Decision>)> {
    let mut scenario = cell.scenario()?;
    scenario.victims =
        vec![scenario::parse_victim(&format!("{},rate={rate}", cell.victim_spec()))?];
    scenario::name_apart(&mut scenario);
    let (victim, flood) = (scenario.victims[0].name.clone(), scenario.floods[0].name.clone());
    let part = PlantDevice { options: cell.machine(seed)?, scenario };
    let mut stage = Stage::new(vec![part], setting, false)?;
    if let Some(config) = guard {
        stage.guard_with(config);
    }
    stage.start(0, &victim)?;
    stage.start(MEET, &flood)?;
    stage.until(LEAVE)?;
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
        alone_p99_us: stage.quantile_us(0.99, ALONE, MEET),
        p99_us: stage.quantile_us(0.99, MEET + GRACE, LEAVE),
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

/// A rate or a flood that is lower by no more than this share is the same.
const ALIKE: f64 = 0.02;
/// A fixed pace is better if its p99 or its flood is by this share.
const BETTER: f64 = 0.1;

/// The worst machine's figures, each by itself.
struct Worst {
    kept: f64,
    /// p99 beside the flood, of that alone.
    slower: f64,
    dead_seconds: usize,
    flood: f64,
}

impl Worst {
    fn of(runs: &[Run]) -> Self {
        let most = |of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        let least = |of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::INFINITY, f64::min);
        Self {
            kept: least(|r| r.kept),
            slower: most(|r| r.p99_us / r.alone_p99_us.max(1.0)),
            dead_seconds: runs.iter().map(|r| r.dead_seconds).max().unwrap_or(0),
            flood: least(|r| r.flood),
        }
    }

    /// Whether it is nowhere worse than another one, and better somewhere.
    fn dominates(&self, other: &Self) -> bool {
        let is_as_good = self.kept >= other.kept.min(LEAST_RATE)
            && self.slower <= other.slower
            && self.dead_seconds <= other.dead_seconds
            && self.flood >= other.flood * (1.0 - ALIKE);
        let is_better = self.slower < other.slower * (1.0 - BETTER)
            || self.dead_seconds < other.dead_seconds
            || self.flood > other.flood * (1.0 + BETTER);
        is_as_good && is_better
    }
}

impl Paced {
    /// Whether no fixed pace is better than these runs.
    fn is_not_dominated(&self, runs: &[Run]) -> bool {
        if runs.is_empty() {
            return false;
        }
        let guard = Worst::of(runs);
        !self.fixed.is_empty() && self.fixed.values().all(|runs| !Worst::of(runs).dominates(&guard))
    }

    /// The highest fixed pace that reaches the victim's goals, in percent.
    fn best_fixed(&self) -> Option<u32> {
        let mut reach = self.fixed.iter().filter(|(_, runs)| reached(runs, &|r| is_victims(r)));
        reach.next_back().map(|(percent, _)| *percent)
    }
}

/// Which runs of a cell.
type Side = fn(&Paced) -> &[Run];

/// The number of cells for which something is true; a dash if no cell has such runs.
fn counted(rows: &[(Cell, Paced)], side: Side, is: &dyn Fn(&Paced) -> bool) -> String {
    if rows.iter().all(|(_, p)| side(p).is_empty()) {
        return "–".to_owned();
    }
    rows.iter().filter(|(_, p)| is(p)).count().to_string()
}

fn reached(runs: &[Run], of: &dyn Fn(&Run) -> bool) -> bool {
    !runs.is_empty() && runs.iter().all(of)
}

/// Whether the victim's three goals are reached.
fn is_victims(run: &Run) -> bool {
    GOALS[..3].iter().all(|(_, _, of)| of(run))
}

/// The section, of as many cells as there should be.
pub(super) fn section(rows: &[(Cell, Paced)], all: usize) -> String {
    let mut out = format!(
        "{} of {all} cells are measured, on {} machines each. Victims run at a third of their rate \
         alone, from {MEET} s before the flood to {} s after it came. The flood is in a separate \
         control group. A cell reaches a goal if it does on every machine. *With --p99*: the \
         guard's goal is {MOST_P99:.0} times the p99 before the flood, and 2 ms at least. *Some \
         fixed pace*: one in force from the beginning reaches it, of {} % of the flood's rate \
         alone.\n\n\
         | figure | goal | cells with the guard | with --p99 | without | some fixed pace |\n\
         |---|---|---|---|---|---|\n",
        rows.len(),
        MACHINES.len(),
        LEAVE - MEET,
        FIXED.map(|percent| percent.to_string()).join(", "),
    );
    let mut figure = |name: &str, goal: &str, of: &dyn Fn(&Run) -> bool| {
        let count = |side: Side| counted(rows, side, &|p| reached(side(p), of));
        let fixed = |p: &Paced| p.fixed.values().any(|runs| reached(runs, of));
        let [guard, asked, default] =
            [count(|p| &p.guard), count(|p| &p.asked), count(|p| &p.default)];
        let fixed = rows.iter().filter(|(_, p)| fixed(p)).count();
        let _ = writeln!(out, "| {name} | {goal} | {guard} | {asked} | {default} | {fixed} |");
    };
    for (name, goal, of) in GOALS {
        figure(name, goal, &of);
    }
    figure("the first three", "", &is_victims);
    figure("all four", "", &|r| GOALS.iter().all(|(_, _, of)| of(r)));
    let not_dominated = |side: Side| counted(rows, side, &|p| p.is_not_dominated(side(p)));
    let (guard, asked) = (not_dominated(|p| &p.guard), not_dominated(|p| &p.asked));
    let _ = writeln!(out, "| not dominated by a fixed pace |  | {guard} | {asked} | – | – |");
    out.push_str(
        "\nThe worst machine's figures; *best fixed pace* is the highest that reaches the first \
         three goals:\n\n\
         | cell | rate, per second | victim kept: default | guard | p99 alone, ms | default | \
         guard | with --p99 | dead s: default, guard, with --p99 | flood: default | guard | with \
         --p99 | best fixed pace |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (cell, paced) in rows {
        let [guard, default] = [&paced.guard, &paced.default].map(|runs| Worst::of(runs));
        // Cells that were measured before there were such runs have none.
        let asked = (!paced.asked.is_empty()).then(|| Worst::of(&paced.asked));
        let of_asked =
            |text: &dyn Fn(&Worst) -> String| asked.as_ref().map_or_else(|| "–".to_owned(), text);
        let fixed = paced.best_fixed().map_or("none".to_owned(), |percent| format!("{percent} %"));
        let most =
            |runs: &[Run], of: fn(&Run) -> f64| runs.iter().map(of).fold(0.0, f64::max) / 1e3;
        let p99 = |runs: &[Run]| most(runs, |r| r.p99_us);
        let _ = writeln!(
            out,
            "| {}, {}, {} | {:.0} | {:.0} % | {:.0} % | {:.1} | {:.1} | {:.1} | {} | {}, {}, {} \
             | {:.0} % | {:.0} % | {} | {fixed} |",
            cell.device,
            cell.victim,
            cell.streams,
            paced.rate,
            100.0 * default.kept,
            100.0 * guard.kept,
            most(&paced.guard, |r| r.alone_p99_us),
            p99(&paced.default),
            p99(&paced.guard),
            of_asked(&|_| format!("{:.1}", p99(&paced.asked))),
            default.dead_seconds,
            guard.dead_seconds,
            of_asked(&|worst| worst.dead_seconds.to_string()),
            100.0 * default.flood,
            100.0 * guard.flood,
            of_asked(&|worst| format!("{:.0} %", 100.0 * worst.flood)),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(p99: f64, flood: f64) -> Run {
        Run { kept: 1.0, alone_p99_us: 1.0, p99_us: p99, dead_seconds: 0, flood }
    }

    #[test]
    fn a_pace_dominates_if_it_is_nowhere_worse_and_somewhere_better() {
        let beats = |one: Run, other: Run| Worst::of(&[one]).dominates(&Worst::of(&[other]));
        assert!(beats(run(2.0, 0.5), run(3.0, 0.5)) && beats(run(3.0, 0.6), run(3.0, 0.5)));
        assert!(!beats(run(3.1, 0.9), run(3.0, 0.5)), "victims wait longer");
        assert!(!beats(run(1.0, 0.4), run(3.0, 0.5)), "the flood has less");
        assert!(!beats(run(2.9, 0.52), run(3.0, 0.5)), "they are alike");
        assert!(!beats(Run { kept: 0.9, ..run(2.0, 0.9) }, run(3.0, 0.5)), "victims have less");
        let dead = || Run { dead_seconds: 1, ..run(3.0, 0.5) };
        assert!(beats(run(3.0, 0.5), dead()) && !beats(dead(), run(3.0, 0.5)));
        // Each figure is the worst machine's.
        let two = Worst::of(&[run(2.0, 0.6), run(3.0, 0.5)]);
        assert!((two.slower, two.flood) == (3.0, 0.5));
    }

    #[test]
    fn cells_without_runs_of_a_kind_have_no_figures_of_it() {
        let cell = crate::cells::all().remove(0);
        let runs = vec![run(2.0, 0.9)];
        let paced = Paced {
            guard: runs.clone(),
            default: runs.clone(),
            fixed: [(10, runs)].into(),
            ..Paced::default()
        };
        let text = section(&[(cell, paced)], 1);
        assert!(text.contains("| all four |  | 1 | – | 1 | 1 |"), "{text}");
        assert!(text.contains("| not dominated by a fixed pace |  | 1 | – | – | – |"), "{text}");
        assert!(!text.contains("inf") && text.contains(" | 0, 0, – | "), "{text}");
    }

    #[test]
    fn the_best_fixed_pace_is_the_highest_that_reaches_the_victims_goals_on_every_machine() {
        let mut paced = Paced { guard: vec![run(2.0, 0.2)], ..Paced::default() };
        assert!(!paced.is_not_dominated(&paced.guard), "nothing is known of fixed paces");
        paced.fixed.insert(10, vec![run(2.0, 0.1), run(2.9, 0.1)]);
        paced.fixed.insert(20, vec![run(2.0, 0.2), run(3.1, 0.2)]);
        assert_eq!(paced.best_fixed(), Some(10));
        assert!(paced.is_not_dominated(&paced.guard));
        paced.fixed.insert(30, vec![run(2.0, 0.3)]);
        assert_eq!(paced.best_fixed(), Some(30));
        assert!(!paced.is_not_dominated(&paced.guard));
    }
}
