//! What is done about one device.
//!
//! ```text
//!            both there                 threatened                     now and then
//!   Free ───────────────▶ Watch ───────────────▶ Protect ◀────────────────────────────▶ Probe: one step aside
//!    ▲  ▲                   │                    │  ▲         └ better: kept, and further that way; else back
//!    │  └─── one is gone ───┘       one is gone  │  │ threatened again
//!    └──── the administrator's ◀── Recover ◀─────┘  │
//!           settings again          └───────────────┘
//! ```
//!
//! Protect begins at once at a level that keeps the queue short; which level is best, and under which elevator, is found out by trying: a step aside is watched until enough
//! has happened to compare, and taken back as soon as it is clearly worse. A try that finds nothing after a whole
//! round has found nothing makes the next wait three times longer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::climb::{Tally, Whole};
use crate::config::{
    BACKLOG, BETTER, CHANGED, CLEARLY_WORSE, ENOUGH_OPERATIONS, ENOUGH_SLOTS, FIRST_REST, FORGET, HARMED,
    HOPELESS_SLOTS, LAST_SLOTS, MOST_PATIENCE, MOST_S, PATIENCE, PATIENCE_GROWTH, RECOVER_STEP, REST,
    REST_SLOTS, SETTLE, SETTLE_BFQ, STILL_S, STUCK, STUCK_TIMES, THREAT, UNBEARABLE, UNKNOWN_THREAT,
};
use crate::estimate::Estimate;
use crate::levers::{Level, Offers, Step};

/// What is being done about a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: the administrator's settings are in force.
    #[default]
    Free,
    /// Victims and floods have met; nothing is written yet.
    Watch,
    /// The levers are pulled as was best so far.
    Protect,
    /// A step aside is tried.
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
    /// What is wanted now.
    pub(crate) level: Level,
    /// The best known; where the next encounter begins.
    best: Level,
    /// When the state was entered, and when the level was last changed (or came into force).
    since: Duration,
    stepped: Duration,
    /// How long what happens after it says nothing of it.
    settle: Duration,
    /// When victims and floods were last both there.
    met: Duration,
    /// What levels have been worth, over all visits since conditions changed.
    tallies: BTreeMap<Level, Tally>,
    /// What is seen of a level that takes long to settle, until it has.
    unsettled: Tally,
    /// Found no better in this round, and the step that is tried or was the last to be kept.
    tried: BTreeSet<Level>,
    step: Option<Step>,
    /// Not before then the next try; how long after one the next.
    next: Duration,
    patience: Duration,
}

/// A change of state or level, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    pub(crate) why: String,
    /// By so many times the device has become slower.
    pub(crate) slower: Option<f64>,
}

fn because(why: String) -> Option<Move> {
    Some(Move { why, slower: None })
}

impl Machine {
    /// Whether what ends now has waited behind what was there before the last step.
    pub(crate) fn is_unsettled(&self, now: Duration) -> bool {
        !matches!(self.state, State::Free | State::Watch) && now - self.stepped < SETTLE
    }

    /// One tick. `in_force`: the last step is. `None`: everything stays as it is.
    pub(crate) fn tick(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers,
        in_force: bool,
    ) -> Option<Move> {
        let both = e.victims && e.floods;
        if !in_force {
            self.stepped = now;
        }
        match self.state {
            State::Free if both => {
                let met = self.enter(now, State::Watch, "victims and floods have met".into());
                self.threat(e).map_or(met, |why| self.begin(now, e, offers, why))
            }
            State::Free => None,
            State::Watch if !both => self.enter(now, State::Free, gone(e)),
            State::Watch => self.threat(e).and_then(|why| self.begin(now, e, offers, why)),
            State::Protect | State::Probe if !both => {
                self.level = self.best;
                self.met = now;
                self.enter(now, State::Recover, gone(e))
            }
            State::Protect => self.protect(now, e, whole, offers),
            State::Probe => self.probe(now, e, whole, offers),
            State::Recover => self.recover(now, e, offers, both),
        }
    }

