//! Named settings side by side, on any runner.
//!
//! ```text
//! for each round: every contender once, in an order drawn from the seed
//!    ├ a trial that others disturbed is repeated once; the first is kept and does not count
//!    └ a contender whose trial fails is out, with its reason; the others go on
//! ```
//!
//! Trials are interleaved in random order, so that changes during the contest (a device that fills
//! up, a neighbour that wakes) hit all alike.

use floodwall_model::{Runner, RunnerError, Scenario, Setting, Trial, Watch};
use floodwall_stats::random::Random;

use crate::pollution::Listener;

/// A named setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// For people; unique in its contest.
    pub name: String,
    /// Knobs and values, as kernel files take them; empty for the setting in force.
    pub setting: Setting,
}

/// A contender and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Entrant {
    /// Which.
    pub contender: Contender,
    /// Its trials, one a round.
    pub trials: Vec<Trial>,
    /// Trials that others disturbed: kept, and not counted.
    pub disturbed: Vec<Trial>,
    /// Why it is out: the kernel refused the setting, the device vanished, the disk is full …
    pub failure: Option<String>,
}

/// Under which settings victims and floods are measured alone too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Under each.
    Each,
    /// Under the first alone, whose figures then count for all: the others take a third of the
    /// time.
    First,
}

/// A contest's result. The first entrant is the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// In the order in which they were given.
    pub entrants: Vec<Entrant>,
    /// Why it ended early: a signal, or no entrant left to compare.
    pub stopped: Option<String>,
    /// Whether a signal asked for that.
    pub interrupted: bool,
}

/// Runs `scenario.timing.rounds` rounds of all contenders; the others are compared with the first.
/// `tell` hears of each trial before it runs.
pub fn contest(
    runner: &mut dyn Runner,
    scenario: &Scenario,
    contenders: &[Contender],
    alone: Alone,
    seed: u64,
    watch: &mut dyn Watch,
    tell: &mut dyn FnMut(u32, &Contender),
) -> Contest {
    let entrant = |c: &Contender| Entrant {
        contender: c.clone(),
        trials: Vec::new(),
        disturbed: Vec::new(),
        failure: None,
    };
    let mut contest = Contest {
        entrants: contenders.iter().map(entrant).collect(),
        stopped: None,
        interrupted: false,
    };
    let mut beside = scenario.clone();
    if alone == Alone::First {
        beside.phases = scenario.phase_kinds();
        beside.phases.retain(|kind| !kind.is_alone());
    }
    let mut random = Random::seeded(seed);
    let mut watch = Listener::new(watch);
    for round in 1..=scenario.timing.rounds {
        for i in random.shuffled((0..contenders.len()).collect()) {
            let entrant = &mut contest.entrants[i];
            if entrant.failure.is_some() {
                continue;
            }
            if watch.stop() {
                (contest.stopped, contest.interrupted) = (Some("interrupted".into()), true);
                return contest;
            }
            tell(round, &entrant.contender);
            let scenario = if i == 0 { scenario } else { &beside };
            let Err(error) = trial(runner, scenario, entrant, round, &mut watch) else { continue };
            let why = error.source.to_string();
            entrant.trials.extend(error.partial.map(|partial| *partial));
            if error.interrupted {
                (contest.stopped, contest.interrupted) = (Some(why), true);
                return contest;
            }
            watch.warn(&format!("'{}' is out: {why}", entrant.contender.name));
            entrant.failure = Some(why.clone());
            if let Some(stopped) = contest.over(&why) {
                contest.stopped = Some(stopped);
                return contest;
            }
        }
    }
    contest
}

