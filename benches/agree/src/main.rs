//! The same commit workload by floodwall, fio and sysbench on the same directory, interleaved, so that a noisy machine disturbs all three alike.
//!
//! ```text
//! for each directory (disk, tmpfs) × workload:   round 1: F f s   round 2: f s F   round 3: s F f  …
//! ```
//!
//! Printed: medians over the rounds of IOPS, p99 and CPU seconds per million operations, as ratios to each peer within the same round.
//! CPU time is that of the whole process (user + system, threads and children), so that recording latencies is paid for.
//!
//! Interrupted, it stops the tool that runs and removes every file.

mod cost;
mod run;
mod scratch;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::Parser;

use crate::scratch::Scratch;
use crate::tools::{Tool, Workload};

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
    /// Rounds; in each, every tool runs once.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Seconds that each tool measures in each round.
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    /// Write every single run as JSON.
    #[arg(long)]
    raw: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == cost::OPTION) {
        return cost::run(&words.collect::<Vec<_>>());
    }
    let args = Args::parse();
    let stop = scratch::stop_flag()?;
    let floodwall = args
        .floodwall
        .canonicalize()
        .with_context(|| format!("no floodwall at '{}'", args.floodwall.display()))?;
    let mut raw = Vec::new();
    let workloads = [
        ("disk", &args.disk, Workload { threads: 1, block: 4096 }),
        ("disk", &args.disk, Workload { threads: 4, block: 16384 }),
        ("tmpfs", &args.tmpfs, Workload { threads: 1, block: 4096 }),
    ];
    for (place, dir, workload) in workloads {
        let scratch = Scratch::make(dir)?;
        let rounds = compare(&floodwall, scratch.path(), workload, &args, &stop)?;
        drop(scratch);
        print!("{}", run::table(place, workload, &rounds));
        raw.push(run::raw(place, workload, &rounds));
    }
    print!("{}", run::small_figures(&floodwall, &args.tmpfs, &stop)?);
    if let Some(path) = &args.raw {
        std::fs::write(path, serde_json::to_string_pretty(&raw)?)
            .with_context(|| format!("can't write '{}'", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all tools in every round, each round beginning with another.
fn compare(
    floodwall: &std::path::Path,
    dir: &std::path::Path,
    workload: Workload,
    args: &Args,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<run::Round>> {
    tools::prepare(dir, workload, stop)?;
    let mut all = Vec::new();
    for round in 0..args.rounds as usize {
        let mut results = run::Round::default();
        for i in 0..Tool::ALL.len() {
            let tool = Tool::ALL[(i + round) % Tool::ALL.len()];
            eprintln!("{} {}: round {} of {}", tool.name(), workload, round + 1, args.rounds);
            let measured = tools::measure(tool, floodwall, dir, workload, args.seconds, stop)?;
            results.insert(tool.name(), measured);
        }
        all.push(results);
    }
    Ok(all)
}
