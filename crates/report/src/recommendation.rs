//! The outcome of a search: the recommendation in a sentence, with its price, or the reason for its
//! absence.

use std::time::Duration;

use floodwall_model::trial::{PhaseKind, Trial};
use floodwall_model::units::human_duration;
use floodwall_model::{LatencyCounts, Setting};
use floodwall_stats::quantiles::{Tail, TailKind};
use floodwall_stats::versus::{Compared, Figure, Verdict};

use crate::numbers::duration_us;
use crate::schema::Document;
use crate::schema::contest::{Contender, Contest, Outcome, Recommended, pick};
use crate::told;
use crate::verdict::Words;
use crate::words::spelled;

/// The sentence of a search; `None` if the document is of none, or lacks what the sentence is of:
/// then the stored one stands.
pub(crate) fn sentence(document: &Document) -> Option<String> {
    let contest = document.contest.as_ref()?;
    let recommended = contest.recommended.as_ref()?;
    let operations = Words::of(&document.scenario).operations;
    let said = verdict(contest, recommended, operations)?;
    let target = recommended.p99_target_us.map_or_else(String::new, |wanted| {
        target(wanted, &reached(contest, recommended, &document.trials))
    });
    Some(format!("{said}{target}"))
}

fn verdict(contest: &Contest, recommended: &Recommended, operations: &str) -> Option<String> {
    let candidate = recommended.contender.and_then(|i| contest.contenders.get(i));
    match recommended.outcome {
        Outcome::Recommended => {
            let Contender { name, setting, versus, .. } = candidate?;
            let name = spelled(name);
            Some(format!("Recommended: {name} ({setting}){}.", gain_and_price(versus, operations)))
        }
        Outcome::Undecided => {
            let (candidate, ratio) = (candidate?, recommended.score_ratio?);
            let settle = match recommended.settle_s {
                Some(s) => format!(
                    "; about {} of trials of the two would settle it (floodwall tune --resume, or \
                     floodwall compare)",
                    time(s)
                ),
                None => {
                    "; if there is a difference, it is too small to be found in reasonable time"
                        .to_owned()
                }
            };
            Some(format!(
                "Not decided: {} ({}) looked best, but in fresh trials its score is {ratio:.2}× \
                 that of the setting in force, which may be chance{settle}. \
                 Nothing is recommended.",
                spelled(&candidate.name),
                spaced(&candidate.setting),
            ))
        }
        // Its reason is known to the search alone.
        Outcome::NotMeasured => None,
        Outcome::Keep if contest.contenders.len() <= 1 => Some(
            "Keep the setting in force: there is nothing to choose from on this device.".into(),
        ),
        Outcome::Keep => Some(format!(
            "Keep the setting in force: of {} settings that were tried none looked better.",
            contest.contenders.iter().filter(|c| c.score.is_some()).count()
        )),
    }
}

/// A setting that can be wrapped.
fn spaced(setting: &Setting) -> String {
    setting.to_string().replace(',', ", ")
}

/// `: gain; price`; either may be unknown.
fn gain_and_price(versus: &[Compared], operations: &str) -> String {
    let parts = [gains(versus, operations), price(versus)];
    let known: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    if known.is_empty() { String::new() } else { format!(": {}", known.join("; ")) }
}

