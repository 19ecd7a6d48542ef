//! What a setting is worth: from trials to shares, from shares to one score by which candidates race.
//!
//! score = victim × flood × √burst × e^(−3 × dead share)          each a share kept, between 0.01 and 1
//!
//! A product, because what matters are factors: 20 times the commits for 12 % of the copy is a bargain, however small the shares. Bursts weigh half:
//! a write cache is a convenience, a stalled database is not. A second in which the victim stands still is charged beside what it costs the mean, so that a
//! setting can't buy a fine mean with collapses: all seconds dead cost a factor of 20.
//!
//! The flood's share is of what lasts: bytes that only fill the page cache don't count.
//!
//! With a latency target the victim's factor is (target / p99)², at most 1: beyond the target nothing more is gained, so flood and bursts decide.
//! Fewer than 100 operations have no p99. Their slowest stands in for it, since a p99 is never longer.

use floodwall_model::trial::{PhaseKind, Trial};
use floodwall_model::{Interval, Phase};
use floodwall_stats::estimate::median;
use floodwall_stats::figures::iops_alone;
use floodwall_stats::frontier::Point;
use floodwall_stats::quantiles::{Percentiles, Tail};
use floodwall_stats::stalls::windows;

/// Exponent of the flood's share.
const FLOOD_WEIGHT: f64 = 1.0;
/// Exponent of the burst's share.
const BURST_WEIGHT: f64 = 0.5;
/// Charged for each share of dead seconds, as a logarithm.
const DEAD_CHARGE: f64 = 3.0;
/// Exponent of target over p99.
const TARGET_WEIGHT: f64 = 2.0;
/// A share of nothing has no logarithm; and whether a victim keeps a hundredth or a thousandth is chance: it stands still, which is charged as dead
/// seconds.
const LEAST_SHARE: f64 = 1e-2;

/// What is possible on this rig under the setting in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// The victim's operations a second alone.
    pub iops_alone: f64,
    /// The flood's bytes a second alone.
    pub flood_bytes_per_s: f64,
    /// Bytes a second at which a burst is accepted; `None` without a burst.
    pub burst_bytes_per_s: Option<f64>,
    /// Bytes a second at which the device drains: what reaches it in the better seconds of the flood alone.
    pub drain_bytes_per_s: f64,
}

/// What a search looks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Objective {
    /// The victim's p99 that is wanted, in microseconds; `None`: as many operations as possible.
    pub p99_target_us: Option<f64>,
}

/// One trial in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// As shares of the reference.
    pub point: Point,
    /// The victim's p99 beside the flood, in microseconds; `None` of fewer than 100 operations.
    pub p99_us: Option<f64>,
    /// Its slowest operation, in microseconds; `None` where none was timed.
    pub slowest_us: Option<f64>,
    /// How long victim and flood ran together, in seconds: what it weighs among others.
    pub seconds: f64,
}

impl Reference {
    /// From full trials under the setting in force; `None` if they have no victim alone, no flood alone, or those did nothing.
    #[must_use]
    pub fn of(trials: &[Trial]) -> Option<Self> {
        let phases = |kind| trials.iter().flat_map(|t| &t.phases).filter(move |p: &&Phase| p.kind == kind);
        let positive = |value: f64| (value.is_finite() && value > 0.0).then_some(value);
        let flood =
            median(phases(PhaseKind::Flood).map(lasting_flood_bytes_per_s).collect()).and_then(positive)?;
        let burst = phases(PhaseKind::Burst).filter_map(|p| p.burst).map(|b| b.bytes_per_s());
        let seconds = phases(PhaseKind::Flood).flat_map(|p| &p.intervals);
        let drained =
            seconds.filter_map(|i| positive(i.host.device?.written_bytes as f64 / i.seconds.max(1e-9)));
        Some(Self {
            iops_alone: iops_alone(trials).and_then(positive)?,
            flood_bytes_per_s: flood,
            burst_bytes_per_s: median(burst.collect()).and_then(positive),
            // Without counters what the kernel lets the flood write is what it drains, once it throttles.
            drain_bytes_per_s: upper_quartile(drained.collect()).unwrap_or(flood),
        })
    }
}

