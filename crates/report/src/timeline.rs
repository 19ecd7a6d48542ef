//! A result second by second: the kernel's write path while victims and floods ran, on one time
//! axis.
//!
//! ```text
//! Document ─▶ one row per interval ─┬─ csv:  every column, raw units, empty where unknown
//!                                   └─ text: the columns that tell a story, in human units
//! ```
//!
//! An interval is one second, or several where old ones were merged to bound memory. Counts are
//! given per second, so that rows of different length compare. Gauges (dirty, writeback,
//! thresholds, in flight) are as they were at the row's end.

use std::fmt::Write;
use std::time::Duration;

use floodwall_model::trial::DeviceSample;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Interval, Phase, Rate};
use floodwall_stats::quantiles::percentile_ns;

use crate::numbers::{UNKNOWN, count};
use crate::schema::Document;

/// One interval of one phase.
struct Row<'a> {
    round: u32,
    phase: &'a Phase,
    interval: &'a Interval,
}

/// A column of the CSV: its name, which ends in the unit, and its value; `None` is an empty field.
type Column = (&'static str, fn(&Row<'_>) -> Option<String>);

/// Columns of the CSV, in order. New ones are added at the end.
const COLUMNS: &[Column] = &[
    ("round", |r| Some(r.round.to_string())),
    ("phase", |r| Some(r.phase.kind.name().into())),
    ("start_s", |r| number(r.phase.start_s + r.interval.start_s)),
    ("seconds", |r| number(r.interval.seconds)),
    ("victim_iops", |r| r.if_victim(|| r.per_second(r.ops()))),
    ("victim_bytes_per_s", |r| r.if_victim(|| r.per_second(r.interval.victim_bytes as f64))),
    ("p50_us", |r| r.percentile(50.0)),
    ("p99_us", |r| r.percentile(99.0)),
    ("max_us", |r| r.percentile(100.0)),
    ("flood_bytes_per_s", |r| {
        r.phase
            .kind
            .has_flood()
            .then(|| r.per_second(r.interval.flood_bytes as f64))
            .and_then(number)
    }),
    ("dirty_bytes", |r| whole(r.interval.host.dirty_bytes)),
    ("writeback_bytes", |r| whole(r.interval.host.writeback_bytes)),
    ("dirty_threshold_bytes", |r| whole(r.interval.host.dirty_threshold_bytes)),
    ("background_threshold_bytes", |r| whole(r.interval.host.background_threshold_bytes)),
    ("device_reads_per_s", |r| r.device(|d| d.read_ops)),
    ("device_read_bytes_per_s", |r| r.device(|d| d.read_bytes)),
    ("device_writes_per_s", |r| r.device(|d| d.write_ops)),
    ("device_written_bytes_per_s", |r| r.device(|d| d.written_bytes)),
    ("device_flushes_per_s", |r| {
        r.interval
            .host
            .device
            .and_then(|d| d.flush_ops)
            .map(|n| r.per_second(n as f64))
            .and_then(number)
    }),
    ("device_utilisation_percent", |r| r.utilisation_percent().and_then(number)),
    ("device_mean_queue_requests", |r| {
        r.interval.host.device.map(|d| r.per_second(d.weighted_ms as f64) / 1e3).and_then(number)
    }),
    ("device_in_flight_requests", |r| whole(r.interval.host.device.map(|d| d.in_flight))),
    ("psi_io_some_percent", |r| r.share_of_us(r.interval.host.psi_io_some_us).and_then(number)),
    ("psi_io_full_percent", |r| r.share_of_us(r.interval.host.psi_io_full_us).and_then(number)),
    ("steal_ms_per_s", |r| {
        r.interval.host.steal_ms.map(|ms| r.per_second(ms as f64)).and_then(number)
    }),
];

