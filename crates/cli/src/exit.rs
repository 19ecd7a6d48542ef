//! Exit statuses: what scripts may rely on.

use std::process::ExitCode;

use floodwall_bench::BenchError;
use floodwall_bench::space::SpaceError;
use floodwall_model::scenario::ScenarioError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed, or stopped by a signal.
    Failed = 1,
    /// Wrong usage: nothing was done.
    Usage = 2,
    /// Measured, and the figures do not settle the question.
    Inconclusive = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The user asked for something that can't be: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

impl Exit {
    /// The status that an error stands for.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let wrong_directory = matches!(
            error.downcast_ref(),
            Some(BenchError::Locate(_) | BenchError::ReadOnly { .. } | BenchError::NoWriteback { .. })
        );
        if wrong_directory
            || error.is::<UsageError>()
            || error.is::<ScenarioError>()
            || error.is::<SpaceError>()
        {
            Self::Usage
        } else {
            Self::Failed
        }
    }
}
