//! `floodwall sim sweep` simulates a grid or a sample of machines and settings on all cores and
//! writes one Parquet file.
//!
//! ```text
//! FILE.toml ─▶ Sweep ─▶ shard's cells ─▶ runs ─┬─ kept in OUT.journal already
//!                                              └─ workers ─▶ OUT.journal (fsynced) ─▶ rows ─▶ OUT
//! ```
//!
//! No ending (a signal, a full disk, a lost machine) loses a run that the journal has; the same
//! command goes on from there. The journal is removed once the table is on disk.

mod args;
mod build;
mod estimate;
mod journal;
mod library;
mod merge;
mod table;
mod workers;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::Context;
use floodwall_sim::sweep::{self, Figures, Key, Run, Sweep, Value, Which};

pub(crate) use args::SweepArgs;

use self::args::SweepCommand;
use self::journal::Journal;
use self::library::Files;
use self::table::{Facts, Table};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::signals;

/// The version that tables name.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<Exit> {
    if let Some(SweepCommand::Merge(merge)) = &args.command {
        return merge::run(merge);
    }
    let (sweep, out) = read(args)?;
    let cells = sweep.cells(args.shard);
    let runs = sweep.runs(&cells);
    if args.list {
        return list(&sweep, &cells);
    }
    if args.dry_run {
        output::result(&estimate::text(&sweep, args.shard, &runs, args.jobs()))?;
        return Ok(Exit::Done);
    }
    let facts = Facts {
        name: sweep.name().to_owned(),
        fingerprint: sweep.fingerprint(&build::identity()?),
        version: VERSION.to_owned(),
        cells: sweep.len(),
        shard: args.shard,
    };
    if is_complete(&out, &facts)? {
        notice(&format!("'{}' has every cell of this sweep already: nothing to do", out.display()));
        return Ok(Exit::Done);
    }
    output::check_writable(&out)?;
    let (mut journal, mut known) = Journal::open(&Journal::path_of(&out), &facts)?;
    simulate(args, &sweep, &runs, &mut journal, &mut known)?;
    let rows = rows(&sweep, &cells, &known)?;
    let unable = rows.iter().filter(|row| reason(&sweep, row).is_some()).count();
    let table = Table { facts, columns: sweep.columns(), rows };
    table.write(&out).with_context(|| {
        format!(
            "the table is not written, all of its runs are kept in '{}'; give the same command \
            again once that is mended",
            journal.path().display()
        )
    })?;
    journal.remove()?;
    report(&sweep, &table, &out, unable)
}

/// The sweep that was asked for, and where its table goes.
fn read(args: &SweepArgs) -> anyhow::Result<(Sweep, PathBuf)> {
    let Some(path) = &args.file else {
        return Err(UsageError(
            "name a sweep's file, or merge and the tables to put together".into(),
        )
        .into());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| UsageError(format!("can't read the sweep '{shown}': {e}")))?;
    let sweep = sweep::parse(&text, &Files::beside(path))
        .map_err(|e| UsageError(format!("'{shown}': {e}")))?;
    Ok((sweep, args.out(path)))
}

/// Whether the table is there already. One of something else is not overwritten.
fn is_complete(out: &Path, facts: &Facts) -> anyhow::Result<bool> {
    if !out.exists() {
        return Ok(false);
    }
    match Table::facts_of(out) {
        Ok(there) if there.fingerprint == facts.fingerprint && there.shard == facts.shard => {
            Ok(true)
        }
        Ok(there) if there.fingerprint == facts.fingerprint => {
            let (shown, shard) = (out.display(), there.shard);
            Err(UsageError(format!(
                "'{shown}' is shard {shard} of this sweep; name another file \
                with -o"
            ))
            .into())
        }
        _ => Err(UsageError(format!(
            "'{}' is there already and is not this sweep's: its file, a file that it names or \
             floodwall changed since, or it never was; remove it, or name another file with -o",
            out.display()
        ))
        .into()),
    }
}

