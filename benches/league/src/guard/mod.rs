//! The guard as a contender: an encounter in every cell, beside the default and the best fixed
//! setting, all through the same script.
//!
//! ```text
//! script ─▶ the guard, the default, finalists of everything known, each on the same 6 machines
//!        ─▶ data/guard/CELL.json ─▶ docs/league.md
//! ```
//!
//! What a cell's file has is not run again while law, tuner, simulator and presets are what they
//! were.

mod args;
mod paced;
mod script;
mod share;
mod stored;
mod table;
mod yardstick;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use floodwall_guard::Decision;
use floodwall_model::Setting;
use published::document::replace_section;
use published::origin::{self, Origin};
use published::stored::{read, write};

use crate::cells::{self, Cell};
use crate::data::Alone;
use crate::measure::Place;
use crate::{conditions, work};
pub(crate) use args::GuardArgs;
use args::Only;
use paced::Paced;
use script::{Run, log};
use stored::{Draws, Guarded, MACHINES, seed};

/// What the figures depend on.
const INPUTS: [&str; 5] = ["law", "tuner", "simulator", "device-presets", "setting-presets"];
/// The section with every preset.
const PRESETS: &str = "guard-presets";
/// Which cells are of drawn devices, in the directory of the data.
const DRAWN: &str = "drawn.json";

/// Runs the missing parts and writes the sections.
pub(crate) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    let root = origin::root()?;
    std::fs::create_dir_all(&args.data)
        .with_context(|| format!("can't make '{}'", args.data.display()))?;
    let is_wanted = |part: Only| args.only.is_none_or(|only| only == part);
    let drawn = draws(args, &root)?.cells()?;
    let is_named =
        |c: &Cell| args.cells.is_empty() || args.cells.iter().any(|part| c.name().contains(part));
    anyhow::ensure!(
        cells::all()
            .iter()
            .chain(&drawn)
            .chain(&cells::presets())
            .chain(&cells::open_loop())
            .any(is_named),
        "no cell is called so; they are {}",
        work::names()
    );
    let origin = Origin::now(&root, &INPUTS)?;
    let parts = [
        (Only::Cells, cells::all()),
        (Only::Drawn, drawn.clone()),
        (Only::Presets, cells::presets()),
    ];
    for (part, cells) in parts {
        if is_wanted(part) {
            let wanted: Vec<Cell> = cells.into_iter().filter(is_named).collect();
            work::all(&wanted, args.jobs, &|cell, tell| measure(cell, args, &origin, tell))?;
        }
    }
    if is_wanted(Only::Open) {
        let wanted: Vec<Cell> = cells::open_loop().into_iter().filter(is_named).collect();
        work::all(&wanted, args.jobs, &|cell, tell| {
            let (_, rate) = paced::third(&cell.closed_loop())?;
            measure(&cell.at_rate(rate as u32), args, &origin, tell)
        })?;
    }
    if is_wanted(Only::Paced) {
        let wanted: Vec<Cell> =
            cells::all().into_iter().chain(drawn.clone()).filter(is_named).collect();
        work::all(&wanted, args.jobs, &|cell, tell| paced::measure(cell, args, &origin, tell))?;
    }
    if is_wanted(Only::Conditions) && args.cells.is_empty() {
        conditions::run(&args.data, args.first_day, args.days, args.jobs, &root)?;
    }
    for (name, section, origin) in sections(&args.data)? {
        println!("{section}");
        if !args.dry_run {
            let document = if name == PRESETS { &args.presets_out } else { &args.out };
            replace_section(document, name, "league guard", &section, &origin, &root)?;
        }
    }
    Ok(())
}

/// The sections of what is stored, with what it was measured with.
pub(crate) fn sections(data: &Path) -> anyhow::Result<Vec<(&'static str, String, Origin)>> {
    let mut sections = Vec::new();
    let all = cells::all();
    let count = all.len();
    let (rows, origin) = guarded(data, all)?;
    if !rows.is_empty() {
        sections.push(("league-guard", table::section(&rows, count), origin));
    }
    let (rows, origin) = guarded(data, cells::open_loop())?;
    if !rows.is_empty() {
        sections.push(("league-guard-open", table::section(&rows, count), origin));
    }
    if let Some(draws) = read::<Draws>(&data.join(DRAWN))? {
        let (rows, origin) = guarded(data, draws.cells()?)?;
        sections.push(("league-guard-drawn", table::drawn(&rows, &draws)?, origin));
        let cells = draws.cells()?;
        let count = cells.len();
        let (rows, origin) = stored(data, cells, paced::FILE, |paced: &Paced| &paced.origin)?;
        if !rows.is_empty() {
            sections.push((paced::DRAWN_SECTION, paced::section(&rows, count), origin));
        }
    }
    let (rows, origin) = guarded(data, cells::presets())?;
    if !rows.is_empty() {
        sections.push((PRESETS, table::presets(&rows), origin));
    }
    let (rows, origin) = stored(data, cells::all(), paced::FILE, |paced: &Paced| &paced.origin)?;
    if !rows.is_empty() {
        sections.push((paced::SECTION, paced::section(&rows, count), origin));
    }
    sections.extend(conditions::stored(data)?);
    Ok(sections)
}

