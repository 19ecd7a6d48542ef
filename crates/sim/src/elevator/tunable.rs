//! Tunables of `queue/iosched/`: names, ranges, setting by text.
//!
//! Each elevator has a struct of them, made by the macro `tunables!`. A field has its unit in its
//! name, its name in sysfs and its range in the kernel. Durations are milliseconds, as in sysfs;
//! the elevators round them up to jiffies, as the kernel does.

use thiserror::Error;

/// Why a tunable was not set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TunableError {
    /// The elevator has no such tunable.
    #[error("{elevator} has no tunable '{name}': it has {known}")]
    Unknown {
        /// The elevator, as `queue/scheduler` spells it.
        elevator: &'static str,
        /// The requested name.
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
        /// The value written.
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
        /// The value written.
        value: i64,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
}

/// A tunable's name without the directory that it may be written with.
pub(crate) fn bare_name(name: &str) -> &str {
    name.strip_prefix("iosched/").unwrap_or(name)
}

/// The error for a name that is not among `known`.
pub(crate) fn unknown(elevator: &'static str, name: &str, known: &[&str]) -> TunableError {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    TunableError::Unknown { elevator, name: name.to_owned(), known }
}

/// Reads a whole number within a range.
pub(crate) fn parse(
    elevator: &'static str,
    name: &'static str,
    value: &str,
    min: i64,
    max: i64,
) -> Result<i64, TunableError> {
    let number: i64 = value.trim().parse().map_err(|_| TunableError::NotANumber {
        elevator,
        name,
        value: value.to_owned(),
        min,
        max,
    })?;
    if number < min || number > max {
        return Err(TunableError::OutOfRange { elevator, name, value: number, min, max });
    }
    Ok(number)
}

/// Makes a struct of tunables with `set` (by sysfs name and text) and `list` (sysfs names and what
/// reading them shows).
macro_rules! tunables {
    (
        $(#[$struct_doc:meta])*
        pub struct $Tunables:ident of $elevator:literal {
            $( $(#[$doc:meta])* $field:ident: $type:ty = $name:literal in [$min:expr, $max:expr]; )+
        }
    ) => {
        $(#[$struct_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $Tunables {
            $( $(#[$doc])* pub $field: $type, )+
        }

        impl $Tunables {
            /// Names in `queue/iosched/`.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Sets a tunable by its name in sysfs.
            ///
            /// # Errors
            /// [`TunableError`](crate::elevator::TunableError) for an unknown name, for a value
            /// that is not a whole number, for a number outside the kernel's range.
            pub fn set(
                &mut self,
                name: &str,
                value: &str,
            ) -> Result<(), $crate::elevator::TunableError> {
                use $crate::elevator::tunable;
                match tunable::bare_name(name) {
                    $( $name => {
                        let (min, max) = ($min as i64, $max as i64);
                        let number = tunable::parse($elevator, $name, value, min, max)?;
                        self.$field = number as $type;
                        Ok(())
                    } )+
                    other => Err(tunable::unknown($elevator, other, Self::NAMES)),
                }
            }

            /// Names in sysfs and values.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, String)> {
                vec![$( ($name, self.$field.to_string()) ),+]
            }
        }
    };
}

pub(crate) use tunables;