/// Runs an entrant's trial of a round; a disturbed one is repeated once.
fn trial(
    runner: &mut dyn Runner,
    scenario: &Scenario,
    entrant: &mut Entrant,
    round: u32,
    watch: &mut Listener<'_>,
) -> Result<(), RunnerError> {
    watch.begin();
    let first = runner.run(scenario, &entrant.contender.setting, round, watch)?;
    if watch.verdict(&first).is_none() {
        entrant.trials.push(first);
        return Ok(());
    }
    entrant.disturbed.push(first);
    watch.begin();
    let second = runner.run(scenario, &entrant.contender.setting, round, watch)?;
    if let Some(why) = watch.verdict(&second) {
        let name = &entrant.contender.name;
        watch.warn(&format!(
            "round {round}, '{name}': {why}, twice; the second trial counts all the same"
        ));
    }
    entrant.trials.push(second);
    Ok(())
}

impl Contest {
    /// Why there is nothing to compare any more.
    fn over(&self, why: &str) -> Option<String> {
        let reference = self.entrants.first()?;
        if reference.failure.is_some() {
            return Some(format!(
                "'{}', which the others are compared with, failed: {why}",
                reference.contender.name
            ));
        }
        let others = self.entrants.iter().skip(1).filter(|e| e.failure.is_none()).count();
        (others == 0).then(|| format!("every setting failed; the last one: {why}"))
    }

    /// All trials as a result stores them; for each entrant the indices of its trials that count
    /// and of those that were disturbed.
    #[must_use]
    pub fn trials(&self) -> (Vec<Trial>, Vec<[Vec<usize>; 2]>) {
        let mut all: Vec<Trial> = Vec::new();
        let mut add = |trials: &[Trial]| -> Vec<usize> {
            let from = all.len();
            all.extend(trials.iter().cloned());
            (from..all.len()).collect()
        };
        let indices = self.entrants.iter().map(|e| [add(&e.trials), add(&e.disturbed)]).collect();
        (all, indices)
    }
}

#[cfg(test)]
mod tests {
    use floodwall_stats::versus::{Figure, Verdict, versus};

    use super::*;
    use crate::testing::{SurfaceRunner, Truth, scenario};

    fn named(name: &str, knobs: &[(&str, &str)]) -> Contender {
        let setting = knobs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Contender { name: name.into(), setting }
    }

    fn contenders() -> Vec<Contender> {
        vec![named("default", &[]), named("good", &[("a", "2")]), named("same", &[("b", "0")])]
    }

    /// Knob `a` doubles and triples the victim, `b` changes nothing, `broken` is refused.
    fn runner() -> SurfaceRunner {
        SurfaceRunner::new(0.1, |setting| {
            if setting.get("broken").is_some() {
                return Err("the kernel refused broken = 1: invalid".into());
            }
            let a = setting.get("a").map_or(0.0, |v| v.parse().unwrap());
            Ok(Truth { victim: 0.1 * (1.0 + a), dead: 0.2 - 0.1 * a, flood: 0.8, burst: 1.0 })
        })
    }

    #[test]
    fn every_round_has_every_contender_in_an_order_of_its_own() {
        let (mut order, mut runner) = (Vec::new(), runner());
        let contest = contest(
            &mut runner,
            &scenario(6),
            &contenders(),
            Alone::Each,
            7,
            &mut (),
            &mut |round, c| {
                order.push((round, c.name.clone()));
            },
        );
        assert!(contest.entrants.iter().all(|e| e.trials.len() == 6 && e.failure.is_none()));
        let first: std::collections::BTreeSet<_> =
            order.chunks(3).map(|c| c[0].1.clone()).collect();
        assert!(first.len() > 1, "{order:?}");
        assert!(
            order
                .chunks(3)
                .enumerate()
                .all(|(i, c)| c.iter().all(|(round, _)| *round == i as u32 + 1))
        );
    }

    #[test]
    fn only_the_reference_tells_what_is_possible_if_that_is_measured_once() {
        let contest = contest(
            &mut runner(),
            &scenario(2),
            &contenders(),
            Alone::First,
            7,
            &mut (),
            &mut |_, _| (),
        );
        let kinds = |trial: &Trial| trial.phases.iter().map(|phase| phase.kind).collect::<Vec<_>>();
        let all = scenario(2).phase_kinds();
        let beside: Vec<_> = all.iter().copied().filter(|kind| !kind.is_alone()).collect();
        assert!(beside.len() < all.len());
        for (i, entrant) in contest.entrants.iter().enumerate() {
            let expected = if i == 0 { &all } else { &beside };
            assert!(entrant.trials.iter().all(|trial| kinds(trial) == *expected), "{i}");
        }
    }

