//! When the next piece may start: when the rate has room for it, and beside others in a moment in
//! which the disk is idle. A commit is several requests in a row, and a piece between two of them
//! would delay the rest. A request that comes later waits for a part of one piece.

use std::time::{Duration, Instant};

/// Unused time that still counts. More would let a burst through, which makes a queue.
const UNUSED: Duration = Duration::from_millis(10);
/// A piece starts so long after it was due at the latest, on an idle disk or not. A hard disk that
/// serves others for half of the time is idle every 30 ms or so. With 0.1 s the command was slower,
/// and 0.3 s made it no faster.
const PATIENCE: Duration = Duration::from_millis(200);

/// The turn of the next piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When the rate has room for it.
    due: Instant,
    /// How much later than due the last piece started, as far as pieces waited for an idle disk or
    /// for another piece's end.
    late: Duration,
    /// The start of the last piece.
    started: Instant,
}

impl Turn {
    /// Due at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self { due: now, late: Duration::ZERO, started: now }
    }

    /// Starts a piece that has asked for its turn since `asked`, or returns the least time until it
    /// may start. At the allowed rate it costs `cost`. `busy` returns the time until the next look
    /// at the disk; none if it is idle.
    ///
    /// The next piece is due as if this one had not waited for an idle disk.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        asked: Instant,
        cost: Duration,
        busy: impl FnOnce() -> Option<Duration>,
    ) -> Option<Duration> {
        // The thread that asks has waited for a piece under way: the disk is slower than the rate.
        // That is no credit for a burst later, but for as much as a late piece has.
        let asked = asked.max(now.checked_sub(PATIENCE).unwrap_or(asked));
        if asked.saturating_duration_since(self.due) > self.late + UNUSED {
            // The disk or the command was slower than the rate.
            if asked.saturating_duration_since(self.started) > PATIENCE {
                self.late = Duration::ZERO;
            }
            self.due = asked.checked_sub(self.late + UNUSED).unwrap_or(asked);
        }
        if now < self.due {
            return Some(self.due - now);
        }
        if now < self.due + PATIENCE
            && let Some(wait) = busy()
        {
            return Some(wait);
        }
        let waited = now.saturating_duration_since(asked.max(self.due));
        self.late = (self.late + waited).min(now - self.due);
        self.due += cost;
        self.started = now;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Starts of pieces within a second, in ms. Each costs 50 ms, takes 20, and the next one asks
    /// then. The disk is busy at the times, in ms, for which `is_busy`.
    fn starts(is_busy: impl Fn(u128) -> bool) -> Vec<u128> {
        starts_at(50 * MS, is_busy)
    }

    /// The same of pieces that cost `cost`.
    fn starts_at(cost: Duration, is_busy: impl Fn(u128) -> bool) -> Vec<u128> {
        let begin = Instant::now();
        let (mut turn, mut now, mut asked) = (Turn::new(begin), begin, begin);
        let mut starts = Vec::new();
        while now < begin + 1000 * MS {
            let at = (now - begin).as_millis();
            match turn.start(now, asked, cost, || is_busy(at).then_some(MS)) {
                Some(wait) => now += wait,
                None => {
                    starts.push(at);
                    now += 20 * MS;
                    asked = now;
                }
            }
        }
        starts
    }

    #[test]
    fn on_an_idle_disk_pieces_start_when_they_are_due() {
        assert_eq!(starts(|_| false), Vec::from_iter((0..1000).step_by(50)));
    }

    #[test]
    fn a_piece_starts_when_the_disk_becomes_idle_and_the_next_is_due_as_without_it() {
        // Busy for the first 30 ms of each 45.
        let starts = starts(|at| at % 45 < 30);
        assert_eq!(starts.len(), 20);
        for (start, due) in starts.iter().zip((0..).step_by(50)) {
            assert!(start % 45 >= 30 && (due..=due + 30).contains(start), "{starts:?}");
        }
    }

    #[test]
    fn on_a_disk_that_is_never_idle_each_piece_is_late_and_the_rate_stays() {
        assert_eq!(starts(|_| true), Vec::from_iter((200..1000).step_by(50)));
    }

    #[test]
    fn pieces_that_take_longer_than_they_cost_stay_late() {
        // Each asks 15 ms after it was due. That the disk is never idle is known by then.
        assert_eq!(starts_at(5 * MS, |_| true), Vec::from_iter((200..1000).step_by(20)));
    }

    #[test]
    fn after_a_pause_of_the_command_a_piece_waits_for_an_idle_disk_again() {
        let begin = Instant::now();
        let mut turn = Turn::new(begin);
        let mut start = |at, asked| turn.start(begin + at, begin + asked, 5 * MS, || Some(MS));
        assert_eq!(start(200 * MS, Duration::ZERO), None, "200 ms late");
        assert_eq!(start(220 * MS, 220 * MS), None, "late still");
        assert_eq!(start(421 * MS, 421 * MS), Some(MS), "after a pause");
        assert_eq!(start(610 * MS, 421 * MS), Some(MS));
        assert_eq!(start(611 * MS, 421 * MS), None, "200 ms after 411");
    }

    #[test]
    fn a_wait_for_another_piece_allows_no_burst() {
        let begin = Instant::now();
        let mut turn = Turn::new(begin);
        let mut start = |at, asked| turn.start(begin + at, begin + asked, 50 * MS, || None);
        assert_eq!(start(Duration::ZERO, Duration::ZERO), None);
        assert_eq!(start(3000 * MS, 10 * MS), None, "another piece took 3 s");
        let at_once = (1..100).find(|_| start(3000 * MS, 3000 * MS).is_some());
        // It was due 210 ms before.
        assert_eq!(at_once, Some(5));
    }

    #[test]
    fn a_late_piece_waits_for_an_idle_disk_too() {
        // Busy until 500 ms. The piece that is late then, and the next three, start at once.
        let starts = starts(|at| (300..500).contains(&at));
        assert_eq!(starts[..11], [0, 50, 100, 150, 200, 250, 500, 520, 540, 560, 580]);
        assert_eq!(starts[11..14], [600, 620, 650]);
    }

    #[test]
    fn unused_time_allows_no_burst_and_a_piece_that_asks_then_waits_for_an_idle_disk() {
        let begin = Instant::now();
        let mut turn = Turn::new(begin);
        let asked = begin + 1000 * MS;
        let mut start = |at, busy| turn.start(begin + at, asked, 50 * MS, || busy);
        assert_eq!(start(1000 * MS, Some(MS)), Some(MS));
        assert_eq!(start(1001 * MS, None), None);
        // Due 10 ms before it was asked for, and 50 ms after that.
        assert_eq!(start(1021 * MS, None), Some(19 * MS));
    }
}
