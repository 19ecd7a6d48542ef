//! Start to first operation, and memory of a run with many threads.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use floodwall_stats::estimate::median;
use serde_json::Value;

use crate::tools;

pub(crate) fn figures(floodwall: &Path, tmpfs: &Path, stop: &AtomicBool) -> anyhow::Result<String> {
    let mut starts = Vec::new();
    for _ in 0..11 {
        let json = bench(floodwall, tmpfs, "commit,size=1MiB", "1s", stop)?.0;
        starts.push(
            json.pointer("/first_operation_ms")
                .and_then(Value::as_f64)
                .context("first_operation_ms")?,
        );
    }
    let (_, peak_kib) =
        bench(floodwall, tmpfs, "commit,threads=64,block=4KiB,size=16MiB", "20s", stop)?;
    let least = starts.iter().copied().fold(f64::INFINITY, f64::min);
    let most = starts.iter().copied().fold(0.0, f64::max);
    let start = median(starts).context("no starts")?;
    Ok(format!(
        "\nstart to first operation {start:.1} ms ({least:.1} to {most:.1}, 11 runs)\n\
         peak memory with 64 threads {} MiB\n",
        peak_kib / 1024
    ))
}

fn bench(
    floodwall: &Path,
    dir: &Path,
    victim: &str,
    measure: &str,
    stop: &AtomicBool,
) -> anyhow::Result<(Value, u64)> {
    let mut command = Command::new(floodwall);
    command.args([
        "bench",
        "--force",
        "--json",
        "--progress",
        "never",
        "--rounds",
        "1",
        "--no-burst",
    ]);
    command.args(["--flood", "none", "--victim", victim, "--measure", measure]).arg(dir);
    let output = tools::run(&command, stop)?;
    Ok((serde_json::from_str(&output.stdout).context("floodwall's JSON")?, output.cost.peak_kib))
}
