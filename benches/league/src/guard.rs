//! The guard as a contender: an encounter in every cell, beside the default and the best fixed setting, all through the same script.
//!
//! ```text
//! 0 s victim ─▶ 15 s flood joins ──▶ 75 … 105 s: what is kept ─▶ 105 s victim leaves ─▶ 120 s end
//!                 └ dead seconds from the third on
//! ```
//!
//! The best fixed setting is looked for as the grid's is (crate::run), among every Nth point of the space and the settings that `tune` begins with; the best of a first look go through the
//! script, and the one with the best score there is what the guard is held against. They are kept, the guard is run anew each time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use floodwall_guard::{Decision, State};
use floodwall_model::trial::BurstTotals;
use floodwall_model::{Bytes, Setting};
use floodwall_sim::plant::Happening;
use floodwall_sim::{PlantDevice, SimRig};
use floodwall_stats::versus::mean_and_variance;
use floodwall_tune::objective::{Kept, Objective, Reference, kept, pooled};
use published::document::replace_section;
use published::origin::{self, Origin};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Cell};
use crate::data::{Alone, Measured};
use crate::measure::Place;
use crate::stage::Stage;
use crate::{conditions, work};

/// When the flood joins, when the victim leaves, the end; in seconds.
const MEET: u64 = 15;
const LEAVE: u64 = 105;
const END: u64 = 120;
/// What is kept is measured in the last seconds of the encounter.
const LAST: u64 = 30;
/// Dead seconds count after so many of an encounter.
const GRACE: u64 = 2;
/// When a burst comes after a victim that has been alone.
const VICTIM_STOPS: u64 = 10;
const BURST: u64 = 20;
/// Machines with other seeds that everybody goes through.
const SEEDS: [u64; 4] = [101, 102, 103, 104];
/// Measured part of a first look's trial, and how many of it go through the script.
const FIRST_LOOK: Duration = Duration::from_secs(8);
const FINALISTS: usize = 6;

/// What a figure should reach of the best fixed setting's, of the default's.
const WANTED: f64 = 0.9;
const WANTED_BURST: f64 = 0.95;
/// A setting with this share of the best score is as good: which of them comes out first is chance.
const TIE: f64 = 0.9;
/// So much worse than the default is still like it.
const TOLERANCE: f64 = 0.05;

/// Which cells, and where the figures go.
#[derive(clap::Args)]
pub(crate) struct GuardArgs {
    /// Only cells whose name contains one of these
    cells: Vec<String>,
    /// Every Nth point of the grid is among the fixed settings
    #[arg(long, value_name = "N", default_value_t = 15)]
    every: usize,
    /// Cells at the same time; all cores if not given
    #[arg(long)]
    jobs: Option<usize>,
    /// Only a part: the cells, those of other devices, or moving conditions
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// Days of random conditions
    #[arg(long, default_value_t = 30)]
    days: u64,
    /// Begin with this day, and leave out the other conditions: a month in pieces
    #[arg(long, default_value_t = 0)]
    first_day: u64,
    /// Where what was measured of fixed settings is kept
    #[arg(long, default_value = "benches/league/data/guard")]
    data: PathBuf,
    /// The document whose sections are written anew
    #[arg(long, default_value = "docs/league.md")]
    out: PathBuf,
    /// Only print
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print every decision of the guard in the cells, on their first machine
    #[arg(long)]
    log: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// Cells
    Cells,
    /// The same victims on devices that nothing in the guard was chosen on
    HeldOut,
    /// Moving conditions
    Conditions,
}

/// What is kept of a cell's fixed settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Fixed {
    /// What is possible; another simulator gives something else, and then the rest is stale.
    reference: Alone,
    every: usize,
    /// Machines that everybody went through.
    #[serde(default)]
    machines: usize,
    /// Points that had a first look.
    looked_at: usize,
    default: Through,
    /// Finalists.
    settings: BTreeMap<String, Through>,
}

/// Somebody's way through the script, all machines together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Through {
    kept: Measured,
    /// Dead seconds after the first two of an encounter, a machine.
    dead_seconds: f64,
}

