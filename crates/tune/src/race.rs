//! The race: candidates, their scores, and which are dropped or added.
//!
//! ```text
//! after each round: leader = best score ─▶ drop whoever is surely worse, and the worse two thirds
//!                                       ─▶ new candidates: what the model promises most of
//! ```
//!
//! In the last part hardly any new candidates come. The best so far, including those that bad luck
//! had dropped, run against each other in longer phases.
//!
//! Successive halving (Karnin, Koren & Somekh 2013; thirds here) with the early elimination of an
//! F-race (Birattari et al. 2002), where candidates may join late. Rounds are interleaved, so that
//! all candidates of one have the same luck.

use std::collections::BTreeSet;

use floodwall_model::{Setting, Trial};
use floodwall_stats::estimate::mean_and_variance;
use floodwall_stats::random::Random;

use crate::contest::Contender;
use crate::space::{Point, Space};
use crate::surrogate::{Seen, Surrogate};

/// The assumed spread of single trials' log scores before any is known: a factor of 1.4.
const PRIOR_SPREAD: f64 = 0.35;
/// How many trials that prior is worth; devices differ too much in it for more.
const PRIOR_TRIALS: f64 = 1.0;
/// A candidate this many standard errors behind the leader is out at once.
const SURELY_WORSE: f64 = 2.0;
/// Candidates that run in a round, once the first ones have run.
const FIELD: usize = 10;
/// New candidates a round, at least.
const FRESH: usize = 4;
/// Candidates that run on once no new ones come.
const SHORTLIST: usize = 4;
/// Neighbours of the leader that join a round of the shortlist.
const BESIDE: usize = 1;
/// Points whose promise is worked out.
const LOOKED_AT: usize = 150;
/// Spaces up to this size are looked through in full for promising points; larger ones around the
/// leaders only.
const WHOLE: usize = 20_000;

/// A setting in the search and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// For people.
    pub name: String,
    /// Knobs and values; empty for the setting in force.
    pub setting: Setting,
    /// Where in the space it lies; `None` of a setting that was named by hand and is no point of
    /// it.
    pub point: Option<Point>,
    /// Trials of the search.
    pub trials: Vec<Trial>,
    /// Trials that decide, measured after the candidate was chosen.
    pub final_trials: Vec<Trial>,
    /// Trials that others disturbed, or that ended early: kept, and not counted.
    pub disturbed: Vec<Trial>,
    /// Log score of each counted trial of the search: how far trials differ.
    pub scores: Vec<f64>,
    /// Log score of all of them together ([`crate::objective::pooled`]); `None` before the first.
    pub score: Option<f64>,
    /// Why it is out: refused, device gone …
    pub failure: Option<String>,
    /// The round after which it was dropped.
    pub dropped_after_round: Option<u32>,
}

impl Candidate {
    /// One that has not run.
    #[must_use]
    pub fn new(space: &Space, point: Point) -> Self {
        Self {
            name: space.name(&point),
            setting: space.setting(&point),
            point: Some(point),
            trials: Vec::new(),
            final_trials: Vec::new(),
            disturbed: Vec::new(),
            scores: Vec::new(),
            score: None,
            failure: None,
            dropped_after_round: None,
        }
    }

    /// A setting that the user has named.
    #[must_use]
    pub fn named(space: &Space, named: &Contender) -> Self {
        Self {
            name: named.name.clone(),
            setting: named.setting.clone(),
            point: space.find(&named.setting),
            ..Self::new(space, space.origin())
        }
    }

    fn is_running(&self) -> bool {
        self.failure.is_none() && self.dropped_after_round.is_none()
    }
}

/// Indices of the candidates that run on.
pub(crate) fn running(candidates: &[Candidate]) -> Vec<usize> {
    (0..candidates.len()).filter(|i| candidates[*i].is_running()).collect()
}