/// Reads the file of each cell: the cell's name and `end`. Gives the measurements, and what they
/// were all measured with.
fn stored<T: serde::de::DeserializeOwned>(
    data: &Path,
    cells: Vec<Cell>,
    end: &str,
    origin: fn(&T) -> &Origin,
) -> anyhow::Result<(Vec<(Cell, T)>, Origin)> {
    let mut rows = Vec::new();
    for cell in cells {
        if let Some(measured) = read(&data.join(cell.name() + end))? {
            rows.push((cell, measured));
        }
    }
    let origin = Origin::of_parts(rows.iter().map(|(_, measured)| origin(measured)));
    Ok((rows, origin))
}

fn guarded(data: &Path, cells: Vec<Cell>) -> anyhow::Result<(Vec<(Cell, Guarded)>, Origin)> {
    stored(data, cells, ".json", |guarded: &Guarded| &guarded.origin)
}

/// The stored draws, or new ones by `--seed` or the law's commit; as many as `--draws` says.
fn draws(args: &GuardArgs, root: &Path) -> anyhow::Result<Draws> {
    let path = args.data.join(DRAWN);
    let mut draws = match (read::<Draws>(&path)?, args.seed) {
        (Some(stored), None) => stored,
        (_, given) => {
            let law = origin::last_commit(root, "law")?
                .context("the law's commit is unknown; give --seed")?;
            let by_commit = || seed(law.get(..8).unwrap_or_default()).map_err(anyhow::Error::msg);
            Draws { seed: format!("{:08x}", given.map_or_else(by_commit, Ok)?), count: 1, law }
        }
    };
    draws.count = args.draws.unwrap_or(draws.count);
    if !args.dry_run {
        write(&path, &draws)?;
    }
    Ok(draws)
}

/// One cell.
fn measure(
    cell: &Cell,
    args: &GuardArgs,
    origin: &Origin,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let path = args.data.join(cell.name() + ".json");
    let is_there = |stored: Guarded| stored.origin == *origin && stored.machines == MACHINES;
    if !args.again && read::<Guarded>(&path).ok().flatten().is_some_and(is_there) {
        return Ok(());
    }
    let place = Place { machine: cell.machine(1)?, scenario: cell.scenario()? };
    let reference = place.reference()?;
    tell("the guard");
    let (guard, decisions) = through(cell, &Setting::default(), true, &reference)?;
    if args.log {
        // In one piece, as cells run side by side.
        print!("{}", log(cell, &decisions));
    }
    let held: Vec<Setting> =
        guard.iter().filter_map(|run| Some(run.steered.as_ref()?.level.clone())).collect();
    let has_yardstick = cell.drawn.is_some() || cells::all().contains(&cell.closed_loop());
    let known = if has_yardstick {
        yardstick::choose(cell, &place, &args.league, &reference, held, tell)?
    } else {
        yardstick::Known::default()
    };
    let mut finalists = BTreeMap::new();
    for setting in known.finalists {
        tell("the finalists");
        finalists.insert(setting.to_string(), through(cell, &setting, false, &reference)?.0);
    }
    let default = through(cell, &Setting::default(), false, &reference)?.0;
    let guarded = Guarded {
        origin: origin.clone(),
        reference: Alone::from(&reference),
        machines: MACHINES.to_vec(),
        chosen_from: known.scores,
        default,
        finalists,
        guard,
    };
    write(&path, &guarded)
}

/// Through the script on every machine; decisions are the first one's.
fn through(
    cell: &Cell,
    setting: &Setting,
    guarded: bool,
    reference: &floodwall_tune::objective::Reference,
) -> anyhow::Result<(Vec<Run>, Vec<Decision>)> {
    let (mut runs, mut decisions) = (Vec::new(), Vec::new());
    for seed in MACHINES {
        let (run, decided) = script::run(cell, seed, setting, guarded, reference)?;
        if runs.is_empty() {
            decisions = decided;
        }
        runs.push(run);
    }
    Ok((runs, decisions))
}