/// The guard's.
#[derive(Clone, Debug, Default)]
struct Guarded {
    through: Through,
    protected_s: Option<f64>,
    freed_s: Option<f64>,
    writes: f64,
    given_back: bool,
    /// On the first machine.
    decisions: Vec<Decision>,
}

/// A cell's row.
struct Row {
    cell: Cell,
    default: Through,
    best: (String, Through),
    /// Fixed settings whose score is no more than [`TIE`] below the best's, and that.
    ties: Vec<Through>,
    guard: Guarded,
}

/// Runs everything and writes the sections.
pub(crate) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    let is_named = |c: &Cell| args.cells.is_empty() || args.cells.iter().any(|part| c.name().contains(part));
    anyhow::ensure!(
        cells::all().iter().chain(&cells::held_out()).any(is_named),
        "no cell is called so; they are {}",
        work::names()
    );
    let root = origin::root()?;
    let is_wanted = |part: Only| args.only.is_none_or(|only| only == part);
    let parts = [
        (Only::Cells, "league-guard", cells::all()),
        (Only::HeldOut, "league-guard-held-out", cells::held_out()),
    ];
    for (_, name, cells) in parts.into_iter().filter(|(part, ..)| is_wanted(*part)) {
        let section = cells_section(args, cells)?;
        println!("{section}");
        if args.dry_run || !args.cells.is_empty() {
            eprintln!("the document is left as it is");
        } else {
            replace_section(&args.out, name, "league guard", &section, &Origin::default(), &root)?;
        }
    }
    if is_wanted(Only::Conditions) {
        let section = conditions::section(args.first_day, args.days, args.jobs)?;
        println!("{section}");
        if !args.dry_run {
            let name = "league-guard-conditions";
            replace_section(&args.out, name, "league guard", &section, &Origin::default(), &root)?;
        }
    }
    Ok(())
}

fn cells_section(args: &GuardArgs, all: Vec<Cell>) -> anyhow::Result<String> {
    std::fs::create_dir_all(&args.data).with_context(|| format!("can't make '{}'", args.data.display()))?;
    let wanted: Vec<Cell> = all
        .into_iter()
        .filter(|c| args.cells.is_empty() || args.cells.iter().any(|part| c.name().contains(part)))
        .collect();
    if wanted.is_empty() {
        return Ok(String::new());
    }
    let rows = Mutex::new(Vec::new());
    work::all(&wanted, args.jobs, &|cell, tell| {
        let path = args.data.join(cell.name() + ".json");
        let row = measure(cell, &path, args.every, tell)?;
        if args.log {
            // In one piece, as cells run side by side.
            print!("{}", row.log());
        }
        rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        Ok(())
    })?;
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |row: &Row| wanted.iter().position(|c| *c == row.cell);
    rows.sort_by_key(place);
    Ok(table(&rows, args.every))
}

/// One cell.
fn measure(cell: &Cell, path: &Path, every: usize, tell: &dyn Fn(&str)) -> anyhow::Result<Row> {
    let place = Place { machine: cell.machine(1)?, scenario: cell.scenario()? };
    let reference = place.reference()?;
    let alone = Alone::from(&reference);
    let fixed = match read(path)? {
        Some(f) if f.reference == alone && f.every == every && f.machines == SEEDS.len() => f,
        _ => {
            let fixed = fixed(cell, &place, &reference, every, tell)?;
            let text = serde_json::to_string(&fixed)? + "\n";
            std::fs::write(path, text).with_context(|| format!("can't write '{}'", path.display()))?;
            fixed
        }
    };
    tell("the guard");
    let guard = through(cell, &Setting::default(), true, &reference)?;
    let best = fixed.settings.iter().max_by(|a, b| a.1.kept.score.total_cmp(&b.1.kept.score));
    let (name, best) = best.context("no fixed setting could be tried")?;
    let is_tie = |t: &&Through| t.kept.score >= best.kept.score + TIE.ln();
    let ties = fixed.settings.values().filter(is_tie).cloned().collect();
    Ok(Row { cell: *cell, default: fixed.default.clone(), best: (name.clone(), best.clone()), ties, guard })
}

