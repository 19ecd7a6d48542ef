//! Whether a warming-up load is steady: a stationarity test on a short series.
//!
//! ```text
//! series ─▶ last `window` values ─┬─ Mann-Kendall: is there a trend at all? ──┐
//!                                 └─ Theil-Sen:    does it matter? ───────────┴─▶ Steadiness
//! ```
//!
//! A window is **steady** unless it shows a trend that is both there and worth waiting for.
//!
//! - It is there if the Mann-Kendall test (Mann 1945; Kendall 1975) finds it at the 5 % level,
//!   two-sided. The test compares ranks, so a device that jumps between two speeds shows no trend.
//!   Nor does a single stall or spike of any size.
//! - It is worth waiting for if the slope is large. The Theil-Sen slope (Sen 1968; the median of
//!   the slopes between all pairs) must be over [`DRIFT_TOLERANCE`] of the median.
//!
//! Steady does not mean constant. A victim may alternate between 2,000 and 20 operations a second
//! for as long as the flood lasts. That is its steady state, and it has to be measured.
//!
//! **Small samples and ties.** Windows hold some ten values, often equal ones (zeros), where the
//! usual normal approximation is poor. The distribution of Kendall's S under "no trend" is
//! therefore computed exactly. Over all orders of a multiset, the Gaussian (q-)multinomial
//! coefficient of its tie sizes counts the inversions (MacMahon 1916), and S = untied pairs − 2 ×
//! inversions. Above [`EXACT_UP_TO`] values the normal approximation with the variance corrected
//! for ties and for continuity is used (Kendall 1975).
//!
//! Neighbouring samples, a quarter of a second apart, are correlated, so Mann-Kendall sees trends
//! too often. The second condition keeps that from prolonging a warm-up for nothing.
//!
//! References: H. B. Mann, Econometrica 13 (1945) 245; M. G. Kendall, Rank Correlation Methods, 4th
//! ed. (1975); P. K. Sen, J. Am. Stat. Assoc. 63 (1968) 1379; P. A. MacMahon, Combinatory Analysis
//! II (1916).

/// Level of the Mann-Kendall test, two-sided.
pub const SIGNIFICANCE: f64 = 0.05;

/// A trend does not matter if it changes the load by no more than this share of its median from the
/// window's begin to its end. The mean over such a window is within half of it, 5 %, of the load's
/// destination, which is less than rounds differ anyway.
pub const DRIFT_TOLERANCE: f64 = 0.10;

/// Up to this many values the distribution of S is computed exactly. Beyond, the approximation's
/// error is under 0.002.
pub const EXACT_UP_TO: usize = 40;

/// The shortest window that can show a trend at the 5 % level at all: with 4 values in order, p =
/// 2/4! = 0.083.
pub const MIN_WINDOW: usize = 5;

/// What the test says.
#[derive(Clone, Debug, PartialEq)]
pub struct Steadiness {
    /// Whether the last window shows no trend that matters. Never true when the series is too
    /// short.
    pub steady: bool,
    /// Whether there were fewer values than a window takes.
    pub too_short: bool,
    /// Why, for people: lower case, no full stop.
    pub reason: String,
}

