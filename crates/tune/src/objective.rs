//! The worth of a setting: from trials to shares, from shares to one score by which candidates
//! race.
//!
//! score = victim × flood × √burst × e^(−3 × dead share)          each a share kept, between 0.01
//! and 1
//!
//! It is a product, because factors matter: 20 times the commits for 12 % of the copy is a bargain,
//! however small the shares. Bursts weigh half: a write cache is a convenience, a stalled database
//! is not. A second in which the victim stands still costs the mean, and is charged besides, so
//! that a setting can't buy a fine mean with collapses. All seconds dead cost a factor of 20.
//!
//! The flood's share is of what lasts: bytes that only fill the page cache don't count.
//!
//! A victim with a fixed rate (open loop) keeps that rate under many settings, however long its
//! operations wait. Its share is therefore multiplied by √(p99 alone / p99), at most 1. The p99 is
//! that of all trials' operations together: the slowest would grow with their number. If either
//! side has fewer than 100 operations, p90 replaces it; below 10 the factor is left out. In a
//! closed loop the share itself is a ratio of latencies, so nothing is added there.
//!
//! With a latency target the victim's factor is (target / p99)², at most 1: beyond the target
//! nothing more is gained, so flood and bursts decide. Fewer than 100 operations have no p99. Their
//! slowest stands in for it, since a p99 is never longer.

use floodwall_model::trial::{PhaseKind, Trial};
use floodwall_model::{Interval, LatencyCounts, Phase, Scenario};
use floodwall_stats::estimate::median;
use floodwall_stats::figures::iops_alone;
use floodwall_stats::frontier::Point;
use floodwall_stats::quantiles::{Percentiles, Tail, percentile_ns, samples_needed};
use floodwall_stats::stalls::windows;

/// Exponent of the flood's share.
const FLOOD_WEIGHT: f64 = 1.0;
/// Exponent of the burst's share.
const BURST_WEIGHT: f64 = 0.5;
/// Charged for each share of dead seconds, as a logarithm.
const DEAD_CHARGE: f64 = 3.0;
/// Exponent of the p99 alone over that beside the flood, of a victim with a rate: half of what an
/// operation that is lost weighs.
const LATENCY_WEIGHT: f64 = 0.5;
/// Percentiles by which waits are compared, the first that both sides have operations enough for.
const PERCENTS: [f64; 2] = [99.0, 90.0];
/// Exponent of target over p99.
const TARGET_WEIGHT: f64 = 2.0;
/// A share of nothing has no logarithm; and whether a victim keeps a hundredth or a thousandth is
/// chance: it stands still, which is charged as dead seconds.
const LEAST_SHARE: f64 = 1e-2;

/// The rates and latencies that the runner reaches under the setting in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The victim's operations a second alone.
    pub iops_alone: f64,
    /// The flood's bytes a second alone.
    pub flood_bytes_per_s: f64,
    /// Bytes a second at which a burst is accepted; `None` without a burst.
    pub burst_bytes_per_s: Option<f64>,
    /// Bytes a second at which the device drains: what reaches it in the better seconds of the
    /// flood alone.
    pub drain_bytes_per_s: f64,
    /// Victims with a fixed rate (open loop), by their places in the scenario.
    pub rated: Vec<usize>,
    /// Latencies of their operations alone; empty where none was timed.
    pub waits: LatencyCounts,
}

/// The goal of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Objective {
    /// The victim's p99 that is wanted, in microseconds; `None`: as many operations as possible.
    pub p99_target_us: Option<f64>,
}

/// One trial in figures, or several.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// As shares of the reference.
    pub point: Point,
    /// The victim's p99 beside the flood, in microseconds; `None` of fewer than 100 operations.
    pub p99_us: Option<f64>,
    /// Its slowest operation, in microseconds; `None` where none was timed.
    pub slowest_us: Option<f64>,
    /// Latencies of the victims with a rate, operations included that were due and not served:
    /// beside the flood, and alone ([`Reference::waits`]).
    pub waits: [LatencyCounts; 2],
    /// How long victim and flood ran together, in seconds: what it weighs among others.
    pub seconds: f64,
}

