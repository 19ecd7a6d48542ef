//! What flushers make of the limits: how much of a file at a time, when periodically, what counts
//! as old.

use floodwall_device::Nanos;

use super::DirtyKnobs;

/// Pages that a flusher writes of one file at least before it turns to the next: 4 MiB
/// (`MAX_WRITEBACK_PAGES` up to 3.1, `MIN_WRITEBACK_PAGES` since).
pub const MIN_CHUNK_PAGES: u64 = 1024;

/// How many pages of one file are written at once (`writeback_chunk_size`, fs/fs-writeback.c, since
/// 3.2; before, always 1024).
///
/// Half a second of the device's bandwidth (pages/s), at most an eighth of the hard limit in force.
/// The kernel adds 1024 and rounds down to a multiple of 1024. `nr_pages`: how many the flusher is
/// to write at all (a very large number for background writeback).
#[must_use]
pub fn chunk_pages(avg_bandwidth: u64, dirty_limit: u64, nr_pages: u64) -> u64 {
    let pages = (avg_bandwidth / 2).min(dirty_limit / 8).min(nr_pages);
    (pages + MIN_CHUNK_PAGES) / MIN_CHUNK_PAGES * MIN_CHUNK_PAGES
}

/// Files first dirtied at this moment or before it are old; `None` while nothing can be
/// (`queue_io`, `older_than_this`).
#[must_use]
pub fn old_since(now: Nanos, knobs: &DirtyKnobs) -> Option<Nanos> {
    now.0.checked_sub(knobs.expire_interval().0).map(Nanos)
}

/// When periodic writeback of old data takes place.
///
/// ```text
/// 2.6.18   one timer for the machine: every interval,
///          but not within a second of the last pass's end                (wb_kupdate)
/// later    every flusher for itself: when it wakes
///          and an interval has passed since its last pass's start        (wb_check_old_data_flush)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Periodic {
    last_pass: Nanos,
}

impl Periodic {
    /// A flusher woke up: whether it should write old data now. Not for 2.6.18.
    pub fn due(&mut self, now: Nanos, knobs: &DirtyKnobs) -> bool {
        let Some(interval) = knobs.writeback_interval() else { return false };
        if now < self.last_pass + interval {
            return false;
        }
        self.last_pass = now;
        true
    }

    /// A flusher has nothing more to do: when it looks again (`wb_wakeup_delayed`), if ever.
    #[must_use]
    pub fn next_wakeup(&self, now: Nanos, knobs: &DirtyKnobs) -> Option<Nanos> {
        knobs.writeback_interval().map(|interval| now + interval)
    }
}

/// 2.6.18: when the next pass of `wb_kupdate` starts, after one from `started` to `ended`; `None`
/// while periodic writeback is off.
#[must_use]
pub fn next_kupdate(started: Nanos, ended: Nanos, knobs: &DirtyKnobs) -> Option<Nanos> {
    let interval = knobs.writeback_interval()?;
    Some((started + interval).max(ended + Nanos::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Generation;

    const DEFAULTS: DirtyKnobs = DirtyKnobs::defaults(Generation::K6);

    #[test]
    fn a_chunk_is_half_a_second_of_bandwidth_between_4_mib_and_an_eighth_of_the_limit() {
        // 200 MB/s: 48,828 pages/s, half a second 24,414 pages, + 1024 rounded down to 24 * 1024.
        assert_eq!(chunk_pages(48_828, 1_000_000, u64::MAX), 24_576);
        // A limit of 100,000 pages: 12,500 + 1024 = 13 * 1024 + 212.
        assert_eq!(chunk_pages(48_828, 100_000, u64::MAX), 13_312);
        // A limit of 15 MB: 3663 / 8 = 457 pages; 1024 all the same, more than a quarter of the
        // limit.
        assert_eq!(chunk_pages(48_828, 3_663, u64::MAX), 1_024);
        // The initial estimate, 100 MB/s: 25,600 pages/s, so 12,800 + 1024 = 13 * 1024 + 512.
        assert_eq!(chunk_pages(25_600, 1_000_000, u64::MAX), 13_312);
        // The sum is rounded down, so that a multiple of 1024 gets one more.
        assert_eq!(chunk_pages(48_828, 1_000_000, 2_048), 3_072);
    }

    #[test]
    fn old_is_what_was_dirtied_longer_ago_than_the_expiry() {
        assert_eq!(old_since(Nanos::from_secs(31), &DEFAULTS), Some(Nanos::from_secs(1)));
        assert_eq!(old_since(Nanos::from_secs(29), &DEFAULTS), None);
        // An expiry of 0 makes everything old.
        let at_once = DirtyKnobs { expire_centisecs: 0, ..DEFAULTS };
        assert_eq!(old_since(Nanos::from_secs(29), &at_once), Some(Nanos::from_secs(29)));
    }

    #[test]
    fn passes_are_an_interval_apart() {
        let mut periodic = Periodic::default();
        assert!(!periodic.due(Nanos::from_secs(4), &DEFAULTS));
        assert!(periodic.due(Nanos::from_secs(6), &DEFAULTS));
        assert!(!periodic.due(Nanos::from_secs(10), &DEFAULTS));
        assert!(periodic.due(Nanos::from_secs(11), &DEFAULTS));
        let off = DirtyKnobs { writeback_centisecs: 0, ..DEFAULTS };
        assert!(!periodic.due(Nanos::from_secs(100), &off));
        assert_eq!(periodic.next_wakeup(Nanos::from_secs(100), &off), None);
        assert_eq!(
            periodic.next_wakeup(Nanos::from_secs(100), &DEFAULTS),
            Some(Nanos::from_secs(105))
        );
    }

    #[test]
    fn pdflush_leaves_a_second_after_a_long_pass() {
        let s = Nanos::from_secs;
        assert_eq!(next_kupdate(s(10), s(11), &DEFAULTS), Some(s(15)));
        assert_eq!(next_kupdate(s(10), s(20), &DEFAULTS), Some(s(21)));
        assert_eq!(
            next_kupdate(s(10), s(20), &DirtyKnobs { writeback_centisecs: 0, ..DEFAULTS }),
            None
        );
    }
}
