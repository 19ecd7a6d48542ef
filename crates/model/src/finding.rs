//! A finding: a fact about a machine's write path that matters to its administrator, with its
//! evidence and a remedy.
//!
//! ```text
//! Status + journal + other managers → checks (host) → Finding … → report (text, JSON)
//! ```
//!
//! An identifier (`FW001`) always means the same check; it is never given to another one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing: it costs something only under certain loads, or it keeps
    /// other findings from being made.
    Note,
    /// Costs time under a flood: victims wait longer than they need to.
    Warning,
    /// Data is at risk, or writers stand still.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// One finding. There is at most one of an identifier; it names everything that it was found for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// `FW001` …; `floodwall explain FW001` has a page.
    pub id: &'static str,
    /// How much it matters here.
    pub severity: Severity,
    /// The fault, in a few words; always the same for an identifier.
    pub title: &'static str,
    /// Devices, mount points or knobs that it was found for; empty for the machine as a whole.
    pub subjects: Vec<String>,
    /// The facts that it was concluded from, with the numbers; one sentence for each subject.
    pub evidence: Vec<String>,
    /// The cost for the worst subject, in seconds; absent where the cost is no time or the rate is
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_s: Option<f64>,
    /// How much data it is about, in bytes; absent where there is no such amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_bytes: Option<u64>,
    /// A command for a shell; or the edit of another manager's file.
    pub remedy: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_the_largest() {
        assert!(Severity::Critical > Severity::Warning && Severity::Warning > Severity::Note);
        assert_eq!(format!("[{:<8}]", Severity::Note), "[note    ]");
    }
}
