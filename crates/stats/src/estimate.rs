//! Figures with their 95 % intervals, from a few rounds of correlated seconds.
//!
//! ```text
//! rounds ─▶ rate = all amounts / all seconds ─▶ ratio of two rates, on a log scale
//!   ─▶ ± t × error ─▶ Estimate
//! rounds' residuals ──────────────┬─ the larger ─▶ error
//! residuals of blocks of seconds ─┘
//! ```
//!
//! **Means, not medians.** A figure is a mean over all seconds of all rounds: what a user of a
//! device with a good and a bad state gets. The median over rounds depends on how long a round is,
//! and its interval takes six rounds to reach 95 % at all.
//!
//! **t on log ratios.** The residual of a round is its share of all amounts less its share of all
//! seconds (the ratio estimator: Cochran 1977, §6.4). Residuals of rounds in which both phases of a
//! ratio ran are subtracted, so that what a round's phases share cancels; other ratios add their
//! variances (Welch 1947). Student's t with rounds − 1 degrees of freedom makes the interval as
//! wide as so few rounds require. That is 12.7 errors for 2 rounds, 4.3 for 3, 2.8 for 5. The scale
//! is logarithmic, so that no end is below 0 and the interval of the inverse is the inverse
//! interval.
//!
//! **Rounds that agree by chance.** Seconds vary too: the error is at least what blocks of
//! neighbouring seconds within the rounds give. A block holds n^(1/3) seconds, at least 2 (Künsch
//! 1989; Hall, Horowitz & Jing 1995), because stalls last.
//!
//! **One round has no interval**: it does not tell how much rounds differ.
//!
//! References: W. G. Cochran, Sampling Techniques, 3rd ed. (1977); B. L. Welch, Biometrika 34
//! (1947) 28; H. R. Künsch, Ann. Statist. 17 (1989) 1217; P. Hall, J. L. Horowitz & B.-Y. Jing,
//! Biometrika 82 (1995) 561.

use serde::{Deserialize, Serialize};

use crate::share;
use crate::student::{critical_t, two_sided_p};
use crate::variance::variance_of_sum;

/// Chance that an interval misses the truth: 5 %, half at each end.
pub const MISS: f64 = 0.05;

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Estimate {
    /// The figure itself.
    pub value: f64,
    /// Lower end of the 95 % interval; `None` of one round, which has no interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval; `None` of one round.
    pub high: Option<f64>,
    /// Rounds behind it; of a ratio the fewer of both sides.
    pub rounds: u32,
}

/// As stored, before it is known to be whole.
#[derive(Deserialize)]
struct Stored {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    rounds: u32,
}

impl TryFrom<Stored> for Estimate {
    type Error = &'static str;

    fn try_from(Stored { value, low, high, rounds }: Stored) -> Result<Self, Self::Error> {
        if low.is_some() != high.is_some() {
            return Err("an interval has two ends or none: the text was changed");
        }
        Ok(Self { value, low, high, rounds })
    }
}

impl Estimate {
    /// With an interval, or without one. An end that is not finite is no end. The interval holds
    /// the value.
    pub(crate) fn new(value: f64, ends: Option<(f64, f64)>, rounds: usize) -> Self {
        let ends = ends.filter(|(low, high)| low.is_finite() && high.is_finite());
        Self {
            value,
            low: ends.map(|(low, _)| low.min(value)),
            high: ends.map(|(_, high)| high.max(value)),
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        }
    }

    /// Both ends of the 95 % interval, if it exists.
    #[must_use]
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

/// One round of a series: amounts (operations, bytes) and the seconds that each took, in order.
#[derive(Clone, Debug, Default)]
pub struct Round {
    windows: Vec<(f64, f64)>,
}

impl Round {
    /// From `(amount, seconds)` of each window, in order.
    #[must_use]
    pub fn new(windows: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { windows: windows.into_iter().collect() }
    }

    /// Sum of amounts and of seconds.
    pub(crate) fn sums(&self) -> (f64, f64) {
        self.windows.iter().fold((0.0, 0.0), |sum, window| (sum.0 + window.0, sum.1 + window.1))
    }

    /// Amount per second; `None` without any time.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        rate(self.sums())
    }

    /// Variance of the sum of amounts about this round's own rate, from blocks of neighbouring
    /// windows; 0 of a single block.
    fn variance_within(&self) -> f64 {
        let own = self.rate().unwrap_or(0.0);
        let residual = |block: &[(f64, f64)]| {
            block.iter().map(|(amount, seconds)| amount - own * seconds).sum()
        };
        variance_of_sum(
            &self
                .windows
                .chunks(block_length(self.windows.len()))
                .map(residual)
                .collect::<Vec<_>>(),
        )
    }
}

fn rate((amount, seconds): (f64, f64)) -> Option<f64> {
    (seconds > 0.0).then_some(amount / seconds)
}

