//! The variance of a sum.

/// Variance of the sum of residuals whose mean is 0; 0 of fewer than two.
pub(crate) fn variance_of_sum(residuals: &[f64]) -> f64 {
    let n = residuals.len() as f64;
    if n < 2.0 { 0.0 } else { n / (n - 1.0) * residuals.iter().map(|r| r * r).sum::<f64>() }
}