/// Bytes a second that a flood writes and the device takes: what is accepted, less what the backlog in RAM grows by meanwhile. In a short phase under a
/// large limit nearly all that is accepted may only fill the page cache, which does not last.
fn lasting_flood_bytes_per_s(phase: &Phase) -> f64 {
    let backlog = |i: &Interval| Some((i.host.dirty_bytes? + i.host.writeback_bytes?) as f64);
    let [first, rest @ ..] = phase.intervals.as_slice() else { return phase.flood_bytes_per_s() };
    let grown = rest.last().and_then(backlog).zip(backlog(first)).map(|(last, first)| last - first);
    let Some(grown) = grown else { return phase.flood_bytes_per_s() };
    let accepted: u64 = rest.iter().map(|i| i.flood_bytes).sum();
    let seconds: f64 = rest.iter().map(|i| i.seconds).sum();
    // A backlog that shrinks may also have been thrown away by a file that begins anew.
    ((accepted as f64 - grown.max(0.0)) / seconds.max(1e-9)).max(0.0)
}

/// Three quarters of the values are below it. Of a drain rate's seconds: a device that still had to empty its own cache, or paused, drains faster than
/// its mean.
fn upper_quartile(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 3 / 4).copied()
}

/// A trial's figures against the reference; `None` without a complete phase `both`.
#[must_use]
pub fn kept(trial: &Trial, reference: &Reference) -> Option<Kept> {
    let of = |kind| trial.phases.iter().find(|p| p.kind == kind && p.cut_short.is_none());
    let both = of(PhaseKind::Both)?;
    let windows = windows(both);
    let seconds: f64 = windows.iter().map(|w| w.seconds).sum();
    let dead: f64 = windows.iter().filter(|w| w.is_dead(reference.iops_alone)).map(|w| w.seconds).sum();
    let burst = of(PhaseKind::Burst).and_then(|p| p.burst).zip(reference.burst_bytes_per_s);
    let latencies = Percentiles::of(&both.latencies().operations());
    Some(Kept {
        point: Point {
            victim_kept: both.victim_iops() / reference.iops_alone,
            dead_share: if seconds > 0.0 { dead / seconds } else { 0.0 },
            flood_kept: Some(lasting_flood_bytes_per_s(both) / reference.flood_bytes_per_s),
            burst_kept: burst.map(|(b, alone)| b.bytes_per_s() / alone),
        },
        p99_us: latencies.and_then(|l| l.p99),
        slowest_us: latencies.map(|l| l.max),
        seconds: both.seconds,
    })
}

/// Several trials of a setting as one: means of what was kept, each second weighing alike. `None` of none.
///
/// Means and not means of logarithms: of a device with a good and a bad state the user gets the average, and its logarithm in a single short trial is mostly
/// luck. The slowest is that of all; a p99 is a mean too, and there is none unless every trial has one.
#[must_use]
pub fn pooled(all: &[Kept]) -> Option<Kept> {
    let mean = |of: &dyn Fn(&Kept) -> Option<f64>| {
        let values = || all.iter().filter_map(|k| Some((of(k)?, k.seconds.max(1e-9))));
        let weight: f64 = values().map(|(_, seconds)| seconds).sum();
        (weight > 0.0).then(|| values().map(|(value, seconds)| value * seconds).sum::<f64>() / weight)
    };
    Some(Kept {
        point: Point {
            victim_kept: mean(&|k| Some(k.point.victim_kept))?,
            dead_share: mean(&|k| Some(k.point.dead_share))?,
            flood_kept: mean(&|k| k.point.flood_kept),
            burst_kept: mean(&|k| k.point.burst_kept),
        },
        p99_us: mean(&|k| k.p99_us).filter(|_| all.iter().all(|k| k.p99_us.is_some())),
        slowest_us: all.iter().filter_map(|k| k.slowest_us).max_by(f64::total_cmp),
        seconds: all.iter().map(|k| k.seconds).sum(),
    })
}

impl Kept {
    /// The slow end of the victim's operations: p99, or the slowest of too few; `None` where none was timed.
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        self.slowest_us.map(|slowest| Tail::from(self.p99_us, slowest))
    }
}

impl Objective {
    /// The score's logarithm: differences of it are factors.
    #[must_use]
    pub fn log_score(&self, kept: &Kept) -> f64 {
        let share = |value: f64| value.clamp(LEAST_SHARE, 1.0).ln();
        let victim = match (self.p99_target_us, kept.tail()) {
            (Some(target), Some(tail)) => -TARGET_WEIGHT * (tail.us.max(target) / target).ln(),
            // Nothing came back at all: as far from the target as can be.
            (Some(_), None) => LEAST_SHARE.ln(),
            (None, _) => share(kept.point.victim_kept),
        };
        let point = &kept.point;
        victim
            + FLOOD_WEIGHT * point.flood_kept.map_or(0.0, share)
            + BURST_WEIGHT * point.burst_kept.map_or(0.0, share)
            - DEAD_CHARGE * point.dead_share
    }
}

#[cfg(test)]
mod tests {
    use floodwall_stats::quantiles::TailKind;

    use super::*;