/// n^(1/3), at least 2.
pub(crate) fn block_length(n: usize) -> usize {
    ((n as f64).cbrt().round() as usize).max(2)
}

/// How the rounds of a numerator and a denominator belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Round i of one ran beside round i of the other, so that both share what that round was like.
    Rounds,
    /// They have nothing to do with each other.
    Independent,
}

/// All amounts over all seconds; `None` without any time.
#[must_use]
pub fn mean_rate(rounds: &[Round]) -> Option<f64> {
    rate(total(rounds))
}

fn total(rounds: &[Round]) -> (f64, f64) {
    rounds.iter().map(Round::sums).fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1))
}

/// The ratio of two mean rates with its interval.
///
/// `None` when there is no such ratio: no rounds, no time, or a denominator of zero.
#[must_use]
pub fn ratio_of_rates(
    numerator: &[Round],
    denominator: &[Round],
    pairing: Pairing,
) -> Option<Estimate> {
    Ratio::of(numerator, denominator, pairing).map(|ratio| ratio.estimate())
}

/// The mean rate with its interval; `None` without any time.
#[must_use]
pub fn estimated_rate(rounds: &[Round]) -> Option<Estimate> {
    rate_of(rounds).map(|rate| rate.estimate())
}

/// A mean rate and its error; `None` without any time.
pub(crate) fn rate_of(rounds: &[Round]) -> Option<Ratio> {
    // Each round beside one that is exact: the same seconds at one unit a second.
    let exact = |round: &Round| Round::new([(round.sums().1, round.sums().1)]);
    Ratio::of(rounds, &rounds.iter().map(exact).collect::<Vec<_>>(), Pairing::Rounds)
}

/// A ratio of two mean rates and its error, as far as known.
pub(crate) struct Ratio {
    pub(crate) value: f64,
    rounds: usize,
    error: Error,
}

enum Error {
    /// A side of one round: unknown.
    OneRound,
    /// Standard error of the ratio's logarithm, and degrees of freedom.
    Log(f64, f64),
    /// No operation in any round has no logarithm: rounds and seconds in which there was none.
    Nothing(usize, f64),
}

impl Ratio {
    /// `None` when there is no such ratio: no rounds, no time, or a denominator of zero.
    pub(crate) fn of(numerator: &[Round], denominator: &[Round], pairing: Pairing) -> Option<Self> {
        let below = mean_rate(denominator).filter(|rate| *rate > 0.0)?;
        let value = mean_rate(numerator)? / below;
        let rounds = numerator.len().min(denominator.len());
        let error = match (rounds, value) {
            (..2, _) => Error::OneRound,
            (_, 0.0) => Error::Nothing(numerator.len(), total(numerator).1),
            _ => {
                let (squared, freedom) = log_variance(numerator, denominator, pairing);
                Error::Log(squared.sqrt(), freedom)
            }
        };
        Some(Self { value, rounds, error })
    }

    /// With its 95 % interval.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate::new(self.value, self.ends(MISS), self.rounds)
    }

    /// The ends of the interval that misses the truth with a chance of `miss`; `None` of one round.
    pub(crate) fn ends(&self, miss: f64) -> Option<(f64, f64)> {
        match self.error {
            Error::OneRound => None,
            Error::Log(error, freedom) => {
                let factor = (critical_t(miss, freedom) * error).exp();
                Some((self.value / factor, self.value * factor))
            }
            // At most this share of the time something could happen, and at the denominator's rate.
            Error::Nothing(rounds, seconds) => {
                Some((0.0, share::of_nothing(rounds, seconds, miss)))
            }
        }
    }

    /// How likely a ratio this far from 1 is by chance; `None` of one round.
    pub(crate) fn p(&self) -> Option<f64> {
        match self.error {
            Error::OneRound => None,
            Error::Log(..) if self.value == 1.0 => Some(1.0),
            Error::Log(error, freedom) => Some(two_sided_p(self.value.ln() / error, freedom)),
            Error::Nothing(..) => p_of(1.0, |miss| self.ends(miss)),
        }
    }
}

/// Variance of the logarithm of the ratio, and its degrees of freedom. Two rounds or more on each
/// side.
fn log_variance(numerator: &[Round], denominator: &[Round], pairing: Pairing) -> (f64, f64) {
    let sides = [numerator, denominator].map(|rounds| {
        let (amount, seconds) = total(rounds);
        let residual = |round: &Round| round.sums().0 / amount - round.sums().1 / seconds;
        let within: f64 = rounds.iter().map(Round::variance_within).sum();
        (rounds.iter().map(residual).collect::<Vec<f64>>(), within / (amount * amount))
    });
    let [(above, above_within), (below, below_within)] = sides;
    let freedom = |rounds: usize| (rounds - 1) as f64;
    if pairing == Pairing::Rounds && above.len() == below.len() {
        let between: Vec<f64> = above.iter().zip(&below).map(|(a, b)| a - b).collect();
        return (variance_of_sum(&between).max(above_within + below_within), freedom(above.len()));
    }
    let (a, b) =
        (variance_of_sum(&above).max(above_within), variance_of_sum(&below).max(below_within));
    (a + b, welch_freedom((a, above.len()), (b, below.len())))
}

