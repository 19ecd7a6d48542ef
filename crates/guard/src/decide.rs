//! What is done about one device.
//!
//! ```text
//!            both there                 threatened                   well for a while
//!   Free ───────────────▶ Watch ───────────────▶ Protect ◀────────────────────────▶ Probe: one step looser
//!    ▲  ▲                   │                    │  ▲  └ harmed: one step tighter      └ harmed: back at once, and wait longer
//!    │  └─── one is gone ───┘       one is gone  │  │ threatened again
//!    └──── the administrator's ◀── Recover ◀─────┘  │
//!           settings again          └───────────────┘
//! ```

use std::fmt;
use std::time::Duration;

use crate::config::{
    BACKLOG, EMERGENCY, HARMED, LIMIT_TRIAL, MOST_PATIENCE, PATIENCE, PATIENCE_GROWTH, PROBE, RECOVER_STEP,
    SETTLE, THREAT, UNKNOWN_THREAT, USELESS, USELESS_STEPS, VERY_WELL, WELL,
};
use crate::estimate::Estimate;
use crate::levers::{Level, TIGHTEST_QUEUE, is_last_limit, last_limit};

/// What is being done about a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: the administrator's settings are in force.
    #[default]
    Free,
    /// Victims and floods have met; nothing is written yet.
    Watch,
    /// The levers are pulled as far as victims need.
    Protect,
    /// One step less is tried.
    Probe,
    /// Back to the administrator's settings, step by step.
    Recover,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Watch => "watch",
            Self::Protect => "protect",
            Self::Probe => "probe",
            Self::Recover => "recover",
        })
    }
}

/// The state machine of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) state: State,
    pub(crate) level: Level,
    /// Where a try began.
    before_probe: Level,
    /// When the state was entered, and when the level was last changed (or came into force).
    since: Duration,
    stepped: Duration,
    /// From when on victims have been well.
    well_since: Option<Duration>,
    patience: Duration,
    /// Since when limits are on trial, and the harm when they were pulled.
    trial: Option<(Duration, f64)>,
    /// They were of no use in this encounter.
    limits_barred: bool,
    /// Harm before the last step, and how many steps in a row were of no use.
    harm: Option<f64>,
    useless: u32,
}

/// A change of state or level, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    pub(crate) why: String,
}

impl Machine {
    /// Whether what ends now has waited behind what was there before the last step.
    pub(crate) fn is_unsettled(&self, now: Duration) -> bool {
        !matches!(self.state, State::Free | State::Watch) && now - self.stepped < SETTLE / 2
    }

    /// One tick. `in_force`: the last step is, as far as the queue goes; `arrived`: so is the limit. `None`: everything stays as it is.
    pub(crate) fn tick(
        &mut self,
        now: Duration,
        e: &Estimate,
        in_force: bool,
        arrived: bool,
    ) -> Option<Move> {
        let both = e.victims && e.floods;
        if !in_force || self.state != State::Recover && !arrived {
            self.stepped = now;
        }
        match self.state {
            State::Free if both => {
                let met = self.enter(now, State::Watch, "victims and floods have met".into());
                self.threat(e).map_or(met, |why| self.begin(now, e, why))
            }
            State::Free => None,
            State::Watch if !both => self.enter(now, State::Free, gone(e)),
            State::Watch => self.threat(e).and_then(|why| self.begin(now, e, why)),
            State::Protect | State::Probe if !both => {
                self.well_since = None;
                self.enter(now, State::Recover, gone(e))
            }
            State::Protect => self.protect(now, e),
            State::Probe => self.probe(now, e),
            State::Recover => self.recover(now, e, both),
        }
    }

    fn enter(&mut self, now: Duration, state: State, why: String) -> Option<Move> {
        (self.state, self.since) = (state, now);
        Some(Move { why })
    }

    /// Why victims will be harmed, or are.
    fn threat(&self, e: &Estimate) -> Option<String> {
        if let Some(pressure) = e.pressure.filter(|p| *p > HARMED) {
            return Some(format!("victims wait {pressure:.1} × the goal of {:.1?}", e.goal));
        }
        if let Some(delay) = e.queue_delay.filter(|delay| *delay > e.goal) {
            return Some(format!(
                "the queue holds {delay:.1?} of writes, more than the goal of {:.1?}",
                e.goal
            ));
        }
        let bound =
            e.drain_bytes_per_s.map_or(UNKNOWN_THREAT as f64, |rate| rate * e.goal.as_secs_f64() * THREAT);
        let backlog = e.backlog_bytes;
        (backlog as f64 > bound.max(BACKLOG as f64))
            .then(|| format!("{} MiB wait to be written", backlog >> 20))
    }

