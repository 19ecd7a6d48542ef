//! The search: reference, race, and the winner against the default, measured afresh.
//!
//! ```text
//! reference   the default, all phases: what is possible here, the drain rate ─▶ the space
//! race        rounds of phase both and bursts; losers dropped, neighbours tried;
//!             until its share of the time is over
//! final       winner and default, interleaved, fresh rounds
//!             ─▶ recommended only if score and interval part
//!             one look at the price: flood or bursts that can't be told yet get the remaining time
//! ```
//!
//! **The winner's curse.** Of many candidates the one that looks best was also lucky. So nothing
//! that chose it counts for it: the recommendation rests on trials made after the choice, and on no
//! others.
//!
//! **Time.** Trials are as long as the budget allows; no trial is started that would not end in
//! time, by what trials have taken so far.

use std::collections::BTreeMap;

use floodwall_model::{PhaseKind, Runner, Scenario, Watch};
use floodwall_stats::random::Random;
use floodwall_stats::versus::{Figure, Verdict};

use crate::contest::Contender;
use crate::objective::{Kept, Reference, kept, pooled};
use crate::pollution::Listener;
use crate::race::{self, Candidate};
use crate::space::Space;

mod options;
mod outcome;
mod trials;
mod verdict;

use verdict::{FINAL_ROUNDS, LEAST_FINAL_ROUNDS, decide, recommend, rounds_to_show};

pub use options::{Clock, Earlier, Options, Stage, Turn};
pub use outcome::{Final, Outcome, Recommendation};

/// Share of the time in which the reference is measured, about.
const REFERENCE_SHARE: f64 = 0.15;
/// Share of the time that is kept for the final, at most.
const FINAL_SHARE: f64 = 0.35;
/// Trials that a race should have at least; phases get shorter for it. Twice as many of half the
/// length find less: in its first seconds, before it meets the dirty limit for good, a flood
/// behaves differently.
const RACE_TRIALS: f64 = 14.0;
/// Rounds of a final at the most; what time is left beyond that is the race's.
const MOST_FINAL_ROUNDS: u32 = 10;
/// And at the most while the price, what flood and bursts lose, can't be told.
const MOST_PRICE_ROUNDS: u32 = 30;
/// Share of the final's rounds after which it is looked at once which price can't be told yet. One
/// look, because every look is a chance to stop at luck.
const LOOK_AFTER: f64 = 0.75;
/// Share of the race in which new candidates come; after it the best of all run against each other.
const EXPLORE_SHARE: f64 = 0.6;
/// How much longer their phases are: a device with a good and a bad state stays in either for
/// seconds.
const LONGER: f64 = 3.0;
/// No phase is shorter: a stall would fill it.
const SHORTEST_S: f64 = 4.0;
/// A phase's time beside its measured part, before any is known.
const OVERHEAD_S: f64 = 7.0;

/// Searches. `space_of` makes the space once the drain rate is known; `tell` hears of each trial
/// before it runs.
pub fn tune<'a>(
    runner: &'a mut dyn Runner,
    scenario: &'a Scenario,
    space_of: &mut dyn FnMut(&Reference) -> Space,
    options: &'a Options,
    clock: Clock<'a>,
    watch: &'a mut dyn Watch,
    tell: &'a mut dyn FnMut(Turn<'_>),
) -> Outcome {
    let mut search = Search {
        runner,
        scenario,
        options,
        clock,
        watch: Listener::new(watch),
        tell,
        random: Random::seeded(options.seed),
        spent_on_trials: 0.0,
        round: 0,
        trials_run: 0,
        failures: 0,
        in_vain: 0,
        overhead_s: OVERHEAD_S,
        burst_s: 0.0,
        raced_s: 0.0,
    };
    search.run(space_of)
}

/// The rest of a final.
#[derive(Clone, Copy)]
struct Rest {
    /// The phases of its trials.
    phases: &'static [PhaseKind],
    /// The duration of a round of both settings.
    round_s: f64,
    /// Rounds of the final at the most, those that have run included.
    most: u32,
}

/// Why a search can't go on.
struct Stop {
    why: String,
    interrupted: bool,
}

struct Search<'a> {
    runner: &'a mut dyn Runner,
    scenario: &'a Scenario,
    options: &'a Options,
    clock: Clock<'a>,
    watch: Listener<'a>,
    tell: &'a mut dyn FnMut(Turn<'_>),
    random: Random,
    spent_on_trials: f64,
    round: u32,
    trials_run: u32,
    failures: u32,
    /// Repetitions in a row that were as disturbed as what they repeated.
    in_vain: u32,
    /// A phase's time beside its measured part.
    overhead_s: f64,
    /// The duration of a burst.
    burst_s: f64,
    /// Measured seconds of the race's last trials.
    raced_s: f64,
}

