//! Medians, ratios and the table, from stored runs.

use std::fmt::Write;

use floodwall_stats::estimate::median;

use crate::compare::{Ratio, Round, Verdict, decided, ratio};
use crate::stored::Stored;
use crate::tools::{Measured, Tool};

type Figure = fn(&Measured) -> Option<f64>;

fn cpu_per_million(m: &Measured) -> Option<f64> {
    (m.ops > 0.0).then_some(m.cost.cpu_us as f64 / m.ops)
}

fn per_cpu_second(m: &Measured) -> Option<f64> {
    (m.cost.cpu_us > 0).then_some(m.ops / m.cost.cpu_us as f64)
}

fn interval(ratio: Option<Ratio>) -> String {
    ratio.map_or("-".into(), |r| format!("{:.3} ({:.3} to {:.3})", r.value, r.low, r.high))
}

/// The comparison for people.
pub(crate) fn table(stored: &Stored) -> String {
    let rounds: &[Round] = &stored.rounds;
    let mut out = format!(
        "\n{}: {}, {} rounds of {} s\n",
        stored.place,
        stored.workload,
        rounds.len(),
        stored.seconds
    );
    let _ = writeln!(
        out,
        "{:<11} {:>10} {:>14} {:>12} {:>22} {:>9}",
        "medians", "IOPS", "commit p99 µs", "sync p99 µs", "CPU s per million ops", "peak MiB"
    );
    let columns: [(usize, usize, Figure); 5] = [
        (10, 0, |m| Some(m.iops)),
        (14, 1, |m| m.commit_p99_us),
        (12, 1, |m| m.sync_p99_us),
        (22, 2, cpu_per_million),
        (9, 0, |m| Some(m.cost.peak_kib as f64 / 1024.0)),
    ];
    for tool in Tool::ALL.map(Tool::name) {
        let _ = write!(out, "{tool:<11}");
        for (width, digits, figure) in columns {
            let values: Vec<f64> = rounds.iter().filter_map(|r| figure(r.get(tool)?)).collect();
            let cell = median(values).map_or("-".into(), |m| format!("{m:.digits$}"));
            let _ = write!(out, " {cell:>width$}");
        }
        out.push('\n');
    }
    let ratios: [(Tool, &str, Figure); 6] = [
        (Tool::Fio, "IOPS", |m| Some(m.iops)),
        (Tool::Fio, "sync p99", |m| m.sync_p99_us),
        (Tool::Fio, "operations per CPU second", per_cpu_second),
        (Tool::Sysbench, "IOPS", |m| Some(m.iops)),
        (Tool::Sysbench, "commit p99", |m| m.commit_p99_us),
        (Tool::Sysbench, "operations per CPU second", per_cpu_second),
    ];
    for (peer, what, figure) in ratios {
        let r = ratio(rounds, peer.name(), figure);
        let said = match r.map(|r| r.verdict()) {
            Some(Verdict::Agrees) => ": the same within 5 %",
            Some(Verdict::Differs) => ": they differ by more than 5 %",
            Some(Verdict::Undecided) => ": could not be told within 5 %",
            None => "",
        };
        let _ = writeln!(out, "floodwall / {:<9} {what:<25} {}{said}", peer.name(), interval(r));
    }
    if !decided(rounds) {
        let _ =
            writeln!(out, "the last round was reached before the ratio of IOPS was known to 5 %");
    }
    out
}

/// The section of the document.
pub(crate) fn section(stored: &[Stored]) -> String {
    let mut out = String::new();
    if let Some(first) = stored.first() {
        let unknown = || "unknown".to_owned();
        let m = &first.machine;
        let _ = writeln!(
            out,
            "Kernel {}, {} CPUs, {}, {}; the disk is {}.\n",
            m.kernel.clone().unwrap_or_else(unknown),
            m.cpus,
            m.fio.clone().unwrap_or_else(unknown),
            m.sysbench.clone().unwrap_or_else(unknown),
            first.device
        );
    }
    let tables: Vec<String> = stored.iter().map(table).collect();
    let _ = writeln!(out, "```\n{}```", tables.concat().trim_start());
    out
}
