//! Percentiles and the histogram, on the tool's own scale.
//!
//! 1.0 counts latencies in 1,024 buckets from 1 µs to 100 s, each 1.8 % above the one before. It
//! prints a bucket's upper end, so that a percentile can exceed the maximum. Longer ones are in the
//! last bucket.

use std::fmt::Write;

use floodwall_model::LatencyCounts;
use floodwall_model::latency::{bucket_high_ns, bucket_low_ns};

const BUCKETS: usize = 1024;
/// The first bucket's value, in milliseconds.
const FIRST_MS: f64 = 0.001;
/// The last one's.
const LAST_MS: f64 = 100_000.0;
/// Characters of the longest bar.
const BAR: f64 = 40.0;

/// Logarithm of the quotient of two buckets' values.
fn step() -> f64 {
    (LAST_MS / FIRST_MS).ln() / (BUCKETS - 1) as f64
}

fn value_ms(bucket: usize) -> f64 {
    (bucket as f64 * step()).exp() * FIRST_MS
}

/// How many are in each of the tool's buckets.
fn on_scale(latencies: &LatencyCounts) -> Vec<u64> {
    let mut counts = vec![0; BUCKETS];
    for (bucket, count) in latencies.buckets() {
        let middle_ns = (bucket_low_ns(bucket) as f64 + bucket_high_ns(bucket) as f64) / 2.0;
        let steps = (middle_ns / 1e6 / FIRST_MS).max(1.0).ln() / step();
        counts[(steps.ceil() as usize).min(BUCKETS - 1)] += count;
    }
    counts
}

/// The rank that a percentile stands for.
fn rank(count: u64, percent: u32) -> u64 {
    (count as f64 * f64::from(percent) / 100.0 + 0.5).floor() as u64
}

/// On the scale of 1.0, in milliseconds; its first value if nothing was counted.
pub(super) fn stepped_ms(latencies: &LatencyCounts, percent: u32) -> f64 {
    let rank = rank(latencies.count(), percent);
    let mut seen = 0;
    let bucket = on_scale(latencies).into_iter().position(|count| {
        seen += count;
        seen >= rank
    });
    value_ms(bucket.unwrap_or(BUCKETS - 1))
}

/// On 0.4's scale, which is finer than any latency here is known: in milliseconds.
pub(super) fn fine_ms(latencies: &LatencyCounts, percent: u32) -> f64 {
    let rank = rank(latencies.count(), percent).max(1);
    let mut seen = 0;
    let bucket = latencies.buckets().find(|(_, count)| {
        seen += count;
        seen >= rank
    });
    bucket.map_or(0.0, |(bucket, _)| {
        (bucket_low_ns(bucket) as f64 + bucket_high_ns(bucket) as f64) / 2e6
    })
}

/// A line for each bucket in use, its bar in proportion to the fullest one.
pub(super) fn histogram(latencies: &LatencyCounts) -> String {
    let counts = on_scale(latencies);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut text = "       value  ------------- distribution ------------- count\n".to_owned();
    for (bucket, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let bar = "*".repeat((count as f64 / most as f64 * BAR).round() as usize);
        let _ = writeln!(text, "{:12.3} |{bar:<40} {count}", value_ms(bucket));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_on_the_original_scale() {
        // Maxima and 100th percentiles that 1.0.20 printed of single events.
        for (max_ms, printed) in [(1.39, "1.39"), (2.24, "2.26"), (3.60, "3.62"), (1.43, "1.44")] {
            let one = LatencyCounts::from_values([(max_ms * 1e6) as u64]);
            assert_eq!(format!("{:.2}", stepped_ms(&one, 100)), printed);
        }
        assert_eq!(format!("{:.3}", value_ms(511)), "9.910");
        assert_eq!(format!("{:.3}", stepped_ms(&LatencyCounts::default(), 95)), "0.001");
        let long = LatencyCounts::from_values([500_000_000_000]);
        assert_eq!(stepped_ms(&long, 95).round(), 100_000.0);
    }

    #[test]
    fn ranks_are_rounded() {
        let four = LatencyCounts::from_values([1_000_000, 2_000_000, 4_000_000, 8_000_000]);
        let near = |ms: f64, wanted: f64| (ms / wanted - 1.0).abs() < 0.02;
        assert!(near(stepped_ms(&four, 50), 2.0) && near(fine_ms(&four, 50), 2.0));
        assert!(near(stepped_ms(&four, 62), 2.0) && near(stepped_ms(&four, 63), 4.0));
        assert!(near(fine_ms(&four, 1), 1.0) && near(fine_ms(&four, 100), 8.0));
        assert_eq!(fine_ms(&LatencyCounts::default(), 95), 0.0);
    }

    #[test]
    fn bars_are_in_proportion() {
        let values = [1_000_000; 28].into_iter().chain([2_000_000; 7]).chain([4_000_000]);
        let text = histogram(&LatencyCounts::from_values(values));
        let bars: Vec<_> = text.lines().skip(1).map(|line| line.matches('*').count()).collect();
        assert_eq!(bars, [40, 10, 1]);
        assert!(text.ends_with(&format!("|*{} 1\n", " ".repeat(39))), "{text}");
    }
}
