//! Medians, ratios and the table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use serde_json::{Value, json};

use crate::tools::{self, Measured, Workload};

/// One round: every tool once.
pub(crate) type Round = BTreeMap<&'static str, Measured>;

/// The median of some numbers, and the smallest and largest; `None` of none.
fn median(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let value =
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
    Some((value, low, high))
}

fn of<'a>(rounds: &'a [Round], tool: &str, f: impl Fn(&Measured) -> Option<f64> + 'a) -> Vec<f64> {
    rounds.iter().filter_map(|r| r.get(tool).and_then(&f)).collect()
}

/// floodwall's figure over a peer's, both medians over the rounds; beside it the range of the ratio within single rounds.
fn ratio(rounds: &[Round], peer: &str, f: impl Fn(&Measured) -> Option<f64> + Copy) -> String {
    let pairs = rounds.iter().filter_map(|r| Some(f(r.get("floodwall")?)? / f(r.get(peer)?)?)).collect();
    let (Some(ours), Some(theirs), Some((_, low, high))) =
        (median(of(rounds, "floodwall", f)), median(of(rounds, peer, f)), median(pairs))
    else {
        return "-".into();
    };
    let ratio = ours.0 / theirs.0;
    // A peer that rounds its figure to zero (sysbench's percentile on tmpfs) can't be compared with.
    if ratio.is_finite() { format!("{ratio:.3} ({low:.2} to {high:.2})") } else { "-".into() }
}

fn cpu_per_million(m: &Measured) -> Option<f64> {
    (m.ops > 0.0).then_some(m.cost.cpu_us as f64 / m.ops)
}

/// The comparison for people.
pub(crate) fn table(place: &str, workload: Workload, rounds: &[Round]) -> String {
    let mut out = format!("\n{place}: {workload}, {} rounds, medians\n", rounds.len());
    let _ = writeln!(
        out,
        "{:<11} {:>10} {:>14} {:>12} {:>22} {:>9}",
        "", "IOPS", "commit p99 µs", "sync p99 µs", "CPU s per million ops", "peak MiB"
    );
    let show =
        |values: Vec<f64>, digits: usize| median(values).map_or("-".into(), |m| format!("{:.digits$}", m.0));
    for tool in ["floodwall", "fio", "sysbench"] {
        let _ = writeln!(
            out,
            "{tool:<11} {:>10} {:>14} {:>12} {:>22} {:>9}",
            show(of(rounds, tool, |m| Some(m.iops)), 0),
            show(of(rounds, tool, |m| m.commit_p99_us), 1),
            show(of(rounds, tool, |m| m.sync_p99_us), 1),
            show(of(rounds, tool, cpu_per_million), 2),
            show(of(rounds, tool, |m| Some(m.cost.peak_kib as f64 / 1024.0)), 0),
        );
    }
    let _ = writeln!(
        out,
        "floodwall / fio       IOPS {}   sync p99 {}",
        ratio(rounds, "fio", |m| Some(m.iops)),
        ratio(rounds, "fio", |m| m.sync_p99_us)
    );
    let _ = writeln!(
        out,
        "floodwall / sysbench  IOPS {}   commit p99 {}",
        ratio(rounds, "sysbench", |m| Some(m.iops)),
        ratio(rounds, "sysbench", |m| m.commit_p99_us)
    );
    let per_cpu = |m: &Measured| (m.cost.cpu_us > 0).then_some(m.ops / m.cost.cpu_us as f64);
    let _ = writeln!(
        out,
        "operations per CPU second, floodwall / fio {}, floodwall / sysbench {}",
        ratio(rounds, "fio", per_cpu),
        ratio(rounds, "sysbench", per_cpu)
    );
    out
}

/// Every run, for keeping.
pub(crate) fn raw(place: &str, workload: Workload, rounds: &[Round]) -> Value {
    let one = |m: &Measured| {
        json!({ "iops": m.iops, "commit_p99_us": m.commit_p99_us, "sync_p99_us": m.sync_p99_us,
                "cpu_us": m.cost.cpu_us, "ops": m.ops, "peak_kib": m.cost.peak_kib })
    };
    let rounds: Vec<Value> =
        rounds.iter().map(|r| r.iter().map(|(tool, m)| ((*tool).to_owned(), one(m))).collect()).collect();
    json!({ "place": place, "workload": workload.to_string(), "rounds": rounds })
}

/// Start to first operation, and memory of a run with many threads.
pub(crate) fn small_figures(floodwall: &Path, tmpfs: &Path, stop: &AtomicBool) -> anyhow::Result<String> {
    let mut starts = Vec::new();
    for _ in 0..11 {
        let json = bench(floodwall, tmpfs, "commit,size=1MiB", "1s", stop)?.0;
        starts
            .push(json.pointer("/first_operation_ms").and_then(Value::as_f64).context("first_operation_ms")?);
    }
    let (_, peak_kib) = bench(floodwall, tmpfs, "commit,threads=64,block=4KiB,size=16MiB", "20s", stop)?;
    let (start, low, high) = median(starts).context("no starts")?;
    Ok(format!(
        "\nstart to first operation {start:.1} ms ({low:.1} to {high:.1}, 11 runs)\npeak memory with 64 threads {} MiB\n",
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
    command.args(["bench", "--force", "--json", "--progress", "never", "--rounds", "1", "--no-burst"]);
    command.args(["--flood", "none", "--victim", victim, "--measure", measure]).arg(dir);
    let output = tools::run(&command, stop)?;
    Ok((serde_json::from_str(&output.stdout).context("floodwall's JSON")?, output.cost.peak_kib))
}
