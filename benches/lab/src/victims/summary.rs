//! A victim's own figures, and the table over all rounds. Pure. Times are microseconds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_low_ns;
use floodwall_model::units::human_duration;
use floodwall_stats::estimate::{MISS, mean_and_variance};
use floodwall_stats::student::critical_t;
use serde_json::{Value, json};

/// One measurement.
pub(super) struct Measured {
    /// How long it was meant to be.
    pub(super) seconds: f64,
    latencies: LatencyCounts,
    /// Transactions done in each second, those of what was waited for after the end not counted.
    each_second: Vec<u64>,
}

impl Measured {
    /// From when transactions were done and how long they took. The first began when the
    /// measurement did.
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
        let buckets = self.latencies.buckets();
        json!({
            "seconds": self.seconds,
            "per_second": self.per_second(),
            "each_second": self.each_second,
            "mean_us": self.latencies.mean_ns().map(|ns| ns / 1e3),
            "p50_us": at(0.5),
            "p99_us": at(0.99),
            "max_us": at(1.0),
            "buckets_ns": buckets.map(|(bucket, n)| (bucket_low_ns(bucket), n)).collect::<Vec<_>>(),
        })
    }
}

/// One figure of several rounds, all above zero.
pub(crate) struct Rounds(pub(crate) Vec<f64>);

