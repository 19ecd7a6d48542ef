//! The state machine of one device.
//!
//! ```text
//!            both there                 threatened              now and then
//!   Free ───────────────▶ Watch ───────────────▶ Protect ◀──────────────▶ Probe: one step aside
//!    ▲  ▲                   │                    │  ▲         └ better: kept, and on; else back
//!    │  └─── one is gone ───┘       one is gone  │  │ threatened again
//!    └──── the administrator's ◀── Recover ◀─────┘  │
//!           settings again          └───────────────┘
//! ```
//!
//! Protect begins at once at a level that keeps the queue short. In mode protect the queue's length
//! then follows a model ([`crate::ladder`]). Tries find the best level and elevator in mode
//! balance, and where no length keeps the goal. A step aside is watched until enough operations
//! have ended to compare. It is taken back as soon as it is clearly worse. After a whole round
//! without a better step, each try that finds nothing makes the next wait three times longer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::climb::{Tally, Whole};
use crate::config::{
    BACKLOG, BETTER, CHANGED, CLEARLY_WORSE, DEAD_S, ENOUGH_OPERATIONS, FIRST_REST, FORGET, GOOD,
    HARMED, HOPELESS_SLOTS, LAST_SLOTS, LIMIT_TRIAL, MOST_PATIENCE, MOST_S, Mode, NOT_IN_FORCE,
    OPENING_S, PATIENCE, PATIENCE_GROWTH, RECOVER_STEP, REST, REST_SLOTS, SETTLE, SETTLE_BFQ,
    STUCK, THREAT, TRY_S, UNBEARABLE,
};
use crate::estimate::Estimate;
use crate::ladder::{Ladder, Turn};
use crate::learnt::Moment;
use crate::levers::{Level, Offers, Step};
use crate::pace::Pace;

/// The state of one device under the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: the administrator's settings are in force.
    #[default]
    Free,
    /// Victims and floods have met; nothing is written yet.
    Watch,
    /// The best level so far is in force.
    Protect,
    /// The flood's control group holds it to a rate. Queue and limits are the administrator's.
    Pace,
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
            Self::Pace => "pace",
            Self::Probe => "probe",
            Self::Recover => "recover",
        })
    }
}

/// The state machine of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) state: State,
    /// The level that is wanted now.
    pub(crate) level: Level,
    /// The flood's pace in [`State::Pace`].
    pub(crate) pace: Option<Pace>,
    /// The group that was paced last, the rate that victims bore at the end, and the time of the
    /// end.
    paced: Option<(String, f64, Moment)>,
    /// The group that ignored its pace in this encounter.
    ignoring: Option<String>,
    /// The best level known in this encounter.
    best: Level,
    /// The level at which the last encounter of each kind ended, and when. The next one begins
    /// there. The kinds are encounters without and with readers.
    known: [Option<(Level, Moment)>; 2],
    kind: usize,
    /// When the state was entered, and when the level was last changed (or came into force).
    since: Duration,
    stepped: Duration,
    /// When the present level was wanted first.
    begun: Duration,
    /// How long after a change samples say nothing of the new level.
    settle: Duration,
    /// When victims and floods were last both present under protection.
    met: Duration,
    /// Samples of levels, over all visits since conditions changed.
    tallies: BTreeMap<Level, Tally>,
    /// Samples of a level that takes long to settle, until it has settled.
    unsettled: Tally,
    /// The administrator's choice, as of this tick.
    mode: Mode,
    /// The queue's length in mode protect, until no length keeps the goal. Tries follow then.
    ladder: Option<Ladder>,
    /// What victims waited beside the flood before the first step, in seconds, if that was seen.
    own_wait_s: Option<f64>,
    /// Levels still to be tried, one after another, before any single step.
    opening: VecDeque<Level>,
    /// Levels found no better in this round; and the step that is being tried or was kept last.
    tried: BTreeSet<Level>,
    step: Option<Step>,
    /// The earliest time of the next try; and how long later tries wait.
    next: Duration,
    patience: Duration,
}

