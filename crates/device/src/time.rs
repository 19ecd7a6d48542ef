//! Virtual time: nanoseconds since the device was built.
//!
//! Whole nanoseconds, because sums of them are exact: the same requests give the same trace on
//! every machine.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A moment, or a length of time, in nanoseconds of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The moment at which a device is built.
    pub const ZERO: Self = Self(0);
    /// Never.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` microseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// Rounded to the nearest nanosecond; negative and not-a-number become zero.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero if it is not after.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// How long `bytes` take at `rate` bytes per second, rounded up so that no rate is ever
    /// exceeded.
    ///
    /// A rate of zero or below, or infinity, means that the transfer costs no time.
    #[must_use]
    pub fn for_bytes(bytes: u64, rate: f64) -> Self {
        if rate > 0.0 && rate.is_finite() {
            let exact = float(bytes) * 1e9 / rate;
            let whole = whole(exact);
            // Not `f64::ceil`, which is a call of the C library on x86-64 before SSE 4.1.
            Self(whole.saturating_add(u64::from(exact > float(whole))))
        } else {
            Self::ZERO
        }
    }

    /// This length times a factor, rounded; negative factors give zero.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

/// Nearest floating-point number. Unlike `as` it is one instruction on x86-64, at the price of a
/// branch that is never taken.
#[inline]
pub(crate) fn float(n: u64) -> f64 {
    if n <= i64::MAX as u64 { n as i64 as f64 } else { n as f64 }
}

/// Whole part; zero for negative values and NaN, [`u64::MAX`] for values that are too large. As
/// [`float`], cheap for values below 2^63.
#[inline]
pub(crate) fn whole(x: f64) -> u64 {
    if x < i64::MAX as f64 { (x as i64).max(0) as u64 } else { x as u64 }
}

impl Add for Nanos {
    type Output = Self;

    /// Saturates at [`Nanos::MAX`].
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl From<Duration> for Nanos {
    /// Saturates at [`Nanos::MAX`], 584 years.
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&floodwall_model::units::human_duration((*self).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_times_round_up_and_no_rate_means_no_time() {
        assert_eq!(Nanos::for_bytes(1, 3e9), Nanos(1));
        assert_eq!(Nanos::for_bytes(4096, 100e6), Nanos(40_960));
        assert_eq!(Nanos::for_bytes(4096, 0.0), Nanos::ZERO);
        assert_eq!(Nanos::for_bytes(4096, f64::INFINITY), Nanos::ZERO);
    }

    #[test]
    fn conversions_agree_with_the_language() {
        for n in [0, 1, 4096, (1 << 53) + 1, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX] {
            assert_eq!(float(n), n as f64, "{n}");
        }
        for x in [
            0.0,
            -0.0,
            -1.5,
            0.99,
            1.0,
            4095.9,
            9.2e18,
            9.3e18,
            1.9e19,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ] {
            assert_eq!(whole(x), x as u64, "{x}");
        }
    }

    #[test]
    fn sums_and_differences_saturate() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos::ZERO);
    }
}