/// Degrees of freedom of a sum of two variances, each of two rounds or more (Welch 1947).
fn welch_freedom((a, rounds_a): (f64, usize), (b, rounds_b): (f64, usize)) -> f64 {
    let (of_a, of_b) = ((rounds_a - 1) as f64, (rounds_b - 1) as f64);
    let freedom = (a + b).powi(2) / (a * a / of_a + b * b / of_b);
    if freedom.is_finite() { freedom } else { of_a + of_b }
}

/// Mean difference of two sets of values, its standard error and degrees of freedom; `None` of
/// fewer than two on a side.
pub(crate) fn mean_difference(x: &[f64], y: &[f64], pairing: Pairing) -> Option<(f64, f64, f64)> {
    if pairing == Pairing::Rounds && x.len() == y.len() {
        let differences: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - y).collect();
        let (mean, variance) = mean_and_variance(&differences)?;
        return Some((mean, (variance / x.len() as f64).sqrt(), (x.len() - 1) as f64));
    }
    let ((mean_x, x_variance), (mean_y, y_variance)) =
        (mean_and_variance(x)?, mean_and_variance(y)?);
    let (a, b) = (x_variance / x.len() as f64, y_variance / y.len() as f64);
    Some((mean_x - mean_y, (a + b).sqrt(), welch_freedom((a, x.len()), (b, y.len()))))
}

/// Mean and unbiased variance; `None` of fewer than two values.
#[must_use]
pub fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    Some((mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64))
}

/// Halvings of the logarithm of p: good to 0.4 %.
const HALVINGS: u32 = 12;

/// How likely a figure this far from `null` is by chance: the chance of a miss at which its
/// interval just reaches `null`. `None` without an interval.
pub(crate) fn p_of(null: f64, ends: impl Fn(f64) -> Option<(f64, f64)>) -> Option<f64> {
    let holds = |miss: f64| ends(miss).map(|(low, high)| low <= null && null <= high);
    // Which side of the 95 % interval p is on must be exact; its value need not be.
    let (mut low, mut high) =
        if holds(MISS)? { (MISS.ln(), 0.0) } else { (1e-6f64.ln(), MISS.ln()) };
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if holds(middle.exp())? { low = middle } else { high = middle }
    }
    Some(if high > MISS.ln() { high.exp() } else { low.exp() })
}