    #[test]
    fn real_differences_are_told_from_none() {
        let contest = contest(
            &mut runner(),
            &scenario(6),
            &contenders(),
            Alone::Each,
            7,
            &mut (),
            &mut |_, _| (),
        );
        let trials: Vec<&[Trial]> = contest.entrants.iter().map(|e| e.trials.as_slice()).collect();
        let compared = versus(trials[0], &trials[1..]);
        let verdict =
            |i: usize, figure| compared[i].iter().find(|c| c.figure == figure).unwrap().verdict;
        assert_eq!(verdict(0, Figure::VictimIops), Verdict::Better);
        assert_eq!(verdict(1, Figure::VictimIops), Verdict::Untold);
        assert_eq!(verdict(0, Figure::FloodBytesPerS), Verdict::Same);
    }

    #[test]
    fn a_refused_setting_is_out_with_its_reason_and_the_others_go_on() {
        let mut all = contenders();
        all.push(named("refused", &[("broken", "1")]));
        let contest =
            contest(&mut runner(), &scenario(3), &all, Alone::Each, 1, &mut (), &mut |_, _| ());
        assert_eq!(
            contest.entrants[3].failure.as_deref(),
            Some("the kernel refused broken = 1: invalid")
        );
        assert!(contest.entrants[..3].iter().all(|e| e.trials.len() == 3));
        assert_eq!(contest.stopped, None);
    }

    #[test]
    fn without_the_reference_or_without_others_it_ends() {
        let refused = named("refused", &[("broken", "1")]);
        let all = [refused.clone(), named("good", &[("a", "2")])];
        let ended =
            contest(&mut runner(), &scenario(3), &all, Alone::Each, 1, &mut (), &mut |_, _| ());
        assert!(ended.stopped.unwrap().contains("compared with, failed"));
        let all = [named("default", &[]), refused];
        let ended =
            contest(&mut runner(), &scenario(3), &all, Alone::Each, 1, &mut (), &mut |_, _| ());
        assert!(ended.stopped.unwrap().contains("every setting failed"));
        assert!(!ended.interrupted);
    }

    #[test]
    fn a_disturbed_trial_is_repeated_once_and_kept() {
        let mut runner = runner();
        runner.robbed_at = vec![2, 5, 6];
        let contest = contest(
            &mut runner,
            &scenario(3),
            &contenders(),
            Alone::Each,
            1,
            &mut (),
            &mut |_, _| (),
        );
        assert_eq!(runner.runs, 9 + 2, "the sixth is the fifth's repetition");
        assert!(contest.entrants.iter().all(|e| e.trials.len() == 3));
        assert_eq!(contest.entrants.iter().map(|e| e.disturbed.len()).sum::<usize>(), 2);
        let (all, indices) = contest.trials();
        assert_eq!(all.len(), 11);
        let mut every: Vec<usize> = indices.into_iter().flatten().flatten().collect();
        every.sort_unstable();
        assert_eq!(every, (0..11).collect::<Vec<_>>());
    }

    #[test]
    fn an_interruption_keeps_what_was_measured() {
        let mut runner = runner();
        runner.interrupt_at = Some(5);
        let contest = contest(
            &mut runner,
            &scenario(3),
            &contenders(),
            Alone::Each,
            1,
            &mut (),
            &mut |_, _| (),
        );
        assert!(contest.interrupted);
        let (trials, indices) = contest.trials();
        assert_eq!(trials.len(), 5, "four whole ones and the one cut short");
        assert_eq!(indices.iter().flatten().flatten().count(), 5);
    }
}