impl Search<'_> {
    fn run(&mut self, space_of: &mut dyn FnMut(&Reference) -> Space) -> Outcome {
        let nothing = Space { starts: vec![Vec::new()], ..Space::default() };
        let mut outcome = Outcome {
            candidates: vec![Candidate::new(&nothing, Vec::new())],
            reference: None,
            space: 1,
            winner: None,
            last: None,
            recommendation: Recommendation::NotMeasured { why: String::new() },
            trials_run: 0,
            interrupted: false,
            seconds: 0.0,
        };
        // This comes before anything can fail: even then the earlier measurements are in the
        // outcome.
        self.remember(&mut outcome, &nothing);
        match self.stages(space_of, &mut outcome) {
            Ok(recommendation) => outcome.recommendation = recommendation,
            Err(stop) => {
                outcome.interrupted = stop.interrupted;
                outcome.recommendation = Recommendation::NotMeasured { why: stop.why };
            }
        }
        (outcome.trials_run, outcome.seconds) = (self.trials_run, self.now());
        outcome
    }

    fn stages(
        &mut self,
        space_of: &mut dyn FnMut(&Reference) -> Space,
        outcome: &mut Outcome,
    ) -> Result<Recommendation, Stop> {
        let reference = self.reference(outcome)?;
        outcome.reference = Some(reference.clone());
        let mut space = space_of(&reference);
        for (why, names) in
            by_reason(space.leave_out(|setting| self.runner.refusal(self.scenario, setting)))
        {
            self.watch.inner.warn(&format!("not tried: {}: {why}", names.join("; ")));
        }
        outcome.space = space.size();
        outcome.candidates[0].point = Some(space.origin());
        self.take_over(outcome, &space, &reference);
        if space.size() > 1 || !self.options.also.is_empty() {
            self.race(outcome, &space, &reference)?;
            // A setting that was never tried has no verdict.
            if outcome.candidates.iter().skip(1).all(|c| c.trials.is_empty() && c.failure.is_none())
            {
                let why = "the time was over before anything but the setting in force was tried: \
                           give more";
                return Err(Stop { why: why.into(), interrupted: false });
            }
        }
        let best = race::winner(&space, &outcome.candidates);
        outcome.winner = best.filter(|i| *i > 0);
        match outcome.winner {
            None => Ok(Recommendation::Default),
            Some(winner) => self.finish(outcome, winner, &reference),
        }
    }

    fn now(&mut self) -> f64 {
        match &mut self.clock {
            Clock::Wall(now) => now(),
            Clock::Trials => self.spent_on_trials,
        }
    }

    /// The duration of a trial with phase both and a burst, with this many measured seconds.
    fn trial_s(&self, measure_s: f64) -> f64 {
        let burst = if self.scenario.burst.is_some() { self.burst_trial_s() } else { 0.0 };
        measure_s + self.overhead_s + burst
    }

    /// The duration of a burst.
    fn burst_trial_s(&self) -> f64 {
        self.overhead_s.min(4.0) + self.burst_s
    }

    /// Measured seconds with which so many trials fit into a time.
    fn measure_s(&self, seconds: f64, trials: f64) -> f64 {
        let longest = self.scenario.timing.measure.as_secs_f64();
        (seconds / trials - self.trial_s(0.0)).floor().clamp(SHORTEST_S.min(longest), longest)
    }

    fn reference(&mut self, outcome: &mut Outcome) -> Result<Reference, Stop> {
        if let Some(reference) = Reference::of(&outcome.candidates[0].trials, self.scenario) {
            return Ok(reference);
        }
        let longest = self.scenario.timing.measure.as_secs_f64();
        let measure = (REFERENCE_SHARE * self.options.seconds / 3.0 - OVERHEAD_S).floor();
        let measure = measure.clamp(SHORTEST_S.min(longest), longest);
        self.round += 1;
        let begin = self.now();
        self.trial(outcome, 0, Stage::Reference, &[], measure)?;
        // A trial of the setting in force either counts or ends the search.
        let Some(trial) = outcome.candidates[0].trials.last() else {
            let why = "the setting in force could not be measured".into();
            return Err(Stop { why, interrupted: false });
        };
        let timed = trial.phases.iter().filter(|p| p.kind != PhaseKind::Burst);
        let (measured, n) = timed.fold((0.0, 0.0), |(s, n), p| (s + p.seconds, n + 1.0));
        self.burst_s = trial.phases.iter().filter_map(|p| p.burst).map(|b| b.seconds).sum();
        let trials = [trial.clone()];
        // A burst has its pauses too: counted as half a phase.
        let pauses = if self.scenario.burst.is_some() { n + 0.5 } else { n };
        self.overhead_s =
            ((self.now() - begin - measured - self.burst_s) / f64::max(pauses, 1.0)).max(0.5);
        Reference::of(&trials, self.scenario).ok_or_else(|| Stop {
            why: "the victim or the flood did nothing when it was alone, so there is nothing to \
                compare with"
                .into(),
            interrupted: false,
        })
    }

    /// Makes candidates of all that was tried before, with every trial of it.
    fn remember(&mut self, outcome: &mut Outcome, nothing: &Space) {
        for earlier in &self.options.earlier {
            let known = outcome.candidates.iter().position(|c| c.setting == earlier.setting);
            let i = known.unwrap_or_else(|| {
                let named =
                    Contender { name: earlier.name.clone(), setting: earlier.setting.clone() };
                outcome.candidates.push(Candidate::named(nothing, &named));
                outcome.candidates.len() - 1
            });
            let candidate = &mut outcome.candidates[i];
            candidate.trials.extend(earlier.trials.iter().cloned());
            candidate.disturbed.extend(earlier.disturbed.iter().cloned());
        }
        let all = outcome.candidates.iter().flat_map(|c| c.trials.iter().chain(&c.disturbed));
        self.round = all.map(|t| t.round).max().unwrap_or(0);
    }

    /// Finds what was tried before in the space, and makes candidates of its starts.
    fn take_over(&mut self, outcome: &mut Outcome, space: &Space, reference: &Reference) {
        for candidate in &mut outcome.candidates[1..] {
            // A setting of another space (another drain rate gives other limits) runs on as one
            // that was named by hand.
            candidate.point = space.find(&candidate.setting);
            let also = self.options.also.iter().find(|also| also.setting == candidate.setting);
            if let Some(also) = also {
                candidate.name.clone_from(&also.name);
            } else if let Some(point) = &candidate.point {
                candidate.name = space.name(point);
            }
        }
        outcome.candidates.iter_mut().for_each(|candidate| self.score(candidate, reference));
        // The user wants named settings tried, so those come first.
        for also in &self.options.also {
            if !outcome.candidates.iter().any(|c| c.setting == also.setting) {
                outcome.candidates.push(Candidate::named(space, also));
            }
        }
        for start in &space.starts {
            if !outcome.candidates.iter().any(|c| c.point.as_ref() == Some(start)) {
                outcome.candidates.push(Candidate::new(space, start.clone()));
            }
        }
    }

    fn race(
        &mut self,
        outcome: &mut Outcome,
        space: &Space,
        reference: &Reference,
    ) -> Result<(), Stop> {
        let begin = self.now();
        let left = self.options.seconds * (1.0 - FINAL_SHARE) - begin;
        let mut measure = self.measure_s(left, RACE_TRIALS);
        let mut trial_s = self.trial_s(measure);
        // With little time the less promising starts don't run at all: each that does should run
        // twice.
        let affordable = ((left / trial_s / 2.0) as usize).max(3);
        let ran = |c: &Candidate| !c.trials.is_empty() || !c.disturbed.is_empty();
        let known = outcome.candidates.iter().rposition(ran).map_or(0, |last| last + 1);
        outcome.candidates.truncate(known.max(affordable).max(1 + self.options.also.len()));
        self.raced_s = measure;
        let mut exploring = true;
        loop {
            self.round += 1;
            for i in self.random.shuffled(race::running(&outcome.candidates)) {
                let end = self.options.seconds - self.reserve_s(outcome, space, measure);
                if self.now() + trial_s > end {
                    return Ok(());
                }
                let phases = racing_phases(&outcome.candidates[i].setting);
                self.trial(outcome, i, Stage::Race, phases, measure)?;
                self.score(&mut outcome.candidates[i], reference);
            }
            let end = self.options.seconds - self.reserve_s(outcome, space, measure);
            if exploring && self.now() > begin + EXPLORE_SHARE * (end - begin) {
                exploring = false;
                measure = (LONGER * measure).min(self.scenario.timing.measure.as_secs_f64());
                trial_s = self.trial_s(measure);
                self.raced_s = measure;
                let hopeful =
                    race::shortlist(space, &mut outcome.candidates, self.round, &mut self.random);
                outcome
                    .candidates
                    .extend(hopeful.into_iter().map(|point| Candidate::new(space, point)));
                continue;
            }
            race::drop_losers(&mut outcome.candidates, self.round, exploring);
            let fresh = if exploring {
                race::fresh(space, &outcome.candidates, &mut self.random)
            } else {
                race::beside(space, &outcome.candidates, &mut self.random)
            };
            if fresh.is_empty() && race::running(&outcome.candidates).len() < 2 {
                return Ok(());
            }
            outcome.candidates.extend(fresh.into_iter().map(|point| Candidate::new(space, point)));
        }
    }

    /// Seconds that are kept for the final: enough rounds for the leader's advantage, as it looks
    /// now, to show.
    fn reserve_s(&self, outcome: &Outcome, space: &Space, measure_s: f64) -> f64 {
        let rounds = race::advantage(space, &outcome.candidates)
            .map_or(FINAL_ROUNDS, |(gain, spread)| rounds_to_show(gain, spread));
        (2.0 * f64::from(rounds) * self.trial_s(measure_s)).min(FINAL_SHARE * self.options.seconds)
    }

    fn score(&self, candidate: &mut Candidate, reference: &Reference) {
        let objective = self.options.objective;
        let all: Vec<Kept> = candidate.trials.iter().filter_map(|t| kept(t, reference)).collect();
        candidate.scores = all.iter().map(|k| objective.log_score(k)).collect();
        candidate.score = pooled(&all).map(|k| objective.log_score(&k));
    }

    fn finish(
        &mut self,
        outcome: &mut Outcome,
        winner: usize,
        reference: &Reference,
    ) -> Result<Recommendation, Stop> {
        let left = self.options.seconds - self.now();
        let wanted = (left / 2.0 / self.trial_s(SHORTEST_S)) as u32;
        let measure =
            self.measure_s(left, 2.0 * f64::from(wanted.clamp(LEAST_FINAL_ROUNDS, FINAL_ROUNDS)));
        // Never shorter than the trials that chose the winner: it may be best in its first seconds
        // alone.
        let measure = measure.max(self.raced_s);
        let round_s = 2.0 * self.trial_s(measure);
        // Two rounds are needed to say anything, even if that takes longer than asked for.
        let rounds = ((left / round_s) as u32).clamp(2, MOST_FINAL_ROUNDS);
        let look_at = ((LOOK_AFTER * f64::from(rounds)) as u32).max(LEAST_FINAL_ROUNDS).min(rounds);
        let mut rest = Rest { phases: &[PhaseKind::Both, PhaseKind::Burst], round_s, most: rounds };
        let mut done = 0;
        while done < rest.most && (done < 2 || self.now() + rest.round_s <= self.options.seconds) {
            self.round += 1;
            for i in self.random.shuffled(vec![0, winner]) {
                self.trial(outcome, i, Stage::Final, rest.phases, measure)?;
                if let Some(why) = &outcome.candidates[i].failure {
                    return Err(Stop { why: why.clone(), interrupted: false });
                }
            }
            done += 1;
            if done == look_at {
                let last = decide(outcome, winner, reference, self.options.objective).0;
                rest = self.rest(&last, rest);
            }
        }
        let (last, differences) = decide(outcome, winner, reference, self.options.objective);
        let recommendation = recommend(&last, &differences, round_s);
        outcome.last = Some(last);
        Ok(recommendation)
    }

    /// The final's rounds after its look: of the phases whose price is not clear yet, else as
    /// before.
    fn rest(&self, last: &Final, so_far: Rest) -> Rest {
        let untold = |figure| {
            last.compared.iter().any(|c| c.figure == figure && c.verdict == Verdict::Untold)
        };
        if untold(Figure::FloodBytesPerS) {
            Rest { most: MOST_PRICE_ROUNDS, ..so_far }
        } else if untold(Figure::BurstBytesPerS) {
            // A burst alone takes a fraction of the time.
            let round_s = 2.0 * self.burst_trial_s();
            Rest { phases: &[PhaseKind::Burst], round_s, most: MOST_PRICE_ROUNDS }
        } else {
            so_far
        }
    }
}

/// Names of levels by the reason why they are left out.
fn by_reason(left_out: Vec<(String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, why) in left_out {
        all.entry(why).or_default().push(name);
    }
    all
}

/// The phases of a candidate. A burst that stays below the limits in force never meets the device.
/// Under a setting that leaves these limits alone it is accepted as under the default, which the
/// final checks.
fn racing_phases(setting: &floodwall_model::Setting) -> &'static [PhaseKind] {
    let is_limit = |knob: &String| {
        knob.starts_with("vm.dirty") || knob.contains("bdi.") || knob.ends_with("memory.high")
    };
    let limits = setting.0.keys().any(is_limit);
    if limits { &[PhaseKind::Both, PhaseKind::Burst] } else { &[PhaseKind::Both] }
}

#[cfg(test)]
mod tests;
