//! The lab's figures on this machine, and the experiment of 2010 redone on it.
//!
//! ```text
//! figures   null device: throughput and IOPS through the whole stack; lateness;
//!           idle figures of the presets
//! cost      the guard beside victims on the null device: CPU, memory, the victims' rate;
//!           interleaved
//! record    trials kept as data for the simulator → benches/lab/data
//! victims   PostgreSQL, SQLite and MariaDB beside floods, under settings and guarded → docs/lab.md
//! guest     the same trial in a guest of user-mode Linux and on this machine → docs/lab.md
//! nfs       the NFS experiment of 2016 in a guest → docs/reproductions.md
//! published the published command lines of 2007, 2010 and 2016 through floodwall compat
//!           → docs/reproductions.md
//! pace      a victim beside a copy: paced, unpaced, and copied politely in other ways
//!           → docs/pace.md
//! pace-alone  the same commands without a victim, paced and unpaced → docs/pace.md
//! usb       a copy to a removable disk beside commits on the system's disk → docs/usb.md
//! 2010      sysbench's and floodwall's commits beside dd, default and vm.dirty_bytes=15000000
//!           → docs/reproductions.md
//! ```
//!
//! All but `nfs` need root, FUSE, loop devices, fio and sysbench; `nfs` needs user-mode-linux and
//! what scripts/nfs-2016 names. It takes down everything that it brings up, and settings go through
//! the journal.

mod cost;
mod devices;
mod experiment;
mod figures;
mod guest;
mod nfs;
mod pace;
mod published_lines;
mod record;
mod rounds;
mod setting;
mod stamp;
mod table;
mod trials;
mod usb;
mod victims;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measure the lab.
#[derive(Parser)]
struct Args {
    /// The floodwall binary to measure.
    #[arg(long, default_value = "target/release/floodwall", global = true)]
    floodwall: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Throughput, IOPS, lateness, idle figures
    Figures {
        /// Rounds of each
        #[arg(long, default_value_t = 3)]
        rounds: u32,
    },
    /// What the guard costs: CPU, memory, and the rate of victims on the null device
    Cost(cost::Options),
    /// Trials for the simulator to be held against
    Record {
        /// Where they are kept; one that is there is not repeated
        #[arg(long, default_value = "benches/lab/data")]
        data: PathBuf,
        /// Measure at most this many now, the others in later runs
        #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
        cells: usize,
    },
    /// PostgreSQL, SQLite and MariaDB beside floods: default, 15 MB, guarded
    Victims(Box<victims::Options>),
    /// One trial of them in the working directory; what `victims --guest` runs
    #[command(hide = true)]
    Victim {
        #[command(flatten)]
        trial: victims::trial::Trial,
        #[command(flatten)]
        load: victims::load::Load,
    },
    /// The same trial in a guest of user-mode Linux and on this machine, interleaved
    Guest(guest::Options),
    /// The NFS experiment of 2016 in guests, beside its published figures; needs no root
    Nfs(nfs::Options),
    /// The published command lines through `floodwall compat`, beside their published figures
    Published(published_lines::Options),
    /// A victim beside a copy: paced, unpaced, and copied politely in other ways
    Pace(pace::Options),
    /// Commands that have the disk for themselves, paced and unpaced
    PaceAlone(pace::alone::Options),
    /// A copy to a removable disk beside commits on the system's disk, with and without its limit
    Usb(usb::Options),
    /// The experiment of 2010, beside its published figures
    #[command(name = "2010")]
    Experiment {
        /// Seconds of each measurement
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        /// Rounds of each
        #[arg(long, default_value_t = 3)]
        rounds: u32,
        /// Size of the database's file; published: 10 GiB
        #[arg(long, default_value_t = 8)]
        file_gib: u64,
        /// The published figures
        #[arg(long, default_value = "benches/published/measurements.toml")]
        published: PathBuf,
        /// The document whose section is written anew
        #[arg(long, default_value = "docs/reproductions.md")]
        out: PathBuf,
        /// Where the raw measurements are kept; one that is there is not repeated
        #[arg(long, default_value = experiment::DATA)]
        data: PathBuf,
        /// Measure at most this many cells now, the others in later runs
        #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
        cells: usize,
    },
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    processes::interrupt::install()?;
    let floodwall = devices::Floodwall::new(&args.floodwall)?;
    match args.command {
        Command::Figures { rounds } => figures::run(&floodwall, rounds),
        Command::Cost(options) => cost::measure(&floodwall, &options),
        Command::Guest(options) => guest::run(&floodwall, &options),
        Command::Published(options) => published_lines::run(&floodwall, &options),
        Command::Pace(options) => pace::run(&floodwall, &options),
        Command::PaceAlone(options) => pace::alone::run(&floodwall, &options),
        Command::Usb(options) => usb::run(&floodwall, &options),
        Command::Nfs(options) => nfs::run(&floodwall, &options),
        Command::Victims(options) => victims::run(&floodwall, &options),
        Command::Victim { trial, load } => victims::place::here(&floodwall, &load, trial),
        Command::Record { data, cells } => record::run(&floodwall, &data, cells),
        Command::Experiment { seconds, rounds, file_gib, published, out, data, cells } => {
            let files = experiment::Files { published: &published, out: &out, data: &data };
            experiment::run(&floodwall, table::Plan { seconds, rounds, file_gib }, &files, cells)
        }
    }
}
