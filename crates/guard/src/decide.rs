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

mod tries;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use floodwall_model::units::{Rate, human_duration};

use crate::climb::{Samples, Whole};
use crate::config::{
    BACKLOG, FIRST_REST, FORGET, HARMED, Mode, PATIENCE, RECOVER_STEP, SETTLE, SETTLE_BFQ, THREAT,
};
use crate::estimate::Estimate;
use crate::ladder::Ladder;
use crate::level::Level;
use crate::levers::{Offers, Step};
use crate::memory::Moment;
use crate::pace::Pace;
use crate::state::State;
use crate::trust::OwnPace;

/// Why nothing is done about a flood.
const SPARES: &str = "the flood beside the victims paces itself";

/// The state machine of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateMachine {
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
    samples: BTreeMap<Level, Samples>,
    /// Samples of a level that takes long to settle, until it has settled.
    unsettled: Samples,
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

impl StateMachine {
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
        protects && offers.is_bfq(self.level) && !self.level.unraised
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
        let (meet, both) = (e.victims && e.floods, e.is_encounter());
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
            State::Free if meet => {
                let met = if both { "victims and floods have met" } else { SPARES };
                let met = self.enter(now, State::Watch, met.into());
                self.threat(e).and_then(|why| self.meet(now, e, offers, why)).or(met)
            }
            State::Free => None,
            State::Watch if !meet => self.enter(now, State::Free, gone(e)),
            State::Watch => {
                let own = self.samples_of(Level::default());
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
            self.samples.remove(&Level::default());
        }
        (self.state, self.since) = (state, now);
        because(why)
    }

    /// Why victims are harmed, or will be; `None` if they are not.
    fn threat(&self, e: &Estimate) -> Option<String> {
        if e.own_pace == OwnPace::Spared {
            return None;
        }
        if let Some(pressure) = e.pressure.filter(|p| *p > HARMED) {
            let goal = human_duration(e.goal);
            let in_spite = match e.own_pace {
                OwnPace::Missed => ", although the flood paces itself",
                _ => "",
            };
            return Some(format!("victims wait {pressure:.1} × the goal of {goal}{in_spite}"));
        }
        // Elevators serve a read before the writes that wait: a backlog need not harm readers.
        if self.mode == Mode::Protect && !e.commits {
            return None;
        }
        if let Some(delay) = e.queue_delay.filter(|delay| *delay > e.goal) {
            return Some(format!(
                "the queue holds {} of writes, more than the goal of {}",
                human_duration(delay),
                human_duration(e.goal)
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
        self.enter(now, State::Pace, format!("{why}: {group} may write {}", Rate(rate)))
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
        let is_to_be_had = |level: &Level| offers.may_switch_elevator(level.elevator);
        let known = self.known[kind]
            .filter(|(level, then)| is_usable(*then, now, e) && is_to_be_had(level));
        if let Some((known, _)) = known {
            self.best = known;
            self.opening.clear();
            self.samples.clear();
            self.begin_ladder(now);
            if kind != self.kind {
                (self.patience, self.step) = (PATIENCE, None);
                self.tried.clear();
            }
        } else if kind != self.kind || self.opening.is_empty() || !is_recent(self.met) {
            // Otherwise the last encounter was too short to try everything, and this one goes on.
            let first = offers.first(e);
            self.best = first;
            self.begin_tries(kind, offers);
            if offers.raise && self.mode == Mode::Balance {
                // Raised victims alone come first, because a priority freezes no queue.
                self.best = Level::default();
                self.opening.push_front(first);
            }
            self.samples.clear();
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
        let (was, is) = (offers.is_bfq(self.level), offers.is_bfq(level));
        self.settle = if is && !was { SETTLE_BFQ } else { SETTLE };
        (self.level, self.stepped, self.begun) = (level, now, now);
        self.samples.entry(level).or_default().enter();
        self.unsettled = Samples::default();
    }

    /// The elevator belongs to another program: the guard's own is no longer in force.
    fn without_elevator(&mut self, now: Duration, offers: &Offers<'_>) -> Option<Move> {
        self.best.elevator = 0;
        self.opening.retain(|level| level.elevator == 0);
        self.samples.retain(|level, _| level.elevator == 0);
        self.step.take_if(|step| step.is_elevator());
        if !matches!(self.state, State::Protect | State::Probe) {
            self.level.elevator = 0;
            return None;
        }
        self.go(now, self.best, offers);
        self.enter(now, State::Protect, "the elevator belongs to another program now".into())
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

/// Whether the end of an earlier encounter still tells where the next one begins. The base could
/// not be learnt behind a queue that is too long, so an imported end needs a base of this start.
fn is_usable(then: Moment, now: Duration, e: &Estimate) -> bool {
    then.age(now) < FORGET && (!then.is_imported() || e.base.is_some() || e.goal_is_given)
}

fn gone(e: &Estimate) -> String {
    match (e.victims, e.floods) {
        (false, false) => "victims and floods are gone".into(),
        (false, _) => "victims are gone".into(),
        (_, true) => SPARES.into(),
        (_, _) => "floods are gone".into(),
    }
}

#[cfg(test)]
mod tests;