/// Does the runs that the journal does not have, and keeps each as soon as it is done.
fn simulate(
    args: &SweepArgs,
    sweep: &Sweep,
    runs: &[Run],
    journal: &mut Journal,
    known: &mut HashMap<Key, Figures>,
) -> anyhow::Result<()> {
    let pending: Vec<Run> =
        runs.iter().copied().filter(|run| !known.contains_key(&run.key)).collect();
    if pending.len() < runs.len() {
        let kept = runs.len() - pending.len();
        notice(&format!(
            "going on: {kept} of {} runs are in '{}'",
            runs.len(),
            journal.path().display()
        ));
    }
    let stop = signals::stop_flag()?;
    let mut progress = workers::Meter::new(runs.len(), runs.len() - pending.len(), args.quiet);
    workers::run(sweep, &pending, args.jobs(), &stop, &mut progress, |done| {
        journal.append(&done).map_err(|e| {
            let (path, kept, all) = (journal.path().display(), known.len(), runs.len());
            anyhow::anyhow!(
                "can't write '{path}': {e}; {kept} of {all} runs are kept: make room, then give \
                 the same command again to go on"
            )
        })?;
        known.extend(done.into_iter().map(|(run, figures)| (run.key, figures)));
        Ok(())
    })?;
    if stop.load(Ordering::Relaxed) && known.len() < runs.len() {
        let (kept, all, path) = (known.len(), runs.len(), journal.path().display());
        anyhow::bail!(
            "stopped: {kept} of {all} runs are kept in '{path}'; give the same command again to go on"
        );
    }
    Ok(())
}

fn rows(
    sweep: &Sweep,
    cells: &[u64],
    known: &HashMap<Key, Figures>,
) -> anyhow::Result<Vec<Vec<Option<Value>>>> {
    let row = |cell: &u64| {
        let figures = known.get(&sweep.key(Which::Cell(*cell)));
        let figures = figures
            .with_context(|| format!("cell {cell} was not run: this is a bug of floodwall's"))?;
        let default = sweep.default_of(*cell).and_then(|key| known.get(&key));
        Ok(sweep.row(*cell, figures, default))
    };
    cells.iter().map(row).collect()
}

/// Why a row's cell could not be run.
fn reason<'a>(sweep: &Sweep, row: &'a [Option<Value>]) -> Option<&'a str> {
    let at = sweep.columns().iter().position(|column| column.name == "error")?;
    match row.get(at)? {
        Some(Value::Text(why)) => Some(why),
        _ => None,
    }
}

fn report(sweep: &Sweep, table: &Table, out: &Path, unable: usize) -> anyhow::Result<Exit> {
    let cells = table.rows.len();
    let shard = table.facts.shard;
    let part =
        if shard == sweep::Shard::WHOLE { String::new() } else { format!(", shard {shard}") };
    output::result(&format!("{}{part}: {cells} cells in '{}'\n", sweep.name(), out.display()))?;
    if unable > 0 {
        let first = table.rows.iter().find_map(|row| reason(sweep, row)).unwrap_or_default();
        notice(&format!(
            "{unable} of {cells} cells could not be run (column error), such as: {first}"
        ));
    }
    Ok(if unable == cells && cells > 0 { Exit::Inconclusive } else { Exit::Done })
}

/// The cells of a shard, a line each: number, key, machine and setting, between tabs.
fn list(sweep: &Sweep, cells: &[u64]) -> anyhow::Result<Exit> {
    let columns = sweep.columns();
    let end =
        columns.iter().position(|column| column.name == "victim_kept").unwrap_or(columns.len());
    let names: Vec<&str> = columns[..end].iter().map(|column| column.name.as_str()).collect();
    let nothing = Figures::default();
    output::result_with(|out| {
        writeln!(out, "{}", names.join("\t"))?;
        for cell in cells {
            let mut line = String::new();
            for (i, value) in sweep.row(*cell, &nothing, None)[..end].iter().enumerate() {
                let tab = if i > 0 { "\t" } else { "" };
                let _ = match value {
                    None => write!(line, "{tab}default"),
                    Some(Value::Integer(n)) => write!(line, "{tab}{n}"),
                    Some(Value::Real(n)) => write!(line, "{tab}{n}"),
                    Some(Value::Text(text)) => write!(line, "{tab}{text}"),
                };
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
