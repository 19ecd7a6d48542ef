//! The limit of a command's backlog.

use crate::pacer::Pacer;

/// Bytes dirty or under way at most.
pub(super) fn in_flight(pacer: &Pacer) -> u64 {
    // Without a disk no other program waits for it.
    let has_no_disk = pacer.is_chosen() && pacer.disk().is_none();
    let is_free = has_no_disk && pacer.status().rate.is_none();
    if is_free { u64::MAX } else { pacer.window().in_flight }
}