/// The median; the mean of the middle two for an even number; `None` of nothing.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let upper = *values.get(n / 2)?;
    Some(if n % 2 == 1 { upper } else { f64::midpoint(values[n / 2 - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(rounds: usize, amount: f64) -> Vec<Round> {
        vec![Round::new(vec![(amount, 1.0); 12]); rounds]
    }

    /// Rounds of 12 equal seconds.
    fn levels(amounts: &[f64]) -> Vec<Round> {
        amounts.iter().map(|amount| Round::new(vec![(*amount, 1.0); 12])).collect()
    }

    #[test]
    fn constants_have_no_spread() {
        for pairing in [Pairing::Rounds, Pairing::Independent] {
            let e = ratio_of_rates(&constant(5, 30.0), &constant(5, 120.0), pairing).unwrap();
            assert_eq!(e, Estimate { value: 0.25, low: Some(0.25), high: Some(0.25), rounds: 5 });
        }
    }

    #[test]
    fn a_figure_is_the_mean_over_all_seconds() {
        let e = ratio_of_rates(&levels(&[0.0, 0.0, 300.0]), &constant(3, 100.0), Pairing::Rounds)
            .unwrap();
        assert_eq!(e.value, 1.0);
        assert_eq!(
            mean_rate(&[Round::new([(100.0, 1.0), (0.0, 3.0)])]),
            Some(25.0),
            "windows weigh by length"
        );
        assert_eq!(median(vec![4.0, 1.0, 3.0]), Some(3.0));
    }

    /// The textbook's interval: t × the standard error of the mean, as a factor.
    #[test]
    fn the_interval_is_t_errors_wide() {
        for (amounts, t) in [(&[90.0, 110.0][..], 12.706), (&[90.0, 100.0, 110.0][..], 4.303)] {
            let e =
                ratio_of_rates(&levels(amounts), &constant(amounts.len(), 100.0), Pairing::Rounds)
                    .unwrap();
            let n = amounts.len() as f64;
            let squares: f64 = amounts.iter().map(|a| (a / 100.0 - 1.0f64).powi(2)).sum();
            let factor = (t * (squares / (n - 1.0) / n).sqrt()).exp();
            let (low, high) = e.ends().unwrap();
            assert!(
                (high / factor - 1.0).abs() < 1e-3 && (low * factor - 1.0).abs() < 1e-3,
                "{e:?} {factor}"
            );
        }
    }

    #[test]
    fn one_round_has_no_interval() {
        let e = ratio_of_rates(&constant(1, 10.0), &constant(1, 100.0), Pairing::Rounds).unwrap();
        assert_eq!(e, Estimate { value: 0.1, low: None, high: None, rounds: 1 });
        let e =
            ratio_of_rates(&constant(5, 10.0), &constant(1, 100.0), Pairing::Independent).unwrap();
        assert_eq!((e.ends(), e.rounds), (None, 1));
        assert_eq!(
            Ratio::of(&constant(1, 10.0), &constant(1, 100.0), Pairing::Rounds).unwrap().p(),
            None
        );
    }

    #[test]
    fn a_denominator_of_zero_has_no_ratio() {
        let (some, none) = (constant(3, 10.0), constant(3, 0.0));
        assert_eq!(ratio_of_rates(&some, &none, Pairing::Rounds), None);
        assert_eq!(ratio_of_rates(&none, &none, Pairing::Rounds), None);
        assert_eq!(ratio_of_rates(&some, &[], Pairing::Independent), None);
        assert_eq!(ratio_of_rates(&some, &[Round::new([])], Pairing::Independent), None);
    }

    #[test]
    fn nothing_in_every_round_may_still_be_something() {
        let of = |rounds| {
            ratio_of_rates(&constant(rounds, 0.0), &constant(rounds, 10.0), Pairing::Rounds)
        };
        let (few, many) = (of(2).unwrap(), of(10).unwrap());
        assert!(few.value == 0.0 && few.low == Some(0.0) && few.high.unwrap() > 0.99, "{few:?}");
        assert!(many.low == Some(0.0) && (0.1..0.3).contains(&many.high.unwrap()), "{many:?}");
        let ratio = Ratio::of(&constant(10, 0.0), &constant(10, 10.0), Pairing::Rounds).unwrap();
        assert!(ratio.p().unwrap() < 1e-4, "{:?}", ratio.p());
    }

    #[test]
    fn rounds_that_agree_by_chance_are_no_surer_than_their_seconds() {
        let uneven = || Round::new((0..12).map(|i| (f64::from(i / 4) * 100.0, 1.0)));
        let e =
            ratio_of_rates(&[uneven(), uneven()], &constant(2, 100.0), Pairing::Rounds).unwrap();
        let (low, high) = e.ends().unwrap();
        assert!(low < 0.2 && high > 5.0, "{e:?}");
    }

    #[test]
    fn rounds_that_share_their_luck_give_a_narrower_interval_when_paired() {
        let luck = [0.5, 0.8, 1.0, 1.3, 1.7, 2.0];
        let rounds = |amount: f64| levels(&luck.map(|l| amount * l));
        let (beside, alone) = (rounds(10.0), rounds(100.0));
        let paired = ratio_of_rates(&beside, &alone, Pairing::Rounds).unwrap();
        let independent = ratio_of_rates(&beside, &alone, Pairing::Independent).unwrap();
        assert!((paired.high.unwrap() - paired.low.unwrap()).abs() < 1e-12);
        assert!(independent.high.unwrap() - independent.low.unwrap() > 0.05);
    }

    #[test]
    fn p_is_the_miss_at_which_the_interval_reaches_no_difference() {
        let (above, below) =
            (levels(&[90.0, 130.0, 120.0, 140.0]), levels(&[100.0, 105.0, 95.0, 90.0]));
        for pairing in [Pairing::Rounds, Pairing::Independent] {
            let ratio = Ratio::of(&above, &below, pairing).unwrap();
            let p = ratio.p().unwrap();
            let searched = p_of(1.0, |miss| ratio.ends(miss)).unwrap();
            assert!((p / searched - 1.0).abs() < 0.01, "{p} {searched}");
            let back = Ratio::of(&below, &above, pairing).unwrap();
            assert!((back.p().unwrap() - p).abs() < 1e-9, "the same of the inverse");
        }
        assert_eq!(p_of(1.0, |_| None), None);
        assert_eq!(p_of(1.0, |_| Some((1.0, 1.0))), Some(1.0));
    }

    #[test]
    fn blocks_are_a_few_seconds_long() {
        assert_eq!([1, 2, 8, 12, 27, 60].map(block_length), [2, 2, 2, 2, 3, 4]);
        // Alternating seconds: every block of two has the same sum, single seconds would not.
        let alternating = Round::new((0..12).map(|i| (f64::from(i % 2), 1.0)));
        assert_eq!(alternating.variance_within(), 0.0);
    }
}
