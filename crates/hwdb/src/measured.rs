//! Figures of a disk out of a result's trials.
//!
//! ```text
//! phase flood  ─▶ backlogged intervals: bytes written / seconds ─▶ drain rate
//! phase victim ─▶ sum of the sync calls' times / calls          ─▶ time of a sync call
//! ```

use floodwall_model::trial::{Interval, Phase, PhaseKind, Trial};
use floodwall_stats::estimate::{Estimate, Round, estimated_rate};

/// Share of an interval in which a backlogged device has a request outstanding. A device that
/// waits for its flood has gaps.
const BUSY: f64 = 0.95;
/// Share of the flood's intervals that must be backlogged. Otherwise the flood was slower than the
/// device, and no rate of the device follows.
const BACKLOGGED: f64 = 0.5;

/// The drain rate in bytes per second: what the device wrote in backlogged intervals of the flood
/// alone. `None` if the flood did not keep it busy, or its counters are unknown.
#[must_use]
pub fn drain_rate(trials: &[Trial]) -> Option<Estimate> {
    let phases = phases(trials, PhaseKind::Flood);
    let all: usize = phases.iter().map(|phase| phase.intervals.len()).sum();
    let rounds: Vec<Vec<(f64, f64)>> =
        phases.iter().map(|p| p.intervals.iter().filter_map(backlogged).collect()).collect();
    let found: usize = rounds.iter().map(Vec::len).sum();
    let is_enough = found > 0 && found as f64 >= BACKLOGGED * all as f64;
    let rounds: Vec<Round> = rounds.into_iter().filter(|r| !r.is_empty()).map(Round::new).collect();
    estimated_rate(&rounds).filter(|rate| is_enough && rate.value > 0.0)
}

/// Bytes written and seconds of an interval through which the device was backlogged.
fn backlogged(interval: &Interval) -> Option<(f64, f64)> {
    let device = interval.host.device?;
    let is_busy = device.busy_ms as f64 >= BUSY * interval.seconds * 1e3;
    let has_backlog = interval.host.writeback_bytes.is_none_or(|bytes| bytes > 0);
    (is_busy && has_backlog).then_some((device.written_bytes as f64, interval.seconds))
}

/// The mean time of a sync call of the victims alone, in microseconds. `None` if they made none.
#[must_use]
pub fn sync_time(trials: &[Trial]) -> Option<Estimate> {
    let of = |interval: &Interval| {
        let sync = &interval.latencies.sync;
        (sync.sum_ns() as f64 / 1e3, sync.count() as f64)
    };
    let round = |phase: &&Phase| Round::new(phase.intervals.iter().map(of));
    let rounds: Vec<Round> = phases(trials, PhaseKind::Victim).iter().map(round).collect();
    estimated_rate(&rounds).filter(|time| time.value > 0.0)
}

/// The whole phases of a kind.
fn phases(trials: &[Trial], kind: PhaseKind) -> Vec<&Phase> {
    let is_whole = |phase: &&Phase| phase.kind == kind && phase.cut_short.is_none();
    trials.iter().flat_map(|trial| &trial.phases).filter(is_whole).collect()
}

#[cfg(test)]
mod tests {
    use floodwall_model::LatencyCounts;
    use floodwall_model::trial::{DeviceSample, Warmup};

    use super::*;

    fn interval(written_bytes: u64, busy_ms: u64) -> Interval {
        let mut interval = Interval { seconds: 1.0, ..Interval::default() };
        interval.host.writeback_bytes = Some(1 << 20);
        interval.host.device =
            Some(DeviceSample { written_bytes, busy_ms, ..DeviceSample::default() });
        interval
    }

    fn trial(kind: PhaseKind, intervals: Vec<Interval>) -> Trial {
        let phase = Phase {
            kind,
            start_s: 0.0,
            seconds: intervals.len() as f64,
            warmup: Warmup::default(),
            intervals,
            overrun: Default::default(),
            victims: vec![],
            floods: vec![],
            burst: None,
            cut_short: None,
        };
        Trial { setting: Default::default(), round: 1, phases: vec![phase] }
    }

    #[test]
    fn a_drain_rate_is_of_backlogged_seconds_alone() {
        let flood = |rate: u64, idle: usize| {
            let mut intervals = vec![interval(rate, 1000); 8];
            intervals.extend(vec![interval(rate / 4, 500); idle]);
            trial(PhaseKind::Flood, intervals)
        };
        let rate = drain_rate(&[flood(100, 2), flood(110, 2), flood(120, 2)]).unwrap();
        assert_eq!((rate.value, rate.rounds), (110.0, 3));
        let (low, high) = rate.ends().unwrap();
        assert!(low > 80.0 && low < 105.0 && high > 115.0, "{rate:?}");
        assert_eq!(drain_rate(&[flood(100, 0)]).unwrap().ends(), None, "one round");
        assert_eq!(drain_rate(&[flood(100, 9)]), None, "the flood was slower than the disk");
        assert_eq!(drain_rate(&[]), None);
        let mut unknown = flood(100, 0);
        unknown.phases[0].intervals.iter_mut().for_each(|i| i.host.device = None);
        assert_eq!(drain_rate(&[unknown]), None);
        let mut cut = flood(100, 0);
        cut.phases[0].cut_short = Some("interrupted".into());
        assert_eq!(drain_rate(&[cut]), None);
    }

    #[test]
    fn a_sync_takes_its_mean_time_over_all_calls() {
        let victim = |us: &[u64]| {
            let mut interval = interval(0, 0);
            interval.latencies.sync = LatencyCounts::from_values(us.iter().map(|us| us * 1000));
            trial(PhaseKind::Victim, vec![interval; 4])
        };
        let time = sync_time(&[victim(&[100, 300]), victim(&[200, 200])]).unwrap();
        assert_eq!((time.value, time.rounds), (200.0, 2));
        assert_eq!(sync_time(&[victim(&[])]), None);
        assert_eq!(sync_time(&[trial(PhaseKind::Flood, vec![interval(1, 1)])]), None);
    }
}