impl Reference {
    /// From full trials of a scenario under the setting in force; `None` if they have no victim
    /// alone, no flood alone, or those did nothing.
    #[must_use]
    pub fn of(trials: &[Trial], scenario: &Scenario) -> Option<Self> {
        let phases =
            |kind| trials.iter().flat_map(|t| &t.phases).filter(move |p: &&Phase| p.kind == kind);
        let positive = |value: f64| (value.is_finite() && value > 0.0).then_some(value);
        let flood = median(phases(PhaseKind::Flood).map(lasting_flood_bytes_per_s).collect())
            .and_then(positive)?;
        let burst = phases(PhaseKind::Burst).filter_map(|p| p.burst).map(|b| b.bytes_per_s());
        let victims = scenario.victims.iter().enumerate();
        let rated: Vec<usize> = victims.filter(|(_, v)| v.is_open_loop()).map(|(i, _)| i).collect();
        let mut waits = LatencyCounts::default();
        phases(PhaseKind::Victim).for_each(|p| waits.merge(&waits_of(p, &rated)));
        let seconds = phases(PhaseKind::Flood).flat_map(|p| &p.intervals);
        let drained = seconds
            .filter_map(|i| positive(i.host.device?.written_bytes as f64 / i.seconds.max(1e-9)));
        Some(Self {
            iops_alone: iops_alone(trials).and_then(positive)?,
            flood_bytes_per_s: flood,
            burst_bytes_per_s: median(burst.collect()).and_then(positive),
            // Without counters, the flood's write rate stands for the drain rate once the kernel
            // throttles it.
            drain_bytes_per_s: upper_quartile(drained.collect()).unwrap_or(flood),
            rated,
            waits,
        })
    }
}

/// Latencies of some victims' operations in a phase.
fn waits_of(phase: &Phase, victims: &[usize]) -> LatencyCounts {
    let mut all = LatencyCounts::default();
    victims
        .iter()
        .filter_map(|i| phase.victims.get(*i))
        .for_each(|load| all.merge(&load.latencies.operations()));
    all
}

/// Bytes a second that a flood writes and the device takes: what is accepted, less what the backlog
/// in RAM grows by meanwhile. In a short phase under a large limit nearly all that is accepted may
/// only fill the page cache, which does not last.
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

/// Three quarters of the values are below it. Of a drain rate's seconds: a device that still had to
/// empty its own cache, or paused, drains faster than its mean.
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
    let dead: f64 =
        windows.iter().filter(|w| w.is_dead(reference.iops_alone)).map(|w| w.seconds).sum();
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
        waits: [waits_of(both, &reference.rated), reference.waits.clone()],
        seconds: both.seconds,
    })
}

/// Several trials of a setting as one: means of what was kept, each second weighing alike. `None`
/// of none.
///
/// Means, not means of logarithms. On a device with a good and a bad state the user gets the
/// average, and the logarithm of a single short trial is mostly luck. The slowest operation is that
/// of all trials. A p99 is a mean too, given only if every trial has one. Waits are those of all
/// operations.
#[must_use]
pub fn pooled(all: &[Kept]) -> Option<Kept> {
    let mean = |of: &dyn Fn(&Kept) -> Option<f64>| {
        let values = || all.iter().filter_map(|k| Some((of(k)?, k.seconds.max(1e-9))));
        let weight: f64 = values().map(|(_, seconds)| seconds).sum();
        (weight > 0.0)
            .then(|| values().map(|(value, seconds)| value * seconds).sum::<f64>() / weight)
    };
    let mut waits: [LatencyCounts; 2] = Default::default();
    all.iter().for_each(|k| waits[0].merge(&k.waits[0]));
    waits[1].clone_from(&all.first()?.waits[1]);
    Some(Kept {
        point: Point {
            victim_kept: mean(&|k| Some(k.point.victim_kept))?,
            dead_share: mean(&|k| Some(k.point.dead_share))?,
            flood_kept: mean(&|k| k.point.flood_kept),
            burst_kept: mean(&|k| k.point.burst_kept),
        },
        p99_us: mean(&|k| k.p99_us).filter(|_| all.iter().all(|k| k.p99_us.is_some())),
        slowest_us: all.iter().filter_map(|k| k.slowest_us).max_by(f64::total_cmp),
        waits,
        seconds: all.iter().map(|k| k.seconds).sum(),
    })
}

impl Kept {
    /// The slow end of the victim's operations: p99, or the slowest of too few; `None` where none
    /// was timed.
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        self.slowest_us.map(|slowest| Tail::from(self.p99_us, slowest))
    }
}

/// The percentile by which all of them can be compared; `None` if one has too few operations with a
/// rate.
#[must_use]
pub fn percent_of<'a>(all: impl IntoIterator<Item = &'a Kept>) -> Option<f64> {
    let fewest = all.into_iter().flat_map(|k| &k.waits).map(LatencyCounts::count).min()?;
    PERCENTS.into_iter().find(|percent| fewest >= samples_needed(*percent))
}

/// The loss of a victim with a rate by its latency at this percentile, as a logarithm.
fn log_latency(kept: &Kept, percent: f64) -> f64 {
    let [Some(beside), Some(alone)] =
        kept.waits.each_ref().map(|waits| percentile_ns(waits, percent))
    else {
        return 0.0;
    };
    let (beside, alone) = (beside.max(1) as f64, alone.max(1) as f64);
    LATENCY_WEIGHT * (alone / beside.max(alone)).ln()
}