    fn enter(&mut self, now: Duration, state: State, why: String) -> Option<Move> {
        (self.state, self.since) = (state, now);
        because(why)
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

    fn begin(&mut self, now: Duration, e: &Estimate, offers: &Offers, why: String) -> Option<Move> {
        if self.best.is_free() || self.met + FORGET < now && self.met > Duration::ZERO {
            // Nothing is known of this device, or it was long ago.
            self.best = Level::first(e, offers);
            (self.patience, self.step) = (PATIENCE, None);
            self.tried.clear();
        }
        self.tallies.clear();
        self.go(now, self.best, offers);
        self.next = now + FIRST_REST;
        self.enter(now, State::Protect, why)
    }

    /// Goes to a level; what happens there counts once it has settled.
    fn go(&mut self, now: Duration, level: Level, offers: &Offers) {
        let (was, is) = (self.level.is_bfq(offers), level.is_bfq(offers));
        self.settle = if is && !was { SETTLE_BFQ } else { SETTLE };
        (self.level, self.stepped) = (level, now);
        self.tallies.entry(level).or_default().enter();
        self.unsettled = Tally::default();
    }

    fn tally(&mut self, level: Level) -> &mut Tally {
        self.tallies.entry(level).or_default()
    }

    fn protect(&mut self, now: Duration, e: &Estimate, whole: &Whole, offers: &Offers) -> Option<Move> {
        if now - self.stepped < self.settle {
            return None;
        }
        let best = self.best;
        let tally = self.tally(best);
        tally.add(now, e, whole);
        if let Some((wait, flood)) = tally.slowdown(LAST_SLOTS) {
            let changed = |factor: f64| !(1.0 / CHANGED..=CHANGED).contains(&factor);
            if changed(wait) && changed(flood) && (wait > 1.0) == (flood > 1.0) {
                // Both at once and nothing was turned: it is the device.
                self.begin_anew(now);
                let slower = if wait > 1.0 { wait.min(flood) } else { wait.max(flood) };
                let why = format!("the device has become {slower:.2} times slower: tries begin anew");
                return Some(Move { why, slower: Some(slower) });
            }
            if wait > CHANGED * CHANGED {
                self.begin_anew(now);
                return because(format!(
                    "victims wait {wait:.1} times longer than they did here: tries begin anew"
                ));
            }
        }
        if now < self.next || self.tally(best).fresh().slots < REST_SLOTS {
            return None;
        }
        let further = self.step.into_iter().chain(Step::all(self.tally(best).victims_have_less(whole)));
        let next = further
            .filter_map(|step| Some((step, step.from(self.best, e, offers)?)))
            .find(|(_, level)| !self.tried.contains(level));
        let Some((step, level)) = next else {
            self.tried.clear();
            self.step = None;
            return because(self.wait_longer(now));
        };
        let why = format!("{}: {step} is tried", described(self.tally(best), whole));
        self.step = Some(step);
        self.go(now, level, offers);
        self.enter(now, State::Probe, why)
    }

    /// Conditions have changed: what was found out before says little.
    fn begin_anew(&mut self, now: Duration) {
        self.tallies.retain(|level, _| *level == self.best);
        self.tally(self.best).keep_last(LAST_SLOTS);
        self.tried.clear();
        (self.step, self.patience, self.next) = (None, (self.patience / PATIENCE_GROWTH).max(PATIENCE), now);
    }

    fn probe(&mut self, now: Duration, e: &Estimate, whole: &Whole, offers: &Offers) -> Option<Move> {
        if !offers.has_elevator(self.level.elevator) {
            // Refused.
            self.tried.insert(self.level);
            self.step = None;
            self.go(now, self.best, offers);
            return self.enter(now, State::Protect, "it is not to be had".into());
        }
        let (level, best) = (self.level, self.best);
        let settled = now - self.stepped >= self.settle;
        if settled {
            self.tally(level).add(now, e, whole);
        } else if now - self.stepped >= SETTLE {
            self.unsettled.add(now, e, whole);
        }
        let (trial, tally) = (self.tally(level).clone(), self.tally(best).clone());
        if let Some((usual, _)) = tally.rates()
            && e.oldest > STUCK.max(usual * STUCK_TIMES)
        {
            self.tried.insert(level);
            return self.back(
                now,
                offers,
                format!("somebody waits for {:.1?}, {usual:.1?} before", e.oldest),
            );
        }
        if !settled {
            let harm =
                self.unsettled.victims(whole).zip(tally.victims(whole)).map(|(here, there)| there - here);
            let unbearable = harm.is_some_and(|harm| harm > UNBEARABLE);
            return unbearable.then(|| {
                self.tried.insert(level);
                let why = format!("{} before it settles", described(&self.unsettled, whole));
                self.back(now, offers, why)
            })?;
        }
        let ((here, noise_here), (there, noise_there)) = (trial.score(whole)?, tally.score(whole)?);
        let gain = here - there;
        let harm = trial.victims(whole).zip(tally.victims(whole)).map(|(here, there)| there - here);
        let fresh = trial.fresh();
        let enough = fresh.slots >= ENOUGH_SLOTS
            && (fresh.operations >= ENOUGH_OPERATIONS || fresh.seconds >= MOST_S)
                // An elevator that has just been filled may keep writes waiting for seconds before it lets them through.
                && (fresh.seconds >= STILL_S || !trial.flood_stands(whole));
        let worse = |slots: usize, by: f64| fresh.slots >= slots && harm.is_some_and(|harm| harm > by);
        let hopeless = worse(HOPELESS_SLOTS, CLEARLY_WORSE) || worse(1, UNBEARABLE);
        if !enough && !hopeless {
            return None;
        }
        let (before, after) = (described(&tally, whole), described(&trial, whole));
        let factor = gain.exp();
        if enough && gain > noise_here.hypot(noise_there).max(BETTER) {
            self.tried.clear();
            self.tried.insert(self.best);
            self.best = self.level;
            (self.patience, self.next) = (PATIENCE, now);
            let why = format!("{after}, before: {before}; {factor:.2} × as good: kept");
            return self.enter(now, State::Protect, why);
        }
        self.tried.insert(level);
        self.back(now, offers, format!("{after}, before: {before}; {factor:.2} × as good"))
    }

    /// Back to the best level.
    fn back(&mut self, now: Duration, offers: &Offers, why: String) -> Option<Move> {
        self.step = None;
        self.go(now, self.best, offers);
        let mut why = format!("{why}: back");
        if self.patience > PATIENCE {
            // The first round is over.
            why = format!("{why}; {}", self.wait_longer(now));
        } else {
            self.next = now + REST;
        }
        self.enter(now, State::Protect, why)
    }

    fn wait_longer(&mut self, now: Duration) -> String {
        self.patience = (self.patience * PATIENCE_GROWTH).min(MOST_PATIENCE);
        self.next = now + self.patience;
        format!("nothing else is better: no other try for {:.0?}", self.patience)
    }

    fn recover(&mut self, now: Duration, e: &Estimate, offers: &Offers, both: bool) -> Option<Move> {
        if both && let Some(why) = self.threat(e) {
            return self.begin(now, e, offers, why);
        }
        if now - self.stepped < RECOVER_STEP {
            return None;
        }
        if self.level.is_free() {
            return self.enter(now, State::Free, "the administrator's settings are in force again".into());
        }
        self.level = self.level.half();
        self.stepped = now;
        because(if self.level.is_free() { "back" } else { "half way back" }.into())
    }
}

/// Rates of a level, for people.
fn described(tally: &Tally, whole: &Whole) -> String {
    let Some((wait, flood)) = tally.rates() else { return "nothing seen".into() };
    let score = tally.score(whole).map_or(f64::NAN, |(score, _)| score);
    format!("victims wait {wait:.1?}, the flood has {:.1} MB/s (score {score:.2})", flood / 1e6)
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
    use crate::act::Held;

    const TICK: Duration = Duration::from_millis(250);

    fn offers() -> Offers {
        let own = [("scheduler", "mq-deadline"), ("nr_requests", "256"), ("max_sectors_kb", "4096")];
        Offers::of(&Held::new(own.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect()), None)
    }

    const WHOLE: Whole = Whole { wait_s: Some(0.005), drain: Some(1e8), goal_s: None };

    /// A disk of 100 MB/s with both sides there; the victims' share of what they have alone, and the flood's.
    fn estimate(victims: f64, flood: f64) -> Estimate {
        let ended = 100.0 * victims;
        Estimate {
            drain_bytes_per_s: Some(1e8),
            base: Some(Duration::from_millis(5)),
            goal: Duration::from_millis(20),
            pressure: Some(1.5),
            ended: ended as u64,
            waited: Duration::from_secs_f64(0.5),
            flooded_bytes: (25e6 * flood) as u64,
            victims: true,
            floods: true,
            tick: TICK,
            ..Estimate::default()
        }
    }

    struct Bench {
        machine: Machine,
        now: Duration,
        /// When a try began.
        tries: Vec<(Duration, Level)>,
    }

    impl Bench {
        fn new() -> Self {
            Self { machine: Machine::default(), now: Duration::ZERO, tries: Vec::new() }
        }

        /// So many seconds with a device that gives each level what `worth` says.
        fn run(&mut self, seconds: u64, worth: &dyn Fn(Level) -> (f64, f64)) -> Vec<Move> {
            let mut moves = Vec::new();
            for _ in 0..4 * seconds {
                self.now += TICK;
                let (victims, flood) = worth(self.machine.level);
                let before = self.machine.state;
                let e = estimate(victims, flood);
                moves.extend(self.machine.tick(self.now, &e, &WHOLE, &offers(), true));
                if self.machine.state == State::Probe && before != State::Probe {
                    self.tries.push((self.now, self.machine.level));
                }
            }
            moves
        }
    }

    #[test]
    fn it_climbs_to_the_best_level_and_stays() {
        // The product is best under the first elevator with 16 requests of 64 KiB.
        let worth = |level: Level| {
            let (off, size) = (f64::from(level.depth) - 2.0, f64::from(level.size) - 4.0);
            let elevator = if level.elevator == 1 { 0.4 } else { 0.0 };
            (0.3 * (-0.3 * off * off - 0.2 * size * size + elevator).exp(), 0.5)
        };
        let mut bench = Bench::new();
        bench.run(200, &worth);
        assert_eq!(bench.machine.best, Level { elevator: 1, depth: 2, size: 4, ..Level::default() });
        // Rounds that find nothing get rarer.
        let late = |bench: &Bench, from: u64| {
            bench.tries.iter().filter(|(at, _)| *at > Duration::from_secs(from)).count()
        };
        bench.run(2 * 3600, &worth);
        assert!(late(&bench, 3800) <= 3, "{} tries in the second hour", late(&bench, 3800));
        assert_eq!(bench.machine.best, Level { elevator: 1, depth: 2, size: 4, ..Level::default() });
    }

    #[test]
    fn what_is_clearly_worse_is_taken_back_within_a_second() {
        let mut bench = Bench::new();
        let first = Level::first(&estimate(1.0, 1.0), &offers());
        let worth = move |level: Level| if level == first { (0.5, 0.5) } else { (0.01, 0.5) };
        bench.run(60, &worth);
        assert_eq!(bench.machine.best, first);
        assert!(bench.tries.len() >= 4, "{:?}", bench.tries);
        for (at, _) in &bench.tries {
            let mut again = Bench::new();
            again.run(at.as_secs() + 2, &worth);
            assert!(
                again.machine.state != State::Probe
                    || again.now - again.machine.since <= Duration::from_millis(1250)
            );
        }
    }

    #[test]
    fn a_device_that_becomes_slower_is_told_from_victims_that_do() {
        let mut bench = Bench::new();
        let worth = |times: f64| {
            move |level: Level| {
                let share = if level.depth == 4 { 0.5 } else { 0.3 };
                (share / times, 0.5 / times)
            }
        };
        bench.run(120, &worth(1.0));
        let slower: f64 = bench.run(10, &worth(8.0)).iter().filter_map(|m| m.slower).product();
        assert!((5.0..=8.5).contains(&slower), "{slower:?}");
        // Victims alone: no word about the device, but new tries.
        let mut bench = Bench::new();
        bench.run(300, &worth(1.0));
        let tries = bench.tries.len();
        let moves = bench.run(20, &|level| (worth(1.0)(level).0 / 10.0, 0.5));
        assert!(moves.iter().all(|m| m.slower.is_none()) && bench.tries.len() > tries, "{moves:?}");
    }

    #[test]
    fn an_encounter_begins_where_the_last_one_ended() {
        let worth = |level: Level| (if level.elevator == 1 { 0.6 } else { 0.3 }, 0.5);
        let mut bench = Bench::new();
        bench.run(120, &worth);
        let best = bench.machine.best;
        assert_eq!(best.elevator, 1);
        let gone = Estimate { victims: false, ..estimate(0.0, 1.0) };
        for _ in 0..40 {
            bench.now += TICK;
            bench.machine.tick(bench.now, &gone, &WHOLE, &offers(), true);
        }
        assert_eq!((bench.machine.state, bench.machine.level), (State::Free, Level::default()));
        bench.run(1, &worth);
        assert_eq!((bench.machine.state, bench.machine.level), (State::Protect, best));
    }
}