impl Rounds {
    /// The geometric mean with Student's 95 % interval on the logarithms. One round has no
    /// interval; a round without the figure leaves none for all.
    pub(crate) fn shown(&self, rounds: usize, unit: impl Fn(f64) -> String) -> String {
        let logs: Vec<f64> = self.0.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
        if logs.len() < rounds {
            return "–".into();
        }
        match mean_and_variance(&logs) {
            Some((mean, variance)) => {
                let n = logs.len() as f64;
                let half = critical_t(MISS, n - 1.0) * (variance / n).sqrt();
                let [low, value, high] =
                    [mean - half, mean, mean + half].map(|log| unit(log.exp()));
                format!("{value} ({low} to {high})")
            }
            None => logs.first().map_or("–".into(), |log| unit(log.exp())),
        }
    }
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn time(us: f64) -> String {
    human_duration(Duration::from_micros(us.max(0.0) as u64))
}

/// Halves of a measurement are compared from this length on, in seconds: shorter ones are the
/// beginning of an encounter.
const LONG: u64 = 60;

/// A table for each plan of the trials: figures of all rounds with their intervals. After it the
/// two halves of the time beside the flood, of long trials.
pub(super) fn section(trials: &[Value]) -> anyhow::Result<String> {
    // By the text of a plan, so that the order does not depend on that of the files.
    let plans: BTreeMap<String, &Value> =
        trials.iter().map(|t| (t["plan"].to_string(), &t["plan"])).collect();
    let mut out = String::from(
        "*Alone* and *beside* the flood are in the same trial, on a fresh device with xfs. *Dead* \
         are seconds with under a tenth of the transactions alone, all rounds together.\n\n\
         Floods: \"copy\" is `cp` of a large file, \"backup\" `tar c` of large files, \"archive\" \
         `tar x` of small files. \"load\" is a bulk load into the victim's own database (SQLite: \
         into a second one).\n\n\
         Settings: \"15mb\" is `floodwall apply vm.dirty_bytes=15MB`, \"limited-guard\" the guard \
         with that in force. \"short\" is mq-deadline with 8 requests of 128 KiB. \"priority\" is \
         bfq with the server's processes at best-effort 0. \"paced\" is `io.max` and \
         `memory.high=128MiB` of the flood's control group.\n\n\
         Figures are geometric means over the rounds with 95 % intervals; a p99 needs 100 \
         transactions in every round. *Late*: rounds in which the lab did not keep up with its \
         model.\n",
    );
    for plan in plans.values() {
        let of_plan: Vec<&Value> = trials.iter().filter(|trial| trial["plan"] == **plan).collect();
        let text = |name: &str| plan[name].as_str();
        writeln!(
            out,
            "\n{} `{}`, {}, {} s each{}:\n\n\
             | victim | flood | setting | rounds | alone, per second | beside | kept | p99 alone | \
             p99 beside | dead s | flood MB/s | late |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|",
            if plan["model"].is_null() { "Preset" } else { "Model" },
            text("preset").unwrap_or("?"),
            text("scheduler").unwrap_or("the loop device's own elevator"),
            plan["seconds"],
            more(plan),
        )?;
        let mut rows: BTreeMap<[&str; 3], Vec<&Value>> = BTreeMap::new();
        for trial in of_plan {
            let text = |name: &str| trial[name].as_str().unwrap_or("?");
            rows.entry([text("victim"), flood(trial), text("way")]).or_default().push(trial);
        }
        for (names, trials) in &rows {
            row(&mut out, &names.join(" | "), trials)?;
        }
        if plan["seconds"].as_u64().is_some_and(|seconds| seconds >= LONG) {
            out.push_str(
                "\nBeside the flood, transactions a second in each half of the time:\n\n\
                 | victim | flood | setting | rounds | first half | second half | second / first \
                 |\n|---|---|---|---|---|---|---|\n",
            );
            for (names, trials) in &rows {
                row_of_halves(&mut out, &names.join(" | "), trials)?;
            }
        }
    }
    Ok(out)
}

/// The name of a trial's flood; older trials have none, and a copy.
fn flood(trial: &Value) -> &str {
    trial.pointer("/flood/kind").and_then(Value::as_str).unwrap_or("copy")
}

/// The flood's rate in bytes a second; older trials call it the copy's.
fn flood_rate(trial: &Value) -> Option<f64> {
    let flood = trial.get("flood").or_else(|| trial.get("copy"))?;
    Some(flood["bytes"].as_f64()? / flood["seconds"].as_f64()?)
}

/// Transactions a second beside the flood, in the first and in the second half.
fn halves(trial: &Value) -> Option<[f64; 2]> {
    let each = trial.pointer("/beside/each_second")?.as_array()?;
    let (first, second) = each.split_at(each.len() / 2);
    let mean =
        |half: &[Value]| half.iter().filter_map(Value::as_f64).sum::<f64>() / half.len() as f64;
    Some([mean(first), mean(second)])
}

fn row_of_halves(out: &mut String, names: &str, trials: &[&Value]) -> anyhow::Result<()> {
    let rounds = trials.len();
    let of = |figure: fn([f64; 2]) -> f64| {
        Rounds(trials.iter().filter_map(|t| halves(t).map(figure)).collect())
    };
    writeln!(
        out,
        "| {names} | {rounds} | {} | {} | {} |",
        of(|[first, _]| first).shown(rounds, number),
        of(|[_, second]| second).shown(rounds, number),
        of(|[first, second]| second / first).shown(rounds, |ratio| format!("{ratio:.2}")),
    )?;
    Ok(())
}

/// What a plan has besides.
fn more(plan: &Value) -> String {
    let kernel = plan["kernel"].as_str().map(|file| format!(" of '{file}'")).unwrap_or_default();
    let guest = plan["guest"].as_str().map(|memory| format!(", in a guest{kernel} with {memory}"));
    let rate =
        plan["rate"].as_u64().map(|rate| format!(", {rate} transactions a second asked for"));
    let pace = plan["pace"].as_str().map(|pace| format!(", paced to {pace} a second"));
    [guest, rate, pace].into_iter().flatten().collect()
}

fn row(out: &mut String, names: &str, trials: &[&Value]) -> anyhow::Result<()> {
    let of = |figure: &dyn Fn(&Value) -> Option<f64>| {
        Rounds(trials.iter().filter_map(|t| figure(t)).collect())
    };
    let at = |pointer: &'static str| of(&move |trial| trial.pointer(pointer)?.as_f64());
    let ratio = |over: &'static str, under: &'static str| {
        of(&move |trial| Some(trial.pointer(over)?.as_f64()? / trial.pointer(under)?.as_f64()?))
    };
    let p99 = |half: &'static str| {
        of(&move |trial| {
            let half = trial.get(half)?;
            let operations = half["per_second"].as_f64()? * half["seconds"].as_f64()?;
            // The slowest of fewer than 100 is no percentile.
            if operations < 100.0 { None } else { half["p99_us"].as_f64() }
        })
    };
    let rounds = trials.len();
    let dead: f64 = at("/dead_seconds").0.iter().sum();
    let seconds: f64 = at("/beside/seconds").0.iter().sum();
    let late = trials.iter().filter(|trial| trial["lab"]["kept_up"] == false).count();
    writeln!(
        out,
        "| {names} | {rounds} | {} | {} | {} | {} | {} | {dead:.0} of {seconds:.0} | {} | {late} |",
        at("/alone/per_second").shown(rounds, number),
        at("/beside/per_second").shown(rounds, number),
        ratio("/beside/per_second", "/alone/per_second")
            .shown(rounds, |share| format!("{:.1} %", 100.0 * share)),
        p99("alone").shown(rounds, time),
        p99("beside").shown(rounds, time),
        of(&flood_rate).shown(rounds, |rate| number(rate / 1e6)),
    )?;
    Ok(())
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
    fn a_row_has_a_mean_with_its_interval_and_no_p99_of_few_transactions() {
        let trial = |way: &str, alone: f64, beside: f64, late: bool| {
            let half = |rate: f64| json!({ "seconds": 30.0, "per_second": rate, "p99_us": 2500 });
            json!({ "plan": { "preset": "hdd-7200", "seconds": 30 }, "victim": "sqlite", "way": way,
                    "alone": half(alone), "beside": half(beside), "dead_seconds": 2,
                    "copy": { "bytes": 3e9, "seconds": 30.0 }, "lab": { "kept_up": !late } })
        };
        let trials = [
            trial("guard", 100.0, 90.0, false),
            trial("default", 100.0, 4.0, false),
            trial("default", 100.0, 1.0, true),
        ];
        let text = section(&trials).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| sqlite")).collect();
        // √(4 × 1) = 2; two rounds: t = 12.706, half = t × ln(4) / 2 = 8.807, 2 × e^8.807 = 13365.
        assert_eq!(
            rows[0],
            "| sqlite | copy | default | 2 | 100 (100 to 100) | 2.0 (0.0 to 13365) | \
             2.0 % (0.0 % to 13365.3 %) | 2.50 ms (2.50 ms to 2.50 ms) | – | 4 of 60 | \
             100 (100 to 100) | 1 |"
        );
        assert_eq!(
            rows[1],
            "| sqlite | copy | guard | 1 | 100 | 90 | 90.0 % | 2.50 ms | 2.50 ms | 2 of 30 | \
             100 | 0 |"
        );
    }

