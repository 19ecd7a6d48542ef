//! Which untried settings look promising: kriging over the scores so far.
//!
//! log score ~ Gaussian process on the space (Krige 1951; Rasmussen & Williams 2006, algorithm 2.1)
//! with the covariance
//!
//! ```text
//! A · ( ½ · mean over dimensions of r + ½ · product over dimensions of r )
//! r: how alike two levels of a dimension are
//! ```
//!
//! The mean carries what a knob does by itself to all settings that share it, the product what
//! knobs do only together. Levels that differ by octaves are alike as e^(−octaves / 3); elevators,
//! and limits of different kinds, by a half. The model is only a guide to where the next trials go;
//! whether a setting is good is always measured.

use crate::space::{Level, Point, Space};

/// Octaves after which two values are alike by 1/e.
const LENGTH: f64 = 3.0;
/// How much alike choices are between which nothing lies.
const APART: f64 = 0.5;
/// Share of the covariance that knobs have by themselves.
const ALONE: f64 = 0.5;
/// The least standard deviation of scores: with a few equal ones nothing is known of the others.
const LEAST_SPREAD: f64 = 0.3;
/// Standard deviations by which the unknown is given the benefit of the doubt.
const BONUS: f64 = 1.0;

/// The trials of a point.
pub(crate) struct Seen {
    pub(crate) point: Point,
    /// Log score.
    pub(crate) score: f64,
    /// Trials behind it.
    pub(crate) trials: f64,
}

/// A fitted model.
pub(crate) struct Surrogate<'a> {
    space: &'a Space,
    base: f64,
    amplitude: f64,
    points: Vec<Point>,
    noise: Vec<f64>,
    scores: Vec<f64>,
    /// Lower triangle of the covariance's Cholesky factor, row by row.
    factor: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl<'a> Surrogate<'a> {
    /// Fits scores; `spread` is the standard deviation of a single trial's.
    pub(crate) fn fit(space: &'a Space, seen: &[Seen], spread: f64) -> Self {
        let n = seen.len().max(1) as f64;
        let base = seen.iter().map(|s| s.score).sum::<f64>() / n;
        let variance = seen.iter().map(|s| (s.score - base).powi(2)).sum::<f64>() / n;
        let mut model = Self {
            space,
            base,
            amplitude: variance.max(LEAST_SPREAD * LEAST_SPREAD),
            points: Vec::new(),
            noise: Vec::new(),
            scores: Vec::new(),
            factor: Vec::new(),
            weights: Vec::new(),
        };
        for one in seen {
            model.add(one.point.clone(), one.score, spread * spread / one.trials.max(1.0));
        }
        model.solve();
        model
    }

    /// Counts a point as if it had just what is expected of it: of several that are chosen together
    /// the next one should lie elsewhere.
    pub(crate) fn believe(&mut self, point: &Point) {
        let expected = self.expected(point);
        self.add(point.clone(), expected, self.amplitude * 1e-3);
        self.solve();
    }

    /// The score of a setting without any trial near it.
    pub(crate) fn base(&self) -> f64 {
        self.base
    }

    /// How much of its difference from the base a score of so many trials is believed, where
    /// nothing else is known.
    pub(crate) fn believed(&self, trials: f64, spread: f64) -> f64 {
        self.amplitude / (self.amplitude + spread * spread / trials.max(1.0))
    }

    /// The score that a point should have.
    pub(crate) fn expected(&self, point: &Point) -> f64 {
        let known = self.points.iter().zip(&self.weights);
        self.base + known.map(|(p, w)| w * self.covariance(p, point)).sum::<f64>()
    }

    /// How promising a point is.
    pub(crate) fn promise(&self, point: &Point) -> f64 {
        let row = self.forward(point);
        let left = self.amplitude - row.iter().map(|v| v * v).sum::<f64>();
        self.expected(point) + BONUS * left.max(0.0).sqrt()
    }

    /// Another row of the factor.
    fn add(&mut self, point: Point, score: f64, noise: f64) {
        let row = self.forward(&point);
        // A little more than nothing, so that a point seen twice does no harm.
        let diagonal =
            self.amplitude * (1.0 + 1e-9) + noise - row.iter().map(|v| v * v).sum::<f64>();
        self.factor.push(row.into_iter().chain([diagonal.max(1e-12).sqrt()]).collect());
        self.points.push(point);
        self.noise.push(noise);
        self.scores.push(score);
    }

    /// Solves factor · x = covariances with a point.
    fn forward(&self, point: &Point) -> Vec<f64> {
        let right: Vec<f64> = self.points.iter().map(|p| self.covariance(p, point)).collect();
        self.substitute(&right)
    }

    fn substitute(&self, right: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(right.len());
        for (row, right) in self.factor.iter().zip(right) {
            let sum: f64 = row.iter().zip(&x).map(|(a, b)| a * b).sum();
            x.push((right - sum) / row.last().copied().unwrap_or(1.0));
        }
        x
    }

    /// weights = covariance⁻¹ · (scores − base)
    fn solve(&mut self) {
        let centred: Vec<f64> = self.scores.iter().map(|s| s - self.base).collect();
        let mut x = self.substitute(&centred);
        for i in (0..x.len()).rev() {
            let sum: f64 = (i + 1..x.len()).map(|j| self.factor[j][i] * x[j]).sum();
            x[i] = (x[i] - sum) / self.factor[i][i];
        }
        self.weights = x;
    }

    fn covariance(&self, a: &Point, b: &Point) -> f64 {
        let (mut sum, mut product, mut n) = (0.0, 1.0, 0.0);
        for ((dimension, a), b) in self.space.dimensions.iter().zip(a).zip(b) {
            let r = alike(&dimension.levels[*a], &dimension.levels[*b]);
            (sum, product, n) = (sum + r, product * r, n + 1.0);
        }
        let alone = if n > 0.0 { sum / n } else { 1.0 };
        self.amplitude * (ALONE * alone + (1.0 - ALONE) * product)
    }
}

