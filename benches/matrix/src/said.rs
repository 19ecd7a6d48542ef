//! What a guest tells the host: one JSON document a line, on its second serial line.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// The release of the kernel that booted.
    Kernel(String),
    /// A check begins.
    Begun(String),
    /// A check has ended.
    Ended { check: String, outcome: Outcome, seconds: f64 },
    /// What this kernel has: a capability, and how it is there.
    Has { what: String, how: String },
    /// All checks of this boot have ended.
    Done,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The confirmed fact.
    Passed(String),
    /// What does not hold.
    Failed(String),
    /// Why it could not be checked.
    LeftOut(String),
}

impl Outcome {
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}