impl Objective {
    /// The score's logarithm: differences of it are factors.
    #[must_use]
    pub fn log_score(&self, kept: &Kept) -> f64 {
        self.log_score_at(kept, percent_of([kept]))
    }

    /// The same with waits compared at a given percentile; `None`: not at all. Two scores that
    /// are subtracted need the same one ([`percent_of`]).
    #[must_use]
    pub fn log_score_at(&self, kept: &Kept, percent: Option<f64>) -> f64 {
        let share = |value: f64| value.clamp(LEAST_SHARE, 1.0).ln();
        let victim = match (self.p99_target_us, kept.tail()) {
            (Some(target), Some(tail)) => -TARGET_WEIGHT * (tail.us.max(target) / target).ln(),
            // Nothing came back at all: as far from the target as can be.
            (Some(_), None) => LEAST_SHARE.ln(),
            (None, _) => {
                share(kept.point.victim_kept)
                    + percent.map_or(0.0, |percent| log_latency(kept, percent))
            }
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
        let point = Point {
            victim_kept: victim,
            dead_share: dead,
            flood_kept: Some(flood),
            burst_kept: Some(burst),
        };
        let (p99_us, slowest_us) = (Some(p99_ms * 1e3), Some(p99_ms * 2e3));
        Kept { point, p99_us, slowest_us, waits: Default::default(), seconds: 10.0 }
    }

    /// So many operations, each so many milliseconds long.
    fn ms(count: usize, ms: f64) -> LatencyCounts {
        LatencyCounts::from_values(vec![(ms * 1e6) as u64; count])
    }

    /// The same of a victim with a rate whose p99 alone is 4.4 ms.
    fn rated(victim: f64, flood: f64, p99_ms: f64) -> Kept {
        Kept { waits: [ms(1_000, p99_ms), ms(1_000, 4.4)], ..kept(victim, 0.0, flood, 1.0, p99_ms) }
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
        let faster = Kept { p99_us: Some(5_000.0), ..short.clone() };
        assert_eq!(objective.log_score(&short), objective.log_score(&faster));
        let more_flood =
            Kept { point: Point { flood_kept: Some(0.9), ..short.point }, ..short.clone() };
        assert!(objective.log_score(&more_flood) > objective.log_score(&short));
        assert!(objective.log_score(&published()[1]) < objective.log_score(&short));
        assert!(
            objective
                .log_score(&Kept { p99_us: None, slowest_us: None, ..short.clone() })
                .is_finite()
        );
    }

    /// Figures of a victim of 200 operations a second on a virtual array: its share of its rate,
    /// the flood's share, p99 in milliseconds. Alone, its p99 is 4.4 ms.
    fn open_loop() -> [Kept; 5] {
        [
            rated(0.495, 1.0, 566.0),
            rated(1.0, 0.705, 124.0),
            rated(1.0, 0.285, 37.0),
            rated(1.0, 0.865, 75.0),
            rated(1.0, 0.87, 43.0),
        ]
    }

    #[test]
    fn of_settings_that_keep_a_rate_the_one_with_the_shorter_waits_is_better() {
        let objective = Objective::default();
        let [default, memory_alone, slow, rate_alone, paced] =
            open_loop().map(|k| objective.log_score(&k));
        assert!(paced > rate_alone && rate_alone > memory_alone && memory_alone > default);
        assert!(paced > slow, "a third of the flood for 6 ms less");
        let (short, long) = (rated(1.0, 0.87, 40.0), rated(1.0, 1.0, 500.0));
        assert!(objective.log_score(&short) > objective.log_score(&long));
        let closed = |k: Kept| objective.log_score(&Kept { waits: Default::default(), ..k });
        assert!(closed(short) < closed(long));
        // Nothing is gained beyond what the victim has alone, and a hundredfold wait is not like a
        // thousandfold one.
        let waits = |ms| objective.log_score(&rated(1.0, 0.87, ms));
        assert_eq!(waits(1.0), waits(4.4));
        assert!((waits(440.0) - waits(4_400.0) - 10f64.ln() / 2.0).abs() < 1e-6);
    }

    #[test]
    fn waits_are_compared_by_a_percentile_that_both_sides_have() {
        let objective = Objective::default();
        let loss = |beside: LatencyCounts, alone: LatencyCounts| {
            let waits = Kept { waits: [beside, alone], ..rated(1.0, 0.87, 1.0) };
            objective.log_score(&Kept { waits: Default::default(), ..waits.clone() })
                - objective.log_score(&waits)
        };
        // Nine in ten take 1 ms, the others 100 ms.
        let mixed = |tenths: usize| {
            let mut all = ms(9 * tenths, 1.0);
            all.merge(&ms(tenths, 100.0));
            all
        };
        let tenfold = 100f64.ln() / 2.0;
        assert!((loss(mixed(10), ms(100, 1.0)) - tenfold).abs() < 1e-6, "p99 of 100 operations");
        for (beside, alone) in
            [(mixed(9), ms(100, 1.0)), (mixed(10), ms(99, 1.0)), (mixed(1), ms(10, 1.0))]
        {
            // Its bucket is up to 0.8 % wide.
            assert!(loss(beside, alone).abs() < 0.005, "p90");
        }
        assert_eq!(loss(ms(9, 100.0), ms(100, 1.0)), 0.0, "neither");
        assert_eq!(loss(ms(100, 100.0), ms(9, 1.0)), 0.0);
    }

    #[test]
    fn more_trials_do_not_make_waits_longer() {
        let mut waits = ms(29, 2.0);
        waits.merge(&ms(1, 900.0));
        let one = Kept { waits: [waits, ms(30, 2.0)], ..rated(1.0, 0.87, 2.0) };
        let three = pooled(&[one.clone(), one.clone(), one.clone()]).unwrap();
        assert_eq!((three.waits[0].count(), three.waits[1].count()), (90, 30));
        let objective = Objective::default();
        assert!((objective.log_score(&three) - objective.log_score(&one)).abs() < 1e-9);
    }

    #[test]
    fn only_victims_with_a_rate_are_timed() {
        use floodwall_model::trial::{LoadTotals, OpLatencies};
        use floodwall_model::{Runner, Setting, scenario::parse_victim};
        let truth = |_: &Setting| {
            Ok(crate::testing::Truth { victim: 0.5, dead: 0.0, flood: 0.8, burst: 1.0 })
        };
        let mut scenario = crate::testing::scenario(1);
        scenario.victims = ["commit", "commit,rate=20"].map(|v| parse_victim(v).unwrap()).into();
        let mut trial = crate::testing::SurfaceRunner::new(0.0, truth)
            .run(&scenario, &Setting::default(), 1, &mut ())
            .unwrap();
        for phase in trial.phases.iter_mut().filter(|p| p.kind.has_victim()) {
            let each_ms = if phase.kind == PhaseKind::Both { 9.0 } else { 3.0 };
            let load = |count: usize, each_ms: f64| LoadTotals {
                latencies: OpLatencies { commit: ms(count, each_ms), ..OpLatencies::default() },
                ..LoadTotals::default()
            };
            phase.victims = vec![load(5_000, 0.1), load(40, each_ms)];
        }
        let reference = Reference::of(std::slice::from_ref(&trial), &scenario).unwrap();
        assert_eq!((reference.rated.as_slice(), &reference.waits), (&[1][..], &ms(40, 3.0)));
        let kept = super::kept(&trial, &reference).unwrap();
        assert_eq!(kept.waits, [ms(40, 9.0), ms(40, 3.0)]);
        let closed = Reference { rated: Vec::new(), waits: LatencyCounts::default(), ..reference };
        let without = super::kept(&trial, &closed).unwrap();
        let objective = Objective::default();
        let lost = objective.log_score(&without) - objective.log_score(&kept);
        assert!((lost - 3f64.ln() / 2.0).abs() < 1e-6, "{lost}");
    }

    #[test]
    fn what_has_too_few_operations_for_a_p99_has_a_slowest() {
        let [_, _, short] = published();
        let few = Kept { p99_us: None, ..short.clone() };
        assert_eq!(few.tail().map(|t| (t.kind, t.us)), Some((TailKind::Slowest, 184_000.0)));
        let both = pooled(&[short.clone(), few.clone()]).unwrap();
        assert_eq!((both.p99_us, both.slowest_us), (None, Some(184_000.0)), "one trial has no p99");
        assert_eq!(
            pooled(&[short.clone(), short.clone()]).unwrap().tail().map(|t| t.kind),
            Some(TailKind::P99)
        );
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
        use floodwall_model::{Runner, Setting};
        let truth = |_: &Setting| {
            Ok(crate::testing::Truth { victim: 0.5, dead: 0.0, flood: 0.8, burst: 1.0 })
        };
        let trial = crate::testing::SurfaceRunner::new(0.0, truth)
            .run(&crate::testing::scenario(1), &Setting::default(), 1, &mut ())
            .unwrap();
        let mut phase = trial.phases.into_iter().find(|p| p.kind == PhaseKind::Both).unwrap();
        let all = phase.flood_bytes_per_s();
        assert_eq!(lasting_flood_bytes_per_s(&phase), all, "nothing is known of the backlog");
        let with_growth = |phase: &mut Phase, per_s: u64| {
            for (i, interval) in phase.intervals.iter_mut().enumerate() {
                let dirty = Some((1 << 30) + per_s * i as u64);
                interval.host = HostSample {
                    dirty_bytes: dirty,
                    writeback_bytes: Some(0),
                    ..HostSample::default()
                };
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
