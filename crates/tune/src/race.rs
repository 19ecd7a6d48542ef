//! The race: candidates, their scores, who is dropped and who comes in.
//!
//! ```text
//! after each round: leader = best score ─▶ drop whoever is surely worse, and the worse two thirds ─▶ new candidates: the leader's neighbours and what
//!                                                                                             the additive model promises
//! ```
//!
//! For the last third of its time no new ones come: the best of all so far, also those that bad luck had dropped, run against each other.
//!
//! Successive halving (Karnin, Koren & Somekh 2013; thirds here) with the early elimination of an F-race (Birattari et al. 2002), where candidates may join late.
//! Rounds are interleaved, so that all candidates of one have the same luck.

use floodwall_model::{Setting, Trial};
use floodwall_stats::versus::mean_and_variance;

use crate::effects::Effects;
use crate::random::Random;
use crate::space::{Point, Space};

/// What single trials' log scores differ by before anything is known of it: a factor of 1.4.
const PRIOR_SPREAD: f64 = 0.35;
/// How many trials that prior is worth.
const PRIOR_TRIALS: f64 = 3.0;
/// A candidate this many standard errors behind the leader is out at once.
const SURELY_WORSE: f64 = 2.0;
/// Candidates that run in a round, once the first ones have run.
const FIELD: usize = 10;
/// New candidates a round, at least.
const FRESH: usize = 4;
/// Candidates that run on once no new ones come.
const SHORTLIST: usize = 5;
/// Spaces up to this size are looked through in full for promising points; larger ones around the leaders only.
const WHOLE: usize = 20_000;

/// A setting in the search and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// For people.
    pub name: String,
    /// What it sets; empty for the setting in force.
    pub setting: Setting,
    /// Where in the space it lies.
    pub point: Point,
    /// Trials of the search.
    pub trials: Vec<Trial>,
    /// Trials that decide, measured after the candidate was chosen.
    pub final_trials: Vec<Trial>,
    /// Trials that others disturbed: kept, and not counted.
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
            point,
            trials: Vec::new(),
            final_trials: Vec::new(),
            disturbed: Vec::new(),
            scores: Vec::new(),
            score: None,
            failure: None,
            dropped_after_round: None,
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

/// Standard deviation of a single trial's log score: what trials of one candidate differ by, over all candidates, and the prior.
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

/// Drops who is surely worse than the leader, and while there are others to come the worse two thirds.
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

/// Points to try next: half of them around the leader, the others wherever the model promises most.
pub(crate) fn fresh(space: &Space, candidates: &[Candidate], random: &mut Random) -> Vec<Point> {
    let room = FIELD.saturating_sub(running(candidates).len()).max(FRESH);
    let scored: Vec<(Point, f64, f64)> =
        candidates.iter().filter_map(|c| Some((c.point.clone(), c.score?, c.scores.len() as f64))).collect();
    let model = model(space, candidates);
    let untried = |points: Vec<Point>| -> Vec<Point> {
        points.into_iter().filter(|p| !candidates.iter().any(|c| c.point == *p)).collect()
    };
    let mut leaders: Vec<&(Point, f64, f64)> = scored.iter().collect();
    leaders.sort_by(|a, b| b.1.total_cmp(&a.1));
    let around = |rank: usize| leaders.get(rank).map(|l| space.neighbours(&l.0)).unwrap_or_default();
    let near = ranked(&model, untried(around(0)), random);
    let far = if space.size() <= WHOLE {
        all_points(space)
    } else {
        around(1).into_iter().chain(around(2)).collect()
    };
    let far = ranked(&model, untried(far), random);
    let mut chosen: Vec<Point> = Vec::new();
    let mut sources = [near.into_iter(), far.into_iter()];
    while chosen.len() < room {
        let before = chosen.len();
        for source in &mut sources {
            if let Some(point) = source.find(|p| !chosen.contains(p)) {
                chosen.push(point);
            }
        }
        if chosen.len() == before {
            break;
        }
    }
    chosen.truncate(room);
    chosen
}

/// The most promising first; equally promising ones in random order.
fn ranked(model: &Effects, points: Vec<Point>, random: &mut Random) -> Vec<Point> {
    let mut points: Vec<(f64, Point)> =
        random.shuffled(points).into_iter().map(|p| (model.promise(&p), p)).collect();
    points.sort_by(|a, b| b.0.total_cmp(&a.0));
    points.into_iter().map(|(_, p)| p).collect()
}

fn all_points(space: &Space) -> Vec<Point> {
    let mut points = vec![Vec::new()];
    for dimension in &space.dimensions {
        let extend = |p: Point| {
            (0..dimension.levels.len()).map(move |level| p.iter().copied().chain([level]).collect::<Point>())
        };
        points = points.into_iter().flat_map(extend).collect();
    }
    points
}

