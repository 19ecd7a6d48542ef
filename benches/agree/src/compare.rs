//! Rounds until the ratios are decided.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use floodwall_stats::estimate::mean_and_variance;
use floodwall_stats::student::critical_t;

use crate::tools::{self, Measured, Tool, Workload};

/// One round: every tool once.
pub(crate) type Round = BTreeMap<String, Measured>;

/// Two figures agree if the interval of their ratio is within this share of 1.
pub(crate) const AGREES: f64 = 0.05;
/// An interval of fewer rounds depends on the luck of its variance.
const LEAST_ROUNDS: usize = 5;

/// How long, and how often at most.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) rounds: u32,
    pub(crate) seconds: u32,
}

/// What the interval of a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is inside ± 5 %.
    Agrees,
    /// It is outside as a whole.
    Differs,
    /// It is neither.
    Undecided,
}

/// A ratio within rounds: geometric mean and 95 % interval (Student's t on the logarithms).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    pub(crate) fn verdict(&self) -> Verdict {
        let (least, most) = (1.0 - AGREES, 1.0 + AGREES);
        if self.low >= least && self.high <= most {
            Verdict::Agrees
        } else if self.high < least || self.low > most {
            Verdict::Differs
        } else {
            Verdict::Undecided
        }
    }
}

/// floodwall's figure over a peer's. Rounds in which either is absent or zero are left out; `None`
/// of fewer than two.
pub(crate) fn ratio(
    rounds: &[Round],
    peer: &str,
    figure: impl Fn(&Measured) -> Option<f64>,
) -> Option<Ratio> {
    let logs: Vec<f64> = rounds
        .iter()
        .filter_map(|r| Some(figure(r.get(Tool::Floodwall.name())?)? / figure(r.get(peer)?)?))
        // A percentile that a peer rounds to zero can't be compared with.
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .map(f64::ln)
        .collect();
    let (mean, variance) = mean_and_variance(&logs)?;
    let n = logs.len() as f64;
    let half = critical_t(0.05, n - 1.0) * (variance / n).sqrt();
    Some(Ratio { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// Whether more rounds are needed to tell if the operations a second agree.
pub(crate) fn decided(rounds: &[Round]) -> bool {
    rounds.len() >= LEAST_ROUNDS
        && [Tool::Fio, Tool::Sysbench].into_iter().all(|peer| {
            let ratio = ratio(rounds, peer.name(), |m| Some(m.iops));
            ratio.is_some_and(|r| r.verdict() != Verdict::Undecided)
        })
}

/// Runs all tools in every round, each round beginning with another.
pub(crate) fn rounds(
    floodwall: &Path,
    dir: &Path,
    workload: Workload,
    limits: Limits,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Round>> {
    let mut all: Vec<Round> = Vec::new();
    for round in 0..limits.rounds as usize {
        let mut results = Round::new();
        for i in 0..Tool::ALL.len() {
            let tool = Tool::ALL[(i + round) % Tool::ALL.len()];
            eprintln!(
                "{} {workload}: round {} of at most {}",
                tool.name(),
                round + 1,
                limits.rounds
            );
            let measured = tools::measure(tool, floodwall, dir, workload, limits.seconds, stop)?;
            results.insert(tool.name().to_owned(), measured);
        }
        all.push(results);
        if decided(&all) {
            break;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(ours: f64, fio: f64, sysbench: f64) -> Round {
        let of = |iops| Measured { iops, ..Measured::default() };
        [("floodwall", ours), ("fio", fio), ("sysbench", sysbench)]
            .map(|(t, v)| (t.to_owned(), of(v)))
            .into()
    }

    #[test]
    fn the_interval_of_a_ratio_is_students() {
        let rounds: Vec<Round> =
            [1.00, 1.02, 0.98, 1.04].map(|r| round(r * 500.0, 500.0, 1.0)).into();
        let ratio = ratio(&rounds, "fio", |m| Some(m.iops)).unwrap();
        // By hand: logarithms 0, 0.019803, -0.020203, 0.039221; mean 0.009705, s 0.025572, t(3)
        // 3.182446.
        assert!((ratio.value - 1.009752).abs() < 1e-5, "{ratio:?}");
        assert!(
            (ratio.low - 0.969489).abs() < 1e-4 && (ratio.high - 1.051688).abs() < 1e-4,
            "{ratio:?}"
        );
    }

    #[test]
    fn rounds_go_on_until_both_peers_are_decided() {
        let near: Vec<Round> =
            [1.00, 1.01, 0.99, 1.0, 1.01].map(|r| round(r * 500.0, 500.0, 505.0)).into();
        assert!(decided(&near));
        assert!(!decided(&near[..4]), "too few rounds");
        let far: Vec<Round> =
            [1.30, 1.31, 1.29, 1.3, 1.31].map(|r| round(r * 500.0, 500.0, 600.0)).into();
        assert!(decided(&far), "a difference is a decision");
        let mixed: Vec<Round> =
            [1.0, 1.2, 0.9, 1.1, 1.0].map(|r| round(r * 500.0, 500.0, 500.0)).into();
        assert!(!decided(&mixed));
    }

    #[test]
    fn a_figure_that_a_peer_lacks_or_rounds_to_zero_has_no_ratio() {
        let rounds: Vec<Round> = vec![round(1.0, 0.0, 1.0); 5];
        assert_eq!(ratio(&rounds, "fio", |m| Some(m.iops)), None);
        assert_eq!(ratio(&rounds, "sysbench", |m| m.sync_p99_us), None);
    }
}