impl Row<'_> {
    fn per_second(&self, amount: f64) -> f64 {
        amount / self.interval.seconds.max(1e-9)
    }

    fn ops(&self) -> f64 {
        self.interval.victim_ops.iter().copied().map(f64::from).sum()
    }

    fn if_victim(&self, value: impl Fn() -> f64) -> Option<String> {
        self.phase.kind.has_victim().then(value).and_then(number)
    }

    fn percentile_ns(&self, percent: f64) -> Option<u64> {
        percentile_ns(&self.interval.latencies.operations(), percent)
    }

    fn percentile(&self, percent: f64) -> Option<String> {
        self.percentile_ns(percent).and_then(|ns| number(ns as f64 / 1e3))
    }

    fn device(&self, of: fn(&DeviceSample) -> u64) -> Option<String> {
        self.interval.host.device.map(|d| self.per_second(of(&d) as f64)).and_then(number)
    }

    fn utilisation_percent(&self) -> Option<f64> {
        self.interval.host.device.map(|d| self.per_second(d.busy_ms as f64) / 10.0)
    }

    fn share_of_us(&self, us: Option<u64>) -> Option<f64> {
        us.map(|us| self.per_second(us as f64) / 1e4)
    }
}

/// At most three decimals, none if they are zeros; nothing for NaN.
fn number(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let text = format!("{value:.3}");
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

fn whole(value: Option<u64>) -> Option<String> {
    value.map(|v| v.to_string())
}

fn rows(document: &Document) -> impl Iterator<Item = Row<'_>> {
    document.trials.iter().flat_map(|trial| {
        trial.phases.iter().flat_map(|phase| {
            phase.intervals.iter().map(|interval| Row { round: trial.round, phase, interval })
        })
    })
}

/// Every interval as one line of CSV (RFC 4180 without quoting: no field holds a comma), after a
/// line of column names.
#[must_use]
pub fn csv(document: &Document) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut out = names.join(",") + "\n";
    for row in rows(document) {
        let fields: Vec<String> =
            COLUMNS.iter().map(|(_, value)| value(&row).unwrap_or_default()).collect();
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

/// Every interval as one aligned line, a blank line between phases.
#[must_use]
pub fn text(document: &Document) -> String {
    let mut out = String::new();
    let heads = [
        "s",
        "phase",
        "ops/s",
        "p99",
        "max",
        "flood",
        "dirty",
        "writeback",
        "written",
        "flush",
        "util",
        "psi",
    ];
    line(&mut out, heads.map(String::from));
    let mut last: Option<&Phase> = None;
    for row in rows(document) {
        if last.is_some_and(|l| !std::ptr::eq(l, row.phase)) {
            out.push('\n');
        }
        last = Some(row.phase);
        let host = &row.interval.host;
        let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.into());
        let latency =
            |p| known(row.percentile_ns(p).map(|ns| human_duration(Duration::from_nanos(ns))));
        let bytes = |b: Option<u64>| known(b.map(|b| Bytes(b).to_string()));
        let rate = |b: u64| Rate(row.per_second(b as f64)).to_string();
        let share = |p: Option<f64>| known(p.map(|p| format!("{p:.0} %")));
        line(
            &mut out,
            [
                format!("{:.0}", row.phase.start_s + row.interval.start_s),
                format!("{} {}", row.phase.kind.name(), row.round),
                known(row.phase.kind.has_victim().then(|| count(row.per_second(row.ops())))),
                latency(99.0),
                latency(100.0),
                known(row.phase.kind.has_flood().then(|| rate(row.interval.flood_bytes))),
                bytes(host.dirty_bytes),
                bytes(host.writeback_bytes),
                known(host.device.map(|d| rate(d.written_bytes))),
                known(
                    host.device.and_then(|d| d.flush_ops).map(|n| count(row.per_second(n as f64))),
                ),
                share(row.utilisation_percent()),
                share(row.share_of_us(host.psi_io_some_us)),
            ],
        );
    }
    out
}

