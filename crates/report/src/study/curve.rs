//! Latency by percentile.
//!
//! The axis is the number of nines: −log₁₀(1 − p), so that 90, 99 and 99.9 % are as far from each
//! other. A percentile is drawn only as far as there are operations for it (1 / (1 − p) of them);
//! the longest operation ends the curve.

use floodwall_model::LatencyCounts;
use floodwall_stats::quantiles::percentile_ns;

/// Places between two nines: as fine as a curve can be seen.
const PER_NINE: usize = 40;
/// Nines at most: one operation in ten million.
const MOST_NINES: usize = 7;

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// `(nines, microseconds)`, ascending.
    pub(crate) points: Vec<(f64, f64)>,
    /// Operations that it is of.
    pub(crate) operations: u64,
}

/// The curve of counted latencies; `None` when nothing was counted.
pub(crate) fn curve(counts: &LatencyCounts) -> Option<Curve> {
    let operations = counts.count();
    let last = (operations as f64).log10();
    let us = |ns: u64| ns as f64 / 1e3;
    let places = (0..=PER_NINE * MOST_NINES).map(|i| i as f64 / PER_NINE as f64);
    let mut points: Vec<(f64, f64)> = places
        .take_while(|nines| *nines < last)
        .filter_map(|nines| {
            let percent = 100.0 * (1.0 - 10f64.powf(-nines));
            percentile_ns(counts, percent).map(|ns| (nines, us(ns)))
        })
        .collect();
    (operations > 0).then(|| points.push((last.max(0.0), us(counts.max_ns()))))?;
    Some(Curve { points, operations })
}

/// The percentile at so many nines, as people write it: `50 %`, `99.9 %`.
pub(crate) fn percentile_text(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10f64.powf(-nines));
    // A whole number of nines needs no digit after them.
    let whole = (nines - nines.round()).abs() < 1e-9;
    let decimals = (nines.ceil() as usize).saturating_sub(if whole { 2 } else { 1 }).min(6);
    format!("{percent:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_as_far_as_there_are_operations_for_it() {
        let counts = LatencyCounts::from_values((1..=1_000u64).map(|ms| ms * 1_000_000));
        let curve = curve(&counts).unwrap();
        assert_eq!(curve.operations, 1_000);
        let at = |nines: f64| curve.points.iter().find(|p| (p.0 - nines).abs() < 1e-9).unwrap().1;
        // Buckets are up to 0.8 % wide.
        assert!((at(1.0) / 900_000.0 - 1.0).abs() < 0.009, "p90 {}", at(1.0));
        assert!((at(2.0) / 990_000.0 - 1.0).abs() < 0.009, "p99 {}", at(2.0));
        assert_eq!(curve.points.last(), Some(&(3.0, 1_000_000.0)), "the longest is exact");
        assert!(curve.points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
    }

    #[test]
    fn one_operation_is_a_point_and_none_is_none() {
        assert_eq!(
            curve(&LatencyCounts::from_values([2_000_000])).unwrap().points,
            [(0.0, 2_000.0)]
        );
        assert_eq!(curve(&LatencyCounts::default()), None);
    }

    #[test]
    fn percentiles_are_written_with_the_digits_they_take() {
        assert_eq!(
            [0.0, 2f64.log10(), 1.0, 2.0, 3.0, 2.5].map(percentile_text),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.68 %"]
        );
    }
}
