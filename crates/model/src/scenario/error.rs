//! Why a scenario is not one.

/// Why a scenario is not one. The message names the place and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not what a scenario file looks like.
    #[error("line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// The fault.
        message: String,
    },
    /// The text is well formed, and its combination makes no sense.
    #[error("{place}: {message}")]
    Invalid {
        /// Which victim, flood or table.
        place: String,
        /// The fault, and a correct value.
        message: String,
    },
}
