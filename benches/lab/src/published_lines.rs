//! The published command lines of 2007, 2010 and 2016, run as they were published, by
//! `floodwall compat` on the lab's models of the published devices.
//!
//! ```text
//! cell × round: fresh device ─▶ floodwall compat [--flood-cmd …] TOOL … ─▶ DATA/CELL-ROUND.json
//! all that is in DATA, published figures ─▶ a row a figure ─▶ docs/reproductions.md
//! ```
//!
//! A measurement that is there is not repeated, so that an interrupted run goes on where it was.

mod cells;
mod measured;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use published::origin::Origin;
use published::{Experiment, stored};

use crate::devices::Floodwall;
use crate::stamp::Stamp;
use crate::trials;

use self::cells::{Cell, Year};
use self::measured::Measured;

/// What the figures depend on besides the machine.
const INPUTS: [&str; 4] = ["lab", "device-presets", "published-figures", "classic-tools"];
/// The measurements behind the table of docs/reproductions.md.
const DATA: &str = "benches/lab/published";
/// Of the section.
const NAME: &str = "lab-published";
const COMMAND: &str = "make published";

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only what was published in this year
    year: Option<Year>,
    /// Rounds of each
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Measure at most so many now, the others in later runs
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    cells: usize,
    /// The published figures
    #[arg(long, default_value = "benches/published/measurements.toml")]
    published: PathBuf,
    /// Where what was measured is kept; what is there is not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/reproductions.md")]
    out: PathBuf,
}

/// Measures what is missing, and writes the table of all that is stored.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    let wanted = Cell::all().filter(|cell| options.year.is_none_or(|year| year == cell.year()));
    let wanted: Vec<Cell> = wanted.collect();
    let rounds = (1..=options.rounds).flat_map(|round| wanted.iter().map(move |c| (round, c)));
    let path = |round: u32, cell: &Cell| options.data.join(format!("{}-{round}.json", cell.name()));
    let missing: Vec<_> = rounds.filter(|(round, cell)| !path(*round, cell).exists()).collect();
    for (round, cell) in missing.iter().take(options.cells) {
        eprintln!("{}, round {round}", cell.name());
        let mut stamp = Stamp::now(*round, &INPUTS)?;
        let found = cell.measure(floodwall)?;
        stamp.kept_up = found.kept_up;
        let measured =
            Measured { cell: cell.name(), stamp, commands: found.commands, figures: found.figures };
        stored::write_pretty(&path(*round, cell), &measured)?;
    }
    trials::publish(section(&options.data, &options.published)?, Some(&options.out), NAME, COMMAND)
}

/// The table of all that is stored, and what that was measured with.
fn section(data: &Path, published: &Path) -> anyhow::Result<(String, Origin)> {
    let all: Vec<Measured> = stored::read_all(data)?.into_values().collect();
    let origins: Vec<Origin> = all.iter().map(|one| one.stamp.origin.clone()).collect();
    let of = |name: &str| Experiment::read(published, name);
    let text = table::section(
        &all,
        &table::Published {
            y2007: of("raid1_3ware_2007")?,
            y2010: of("adaptec_raid10_2010")?,
            y2016: of("nfs_gige_2016")?,
        },
    )?;
    Ok((text, Origin::of_parts(&origins)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_table_follows_from_what_is_stored() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join("docs/reproductions.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == NAME).unwrap();
        let published = root.join("benches/published/measurements.toml");
        let (section, origin) = section(&root.join(DATA), &published).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }
}
