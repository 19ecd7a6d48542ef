//! A figure of the guard as a share of a setting's, and what its interval says of a goal.

use floodwall_stats::estimate::mean_and_variance;
use floodwall_stats::student::critical_t;

use super::script::Run;

/// How often an interval misses.
const MISSES: f64 = 0.05;
/// A share of nothing has no logarithm: less than this counts as this.
const LEAST: f64 = 1e-3;

/// A figure that differs from machine to machine.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    pub(super) mean: f64,
    /// Standard error.
    error: f64,
}

impl Mean {
    pub(super) fn of(values: &[f64]) -> Self {
        let (mean, variance) = mean_and_variance(values).unwrap_or((f64::NAN, f64::NAN));
        Self { mean, error: (variance / values.len() as f64).sqrt() }
    }

    /// In percent with its standard error.
    pub(super) fn percent(self) -> String {
        format!("{} ± {}", show(self.mean), show(self.error))
    }
}

/// A figure as a share of another one, with its 95 % interval.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) share: f64,
    low: f64,
    pub(super) high: f64,
}

/// What an interval says of a goal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Reached,
    NotReached,
    CouldNotBeTold,
}

impl Share {
    /// The mean of the machines' logarithms of guard over other, with Student's t over the
    /// machines.
    pub(super) fn of_logs(logs: &[f64]) -> Self {
        let Mean { mean, error } = Mean::of(logs);
        let width = critical_t(MISSES, logs.len().saturating_sub(1) as f64) * error;
        Self { share: mean.exp(), low: (mean - width).exp(), high: (mean + width).exp() }
    }

    /// The guard's of another's, machine by machine.
    pub(super) fn of_runs(guard: &[Run], other: &[Run], of: fn(&Run) -> f64) -> Self {
        let log = |(guard, other): (&Run, &Run)| (of(guard).max(LEAST) / of(other).max(LEAST)).ln();
        Self::of_logs(&guard.iter().zip(other).map(log).collect::<Vec<_>>())
    }

    pub(super) fn verdict(self, least: f64) -> Verdict {
        match self {
            s if s.low >= least => Verdict::Reached,
            s if s.high < least => Verdict::NotReached,
            _ => Verdict::CouldNotBeTold,
        }
    }

    pub(super) fn percent(self) -> String {
        format!("{:.0} ({:.0} to {:.0}) %", self.share * 100.0, self.low * 100.0, self.high * 100.0)
    }
}

/// The verdict on several goals together.
pub(super) fn all(verdicts: &[Verdict]) -> Verdict {
    if verdicts.contains(&Verdict::NotReached) {
        return Verdict::NotReached;
    }
    if verdicts.contains(&Verdict::CouldNotBeTold) {
        Verdict::CouldNotBeTold
    } else {
        Verdict::Reached
    }
}

pub(super) fn known(is_reached: bool) -> Verdict {
    if is_reached { Verdict::Reached } else { Verdict::NotReached }
}

/// A share in percent.
fn show(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{p:.0}"),
        p => format!("{p:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_by_a_whole_interval_and_missed_by_a_whole_interval() {
        let verdict = |logs: &[f64]| Share::of_logs(logs).verdict(0.9);
        assert!(verdict(&[0.0, 0.01, -0.01, 0.02]) == Verdict::Reached);
        assert!(verdict(&[-0.5, -0.51, -0.49, -0.5]) == Verdict::NotReached);
        assert!(verdict(&[0.5, -0.5, 0.6, -0.4]) == Verdict::CouldNotBeTold);
        // By hand: mean 0, standard deviation √0.02, t of 1 degree of freedom 12.706.
        let share = Share::of_logs(&[0.1, -0.1]);
        assert!((share.high.ln() - 12.706 * 0.1).abs() < 1e-3 && (share.share - 1.0).abs() < 1e-12);
    }
}
