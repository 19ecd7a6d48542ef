//! Rounds whose truth is known.

use floodwall_model::trial::{BurstTotals, Interval, OpLatencies, Warmup};

use super::*;
use crate::random::Random;

/// One round: IOPS alone and in each second beside the flood, latency, flood rate, burst rate.
#[derive(Clone)]
struct Made {
    alone: u32,
    beside: Vec<u32>,
    latency_ns: u64,
    flood: u64,
    burst_s: f64,
}

fn phase(kind: PhaseKind, ops: &[u32], latency_ns: u64, flood_bytes: u64) -> Phase {
    let interval = |(i, ops): (usize, &u32)| Interval {
        start_s: i as f64,
        seconds: 1.0,
        victim_ops: vec![*ops],
        flood_bytes,
        latencies: OpLatencies {
            commit: LatencyCounts::from_values(
                (0..*ops).map(|k| latency_ns + u64::from(k % 7) * 1_000),
            ),
            ..OpLatencies::default()
        },
        ..Interval::default()
    };
    Phase {
        kind,
        start_s: 0.0,
        seconds: ops.len() as f64,
        warmup: Warmup::default(),
        intervals: ops.iter().enumerate().map(interval).collect(),
        overrun: OpLatencies::default(),
        victims: vec![],
        floods: vec![],
        burst: None,
        cut_short: None,
    }
}

fn trial(round: u32, made: &Made) -> Trial {
    let burst = BurstTotals { bytes: 1_000_000, seconds: made.burst_s };
    let phases = vec![
        phase(PhaseKind::Victim, &vec![made.alone; made.beside.len()], made.latency_ns / 10, 0),
        phase(PhaseKind::Both, &made.beside, made.latency_ns, made.flood),
        Phase { burst: Some(burst), intervals: vec![], ..phase(PhaseKind::Burst, &[], 0, 0) },
    ];
    Trial { setting: Default::default(), round, phases }
}

/// Rounds around a level, each round off by `spread` of it, seconds by a tenth.
fn rounds(n: u32, level: f64, spread: f64, seed: u64) -> Vec<Trial> {
    let mut random = Random::seeded(seed);
    (1..=n)
        .map(|round| {
            let luck = (spread * random.normal()).exp();
            let second = |n: f64| (level * luck * (1.0 + 0.1 * n)).max(0.0) as u32;
            let beside = (0..12).map(|_| second(random.normal())).collect();
            let made = Made {
                alone: 1_000,
                beside,
                latency_ns: (1e9 / (level * luck).max(1.0)) as u64,
                flood: (2e8 * luck) as u64,
                burst_s: 0.5 / luck,
            };
            trial(round, &made)
        })
        .collect()
}

fn verdict(compared: &[Compared], figure: Figure) -> Verdict {
    compared.iter().find(|c| c.figure == figure).unwrap().verdict
}

#[test]
fn a_clear_difference_is_real_and_its_ratio_is_in_the_interval() {
    let (reference, better) = (rounds(5, 50.0, 0.1, 1), rounds(5, 500.0, 0.1, 2));
    let compared = &versus(&reference, &[&better])[0];
    assert_eq!(compared.len(), 5);
    assert_eq!(verdict(compared, Figure::VictimIops), Verdict::Better);
    assert_eq!(verdict(compared, Figure::VictimP99Us), Verdict::Better);
    assert_eq!(verdict(compared, Figure::DeadShare), Verdict::Better);
    assert_eq!(verdict(compared, Figure::FloodBytesPerS), Verdict::Untold);
    let iops = compared[0].difference.unwrap();
    let (low, high) = iops.ends().unwrap();
    assert!(low < 10.0 && 10.0 < high, "{iops:?}");
    let back = &versus(&better, &[&reference])[0];
    assert_eq!(verdict(back, Figure::VictimIops), Verdict::Worse);
    assert_eq!(verdict(back, Figure::VictimP99Us), Verdict::Worse);
}

#[test]
fn equal_settings_that_vary_can_not_be_told_and_identical_ones_are_the_same() {
    let reference = rounds(5, 300.0, 0.3, 3);
    let compared = &versus(&reference, &[&rounds(5, 300.0, 0.3, 4)])[0];
    assert!(compared.iter().all(|c| c.verdict == Verdict::Untold), "{compared:?}");
    let same = &versus(&reference, &[&reference])[0];
    assert_eq!(verdict(same, Figure::FloodBytesPerS), Verdict::Same);
    // The p99 of a round may be another round's maximum, and few seconds can't tell that none is
    // dead.
    assert!(same.iter().all(|c| matches!(c.verdict, Verdict::Same | Verdict::Untold)), "{same:?}");
}

