//! The experiment's table, beside the published figures.

use std::fmt::Write;

use published::Experiment;
use serde::{Deserialize, Serialize};

/// The device.
pub(crate) const PRESET: &str = "raid10-bbwc-2010";

/// How long and how often.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize)]
pub(crate) struct Plan {
    pub(crate) seconds: u32,
    pub(crate) rounds: u32,
    pub(crate) file_gib: u64,
}

/// One victim under one setting. Rates are commits a second, round by round.
pub(crate) struct Row {
    pub(crate) setting: &'static str,
    pub(crate) threads: u32,
    pub(crate) block_kib: u32,
    pub(crate) idle: Vec<f64>,
    pub(crate) beside: Vec<f64>,
    pub(crate) p99: String,
    pub(crate) dead: String,
    pub(crate) sequential_mb_s: f64,
    pub(crate) kept_up: String,
}

/// sysbench's own word: commits a second idle and beside dd, round by round.
pub(crate) struct Sysbench {
    pub(crate) setting: &'static str,
    pub(crate) idle: Vec<f64>,
    pub(crate) beside: Vec<f64>,
}

/// The table.
pub(crate) fn section(
    plan: Plan,
    rows: &[Row],
    sysbench: &[Sysbench],
    published: &Experiment,
) -> String {
    let shown = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.0}"));
    let mut out = format!(
        "Preset `{PRESET}` behind the real kernel, xfs, {} s a phase, {} rounds; the file has {} \
         GiB (published: 10). Rates are commits a second: the mean, and in brackets each round's. \
         \"15 MB\" is `vm.dirty_bytes` = 15,000,000: the kernel begins to write at half of it. \
         Latencies are in ms. *Dead* are seconds with under a tenth of the idle rate.\n\n",
        plan.seconds, plan.rounds, plan.file_gib
    );
    out.push_str(
        "| victim | setting | idle IOPS, published | lab | beside dd, published | lab | \
        p99 beside | dead | dd alone MB/s | lateness p99 |\n\
        |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let key = |setting: &str| {
        if setting == "default" { "flood_default_iops" } else { "flood_dirty_bytes_15MB_iops" }
    };
    for row in rows {
        let _ = writeln!(
            out,
            "| {} × {} KiB | {} | {} | {} | {} | {} | {} | {} | {:.0} | {} |",
            row.threads,
            row.block_kib,
            row.setting,
            shown(published.of_victim(row.threads, row.block_kib, "idle_iops")),
            rounds(&row.idle),
            shown(published.of_victim(row.threads, row.block_kib, key(row.setting))),
            rounds(&row.beside),
            row.p99,
            row.dead,
            row.sequential_mb_s,
            row.kept_up,
        );
    }
    for Sysbench { setting: name, idle, beside } in sysbench {
        let _ = writeln!(
            out,
            "| 10 × 16 KiB, sysbench | {name} | {} | {} | {} | {} | | | | |",
            shown(published.of_victim(10, 16, "idle_iops")),
            rounds(idle),
            shown(published.of_victim(10, 16, key(name))),
            rounds(beside),
        );
    }
    let rate = |key: &str| shown(published.number(&format!("sequential.{key}")).ok());
    let _ = writeln!(
        out,
        "\nPublished sequential rates: {} MB/s under the default setting, {} MB/s under 15 MB.",
        rate("default_mb_s"),
        rate("dirty_bytes_15MB_mb_s")
    );
    out
}

/// The mean over the rounds, which last equally long, and each of them: `592 (388, 408, 981)`.
fn rounds(rates: &[f64]) -> String {
    let each: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    match each.as_slice() {
        [] => "–".into(),
        [one] => one.clone(),
        _ => format!("{:.0} ({})", rates.iter().sum::<f64>() / rates.len() as f64, each.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_shows_the_rounds_behind_it() {
        assert_eq!(rounds(&[388.2, 408.0, 980.8]), "592 (388, 408, 981)");
        assert_eq!(rounds(&[41.0]), "41");
        assert_eq!(rounds(&[]), "–");
    }
}
