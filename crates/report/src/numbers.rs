//! How numbers are written for people: digits that mean something, thousands separated, units
//! attached.

use std::time::Duration;

pub use floodwall_model::counts::percent;
pub(crate) use floodwall_model::counts::{count, whole};
use floodwall_model::units::human_duration;
use floodwall_stats::estimate::Estimate;
use floodwall_stats::figures::Summary;

/// Stands for an unknown value or one that does not apply.
pub(crate) const UNKNOWN: &str = "–";

/// Stands for a figure of the setting that all others are compared with: 100 % of itself.
pub(crate) const REFERENCE: &str = "reference";

/// The share of a burst that a setting keeps, or [`REFERENCE`] if it is compared with itself.
pub(crate) fn burst_kept(s: &Summary) -> Result<Option<&Estimate>, &'static str> {
    match (&s.burst_kept, s.reference.as_str()) {
        (Some(_), "in_force") => Err(REFERENCE),
        (kept, _) => Ok(kept.as_ref()),
    }
}

/// Stands in the place of a missing interval.
pub(crate) const NO_INTERVAL: &str = "one round: no interval";

/// The ends of a figure's 95 % interval, `15 – 18`; without one the reason.
pub(crate) fn interval(e: &Estimate, shown: fn(f64) -> String) -> String {
    e.ends().map_or_else(
        || NO_INTERVAL.into(),
        |(low, high)| format!("{} – {}", shown(low), shown(high)),
    )
}

/// Microseconds with the unit that suits them: `612 µs`, `1.17 s`.
pub(crate) fn duration_us(us: f64) -> String {
    human_duration(Duration::try_from_secs_f64(us / 1e6).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_the_digits_that_mean_something() {
        assert_eq!(duration_us(1_170_000.0), "1.17 s");
        assert_eq!(duration_us(f64::NAN), "0 s");
    }
}
