//! The length of the queue in mode protect, from a model and not from tries.
//!
//! ```text
//! wait at a length = base + (wait now − base) × bytes of that length / bytes of the queue now
//!
//! victims miss their goal ─▶ at once to the longest queue that keeps it by the model
//! they keep it            ─▶ one step longer, if that keeps it by the model; a step that failed
//!                            is tried again after 8 s, then twice as long each time
//! a shorter queue makes them wait twice as long ─▶ back after a second, and none shorter any more
//! the flood is below its floor ─▶ one step longer, whatever victims wait
//! no length keeps the goal ─▶ other levers; before they are due, the best length for 8 s, then
//!                             for twice as long each time
//! ```
//!
//! A commit waits for the requests before it, once for each request that it has to send itself. So
//! its wait beyond the base grows with the bytes that fit into the queue. How often it waits, and
//! how fast the device is just now, are both in the measured wait; the model needs neither. It is
//! fitted anew at each look.

use std::time::Duration;

use floodwall_model::units::{Rate, human_duration};

use crate::climb::{Samples, Whole};
use crate::config::{
    BASE_MULTIPLE, FLOOR_GAIN, HURTS, LEAST_SHARE, LEAST_TRIAL, MISSED, MOST_PROBE_WAIT, PROBE,
    PROBE_WAIT, REST_SLOTS, ROOM,
};
use crate::estimate::Estimate;
use crate::level::Level;
use crate::levers::Offers;

/// The wait is that of so many last slots.
const JUDGED: usize = 4;

/// The steering of a queue's length in one encounter.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    /// When a longer queue is tried next, and the wait after one that fails.
    next: Duration,
    wait: Duration,
    /// The level before the last step.
    before: Option<Before>,
    /// Since when victims miss their goal and no shorter queue is left.
    missed: Option<Duration>,
    /// The shortest queue at which the flood had its floor and victims were not hurt, in bytes.
    least_bytes: f64,
    /// What victims waited at a shorter queue that hurt them, in seconds. It is looked for once.
    hurt: Option<f64>,
    /// Until when no length is looked for, after all have failed; and how long the next rest is.
    rests_until: Duration,
    rest: Duration,
}

/// A level before a step.
#[derive(Clone, Copy, Debug)]
struct Before {
    level: Level,
    /// What victims waited there, in seconds.
    wait: f64,
    /// What the flood had there, in bytes a second.
    flood: f64,
    /// Whether the step led to a longer queue.
    was_shorter: bool,
}

/// The next step of the queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    Stay,
    To(Level, String),
    /// No length of the queue keeps both the goal and the flood's floor.
    Exhausted(String),
}

impl Ladder {
    /// `own_wait_s`: what victims waited beside the flood under the administrator's settings, if
    /// that was seen.
    pub(crate) fn begin(now: Duration, own_wait_s: Option<f64>) -> Self {
        let before = own_wait_s.map(|wait| Before {
            level: Level::default(),
            wait,
            flood: 0.0,
            was_shorter: false,
        });
        Self {
            next: now + PROBE,
            wait: PROBE_WAIT,
            before,
            missed: None,
            least_bytes: 0.0,
            hurt: None,
            rests_until: now,
            rest: PROBE_WAIT,
        }
    }

    /// All lengths have failed. None is looked for until `end`, or for a time that doubles with
    /// each rest, whichever is shorter.
    pub(crate) fn rest(&mut self, now: Duration, end: Duration) {
        self.rests_until = end.min(now + self.rest);
        self.rest = (self.rest * 2).min(MOST_PROBE_WAIT);
    }

