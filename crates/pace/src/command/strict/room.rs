//! Whether a call may go on: the backlog as it is known between two looks. Pure.
//!
//! It is the backlog of the last look, plus the bytes let through since, minus those written since.
//! A look may come while a call is carried out, and then counts a part of its bytes. So all bytes
//! of such calls count beside it. Of a call that takes longer than usual, a part may be missing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The window divided by this is free for a call that is larger than the rest of the window. Data
/// above it is written back in any case.
const SLACK: u64 = 4;
/// Calls go on if the looks have ceased for so long: a look may wait for a process whose call
/// waits, such as the server of a FUSE filesystem.
const OVERDUE: Duration = Duration::from_millis(2500);
/// The time that a call takes after it was let through, usually …
const USUAL: Duration = Duration::from_millis(20);
/// … and at most.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// A call that was let through.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Instant,
    bytes: u64,
    /// Bytes above the window that it explains.
    explained: u64,
    /// When the next call of its thread came.
    ended: Option<Instant>,
}

/// The moment before the counters of a look are read.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Mark {
    at: Instant,
    /// Bytes let through so far.
    admitted: u64,
}

/// The backlog between two looks.
#[derive(Debug)]
pub(super) struct Room {
    looked: Instant,
    /// The backlog of the last look, the bytes that were written until then, and those let through
    /// before its counters were read.
    left: u64,
    written: u64,
    mark: u64,
    /// Bytes of calls that were under way at the last look.
    under_way: u64,
    /// Bytes let through so far.
    admitted: u64,
    /// The largest window since the backlog was last within the window: calls that went on within
    /// it explain that much.
    ceiling: u64,
    /// The last call of each thread that was let through.
    last: BTreeMap<u32, Last>,
}

