//! How long a writer sleeps and how many pages it may dirty until the next look: 3.3 and later
//! (`wb_max_pause`, `wb_min_pause`, `dirty_poll_interval`) and 3.2 (`bdi_max_pause`). Times are
//! jiffies, rates pages per second.

/// Pages between two looks that are aimed at, at least: 128 KiB (`DIRTY_POLL_THRESH`); also what a
/// new task starts with.
pub const POLL_PAGES: u64 = 32;

/// Longest pause: 200 ms (`MAX_PAUSE`).
#[must_use]
pub const fn longest(hz: u64) -> u64 {
    if hz < 5 { 1 } else { hz / 5 }
}

/// Time between two updates of the estimates: 200 ms (`BANDWIDTH_INTERVAL`).
#[must_use]
pub const fn bandwidth_interval(hz: u64) -> u64 {
    longest(hz)
}

/// Pages until the next look while no task is held back: about the square root of the pages that
/// may still be dirtied (`dirty_poll_interval`).
#[must_use]
pub const fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    if thresh > dirty { 1 << ((thresh - dirty).ilog2() / 2) } else { 1 }
}

/// Longest pause that does not let a device run dry: an eighth of the time that its pages last
/// (`wb_max_pause`).
#[must_use]
pub fn max_pause(hz: u64, wb_dirty: u64, avg_bandwidth: u64) -> u64 {
    let pages_per_eighth = 1 + avg_bandwidth / (1 + hz / 8).next_power_of_two();
    (wb_dirty / pages_per_eighth + 1).min(longest(hz))
}

/// The pause of 3.2 (`bdi_max_pause`): 20 ms and more for many writers. It is at most an eighth of
/// the time that the device's pages last, and at least 4 ticks.
#[must_use]
pub fn max_pause_3_2(hz: u64, wb_dirty: u64, avg_bandwidth: u64, dirty_ratelimit: u64) -> u64 {
    let t = hz / 50 + more_writers(avg_bandwidth, dirty_ratelimit) * (20 * hz) / 1024;
    t.min(wb_dirty * hz / (8 * avg_bandwidth + 1)).max(4).min(longest(hz).max(4))
}

/// log2 of how many writers there seem to be: bandwidth over the rate of one.
fn more_writers(avg_bandwidth: u64, dirty_ratelimit: u64) -> u64 {
    u64::from(avg_bandwidth.max(1).ilog2())
        .saturating_sub(u64::from(dirty_ratelimit.max(1).ilog2()))
}

/// How a writer is to be paced from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Shorter pauses are not slept but owed (ticks).
    pub min_pause: u64,
    /// Pages until the next look (`nr_dirtied_pause`). 0 means at once.
    pub next_pages: u64,
}

