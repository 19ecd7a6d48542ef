//! Tries of levels under protection: the first levels of an unknown device, then one step aside at
//! a time. In mode protect a model chooses the queue's length before any try.

use std::time::Duration;

use floodwall_model::units::{Rate, human_duration};

use super::{Move, StateMachine, because};
use crate::climb::{Samples, Whole};
use crate::config::{
    BETTER, CHANGED, CLEARLY_WORSE, DEAD_S, ENOUGH_OPERATIONS, FIRST_REST, GOOD, HARMED,
    HOPELESS_SLOTS, LAST_SLOTS, LIMIT_TRIAL, MOST_PATIENCE, MOST_S, Mode, NOT_IN_FORCE, OPENING_S,
    PATIENCE, PATIENCE_GROWTH, REST, REST_SLOTS, SETTLE, STUCK, TRY_S, UNBEARABLE,
};
use crate::estimate::Estimate;
use crate::ladder::{Ladder, Turn};
use crate::level::Level;
use crate::levers::{Offers, Step};
use crate::state::State;

/// The level under trial, as measured so far.
struct Watched {
    is_settled: bool,
    trial: Samples,
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

impl StateMachine {
    /// The first levels are to be tried.
    pub(super) fn begin_tries(&mut self, kind: usize, offers: &Offers<'_>) {
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
        match ladder.tick(now, best, self.samples_of(best), whole, e, offers) {
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
                self.samples.retain(|other, _| *other == level);
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
        let seen = self.samples.iter().filter(|(level, _)| is_one(level));
        let scores = seen.filter_map(|(level, samples)| Some((samples.score(whole)?.0, *level)));
        scores.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, level)| level)
    }

    pub(super) fn samples_of(&mut self, level: Level) -> &mut Samples {
        self.samples.entry(level).or_default()
    }

    pub(super) fn protect(
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
            self.samples.remove(&self.best);
            self.best = first;
            self.go(now, first, offers);
            self.next = now + FIRST_REST;
            return because(format!("raised victims wait {pressure:.1} × the goal, too"));
        }
        let best = self.best;
        let samples = self.samples_of(best);
        samples.add(now, e, whole);
        if let Some((wait, flood)) = samples.slowdown(LAST_SLOTS) {
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
            || self.samples_of(best).fresh().slots < REST_SLOTS
        {
            return None;
        }
        let samples = self.samples_of(best);
        let why = described(samples, whole);
        if let Some(level) = self.opening.pop_front() {
            // Its samples are from the flood's beginning.
            self.samples.remove(&best);
            self.step = None;
            self.go(now, level, offers);
            return self.enter(now, State::Probe, format!("{why}: trying {level}, and others"));
        }
        let less = self.samples_of(best).victims_have_less(whole);
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
    pub(super) fn open(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
    ) -> Option<Move> {
        let level = self.level;
        let is_refused = !offers.may_switch_elevator(level.elevator);
        let watched = self.watch(now, e, whole);
        let is_enough = watched.is_enough(OPENING_S);
        // The effect of bfq shows late.
        let most_dead = if self.settle > SETTLE { 2.0 * DEAD_S } else { DEAD_S };
        let victims = |samples: &Samples| samples.victims(whole);
        let best = self
            .samples
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
        let is_first = offers.raise && !self.samples.keys().any(|level| level.unraised);
        if is_first && is_enough && !(is_known && is_good) {
            // Raising may cost the flood more than it gives. No queue freezes to find out.
            self.opening.push_front(Level { unraised: true, ..level });
        }
        if let Some(next) = self.opening.pop_front() {
            self.go(now, next, offers);
            return because(format!("{why}; trying {next}"));
        }
        let is_to_be_had = |level: &Level| offers.may_switch_elevator(level.elevator);
        self.best = self.best_seen(whole, is_to_be_had).unwrap_or(self.best);
        let mut why = format!("{why}; {} is the best of {}", self.best, self.samples.len());
        self.go(now, self.best, offers);
        self.next = now + REST;
        if self.mode == Mode::Protect {
            self.ladder = Some(Ladder::begin(now, None));
            self.patience = (self.patience * PATIENCE_GROWTH).min(MOST_PATIENCE);
            self.next = now + self.patience;
            why = format!("{why}; no other try for {}", human_duration(self.patience));
        }
        self.enter(now, State::Protect, why)
    }

    /// One more tick of the level under trial.
    fn watch(&mut self, now: Duration, e: &Estimate, whole: &Whole) -> Watched {
        let is_settled = now - self.stepped >= self.settle;
        if is_settled {
            self.samples_of(self.level).add(now, e, whole);
        } else if now - self.stepped >= SETTLE {
            self.unsettled.add(now, e, whole);
        }
        let trial = self.samples_of(self.level).clone();
        let dead_s = trial.dead_s(whole) + self.unsettled.dead_s(whole);
        let trial = if is_settled { trial } else { self.unsettled.clone() };
        Watched { is_settled, trial, dead_s }
    }

    /// Conditions have changed: earlier results say little.
    fn begin_anew(&mut self, now: Duration) {
        self.ladder = self.ladder.as_ref().map(|_| Ladder::begin(now, None));
        self.samples.retain(|level, _| *level == self.best);
        self.samples_of(self.best).keep_last(LAST_SLOTS);
        self.tried.clear();
        (self.step, self.patience, self.next) =
            (None, (self.patience / PATIENCE_GROWTH).max(PATIENCE), now);
    }

    pub(super) fn probe(
        &mut self,
        now: Duration,
        e: &Estimate,
        whole: &Whole,
        offers: &Offers<'_>,
        in_force: bool,
    ) -> Option<Move> {
        if self.level.elevator != self.best.elevator
            && !offers.may_switch_elevator(self.level.elevator)
        {
            // The elevator was refused.
            self.tried.insert(self.level);
            self.step = None;
            self.go(now, self.best, offers);
            return self.enter(now, State::Protect, "it is not to be had".into());
        }
        let level = self.level;
        let watched = self.watch(now, e, whole);
        let (trial, samples) = (&watched.trial, self.samples_of(self.best).clone());
        let usual_dead_s = samples.dead_share(whole) * (now - self.stepped).as_secs_f64();
        // For example, a limit comes down and no victim is served meanwhile.
        let usual = samples.rates(whole).map_or(Duration::ZERO, |(wait, _)| wait);
        let is_stuck =
            !in_force && now - self.since > NOT_IN_FORCE && e.oldest > STUCK.max(usual * 10);
        if is_stuck || watched.dead_s >= DEAD_S && watched.dead_s > usual_dead_s {
            self.tried.insert(level);
            let dead = human_duration(Duration::from_secs_f64(watched.dead_s));
            let why = format!("{}, {dead} dead", described(trial, whole));
            return self.back(now, offers, why);
        }
        if !watched.is_settled {
            return None;
        }
        let ((here, noise_here), (there, noise_there)) =
            (trial.score(whole)?, samples.score(whole)?);
        let gain = here - there;
        let harm =
            trial.victims(whole).zip(samples.victims(whole)).map(|(here, there)| there - here);
        let enough = watched.is_enough(TRY_S);
        let hopeless = watched.is_hopeless(harm);
        if !enough && !hopeless {
            return None;
        }
        let (before, after) = (described(&samples, whole), described(trial, whole));
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
        format!("nothing else is better: no other try for {}", human_duration(self.patience))
    }
}

/// A level's rates as text.
fn described(samples: &Samples, whole: &Whole) -> String {
    let Some((wait, flood)) = samples.rates(whole) else { return "nothing seen".into() };
    format!("victims wait {}, the flood has {}", human_duration(wait), Rate(flood))
}