impl Room {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            looked: now,
            left: 0,
            written: 0,
            mark: 0,
            under_way: 0,
            admitted: 0,
            ceiling: 0,
            last: BTreeMap::new(),
        }
    }

    /// The begin of a look.
    pub(super) fn mark(&self, now: Instant) -> Mark {
        Mark { at: now, admitted: self.admitted }
    }

    /// Takes the backlog of a look, and the bytes that were written until then.
    pub(super) fn look(&mut self, mark: Mark, left: u64, written: u64, now: Instant) {
        (self.mark, self.left, self.written, self.looked) = (mark.admitted, left, written, now);
        let is_under_way = |last: &&Last| {
            let age = mark.at.checked_duration_since(last.at);
            age.is_some_and(|age| age < USUAL) && last.ended.is_none_or(|ended| ended > mark.at)
        };
        let bytes = self.last.values().filter(is_under_way).map(|last| last.bytes);
        self.under_way = bytes.fold(0, u64::saturating_add);
    }

    /// The next call of a thread has come, so its last one has ended.
    pub(super) fn arrive(&mut self, thread: u32, now: Instant) {
        if let Some(last) = self.last.get_mut(&thread) {
            last.ended.get_or_insert(now);
        }
    }

    /// Whether a call of so many bytes may go on, by the bytes that were written so far.
    pub(super) fn has_room(
        &mut self,
        bytes: u64,
        in_flight: u64,
        written: u64,
        now: Instant,
    ) -> bool {
        self.ceiling = self.ceiling.max(in_flight);
        let since = self.admitted.saturating_sub(self.mark);
        let written = written.saturating_sub(self.written);
        let before = self.left.saturating_add(since).saturating_add(self.under_way);
        let before = before.saturating_sub(written);
        before.saturating_add(bytes) <= in_flight
            || before <= in_flight / SLACK
            || now.saturating_duration_since(self.looked) >= OVERDUE
    }

    /// Counts a call of a thread that goes on. It explains so many bytes above the window.
    pub(super) fn admit(&mut self, thread: u32, bytes: u64, explained: u64, now: Instant) {
        self.admitted = self.admitted.saturating_add(bytes);
        self.last.insert(thread, Last { at: now, bytes, explained, ended: None });
    }

    /// Counts a call that goes on without room, beside the last one of its thread.
    pub(super) fn admit_anyway(&mut self, thread: u32, bytes: u64, now: Instant) {
        let before = self.last.get(&thread).map_or(0, |last| last.explained);
        self.admit(thread, bytes, before.saturating_add(bytes), now);
    }

    /// Bytes above the window that calls explain. A rest comes from elsewhere, such as mmap(2).
    ///
    /// They are those above a larger window before, and the last call of each thread. Once the
    /// backlog is within the window, neither counts any longer, but calls that may be under way.
    pub(super) fn overhang(&mut self, in_flight: u64, now: Instant) -> u64 {
        self.ceiling = self.ceiling.min(self.left).max(in_flight);
        if self.left <= in_flight {
            self.last.retain(|_, last| now.saturating_duration_since(last.at) < UNDER_WAY);
        }
        let above = self.ceiling - in_flight;
        self.last.values().fold(above, |sum, last| sum.saturating_add(last.explained))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1000;

    #[test]
    fn a_call_goes_on_within_the_window() {
        let now = Instant::now();
        let mut room = Room::new(now);
        let fits = |room: &mut Room, bytes, written| room.has_room(bytes, WINDOW, written, now);
        assert!(fits(&mut room, WINDOW, 0) && fits(&mut room, u64::MAX, 0), "nothing is dirty");
        room.admit(1, 600, 600, now);
        assert!(fits(&mut room, 400, 0) && !fits(&mut room, 401, 0));
        assert!(fits(&mut room, 401, 1) && !fits(&mut room, u64::MAX, 349));
        assert!(fits(&mut room, u64::MAX, 350), "a quarter of the window is left");
        // The look counts 500 of the 600 bytes, and not those let through since its begin.
        let mark = room.mark(now + USUAL);
        room.admit(2, 100, 100, now + USUAL * 2);
        room.look(mark, 500, 7000, now);
        assert!(fits(&mut room, 400, 7000) && !fits(&mut room, 401, 7000));
        assert!(fits(&mut room, 1000, 7600));
    }

    #[test]
    fn a_call_that_a_look_may_have_counted_in_part_counts_whole() {
        let begin = Instant::now();
        let ms = |n| begin + Duration::from_millis(n);
        let mut room = Room::new(begin);
        room.admit(1, 500, 500, begin);
        let mut backlog = |at: u64, arrives: Option<u64>, looked: u64| {
            if let Some(arrives) = arrives {
                room.arrive(1, ms(arrives));
            }
            room.look(room.mark(ms(at)), looked, 0, ms(at));
            (1..9999).find(|most| room.has_room(1, *most, 0, ms(at))).unwrap() - 1
        };
        assert_eq!(backlog(1, None, 200), 700);
        assert_eq!(backlog(4, Some(5), 400), 900, "it ended after the look began");
        assert_eq!(backlog(6, None, 500), 500);
    }

    #[test]
    fn a_call_that_takes_long_counts_as_far_as_the_look_saw_it() {
        let now = Instant::now();
        let mut room = Room::new(now);
        room.admit(1, 500, 500, now);
        room.look(room.mark(now + USUAL), 200, 0, now + USUAL);
        assert!(room.has_room(WINDOW - 200, WINDOW, 0, now));
    }

    #[test]
    fn nothing_waits_for_looks_that_have_ceased() {
        let now = Instant::now();
        let mut room = Room::new(now);
        room.look(room.mark(now), WINDOW * 9, 0, now);
        assert!(!room.has_room(1, WINDOW, 0, now + OVERDUE / 2));
        assert!(room.has_room(1, WINDOW, 0, now + OVERDUE));
    }

    #[test]
    fn what_calls_do_not_explain_comes_from_elsewhere() {
        let (now, later) = (Instant::now(), Instant::now() + UNDER_WAY);
        let mut room = Room::new(now);
        assert_eq!(room.overhang(WINDOW, now), 0);
        room.admit(1, 300, 300, now);
        room.admit(1, 6000, 5000, now);
        room.admit(2, 70, 70, now);
        assert_eq!(room.overhang(WINDOW, now), 5070, "one call of each thread");
        room.admit_anyway(2, 5, now);
        assert_eq!(room.overhang(WINDOW, now), 5075);
        room.look(room.mark(later), 5000, 0, later);
        assert_eq!(room.overhang(WINDOW, later), 5075, "it is still dirty");
        room.look(room.mark(later), 900, 0, later);
        assert_eq!(room.overhang(WINDOW, later), 0);
    }

    #[test]
    fn a_window_that_shrinks_is_explained() {
        let now = Instant::now();
        let mut room = Room::new(now);
        room.look(room.mark(now), WINDOW, 0, now);
        assert_eq!(room.overhang(WINDOW, now), 0);
        assert_eq!(room.overhang(100, now), 900);
        room.look(room.mark(now), 700, 0, now);
        assert_eq!(room.overhang(100, now), 600);
        room.look(room.mark(now), 5000, 0, now);
        assert_eq!(room.overhang(100, now), 600, "it grows");
    }
}
