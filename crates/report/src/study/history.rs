//! What happened second by second under a setting: its trials one after another, without what lay
//! between them.
//!
//! A long run has more seconds than a picture has columns: neighbours within a phase are joined.
//! Histograms add, rates are means, gauges are the last; that is what one longer interval would
//! have said.

use floodwall_model::Trial;
use floodwall_model::trial::{Interval, OpLatencies, Phase, PhaseKind};
use floodwall_stats::quantiles::percentile_ns;
use floodwall_stats::stalls::DEAD_BELOW;

/// Moments at most: a wide chart has some 900 columns, and a curve takes two of them for each.
const MOST: usize = 450;

/// A setting's course.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    pub(crate) moments: Vec<Moment>,
    /// What ran, one after another.
    pub(crate) bands: Vec<Band>,
    /// Seconds in all.
    pub(crate) seconds: f64,
}

/// A phase of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) kind: PhaseKind,
    pub(crate) round: u32,
}

/// About a second. `None`: not measured, or nothing to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    /// Its middle, in seconds of the course.
    pub(crate) at_s: f64,
    /// Index of its band.
    pub(crate) band: usize,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) ops_per_s: Option<f64>,
    pub(crate) flood_bytes_per_s: Option<f64>,
    pub(crate) written_bytes_per_s: Option<f64>,
    pub(crate) dirty_bytes: Option<f64>,
    pub(crate) writeback_bytes: Option<f64>,
    pub(crate) limit_bytes: Option<f64>,
    pub(crate) background_bytes: Option<f64>,
    /// Whether the victim got under a tenth of its operations alone.
    pub(crate) is_dead: bool,
}

/// The course of some trials. `alone_iops`: the victim's operations a second alone, if known.
pub(crate) fn history<'a>(
    trials: impl Iterator<Item = &'a Trial>,
    alone_iops: Option<f64>,
) -> History {
    let phases: Vec<_> = trials
        .flat_map(|t| t.phases.iter().map(move |p| (t.round, p)))
        .filter(|(_, p)| has_course(p))
        .collect();
    let intervals: usize = phases.iter().map(|(_, p)| p.intervals.len()).sum();
    let joined = intervals.div_ceil(MOST).max(1);
    let mut history = History::default();
    for (round, phase) in phases {
        let from_s = history.seconds;
        let band = history.bands.len();
        for some in phase.intervals.chunks(joined) {
            let moment = moment(some, phase.kind, alone_iops);
            let length: f64 = some.iter().map(|i| i.seconds).filter(|s| s.is_finite()).sum();
            history.moments.push(Moment { at_s: history.seconds + length / 2.0, band, ..moment });
            history.seconds += length;
        }
        history.bands.push(Band { from_s, to_s: history.seconds, kind: phase.kind, round });
    }
    history
}

fn moment(some: &[Interval], kind: PhaseKind, alone_iops: Option<f64>) -> Moment {
    let seconds: f64 = some.iter().map(|i| i.seconds).sum();
    let per_s = |amount: f64| (seconds > 0.0).then_some(amount / seconds);
    let mut latencies = OpLatencies::default();
    some.iter().for_each(|i| latencies.merge(&i.latencies));
    let operations = latencies.operations();
    let us = |percent: f64| percentile_ns(&operations, percent).map(|ns| ns as f64 / 1e3);
    let last = some.last().map(|i| &i.host);
    let gauge = |of: fn(&floodwall_model::trial::HostSample) -> Option<u64>| {
        last.and_then(of).map(|v| v as f64)
    };
    let ops: u64 = some.iter().flat_map(|i| &i.victim_ops).map(|n| u64::from(*n)).sum();
    let ops_per_s = per_s(ops as f64).filter(|_| kind.has_victim());
    let written: Option<u64> = some.iter().map(|i| i.host.device.map(|d| d.written_bytes)).sum();
    let flood: u64 = some.iter().map(|i| i.flood_bytes).sum();
    Moment {
        at_s: 0.0,
        band: 0,
        p50_us: us(50.0),
        p99_us: us(99.0),
        max_us: (!operations.is_empty()).then(|| operations.max_ns() as f64 / 1e3),
        ops_per_s,
        flood_bytes_per_s: per_s(flood as f64).filter(|_| kind.has_flood()),
        written_bytes_per_s: written.and_then(|w| per_s(w as f64)),
        dirty_bytes: gauge(|h| h.dirty_bytes),
        writeback_bytes: gauge(|h| h.writeback_bytes),
        limit_bytes: gauge(|h| h.dirty_threshold_bytes),
        background_bytes: gauge(|h| h.background_threshold_bytes),
        is_dead: ops_per_s.zip(alone_iops).is_some_and(|(ops, alone)| ops < DEAD_BELOW * alone),
    }
}

/// Whether a phase has anything that goes on in time.
fn has_course(phase: &Phase) -> bool {
    !phase.intervals.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Made, SECONDS};

    #[test]
    fn phases_follow_each_other_without_gaps() {
        let trials = Made::damage().trials();
        let history = history(trials.iter(), Some(1_516.0));
        // Victim, flood and both of three rounds; bursts have no seconds.
        assert_eq!(history.bands.len(), 9);
        assert_eq!(history.seconds, (9 * SECONDS) as f64);
        assert!(history.bands.windows(2).all(|w| w[0].to_s == w[1].from_s));
        assert_eq!(history.moments.len(), 9 * SECONDS);
        assert_eq!(history.moments[0].at_s, 0.5);
    }

    #[test]
    fn a_second_says_what_was_measured_and_nothing_else() {
        let trials = Made::damage().trials();
        let history = history(trials.iter(), Some(1_516.0));
        let (alone, flood, beside) =
            (history.moments[0], history.moments[SECONDS], history.moments[2 * SECONDS]);
        assert_eq!(
            (alone.ops_per_s, alone.flood_bytes_per_s, alone.is_dead),
            (Some(1_508.0), None, false)
        );
        assert_eq!(
            (flood.ops_per_s, flood.flood_bytes_per_s, flood.max_us),
            (None, Some(251e6), None)
        );
        assert_eq!(
            (beside.ops_per_s, beside.max_us, beside.p99_us),
            (Some(1.0), Some(1_170_000.0), None),
            "one operation has no p99"
        );
        assert!(beside.is_dead && !flood.is_dead);
        assert_eq!((beside.dirty_bytes, beside.limit_bytes), (Some(1.5e9), Some(3.2e9)));
        assert_eq!(beside.written_bytes_per_s, Some(216e6));
    }

    #[test]
    fn many_seconds_are_joined_within_their_phase() {
        let mut trials = Made::damage().trials();
        let phase = &mut trials[0].phases[0];
        phase.intervals = (0..2_000).map(|i| phase.intervals[i % SECONDS].clone()).collect();
        let history = history(trials.iter(), None);
        assert!(history.moments.len() <= MOST + history.bands.len(), "{}", history.moments.len());
        assert_eq!(history.moments[0].ops_per_s, Some(1_508.0), "rates stay rates");
        assert_eq!(history.seconds, (2_000 + 8 * SECONDS) as f64);
    }
}