#[test]
fn two_noisy_rounds_settle_nothing_and_one_can_not() {
    let (reference, better) = (rounds(2, 100.0, 0.5, 5), rounds(2, 300.0, 0.5, 6));
    assert_eq!(verdict(&versus(&reference, &[&better])[0], Figure::VictimIops), Verdict::Untold);
    let one = &versus(&reference[..1], &[&better[..1]])[0];
    assert!(one.iter().all(|c| c.verdict == Verdict::Unknown), "{one:?}");
    assert!(one[0].why.as_deref().unwrap().contains("run two or more"));
    assert!(one.iter().all(|c| c.difference.is_none_or(|e| e.ends().is_none())), "{one:?}");
    assert!(one[0].difference.is_some() && one[1].difference.is_some());
}

/// The promise of the whole: of 100 comparisons of a setting with itself, whose rounds spread
/// widely, few are called real.
#[test]
fn a_setting_compared_with_itself_is_seldom_called_different() {
    for n in [3, 5] {
        let called_real = |of: u64, level: f64| {
            (0..of)
                .filter(|i| {
                    let (a, b) = (
                        rounds(n, 200.0, 0.4, 1_000 + 2 * i),
                        rounds(n, level, 0.4, 1_001 + 2 * i),
                    );
                    let (a, b) = (of_rounds(&a, PhaseKind::Both), of_rounds(&b, PhaseKind::Both));
                    let strip = |side: Vec<(u32, &Phase)>| -> Vec<Trial> {
                        let only = |(round, p): (u32, &Phase)| Trial {
                            setting: Default::default(),
                            round,
                            phases: vec![p.clone()],
                        };
                        side.into_iter().map(only).collect()
                    };
                    let (a, b) = (strip(a), strip(b));
                    let iops = compare(Figure::VictimIops, &a, &b, None).unwrap();
                    assert_eq!(iops.parts(), iops.p.unwrap() < SIGNIFICANT, "interval and p agree");
                    iops.parts()
                })
                .count()
        };
        let real = called_real(100, 200.0);
        assert!(real <= 9, "{n} rounds: {real} of 100");
        // The same rounds beside a setting that is ten times as good.
        let found = called_real(20, 2_000.0);
        assert!(found >= 12, "{n} rounds: {found} of 20");
    }
}

#[test]
fn holm_takes_the_number_of_contenders_into_account() {
    let one = |p| Compared {
        figure: Figure::VictimIops,
        value: None,
        reference: None,
        difference: None,
        p: Some(p),
        p_adjusted: None,
        verdict: Verdict::Unknown,
        why: None,
    };
    let mut all = [one(0.01), one(0.04), one(0.03), one(0.005)];
    adjust(&mut all.iter_mut().collect::<Vec<_>>());
    // Holm's own arithmetic: 4 × 0.005, 3 × 0.01, 2 × 0.03, and never below the one before.
    let adjusted = all.map(|c| c.p_adjusted.unwrap());
    for (found, expected) in adjusted.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
    }
}

#[test]
fn victims_alone_are_compared_where_no_flood_runs() {
    let strip = |trials: Vec<Trial>| -> Vec<Trial> {
        trials
            .into_iter()
            .map(|mut t| {
                t.phases.truncate(1);
                t
            })
            .collect()
    };
    let compared =
        &versus(&strip(rounds(4, 100.0, 0.1, 7)), &[&strip(rounds(4, 100.0, 0.1, 8))])[0];
    let figures: Vec<Figure> = compared.iter().map(|c| c.figure).collect();
    assert_eq!(figures, [Figure::VictimIops, Figure::VictimP99Us]);
}

#[test]
fn a_contender_that_broke_off_is_unknown_with_its_reason() {
    let compared = &versus(&rounds(3, 100.0, 0.1, 9), &[&[]])[0];
    assert!(compared.iter().all(|c| c.verdict == Verdict::Unknown));
    assert_eq!(compared[0].why.as_deref(), Some("phase both was not measured under this setting"));
}

#[test]
fn stood_still_is_a_value_and_not_an_error() {
    let still: Vec<Trial> = rounds(4, 0.0, 0.1, 10);
    let compared = &versus(&rounds(4, 400.0, 0.1, 11), &[&still])[0];
    assert_eq!(verdict(compared, Figure::VictimIops), Verdict::Worse);
    assert_eq!(verdict(compared, Figure::DeadShare), Verdict::Worse);
    assert_eq!(compared[0].value, Some(0.0));
    let back = &versus(&still, &[&rounds(4, 400.0, 0.1, 11)])[0];
    assert_eq!(back[0].verdict, Verdict::Unknown, "there is no ratio to nothing");
}