fn read(path: &Path) -> anyhow::Result<Option<Fixed>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let fixed = serde_json::from_str(&text).with_context(|| {
                format!("'{}' was changed or cut; remove it to run the cell again", path.display())
            })?;
            Ok(Some(fixed))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("can't read '{}'", path.display())),
    }
}

/// A first look at many, the best of them and the default through the script.
fn fixed(
    cell: &Cell,
    place: &Place,
    reference: &Reference,
    every: usize,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Fixed> {
    let in_force = SimRig::new(place.machine.clone()).check(&place.scenario, &Setting::default())?;
    let space = cells::space(&place.machine, &in_force, reference);
    let sampled = space.points().into_iter().step_by(every.max(1));
    let mut points: Vec<_> = space.starts.iter().cloned().chain(sampled).collect();
    points.sort();
    points.dedup();
    let objective = Objective::default();
    let mut looks: Vec<(f64, Setting)> = Vec::new();
    for (i, point) in points.iter().enumerate() {
        tell(&format!("{i} of {} fixed settings", points.len()));
        let setting = space.setting(point);
        if let Ok(kept) = place.trial(&setting, 1, FIRST_LOOK, reference) {
            looks.push((objective.log_score(&kept), setting));
        }
    }
    looks.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut settings = BTreeMap::new();
    for (_, setting) in looks.iter().take(FINALISTS) {
        settings.insert(setting.to_string(), through(cell, setting, false, reference)?.through);
    }
    let default = through(cell, &Setting::default(), false, reference)?.through;
    Ok(Fixed {
        reference: reference.into(),
        every,
        machines: SEEDS.len(),
        looked_at: looks.len(),
        default,
        settings,
    })
}

fn stage(cell: &Cell, seed: u64, setting: &Setting, guarded: bool) -> anyhow::Result<Stage> {
    let part = PlantDevice { options: cell.machine(seed)?, scenario: cell.scenario()? };
    Stage::new(vec![part], setting, guarded)
}

/// Everything of somebody in a cell.
fn through(cell: &Cell, setting: &Setting, guarded: bool, reference: &Reference) -> anyhow::Result<Guarded> {
    let scenario = cell.scenario()?;
    let (victim, flood) = (&scenario.victims[0].name, &scenario.floods[0].name);
    let mut all: Vec<Kept> = Vec::new();
    let mut guard = Guarded { given_back: true, ..Guarded::default() };
    let (mut dead, mut writes) = (0, 0);
    let worst =
        |so_far: Option<f64>, now: Option<f64>| Some(so_far.unwrap_or(0.0).max(now.unwrap_or(f64::INFINITY)));
    for seed in SEEDS {
        let mut stage = stage(cell, seed, setting, guarded)?;
        stage.start(0, victim)?;
        stage.start(MEET, flood)?;
        stage.stop(LEAVE, victim)?;
        stage.until(if guarded { END } else { LEAVE })?;
        let mut trial = stage.trial(victim, flood, LEAVE - LAST, LEAVE);
        if let Some(burst) = burst(cell, seed, setting, guarded, victim)? {
            trial.phases.push(burst);
        }
        all.push(kept(&trial, reference).context("the trial has no complete phase")?);
        dead += stage.dead(victim, reference.iops_alone, MEET + GRACE, LEAVE);
        writes += stage.writes.len();
        if guarded {
            guard.protected_s = worst(guard.protected_s, stage.entered(State::Protect, MEET));
            guard.freed_s = worst(guard.freed_s, stage.entered(State::Free, LEAVE));
            guard.given_back &= stage.is_as_it_was()?;
        }
        if guard.decisions.is_empty() {
            guard.decisions = stage.decisions;
        }
    }
    let machines = SEEDS.len() as f64;
    let pooled = pooled(&all).context("no machines")?;
    let objective = Objective::default();
    let scores: Vec<f64> = all.iter().map(|k| objective.log_score(k)).collect();
    let error = mean_and_variance(&scores).map_or(0.0, |(_, v)| (v / machines).sqrt());
    guard.through = Through {
        kept: Measured::of(&pooled, objective.log_score(&pooled), error),
        dead_seconds: f64::from(u32::try_from(dead)?) / machines,
    };
    guard.writes = writes as f64 / machines;
    Ok(guard)
}

/// A burst ten seconds after a victim that was alone has gone.
fn burst(
    cell: &Cell,
    seed: u64,
    setting: &Setting,
    guarded: bool,
    victim: &str,
) -> anyhow::Result<Option<floodwall_model::Phase>> {
    let bytes = cell.scenario()?.burst.unwrap_or(Bytes::gib(1));
    let mut stage = stage(cell, seed, setting, guarded)?;
    let device = stage.first_device().context("there is no device")?;
    stage.start(0, victim)?;
    stage.stop(VICTIM_STOPS, victim)?;
    stage.at(BURST, Happening::Burst(device, bytes))?;
    let mut end = BURST;
    // A small limit makes it as slow as the device.
    while stage.burst_bytes_per_s().is_none() && end < 100 * BURST {
        end += 5;
        stage.until(end)?;
    }
    let Some(rate) = stage.burst_bytes_per_s() else { return Ok(None) };
    let mut trial = stage.trial(victim, "", 0, 1);
    Ok(trial.phases.pop().map(|phase| floodwall_model::Phase {
        kind: floodwall_model::PhaseKind::Burst,
        burst: Some(BurstTotals { bytes: bytes.0, seconds: bytes.0 as f64 / rate }),
        ..phase
    }))
}

/// The guard's share of somebody else's, in percent; of nothing, nothing is missing.
fn share(guard: f64, other: f64) -> f64 {
    if other > 0.0 { guard / other } else { 1.0 }
}

/// What a cell has to reach.
struct Reached {
    victim: f64,
    flood: f64,
    dead: bool,
    burst: bool,
    as_default: bool,
}

impl Row {
    /// What the guard decided, line by line.
    fn log(&self) -> String {
        let line = |d: &Decision| {
            format!(
                "{} {:7.2} s {:>7} → {:7} [{}] {}\n",
                self.cell.name(),
                d.at.as_secs_f64(),
                d.from,
                d.to,
                d.level,
                d.why
            )
        };
        self.guard.decisions.iter().map(line).collect()
    }

    fn reaches_both(&self, fixed: &Through) -> bool {
        let guard = &self.guard.through.kept;
        share(guard.victim_kept, fixed.kept.victim_kept) >= WANTED
            && share(guard.flood_kept, fixed.kept.flood_kept) >= WANTED
    }

    fn reached(&self) -> Reached {
        let (guard, best, default) = (&self.guard.through, &self.best.1, &self.default);
        let least = 1.0 - TOLERANCE;
        Reached {
            victim: share(guard.kept.victim_kept, best.kept.victim_kept),
            flood: share(guard.kept.flood_kept, best.kept.flood_kept),
            dead: guard.dead_seconds == 0.0,
            burst: guard.kept.burst_kept >= WANTED_BURST,
            as_default: guard.kept.victim_kept >= least * default.kept.victim_kept
                && guard.kept.flood_kept >= least * default.kept.flood_kept
                && guard.kept.burst_kept >= least * default.kept.burst_kept
                && guard.dead_seconds <= default.dead_seconds * (1.0 + TOLERANCE),
        }
    }
}

fn table(rows: &[Row], every: usize) -> String {
    let count = |of: &dyn Fn(&Row) -> bool| rows.iter().filter(|r| of(r)).count();
    let middle = |of: &dyn Fn(&Row) -> f64| {
        let mut all: Vec<f64> = rows.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let total = rows.len();
    let score = |r: &Row| (r.guard.through.kept.score - r.best.1.kept.score).exp();
    let mut lines = vec![
        format!(
            "An encounter of {} s in each cell, on {} machines; what is kept is that of its last {LAST} s. *Best* is the best fixed setting by score of the recipes of `tune` and every \
             {every}th point of the grid; as good are those whose score is at least 90 % of that. Dead seconds are those after the first two, of {}.\n",
            LEAVE - MEET,
            SEEDS.len(),
            LEAVE - MEET - GRACE
        ),
        "| figure | goal | cells that reach it | middle |\n|---|---|---|---|".to_owned(),
    ];
    let mut figure = |name: &str, goal: &str, reached: usize, middle: String| {
        lines.push(format!("| {name} | {goal} | {reached} of {total} | {middle} |"));
    };
    let percent = |v: f64| format!("{:.0} %", v * 100.0);
    figure(
        "victim's share of the best's",
        "90 %",
        count(&|r| r.reached().victim >= WANTED),
        percent(middle(&|r| r.reached().victim)),
    );
    figure(
        "flood's share of the best's",
        "90 %",
        count(&|r| r.reached().flood >= WANTED),
        percent(middle(&|r| r.reached().flood)),
    );
    figure("both", "90 %", count(&|r| r.reaches_both(&r.best.1)), "–".into());
    figure(
        "both, of a setting that is as good as the best",
        "90 %",
        count(&|r| r.ties.iter().any(|tie| r.reaches_both(tie))),
        "–".into(),
    );
    figure("score of the best's", "–", count(&|r| score(r) >= WANTED), percent(middle(&score)));
    figure(
        "dead seconds",
        "0",
        count(&|r| r.reached().dead),
        format!("{:.1}", middle(&|r| r.guard.through.dead_seconds)),
    );
    figure(
        "burst kept",
        "95 %",
        count(&|r| r.reached().burst),
        percent(middle(&|r| r.guard.through.kept.burst_kept)),
    );
    figure("nothing worse than the default", "5 %", count(&|r| r.reached().as_default), "–".into());
    let within = |s: Option<f64>, most: f64| s.is_some_and(|s| s <= most);
    let seconds = |v: f64| format!("{v:.2} s");
    figure(
        "protected after the flood comes",
        "1 s",
        count(&|r| within(r.guard.protected_s, 1.0)),
        seconds(middle(&|r| r.guard.protected_s.unwrap_or(f64::NAN))),
    );
    figure(
        "free after the victim leaves",
        "10 s",
        count(&|r| within(r.guard.freed_s, 10.0)),
        seconds(middle(&|r| r.guard.freed_s.unwrap_or(f64::NAN))),
    );
    figure("every knob as before", "all", count(&|r| r.guard.given_back), "–".into());
    lines.push(String::new());
    lines.push("| cell | victim kept: default, best, guard | flood kept: default, best, guard | guard's share of the best: victim, flood, score | dead s: default, best, guard | protected, free | writes | best |\n|---|---|---|---|---|---|---|---|".into());
    for row in rows {
        let (d, b, g) = (&row.default, &row.best.1, &row.guard.through);
        let reached = row.reached();
        let three =
            |of: &dyn Fn(&Through) -> f64| format!("{}, {}, {}", show(of(d)), show(of(b)), show(of(g)));
        let time =
            |s: Option<f64>| s.filter(|s| s.is_finite()).map_or("–".to_owned(), |s| format!("{s:.2} s"));
        lines.push(format!(
            "| {}, {}, {} | {} | {} | {:.0} %, {:.0} %, {:.0} % | {:.1}, {:.1}, {:.1} | {}, {} | {:.0} | {} |",
            row.cell.device,
            row.cell.victim,
            row.cell.streams,
            three(&|t| t.kept.victim_kept),
            three(&|t| t.kept.flood_kept),
            reached.victim * 100.0,
            reached.flood * 100.0,
            score(row) * 100.0,
            d.dead_seconds,
            b.dead_seconds,
            g.dead_seconds,
            time(row.guard.protected_s),
            time(row.guard.freed_s),
            row.guard.writes,
            if row.best.0.is_empty() { "default".into() } else { row.best.0.replace(',', " ") },
        ));
    }
    lines.join("\n") + "\n"
}

/// A share in percent.
fn show(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{p:.0}"),
        p => format!("{p:.1}"),
    }
}
