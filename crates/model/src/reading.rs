//! Values of the kernel's. "Absent", "unreadable" and "zero" are three different ones.

use serde::{Serialize, Serializer};

/// A value read from the kernel, or the reason why it is missing.
///
/// Serialises as the value itself, as `{"absent": why}` or as `{"unreadable": why}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// What the kernel said; zero is a value.
    Value(T),
    /// The kernel does not have it: an older version, a feature left out or switched off, a device
    /// without it.
    Absent(String),
    /// It may exist, but could not be read or understood: no permission, an I/O error, an unknown
    /// format.
    Unreadable(String),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent(_) | Self::Unreadable(_) => None,
        }
    }

    /// The value, if there is one, by move.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent(_) | Self::Unreadable(_) => None,
        }
    }

    /// Why there is no value, for people: `absent: …` or `unreadable: …`.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Value(_) => None,
            Self::Absent(why) => Some(format!("absent: {why}")),
            Self::Unreadable(why) => Some(format!("unreadable: {why}")),
        }
    }

    /// The bare reason why there is no value.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Absent(why) | Self::Unreadable(why) => Some(why),
        }
    }

    /// Whether it may exist but could not be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }

    /// Changes the value and keeps the reason.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Value(change(value)))
    }

    /// Goes on with the value and keeps the reason.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Value(value) => next(value),
            Self::Absent(why) => Reading::Absent(why),
            Self::Unreadable(why) => Reading::Unreadable(why),
        }
    }

    /// Tries something else where this has no value; keeps this one's reason if that has none
    /// either.
    #[must_use]
    pub fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if self.value().is_some() {
            return self;
        }
        match other() {
            Self::Value(value) => Self::Value(value),
            Self::Absent(_) | Self::Unreadable(_) => self,
        }
    }

    /// A reading of a reference to the value.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Value(value) => Reading::Value(value),
            Self::Absent(why) => Reading::Absent(why.clone()),
            Self::Unreadable(why) => Reading::Unreadable(why.clone()),
        }
    }
}

impl<T: Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Absent(why) => serializer.collect_map([("absent", why)]),
            Self::Unreadable(why) => serializer.collect_map([("unreadable", why)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_survives_every_step() {
        let absent: Reading<u64> = Reading::Absent("kernel before 6.2".into());
        assert_eq!(absent.clone().map(|n| n + 1), Reading::Absent("kernel before 6.2".into()));
        assert_eq!(absent.clone().or_else(|| Reading::Unreadable("no".into())), absent);
        assert_eq!(absent.clone().or_else(|| Reading::Value(0)), Reading::Value(0));
        assert_eq!(absent.why().as_deref(), Some("absent: kernel before 6.2"));
        assert_eq!(absent.value(), None);
        assert_eq!(Reading::Value(0).value(), Some(&0));
    }
}
