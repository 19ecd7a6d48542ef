//! Counts as people read them: digits that mean something, thousands separated.

/// A number of things or things per second, to three digits: `1,508`, `14.2`, `0.98`, `0`. From 100
/// on without fraction.
#[must_use]
pub fn count(value: f64) -> String {
    let decimals = if value >= 99.95 || value == value.round() {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    separated(&format!("{value:.decimals$}"))
}

/// A share as percent without the sign: `98.4`, `45`, `4.2`, `0.07`, `0`. Near 100 a tenth still
/// matters, at 45 it does not.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    let decimals = match value {
        v if v >= 99.95 || v == v.round() => 0,
        v if v >= 89.95 => 1,
        v if v >= 9.95 => 0,
        v if v >= 0.995 => 1,
        _ => 2,
    };
    separated(&format!("{value:.decimals$}"))
}

/// A whole number with its thousands separated: `20,977,328`.
#[must_use]
pub fn whole(value: u64) -> String {
    separated(&value.to_string())
}

/// Separates the thousands of a decimal number.
#[must_use]
pub fn separated(digits: &str) -> String {
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = String::with_capacity(digits.len() + whole.len() / 3);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_the_digits_that_mean_something() {
        for (value, text) in [
            (0.0, "0"),
            (0.98, "0.98"),
            (14.0, "14"),
            (14.24, "14.2"),
            (99.96, "100"),
            (999.6, "1,000"),
            (1_508.4, "1,508"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(count(value), text);
        }
        assert_eq!(
            [1.04, 0.999, 0.4517, 0.0417, 0.0007, 0.0].map(percent),
            ["104", "99.9", "45", "4.2", "0.07", "0"]
        );
        assert_eq!(whole(20_977_328_128), "20,977,328,128");
    }
}
