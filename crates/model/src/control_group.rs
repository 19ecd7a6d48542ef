//! Paths of control groups below their mount, with or without slashes at both ends, and how much
//! memory a paced group needs.

use crate::setting::FLUSHER_CHUNK_BYTES;

/// Seconds of its rate that a paced group may have in memory.
const PACED_S: u64 = 3;
/// The least for a group whose rate is low.
const PACED_LEAST: u64 = 64 << 20;

/// The least that must fit below a group's dirty limit: two of the flusher's chunks. With less,
/// writers stop for each of them.
const LEAST_LIMIT_BYTES: u64 = 2 * FLUSHER_CHUNK_BYTES;
/// The share of memory that may be dirty where it can't be read: `vm.dirty_ratio` as the kernel
/// boots.
const DEFAULT_SHARE: f64 = 0.2;

/// Whether a control group is `above`, or is below it. All groups are in the root group, whose path
/// is empty.
#[must_use]
pub fn is_in(group: &str, above: &str) -> bool {
    let (group, above) = (group.trim_matches('/'), above.trim_matches('/'));
    let rest = group.strip_prefix(above);
    rest.is_some_and(|rest| above.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// Room for page cache that `memory.high` must leave. A group's dirty limit is the same share of
/// that room as the machine's hard limit is of its memory (mm/page-writeback.c
/// `domain_dirty_limits`).
#[must_use]
pub fn least_room_bytes(share: Option<f64>) -> u64 {
    (LEAST_LIMIT_BYTES as f64 / share.unwrap_or(DEFAULT_SHARE).clamp(0.001, 1.0)) as u64
}

/// The `memory.high` of a group whose writes are paced, in whole MiB: three seconds of its rate or
/// the least room for its page cache, and what its processes use. As people write it: `172MiB`.
#[must_use]
pub fn memory_high_of_paced(bytes_per_s: u64, used_bytes: u64, least_room_bytes: u64) -> String {
    let room = bytes_per_s.saturating_mul(PACED_S).max(PACED_LEAST).max(least_room_bytes);
    let bytes = room.saturating_add(used_bytes);
    format!("{}MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_group_has_three_seconds_in_whole_mebibytes_and_no_less_than_64() {
        for (rate, used, room, high) in [
            (2, 0, 0, "64MiB"),
            (22_369_622, 0, 0, "65MiB"),
            (60_000_000, 0, 1 << 20, "172MiB"),
            (60_000_000, 64 << 20, 0, "236MiB"),
            (60_000_000, 64 << 20, 512 << 20, "576MiB"),
        ] {
            assert_eq!(memory_high_of_paced(rate, used, room), high);
        }
    }

    #[test]
    fn a_group_is_in_itself_and_in_those_above_it() {
        for (group, above, is_so) in [
            ("a/b", "a/b", true),
            ("a/b", "a", true),
            ("a", "a/b", false),
            ("ab", "a", false),
            ("b/a", "a", false),
            ("/a/b", "a/", true),
            ("a", "", true),
            ("", "/", true),
            ("", "a", false),
        ] {
            assert_eq!(is_in(group, above), is_so, "{group} in {above}");
        }
    }
}
