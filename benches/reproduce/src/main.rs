//! The simulator held against reality: published experiments and trials recorded on the lab, run
//! again in virtual time.
//!
//! ```text
//! benches/published/measurements.toml ─┐
//! benches/lab/data/*.json ─────────────┼─▶ the same machine, kernel, victim and flood
//! presets of `device` ─────────────────┘   in the simulator ─▶ tables in docs/reproductions.md
//! ```
//!
//! Device models are fitted on idle, single-stream figures only. Wrong figures stay in the table.

mod cells;
mod lab;
mod speed;
mod table;
mod y2007;
mod y2009;
mod y2010;
mod y2016;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use published::document::{mark_documents, replace_section};
use published::origin::{self, Origin};

/// Run published experiments in the simulator and write the tables.
#[derive(Parser)]
struct Args {
    /// Which; all if none is named
    what: Vec<What>,
    /// The published figures
    #[arg(long, default_value = "benches/published/measurements.toml")]
    published: PathBuf,
    /// The trials recorded on the lab
    #[arg(long, default_value = "benches/lab/data")]
    lab: PathBuf,
    /// The document whose sections are written anew
    #[arg(long, default_value = "docs/reproductions.md")]
    out: PathBuf,
    /// Only print
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    #[value(name = "2010")]
    Y2010,
    #[value(name = "2007")]
    Y2007,
    #[value(name = "2016")]
    Y2016,
    #[value(name = "2009")]
    Y2009,
    Lab,
    /// How fast the simulator is; printed only
    Speed,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let root = origin::root()?;
    let all = [What::Y2010, What::Y2007, What::Y2016, What::Y2009, What::Lab];
    let wanted = if args.what.is_empty() { &all[..] } else { &args.what };
    for what in wanted {
        let begin = Instant::now();
        let (name, source, section) = match what {
            What::Y2010 => ("sim-2010", "published-figures", y2010::section(&args.published)?),
            What::Y2007 => ("sim-2007", "published-figures", y2007::section(&args.published)?),
            What::Y2016 => ("sim-2016", "published-figures", y2016::section(&args.published)?),
            What::Y2009 => ("sim-2009", "published-figures", y2009::section(&args.published)?),
            What::Speed => {
                println!("{}", speed::section()?);
                continue;
            }
            What::Lab => ("sim-lab", "lab-trials", lab::section(&args.lab)?),
        };
        println!("{section}");
        eprintln!("{name}: {:.1} s", begin.elapsed().as_secs_f64());
        if !args.dry_run {
            let origin = Origin::now(&root, &["simulator", "device-presets", source])?;
            replace_section(&args.out, name, "make reproduce", &section, &origin, &root)?;
        }
    }
    if args.dry_run {
        return Ok(());
    }
    for line in mark_documents(&root)? {
        eprintln!("{line}");
    }
    Ok(())
}
