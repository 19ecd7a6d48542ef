//! The verdict of the final trials: winner against default, round by round, and the recommendation.

use floodwall_model::Trial;
use floodwall_stats::estimate::mean_and_variance;
use floodwall_stats::student::critical_t;
use floodwall_stats::versus::{SIGNIFICANT, Verdict, paired_p, versus, with_alone};

use super::outcome::{Final, Outcome, Recommendation};
use crate::objective::{Kept, Objective, Reference, kept, percent_of, pooled};

/// Rounds of a final while nothing is known of how large the difference will be; phases get shorter
/// for it.
pub(super) const FINAL_ROUNDS: u32 = 6;
/// With fewer hardly a difference parts, however large: of two rounds a t test asks for thirteen
/// standard errors, of three for four.
pub(super) const LEAST_FINAL_ROUNDS: u32 = 4;
/// A difference that needs more rounds than this can't be settled.
const HOPELESS_ROUNDS: f64 = 200.0;

/// Rounds in which a difference should show, if half of it is real.
pub(super) fn rounds_to_show(gain: f64, spread: f64) -> u32 {
    (LEAST_FINAL_ROUNDS..FINAL_ROUNDS)
        .find(|n| {
            let n = f64::from(*n);
            critical_t(SIGNIFICANT, n - 1.0) * spread * (2.0 / n).sqrt() < gain / 2.0
        })
        .unwrap_or(FINAL_ROUNDS)
}

/// Compares winner and default by their final trials alone. Also gives the difference of the log
/// scores as jackknife pseudo-values, one a round (Tukey 1958). Each is n × the difference of all
/// rounds − (n − 1) × the difference without that round. Their mean is the difference, their spread
/// its error.
pub(super) fn decide(
    outcome: &Outcome,
    winner: usize,
    reference: &Reference,
    objective: Objective,
) -> (Final, Vec<f64>) {
    let default = &outcome.candidates[0];
    let of = |t: &Trial| Some((t.round, kept(t, reference)?));
    let theirs: Vec<(u32, Kept)> = default.final_trials.iter().filter_map(of).collect();
    let beside = |(round, ours): (u32, Kept)| {
        Some((ours, theirs.iter().find(|(r, _)| *r == round)?.1.clone()))
    };
    let (ours, theirs): (Vec<Kept>, Vec<Kept>) =
        outcome.candidates[winner].final_trials.iter().filter_map(of).filter_map(beside).unzip();
    let without = |all: &[Kept], round: usize| {
        let rest: Vec<Kept> =
            all.iter().enumerate().filter(|(i, _)| *i != round).map(|(_, k)| k.clone()).collect();
        pooled(&rest)
    };
    // All rounds, then all but one: winner and default.
    let all = std::iter::once((pooled(&ours), pooled(&theirs)));
    let fewer = (0..ours.len()).map(|round| (without(&ours, round), without(&theirs, round)));
    let pairs: Vec<(Kept, Kept)> = all.chain(fewer).filter_map(|(a, b)| a.zip(b)).collect();
    let percent = percent_of(pairs.iter().flat_map(|(ours, theirs)| [ours, theirs]));
    let score = |kept: &Kept| objective.log_score_at(kept, percent);
    let differences: Vec<f64> =
        pairs.iter().map(|(ours, theirs)| score(ours) - score(theirs)).collect();
    let (whole, fewer) =
        differences.split_first().map_or((0.0, &[][..]), |(whole, rest)| (*whole, rest));
    let n = ours.len() as f64;
    let pseudo: Vec<f64> = fewer.iter().map(|less| n * whole - (n - 1.0) * less).collect();
    let against = with_alone(&default.final_trials, &default.trials);
    let compared = versus(&against, &[&outcome.candidates[winner].final_trials]).swap_remove(0);
    (Final { compared, factor: whole.exp(), p: paired_p(&pseudo) }, pseudo)
}

/// Recommended only if the score is really better and some figure's interval parts as well.
pub(super) fn recommend(last: &Final, differences: &[f64], round_s: f64) -> Recommendation {
    let better = last.compared.iter().any(|c| c.verdict == Verdict::Better);
    let sure = last.p.is_some_and(|p| p <= SIGNIFICANT);
    if last.factor > 1.0 && sure && better {
        return Recommendation::Winner;
    }
    Recommendation::Undecided {
        settle_s: rounds_to_settle(differences).map(|rounds| rounds * round_s),
    }
}

/// Rounds after which a difference like this one would part from none: t · s / √n below it. `None`
/// if it is on the wrong side or too small.
pub(super) fn rounds_to_settle(differences: &[f64]) -> Option<f64> {
    let (mean, variance) = mean_and_variance(differences)?;
    if mean <= 0.0 {
        return None;
    }
    let mut rounds = differences.len() as f64 + 1.0;
    while rounds <= HOPELESS_ROUNDS {
        if critical_t(SIGNIFICANT, rounds - 1.0) * (variance / rounds).sqrt() < mean {
            return Some(rounds);
        }
        rounds += 1.0;
    }
    None
}
