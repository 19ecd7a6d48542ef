//! Intervals of shares of time, which may be 0 or 1 in every round.
//!
//! ```text
//! (part, whole) of each round ─▶ share, variance between rounds
//!   ─▶ effective number of independent pieces ─▶ exact binomial interval
//! ```
//!
//! A share of 0 has no logarithm, and rounds that are all alike have no variance. The interval is
//! that of Korn and Graubard (1998), made for rare things in few clusters. It is the exact binomial
//! interval (Clopper & Pearson 1934) of as many independent pieces as would vary as much as the
//! rounds do. The number of pieces is reduced for the uncertainty of so few rounds, by the squared
//! ratio of the t quantiles of pieces and of rounds.
//!
//! There are never more pieces than rounds hold stretches of [`STRETCH_S`] seconds: neighbouring
//! seconds of a stall are one event. So 5 rounds of 12 s without a dead second leave up to 39 %
//! possible, and 10 rounds of 20 s up to 11 %.
//!
//! References: E. L. Korn & B. I. Graubard, Survey Methodology 24 (1998) 193; C. J. Clopper & E. S.
//! Pearson, Biometrika 26 (1934) 404; G. Y. Zou & A. Donner, Stat. Med. 27 (2008) 1693.

use crate::student::{beta_quantile, critical_t};
use crate::variance::variance_of_sum;

/// Seconds that may all be in the same state: the kernel's flusher and ext4's journal wake up every
/// 5 s, and devices empty their caches in between.
pub(crate) const STRETCH_S: f64 = 5.0;

/// Share `part` / `whole` over all rounds, each in seconds; `None` without any time.
pub(crate) fn share(rounds: &[(f64, f64)]) -> Option<f64> {
    let (part, whole) = sums(rounds);
    (whole > 0.0).then(|| part / whole)
}

fn sums(rounds: &[(f64, f64)]) -> (f64, f64) {
    rounds.iter().fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1))
}

/// The ends of the interval of [`share`] that misses the truth with a chance of `miss`; `None` of
/// one round.
pub(crate) fn ends(rounds: &[(f64, f64)], miss: f64) -> Option<(f64, f64)> {
    let share = share(rounds).filter(|_| rounds.len() > 1)?;
    let whole = sums(rounds).1;
    let most = pieces(rounds.len(), whole);
    let residuals: Vec<f64> =
        rounds.iter().map(|(part, all)| (part - share * all) / whole).collect();
    let alike = share * (1.0 - share) / variance_of_sum(&residuals);
    // Rounds that are all alike have no variance.
    let pieces = if alike.is_finite() { alike.min(most) } else { most };
    Some(binomial(share, pieces * certain(rounds.len(), most, miss), miss))
}

/// Upper end of the interval of a share that is 0 in so many rounds of so many seconds together.
pub(crate) fn of_nothing(rounds: usize, seconds: f64, miss: f64) -> f64 {
    let most = pieces(rounds, seconds);
    binomial(0.0, most * certain(rounds, most, miss), miss).1
}

/// Independent pieces in so many rounds, at the most: stretches, and a round is one at least.
fn pieces(rounds: usize, seconds: f64) -> f64 {
    (seconds / STRETCH_S).max(rounds as f64)
}

/// Share of the pieces that counts, because their number comes from few rounds.
fn certain(rounds: usize, most: f64, miss: f64) -> f64 {
    (critical_t(miss, most - 1.0) / critical_t(miss, (rounds - 1) as f64)).powi(2)
}

/// Clopper and Pearson's interval of a share among `pieces`, which need not be a whole number.
fn binomial(share: f64, pieces: f64, miss: f64) -> (f64, f64) {
    let (part, rest) = (share * pieces, (1.0 - share) * pieces);
    let low = if part > 0.0 { beta_quantile(miss / 2.0, part, rest + 1.0) } else { 0.0 };
    let high = if rest > 0.0 { beta_quantile(1.0 - miss / 2.0, part + 1.0, rest) } else { 1.0 };
    (low, high)
}

/// The interval of the difference of two figures from the figures and their own intervals, taken as
/// independent (Zou & Donner 2008). Rounds that share their luck make it narrower than that, never
/// wider.
pub(crate) fn difference(a: f64, of_a: (f64, f64), b: f64, of_b: (f64, f64)) -> (f64, f64) {
    let low = ((a - of_a.0).powi(2) + (of_b.1 - b).powi(2)).sqrt();
    let high = ((of_a.1 - a).powi(2) + (b - of_b.0).powi(2)).sqrt();
    (a - b - low, a - b + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_pieces_have_the_published_binomial_intervals() {
        // Clopper & Pearson's charts; the closed form for none of n is 1 − 0.025^(1/n).
        let (low, high) = binomial(0.1, 10.0, 0.05);
        assert!((low - 0.002_529).abs() < 1e-5 && (high - 0.445_016).abs() < 1e-5, "{low} {high}");
        let (low, high) = binomial(0.0, 10.0, 0.05);
        assert!(low == 0.0 && (high - (1.0 - 0.025f64.powf(0.1))).abs() < 1e-9, "{high}");
        assert_eq!(binomial(1.0, 10.0, 0.05).1, 1.0);
    }

    #[test]
    fn rounds_without_a_single_dead_second_leave_some_possible() {
        let none = |rounds: usize, seconds: f64| ends(&vec![(0.0, seconds); rounds], 0.05).unwrap();
        for (rounds, seconds, most) in [(5, 12.0, 0.39), (10, 20.0, 0.11), (2, 12.0, 1.0)] {
            let (low, high) = none(rounds, seconds);
            assert!(low == 0.0 && (high - most).abs() < 0.01, "{rounds} rounds: {high}");
            assert!((of_nothing(rounds, rounds as f64 * seconds, 0.05) - high).abs() < 1e-12);
            let all = ends(&vec![(seconds, seconds); rounds], 0.05).unwrap();
            assert!((1.0 - all.0 - high).abs() < 1e-9 && all.1 == 1.0, "{all:?}");
        }
        assert_eq!(ends(&[(0.0, 12.0)], 0.05), None, "one round");
        assert_eq!(ends(&[(0.0, 0.0); 3], 0.05), None, "no time");
    }

    #[test]
    fn the_interval_of_a_difference_leans_on_both() {
        let (low, high) = difference(0.9, (0.6, 1.0), 0.1, (0.1, 0.5));
        assert!((low - 0.3).abs() < 1e-12 && (high - 0.9).abs() < 1e-12, "{low} {high}");
    }
}