/// How much alike two levels of a dimension are, from 0 to 1.
fn alike(a: &Level, b: &Level) -> f64 {
    let (p, q) = (a.place, b.place);
    let same_axis = if p.axis == q.axis { 1.0 } else { APART };
    same_axis * (-(p.octave - q.octave).abs() / LENGTH).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Dimension, Place};

    fn space() -> Space {
        let dimension = |name, n: u8, ordered: bool| Dimension {
            name,
            levels: (0..n)
                .map(|i| Level {
                    name: format!("{name}{i}"),
                    knobs: vec![],
                    place: if ordered {
                        Place { axis: 0, octave: f64::from(i) }
                    } else {
                        Place { axis: i, octave: 0.0 }
                    },
                })
                .collect(),
        };
        let dimensions = vec![dimension("a", 4, true), dimension("b", 3, false)];
        Space { dimensions, ..Space::default() }
    }

    fn seen(point: Point, score: f64, trials: f64) -> Seen {
        Seen { point, score, trials }
    }

    #[test]
    fn what_was_seen_often_is_believed_and_what_was_seen_once_half() {
        let space = space();
        let scores = [
            seen(vec![0, 0], -3.0, 100.0),
            seen(vec![3, 2], -1.0, 100.0),
            seen(vec![1, 1], -1.0, 1.0),
        ];
        let model = Surrogate::fit(&space, &scores, 1.0);
        assert!((model.expected(&vec![0, 0]) + 3.0).abs() < 0.1, "{}", model.expected(&vec![0, 0]));
        let once = model.expected(&vec![1, 1]);
        assert!((-2.4..-1.1).contains(&once), "{once}");
    }

    #[test]
    fn what_knobs_do_by_themselves_is_expected_of_them_together() {
        let space = space();
        let truth = |p: &Point| -4.0 + [0.0, 1.0, 2.0, 0.5][p[0]] + [0.0, -1.0, 1.5][p[1]];
        let tried: [Point; 7] =
            [vec![0, 0], vec![1, 0], vec![2, 0], vec![3, 0], vec![0, 1], vec![0, 2], vec![3, 1]];
        let scores: Vec<Seen> = tried.iter().map(|p| seen(p.clone(), truth(p), 20.0)).collect();
        let model = Surrogate::fit(&space, &scores, 0.1);
        let best = space
            .points()
            .into_iter()
            .max_by(|x, y| model.expected(x).total_cmp(&model.expected(y)));
        assert_eq!(best, Some(vec![2, 2]));
    }

    #[test]
    fn the_unknown_is_more_promising_than_the_known_and_neighbours_come_one_at_a_time() {
        let space = space();
        let scores = [seen(vec![0, 0], -1.0, 9.0), seen(vec![1, 0], -1.0, 9.0)];
        let mut model = Surrogate::fit(&space, &scores, 0.1);
        assert!(model.promise(&vec![3, 2]) > model.promise(&vec![0, 0]));
        let before = model.promise(&vec![3, 1]);
        model.believe(&vec![3, 2]);
        assert!(model.promise(&vec![3, 1]) < before);
        // A point that was seen twice does no harm.
        model.believe(&vec![3, 2]);
        assert!(model.expected(&vec![3, 2]).is_finite());
    }

    #[test]
    fn nothing_tried_promises_nothing_in_particular() {
        let space = space();
        let model = Surrogate::fit(&space, &[], 0.3);
        assert_eq!(model.promise(&vec![0, 0]), model.promise(&vec![3, 2]));
    }
}