/// Aims at pauses of 10 ms, longer for many writers, so many pages apart that they come out so
/// (`wb_min_pause`).
#[must_use]
pub fn pace(
    hz: u64,
    max_pause: u64,
    avg_bandwidth: u64,
    dirty_ratelimit: u64,
    task_ratelimit: u64,
) -> Pace {
    let second = hz.next_power_of_two();
    let mut t = (hz / 100).max(1) + more_writers(avg_bandwidth, dirty_ratelimit) * (10 * hz) / 1024;
    t = t.min(1 + max_pause / 2);
    let mut pages = dirty_ratelimit * t / second;
    // A few pages at a time would hurt: rather longer pauses, up to 32 pages.
    if pages < POLL_PAGES {
        t = max_pause;
        pages = dirty_ratelimit * t / second;
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            t = hz * POLL_PAGES / dirty_ratelimit;
        }
    }
    // At the rate that the position allows now, the pause might get too long.
    if hz * pages / (task_ratelimit + 1) > max_pause {
        t = max_pause;
        pages = task_ratelimit * t / second;
    }
    Pace { min_pause: if pages >= POLL_PAGES { 1 + t / 2 } else { t }, next_pages: pages }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_the_root_of_the_room_apart() {
        assert_eq!(poll_interval(0, 1 << 20), 1 << 10);
        assert_eq!(poll_interval(0, (1 << 21) - 1), 1 << 10);
        assert_eq!(poll_interval(99, 100), 1);
        assert_eq!(poll_interval(100, 100), 1);
        assert_eq!(poll_interval(200, 100), 1);
    }

    #[test]
    fn a_pause_is_an_eighth_of_the_drain_time_and_at_most_200_ms() {
        // 250 Hz: 1 + 31 = 32 parts of a second, 25,600 / 32 + 1 = 801 pages in each. The 8,000
        // pages last 9.98 of them (312 ms). Each part adds a tick (4 ms): 9 + 1 ticks = 40 ms.
        assert_eq!(max_pause(250, 8_000, 25_600), 10);
        assert_eq!(max_pause(250, 1_000_000, 25_600), 50);
        assert_eq!(max_pause(250, 0, 25_600), 1);
        assert_eq!(max_pause(1000, 1_000_000, 25_600), 200);
    }

    #[test]
    fn one_writer_sleeps_10_ms_and_many_longer() {
        // 250 Hz: t = 2 ticks; 25,600 * 2 / 256 = 200 pages.
        assert_eq!(pace(250, 50, 25_600, 25_600, 25_600), Pace { min_pause: 2, next_pages: 200 });
        // The aim is at most one more than half the longest pause: of 2 ticks, 2.
        assert_eq!(pace(250, 2, 25_600, 25_600, 25_600), Pace { min_pause: 2, next_pages: 200 });
        // 16 writers: + 4 * 2,500 / 1,024 = 9 ticks, so 11 (44 ms): 1,600 * 11 / 256 = 68 pages.
        assert_eq!(pace(250, 50, 25_600, 1_600, 1_600), Pace { min_pause: 6, next_pages: 68 });
        // 1,024 writers: 2 + 10 * 2,500 / 1,024 = 26, not more than 1 + 50 / 2 = 26. The 25 * 26 /
        // 256 = 2 pages are too few: 50 ticks give 25 * 50 / 256 = 4 pages.
        assert_eq!(pace(250, 50, 25_600, 25, 25), Pace { min_pause: 50, next_pages: 4 });
        // 200/s: 2 + 7 * 2 = 19 ticks, 14 pages; 50 ticks: 39, so 32 pages take 250 * 32 / 200 = 40
        // ticks.
        assert_eq!(pace(250, 50, 25_600, 200, 200), Pace { min_pause: 21, next_pages: 32 });
    }

    #[test]
    fn a_position_that_allows_little_shortens_the_next_stretch() {
        // 200 pages at 100/s would be 495 ticks: 50 ticks' worth instead, 100 * 50 / 256 = 19.
        assert_eq!(pace(250, 50, 25_600, 25_600, 100), Pace { min_pause: 50, next_pages: 19 });
        // Just the longest pause (50,000 / 25,000 = 2 ticks) is not too long; 3 ticks are: 16,665 *
        // 2 / 256.
        assert_eq!(pace(250, 2, 25_600, 25_600, 24_999), Pace { min_pause: 2, next_pages: 200 });
        assert_eq!(pace(250, 2, 25_600, 25_600, 16_665), Pace { min_pause: 2, next_pages: 130 });
        assert_eq!(pace(250, 50, 25_600, 25_600, 0), Pace { min_pause: 50, next_pages: 0 });
    }

    #[test]
    fn pauses_of_3_2() {
        // 20 ms = 5 ticks, one writer; 16 writers: 5 + 4 * 5,000 / 1,024 = 24; little dirty: 4 at
        // least.
        assert_eq!(max_pause_3_2(250, 1_000_000, 25_600, 25_600), 5);
        assert_eq!(max_pause_3_2(250, 1_000_000, 25_600, 1_600), 24);
        assert_eq!(max_pause_3_2(250, 100, 25_600, 1_600), 4);
        assert_eq!(max_pause_3_2(1000, 1_000_000, 25_600, 25), 200);
    }
}
