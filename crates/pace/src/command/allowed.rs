//! The limits of a command at one moment.

use crate::law::State;
use crate::pacer::Pacer;

/// The limits of a command, as the pacer has them now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Bytes of a piece.
    pub(super) piece: u64,
    /// Bytes dirty or under way at most.
    pub(super) in_flight: u64,
    /// The rate of the writeback, in bytes per second.
    pub(super) written_per_s: f64,
    /// Whether the command is to be silent.
    pub(super) is_silent: bool,
}

impl Allowed {
    pub(super) fn now(pacer: &Pacer) -> Self {
        let (window, status) = pacer.limits();
        // Without a disk, no other program waits for one.
        let is_free = pacer.disk().is_none() && status.rate.is_none();
        Self {
            piece: window.piece,
            in_flight: if is_free { u64::MAX } else { window.in_flight },
            written_per_s: status.rate.unwrap_or(status.capacity),
            is_silent: status.state == State::Listening,
        }
    }
}
