//! Victims beside a copy.

use clap::ValueEnum;

/// A victim, by the scenario that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Victim {
    /// Commits one after the other.
    #[value(name = "copy-vs-database")]
    Closed,
    /// Commits at a third of its rate alone.
    #[value(name = "copy-vs-database-open")]
    Open,
}

impl Victim {
    pub(super) const ALL: [Self; 2] = [Self::Closed, Self::Open];

    /// The scenario's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "copy-vs-database",
            Self::Open => "copy-vs-database-open",
        }
    }

    /// The rate of its commits, as the document's table calls it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Closed => "all it can",
            Self::Open => "at a third",
        }
    }
}
