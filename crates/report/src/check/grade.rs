//! Whether 99 of 100 operations kept within a limit.

use std::time::Duration;

use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_low_ns;
use floodwall_stats::quantiles::percentile_ns;
use serde::Serialize;

/// Whether 99 of 100 operations kept within a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// They did.
    Fast,
    /// They did not.
    Slow,
    /// Too few operations tell neither.
    Unknown,
}

/// Grades the latencies of a run. From 100 operations on the p99 decides. Of fewer, two that
/// reached the limit suffice: the p99 of 100 operations with these two among them reaches it too.
pub(super) fn grade(latencies: &LatencyCounts, limit: Duration) -> Grade {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    if let Some(p99_ns) = percentile_ns(latencies, 99.0) {
        return if p99_ns < limit_ns { Grade::Fast } else { Grade::Slow };
    }
    let slow = latencies.buckets().filter(|(bucket, _)| bucket_low_ns(*bucket) >= limit_ns);
    if slow.map(|(_, n)| n).sum::<u64>() >= 2 { Grade::Slow } else { Grade::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ms: impl IntoIterator<Item = u64>) -> Grade {
        let latencies = LatencyCounts::from_values(ms.into_iter().map(|ms| ms * 1_000_000));
        grade(&latencies, Duration::from_millis(10))
    }

    #[test]
    fn from_100_operations_on_one_in_a_hundred_may_be_slow() {
        let with = |fast: usize, slow: usize| {
            of(std::iter::repeat_n(2, fast).chain(std::iter::repeat_n(500, slow)))
        };
        assert_eq!(
            [with(100, 0), with(99, 1), with(98, 2)],
            [Grade::Fast, Grade::Fast, Grade::Slow]
        );
        assert_eq!([with(1980, 20), with(1979, 21)], [Grade::Fast, Grade::Slow]);
        // The limit itself is too long.
        assert_eq!(of([10; 200]), Grade::Slow);
    }

    #[test]
    fn of_fewer_two_slow_ones_suffice_and_nothing_shows_them_to_be_fast() {
        assert_eq!(of([]), Grade::Unknown);
        assert_eq!(of([2; 99]), Grade::Unknown);
        assert_eq!(of([2, 2, 500]), Grade::Unknown);
        assert_eq!(of([500, 500]), Grade::Slow);
    }
}