/// The best candidates of all run on, those included that bad luck had dropped; the others don't. Gives points that nobody has tried and that should be
/// among them.
pub(crate) fn shortlist(space: &Space, candidates: &mut [Candidate], round: u32) -> Vec<Point> {
    let ranked = by_shrunken_score(space, candidates);
    let best: Vec<usize> = ranked.iter().take(SHORTLIST).map(|(i, _)| *i).collect();
    for (i, candidate) in candidates.iter_mut().enumerate() {
        if best.contains(&i) {
            candidate.dropped_after_round = None;
        } else if candidate.dropped_after_round.is_none() {
            candidate.dropped_after_round = Some(round);
        }
    }
    if space.size() > WHOLE {
        return Vec::new();
    }
    let model = model(space, candidates);
    let untried = |p: &Point| !candidates.iter().any(|c| c.point == *p);
    // The leader's own neighbours, given the benefit of the doubt, and whoever should be good by all that is known.
    let leader = ranked.first().map(|(i, _)| candidates[*i].point.clone()).unwrap_or_default();
    let near = best_by(|p| model.promise(p), space.neighbours(&leader).into_iter().filter(untried).collect());
    let far = best_by(|p| model.expected(p), all_points(space).into_iter().filter(untried).collect());
    let mut hopeful: Vec<Point> = near.into_iter().take(FRESH / 2).collect();
    let far: Vec<Point> = far.into_iter().filter(|p| !hopeful.contains(p)).take(1).collect();
    hopeful.extend(far);
    hopeful
}

fn best_by(value: impl Fn(&Point) -> f64, mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| value(b).total_cmp(&value(a)));
    points
}

/// The best candidate; `None` if nobody has run.
pub(crate) fn winner(space: &Space, candidates: &[Candidate]) -> Option<usize> {
    by_shrunken_score(space, candidates).first().map(|(i, _)| *i)
}

fn model(space: &Space, candidates: &[Candidate]) -> Effects {
    let scored = candidates.iter().filter_map(|c| Some((c.point.clone(), c.score?, c.scores.len() as f64)));
    Effects::fit(space, &scored.collect::<Vec<_>>())
}

/// Who has run, the best first: by the score drawn towards what the additive model expects of such a setting, in proportion to how little is known of it
/// (empirical Bayes; James & Stein 1961). Who was lucky once is not preferred to who was good often, and what is known of a knob counts for all who set it.
fn by_shrunken_score(space: &Space, candidates: &[Candidate]) -> Vec<(usize, f64)> {
    let spread = spread(candidates);
    let model = model(space, candidates);
    let ran: Vec<(usize, f64, f64, f64)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, c)| c.failure.is_none())
        .filter_map(|(i, c)| Some((i, c.score?, model.expected(&c.point), c.scores.len() as f64)))
        .collect();
    // What the model does not explain and noise does not either.
    let weight: f64 = ran.iter().map(|r| r.3).sum::<f64>().max(1.0);
    let unexplained: f64 =
        ran.iter().map(|(_, score, expected, n)| n * (score - expected).powi(2)).sum::<f64>() / weight;
    let noise = spread * spread * ran.len() as f64 / weight;
    let between = (unexplained - noise).max(spread * spread / 10.0);
    let shrunken = |(i, score, expected, n): (usize, f64, f64, f64)| {
        let believed = between / (between + spread * spread / n);
        (i, expected + believed * (score - expected))
    };
    let mut ranked: Vec<(usize, f64)> = ran.into_iter().map(shrunken).collect();
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

    fn candidates(scores: &[&[f64]]) -> Vec<Candidate> {
        let space = space();
        let points = all_points(&space);
        let one = |(i, scores): (usize, &&[f64])| Candidate {
            scores: scores.to_vec(),
            score: Some(scores.iter().sum::<f64>() / scores.len() as f64),
            ..Candidate::new(&space, points[i].clone())
        };
        scores.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_worse_two_thirds_go_and_who_is_surely_worse_too() {
        let mut all =
            candidates(&[&[-1.0, -1.1], &[-1.2, -1.0], &[-1.3, -1.2], &[-4.0, -4.1], &[-1.9, -2.0]]);
        drop_losers(&mut all, 3, true);
        assert_eq!(running(&all), [0, 1]);
        let mut all = candidates(&[&[-1.0, -1.1], &[-4.0, -4.1]]);
        drop_losers(&mut all, 4, false);
        assert_eq!((running(&all), all[1].dropped_after_round), (vec![0], Some(4)));
    }

    #[test]
    fn who_was_lucky_once_does_not_win_over_who_was_good_often() {
        let all =
            candidates(&[&[-1.0, -0.9, -1.1, -1.0], &[-0.99], &[-3.0, -3.2], &[-2.0, -2.9], &[-2.8, -2.0]]);
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
            assert!(!points[..i].contains(point) && !all.iter().any(|c| c.point == *point));
        }
        // A space that has been tried out has nothing new.
        let everything: Vec<Candidate> = all_points(&space())
            .into_iter()
            .map(|p| Candidate { scores: vec![-1.0], score: Some(-1.0), ..Candidate::new(&space(), p) })
            .collect();
        assert!(fresh(&space(), &everything, &mut Random::seeded(1)).is_empty());
    }
}