/// Standard deviation of a single trial's log score: what trials of one candidate differ by, over
/// all candidates, and the prior.
pub(crate) fn spread(candidates: &[Candidate]) -> f64 {
    let (mut squares, mut freedom) = (PRIOR_SPREAD * PRIOR_SPREAD * PRIOR_TRIALS, PRIOR_TRIALS);
    for candidate in candidates {
        if let Some((_, variance)) = mean_and_variance(&candidate.scores) {
            let n = (candidate.scores.len() - 1) as f64;
            squares += variance * n;
            freedom += n;
        }
    }
    (squares / freedom).sqrt()
}

/// Drops candidates that are surely worse than the leader. While others are to come, also drops the
/// worse two thirds.
pub(crate) fn drop_losers(candidates: &mut [Candidate], round: u32, halve: bool) {
    let spread = spread(candidates);
    let mut order: Vec<(usize, f64, f64)> = running(candidates)
        .into_iter()
        .filter_map(|i| Some((i, candidates[i].score?, candidates[i].scores.len() as f64)))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((_, best, of)) = order.first().copied() else { return };
    let stay = if halve { order.len().div_ceil(3).max(2) } else { order.len() };
    for (rank, (i, mean, n)) in order.into_iter().enumerate().skip(1) {
        let error = spread * (1.0 / n + 1.0 / of).sqrt();
        if rank >= stay || best - mean > SURELY_WORSE * error {
            candidates[i].dropped_after_round = Some(round);
        }
    }
}

/// Points to try next: those that the model promises most of, each chosen as if the ones before it
/// had been just what is expected of them.
pub(crate) fn fresh(space: &Space, candidates: &[Candidate], random: &mut Random) -> Vec<Point> {
    let room = FIELD.saturating_sub(running(candidates).len()).max(FRESH);
    promising(space, candidates, room, true, random)
}

/// The most promising neighbours of the leader: one step away from it may be better still.
pub(crate) fn beside(space: &Space, candidates: &[Candidate], random: &mut Random) -> Vec<Point> {
    promising(space, candidates, BESIDE, false, random)
}

fn promising(
    space: &Space,
    candidates: &[Candidate],
    room: usize,
    anywhere: bool,
    random: &mut Random,
) -> Vec<Point> {
    let mut model = model(space, candidates);
    let leader = by_shrunken_score(&model, candidates)
        .into_iter()
        .find_map(|(i, _)| candidates[i].point.clone());
    let near = space.neighbours(&leader.unwrap_or_else(|| space.origin()));
    let all = if anywhere && space.size() <= WHOLE { space.points() } else { Vec::new() };
    let refused = refused(candidates);
    let possible = |p: &Point| !p.iter().copied().enumerate().any(|level| refused.contains(&level));
    let untried = |points: Vec<Point>| {
        points.into_iter().filter(|p| possible(p) && !was_tried(candidates, p)).collect()
    };
    // The expected score is quickly worked out, the promised one is not. So only the best by the
    // first, and their neighbours, are looked at by the second.
    let mut looked_at = best_by(|p| model.expected(p), random.shuffled(untried(all)));
    looked_at.truncate(LOOKED_AT);
    looked_at.extend(untried(near));
    looked_at.sort();
    looked_at.dedup();
    let mut looked_at = random.shuffled(looked_at);
    let mut chosen = Vec::new();
    while chosen.len() < room && !looked_at.is_empty() {
        looked_at = best_by(|p| model.promise(p), looked_at);
        let point = looked_at.remove(0);
        model.believe(&point);
        chosen.push(point);
    }
    chosen
}

/// Levels (dimension, level) that the kernel refuses, as far as is known: two settings with them
/// failed, and none with them ran.
fn refused(candidates: &[Candidate]) -> BTreeSet<(usize, usize)> {
    let levels = |c: &Candidate| c.point.iter().flatten().copied().enumerate().collect::<Vec<_>>();
    let failed: Vec<(usize, usize)> =
        candidates.iter().filter(|c| c.failure.is_some()).flat_map(levels).collect();
    let ran: BTreeSet<(usize, usize)> =
        candidates.iter().filter(|c| c.score.is_some()).flat_map(levels).collect();
    let twice = |level: &(usize, usize)| failed.iter().filter(|l| *l == level).count() >= 2;
    failed.iter().filter(|level| twice(level) && !ran.contains(level)).copied().collect()
}

