//! Answers to requests.

use crate::store::StoreError;

/// How a request is answered. Sending an answer is the last thing that happens to a request.
pub(crate) trait Respond: Send + 'static {
    /// A read's contents.
    fn data(self, bytes: &[u8]);
    /// Anything else is done; `len` bytes of it.
    fn done(self, len: u64);
    /// It failed.
    fn fail(self, failure: Failure);
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The device reports an error, or has no power (`EIO`).
    Io,
    /// The store is full (`ENOSPC`).
    NoSpace,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::NoSpace,
            StoreError::Spill(_) => Self::Io,
        }
    }
}