fn line(
    out: &mut String,
    [s, phase, ops, p99, max, flood, dirty, writeback, written, flushes, util, psi]: [String; 12],
) {
    let _ = writeln!(
        out,
        "{s:>5} {phase:<9}{ops:>8}{p99:>9}{max:>9}{flood:>10}{dirty:>10}{writeback:>10}\
         {written:>10}{flushes:>7}{util:>6}{psi:>6}"
    );
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::HostSample;

    use super::*;
    use crate::synthetic::Made;

    fn short() -> Document {
        let mut document = Made { rounds: 1, ..Made::damage() }.document();
        for phase in &mut document.trials[0].phases {
            phase.intervals.truncate(2);
        }
        document.trials[0].phases[2].intervals[1].host = HostSample::default();
        document
    }

    #[test]
    fn as_csv() {
        insta::assert_snapshot!(csv(&short()), @"
round,phase,start_s,seconds,victim_iops,victim_bytes_per_s,p50_us,p99_us,max_us,flood_bytes_per_s,\
dirty_bytes,writeback_bytes,dirty_threshold_bytes,background_threshold_bytes,device_reads_per_s,\
device_read_bytes_per_s,device_writes_per_s,device_written_bytes_per_s,device_flushes_per_s,\
device_utilisation_percent,device_mean_queue_requests,device_in_flight_requests,\
psi_io_some_percent,psi_io_full_percent,steal_ms_per_s
1,victim,100,1,1508,24707072,1028.095,1055.759,1055.759,,400000,0,3200000000,1600000000,2,8192,900,\
24000000,14,99.8,31,32,1.2,,3
1,victim,101,1,1508,24707072,1028.095,1055.759,1055.759,,400000,0,3200000000,1600000000,2,8192,900,\
24000000,14,99.8,31,32,1.2,,3
1,flood,120,1,,,,,,251000000,1500000000,67108864,3200000000,1600000000,2,8192,900,216000000,14,\
99.8,31,32,93,,3
1,flood,121,1,,,,,,251000000,1501000000,67108864,3200000000,1600000000,2,8192,900,216000000,14,\
99.8,31,32,93,,3
1,both,140,1,1,16384,,,1170000,217000000,1500000000,67108864,3200000000,1600000000,2,8192,900,\
216000000,14,99.8,31,32,93,,3
1,both,141,1,1,16384,,,1170000,217000000,,,,,,,,,,,,,,,
        ");
    }

    #[test]
    fn as_text() {
        let text = text(&short());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(text, @"
          s phase       ops/s      p99      max     flood     dirty \
          writeback   written  flush  util   psi
        100 victim 1    1,508  1.06 ms  1.06 ms         –    400 kB       0 B 24.0 \
        MB/s     14 100 %   1 %
        101 victim 1    1,508  1.06 ms  1.06 ms         –    400 kB       0 B 24.0 \
        MB/s     14 100 %   1 %

        120 flood 1         –        –        –  251 MB/s   1500 MB    64 MiB  216 \
        MB/s     14 100 %  93 %
        121 flood 1         –        –        –  251 MB/s   1501 MB    64 MiB  216 \
        MB/s     14 100 %  93 %

        140 both 1          1        –   1.17 s  217 MB/s   1500 MB    64 MiB  216 \
        MB/s     14 100 %  93 %
        141 both 1          1        –   1.17 s  217 \
        MB/s         –         –         –      –     –     –
        ");
    }

    #[test]
    fn every_line_has_every_field() {
        for line in csv(&Made::reads().document()).lines() {
            assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
        }
    }

    #[test]
    fn what_is_unknown_is_empty_and_not_zero() {
        let text = csv(&short());
        let blind = text.lines().last().unwrap();
        assert!(blind.ends_with(&",".repeat(15)), "{blind}");
    }

    #[test]
    fn merged_intervals_give_rates() {
        let mut document = short();
        let interval = &mut document.trials[0].phases[0].intervals[0];
        interval.seconds = 2.0;
        interval.victim_ops = vec![100, 200];
        let text = csv(&document);
        assert!(text.lines().nth(1).unwrap().starts_with("1,victim,100,2,150,"), "{text}");
    }

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!(
            [1.0, 0.5, 1234.5678, 0.0].map(|v| number(v).unwrap()),
            ["1", "0.5", "1234.568", "0"]
        );
        assert_eq!([100.0, 200.0].map(|v| number(v).unwrap()), ["100", "200"]);
        assert_eq!(number(f64::NAN), None);
    }
}