    fn begin(&mut self, now: Duration, e: &Estimate, why: String) -> Option<Move> {
        let first = Level::first(e);
        // Met before, and not that long ago: where it was.
        self.level = Level { queue: self.level.queue.max(first.queue), limit: self.level.limit };
        if self.state == State::Watch {
            (self.patience, self.limits_barred) = (PATIENCE, false);
        }
        (self.harm, self.useless, self.well_since, self.stepped, self.trial) = (None, 0, None, now, None);
        self.enter(now, State::Protect, why)
    }

    fn protect(&mut self, now: Duration, e: &Estimate) -> Option<Move> {
        if let Some((since, harm)) = self.trial
            && (now - self.stepped >= SETTLE || now - since >= LIMIT_TRIAL)
        {
            self.trial = None;
            if let Some(pressure) = e.pressure.filter(|p| *p > HARMED && *p > harm * USELESS) {
                (self.limits_barred, self.level.limit, self.stepped) = (true, 0, now);
                let why = format!(
                    "victims wait {pressure:.1} × the goal under the lowest limit and {harm:.1} × without: no limits"
                );
                return Some(Move { why });
            }
        }
        if now - self.stepped < SETTLE {
            return None;
        }
        let pressure = e.pressure?;
        if pressure > HARMED {
            self.well_since = None;
            return self.tighten(now, e, pressure);
        }
        (self.harm, self.useless) = (None, 0);
        if pressure > WELL {
            self.well_since = None;
            return None;
        }
        let well_since = *self.well_since.get_or_insert(now);
        if now - well_since < self.patience || self.level.is_free() {
            return None;
        }
        self.before_probe = self.level;
        self.level = self.level.looser();
        if pressure < VERY_WELL {
            self.level = self.level.looser();
        }
        self.stepped = now;
        let why =
            format!("victims wait {pressure:.2} × the goal for {:.0?}: less is tried", now - well_since);
        self.enter(now, State::Probe, why)
    }

    fn tighten(&mut self, now: Duration, e: &Estimate, pressure: f64) -> Option<Move> {
        if let Some(before) = self.harm {
            self.useless = if pressure > before * USELESS { self.useless + 1 } else { 0 };
        }
        let steps = if pressure > EMERGENCY { 2 } else { 1 };
        let before = self.level;
        let queue_helps = self.useless < USELESS_STEPS && self.level.queue < TIGHTEST_QUEUE;
        let what = if queue_helps {
            self.level.queue = (self.level.queue + steps).min(TIGHTEST_QUEUE);
            "a shorter queue"
        } else if !self.limits_barred && !is_last_limit(self.level.limit, e) {
            // To the lowest: what hurts may be as small as a drive's own cache. How much less is enough is for later tries to find out.
            self.trial = Some((now, pressure));
            self.level.limit = last_limit(e);
            "the lowest limit"
        } else if self.level.queue < TIGHTEST_QUEUE {
            self.level.queue = (self.level.queue + steps).min(TIGHTEST_QUEUE);
            "a shorter queue"
        } else {
            return None;
        };
        (self.harm, self.stepped) = (Some(pressure), now);
        let why = format!(
            "victims wait {pressure:.1} × the goal of {:.1?} at queue level {}, limit level {}: {what}",
            e.goal, before.queue, before.limit
        );
        Some(Move { why })
    }

    /// Whether the queue is as short as it gets.
    pub(crate) fn has_shortest_queue(&self) -> bool {
        self.level.queue == TIGHTEST_QUEUE
    }

    fn probe(&mut self, now: Duration, e: &Estimate) -> Option<Move> {
        if let Some(pressure) = e.pressure.filter(|p| *p > HARMED) {
            self.level = self.before_probe;
            (self.stepped, self.well_since) = (now, None);
            self.patience = (self.patience * PATIENCE_GROWTH).min(MOST_PATIENCE);
            let why = format!(
                "victims wait {pressure:.1} × the goal: back, and no other try for {:.0?}",
                self.patience
            );
            return self.enter(now, State::Protect, why);
        }
        if now - self.since < PROBE {
            return None;
        }
        self.well_since = None;
        self.enter(now, State::Protect, "victims are still well: kept".into())
    }

