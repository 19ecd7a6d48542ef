//! The league: the kernel's default, published settings, the best of an exhaustive grid and the
//! recommendation of `floodwall tune`, side by side.
//!
//! ```text
//! 5 devices × 4 victims × 2 floods = 40 cells ─▶ benches/league/data/CELL.json ─▶ docs/league.md
//! ```
//!
//! Resumable: what a cell's file has is not run again. `--shard 1/4` runs every fourth cell, so
//! that four machines share the work. The run that finds all cells writes the tables.

mod cells;
mod conditions;
mod contenders;
mod data;
#[cfg(test)]
mod follows;
mod guard;
mod lab;
mod measure;
mod noise;
mod prior;
mod random;
mod run;
mod stage;
mod table;
mod work;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use published::document::{mark_documents, replace_section};
use published::{origin, stored};

/// Put settings side by side in the simulator and write docs/league.md.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    league: LeagueArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// The guard against the best fixed setting of each cell, and under conditions that move
    Guard(guard::GuardArgs),
    /// Search and compare behind the real kernel, on the lab's devices (root)
    Lab(lab::LabArgs),
    /// Search on devices ten times noisier than a quiet one, and count what is recommended wrongly
    Noise(noise::NoiseArgs),
    /// What devices of each kind drain, on devices drawn at random
    Prior(prior::PriorArgs),
}

#[derive(clap::Args)]
struct LeagueArgs {
    /// Only cells whose name contains one of these
    cells: Vec<String>,
    /// Every Nth cell, beginning with the Ith
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = work::shard)]
    shard: (usize, usize),
    /// Searches a cell, each with another seed
    #[arg(long, default_value_t = 3)]
    searches: u64,
    /// Run again, although it is there
    #[arg(long, value_enum)]
    again: Option<Again>,
    /// Of a grid that is not there yet only every Nth point, for a quick look; 0: none
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Cells at the same time; all cores if not given
    #[arg(long)]
    jobs: Option<usize>,
    /// Where what was measured is kept
    #[arg(long, default_value = "benches/league/data")]
    data: PathBuf,
    /// The document whose sections are written anew
    #[arg(long, default_value = "docs/league.md")]
    out: PathBuf,
    /// Only print
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Again {
    /// The searches
    Search,
    /// Everything
    All,
}

fn main() -> anyhow::Result<()> {
    let Args { command, league: args } = Args::parse();
    let is_dry = match command {
        Some(Command::Guard(args)) => guard::run(&args).map(|()| args.dry_run),
        Some(Command::Lab(args)) => lab::run(&args).map(|()| false),
        Some(Command::Noise(args)) => noise::run(&args).map(|()| args.dry_run),
        Some(Command::Prior(args)) => prior::run(&args).map(|()| args.dry_run),
        None => league(&args).map(|()| args.dry_run),
    }?;
    if !is_dry {
        for line in mark_documents(&origin::root()?)? {
            eprintln!("{line}");
        }
    }
    Ok(())
}

fn league(args: &LeagueArgs) -> anyhow::Result<()> {
    let wanted: Vec<cells::Cell> = cells::all()
        .into_iter()
        .enumerate()
        .filter(|(i, _)| i % args.shard.1 == args.shard.0)
        .map(|(_, cell)| cell)
        .filter(|c| args.cells.is_empty() || args.cells.iter().any(|part| c.name().contains(part)))
        .collect();
    anyhow::ensure!(!wanted.is_empty(), "no cell is called so; they are {}", work::names());
    std::fs::create_dir_all(&args.data)?;
    let plan = run::Plan {
        searches: args.searches,
        every: args.every,
        search_again: args.again == Some(Again::Search),
    };
    let path = |cell: &cells::Cell| args.data.join(cell.name() + ".json");
    if args.again == Some(Again::All) {
        for cell in &wanted {
            match std::fs::remove_file(path(cell)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        }
    }
    work::all(&wanted, args.jobs, &|cell, tell| {
        run::cell(cell, &path(cell), plan, tell).map(|_| ())
    })?;
    let mut there = Vec::new();
    let all = cells::all();
    for cell in &all {
        let Some(data) = stored::read::<data::CellData>(&path(cell))? else { continue };
        let Some(grid) = &data.grid else { continue };
        // A quick look of an earlier run is no exhaustive grid.
        if args.every != 1 || grid.points == cells::points(cell, data.reference.drain_bytes_per_s)?
        {
            there.push((*cell, data));
        }
    }
    let (summary, tables) = table::sections(&there)?;
    println!("{summary}\n{tables}");
    if args.dry_run || args.every != 1 || there.len() < all.len() {
        eprintln!(
            "{} of {} cells are there: the document is left as it is",
            there.len(),
            all.len()
        );
        return Ok(());
    }
    let root = origin::root()?;
    let origin = data::origin(there.iter().map(|(_, data)| data));
    for (name, section) in [("league-summary", summary), ("league-cells", tables)] {
        replace_section(&args.out, name, "make league", &section, &origin, &root)?;
    }
    Ok(())
}