/// Judges the last `window` values of a series (operations or bytes a second, one value a tick, in
/// order); a window under [`MIN_WINDOW`] is taken as [`MIN_WINDOW`].
#[must_use]
pub fn judge(series: &[f64], window: usize) -> Steadiness {
    let window = window.max(MIN_WINDOW);
    let verdict = |steady, reason| Steadiness { steady, too_short: false, reason };
    let Some(start) = series.len().checked_sub(window) else {
        let reason = format!("too short to tell: {} of {window} samples", series.len());
        return Steadiness { steady: false, too_short: true, reason };
    };
    let last = &series[start..];
    if last.iter().any(|v| !v.is_finite()) {
        return verdict(false, "not a number among the samples".into());
    }
    let p = trend_p_value(last);
    if p > SIGNIFICANCE {
        return verdict(true, format!("no trend in the last {window} samples (p = {p:.2})"));
    }
    let drift = theil_sen_slope(last) * (window - 1) as f64;
    let median = median(last).abs();
    if drift.abs() <= DRIFT_TOLERANCE * median {
        let percent = if median > 0.0 { 100.0 * drift / median } else { 0.0 };
        return verdict(
            true,
            format!("drifts by only {percent:+.0} % over the last {window} samples"),
        );
    }
    let direction = if drift > 0.0 { "rising" } else { "falling" };
    let amount = if median > 0.0 {
        format!("by {:.0} % of the median", 100.0 * drift.abs() / median)
    } else {
        "from or to nothing".into()
    };
    verdict(false, format!("still {direction} {amount} over the last {window} samples"))
}

/// Two-sided p-value of the Mann-Kendall test: the probability of a trend at least as clear when
/// order means nothing. It is 1 for fewer than two values or when all are equal.
#[must_use]
pub fn trend_p_value(series: &[f64]) -> f64 {
    let s = kendall_s(series);
    if s == 0 {
        return 1.0;
    }
    let ties = tie_sizes(series);
    if series.len() <= EXACT_UP_TO { exact_p_value(s, &ties) } else { normal_p_value(s, &ties) }
}

/// Kendall's S: pairs that rise minus pairs that fall.
fn kendall_s(series: &[f64]) -> i64 {
    pairs(series).map(|(_, a, b)| i64::from(b > a) - i64::from(b < a)).sum()
}

/// All pairs as (distance, earlier, later).
fn pairs(series: &[f64]) -> impl Iterator<Item = (usize, f64, f64)> + '_ {
    series
        .iter()
        .enumerate()
        .flat_map(|(i, a)| series[i + 1..].iter().enumerate().map(move |(d, b)| (d + 1, *a, *b)))
}

/// How many values share each distinct value.
fn tie_sizes(series: &[f64]) -> Vec<usize> {
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).collect()
}

/// P(|S| ≥ |s|) over all orders of a multiset with these tie sizes.
fn exact_p_value(s: i64, ties: &[usize]) -> f64 {
    // counts[k]: share of the orders with k inversions; a product of q-binomials, one for each
    // group added to those before.
    let mut shares = vec![1.0];
    let mut placed = 0;
    for &size in ties {
        placed += size;
        shares = convolve(&shares, &q_binomial_shares(placed, size));
    }
    let untied_pairs = shares.len() as i64 - 1;
    let extreme = |(k, share): (usize, &f64)| {
        let s_k = untied_pairs - 2 * k as i64;
        if s_k.abs() >= s.abs() { *share } else { 0.0 }
    };
    shares.iter().enumerate().map(extreme).sum::<f64>().min(1.0)
}

/// Coefficients of the Gaussian binomial [n choose k]_q, divided by their sum. They give the
/// distribution of the inversions between k equal and n − k other equal elements over their orders.
fn q_binomial_shares(n: usize, k: usize) -> Vec<f64> {
    // rows[j] is [m choose j]_q for the m reached so far: [m choose j] = [m-1 choose j-1] + q^j
    // [m-1 choose j].
    let mut rows: Vec<Vec<f64>> = vec![Vec::new(); k + 1];
    rows[0] = vec![1.0];
    for m in 1..=n {
        for j in (1..=k.min(m)).rev() {
            let mut next = vec![0.0; j * (m - j) + 1];
            for (i, c) in rows[j - 1].iter().enumerate() {
                next[i] += c;
            }
            for (i, c) in rows[j].iter().enumerate() {
                next[i + j] += c;
            }
            rows[j] = next;
        }
    }
    let row = rows.swap_remove(k);
    let total: f64 = row.iter().sum();
    row.into_iter().map(|c| c / total).collect()
}

fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            out[i + j] += x * y;
        }
    }
    out
}

