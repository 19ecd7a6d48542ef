use super::*;
use crate::synthetic::estimate;

fn compared(
    figure: Figure,
    reference: f64,
    value: f64,
    ratio: Option<f64>,
    verdict: Verdict,
) -> Compared {
    let difference = ratio.map(|r| estimate(r, (0.9 * r).min(1.1 * r), (0.9 * r).max(1.1 * r)));
    Compared {
        figure,
        value: Some(value),
        reference: Some(reference),
        difference,
        p: Some(0.01),
        p_adjusted: Some(0.01),
        verdict,
        why: None,
    }
}

#[test]
fn the_gain_and_its_price() {
    let all = [
        compared(Figure::VictimIops, 33.0, 700.0, Some(21.2), Verdict::Better),
        compared(Figure::VictimP99Us, 1.4e6, 31e3, Some(0.022), Verdict::Better),
        compared(Figure::FloodBytesPerS, 251e6, 221e6, Some(0.88), Verdict::Worse),
        compared(Figure::BurstBytesPerS, 2e9, 2e9, Some(1.0), Verdict::Same),
        compared(Figure::DeadShare, 1.0, 0.0, Some(-1.0), Verdict::Better),
    ];
    assert_eq!(
        gains(&all, "commits"),
        "p99 from 1.40 s to 31.0 ms, 21.2× the commits, stalled seconds 0 % of the time instead of \
         100 %"
    );
    assert_eq!(price(&all), "the flood runs at 88 %, bursts are accepted at 100 % (the same)");
}

#[test]
fn what_could_not_be_told_says_so_with_its_interval() {
    let all = [
        compared(Figure::VictimIops, 33.0, 66.0, Some(2.0), Verdict::Untold),
        compared(Figure::VictimP99Us, 1.4e6, 31e3, Some(0.5), Verdict::Untold),
        compared(Figure::FloodBytesPerS, 251e6, 655e6, Some(2.61), Verdict::Untold),
        compared(Figure::DeadShare, 0.2, 0.1, Some(-0.1), Verdict::Untold),
    ];
    assert_eq!(
        gains(&all, "commits"),
        "p99 from 1.40 s to 31.0 ms (could not be told: 45 – 55 %), 2× the commits (could not be \
         told: 1.80 – 2.20×), \
         stalled seconds 10 % of the time instead of 20 % (could not be told: −11 to −9.0 points)"
    );
    assert_eq!(price(&all), "the flood runs at 261 % (could not be told: 235 – 287 %)");
}

#[test]
fn too_few_operations_have_a_slowest_and_no_p99() {
    let p99 = Compared {
        reference: None,
        ..compared(Figure::VictimP99Us, 0.0, 25e3, None, Verdict::Unknown)
    };
    let slowest = Compared {
        why: Some("fewer than 100".into()),
        ..compared(Figure::VictimSlowestUs, 8.5e6, 0.31e6, None, Verdict::Unknown)
    };
    assert_eq!(gains(&[p99, slowest], "commits"), "slowest from 8.50 s to 310 ms");
}

#[test]
fn a_price_that_is_not_known_leaves_no_semicolon() {
    let gain = compared(Figure::VictimIops, 33.0, 700.0, Some(21.2), Verdict::Better);
    let cost = compared(Figure::FloodBytesPerS, 251e6, 221e6, Some(0.88), Verdict::Worse);
    assert_eq!(
        gain_and_price(&[gain.clone(), cost.clone()], "commits"),
        ": 21.2× the commits; the flood runs at 88 %"
    );
    assert_eq!(gain_and_price(&[gain], "commits"), ": 21.2× the commits");
    assert_eq!(gain_and_price(&[cost], "commits"), ": the flood runs at 88 %");
    assert_eq!(gain_and_price(&[], "commits"), "");
}

#[test]
fn a_target_that_is_missed_is_said_with_the_best_that_can() {
    let p99 = |us| Tail { kind: TailKind::P99, us };
    let reached = |ours: Option<f64>, least| Reached { ours: ours.map(p99), least };
    let other = |us| Some((p99(us), "bfq".to_owned()));
    assert_eq!(
        target(20e3, &reached(Some(31e3), other(33e3))),
        " The target of 20.0 ms can't be met here: 31.0 ms is the best that was found."
    );
    assert_eq!(
        target(20e3, &reached(Some(31e3), other(25e3))),
        " The target of 20.0 ms can't be met here: 25.0 ms is the best that was found, with bfq."
    );
    assert!(
        target(20e3, &reached(Some(31e3), other(15e3)))
            .contains("misses the target of 20.0 ms with 31.0 ms")
    );
    assert_eq!(target(40e3, &reached(Some(31e3), other(33e3))), "");
    assert_eq!(target(40e3, &reached(None, None)), "");
    let slowest = Reached { ours: Some(Tail { kind: TailKind::Slowest, us: 31e3 }), least: None };
    assert_eq!(
        target(20e3, &slowest),
        " The target of 20.0 ms can't be met here: 31.0 ms (the slowest of too few for a p99) is \
         the best that was found."
    );
}

#[test]
fn a_victim_that_stood_still_has_no_multiple() {
    let all = [compared(Figure::VictimIops, 0.2, 700.0, None, Verdict::Better)];
    assert_eq!(gains(&all, "commits"), "commits from 0.20/s to 700/s");
}