/// The level under trial, as measured so far.
struct Watched {
    is_settled: bool,
    trial: Tally,
    /// Dead seconds since the trial began, settled or not.
    dead_s: f64,
}

impl Watched {
    /// Whether victims wait so much longer than at the best level (`harm`, as a logarithm) that it
    /// is taken back early.
    fn is_hopeless(&self, harm: Option<f64>) -> bool {
        let slots = self.trial.fresh().slots;
        let worse = |least: usize, by: f64| slots >= least && harm.is_some_and(|harm| harm > by);
        worse(HOPELESS_SLOTS, CLEARLY_WORSE) || worse(1, UNBEARABLE)
    }

    /// Whether it was watched for so many seconds, with enough operations to judge.
    fn is_enough(&self, seconds: f64) -> bool {
        let fresh = self.trial.fresh();
        self.is_settled
            && fresh.seconds >= seconds
            && (fresh.operations >= ENOUGH_OPERATIONS || fresh.seconds >= MOST_S)
    }
}

/// A change of state or level, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    pub(crate) why: String,
    /// How many times slower the device has become.
    pub(crate) slower: Option<f64>,
}

fn because(why: String) -> Option<Move> {
    Some(Move { why, slower: None })
}

impl Machine {
    /// Whether operations that end now have waited behind requests from before the last step.
    pub(crate) fn is_unsettled(&self, now: Duration) -> bool {
        let holds = self.pace.as_ref().is_some_and(|pace| pace.holds(now));
        let steers = !matches!(self.state, State::Free | State::Watch);
        steers && (holds || now - self.stepped < SETTLE)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The level at which the last encounter of each kind ended, or at which the present one would.
    pub(crate) fn known(&self, now: Duration) -> [Option<(Level, Moment)>; 2] {
        let mut known = self.known;
        if matches!(self.state, State::Protect | State::Probe) && self.has_best() {
            known[self.kind] = Some((self.best, Moment::at(now)));
        }
        known
    }

    /// The group that was paced last, or is paced now: the rate that victims bore, and when.
    pub(crate) fn paced(&self, now: Duration) -> Option<(String, f64, Moment)> {
        let now =
            self.pace.as_ref().map(|pace| (pace.group().to_owned(), pace.good(), Moment::at(now)));
        now.or_else(|| self.paced.clone())
    }

    /// Takes in the ends of earlier encounters, of before this machine began.
    pub(crate) fn learn(
        &mut self,
        mode: Mode,
        levels: [Option<(Level, Moment)>; 2],
        paced: Option<(String, f64, Moment)>,
    ) {
        if std::mem::replace(&mut self.mode, mode) != mode {
            self.known = [None, None];
        }
        self.known = [self.known[0].or(levels[0]), self.known[1].or(levels[1])];
        self.paced = self.paced.take().or(paced);
    }

    /// Whether the victims that commit are to be raised: under protection, while bfq is in force.
    pub(crate) fn raises(&self, offers: &Offers<'_>) -> bool {
        let protects = matches!(self.state, State::Protect | State::Probe);
        protects && self.level.is_bfq(offers) && !self.level.unraised
    }

    /// One tick. `in_force`: whether the last step has taken effect. `None`: state and level stay.
    pub(crate) fn tick(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
        in_force: bool,
    ) -> Option<Move> {
        let both = e.victims && e.floods;
        if std::mem::replace(&mut self.mode, whole.mode) != whole.mode {
            let steers = self.state == State::Protect && whole.mode == Mode::Protect;
            self.ladder = steers.then(|| Ladder::begin(now, None));
            self.known = [None, None];
        }
        if !in_force {
            self.stepped = now;
        }
        if offers.elevator_is_theirs && self.level.elevator.max(self.best.elevator) > 0 {
            return self.without_elevator(now, offers);
        }
        match self.state {
            State::Free if both => {
                let met = self.enter(now, State::Watch, "victims and floods have met".into());
                self.threat(e).and_then(|why| self.meet(now, e, offers, why)).or(met)
            }
            State::Free => None,
            State::Watch if !both => self.enter(now, State::Free, gone(e)),
            State::Watch => {
                let own = self.tally(Level::default());
                own.add(now, e, whole);
                self.own_wait_s = own.last(own.fresh().slots, whole).map(|(wait, _)| wait);
                self.threat(e).and_then(|why| self.meet(now, e, offers, why))
            }
            State::Pace if !both => {
                self.end_pace(now);
                self.enter(now, State::Recover, gone(e))
            }
            State::Pace if self.pace.as_ref().map(Pace::group) != offers.group => {
                self.end_pace(now);
                let why = "the flood's control group has no pace any more";
                match self.threat(e) {
                    Some(threat) => self.meet(now, e, offers, format!("{why}; {threat}")),
                    None => self.enter(now, State::Watch, why.into()),
                }
            }
            State::Pace if self.pace.as_ref().is_some_and(|pace| pace.is_ignored(now)) => {
                self.ignoring = self.pace.take().map(|pace| pace.group().to_owned());
                self.paced = None;
                self.begin(now, e, offers, "the flood writes more than its pace".into())
            }
            State::Pace => {
                let why = self.pace.as_mut()?.tick(now, e)?;
                self.stepped = now;
                because(why)
            }
            State::Protect | State::Probe if both && self.can_pace_now(offers) => {
                self.meet(now, e, offers, "the flood's control group can be paced now".into())
            }
            State::Protect | State::Probe if !both => {
                if self.state == State::Probe && self.step.is_none() {
                    // This level was not watched to the end: it is the first to be tried again.
                    self.opening.push_front(self.level);
                }
                self.level = self.best;
                self.met = now;
                if self.has_best() {
                    self.known[self.kind] = Some((self.best, Moment::at(now)));
                }
                self.enter(now, State::Recover, gone(e))
            }
            State::Protect => self.protect(now, e, whole, offers),
            State::Probe if self.step.is_none() => self.open(now, e, whole, offers),
            State::Probe => self.probe(now, e, whole, offers, in_force),
            State::Recover => self.recover(now, e, offers, both),
        }
    }

    /// Whether a flood that could not be paced when the encounter began can be now: its group had a
    /// victim, or no limits yet.
    fn can_pace_now(&self, offers: &Offers<'_>) -> bool {
        offers.group.is_some_and(|group| !self.is_ignored_by(group))
    }

    /// Whether a group has ignored its pace in this encounter.
    pub(crate) fn is_ignored_by(&self, group: &str) -> bool {
        self.ignoring.as_deref() == Some(group)
    }

    fn enter(&mut self, now: Duration, state: State, why: String) -> Option<Move> {
        if state == State::Free {
            self.ignoring = None;
        }
        if state == State::Watch {
            self.own_wait_s = None;
            self.tallies.remove(&Level::default());
        }
        (self.state, self.since) = (state, now);
        because(why)
    }

    /// Why victims are harmed, or will be; `None` if they are not.
    fn threat(&self, e: &Estimate) -> Option<String> {
        if let Some(pressure) = e.pressure.filter(|p| *p > HARMED) {
            return Some(format!("victims wait {pressure:.1} × the goal of {:.1?}", e.goal));
        }
        // Elevators serve a read before the writes that wait: a backlog need not harm readers.
        if self.mode == Mode::Protect && !e.commits {
            return None;
        }
        if let Some(delay) = e.queue_delay.filter(|delay| *delay > e.goal) {
            return Some(format!(
                "the queue holds {delay:.1?} of writes, more than the goal of {:.1?}",
                e.goal
            ));
        }
        let drain = e.drain_or_prior();
        let bound = drain * e.goal.as_secs_f64() * THREAT;
        let backlog = e.backlog_bytes;
        (backlog as f64 > bound.max(BACKLOG as f64))
            .then(|| format!("{} MiB wait to be written", backlog >> 20))
    }

    /// Protection begins: the flood is paced if its group holds no victim, else the queue is made
    /// short.
    fn meet(
        &mut self,
        now: Duration,
        e: &Estimate,
        offers: &Offers<'_>,
        why: String,
    ) -> Option<Move> {
        let Some(group) = offers.group else {
            let why = match e.unpaced {
                Some(unpaced) => format!("{why}; the flood can't be paced: {unpaced}"),
                None => why,
            };
            return self.begin(now, e, offers, why);
        };
        let last =
            self.paced.as_ref().filter(|(of, _, then)| of == group && is_usable(*then, now, e));
        let pace = Pace::begin(now, group, last.map(|(_, rate, _)| *rate), e);
        let (rate, pace) = (pace.rate(), Some(pace));
        (self.pace, self.level, self.stepped) = (pace, Level::default(), now);
        self.enter(now, State::Pace, format!("{why}: {group} may write {:.1} MB/s", rate / 1e6))
    }

    /// Wants the administrator's settings. The ends of encounters stay known.
    pub(crate) fn release(&mut self, now: Duration) {
        self.end_pace(now);
        *self = Self {
            known: self.known(now),
            paced: self.paced.take(),
            mode: self.mode,
            ..Self::default()
        };
    }

    fn end_pace(&mut self, now: Duration) {
        if let Some(pace) = self.pace.take() {
            self.paced = Some((pace.group().to_owned(), pace.good(), Moment::at(now)));
        }
    }

    fn begin(
        &mut self,
        now: Duration,
        e: &Estimate,
        offers: &Offers<'_>,
        why: String,
    ) -> Option<Move> {
        let kind = usize::from(e.readers > 0);
        let is_recent = |then: Duration| now - then < FORGET;
        let is_to_be_had = |level: &Level| offers.has_elevator(level.elevator);
        let known = self.known[kind]
            .filter(|(level, then)| is_usable(*then, now, e) && is_to_be_had(level));
        if let Some((known, _)) = known {
            self.best = known;
            self.opening.clear();
            self.tallies.clear();
            self.begin_ladder(now);
            if kind != self.kind {
                (self.patience, self.step) = (PATIENCE, None);
                self.tried.clear();
            }
        } else if kind != self.kind || self.opening.is_empty() || !is_recent(self.met) {
            // Otherwise the last encounter was too short to try everything, and this one goes on.
            let first = Level::first(e, offers);
            self.best = first;
            self.begin_tries(kind, offers);
            if offers.raise && self.mode == Mode::Balance {
                // Raised victims alone come first, because a priority freezes no queue.
                self.best = Level::default();
                self.opening.push_front(first);
            }
            self.tallies.clear();
            self.begin_ladder(now);
        }
        self.kind = kind;
        self.go(now, self.best, offers);
        self.next = now + FIRST_REST;
        self.enter(now, State::Protect, why)
    }

    /// In mode protect a model chooses the queue's length first.
    fn begin_ladder(&mut self, now: Duration) {
        let protects = self.mode == Mode::Protect;
        self.ladder = protects.then(|| Ladder::begin(now, self.own_wait_s.take()));
        if protects {
            self.opening.clear();
        }
    }

    /// The first levels are to be tried.
    fn begin_tries(&mut self, kind: usize, offers: &Offers<'_>) {
        (self.patience, self.step) = (PATIENCE, None);
        self.opening = offers.recipes(kind == 1);
        self.opening.retain(|level| *level != self.best);
        // The level of the beginning comes once more at the end, when the flood no longer fills the
        // page cache.
        self.opening.push_back(self.best);
        self.tried.clear();
    }

    /// One tick of the queue's length; `None` once tries are due instead.
    fn adjust(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
    ) -> Option<Option<Move>> {
        let mut ladder = self.ladder.take()?;
        let best = self.best;
        match ladder.tick(now, best, self.tally(best), whole, e, offers) {
            Turn::Exhausted(why) => {
                let is_length =
                    |level: &Level| Level { depth: best.depth, size: best.size, ..*level } == best;
                let level = self.best_seen(whole, is_length).unwrap_or(best);
                if level != best {
                    self.best = level;
                    self.go(now, level, offers);
                }
                if now < self.next {
                    ladder.rest(now, self.next);
                    self.ladder = Some(ladder);
                    return Some(if level == best { None } else { because(why) });
                }
                self.opening = offers.besides(level, e);
                self.opening.push_back(level);
                self.tallies.retain(|other, _| *other == level);
                Some(because(format!("{why}; other levers are tried")))
            }
            Turn::Stay => {
                self.ladder = Some(ladder);
                Some(None)
            }
            Turn::To(level, why) => {
                self.ladder = Some(ladder);
                self.best = level;
                self.go(now, level, offers);
                Some(because(why))
            }
        }
    }

    /// The level with the best score of some that were seen lately.
    fn best_seen(&self, whole: &Whole, is_one: impl Fn(&Level) -> bool) -> Option<Level> {
        let seen = self.tallies.iter().filter(|(level, _)| is_one(level));
        let scores = seen.filter_map(|(level, tally)| Some((tally.score(whole)?.0, *level)));
        scores.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, level)| level)
    }

    /// Whether it is not known yet which of the first levels is best.
    fn is_opening(&self) -> bool {
        !self.opening.is_empty() || self.state == State::Probe && self.step.is_none()
    }

    /// Whether the next encounter may begin at [`Self::best`]: the first levels were tried.
    fn has_best(&self) -> bool {
        self.ladder.is_some() || !self.is_opening()
    }

    /// Changes to a level. Samples count once it has settled.
    fn go(&mut self, now: Duration, level: Level, offers: &Offers<'_>) {
        let (was, is) = (self.level.is_bfq(offers), level.is_bfq(offers));
        self.settle = if is && !was { SETTLE_BFQ } else { SETTLE };
        (self.level, self.stepped, self.begun) = (level, now, now);
        self.tallies.entry(level).or_default().enter();
        self.unsettled = Tally::default();
    }

    /// The elevator belongs to another program: the guard's own is no longer in force.
    fn without_elevator(&mut self, now: Duration, offers: &Offers<'_>) -> Option<Move> {
        self.best.elevator = 0;
        self.opening.retain(|level| level.elevator == 0);
        self.tallies.retain(|level, _| level.elevator == 0);
        self.step.take_if(|step| step.is_elevator());
        if !matches!(self.state, State::Protect | State::Probe) {
            self.level.elevator = 0;
            return None;
        }
        self.go(now, self.best, offers);
        self.enter(now, State::Protect, "the elevator belongs to another program now".into())
    }

    fn tally(&mut self, level: Level) -> &mut Tally {
        self.tallies.entry(level).or_default()
    }

    fn protect(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
    ) -> Option<Move> {
        if now - self.stepped < self.settle {
            return None;
        }
        if self.mode == Mode::Balance
            && self.best.is_free()
            && let Some(pressure) = e.pressure.filter(|pressure| *pressure > HARMED)
            && let Some(first) = self.opening.pop_front()
        {
            // Its samples are from the flood's beginning.
            self.tallies.remove(&self.best);
            self.best = first;
            self.go(now, first, offers);
            self.next = now + FIRST_REST;
            return because(format!("raised victims wait {pressure:.1} × the goal, too"));
        }
        let best = self.best;
        let tally = self.tally(best);
        tally.add(now, e, whole);
        if let Some((wait, flood)) = tally.slowdown(LAST_SLOTS) {
            let changed = |factor: f64| !(1.0 / CHANGED..=CHANGED).contains(&factor);
            if changed(wait) && changed(flood) && (wait > 1.0) == (flood > 1.0) {
                // Both changed at once and no knob was written: the device has changed.
                self.begin_anew(now);
                let slower = if wait > 1.0 { wait.min(flood) } else { wait.max(flood) };
                let why =
                    format!("the device has become {slower:.2} times slower: tries begin anew");
                return Some(Move { why, slower: Some(slower) });
            }
            if wait > CHANGED * CHANGED {
                self.begin_anew(now);
                return because(format!(
                    "victims wait {wait:.1} times longer than they did here: tries begin anew"
                ));
            }
        }
        if let Some(adjusted) = self.adjust(now, e, whole, offers) {
            return adjusted;
        }
        if now < self.next && self.mode == Mode::Balance
            || self.tally(best).fresh().slots < REST_SLOTS
        {
            return None;
        }
        let tally = self.tally(best);
        let why = described(tally, whole);
        if let Some(level) = self.opening.pop_front() {
            // Its samples are from the flood's beginning.
            self.tallies.remove(&best);
            self.step = None;
            self.go(now, level, offers);
            return self.enter(now, State::Probe, format!("{why}: trying {level}, and others"));
        }
        let less = self.tally(best).victims_have_less(whole);
        // A change of the elevator costs most, so the first round leaves it out.
        let first_round = self.patience <= PATIENCE;
        let steps = self
            .step
            .into_iter()
            .chain(Step::all(less))
            .filter(|s| !first_round || !s.is_elevator());
        let next = steps
            .filter_map(|step| Some((step, step.from(best, e, offers)?)))
            .find(|(_, level)| !self.tried.contains(level));
        let Some((step, level)) = next else {
            self.tried.clear();
            self.step = None;
            return because(self.wait_longer(now));
        };
        self.step = Some(step);
        self.go(now, level, offers);
        self.enter(now, State::Probe, format!("{why}: trying {step}"))
    }

    /// Watches one of the first levels for an unknown device. Then goes on to the next one, or to
    /// the best of all.
    fn open(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
    ) -> Option<Move> {
        let level = self.level;
        let is_refused = !offers.has_elevator(level.elevator);
        let watched = self.watch(now, e, whole);
        let is_enough = watched.is_enough(OPENING_S);
        // The effect of bfq shows late.
        let most_dead = if self.settle > SETTLE { 2.0 * DEAD_S } else { DEAD_S };
        let victims = |tally: &Tally| tally.victims(whole);
        let best = self
            .tallies
            .iter()
            .filter(|(other, _)| **other != level)
            .filter_map(|(_, t)| victims(t));
        let harm =
            best.reduce(f64::max).zip(victims(&watched.trial)).map(|(best, here)| best - here);
        let is_hopeless = watched.is_settled && watched.is_hopeless(harm);
        // A limit comes down no faster than the backlog drains.
        let is_late = !watched.is_settled && now - self.begun > LIMIT_TRIAL;
        if !is_refused && !is_enough && !is_hopeless && !is_late && watched.dead_s < most_dead {
            return None;
        }
        self.tried.insert(level);
        let why = described(&watched.trial, whole);
        // A score can be judged by itself only if the victims' latency alone or their goal is
        // known.
        let is_known = whole.wait_s.is_some() || whole.goal_s.is_some();
        let is_good = watched.trial.score(whole).is_some_and(|(score, _)| score > GOOD);
        if is_enough && is_known && is_good {
            self.opening.clear();
        }
        let is_first = offers.raise && !self.tallies.keys().any(|level| level.unraised);
        if is_first && is_enough && !(is_known && is_good) {
            // Raising may cost the flood more than it gives. No queue freezes to find out.
            self.opening.push_front(Level { unraised: true, ..level });
        }
        if let Some(next) = self.opening.pop_front() {
            self.go(now, next, offers);
            return because(format!("{why}; trying {next}"));
        }
        let is_to_be_had = |level: &Level| offers.has_elevator(level.elevator);
        self.best = self.best_seen(whole, is_to_be_had).unwrap_or(self.best);
        let mut why = format!("{why}; {} is the best of {}", self.best, self.tallies.len());
        self.go(now, self.best, offers);
        self.next = now + REST;
        if self.mode == Mode::Protect {
            self.ladder = Some(Ladder::begin(now, None));
            self.patience = (self.patience * PATIENCE_GROWTH).min(MOST_PATIENCE);
            self.next = now + self.patience;
            why = format!("{why}; no other try for {:.0?}", self.patience);
        }
        self.enter(now, State::Protect, why)
    }

    /// One more tick of the level under trial.
    fn watch(&mut self, now: Duration, e: &Estimate, whole: &Whole) -> Watched {
        let is_settled = now - self.stepped >= self.settle;
        if is_settled {
            self.tally(self.level).add(now, e, whole);
        } else if now - self.stepped >= SETTLE {
            self.unsettled.add(now, e, whole);
        }
        let trial = self.tally(self.level).clone();
        let dead_s = trial.dead_s(whole) + self.unsettled.dead_s(whole);
        let trial = if is_settled { trial } else { self.unsettled.clone() };
        Watched { is_settled, trial, dead_s }
    }

    /// Conditions have changed: earlier results say little.
    fn begin_anew(&mut self, now: Duration) {
        self.ladder = self.ladder.as_ref().map(|_| Ladder::begin(now, None));
        self.tallies.retain(|level, _| *level == self.best);
        self.tally(self.best).keep_last(LAST_SLOTS);
        self.tried.clear();
        (self.step, self.patience, self.next) =
            (None, (self.patience / PATIENCE_GROWTH).max(PATIENCE), now);
    }

    fn probe(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
        in_force: bool,
    ) -> Option<Move> {
        if self.level.elevator != self.best.elevator && !offers.has_elevator(self.level.elevator) {
            // The elevator was refused.
            self.tried.insert(self.level);
            self.step = None;
            self.go(now, self.best, offers);
            return self.enter(now, State::Protect, "it is not to be had".into());
        }
        let level = self.level;
        let watched = self.watch(now, e, whole);
        let (trial, tally) = (&watched.trial, self.tally(self.best).clone());
        let usual_dead_s = tally.dead_share(whole) * (now - self.stepped).as_secs_f64();
        // For example, a limit comes down and no victim is served meanwhile.
        let usual = tally.rates(whole).map_or(Duration::ZERO, |(wait, _)| wait);
        let is_stuck =
            !in_force && now - self.since > NOT_IN_FORCE && e.oldest > STUCK.max(usual * 10);
        if is_stuck || watched.dead_s >= DEAD_S && watched.dead_s > usual_dead_s {
            self.tried.insert(level);
            let why = format!("{}, {:.1} s dead", described(trial, whole), watched.dead_s);
            return self.back(now, offers, why);
        }
        if !watched.is_settled {
            return None;
        }
        let ((here, noise_here), (there, noise_there)) = (trial.score(whole)?, tally.score(whole)?);
        let gain = here - there;
        let harm = trial.victims(whole).zip(tally.victims(whole)).map(|(here, there)| there - here);
        let enough = watched.is_enough(TRY_S);
        let hopeless = watched.is_hopeless(harm);
        if !enough && !hopeless {
            return None;
        }
        let (before, after) = (described(&tally, whole), described(trial, whole));
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
    fn back(&mut self, now: Duration, offers: &Offers<'_>, why: String) -> Option<Move> {
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

    fn recover(
        &mut self,
        now: Duration,
        e: &Estimate,
        offers: &Offers<'_>,
        both: bool,
    ) -> Option<Move> {
        if both && let Some(why) = self.threat(e) {
            return self.meet(now, e, offers, why);
        }
        if now - self.stepped < RECOVER_STEP {
            return None;
        }
        if self.level.is_free() {
            return self.enter(
                now,
                State::Free,
                "the administrator's settings are in force again".into(),
            );
        }
        self.level = self.level.half();
        self.stepped = now;
        because(if self.level.is_free() { "back" } else { "half way back" }.into())
    }
}

/// A level's rates as text.
fn described(tally: &Tally, whole: &Whole) -> String {
    let Some((wait, flood)) = tally.rates(whole) else { return "nothing seen".into() };
    format!("victims wait {wait:.1?}, the flood has {:.1} MB/s", flood / 1e6)
}

/// Whether the end of an earlier encounter still tells where the next one begins. The base could
/// not be learnt behind a queue that is too long, so an imported end needs a base of this start.
fn is_usable(then: Moment, now: Duration, e: &Estimate) -> bool {
    then.age(now) < FORGET && (!then.is_imported() || e.base.is_some() || e.goal_is_given)
}

fn gone(e: &Estimate) -> String {
    match (e.victims, e.floods) {
        (false, false) => "victims and floods are gone".into(),
        (false, _) => "victims are gone".into(),
        (_, _) => "floods are gone".into(),
    }
}

#[cfg(test)]
mod tests;
