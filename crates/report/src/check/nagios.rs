//! A check as one line for Nagios and what reads its plugins' output (Icinga, Naemon, checkmk),
//! with performance data, and the exit statuses of plugins.
//!
//! The form is that of the Monitoring Plugins Development Guidelines: `TEXT | 'label'=value[unit];
//! [warn];[crit];[min]`, a value that could not be determined is `U`.

use floodwall_stats::quantiles::{Percentiles, Tail};

use super::{Beside, Check, Fitness, verdict};
use crate::numbers::duration_us;

/// The exit status of a plugin that could not check.
pub const UNKNOWN: u8 = 3;

/// The line, without a line end, and the plugin's exit status. A disk that is good enough only
/// alone is a warning.
#[must_use]
pub fn nagios(check: &Check) -> (String, u8) {
    let (state, status) = match verdict(check).fitness {
        Fitness::Fit => ("OK", 0),
        Fitness::SlowBesideFlood => ("WARNING", 1),
        Fitness::Slow => ("CRITICAL", 2),
        Fitness::Inconclusive => ("UNKNOWN", UNKNOWN),
    };
    let goal = &check.goal;
    let limit = duration_us(goal.limit.as_secs_f64() * 1e6);
    let figures: Vec<String> = runs(check)
        .map(|(beside, latencies)| {
            let figure = Tail::of(latencies).map_or_else(
                || "nothing".to_owned(),
                |tail| format!("{} {}", tail.kind.name(), duration_us(tail.us)),
            );
            format!("{figure} {}", beside.name())
        })
        .collect();
    let data: Vec<String> = runs(check).map(|run| performance(check, run)).collect();
    let line = format!(
        "{} {state} - {}: {}; limit of p99 {limit} | {}",
        goal.program.to_uppercase(),
        goal.operation(),
        figures.join(", "),
        data.join(" ")
    );
    (line, status)
}

/// A line about a check that failed.
#[must_use]
pub fn nagios_failed(program: &str, why: &str) -> String {
    // A bar begins performance data.
    format!("{} UNKNOWN - {}", program.to_uppercase(), why.replace('|', "/"))
}

/// The runs that measured, with the times that count.
fn runs(check: &Check) -> impl Iterator<Item = (Beside, &floodwall_model::LatencyCounts)> {
    check
        .runs
        .iter()
        .filter_map(|run| Some((run.beside, check.goal.counted(run.measured.as_ref().ok()?))))
}

/// A run's p99 and slowest, in seconds. Alone the limit is critical, beside a flood a warning.
fn performance(
    check: &Check,
    (beside, latencies): (Beside, &floodwall_model::LatencyCounts),
) -> String {
    let limit = check.goal.limit.as_secs_f64();
    let limits = match beside {
        Beside::Nothing => format!(";{limit}"),
        Beside::Flood => format!("{limit};"),
        Beside::GuardedFlood => ";".to_owned(),
    };
    let seconds =
        |us: Option<f64>| us.map_or_else(|| "U".to_owned(), |us| format!("{:.6}s", us / 1e6));
    let percentiles = Percentiles::of(latencies);
    format!(
        "{key}_p99={};{limits};0 {key}_slowest={};;;0",
        seconds(percentiles.and_then(|p| p.p99)),
        seconds(percentiles.map(|p| p.max)),
        key = beside.key(),
    )
}