fn was_tried(candidates: &[Candidate], point: &Point) -> bool {
    candidates.iter().any(|c| c.point.as_ref() == Some(point))
}

/// The best candidates of all run on, including those that bad luck had dropped; the others don't.
/// Gives untried points that should be among them: the most promising one, and the one with the
/// best expected score.
pub(crate) fn shortlist(
    space: &Space,
    candidates: &mut [Candidate],
    round: u32,
    random: &mut Random,
) -> Vec<Point> {
    let model = model(space, candidates);
    let ranked = by_shrunken_score(&model, candidates);
    let best: Vec<usize> = ranked.iter().take(SHORTLIST).map(|(i, _)| *i).collect();
    for (i, candidate) in candidates.iter_mut().enumerate() {
        if best.contains(&i) {
            candidate.dropped_after_round = None;
        } else if candidate.dropped_after_round.is_none() {
            candidate.dropped_after_round = Some(round);
        }
    }
    let mut hopeful = promising(space, candidates, FRESH / 2, true, random);
    if space.size() <= WHOLE {
        let untried = space
            .points()
            .into_iter()
            .filter(|p| !was_tried(candidates, p) && !hopeful.contains(p));
        hopeful.extend(best_by(|p| model.expected(p), untried.collect()).into_iter().take(1));
    }
    hopeful
}

/// The best first; equal ones as they were.
fn best_by(value: impl Fn(&Point) -> f64, points: Vec<Point>) -> Vec<Point> {
    let mut valued: Vec<(f64, Point)> = points.into_iter().map(|p| (value(&p), p)).collect();
    valued.sort_by(|a, b| b.0.total_cmp(&a.0));
    valued.into_iter().map(|(_, p)| p).collect()
}

/// How far the best candidate is ahead of the default, as a difference of log scores, and what
/// single trials differ by; `None` before both have run.
pub(crate) fn advantage(space: &Space, candidates: &[Candidate]) -> Option<(f64, f64)> {
    let ranked = by_shrunken_score(&model(space, candidates), candidates);
    let (_, best) = ranked.first()?;
    let (_, default) = ranked.iter().find(|(i, _)| *i == 0)?;
    Some((best - default, spread(candidates)))
}

/// The best candidate; `None` if none has run.
pub(crate) fn winner(space: &Space, candidates: &[Candidate]) -> Option<usize> {
    by_shrunken_score(&model(space, candidates), candidates).first().map(|(i, _)| *i)
}

fn model<'a>(space: &'a Space, candidates: &[Candidate]) -> Surrogate<'a> {
    let seen = candidates.iter().filter_map(|c| {
        Some(Seen { point: c.point.clone()?, score: c.score?, trials: c.scores.len() as f64 })
    });
    Surrogate::fit(space, &seen.collect::<Vec<_>>(), spread(candidates))
}

