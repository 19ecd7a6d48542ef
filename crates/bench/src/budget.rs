//! How many intervals a phase may keep, so that a run's memory is bounded for any duration.
//!
//! ```text
//! whole run: INTERVALS, INTERVAL_BYTES ─ ÷ (phases with intervals × rounds)
//!   ─▶ Budget of one phase ─▶ IntervalStore
//! ```
//!
//! All trials stay in memory until the result is written. Their intervals grow with a run's
//! duration. Each phase's totals grow with its rounds: a histogram for every kind of operation of
//! every load, at most some 15 KB each in practice. Rounds are limited
//! ([`floodwall_model::scenario::MAX_ROUNDS`]). The counts of single seconds take 4 bytes a second.

/// Intervals kept over all phases and rounds: twenty minutes of single seconds. A usual run has
/// 180. The most rounds come to just as many, with [`FEWEST`] in each of three phases.
const INTERVALS: usize = 1_200;

/// A phase may keep at least as many.
const FEWEST: usize = 4;

/// Bytes that they may take over all phases and rounds. The rest of the promised 64 MiB is for the
/// program, stacks and counters of some hundred threads (111 KB each), and the summary.
const INTERVAL_BYTES: usize = 20 << 20;

/// The data that one phase may keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Intervals.
    pub(crate) intervals: usize,
    /// Bytes that they take in memory.
    pub(crate) bytes: usize,
}

impl Budget {
    /// A phase's share of the whole run's; `phases` counts those of one round that have intervals.
    pub(crate) fn of_phase(phases: usize, rounds: u32) -> Self {
        let shares = phases.max(1) * rounds.max(1) as usize;
        Self { intervals: (INTERVALS / shares).max(FEWEST), bytes: INTERVAL_BYTES / shares }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::scenario::MAX_ROUNDS;
    use floodwall_model::trial::OpLatencies;
    use floodwall_model::{Interval, LatencyCounts};
    use floodwall_stats::interval_store::IntervalStore;

    use super::*;

    /// One second of a victim whose latencies span a factor of 4,096: some 1,500 buckets a
    /// histogram, the worst that is to be expected.
    fn wide_second(i: u64) -> Interval {
        let spread = |scale: u64| {
            let values =
                (0..20_000u64).map(|k| (scale * (100 + (k / 12 * 7 + i) % 100)) << (k % 12));
            LatencyCounts::from_values(values)
        };
        let (commit, write, sync) = (spread(100), spread(10), spread(99));
        let latencies = OpLatencies { commit, write, sync, ..OpLatencies::default() };
        Interval { seconds: 1.0, victim_ops: vec![20_000], latencies, ..Interval::default() }
    }

    #[test]
    fn a_run_of_any_length_keeps_its_intervals_within_the_budget() {
        let seconds: Vec<Interval> = (0..32).map(wide_second).collect();
        let one = seconds[0].memory_bytes();
        assert!((20_000..40_000).contains(&one), "{one}");
        for (rounds, measure_s) in [(1, 12), (5, 12), (1, 7_200), (20, 1_000), (MAX_ROUNDS, 300)] {
            let phases = 3 * rounds as usize;
            let budget = Budget::of_phase(3, rounds);
            let mut store = IntervalStore::new(budget.intervals, budget.bytes);
            // Phases are alike, so one stands for all.
            for i in 0..measure_s {
                store.push(seconds[i % seconds.len()].clone());
            }
            let (kept, bytes) = (store.intervals().len() * phases, store.memory_bytes() * phases);
            assert!(kept <= INTERVALS, "{rounds} rounds of {measure_s} s: {kept} intervals");
            assert!(
                bytes <= INTERVAL_BYTES * 5 / 4,
                "{rounds} rounds of {measure_s} s: {bytes} bytes"
            );
            if measure_s == 12 {
                assert_eq!(store.intervals().len(), 12, "a usual run is kept second by second");
            }
        }
    }
}
