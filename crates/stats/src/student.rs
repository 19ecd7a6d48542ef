//! Student's t distribution: the probability that a difference between a few rounds is chance.
//!
//! Two-sided p = I(ν / (ν + t²); ν/2, 1/2), the regularised incomplete beta function (Abramowitz &
//! Stegun 1964, 26.7.1). Its continued fraction (ibid. 26.5.8) is evaluated by Lentz' method
//! (Thompson & Barnett 1986).

/// Terms of the continued fraction; it converges in a few dozen for every ν that rounds can have.
const TERMS: u32 = 300;
/// Relative precision at which it ends.
const PRECISION: f64 = 1e-14;
/// Stands for a denominator of zero in Lentz' method.
const TINY: f64 = 1e-300;

/// The probability that a |t| at least this large is chance, with `freedom` degrees of freedom
/// (above 0). It is 1 for NaN.
#[must_use]
pub fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5).clamp(0.0, 1.0)
}

/// The t whose two-sided p is `p` (0 to 1, exclusive): the half-width of an interval in standard
/// errors.
#[must_use]
pub fn critical_t(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided_p(high, freedom) > p && high < 1e12 {
        high *= 2.0;
    }
    // To 1e-12 of the upper bound.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if two_sided_p(middle, freedom) > p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The x below which the share `share` (0 to 1) of a beta distribution lies; `a` and `b` above 0.
pub(crate) fn beta_quantile(share: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // 1e-12 of the range is far below what any share is printed with.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if incomplete_beta(middle, a, b) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// I(x; a, b) for 0 ≤ x ≤ 1.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    // The fraction converges fast below the mean; above, the mirror image does.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// 1 / (1 + d₁ / (1 + d₂ / (1 + …))) with the coefficients of A&S 26.5.8.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + coefficient * d);
            c = away_from_zero(1.0 + coefficient / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < PRECISION {
            break;
        }
    }
    value
}

/// ln Γ(x) for x > 0: Lanczos' approximation with g = 7 and nine terms (Godfrey's coefficients),
/// good to 1e-15.
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const FIRST: f64 = 0.999_999_999_999_809_9;
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum =
        TERMS.iter().zip(1u32..).fold(FIRST, |sum, (term, i)| sum + term / (x + f64::from(i)));
    let t = x + G + 0.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided 5 % and 1 % points as every table has them (Abramowitz & Stegun, table 26.10).
    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (freedom, five, one) in [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (4.0, 2.776, 4.604),
            (9.0, 2.262, 3.250),
            (30.0, 2.042, 2.750),
            (120.0, 1.980, 2.617),
        ] {
            assert!(
                (critical_t(0.05, freedom) - five).abs() < 6e-4,
                "{freedom}: {}",
                critical_t(0.05, freedom)
            );
            assert!(
                (critical_t(0.01, freedom) - one).abs() < 6e-4,
                "{freedom}: {}",
                critical_t(0.01, freedom)
            );
        }
    }

    #[test]
    fn one_and_two_degrees_of_freedom_have_closed_forms() {
        for t in [0.1f64, 0.5, 1.0, 3.0, 20.0] {
            let cauchy = 1.0 - 2.0 / std::f64::consts::PI * t.atan();
            assert!((two_sided_p(t, 1.0) - cauchy).abs() < 1e-12);
            let two = 1.0 - t / (2.0 + t * t).sqrt();
            assert!((two_sided_p(-t, 2.0) - two).abs() < 1e-12);
        }
    }

    #[test]
    fn beta_quantiles_of_one_side_have_closed_forms() {
        for (share, n) in [(0.025, 3.0f64), (0.5, 1.0), (0.975, 7.5)] {
            let expected = 1.0 - (1.0f64 - share).powf(1.0 / n);
            assert!((beta_quantile(share, 1.0, n) - expected).abs() < 1e-11);
            assert!((beta_quantile(1.0 - share, n, 1.0) - (1.0 - expected)).abs() < 1e-11);
        }
    }

    #[test]
    fn extremes_are_not_numbers_to_stumble_over() {
        assert_eq!(two_sided_p(0.0, 5.0), 1.0);
        assert_eq!(two_sided_p(f64::INFINITY, 5.0), 0.0);
        assert_eq!(two_sided_p(f64::NAN, 5.0), 1.0);
        assert_eq!(two_sided_p(3.0, 0.0), 1.0);
        assert!(two_sided_p(1e6, 4.0) < 1e-20);
    }
}
