//! Which cells, and where the figures go.

use std::path::PathBuf;

use super::stored::seed;

/// The arguments.
#[derive(clap::Args)]
pub(crate) struct GuardArgs {
    /// Only cells whose name contains one of these
    pub(super) cells: Vec<String>,
    /// Cells at the same time; all cores if not given
    #[arg(long)]
    pub(super) jobs: Option<usize>,
    /// Only a part
    #[arg(long, value_enum)]
    pub(super) only: Option<Only>,
    /// Seed of the drawn devices, in hexadecimal; the first 8 digits of the commit that last
    /// changed the law if not given
    #[arg(long, value_name = "HEX", value_parser = seed)]
    pub(super) seed: Option<u32>,
    /// Draws of six devices, each with the seed after the last one's; as many as are stored if not
    /// given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) draws: Option<u32>,
    /// Run cells again, although they are there
    #[arg(long)]
    pub(super) again: bool,
    /// Days of random conditions
    #[arg(long, default_value_t = 30)]
    pub(super) days: u64,
    /// Begin with this day, and leave out the other conditions: a month in pieces
    #[arg(long, default_value_t = 0)]
    pub(super) first_day: u64,
    /// Where what was measured is kept
    #[arg(long, default_value = "benches/league/data/guard")]
    pub(super) data: PathBuf,
    /// Where the league's cells are kept
    #[arg(long, default_value = "benches/league/data")]
    pub(super) league: PathBuf,
    /// The document whose sections are written anew
    #[arg(long, default_value = "docs/league.md")]
    pub(super) out: PathBuf,
    /// The document with the table of all presets
    #[arg(long, default_value = "docs/guard.md")]
    pub(super) presets_out: PathBuf,
    /// Only measure and print; what was measured is kept
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print every decision of the guard in the cells that are run, on their first machine
    #[arg(long)]
    pub(super) log: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Only {
    /// The league's cells
    Cells,
    /// The league's cells with victims that ask for a third of their rate alone
    Open,
    /// The same victims on devices drawn at random
    Drawn,
    /// Ten committing threads on every preset, without a search for the best fixed setting where
    /// there is no grid
    Presets,
    /// Floods in a separate control group, and victims at a third of their rate
    Paced,
    /// Moving conditions
    Conditions,
}
