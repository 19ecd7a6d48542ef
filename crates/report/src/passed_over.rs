//! Why a setting is not recommended although it lies above and to the right of the one that is.
//!
//! The recommended setting is shown by trials made after the choice, the others by those of the
//! race: fewer, shorter, and the best of many by luck too. Victim and flood are also not all that
//! counts: bursts and dead seconds do as well.

use floodwall_model::Trial;
use floodwall_model::trial::PhaseKind;
use floodwall_stats::versus::{Compared, DEAD_MARGIN, Figure, MARGIN, Verdict, versus};

use crate::numbers::{duration_us, percent};
use crate::schema::contest::{Contender, Contest, Outcome, pick};
use crate::told;

/// Of each contender that lies there the reason. A victim with a rate (`open_loop`) keeps it under
/// many settings, so there its waits are a reason too.
pub(crate) fn passed_over(
    contest: &Contest,
    trials: &[Trial],
    open_loop: bool,
) -> Vec<(usize, String)> {
    let recommended = contest.recommended.as_ref().filter(|r| r.outcome == Outcome::Recommended);
    let Some(answer) = recommended.and_then(|r| r.contender) else { return Vec::new() };
    let Some(best) = contest.contenders.get(answer) else { return Vec::new() };
    let others = contest.contenders.iter().enumerate().filter(|(i, _)| *i != answer);
    let why = |c: &Contender| {
        let waits = longer_waits(c, best).filter(|_| open_loop);
        waits.into_iter().chain([reason(c, best, trials)]).collect::<Vec<_>>().join("; ")
    };
    others.filter(|(_, c)| lies_beyond(c, best)).map(|(i, c)| (i, why(c))).collect()
}

/// Whether it lies above or to the right of the recommended setting, and nowhere below or to the
/// left of it.
fn lies_beyond(other: &Contender, best: &Contender) -> bool {
    let at = |c: &Contender| {
        let s = c.summary.as_ref()?;
        Some((s.victim_kept?.value, s.flood_kept?.value))
    };
    let (Some(other), Some(best)) = (at(other), at(best)) else { return false };
    other.0 >= best.0 && other.1 >= best.1 && other != best
}

/// Its p99 beside the flood, where that is longer; `None` also where either is not known.
fn longer_waits(other: &Contender, best: &Contender) -> Option<String> {
    let p99_us = |c: &Contender| c.summary.as_ref()?.both.as_ref()?.operation_us?.p99;
    let (ours, theirs) = (p99_us(other)?, p99_us(best)?);
    (ours > (1.0 + MARGIN) * theirs)
        .then(|| format!("its p99 is {} instead of {}", duration_us(ours), duration_us(theirs)))
}

fn reason(other: &Contender, best: &Contender, trials: &[Trial]) -> String {
    let mut reasons = Vec::new();
    let bursts = |c: &Contender| Some(c.summary.as_ref()?.burst_kept?.value);
    if let (Some(ours), Some(theirs)) = (bursts(other), bursts(best))
        && ours < (1.0 - MARGIN) * theirs
    {
        reasons.push(format!("bursts keep {} % instead of {} %", percent(ours), percent(theirs)));
    }
    if let (Some(ours), Some(theirs)) = (other.dead_share(), best.dead_share())
        && ours > theirs + DEAD_MARGIN
    {
        reasons.push(format!(
            "{} % of its seconds were stalled instead of {} %",
            percent(ours),
            percent(theirs)
        ));
    }
    let race = |c: &Contender| pick(trials, &c.race_trials());
    let (ours, theirs) = (race(other), race(best));
    reasons.extend(in_the_race(&ours, &theirs));
    if let (Some(own), Some(winners)) = (worst_round(&ours), worst_round(&theirs))
        && own < (1.0 - MARGIN) * winners
    {
        let share = if winners > 0.0 { own / winners } else { 0.0 };
        reasons.push(format!("its worst round had {} % of that one's operations", percent(share)));
    }
    if let (Some(own), Some(winners)) = (other.score, best.score)
        && own < winners
    {
        reasons.push(format!("score {} % instead of {} %", percent(own), percent(winners)));
    }
    if reasons.is_empty() {
        reasons.push(
            "the race's model expected less of it, and only its best is measured afresh".into(),
        );
    }
    reasons.join("; ")
}

/// What the race's own trials say of the two; nothing if they say that the passed over one is
/// better.
fn in_the_race(ours: &[Trial], theirs: &[Trial]) -> Option<String> {
    let rounds = |trials: &[Trial]| trials.iter().filter(|t| both(t).is_some()).count();
    let rounds = rounds(ours).min(rounds(theirs));
    if rounds < 2 {
        return Some(format!("too few rounds in the race ({rounds}) to be told apart"));
    }
    let compared = versus(theirs, &[ours]).swap_remove(0);
    let of = |figure| compared.iter().find(|c: &&Compared| c.figure == figure);
    let (victim, flood) = (of(Figure::VictimIops)?, of(Figure::FloodBytesPerS)?);
    let said = |what: &str, c: &Compared| {
        told::factor(c).map_or_else(String::new, |factor| format!("{what} {factor}"))
    };
    let both = [said("victim", victim), said("flood", flood)].into_iter().filter(|s| !s.is_empty());
    let both = both.collect::<Vec<_>>().join(", ");
    match [victim.verdict, flood.verdict] {
        verdicts if verdicts.contains(&Verdict::Worse) => {
            Some(format!("worse in the race, over {rounds} rounds: {both}"))
        }
        verdicts if verdicts.contains(&Verdict::Better) => None,
        _ => Some(format!("not told apart in the race, over {rounds} rounds: {both}")),
    }
}

fn both(trial: &Trial) -> Option<f64> {
    let phase = trial.phases.iter().find(|p| p.kind == PhaseKind::Both && p.cut_short.is_none())?;
    Some(phase.victim_iops())
}

/// The victim's operations a second in its worst round.
fn worst_round(trials: &[Trial]) -> Option<f64> {
    trials.iter().filter_map(both).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use floodwall_stats::estimate::Estimate;

    use super::*;

    #[test]
    fn a_victim_with_a_rate_passes_over_what_lets_it_wait() {
        let document = crate::synthetic::contest(true);
        let mut contest = document.contest.unwrap();
        // The default keeps as much of a rate, and lets it wait a hundred times as long.
        let kept = contest.contenders[1].summary.as_ref().unwrap().clone();
        let default = contest.contenders[0].summary.as_mut().unwrap();
        default.victim_kept = kept.victim_kept;
        default.flood_kept = kept.flood_kept.map(|e| Estimate { value: e.value + 0.01, ..e });
        let why = |open_loop| passed_over(&contest, &document.trials, open_loop).swap_remove(0).1;
        assert!(why(true).starts_with("its p99 is 1.17 s instead of 12.1 ms; "), "{}", why(true));
        assert!(!why(false).contains("p99"), "{}", why(false));
    }
}
