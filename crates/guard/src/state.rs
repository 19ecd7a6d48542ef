//! The states of the law.

use std::fmt;

/// The state of one device under the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: the administrator's settings are in force.
    #[default]
    Free,
    /// Victims and floods have met; nothing is written yet.
    Watch,
    /// The best level so far is in force.
    Protect,
    /// The flood's control group holds it to a rate. Queue and limits are the administrator's.
    Pace,
    /// A step aside is tried.
    Probe,
    /// Back to the administrator's settings, step by step.
    Recover,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Watch => "watch",
            Self::Protect => "protect",
            Self::Pace => "pace",
            Self::Probe => "probe",
            Self::Recover => "recover",
        })
    }
}
