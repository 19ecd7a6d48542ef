//! Paths of control groups below their mount, with or without slashes at both ends, and the
//! settings that pace a flood's group.

use crate::setting::FLUSHER_CHUNK_BYTES;
use crate::units::Rate;

/// The share of a disk's drain rate that a paced flood gets: the other half is room for victims.
pub const PACED_SHARE: f64 = 0.5;
/// The least that a paced group keeps for its processes: a copy or a backup may begin to use it.
const PROCESSES_BYTES: u64 = 64 << 20;

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

/// The unit of systemd's that a control group belongs to: the innermost service or scope.
#[must_use]
pub fn unit(group: &str) -> Option<&str> {
    group.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

/// A group as settings name it: `unit:NAME` for a unit of the system's, else its path.
#[must_use]
pub fn place(group: &str) -> String {
    let group = group.trim_matches('/');
    match unit(group) {
        Some(unit) if group.starts_with("system.slice/") && group.ends_with(unit) => {
            format!("unit:{unit}")
        }
        _ => group.to_owned(),
    }
}

/// The settings that hold a group to [`PACED_SHARE`] of a disk's drain rate (bytes a second), as
/// `floodwall apply` takes them. `used_bytes` is the group's memory besides page cache.
/// `dirty_share` is the hard limit's share of all RAM, where it is known.
#[must_use]
pub fn paced(
    group: &str,
    disk: &str,
    drains: f64,
    used_bytes: u64,
    dirty_share: Option<f64>,
) -> Vec<String> {
    let rate = PACED_SHARE * drains;
    let wbps = Rate(rate).to_string().replace(' ', "");
    let used = used_bytes.max(PROCESSES_BYTES);
    let high = memory_high_of_paced(rate as u64, used, least_room_bytes(dirty_share));
    let place = place(group);
    vec![
        format!("{place}:{disk}.io.max=wbps={}", wbps.trim_end_matches("/s")),
        format!("{place}:memory.high={high}"),
    ]
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
    fn a_paced_group_has_half_of_the_disk() {
        let gib = 1 << 30;
        assert_eq!(
            paced("/system.slice/backup.service", "sda", 120e6, gib, None),
            [
                "unit:backup.service:sda.io.max=wbps=60.0MB",
                "unit:backup.service:memory.high=1196MiB"
            ]
        );
        assert_eq!(
            paced("user.slice/user-0.slice/session-3.scope", "sdb", 8e6, 0, Some(0.01))[1],
            "user.slice/user-0.slice/session-3.scope:memory.high=864MiB",
            "the room that 8 MiB of dirty pages need at 1 %"
        );
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
