//! The live line: what the last second of a running trial was like.
//!
//! ```text
//!  elapsed  phase       ops/s       flood       p50       p99       max      dirty     drain
//!       12  both           14    216 MB/s   5.12 ms    1.17 s    3.20 s    1.4 GiB    6.52 s
//! ```
//!
//! Columns are fixed, one line a second, like CockroachDB's `debug synctest`. A stall is a visible
//! row of zeros, and the maximum is that of its second. `–` stands for an unknown value or one that
//! does not apply.

use std::time::Duration;

use floodwall_model::runner::Second;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Interval, LatencyCounts, PhaseKind, Rate};
use floodwall_stats::quantiles::percentile_ns;

use crate::numbers::{UNKNOWN, count};

/// The step in which results are measured; every other step is named in the line.
const MEASURING: &str = "measuring";

/// The line above the columns.
#[must_use]
pub fn header() -> String {
    columns(
        ["elapsed", "phase", "ops/s", "flood", "p50", "p99", "max", "dirty", "drain"]
            .map(String::from),
    )
}

/// One second: its time, its phase and step (`measuring`, `warming up`, …), and its measurements.
///
/// Percentiles are of that second's commits and reads; p50 takes 2 of them, p99 takes 100. `drain`
/// is the time to drain the dirty and writeback bytes of now at the drain rate seen.
#[must_use]
pub fn line(second: &Second<'_>, phase: PhaseKind, step: &str, interval: &Interval) -> String {
    let latencies = interval.latencies.operations();
    let per_second = |amount: f64| amount / interval.seconds.max(1e-9);
    let ops: f64 = interval.victim_ops.iter().copied().map(f64::from).sum();
    let host = &interval.host;
    let waiting = host
        .dirty_bytes
        .zip(host.writeback_bytes)
        .map(|(dirty, writeback)| Bytes(dirty + writeback));
    let drain =
        waiting.zip(second.drain_bytes_per_s).and_then(|(bytes, rate)| Rate(rate).time_for(bytes));
    columns([
        format!("{:.0}", second.elapsed_s),
        if step == MEASURING { phase.name().into() } else { format!("{}, {step}", phase.name()) },
        known(phase.has_victim().then(|| count(per_second(ops)))),
        known(phase.has_flood().then(|| Rate(per_second(interval.flood_bytes as f64)).to_string())),
        latency(percentile_ns(&latencies, 50.0)),
        latency(percentile_ns(&latencies, 99.0)),
        latency(maximum(&latencies)),
        known(host.dirty_bytes.map(|b| Bytes(b).to_string())),
        known(drain.map(human_duration)),
    ])
}

fn columns([elapsed, phase, ops, flood, p50, p99, max, dirty, drain]: [String; 9]) -> String {
    format!(
        "{elapsed:>7}  {phase:<18} {ops:>9} {flood:>10} {p50:>9} {p99:>9} {max:>9} {dirty:>10} \
         {drain:>9}"
    )
}

fn maximum(latencies: &LatencyCounts) -> Option<u64> {
    (!latencies.is_empty()).then(|| latencies.max_ns())
}

fn latency(ns: Option<u64>) -> String {
    known(ns.map(|ns| human_duration(Duration::from_nanos(ns))))
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.into())
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::HostSample;

    use super::*;
    use crate::synthetic::Made;

    fn at(elapsed_s: f64, drain_bytes_per_s: Option<f64>) -> Second<'static> {
        Second { elapsed_s, done: None, interval: None, drain_bytes_per_s }
    }

    #[test]
    fn lines_stand_under_their_header() {
        let trial = &Made::damage().trials()[0];
        let second = |phase: usize, i: usize| &trial.phases[phase].intervals[i];
        let blind = Interval { host: HostSample::default(), ..second(2, 0).clone() };
        let lines = [
            header(),
            line(&at(7.0, None), PhaseKind::Victim, "measuring", second(0, 3)),
            line(&at(40.4, Some(230e6)), PhaseKind::Both, "warming up", second(2, 3)),
            line(&at(41.4, Some(230e6)), PhaseKind::Both, "measuring", second(2, 4)),
            line(&at(3_641.4, Some(0.0)), PhaseKind::Flood, "measuring", second(1, 4)),
            line(&at(3_642.4, None), PhaseKind::Both, "measuring", &blind),
        ];
        insta::assert_snapshot!(lines.join("\n"), @"
elapsed  phase                  ops/s      flood       p50       p99       max      dirty     drain
      7  victim                 1,508          –   1.03 ms   1.06 ms   1.06 ms     400 kB         –
     40  both, warming up         160   217 MB/s   20.0 ms   20.0 ms   20.0 ms    1503 MB    6.83 s
     41  both                       1   217 MB/s         –         –    1.17 s    1504 MB    6.83 s
   3641  flood                      –   251 MB/s         –         –         –    1504 MB         –
   3642  both                       1   217 MB/s         –         –    1.17 s          –         –
        ");
        assert!(lines.iter().all(|l| l.chars().count() <= 100));
    }

    #[test]
    fn rates_are_per_second_however_long_the_interval_was() {
        let mut long = Made::damage().trials()[0].phases[0].intervals[0].clone();
        long.seconds = 3.0;
        let text = line(&at(1.0, None), PhaseKind::Victim, "measuring", &long);
        assert!(text.contains(" 503 "), "{text}");
    }
}
