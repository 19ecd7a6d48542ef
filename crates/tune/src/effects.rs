//! Which untried settings look promising: an additive model of the scores so far.
//!
//! log score ≈ base + Σ effect(dimension, level), fitted by ridge regression with a weight for each trial (Hoerl & Kennard 1970), solved by
//! Gauss-Seidel sweeps. Knobs interact, so the model is only a guide to where the next trials go; whether a setting is good is always measured.
//! A level that was never tried is taken for the mean of its neighbours' effects, with a bonus: nothing is known against it.

use crate::space::{Point, Space};

/// Ridge penalty, in trials: an effect seen once is believed by three quarters.
const PENALTY: f64 = 0.3;
/// Sweeps; the fit moves by less than a thousandth after some twenty.
const SWEEPS: usize = 40;
/// For a level never tried, in standard deviations of the scores; for one tried n times 1/√(1 + n) of it. What is little known may be better than it looked.
const BONUS: f64 = 1.0;

/// A fitted model.
pub(crate) struct Effects {
    base: f64,
    /// By dimension and level: the effect, and how many trials saw it.
    effects: Vec<Vec<(f64, f64)>>,
    spread: f64,
}

impl Effects {
    /// Fits `(point, mean log score, trials)`.
    pub(crate) fn fit(space: &Space, scored: &[(Point, f64, f64)]) -> Self {
        let weight: f64 = scored.iter().map(|(_, _, n)| n).sum::<f64>().max(1.0);
        let base = scored.iter().map(|(_, y, n)| y * n).sum::<f64>() / weight;
        let variance = scored.iter().map(|(_, y, n)| n * (y - base).powi(2)).sum::<f64>() / weight;
        let mut model = Self {
            base,
            effects: space.dimensions.iter().map(|d| vec![(0.0, 0.0); d.levels.len()]).collect(),
            spread: variance.sqrt(),
        };
        for _ in 0..SWEEPS {
            for dimension in 0..model.effects.len() {
                for level in 0..model.effects[dimension].len() {
                    let (mut sum, mut n) = (0.0, 0.0);
                    for (point, y, weight) in scored.iter().filter(|(p, ..)| p[dimension] == level) {
                        let others = model.expected(point) - model.effects[dimension][level].0;
                        sum += weight * (y - others);
                        n += weight;
                    }
                    model.effects[dimension][level] = (sum / (n + PENALTY), n);
                }
            }
        }
        model
    }

    /// The score that a point should have.
    pub(crate) fn expected(&self, point: &Point) -> f64 {
        self.base + point.iter().enumerate().map(|(d, level)| self.effects[d][*level].0).sum::<f64>()
    }

    /// How promising a point is.
    pub(crate) fn promise(&self, point: &Point) -> f64 {
        let mut total = self.base;
        for (dimension, level) in point.iter().enumerate() {
            let levels = &self.effects[dimension];
            total += match levels[*level] {
                (effect, n) if n > 0.0 => effect + BONUS * self.spread / (1.0 + n).sqrt(),
                _ => {
                    let seen = |range: &mut dyn Iterator<Item = usize>| {
                        range.map(|i| levels[i]).find(|(_, n)| *n > 0.0)
                    };
                    // Level 0 is "as it is", which is no neighbour in value.
                    let below = seen(&mut (1..*level).rev());
                    let above = seen(&mut (level + 1..levels.len()));
                    let near: Vec<f64> = below.into_iter().chain(above).map(|(effect, _)| effect).collect();
                    near.iter().sum::<f64>() / near.len().max(1) as f64 + BONUS * self.spread
                }
            };
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Dimension, Level};

    fn space() -> Space {
        let dimension = |name, n: usize| Dimension {
            name,
            levels: (0..n).map(|i| Level { name: format!("{name}{i}"), knobs: vec![] }).collect(),
        };
        Space { dimensions: vec![dimension("a", 4), dimension("b", 3)], starts: vec![] }
    }

    #[test]
    fn additive_scores_are_predicted_for_what_was_never_tried_together() {
        let truth = |p: &Point| -2.0 + [0.0, 1.0, 2.0, 0.5][p[0]] + [0.0, -1.0, 1.5][p[1]];
        let tried: Vec<Point> =
            vec![vec![0, 0], vec![1, 0], vec![2, 0], vec![3, 0], vec![0, 1], vec![0, 2], vec![3, 1]];
        let scored: Vec<_> = tried.iter().map(|p| (p.clone(), truth(p), 20.0)).collect();
        let model = Effects::fit(&space(), &scored);
        let best = (0..4)
            .flat_map(|a| (0..3).map(move |b| vec![a, b]))
            .max_by(|x, y| model.expected(x).total_cmp(&model.expected(y)));
        assert_eq!(best, Some(vec![2, 2]));
        assert!((model.expected(&vec![2, 2]) - truth(&vec![2, 2])).abs() < 0.3);
    }

    #[test]
    fn an_untried_level_is_between_its_neighbours_with_a_bonus() {
        let scored = vec![(vec![0, 0], 0.0, 9.0), (vec![1, 0], 2.0, 9.0), (vec![3, 0], 2.0, 9.0)];
        let model = Effects::fit(&space(), &scored);
        assert!(model.promise(&vec![2, 0]) > model.promise(&vec![1, 0]));
        assert!(model.promise(&vec![2, 0]) < model.promise(&vec![1, 0]) + 2.0);
    }

    #[test]
    fn nothing_tried_promises_nothing_in_particular() {
        let model = Effects::fit(&space(), &[]);
        assert_eq!(model.promise(&vec![0, 0]), model.promise(&vec![3, 2]));
    }
}
