//! What keeps a guard from starting, by what is to be done about it.

/// The user asked for something that can't be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// What the machine lacks for what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MissingError(pub String);
