//! What went wrong, and stderr.

use std::io::{self, Write};

use rustix::io::Errno;

/// The copy can't go on: what to say besides, and whether the lines of counts follow.
pub(super) struct Failed {
    pub(super) message: String,
    pub(super) with_counts: bool,
}

impl Failed {
    /// Before anything is counted.
    pub(super) const fn early(message: String) -> Self {
        Self { message, with_counts: false }
    }

    /// With the lines of counts.
    pub(super) const fn counted(message: String) -> Self {
        Self { message, with_counts: true }
    }
}

/// The kernel's words for an error, as the original prints them.
pub(super) fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Writes to stderr at once; a closed one is ignored.
pub(super) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
