//! One axis: linear or logarithmic, with marks at round numbers.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis from `low` to `high`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    marks: Vec<f64>,
}

impl Axis {
    /// From 0 to at least `high`, with about so many marks at 1, 2 or 5 times a power of ten.
    pub(super) fn linear(high: f64, marks: usize) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = round_step(high / marks.max(1) as f64);
        let marks = (0..=2 * marks.max(1))
            .map(|i| i as f64 * step)
            .take_while(|m| *m <= high * 1.000_001)
            .collect();
        Self { low: 0.0, high, log: false, marks }
    }

    /// Between two numbers as they are, with given marks.
    pub(super) fn plain(low: f64, high: f64, marks: Vec<f64>) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, log: false, marks }
    }

    /// Whole decades around `low` and `high`, both above 0; a mark each, fewer if there are more
    /// than `marks`.
    pub(super) fn decades(low: f64, high: f64, marks: usize) -> Self {
        let positive = |v: f64, or: f64| if v.is_finite() && v > 0.0 { v } else { or };
        let (low, high) = (positive(low, 1.0), positive(high, 10.0));
        let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let to = to.max(from + 1);
        let every = ((to - from) as usize).div_ceil(marks.max(1)).max(1);
        let marks = (from..=to).step_by(every).map(|e| 10f64.powi(e)).collect();
        Self { low: 10f64.powi(from), high: 10f64.powi(to), log: true, marks }
    }

    /// The place of a value, 0 at the low end to 1 at the high one; values beyond are at the end.
    fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The smallest of 1, 2, 5, 10, … times a power of ten that is not smaller.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|s| s * power)
        .find(|s| *s >= least * 0.999_999)
        .unwrap_or(10.0 * power)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        crate::numbers::count(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round() {
        assert_eq!(Axis::linear(277.0, 5).marks, [0.0, 100.0, 200.0]);
        assert_eq!(Axis::linear(1.05, 4).marks, [0.0, 0.5, 1.0]);
        assert_eq!(Axis::decades(80.0, 9.0e6, 8).marks, [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7]);
        assert_eq!(Axis::decades(80.0, 9.0e6, 3).marks, [1e1, 1e3, 1e5, 1e7]);
    }

    #[test]
    fn places_and_what_has_none() {
        let log = Axis::decades(1.0, 1e4, 4);
        assert_eq!(
            [1.0, 100.0, 1e4, 0.0, 1e9, f64::NAN].map(|v| log.map(&v, (0, 100))),
            [0, 50, 100, 0, 100, 0]
        );
        let upwards = Axis::linear(2.0, 2);
        assert_eq!([0.0, 1.0, 2.0, 3.0].map(|v| upwards.map(&v, (300, 100))), [300, 200, 100, 100]);
    }

    #[test]
    fn no_range_is_still_an_axis() {
        for axis in [
            Axis::linear(0.0, 4),
            Axis::linear(f64::NAN, 4),
            Axis::decades(0.0, f64::INFINITY, 4),
            Axis::plain(3.0, 3.0, vec![]),
        ] {
            assert!(axis.high > axis.low, "{axis:?}");
        }
    }
}
