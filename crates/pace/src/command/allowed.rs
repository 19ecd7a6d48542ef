//! The limit of a command's backlog.

use crate::pacer::Pacer;

/// Bytes dirty or under way at most.
pub(super) fn in_flight(pacer: &Pacer) -> u64 {
    // Without a disk no other program waits for it.
    let is_free = pacer.disk().is_none() && pacer.status().rate.is_none();
    if is_free { u64::MAX } else { pacer.window().in_flight }
}
