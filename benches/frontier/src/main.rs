//! The frontier: what each family of levers gives the victim and costs the flood, device by device.
//!
//! ```text
//! place × device × victim = cell
//!   cell ─┬─ lab: floodwall lab run … -- floodwall compare ─┬─▶ data/PLACE/CELL.json
//!         └─ simulator: the same settings on the same model ┘
//!   data/PLACE/CELL.json ─┬─▶ docs/frontier.md
//!                         └─▶ docs/img/frontier-DEVICE.svg
//! ```
//!
//! Resumable: a cell's file keeps its measurements, which are not repeated.

mod cells;
mod data;
mod families;
mod lab;
mod picture;
mod simulated;
mod table;

use std::path::PathBuf;

use clap::Parser;
use processes::interrupt;
use published::document::{mark_documents, replace_section};
use published::{origin, stored};

use cells::{Cell, Pace, Place};
use data::Measured;

/// Measure families of levers side by side and write docs/frontier.md.
#[derive(Parser)]
struct Args {
    /// Only cells whose name contains one of these, such as guest/hdd-7200 or wal-open.
    cells: Vec<String>,
    /// Measure nothing behind a real kernel.
    #[arg(long)]
    no_lab: bool,
    /// Simulate nothing.
    #[arg(long)]
    no_sim: bool,
    /// Measure cells that are there again.
    #[arg(long)]
    again: bool,
    /// Only print which cells are missing, and how long they take.
    #[arg(long)]
    missing: bool,
    /// Rounds of each cell.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of the measured part of each phase.
    #[arg(long, default_value_t = 10)]
    measure: u32,
    /// The binary to measure.
    #[arg(long, default_value = "target/release/floodwall")]
    floodwall: PathBuf,
    /// Where what was measured is kept.
    #[arg(long, default_value = "benches/frontier/data")]
    data: PathBuf,
    /// Where the lab's whole results are put, for `floodwall report`.
    #[arg(long, default_value = "target/frontier")]
    raw: PathBuf,
    /// The document whose sections are written anew; pictures go into img beside it.
    #[arg(long, default_value = "docs/frontier.md")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    interrupt::install()?;
    let root = origin::root()?;
    let wanted: Vec<Cell> =
        cells::all().into_iter().filter(|cell| is_wanted(cell, &args.cells)).collect();
    anyhow::ensure!(!wanted.is_empty(), "no cell is called so; --missing lists them");
    let pace = Pace { rounds: args.rounds, measure_s: args.measure };
    let ended = wanted.iter().try_for_each(|cell| measure(&args, pace, cell));
    if args.missing {
        return ended;
    }
    // The table has every cell that was measured before a signal came.
    write(&args, &root)?;
    for line in mark_documents(&root)? {
        eprintln!("{line}");
    }
    ended
}

/// Whether a cell is meant by a part of its name, or by all of it where that is another cell's
/// part.
fn is_wanted(cell: &Cell, parts: &[String]) -> bool {
    let is_name = |part: &String| cells::all().iter().any(|cell| cell.name() == *part);
    let meant = |part: &String| {
        if is_name(part) { cell.name() == *part } else { cell.name().contains(part) }
    };
    parts.is_empty() || parts.iter().any(meant)
}

/// Measures what a cell lacks.
fn measure(args: &Args, pace: Pace, cell: &Cell) -> anyhow::Result<()> {
    let path = args.data.join(cell.name() + ".json");
    let mut known: Measured = stored::read(&path)?.unwrap_or_default();
    let wants_lab = !args.no_lab && (known.lab.is_none() || args.again);
    let wants_sim = !args.no_sim && (known.sim.is_none() || args.again);
    if args.missing {
        if wants_lab {
            println!(
                "{}: {} minutes behind a real kernel",
                cell.name(),
                families::minutes(cell, pace)
            );
        }
        return Ok(());
    }
    if wants_lab && cell.place.is_here() {
        eprintln!("{}: behind a real kernel", cell.name());
        known.lab = Some(lab::measure(cell, pace, &args.floodwall, &args.raw)?);
        stored::write(&path, &known)?;
    }
    if wants_sim {
        eprintln!("{}: in the simulator", cell.name());
        known.sim = Some(simulated::measure(cell, pace, known.lab.as_ref())?);
        stored::write(&path, &known)?;
    }
    Ok(())
}

/// Writes the sections and pictures of all that is measured.
fn write(args: &Args, root: &std::path::Path) -> anyhow::Result<()> {
    for place in Place::ALL {
        let there: Vec<(Cell, Measured)> = cells::all()
            .into_iter()
            .filter(|cell| cell.place == place)
            .filter_map(|cell| {
                let read = stored::read(&args.data.join(cell.name() + ".json"));
                read.map(|data| Some((cell, data?))).transpose()
            })
            .collect::<anyhow::Result<_>>()?;
        let (section, measured_with) = table::section(&there);
        let name = format!("frontier-{}", place.name());
        replace_section(&args.out, &name, "make frontier", &section, &measured_with, root)?;
        picture::write_all(&args.out, place, &there)?;
    }
    Ok(())
}
