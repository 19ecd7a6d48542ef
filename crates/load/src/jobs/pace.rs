//! When requests of a job with a rate may begin: evenly, at so many bytes a second of a direction.

use std::time::{Duration, Instant};

/// The rates of a job, and how much of each is used.
pub(super) struct Pace {
    rates: [Option<f64>; 2],
    begin: Instant,
    sent: [u64; 2],
}

impl Pace {
    pub(super) fn new(rates: [Option<f64>; 2], begin: Instant) -> Self {
        Self { rates, begin, sent: [0; 2] }
    }

    /// When the next request of a direction is due; `None` for at once.
    fn due(&self, is_write: bool) -> Option<Instant> {
        let rate = self.rates[usize::from(is_write)].filter(|rate| *rate > 0.0)?;
        let seconds = self.sent[usize::from(is_write)] as f64 / rate;
        self.begin.checked_add(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Which direction is next, and when, if another one was drawn: that, unless the other one has
    /// a rate as well and is due before.
    pub(super) fn choose(
        &self,
        drawn: bool,
        does_both: bool,
        now: Instant,
    ) -> (bool, Option<Instant>) {
        let wait = |due: Option<Instant>| due.filter(|due| *due > now);
        let Some(due) = wait(self.due(drawn)) else { return (drawn, None) };
        match self.due(!drawn) {
            Some(other) if does_both && other < due => (!drawn, wait(Some(other))),
            _ => (drawn, Some(due)),
        }
    }

    /// A request of so many bytes begins.
    pub(super) fn sent(&mut self, is_write: bool, bytes: u64) {
        self.sent[usize::from(is_write)] += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_its_rate() {
        let begin = Instant::now();
        let mut pace = Pace::new([Some(1000.0), Some(100.0)], begin);
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(pace.choose(false, true, begin), (false, None));
        pace.sent(false, 10);
        assert_eq!(pace.choose(false, true, begin), (true, None), "the write is due");
        pace.sent(true, 10);
        assert_eq!(pace.choose(true, true, begin), (false, Some(at(10))));
        assert_eq!(pace.choose(true, true, at(20)), (false, None));
        assert_eq!(pace.choose(true, false, begin), (true, Some(at(100))));
        assert_eq!(Pace::new([None; 2], begin).choose(true, true, begin), (true, None));
    }
}