    fn kept(victim: f64, dead: f64, flood: f64, burst: f64, p99_ms: f64) -> Kept {
        let point =
            Point { victim_kept: victim, dead_share: dead, flood_kept: Some(flood), burst_kept: Some(burst) };
        Kept { point, p99_us: Some(p99_ms * 1e3), slowest_us: Some(p99_ms * 2e3), seconds: 10.0 }
    }

    /// The lab's first table: default, 15 MB, the short queue.
    fn published() -> [Kept; 3] {
        [
            kept(0.035, 0.97, 0.76, 1.0, 2_800.0),
            kept(0.154, 0.39, 0.455, 0.15, 208.0),
            kept(0.167, 0.18, 0.516, 1.0, 92.0),
        ]
    }

    #[test]
    fn a_short_queue_beats_a_small_limit_which_beats_the_default() {
        let [default, small, short] = published().map(|k| Objective::default().log_score(&k));
        assert!(short > small && small > default, "{default} {small} {short}");
    }

    #[test]
    fn beyond_the_target_only_flood_and_bursts_count() {
        let objective = Objective { p99_target_us: Some(100_000.0) };
        let [_, _, short] = published();
        let faster = Kept { p99_us: Some(5_000.0), ..short };
        assert_eq!(objective.log_score(&short), objective.log_score(&faster));
        let more_flood = Kept { point: Point { flood_kept: Some(0.9), ..short.point }, ..short };
        assert!(objective.log_score(&more_flood) > objective.log_score(&short));
        assert!(objective.log_score(&published()[1]) < objective.log_score(&short));
        assert!(objective.log_score(&Kept { p99_us: None, slowest_us: None, ..short }).is_finite());
    }

    #[test]
    fn what_has_too_few_operations_for_a_p99_has_a_slowest() {
        let [_, _, short] = published();
        let few = Kept { p99_us: None, ..short };
        assert_eq!(few.tail().map(|t| (t.kind, t.us)), Some((TailKind::Slowest, 184_000.0)));
        let both = pooled(&[short, few]).unwrap();
        assert_eq!((both.p99_us, both.slowest_us), (None, Some(184_000.0)), "one trial has no p99");
        assert_eq!(pooled(&[short, short]).unwrap().tail().map(|t| t.kind), Some(TailKind::P99));
        let objective = Objective { p99_target_us: Some(10_000.0) };
        assert!(objective.log_score(&few) < objective.log_score(&short), "the slowest stands in");
    }

    #[test]
    fn dead_seconds_are_charged_beside_the_mean() {
        let objective = Objective::default();
        let (steady, collapsing) = (kept(0.4, 0.0, 0.8, 1.0, 9.0), kept(0.6, 0.4, 0.8, 1.0, 9.0));
        assert!(objective.log_score(&steady) > objective.log_score(&collapsing));
    }

    #[test]
    fn what_only_fills_the_page_cache_does_not_count() {
        use floodwall_model::trial::HostSample;
        use floodwall_model::{Rig, Setting};
        let truth =
            |_: &Setting| Ok(crate::testing::Truth { victim: 0.5, dead: 0.0, flood: 0.8, burst: 1.0 });
        let trial = crate::testing::SurfaceRig::new(0.0, truth)
            .run(&crate::testing::scenario(1), &Setting::default(), 1, &mut ())
            .unwrap();
        let mut phase = trial.phases.into_iter().find(|p| p.kind == PhaseKind::Both).unwrap();
        let all = phase.flood_bytes_per_s();
        assert_eq!(lasting_flood_bytes_per_s(&phase), all, "nothing is known of the backlog");
        let with_growth = |phase: &mut Phase, per_s: u64| {
            for (i, interval) in phase.intervals.iter_mut().enumerate() {
                let dirty = Some((1 << 30) + per_s * i as u64);
                interval.host =
                    HostSample { dirty_bytes: dirty, writeback_bytes: Some(0), ..HostSample::default() };
            }
            lasting_flood_bytes_per_s(phase)
        };
        assert!((with_growth(&mut phase, 0) / all - 1.0).abs() < 1e-6);
        assert!((with_growth(&mut phase, 60_000_000) - (all - 60e6)).abs() < 1.0);
        assert_eq!(with_growth(&mut phase, 900_000_000), 0.0);
    }

    #[test]
    fn more_than_everything_is_everything() {
        let objective = Objective::default();
        assert_eq!(
            objective.log_score(&kept(1.3, 0.0, 1.2, 1.1, 1.0)),
            objective.log_score(&kept(1.0, 0.0, 1.0, 1.0, 1.0))
        );
        assert!(objective.log_score(&kept(0.0, 1.0, 0.0, 0.0, 1.0)).is_finite());
    }
}
