//! Which elevators there are, and their names.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// An elevator, as one would write it into `queue/scheduler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElevatorKind {
    /// First in, first out, with merging.
    Noop,
    /// Batches by sector that wait for the next read.
    Anticipatory,
    /// Batches by sector with bounded waiting.
    Deadline,
    /// Time slices for each process.
    Cfq,
    /// No elevator: a queue for each CPU.
    None,
    /// Deadline by I/O priority class.
    MqDeadline,
    /// As many requests in the device as its latency allows.
    Kyber,
    /// Budgets of sectors for each process.
    Bfq,
}

impl ElevatorKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Noop,
        Self::Anticipatory,
        Self::Deadline,
        Self::Cfq,
        Self::None,
        Self::MqDeadline,
        Self::Kyber,
        Self::Bfq,
    ];

    /// As `queue/scheduler` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Anticipatory => "anticipatory",
            Self::Deadline => "deadline",
            Self::Cfq => "cfq",
            Self::None => "none",
            Self::MqDeadline => "mq-deadline",
            Self::Kyber => "kyber",
            Self::Bfq => "bfq",
        }
    }
}

impl fmt::Display for ElevatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no elevator's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{name}' is no elevator: there are {}", names(&ElevatorKind::ALL))]
pub struct UnknownElevator {
    /// The requested name.
    pub name: String,
}

impl FromStr for ElevatorKind {
    type Err = UnknownElevator;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownElevator { name: text.to_owned() })
    }
}

/// Their names, separated by commas.
pub(crate) fn names(kinds: &[ElevatorKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in ElevatorKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "elevator".parse::<ElevatorKind>().unwrap_err().to_string(),
            "'elevator' is no elevator: there are noop, anticipatory, deadline, cfq, none, \
             mq-deadline, kyber, bfq"
        );
    }
}
