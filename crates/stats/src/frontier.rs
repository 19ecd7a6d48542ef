//! The frontier: the settings that no other beats on what the victim, the flood and bursts keep.
//!
//! Dead seconds are charged to the victim as whole seconds lost ([`Point::victim_value`]). So a
//! setting with a fine mean and long collapses is not taken for a good one. On a bistable device (a
//! full controller cache) means alone reward exactly those.

use serde::{Deserialize, Serialize};

/// What a setting keeps, as shares; none below 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Share of its IOPS alone that the victim keeps beside the flood.
    pub victim_kept: f64,
    /// Share of the seconds beside the flood in which it got less than 10 % of its IOPS alone.
    pub dead_share: f64,
    /// Share of its rate alone that the flood keeps beside the victim; `None` where no flood ran.
    pub flood_kept: Option<f64>,
    /// Share of the reference's burst rate; `None` where no burst was measured.
    pub burst_kept: Option<f64>,
}

impl Point {
    /// The victim's axis: its share, less the share of dead seconds; 0 at the least.
    #[must_use]
    pub fn victim_value(&self) -> f64 {
        (self.victim_kept - self.dead_share).max(0.0)
    }

    /// Whether it is nowhere worse than the other and somewhere better. One that lacks a figure
    /// that the other has can't beat it.
    #[must_use]
    pub fn beats(&self, other: &Self) -> bool {
        let axes = [
            (Some(self.victim_value()), Some(other.victim_value())),
            (self.flood_kept, other.flood_kept),
            (self.burst_kept, other.burst_kept),
            // Of two settings whose victims keep nothing that counts, fewer dead seconds are
            // better.
            (Some(1.0 - self.dead_share), Some(1.0 - other.dead_share)),
        ];
        let nowhere_worse = axes.iter().all(|(ours, theirs)| match (ours, theirs) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(ours), Some(theirs)) => ours >= theirs,
        });
        nowhere_worse
            && axes
                .iter()
                .any(|(ours, theirs)| ours.is_some() && theirs.is_none_or(|t| ours > &Some(t)))
    }

    fn is_finite(&self) -> bool {
        [Some(self.victim_kept), Some(self.dead_share), self.flood_kept, self.burst_kept]
            .into_iter()
            .flatten()
            .all(f64::is_finite)
    }
}

/// Indices of the points that no other beats, in their order. Points with a figure that is not a
/// number are left out; equal points are all in.
#[must_use]
pub fn frontier(points: &[Point]) -> Vec<usize> {
    let finite = |i: &usize| points[*i].is_finite();
    let beaten =
        |i: &usize| points.iter().any(|other| other.is_finite() && other.beats(&points[*i]));
    (0..points.len()).filter(finite).filter(|i| !beaten(i)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(victim_kept: f64, dead_share: f64, flood: f64, burst: f64) -> Point {
        Point { victim_kept, dead_share, flood_kept: Some(flood), burst_kept: Some(burst) }
    }

    /// The settings of the lab's first experiments: none of the good ones beats the others
    /// everywhere.
    #[test]
    fn small_limits_short_queues_and_the_default_are_all_on_the_frontier() {
        let default = point(0.04, 0.97, 0.76, 1.0);
        let small_limit = point(0.55, 0.36, 0.46, 0.15);
        let short_queue = point(0.50, 0.15, 0.52, 1.0);
        let worse_everywhere = point(0.30, 0.50, 0.40, 0.14);
        assert_eq!(frontier(&[default, small_limit, short_queue, worse_everywhere]), [0, 2]);
        let fast_flood = Point { flood_kept: Some(0.60), ..small_limit };
        assert_eq!(frontier(&[default, fast_flood, short_queue]), [0, 1, 2]);
    }

    #[test]
    fn a_fine_mean_with_collapses_is_beaten() {
        let collapses = point(0.60, 0.45, 0.5, 1.0);
        let steady = point(0.40, 0.0, 0.5, 1.0);
        assert_eq!(frontier(&[collapses, steady]), [1]);
    }

    #[test]
    fn what_is_not_known_beats_nothing_and_what_is_no_number_is_left_out() {
        let known = point(0.5, 0.0, 0.5, 0.5);
        let without_burst = Point { burst_kept: None, ..known };
        assert_eq!(frontier(&[known, without_burst]), [0]);
        assert_eq!(frontier(&[point(f64::NAN, 0.0, 9.0, 9.0), known, known]), [1, 2]);
        assert_eq!(frontier(&[]), Vec::<usize>::new());
    }

    fn shares() -> impl Strategy<Value = Vec<Point>> {
        let share = || (0u32..5).prop_map(|n| f64::from(n) / 4.0);
        prop::collection::vec((share(), share(), share(), share()), 1..12)
            .prop_map(|all| all.into_iter().map(|(v, d, f, b)| point(v, d, f, b)).collect())
    }

    proptest! {
        #[test]
        fn whoever_is_not_on_it_is_beaten_by_one_who_is(points in shares()) {
            let on = frontier(&points);
            prop_assert!(!on.is_empty());
            for i in 0..points.len() {
                let beaten = on.iter().any(|j| points[*j].beats(&points[i]));
                prop_assert_eq!(beaten, !on.contains(&i));
            }
        }
    }
}