    fn recover(&mut self, now: Duration, e: &Estimate, both: bool) -> Option<Move> {
        if both && let Some(why) = self.threat(e) {
            return self.begin(now, e, why);
        }
        if now - self.stepped < RECOVER_STEP {
            return None;
        }
        if self.level.is_free() {
            return self.enter(now, State::Free, "the administrator's settings are in force again".into());
        }
        self.level = self.level.half();
        self.stepped = now;
        Some(Move { why: "half way back".into() })
    }
}

fn gone(e: &Estimate) -> String {
    match (e.victims, e.floods) {
        (false, false) => "victims and floods are gone".into(),
        (false, _) => "victims are gone".into(),
        (_, _) => "floods are gone".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    /// A disk of 100 MB/s whose victims may wait 20 ms, both sides there.
    fn estimate(pressure: f64) -> Estimate {
        Estimate {
            drain_bytes_per_s: Some(1e8),
            base: Some(Duration::from_millis(5)),
            goal: Duration::from_millis(20),
            pressure: Some(pressure),
            victims: true,
            floods: true,
            tick: TICK,
            ..Estimate::default()
        }
    }

    /// Ticks until something happens, at most so many.
    fn until(machine: &mut Machine, now: &mut Duration, e: &Estimate, most: u32) -> Option<Duration> {
        let begin = *now;
        (0..most).find_map(|_| {
            *now += TICK;
            machine.tick(*now, e, true, true).map(|_| *now - begin)
        })
    }

    #[test]
    fn a_try_that_fails_is_taken_back_at_once_and_the_next_waits_four_times_longer() {
        let (mut machine, mut now) = (Machine::default(), Duration::ZERO);
        until(&mut machine, &mut now, &estimate(2.0), 1);
        let first = machine.level;
        assert_eq!((machine.state, first.queue), (State::Protect, 4));
        let mut waits = Vec::new();
        for _ in 0..3 {
            let waited = until(&mut machine, &mut now, &estimate(0.5), 4000).unwrap();
            assert_eq!((machine.state, machine.level.queue), (State::Probe, first.queue - 1));
            assert_eq!(until(&mut machine, &mut now, &estimate(1.2), 1), Some(TICK));
            assert_eq!((machine.state, machine.level), (State::Protect, first));
            waits.push(waited.as_secs());
        }
        assert_eq!(waits, [4, 16, 64]);
        // One that succeeds is kept.
        until(&mut machine, &mut now, &estimate(0.5), 4000);
        until(&mut machine, &mut now, &estimate(0.5), 20);
        assert_eq!((machine.state, machine.level.queue), (State::Protect, first.queue - 1));
    }

    #[test]
    fn a_queue_that_is_of_no_use_gives_way_to_a_limit_and_a_limit_of_no_use_to_none() {
        let (mut machine, mut now) = (Machine::default(), Duration::ZERO);
        let harmed = estimate(3.0);
        until(&mut machine, &mut now, &harmed, 1);
        while machine.level.limit == 0 {
            assert!(until(&mut machine, &mut now, &harmed, 10).is_some());
        }
        assert!(is_last_limit(machine.level.limit, &harmed));
        let given_up = until(&mut machine, &mut now, &harmed, 100).unwrap();
        assert_eq!(machine.level.limit, 0);
        assert!(given_up <= LIMIT_TRIAL + TICK);
        // Not again in this encounter.
        assert!(until(&mut machine, &mut now, &harmed, 400).is_none() || machine.level.limit == 0);
        // A limit that helps stays.
        let (mut machine, mut now) = (Machine::default(), Duration::ZERO);
        while machine.level.limit == 0 {
            until(&mut machine, &mut now, &harmed, 10);
        }
        until(&mut machine, &mut now, &estimate(0.9), 100);
        assert!(machine.level.limit > 0 && machine.state == State::Protect);
    }

    #[test]
    fn between_well_and_harmed_nothing_moves() {
        let (mut machine, mut now) = (Machine::default(), Duration::ZERO);
        until(&mut machine, &mut now, &estimate(2.0), 1);
        assert_eq!(until(&mut machine, &mut now, &estimate(0.9), 10_000), None);
        assert_eq!(machine.state, State::Protect);
    }
}
