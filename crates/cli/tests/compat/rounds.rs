//! Figures of both tools, in interleaved rounds until they are near or time is up.

use std::collections::BTreeMap;
use std::io::{self, Write};

use floodwall_stats::estimate::{mean_and_variance, median};
use floodwall_stats::student::critical_t;
use floodwall_testing::said;

/// Rounds of each load: so many at least, and more while medians are apart.
const ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 13;
/// How far the median of a figure's ratios, each of two runs in a row, may be off.
const TOLERANCE: f64 = 0.05;
/// Steps in which figures are printed, twice: a latency of a few hundredths can't be closer.
const STEPS: f64 = 0.021;

/// A run's figures by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Runs both, ours if it is asked with `true`, and prints a row for each figure. Returns the rows
/// of figures that are apart. `extremes` are printed and not judged.
pub(crate) fn compared(
    load: &str,
    extremes: &[&str],
    run: impl Fn(bool) -> Result<Figures, String>,
) -> Result<Vec<String>, String> {
    let mut rounds = Vec::new();
    let rows = loop {
        // Each of them goes first in turn.
        let is_first = rounds.len() % 2 == 0;
        let (first, second) = (run(is_first)?, run(!is_first)?);
        rounds.push(if is_first { (first, second) } else { (second, first) });
        let rows = rows(&rounds, extremes)?;
        let is_near = rows.iter().all(|row| row.is_near);
        if rounds.len() >= MOST_ROUNDS || (rounds.len() >= ROUNDS && is_near) {
            break rows;
        }
    };
    let mut apart = Vec::new();
    for row in rows {
        let undecided = if row.is_near || row.is_apart { "" } else { " undecided" };
        let line = format!("| `{load}` | {} | {} |{undecided}", row.text, rounds.len());
        writeln!(io::stdout(), "{line}").map_err(said("stdout"))?;
        apart.extend((!row.is_near && row.is_apart).then_some(line));
    }
    Ok(apart)
}

/// A figure of both.
struct Row {
    text: String,
    /// The median is close enough.
    is_near: bool,
    /// The whole interval is not. A busy machine leaves figures that are neither.
    is_apart: bool,
}

fn rows(rounds: &[(Figures, Figures)], extremes: &[&str]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let Some((first, _)) = rounds.first() else { return Ok(rows) };
    for name in first.keys() {
        let values: Option<Vec<(f64, f64)>> =
            rounds.iter().map(|(own, other)| Some((*own.get(name)?, *other.get(name)?))).collect();
        let values = values.ok_or_else(|| format!("a run has no '{name}'"))?;
        let (own, other): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
        let (a, b) = (median(own).unwrap_or(-1.0), median(other).unwrap_or(-1.0));
        if a == 0.0 && b == 0.0 {
            continue;
        }
        let is_extreme = extremes.contains(&name.as_str());
        let off = median(values.iter().map(|(own, other)| own / other - 1.0).collect());
        let is_close = off.is_some_and(|off| off.abs() <= TOLERANCE);
        let is_near = is_extreme || is_close || (a - b).abs() <= STEPS;
        let [low, value, high] = ratio(&values);
        let text = format!("{name} | {a:.2} | {b:.2} | {value:.3} ({low:.3}–{high:.3})");
        let is_apart = high < 1.0 - TOLERANCE || low > 1.0 + TOLERANCE;
        rows.push(Row { text, is_near, is_apart });
    }
    Ok(rows)
}

/// Of ours by theirs within rounds: the geometric mean between the ends of its 95 % interval
/// (Student's t on the logarithms).
fn ratio(values: &[(f64, f64)]) -> [f64; 3] {
    let logs = values.iter().map(|(own, other)| (own / other).ln());
    let logs: Vec<f64> = logs.filter(|log| log.is_finite()).collect();
    let n = logs.len() as f64;
    let Some((mean, variance)) = mean_and_variance(&logs) else { return [f64::NAN; 3] };
    let half = critical_t(0.05, n - 1.0) * (variance / n).sqrt();
    [mean - half, mean, mean + half].map(f64::exp)
}
