//! Tunables of `queue/iosched/`: names, ranges, setting by text.
//!
//! Durations are milliseconds, as in sysfs; the elevators round them up to jiffies, as the kernel does.

use thiserror::Error;

/// Why a tunable was not set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TunableError {
    /// The elevator has no such tunable.
    #[error("{elevator} has no tunable '{name}': it has {known}")]
    Unknown {
        /// The elevator, as `queue/scheduler` spells it.
        elevator: &'static str,
        /// What was asked for.
        name: String,
        /// What there is, separated by commas, or `none`.
        known: String,
    },
    /// The text is no whole number.
    #[error("{elevator}: '{value}' is no whole number: {name} takes one from {min} to {max}")]
    NotANumber {
        /// The elevator.
        elevator: &'static str,
        /// The tunable.
        name: &'static str,
        /// What was written.
        value: String,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// The number is outside the range that the kernel keeps the tunable in.
    #[error("{elevator}: {name} can not be {value}: it goes from {min} to {max}")]
    OutOfRange {
        /// The elevator.
        elevator: &'static str,
        /// The tunable.
        name: &'static str,
        /// What was written.
        value: i64,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
}