/// Candidates that have run, best first, by the surrogate's prediction. A score counts in
/// proportion to its trials (empirical Bayes; James & Stein 1961), so one lucky trial is not
/// preferred to many good ones. Trials of a knob count for all candidates that set it.
fn by_shrunken_score(model: &Surrogate<'_>, candidates: &[Candidate]) -> Vec<(usize, f64)> {
    let ran = candidates.iter().enumerate().filter(|(_, c)| c.failure.is_none());
    let mut ranked: Vec<(usize, f64)> = ran
        .filter_map(|(i, c)| {
            let score = c.score?;
            let shrunken = match &c.point {
                Some(point) => model.expected(point),
                // The surrogate knows no candidate outside the space.
                None => {
                    model.base()
                        + model.believed(c.scores.len() as f64, spread(candidates))
                            * (score - model.base())
                }
            };
            Some((i, shrunken))
        })
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Description;

    fn space() -> Space {
        Space::of(&Description {
            drain_bytes_per_s: 200e6,
            byte_limits: true,
            queues: vec![String::new()],
            nr_requests: Some(128),
            max_sectors_kb: Some(1024),
            ..Description::default()
        })
    }

    #[test]
    fn what_the_kernel_refuses_is_not_proposed_again() {
        let space = space();
        let mut all: Vec<Candidate> = Vec::new();
        let at = |depth: usize, request: usize| {
            let mut point = space.origin();
            let last = point.len();
            (point[last - 2], point[last - 1]) = (depth, request);
            Candidate::new(&space, point)
        };
        // Depth 1 fails under two requests; request 1 ran under another depth.
        for (depth, request, fails) in
            [(0, 0, false), (1, 1, true), (1, 2, true), (2, 1, false), (2, 2, false)]
        {
            let mut candidate = at(depth, request);
            if fails {
                candidate.failure = Some("no".into());
            } else {
                (candidate.scores, candidate.score) = (vec![-1.0], Some(-1.0));
            }
            all.push(candidate);
        }
        let depth = space.dimensions.len() - 2;
        assert_eq!(refused(&all), BTreeSet::from([(depth, 1)]));
        assert!(fresh(&space, &all, &mut Random::seeded(1)).iter().all(|p| p[depth] != 1));
    }

    fn candidates(scores: &[&[f64]]) -> Vec<Candidate> {
        let space = space();
        let points = space.points();
        let one = |(i, scores): (usize, &&[f64])| Candidate {
            scores: scores.to_vec(),
            score: Some(scores.iter().sum::<f64>() / scores.len() as f64),
            ..Candidate::new(&space, points[i].clone())
        };
        scores.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_worse_two_thirds_go_and_who_is_surely_worse_too() {
        let mut all = candidates(&[
            &[-1.0, -1.1],
            &[-1.2, -1.0],
            &[-1.3, -1.2],
            &[-4.0, -4.1],
            &[-1.9, -2.0],
        ]);
        drop_losers(&mut all, 3, true);
        assert_eq!(running(&all), [0, 1]);
        let mut all = candidates(&[&[-1.0, -1.1], &[-4.0, -4.1]]);
        drop_losers(&mut all, 4, false);
        assert_eq!((running(&all), all[1].dropped_after_round), (vec![0], Some(4)));
    }

    #[test]
    fn who_was_lucky_once_does_not_win_over_who_was_good_often() {
        let all = candidates(&[
            &[-1.0, -0.9, -1.1, -1.0],
            &[-0.99],
            &[-3.0, -3.2],
            &[-2.0, -2.9],
            &[-2.8, -2.0],
        ]);
        assert_eq!(winner(&space(), &all), Some(0));
        assert_eq!(winner(&space(), &candidates(&[])), None);
        assert_eq!(winner(&space(), &candidates(&[&[-2.0]])), Some(0));
    }

    #[test]
    fn new_points_are_new_and_none_comes_twice() {
        let all = candidates(&[&[-1.0], &[-2.0], &[-1.5]]);
        let points = fresh(&space(), &all, &mut Random::seeded(1));
        assert!(points.len() >= FRESH);
        for (i, point) in points.iter().enumerate() {
            assert!(!points[..i].contains(point) && !was_tried(&all, point));
        }
        // A space that has been tried out has nothing new.
        let everything: Vec<Candidate> = space()
            .points()
            .into_iter()
            .map(|p| Candidate {
                scores: vec![-1.0],
                score: Some(-1.0),
                ..Candidate::new(&space(), p)
            })
            .collect();
        assert!(fresh(&space(), &everything, &mut Random::seeded(1)).is_empty());
    }
}
