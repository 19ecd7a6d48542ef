//! The same commit workload by floodwall, fio and sysbench on the same directory, interleaved, so
//! that a noisy machine disturbs all three alike.
//!
//! ```text
//! for each workload:   round 1: F f s   round 2: f s F   round 3: s F f  …
//!                      until decided, or the last round
//! one run:             lay the file out → warm up → measure
//! ```
//!
//! Printed: medians over the rounds, and for each ratio to a peer the mean over the rounds with its
//! 95 % interval. Rounds end once every interval of the operations' ratio is inside ± 5 % or
//! outside of it as a whole. CPU time is that of the whole process (user + system, threads and
//! children), so that recording latencies is paid for.
//!
//! Interrupted, it stops the tool that runs and removes every file.

mod compare;
mod cost;
mod scratch;
mod small;
mod stored;
mod table;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use published::origin::Origin;

use crate::compare::Limits;
use crate::stored::Stored;
use crate::tools::Workload;

/// Compare floodwall's commit victim with fio's psync engine and sysbench fileio.
#[derive(Parser)]
struct Args {
    /// The floodwall binary to measure.
    #[arg(long, default_value = "target/release/floodwall")]
    floodwall: PathBuf,
    /// A directory on a disk.
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// A directory on tmpfs: no device, so the engine itself is the limit.
    #[arg(long, default_value = "/dev/shm")]
    tmpfs: PathBuf,
    /// Only the workload of this name; may be repeated. All of them if absent.
    #[arg(long, value_name = "NAME", value_parser = WORKLOADS.map(|(name, ..)| name))]
    only: Vec<String>,
    /// The most rounds; in each, every tool runs once.
    #[arg(long, default_value_t = 12)]
    rounds: u32,
    /// Seconds that each tool measures in each round.
    #[arg(long, default_value_t = 6)]
    seconds: u32,
    /// Keep every run in this directory, a JSON file for each workload.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// What the disk is, for the stored runs.
    #[arg(long, value_name = "TEXT", default_value = "unknown")]
    device: String,
    /// Measure nothing: write the section of this document from the runs in --data.
    #[arg(long, value_name = "FILE.md", requires = "data")]
    document: Option<PathBuf>,
}

/// The workloads: name, medium (`disk` or `tmpfs`), threads and block size.
const WORKLOADS: [(&str, &str, Workload); 3] = [
    ("disk-1x4KiB", "disk", Workload { threads: 1, block_bytes: 4096 }),
    ("disk-4x16KiB", "disk", Workload { threads: 4, block_bytes: 16384 }),
    ("tmpfs-1x4KiB", "tmpfs", Workload { threads: 1, block_bytes: 4096 }),
];

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == cost::OPTION) {
        return cost::run(&words.collect::<Vec<_>>());
    }
    let args = Args::parse();
    match (&args.document, &args.data) {
        (Some(document), Some(data)) => write_document(document, data)?,
        _ => measure(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> anyhow::Result<()> {
    let stop = processes::interrupt::install()?;
    let floodwall = args
        .floodwall
        .canonicalize()
        .with_context(|| format!("no floodwall at '{}'", args.floodwall.display()))?;
    let limits = Limits { rounds: args.rounds, seconds: args.seconds };
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    for (name, place, workload) in WORKLOADS.into_iter().filter(|(name, ..)| wanted(name)) {
        let (dir, device) = if place == "disk" {
            (&args.disk, args.device.as_str())
        } else {
            (&args.tmpfs, "none")
        };
        let scratch = scratch::Scratch::make(dir)?;
        let rounds = compare::rounds(&floodwall, scratch.path(), workload, limits, &stop)?;
        drop(scratch);
        let stored = Stored::new(place, device, workload, args.seconds, rounds);
        print!("{}", table::table(&stored));
        if let Some(data) = &args.data {
            published::stored::write_pretty(&data.join(format!("{name}.json")), &stored)?;
        }
    }
    if args.only.is_empty() {
        print!("{}", small::figures(&floodwall, &args.tmpfs, &stop)?);
    }
    Ok(())
}

/// Every stored workload.
fn stored(data: &Path) -> anyhow::Result<Vec<Stored>> {
    let read = |name: &str| {
        let path = data.join(format!("{name}.json"));
        published::stored::read(&path)?.with_context(|| format!("there is no '{}'", path.display()))
    };
    WORKLOADS.iter().map(|(name, ..)| read(name)).collect()
}

fn write_document(document: &Path, data: &Path) -> anyhow::Result<()> {
    let command = "target/release/agree --data benches/agree/data --document docs/agreement.md";
    let stored = stored(data)?;
    let origin = Origin::of_parts(stored.iter().map(|stored| &stored.origin));
    let (section, root) = (table::section(&stored), Path::new(stored::ROOT));
    published::document::replace_section(document, "agreement", command, &section, &origin, root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_follows_from_the_stored_runs() {
        let root = Path::new(stored::ROOT);
        let section = table::section(&stored(&root.join("benches/agree/data")).unwrap());
        let document = std::fs::read_to_string(root.join("docs/agreement.md")).unwrap();
        assert!(document.contains(&section), "target/release/agree --document writes:\n{section}");
    }
}