/// The normal approximation of [`exact_p_value`], with variance n(n−1)(2n+5)/18 less the same of
/// each tie, and continuity correction.
fn normal_p_value(s: i64, ties: &[usize]) -> f64 {
    let term = |n: usize| (n * (n - 1) * (2 * n + 5)) as f64 / 18.0;
    let variance = term(ties.iter().sum()) - ties.iter().map(|t| term(*t)).sum::<f64>();
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (s.abs() - 1) as f64 / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2).min(1.0)
}

/// The complementary error function for x ≥ 0, to 1.5e-7 (Abramowitz & Stegun 1964, 7.1.26).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    poly * (-x * x).exp()
}

/// The Theil-Sen slope: the median of the slopes between all pairs, in units per sample; 0 for
/// fewer than two values.
#[must_use]
pub fn theil_sen_slope(series: &[f64]) -> f64 {
    let slopes: Vec<f64> = pairs(series).map(|(d, a, b)| (b - a) / d as f64).collect();
    median(&slopes)
}

/// The median; the mean of the middle two for an even number; 0 of nothing.
fn median(values: &[f64]) -> f64 {
    crate::estimate::median(values.to_vec()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn noise(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
        (0..n).map(|_| 1000.0 + spread * (random.unit() - 0.5)).collect()
    }

    /// The definition: over every order of the values, how often |S| is at least as large.
    fn brute_force_p_value(series: &[f64]) -> f64 {
        fn permute(values: &mut Vec<f64>, from: usize, visit: &mut dyn FnMut(&[f64])) {
            if from == values.len() {
                return visit(values);
            }
            for i in from..values.len() {
                values.swap(from, i);
                permute(values, from + 1, visit);
                values.swap(from, i);
            }
        }
        let s = kendall_s(series).abs();
        let (mut all, mut extreme) = (0u32, 0u32);
        permute(&mut series.to_vec(), 0, &mut |order| {
            all += 1;
            extreme += u32::from(kendall_s(order).abs() >= s);
        });
        f64::from(extreme) / f64::from(all)
    }

    #[test]
    fn the_exact_p_value_is_that_of_all_orders_ties_included() {
        let mut random = Random::seeded(1);
        for round in 0..60 {
            let n = 2 + round % 6;
            let series: Vec<f64> = (0..n).map(|_| (random.below(4) * 10) as f64).collect();
            let (ours, theirs) = (trend_p_value(&series), brute_force_p_value(&series));
            assert!((ours - theirs).abs() < 1e-12, "{series:?}: {ours} {theirs}");
        }
    }

    #[test]
    fn the_published_table_of_kendalls_s() {
        // From Kendall 1975, appendix table 1: P(S ≥ 6 | n = 4) = 0.042, P(S ≥ 8 | n = 5) = 0.042.
        // P(S ≥ 15 | n = 6) = 0.0014.
        for (s, n, one_sided) in [(6, 4, 0.042), (8, 5, 0.042), (15, 6, 0.0014)] {
            let p = exact_p_value(s, &vec![1; n]) / 2.0;
            assert!((p - one_sided).abs() < 5e-4, "{s} {n} {p}");
        }
    }

    #[test]
    fn the_normal_approximation_meets_the_exact_value_where_it_takes_over() {
        for ties in [vec![1; EXACT_UP_TO], vec![2; EXACT_UP_TO / 2], vec![EXACT_UP_TO / 2; 2]] {
            // S can only take values of one parity.
            let untied =
                (EXACT_UP_TO * EXACT_UP_TO - ties.iter().map(|t| t * t).sum::<usize>()) as i64 / 2;
            for s in (untied % 2..250).step_by(20) {
                let (exact, normal) = (exact_p_value(s, &ties), normal_p_value(s, &ties));
                assert!(s == 0 || (exact - normal).abs() < 0.02, "{s}: {exact} {normal}");
            }
        }
    }

    #[test]
    fn constants_are_steady() {
        for value in [0.0, 1.0, 1e9] {
            let verdict = judge(&[value; 12], 10);
            assert!(verdict.steady, "{}", verdict.reason);
        }
    }

    #[test]
    fn ramps_are_not_steady_until_they_end() {
        let mut series: Vec<f64> = (0..10).map(|i| 100.0 + 50.0 * f64::from(i)).collect();
        let verdict = judge(&series, 10);
        assert!(!verdict.steady && !verdict.too_short);
        assert_eq!(verdict.reason, "still rising by 138 % of the median over the last 10 samples");
        series.reverse();
        assert!(judge(&series, 10).reason.starts_with("still falling"));
        series.extend([100.0; 10]);
        assert!(judge(&series, 10).steady);
    }

    #[test]
    fn a_ramp_too_flat_to_matter_is_steady() {
        let series: Vec<f64> = (0..10).map(|i| 1000.0 + 5.0 * f64::from(i)).collect();
        assert!(trend_p_value(&series) < 0.001);
        let verdict = judge(&series, 10);
        assert!(verdict.steady, "{}", verdict.reason);
        assert_eq!(verdict.reason, "drifts by only +4 % over the last 10 samples");
    }

    #[test]
    fn a_step_inside_the_window_is_not_steady() {
        let series = [2000.0, 1990.0, 2010.0, 2005.0, 1995.0, 40.0, 30.0, 35.0, 38.0, 33.0];
        assert!(!judge(&series, 10).steady);
        assert!(!judge(&[100.0, 100.0, 100.0, 100.0, 100.0, 0.0, 0.0, 0.0, 0.0, 0.0], 10).steady);
    }

    #[test]
    fn a_load_that_jumps_between_two_speeds_is_steady() {
        let alternating: Vec<f64> =
            (0..20).map(|i| if i % 2 == 0 { 2000.0 } else { 20.0 }).collect();
        assert!(judge(&alternating, 10).steady);
        let in_blocks = [2000.0, 20.0, 20.0, 2000.0, 2000.0, 20.0, 2000.0, 20.0, 20.0, 2000.0];
        assert!(judge(&in_blocks, 10).steady);
        let mostly_dead = [0.0, 0.0, 2000.0, 0.0, 0.0, 0.0, 2000.0, 0.0, 0.0, 0.0];
        assert!(judge(&mostly_dead, 10).steady);
    }

    #[test]
    fn too_short_says_so() {
        let verdict = judge(&[1.0; 4], 10);
        assert!(verdict.too_short && !verdict.steady);
        assert_eq!(verdict.reason, "too short to tell: 4 of 10 samples");
        assert!(judge(&[], 0).too_short);
        assert!(!judge(&[f64::NAN; 10], 10).steady);
    }

    #[test]
    fn false_alarms_on_noise_stay_near_the_level() {
        let mut random = Random::seeded(2);
        let mut trends = 0;
        let mut alarms = 0;
        for _ in 0..1_000 {
            let series = noise(&mut random, 12, 1_500.0);
            trends += usize::from(trend_p_value(&series) <= SIGNIFICANCE);
            alarms += usize::from(!judge(&series, 12).steady);
        }
        // The attainable level at n = 12 is 4.4 %; three standard errors of 1,000 draws are 2 %.
        assert!((24..=64).contains(&trends), "{trends} of 1,000");
        assert!(alarms <= trends && alarms >= 20, "{alarms} of 1,000");
    }

    #[test]
    fn a_drift_that_matters_is_found_through_noise() {
        let mut random = Random::seeded(3);
        let found = (0..200)
            .filter(|_| {
                let series: Vec<f64> = noise(&mut random, 12, 200.0)
                    .iter()
                    .enumerate()
                    .map(|(i, v)| v + 60.0 * i as f64)
                    .collect();
                !judge(&series, 12).steady
            })
            .count();
        assert!(found > 190, "{found} of 200");
    }
}