fn gains(versus: &[Compared], operations: &str) -> String {
    let find = |figure| told::shown(versus).find(|c| c.figure == figure);
    let mut parts = Vec::new();
    for c in [Figure::VictimP99Us, Figure::VictimSlowestUs].into_iter().filter_map(find) {
        if c.value.is_some() && c.reference.is_some() {
            let (before, now) =
                (told::value(c.figure, c.reference), told::value(c.figure, c.value));
            let name = told::name(c.figure, operations);
            parts.push(format!("{name} from {before} to {now}{}", told::unsure(c)));
        }
    }
    if let Some(c) = find(Figure::VictimIops).filter(|c| c.value.is_some() && c.reference.is_some())
    {
        parts.push(match told::ratio(c) {
            Some(times) if times.ends_with('×') => {
                format!("{times} the {operations}{}", told::unsure(c))
            }
            Some(share) => format!("{share} of the {operations}{}", told::unsure(c)),
            // A victim that stood still has no multiple.
            None => {
                let (before, now) =
                    (told::value(c.figure, c.reference), told::value(c.figure, c.value));
                format!("{operations} from {before} to {now}{}", told::unsure(c))
            }
        });
    }
    let changed = |c: &&Compared| match c.verdict {
        Verdict::Better | Verdict::Worse => true,
        Verdict::Untold => c.value != c.reference,
        Verdict::Same | Verdict::Unknown => false,
    };
    if let Some(c) = find(Figure::DeadShare).filter(changed) {
        let (before, now) = (told::value(c.figure, c.reference), told::value(c.figure, c.value));
        parts.push(format!(
            "stalled seconds {now} of the time instead of {before}{}",
            told::unsure(c)
        ));
    }
    parts.join(", ")
}

fn price(versus: &[Compared]) -> String {
    let share = |figure, what: &str| {
        let c = versus.iter().find(|c| c.figure == figure)?;
        Some(format!("{what} at {}{}", told::ratio(c)?, told::unsure(c)))
    };
    let parts = [
        share(Figure::FloodBytesPerS, "the flood runs"),
        share(Figure::BurstBytesPerS, "bursts are accepted"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The slow end of victims' operations.
struct Reached {
    /// The tail under the setting that remains: the recommended one, else the one in force.
    ours: Option<Tail>,
    /// The least of all settings that were tried, and its setting.
    least: Option<(Tail, String)>,
}

fn reached(contest: &Contest, recommended: &Recommended, trials: &[Trial]) -> Reached {
    let of = |contender: &Contender| {
        let mut all = LatencyCounts::default();
        let trials = pick(trials, contender.deciding());
        let phases = trials.iter().flat_map(|t| &t.phases);
        for phase in phases.filter(|p| p.kind == PhaseKind::Both && p.cut_short.is_none()) {
            all.merge(&phase.latencies().operations());
        }
        Tail::of(&all)
    };
    let left = match recommended.outcome {
        Outcome::Recommended => recommended.contender.unwrap_or(0),
        _ => 0,
    };
    let all = contest.contenders.iter().filter_map(|c| Some((of(c)?, c.name.clone())));
    Reached {
        ours: contest.contenders.get(left).and_then(of),
        least: all.min_by(|a, b| a.0.us.total_cmp(&b.0.us)),
    }
}

fn target(wanted: f64, reached: &Reached) -> String {
    let said = |tail: &Tail| match tail.kind {
        TailKind::P99 => duration_us(tail.us),
        TailKind::Slowest => format!("{} (the slowest of too few for a p99)", duration_us(tail.us)),
    };
    match (&reached.ours, &reached.least) {
        (Some(ours), _) if ours.us <= wanted => String::new(),
        (Some(ours), Some((least, name))) if least.us <= wanted => format!(
            " That misses the target of {} with {}; {name} reached {}, and lost by what it costs \
             or by other trials.",
            duration_us(wanted),
            said(ours),
            said(least)
        ),
        (ours, least) => {
            let ours = ours.map(|tail| (tail, String::new()));
            let with_name = least.clone().map(|(tail, name)| (tail, format!(", with {name}")));
            let best = ours.into_iter().chain(with_name).min_by(|a, b| a.0.us.total_cmp(&b.0.us));
            best.map_or_else(String::new, |(tail, with)| {
                format!(
                    " The target of {} can't be met here: {} is the best that was found{with}.",
                    duration_us(wanted),
                    said(&tail)
                )
            })
        }
    }
}

fn time(seconds: f64) -> String {
    human_duration(Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default())
}

#[cfg(test)]
mod tests;