#[test]
fn p99_agrees_with_the_percentile_of_all_rounds() {
    let trials = rounds(3, 250.0, 0.4, 12);
    let phases = of_rounds(&trials, PhaseKind::Both);
    let mut all = LatencyCounts::default();
    phases.iter().for_each(|(_, p)| all.merge(&p.latencies().operations()));
    let units: Vec<LatencyCounts> =
        phases.iter().map(|(_, p)| p.latencies().operations()).collect();
    let found = Tails::of(&units).unwrap().p99_us;
    assert_eq!(Some(found), crate::quantiles::Percentiles::of(&all).unwrap().p99);
    let shown = versus(&trials, &[&trials]).remove(0);
    let shown = shown.iter().find(|c| c.figure == Figure::VictimP99Us).unwrap();
    assert_eq!(
        (shown.value, shown.reference),
        (Some(found), Some(found)),
        "tables and comparisons agree"
    );
}

/// A comparison with this ratio and interval, in a family of one.
fn judged(figure: Figure, value: f64, low: f64, high: f64, p_adjusted: f64) -> Compared {
    let difference = Some(Estimate { value, low: Some(low), high: Some(high), rounds: 5 });
    let mut compared = Compared {
        figure,
        value: None,
        reference: None,
        difference,
        p: Some(p_adjusted),
        p_adjusted: Some(p_adjusted),
        verdict: Verdict::Unknown,
        why: None,
    };
    judge(&mut compared);
    compared
}

#[test]
fn the_same_takes_an_interval_within_the_margin() {
    let flood = |value, low, high, p| judged(Figure::FloodBytesPerS, value, low, high, p).verdict;
    assert_eq!(flood(1.0, 0.95, 1.05, 0.9), Verdict::Same);
    assert_eq!(flood(0.44, 0.1, 1.9, 0.2), Verdict::Untold, "the demo's bursts");
    assert_eq!(flood(1.0, 0.94, 1.06, 0.9), Verdict::Untold);
    assert_eq!(flood(0.77, 0.7, 0.85, 0.01), Verdict::Worse);
    assert_eq!(flood(1.3, 1.2, 1.4, 0.01), Verdict::Better);
    assert_eq!(flood(0.97, 0.96, 0.98, 0.01), Verdict::Worse, "sure, however little it is");
    let p99 = judged(Figure::VictimP99Us, 0.5, 0.4, 0.6, 0.01);
    assert_eq!(p99.verdict, Verdict::Better);
    let dead = |low, high| judged(Figure::DeadShare, 0.0, low, high, 0.9).verdict;
    assert_eq!((dead(-0.02, 0.02), dead(-0.02, 0.03)), (Verdict::Same, Verdict::Untold));
    let among_many = judged(Figure::FloodBytesPerS, 1.3, 1.2, 1.4, 0.2);
    assert_eq!(among_many.verdict, Verdict::Untold);
    assert!(among_many.why.unwrap().contains("by chance"));
}

#[test]
fn too_few_operations_have_a_slowest_that_is_not_judged_and_no_p99() {
    // A handful of operations in each round against hundreds.
    let few: Vec<Trial> = (1..=3)
        .map(|round| {
            let made = Made {
                alone: 1_000,
                beside: vec![1; 12],
                latency_ns: 3e9 as u64,
                flood: 1,
                burst_s: 1.0,
            };
            trial(round, &made)
        })
        .collect();
    let many = rounds(3, 500.0, 0.1, 2);
    let compared = &versus(&few, &[&many])[0];
    let of = |figure| compared.iter().find(|c| c.figure == figure).unwrap();
    let p99 = of(Figure::VictimP99Us);
    assert!(p99.value.is_some() && p99.reference.is_none() && p99.difference.is_none(), "{p99:?}");
    assert_eq!(p99.why.as_deref(), Some("p99 takes 100 operations, and there were 36"));
    let slowest = of(Figure::VictimSlowestUs);
    assert_eq!((slowest.reference, slowest.verdict), (Some(3e6), Verdict::Unknown));
    assert_eq!(slowest.difference, None);
    let both = &versus(&many, &[&many])[0];
    assert!(
        both.iter().all(|c| c.figure != Figure::VictimSlowestUs),
        "where there is a p99 it stands for the tail"
    );
}
