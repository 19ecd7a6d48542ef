//! `floodwall sim sweep` simulates a grid or a sample of machines and settings on all cores and
//! writes a row a cell.
//!
//! ```text
//! FILE.toml ─▶ Sweep ─▶ shard's cells, less those in OUT.jsonl ─▶ runs ─▶ workers ─▶ OUT.jsonl
//! ```
//!
//! No ending but a lost machine's (a signal, a full disk) loses a row that the part has; the same
//! command goes on from there. Neither threads nor shards change a row, except for the shard that
//! it names.

mod args;
mod estimate;
mod file;
mod part;
mod plan;
mod shard;
#[cfg(test)]
mod testing;
mod workers;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use floodwall_model::Setting;
use floodwall_model::units::human_duration;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::Value as Json;

pub(crate) use args::SweepArgs;

use self::file::DEFAULT;
use self::part::{Origin, Part, Row};
use self::plan::{Figures, Run, Sweep};
use self::shard::Shard;
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::signals;

/// How often a line says the progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<Exit> {
    let shown = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|e| UsageError(format!("can't read the sweep '{shown}': {e}")))?;
    let directory = args.file.parent().unwrap_or(Path::new(""));
    let sweep = file::parse(&text, directory).map_err(|e| UsageError(format!("'{shown}': {e}")))?;
    let cells = args.shard.deal(&sweep.cells, sweep.group);
    if args.list {
        return list(&sweep, &cells);
    }
    if args.dry_run {
        output::result(&estimate::text(&sweep, args.shard, &cells, args.jobs()))?;
        return Ok(Exit::Done);
    }
    let (origin, out) = (Origin::of(&sweep, args.shard)?, args.out());
    let mut part = Part::open(&out, &origin)?;
    let (before, all, shown) = (part.cells.len(), cells.len(), out.display());
    let pending: Vec<u64> = cells.into_iter().filter(|cell| !part.cells.contains(cell)).collect();
    if pending.is_empty() && all > 0 {
        notice(&format!("'{shown}' has every cell of this sweep already: nothing to do"));
        return Ok(Exit::Done);
    }
    if before > 0 {
        notice(&format!("going on: {before} of {all} cells are in '{shown}'"));
    }
    let stop = signals::stop_flag()?;
    let runs = sweep.runs(&pending);
    let mut progress = Progress::new(all, before, args.quiet);
    let mut waiting = Waiting { sweep: &sweep, defaults: HashMap::new(), ended: Vec::new() };
    let ended = workers::run(&sweep, &runs, args.jobs(), &stop, |run, figures| {
        part.append(waiting.rows(&origin, run, figures))?;
        progress.show(part.cells.len());
        Ok(())
    });
    progress.bar.finish_and_clear();
    ended.and_then(|()| part.sync())?;
    let kept = part.cells.len();
    if kept < all {
        anyhow::bail!(
            "stopped: {kept} of {all} cells are in '{shown}'; give the same command again to go on"
        );
    }
    let shard = if args.shard == Shard::WHOLE { "" } else { &format!(", shard {}", args.shard) };
    output::result(&format!("{}{shard}: {all} cells in '{shown}'\n", sweep.name))?;
    if let (unable, Some(reason)) = (part.unable, &part.reason) {
        notice(&format!(
            "{unable} of {all} cells could not be run (column error), such as: {reason}"
        ));
    }
    Ok(if part.unable == all && all > 0 { Exit::Inconclusive } else { Exit::Done })
}

/// Runs that have ended. Their rows wait for the default run of their group.
struct Waiting<'a> {
    sweep: &'a Sweep,
    /// Figures of the default runs by group.
    defaults: HashMap<u64, Figures>,
    ended: Vec<(&'a Run, Figures)>,
}

impl<'a> Waiting<'a> {
    /// Adds a run that has ended. Returns all rows that are now complete.
    fn rows(&mut self, origin: &'a Origin, run: &'a Run, figures: Figures) -> Vec<Row<'a>> {
        let Self { sweep, ref mut defaults, ref mut ended } = *self;
        if run.setting.is_empty() {
            defaults.insert(run.group, figures.clone());
        }
        ended.push((run, figures));
        let ready = |(run, _): &mut (&Run, _)| !sweep.baseline || defaults.contains_key(&run.group);
        let mut rows = Vec::new();
        for (run, mut figures) in ended.extract_if(.., ready) {
            if sweep.baseline
                && let Some(default) = defaults.get(&run.group)
            {
                figures = figures.beside(default);
            }
            let row = |cell| Row::new(sweep, origin, cell, shown(&run.setting), figures.clone());
            rows.extend(run.cells.iter().copied().map(row));
        }
        rows
    }
}

/// Progress on stderr: a bar on a terminal, else a line now and then.
struct Progress {
    bar: ProgressBar,
    lines: bool,
    said: Instant,
}

impl Progress {
    /// For so many cells; some of them were done before.
    fn new(all: usize, before: usize, quiet: bool) -> Self {
        let bar = if quiet || !output::stderr_is_terminal() {
            ProgressBar::with_draw_target(Some(all as u64), ProgressDrawTarget::hidden())
        } else {
            ProgressBar::new(all as u64)
        };
        let form = "{bar:40} {percent:>3} %  {pos} of {len} cells, {per_sec}, about {eta} left";
        bar.set_style(output::bar_style(form));
        bar.set_position(before as u64);
        // Cells of an earlier run say nothing about this run's speed.
        bar.reset_eta();
        Self { lines: !quiet && bar.is_hidden(), bar, said: Instant::now() }
    }

    fn show(&mut self, done: usize) {
        self.bar.set_position(done as u64);
        if self.lines && self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            let (all, left) = (self.bar.length().unwrap_or(0), human_duration(self.bar.eta()));
            notice(&format!("{done} of {all} cells, about {left} left"));
        }
    }
}

/// A setting as a row shows it.
fn shown(setting: &Setting) -> String {
    if setting.is_empty() { DEFAULT.to_owned() } else { setting.to_string() }
}

/// The cells, a line each: number, machine and setting, between tabs.
fn list(sweep: &Sweep, cells: &[u64]) -> anyhow::Result<Exit> {
    let names: Vec<&str> = sweep.axes.iter().map(|axis| axis.name.as_str()).collect();
    output::result_with(|out| {
        writeln!(out, "cell\t{}\tsetting", names.join("\t"))?;
        for cell in cells {
            write!(out, "{cell}")?;
            for (_, value) in sweep.columns(*cell) {
                match value {
                    Json::Null => write!(out, "\t{DEFAULT}")?,
                    Json::String(text) => write!(out, "\t{text}")?,
                    number => write!(out, "\t{number}")?,
                }
            }
            writeln!(out, "\t{}", shown(&sweep.cell(*cell).setting))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