    /// One tick. `samples` are those of `level`, which is in force and has settled.
    pub(crate) fn tick(
        &mut self,
        now: Duration,
        level: Level,
        samples: &Samples,
        whole: &Whole,
        e: &Estimate,
        offers: &Offers<'_>,
    ) -> Turn {
        let slots = samples.fresh().slots.min(JUDGED);
        let (Some(goal), Some((wait, flood))) = (whole.goal_s, samples.last(slots, whole)) else {
            return Turn::Stay;
        };
        if wait <= goal {
            (self.rests_until, self.rest) = (now, PROBE_WAIT);
        } else if now < self.rests_until {
            return Turn::Stay;
        }
        let bytes = offers.queue_bytes(level);
        let base = e.base.map_or(goal / BASE_MULTIPLE, |base| base.as_secs_f64()).min(wait);
        let expected = |there: f64| base + (wait - base) * there / bytes;
        let seen = |what: &str| {
            format!(
                "victims wait {} and may wait {}, the flood has {}: {what}",
                human_duration(Duration::from_secs_f64(wait.min(1e6))),
                human_duration(e.goal),
                Rate(flood)
            )
        };
        let lengths = offers.lengths(level);
        let longer = lengths.iter().rfind(|(_, there)| *there > bytes);
        let before = self.before.take();
        let here = |was_shorter| Before { level, wait, flood, was_shorter };
        let starves = flood < LEAST_SHARE * whole.drain && e.drains;
        if starves && slots >= REST_SLOTS {
            let is_in_vain = before.is_some_and(|b| b.was_shorter && flood < FLOOR_GAIN * b.flood);
            if self.least_bytes > bytes || is_in_vain {
                self.before = before;
                return Turn::Exhausted(seen("the flood has less than its floor"));
            }
            if let Some((longer, there)) = longer {
                self.least_bytes = *there;
                self.before = Some(here(true));
                return Turn::To(
                    *longer,
                    seen("a longer queue, because the flood has less than its floor"),
                );
            }
        }
        if slots >= REST_SLOTS && self.hurt.is_some_and(|hurt| wait > goal && wait > hurt / HURTS) {
            // They wait as long at the longer queue: the shorter one was not to blame.
            (self.least_bytes, self.hurt) = (0.0, Some(f64::INFINITY));
        }
        let hurts = before.filter(|_| self.hurt.is_none());
        let hurts =
            hurts.filter(|before| !before.was_shorter && wait > HURTS * before.wait && wait > goal);
        if let Some(before) = hurts {
            if slots < REST_SLOTS {
                self.before = Some(before);
                return Turn::Stay;
            }
            self.least_bytes = offers.queue_bytes(before.level);
            self.hurt = Some(wait);
            return Turn::To(before.level, seen("back, because the shorter queue hurts them"));
        }
        let climbed = before.filter(|before| before.was_shorter);
        if wait > goal {
            self.wait =
                if climbed.is_some() { (self.wait * 2).min(MOST_PROBE_WAIT) } else { PROBE_WAIT };
            self.next = now + self.wait;
            let mut shorter =
                lengths.iter().filter(|(_, there)| *there < bytes && *there >= self.least_bytes);
            let shortest = shorter.clone().next_back();
            let modelled = shorter.find(|(_, there)| expected(*there) <= ROOM * goal).or(shortest);
            let at_floor = self.least_bytes >= bytes;
            if climbed.is_some_and(|before| at_floor && wait > HURTS * before.wait) {
                return Turn::Exhausted(seen("no length of the queue helps both"));
            }
            let Some(to) = climbed
                .filter(|_| !at_floor)
                .map(|climbed| climbed.level)
                .or(modelled.map(|(level, _)| *level))
            else {
                self.before = before;
                let since = *self.missed.get_or_insert(now);
                let is_over = now - since >= LEAST_TRIAL && wait > MISSED * goal;
                return if is_over {
                    Turn::Exhausted(seen("no length of the queue helps"))
                } else {
                    Turn::Stay
                };
            };
            self.before = climbed.is_none().then_some(here(false));
            return Turn::To(to, seen("a shorter queue"));
        }
        self.missed = None;
        if slots < REST_SLOTS || now < self.next {
            self.before = before;
            return Turn::Stay;
        }
        if climbed.is_some() {
            self.wait = PROBE_WAIT;
        }
        match longer.filter(|(_, there)| expected(*there) <= ROOM * goal) {
            Some((longer, _)) => {
                (self.before, self.next) = (Some(here(true)), now + PROBE);
                Turn::To(*longer, seen("a longer queue"))
            }
            None => Turn::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::LatencyCounts;
    use floodwall_model::latency::bucket_of;

    use super::*;
    use crate::act::Held;
    use crate::config::Mode;

    const TICK: Duration = Duration::from_millis(250);
    const DRAIN: f64 = 100e6;
    const GOAL_S: f64 = 0.020;

    /// What a device does: the victims' wait in seconds and the flood's bytes a second, by the
    /// bytes that fit into its queue.
    type Device<'a> = &'a dyn Fn(f64) -> (f64, f64);

    struct Bench {
        ladder: Ladder,
        level: Level,
        samples: Samples,
        now: Duration,
        steps: Vec<f64>,
        is_exhausted: bool,
    }

    fn offers() -> Offers<'static> {
        let own = [("nr_requests", "64"), ("max_sectors_kb", "1280")];
        Offers::of(
            &Held::new(own.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect()),
            None,
            None,
        )
    }

    impl Bench {
        fn new() -> Self {
            let (depth, size) = (3, 3);
            Self {
                ladder: Ladder::begin(Duration::ZERO, None),
                level: Level { depth, size, ..Level::default() },
                samples: Samples::default(),
                now: Duration::ZERO,
                steps: Vec::new(),
                is_exhausted: false,
            }
        }

        fn run(&mut self, seconds: u64, device: Device<'_>) {
            let whole = Whole {
                wait_s: Some(0.005),
                drain: DRAIN,
                goal_s: Some(GOAL_S),
                goal_is_given: false,
                mode: Mode::Protect,
            };
            for _ in 0..4 * seconds {
                self.now += TICK;
                let (wait, flood) = device(offers().queue_bytes(self.level));
                let ns = (wait * 1e9) as u64;
                let e = Estimate {
                    base: Some(Duration::from_millis(5)),
                    goal: Duration::from_secs_f64(GOAL_S),
                    ended: LatencyCounts::from_buckets([(bucket_of(ns), 10)], 10 * ns, ns),
                    flooded_bytes: (flood * TICK.as_secs_f64()) as u64,
                    drains: true,
                    tick: TICK,
                    ..Estimate::default()
                };
                self.samples.add(self.now, &e, &whole);
                match self.ladder.tick(self.now, self.level, &self.samples, &whole, &e, &offers()) {
                    Turn::Stay => {}
                    Turn::To(level, _) => {
                        self.level = level;
                        self.samples = Samples::default();
                        self.steps.push(offers().queue_bytes(level));
                    }
                    Turn::Exhausted(..) => self.is_exhausted = true,
                }
            }
        }

        fn kib(&self) -> f64 {
            offers().queue_bytes(self.level) / 1024.0
        }
    }

    /// A commit that waits so many times for the queue.
    fn linear(times: f64) -> impl Fn(f64) -> (f64, f64) {
        move |bytes| (0.005 + times * bytes / DRAIN, 0.5 * DRAIN)
    }

    #[test]
    fn the_model_goes_straight_to_the_longest_queue_that_keeps_the_goal() {
        // 16 ms are the goal with room, 11 ms of them for the queue: 1.1 MB for one wait.
        for (times, kib) in [(1.0, 1024.0), (2.0, 512.0), (4.0, 256.0)] {
            let mut bench = Bench::new();
            bench.run(2, &linear(times));
            assert_eq!(bench.kib(), kib, "{times} waits, {:?}", bench.steps);
            bench.run(60, &linear(times));
            assert_eq!(bench.kib(), kib, "{times} waits, {:?}", bench.steps);
            assert!(bench.steps.len() <= 1, "{:?}", bench.steps);
        }
        // The administrator's own length is the longest.
        let mut bench = Bench::new();
        bench.run(60, &linear(0.001));
        assert_eq!(bench.level, Level::default());
    }

    #[test]
    fn a_longer_queue_that_fails_is_tried_more_and_more_rarely() {
        // The model expects nothing of this: waits jump above 1 MiB.
        let device = |bytes: f64| (if bytes > 1024.0 * 1024.0 { 0.05 } else { 0.006 }, 0.5 * DRAIN);
        let mut bench = Bench::new();
        bench.run(60, &device);
        let minute = bench.steps.len();
        bench.run(240, &device);
        assert_eq!(bench.kib(), 1024.0);
        assert!(minute >= 4 && bench.steps.len() - minute <= minute, "{:?}", bench.steps);
    }

    #[test]
    fn the_flood_keeps_its_floor() {
        // Half of a mebibyte leaves it a tenth; victims never keep their goal.
        let device = |bytes: f64| (0.1, DRAIN * 0.1 * (bytes / (512.0 * 1024.0)).min(9.0) + 1.0);
        let mut bench = Bench::new();
        bench.run(30, &device);
        assert_eq!(bench.kib(), 512.0, "{:?}", bench.steps);
        assert!(bench.is_exhausted);
    }

    #[test]
    fn a_rest_ends_once_victims_keep_their_goal() {
        let mut bench = Bench::new();
        bench.run(10, &|_| (1.0, 0.5 * DRAIN));
        assert!(bench.is_exhausted && bench.kib() == 128.0);
        let now = bench.now;
        bench.ladder.rest(now, now + Duration::from_secs(3600));
        bench.ladder.rest(now, now + Duration::from_secs(3600));
        let steps = bench.steps.len();
        bench.run(15, &|_| (1.0, 0.5 * DRAIN));
        assert_eq!(bench.steps.len(), steps, "it rests for 16 s");
        // Now the queue alone makes them wait.
        let now = bench.now;
        bench.ladder.rest(now, now + Duration::from_secs(3600));
        bench.run(30, &linear(1.0));
        assert!(bench.kib() >= 1024.0, "{:?}", bench.steps);
        assert_eq!(bench.ladder.rest, PROBE_WAIT, "the next rest is short again");
    }

    #[test]
    fn victims_that_no_length_helps_are_told_after_a_while() {
        let mut bench = Bench::new();
        bench.run(5, &|_| (1.0, 0.5 * DRAIN));
        assert!(!bench.is_exhausted);
        bench.run(10, &|_| (1.0, 0.5 * DRAIN));
        assert!(bench.is_exhausted && bench.kib() == 128.0);
    }
}
