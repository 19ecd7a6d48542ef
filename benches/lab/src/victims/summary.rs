//! A victim's own figures, and the table over all rounds. Pure. Times are microseconds.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Context;
use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_low_ns;
use floodwall_model::units::human_duration;
use serde_json::{Value, json};

use crate::devices::median;

/// One measurement.
pub(super) struct Measured {
    /// How long it was meant to be.
    pub(super) seconds: f64,
    latencies: LatencyCounts,
    /// Transactions done in each second, those of what was waited for after the end not counted.
    each_second: Vec<u64>,
}

impl Measured {
    /// From when transactions were done and how long they took. The first began when the measurement did.
    pub(super) fn new(time: Duration, mut done: Vec<(u64, u64)>) -> Self {
        done.sort_unstable();
        let begin = done.iter().map(|(at, took)| at.saturating_sub(*took)).min().unwrap_or(0);
        let mut each_second = vec![0; time.as_secs() as usize];
        for (at, _) in &done {
            if let Some(second) = each_second.get_mut(((at - begin) / 1_000_000) as usize) {
                *second += 1;
            }
        }
        let latencies = LatencyCounts::from_values(done.iter().map(|(_, took)| took * 1000));
        Self { seconds: time.as_secs_f64(), latencies, each_second }
    }

    /// Transactions a second.
    pub(super) fn per_second(&self) -> f64 {
        self.each_second.iter().sum::<u64>() as f64 / self.seconds.max(1e-9)
    }

    /// Seconds with less than a tenth of so many transactions.
    pub(super) fn dead_seconds(&self, alone: f64) -> usize {
        self.each_second.iter().filter(|n| (**n as f64) < alone / 10.0).count()
    }

    pub(super) fn json(&self) -> Value {
        let at = |fraction| self.latencies.nearest_rank_ns(fraction).map(|ns| ns / 1000);
        json!({
            "seconds": self.seconds,
            "per_second": self.per_second(),
            "each_second": self.each_second,
            "mean_us": self.latencies.mean_ns().map(|ns| ns / 1e3),
            "p50_us": at(0.5),
            "p99_us": at(0.99),
            "max_us": at(1.0),
            "buckets_ns": self.latencies.buckets().map(|(bucket, n)| (bucket_low_ns(bucket), n)).collect::<Vec<_>>(),
        })
    }
}

/// One figure of several rounds.
struct Rounds(Vec<f64>);

impl Rounds {
    fn shown(&self, unit: impl Fn(f64) -> String) -> String {
        let Some(middle) = median(&self.0) else { return "–".into() };
        let (low, high) = self.0.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        if self.0.len() < 2 {
            unit(middle)
        } else {
            format!("{} ({}–{})", unit(middle), unit(low), unit(high))
        }
    }
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn time(us: f64) -> String {
    human_duration(Duration::from_micros(us.max(0.0) as u64))
}

/// The table: medians, and in brackets the range of the rounds.
pub(super) fn section(plan: &Value, trials: &[Value]) -> anyhow::Result<String> {
    let scheduler = plan["scheduler"].as_str().unwrap_or("the loop device's own elevator");
    let mut out = format!(
        "Preset `{}` behind the real kernel, xfs, {scheduler}; {} s each. *alone* and *beside* the copy are in the same trial, on a fresh device. *dead* are seconds with under a tenth of \
         the transactions alone. \"15mb\" is `floodwall apply vm.dirty_bytes=15MB`.\n\n",
        plan["preset"].as_str().unwrap_or("?"),
        plan["seconds"]
    );
    out.push_str("| victim | setting | rounds | alone, per second | beside | kept | p99 alone | p99 beside | dead s | copy MB/s |\n|---|---|---|---|---|---|---|---|---|---|\n");
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for trial in trials {
        let row = (trial["victim"].as_str().context("no victim")?, trial["way"].as_str().context("no way")?);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|(victim, way)| (*victim, ["default", "15mb", "guard"].iter().position(|w| w == way)));
    for (victim, way) in rows {
        let of = |figure: &dyn Fn(&Value) -> Option<f64>| {
            let here = trials.iter().filter(|t| t["victim"] == victim && t["way"] == way);
            Rounds(here.filter_map(figure).collect())
        };
        let at = |pointer: &'static str| of(&move |t| t.pointer(pointer)?.as_f64());
        let kept = of(&|t| {
            Some(
                100.0 * t.pointer("/beside/per_second")?.as_f64()?
                    / t.pointer("/alone/per_second")?.as_f64()?.max(1e-9),
            )
        });
        let copied = of(&|t| {
            Some(t.pointer("/copy/bytes")?.as_f64()? / t.pointer("/copy/seconds")?.as_f64()?.max(1e-9) / 1e6)
        });
        let alone = at("/alone/per_second");
        writeln!(
            out,
            "| {victim} | {way} | {} | {} | {} | {} | {} | {} | {} | {} |",
            alone.0.len(),
            alone.shown(number),
            at("/beside/per_second").shown(number),
            kept.shown(|v| format!("{v:.0} %")),
            at("/alone/p99_us").shown(time),
            at("/beside/p99_us").shown(time),
            at("/dead_seconds").shown(|v| format!("{v:.0}")),
            copied.shown(number),
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_count_from_the_first_begin_and_a_stall_is_seen() {
        let ms = |at: u64, took: u64| (5_000_000 + at * 1000, took * 1000);
        // Ten in the first second, one that takes three, and one that was waited for after the end.
        let mut done: Vec<_> = (1..=10).map(|n| ms(n * 90, 90)).collect();
        done.extend([ms(3900, 3000), ms(4500, 600)]);
        let measured = Measured::new(Duration::from_secs(4), done);
        assert_eq!(measured.each_second, [10, 0, 0, 1]);
        assert_eq!(
            (measured.per_second(), measured.dead_seconds(10.0), measured.dead_seconds(20.0)),
            (2.75, 2, 3)
        );
        let json = measured.json();
        assert_eq!(
            (json["max_us"].as_u64(), json["p50_us"].as_u64().map(|us| us.abs_diff(90_000) < 800)),
            (Some(3_000_000), Some(true))
        );
    }

    #[test]
    fn a_row_has_the_median_and_the_range_of_its_rounds() {
        let trial = |way: &str, alone: f64, beside: f64| {
            let half = |per_second: f64| json!({ "per_second": per_second, "p99_us": 2500 });
            json!({ "victim": "sqlite", "way": way, "alone": half(alone), "beside": half(beside), "dead_seconds": 2,
                    "copy": { "bytes": 3e9, "seconds": 30.0 } })
        };
        let trials = [
            trial("guard", 100.0, 90.0),
            trial("default", 100.0, 5.0),
            trial("default", 200.0, 4.0),
            trial("default", 100.0, 50.0),
        ];
        let text = section(&json!({ "preset": "hdd-7200", "seconds": 30 }), &trials).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| sqlite")).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[0],
            "| sqlite | default | 3 | 100 (100–200) | 5.0 (4.0–50) | 5 % (2 %–50 %) | 2.50 ms (2.50 ms–2.50 ms) | 2.50 ms (2.50 ms–2.50 ms) | 2 (2–2) | 100 (100–100) |"
        );
        assert!(rows[1].starts_with("| sqlite | guard | 1 | 100 | 90 | 90 % |"), "{}", rows[1]);
    }
}