    #[test]
    fn long_trials_compare_their_halves_and_floods_have_rows_of_their_own() {
        let trial = |flood: &str, each_second: &[u32]| {
            json!({ "plan": { "preset": "hdd-7200", "seconds": 60 },
                    "victim": "mariadb", "way": "guard", "beside": { "each_second": each_second },
                    "flood": { "kind": flood, "bytes": 6e9, "seconds": 60.0 } })
        };
        // Ratios of 1/2 and 2: one on the average.
        let trials = [
            trial("load", &[40, 40, 20, 20]),
            trial("load", &[10, 10, 20, 20]),
            trial("backup", &[5, 0, 0]),
        ];
        let text = section(&trials).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| mariadb")).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows[1].starts_with("| mariadb | load | guard | 2 |"), "{}", rows[1]);
        assert!(rows[1].ends_with("| 100 (100 to 100) | 0 |"), "{}", rows[1]);
        assert_eq!(rows[2], "| mariadb | backup | guard | 1 | 5.0 | – | – |");
        assert!(rows[3].starts_with("| mariadb | load | guard | 2 | 20 (0.0 to "), "{}", rows[3]);
        assert!(rows[3].contains("| 20 (20 to 20) | 1.00 (0.00 to "), "{}", rows[3]);
    }
}
