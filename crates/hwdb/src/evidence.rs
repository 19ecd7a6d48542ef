//! A submission and its name.

use crate::submission::{Best, Submission};

/// A checked submission, and the SHA-256 of its file ([`crate::digest()`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Of its file's bytes, in hexadecimal.
    pub hash: String,
    /// Its content.
    pub submission: Submission,
}

impl Evidence {
    /// Its content without the source.
    pub(crate) fn result(&self) -> String {
        Submission { source: None, ..self.submission.clone() }.to_text()
    }

    pub(crate) fn best(&self) -> Option<&Best> {
        self.submission.best.as_ref()
    }
}
