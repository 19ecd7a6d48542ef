//! The recommendation in a sentence, with its price.

use std::time::Duration;

use floodwall_model::Setting;
use floodwall_model::units::human_duration;
use floodwall_stats::versus::{Compared, Figure, Verdict};
use floodwall_tune::objective::{Kept, kept, pooled};
use floodwall_tune::race::Candidate;
use floodwall_tune::tuner::{Outcome, Recommendation};

/// What a search says. `operations` is what the victim's are called.
pub(super) fn sentence(outcome: &Outcome, operations: &str, p99_target_us: Option<f64>) -> String {
    let target = p99_target_us.map_or_else(String::new, |wanted| target(wanted, &reached(outcome)));
    format!("{}{target}", verdict(outcome, operations))
}

fn verdict(outcome: &Outcome, operations: &str) -> String {
    let winner = outcome.winner.and_then(|i| outcome.candidates.get(i));
    let last = outcome.last.as_ref();
    match (&outcome.recommendation, winner, last) {
        (Recommendation::Winner, Some(winner), Some(last)) => {
            format!(
                "Recommended: {} ({}){}.",
                winner.name,
                winner.setting,
                gain_and_price(&last.compared, operations)
            )
        }
        (Recommendation::Undecided { settle_s }, Some(winner), Some(last)) => {
            let settle = match settle_s {
                Some(s) => format!(
                    "; about {} of trials of the two would settle it (floodwall tune --resume, or floodwall compare)",
                    time(*s)
                ),
                None => {
                    "; if there is a difference, it is too small to be found in reasonable time".to_owned()
                }
            };
            format!(
                "Not decided: {} ({}) looked best, but in fresh trials its score is {:.2} × that of the setting in force, which may be chance{settle}. \
                 Nothing is recommended.",
                winner.name,
                spaced(&winner.setting),
                last.factor
            )
        }
        (Recommendation::NotMeasured { why }, ..) => format!("No recommendation: {why}."),
        _ if outcome.space <= 1 => {
            "Keep the setting in force: there is nothing to choose from on this device.".into()
        }
        _ => format!(
            "Keep the setting in force: of {} settings that were tried none looked better.",
            outcome.candidates.iter().filter(|c| !c.scores.is_empty()).count()
        ),
    }
}

/// A setting that can be wrapped.
fn spaced(setting: &Setting) -> String {
    setting.to_string().replace(',', ", ")
}

fn find(compared: &[Compared], figure: Figure) -> Option<&Compared> {
    compared.iter().find(|c| c.figure == figure)
}

/// `: gain; price`, of which either may not be known.
fn gain_and_price(compared: &[Compared], operations: &str) -> String {
    let parts = [gains(compared, operations), price(compared)];
    let known: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    if known.is_empty() { String::new() } else { format!(": {}", known.join("; ")) }
}

fn gains(compared: &[Compared], operations: &str) -> String {
    let mut parts = Vec::new();
    if let Some(c) = find(compared, Figure::VictimP99Us)
        && let (Some(now), Some(before)) = (c.value, c.reference)
    {
        parts.push(format!("p99 from {} to {}", us(before), us(now)));
    }
    if let Some(c) = find(compared, Figure::VictimIops) {
        match (c.difference, c.reference, c.value) {
            (Some(e), ..) => parts.push(format!("{} the {operations}", times(e.value))),
            // A victim that stood still has no multiple.
            (None, Some(before), Some(now)) => {
                parts.push(format!("{operations} from {before:.1}/s to {now:.0}/s"))
            }
            _ => {}
        }
    }
    if let Some(c) = find(compared, Figure::DeadShare).filter(|c| c.verdict == Verdict::Better)
        && let (Some(now), Some(before)) = (c.value, c.reference)
    {
        parts.push(format!(
            "dead seconds {:.0} % of the time instead of {:.0} %",
            now * 100.0,
            before * 100.0
        ));
    }
    parts.join(", ")
}

fn price(compared: &[Compared]) -> String {
    let share = |figure, what: &str| {
        let c = find(compared, figure)?;
        let e = c.difference?;
        let sure = if c.verdict == Verdict::Noise { " (no real difference)" } else { "" };
        Some(format!("{what} at {:.0} %{sure}", e.value * 100.0))
    };
    let parts = [
        share(Figure::FloodBytesPerS, "the flood runs"),
        share(Figure::BurstBytesPerS, "bursts are accepted"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Victims' p99 in microseconds.
struct Reached {
    /// Of what the machine is left with: the recommended setting in the final, else the setting in force.
    ours: Option<f64>,
    /// The least of all settings that were tried, and whose it is.
    least: Option<(f64, String)>,
}

fn reached(outcome: &Outcome) -> Reached {
    let of = |candidate: &Candidate| {
        let reference = outcome.reference.as_ref()?;
        let trials = candidate.trials.iter().chain(&candidate.final_trials);
        let all: Vec<Kept> = trials.filter_map(|t| kept(t, reference)).collect();
        pooled(&all)?.tail().map(|tail| tail.us)
    };
    let recommended = match outcome.recommendation {
        Recommendation::Winner => {
            outcome.last.as_ref().and_then(|l| find(&l.compared, Figure::VictimP99Us)).and_then(|c| c.value)
        }
        _ => outcome.candidates.first().and_then(of),
    };
    let all = outcome.candidates.iter().filter_map(|c| Some((of(c)?, c.name.clone())));
    Reached { ours: recommended, least: all.min_by(|a, b| a.0.total_cmp(&b.0)) }
}

fn target(wanted: f64, reached: &Reached) -> String {
    match (reached.ours, &reached.least) {
        (Some(ours), _) if ours <= wanted => String::new(),
        (Some(ours), Some((least, name))) if *least <= wanted => format!(
            " That misses the target of {} with {}; {name} reached {}, and lost by what it costs or by other trials.",
            us(wanted),
            us(ours),
            us(*least)
        ),
        (ours, least) => {
            let ours = ours.map(|p99| (p99, String::new()));
            let with_name = least.clone().map(|(p99, name)| (p99, format!(", with {name}")));
            let best = ours.into_iter().chain(with_name).min_by(|a, b| a.0.total_cmp(&b.0));
            best.map_or_else(String::new, |(p99, with)| {
                format!(
                    " The target of {} can't be met here: {} is the best that was found{with}.",
                    us(wanted),
                    us(p99)
                )
            })
        }
    }
}

fn times(factor: f64) -> String {
    if factor >= 9.95 { format!("{factor:.0}×") } else { format!("{factor:.1}×") }
}

fn us(us: f64) -> String {
    human_duration(Duration::try_from_secs_f64(us / 1e6).unwrap_or_default())
}

fn time(seconds: f64) -> String {
    human_duration(Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use floodwall_stats::estimate::Estimate;

    use super::*;

    fn compared(
        figure: Figure,
        reference: f64,
        value: f64,
        ratio: Option<f64>,
        verdict: Verdict,
    ) -> Compared {
        let difference =
            ratio.map(|r| Estimate { value: r, low: Some(0.9 * r), high: Some(1.1 * r), rounds: 5 });
        Compared {
            figure,
            value: Some(value),
            reference: Some(reference),
            difference,
            p: Some(0.01),
            p_adjusted: Some(0.01),
            verdict,
            why: None,
        }
    }

    #[test]
    fn the_gain_and_its_price() {
        let all = [
            compared(Figure::VictimIops, 33.0, 700.0, Some(21.2), Verdict::Better),
            compared(Figure::VictimP99Us, 1.4e6, 31e3, Some(0.022), Verdict::Better),
            compared(Figure::FloodBytesPerS, 251e6, 221e6, Some(0.88), Verdict::Worse),
            compared(Figure::BurstBytesPerS, 2e9, 2e9, Some(1.0), Verdict::Noise),
        ];
        assert_eq!(gains(&all, "commits"), "p99 from 1.40 s to 31.0 ms, 21× the commits");
        assert_eq!(price(&all), "the flood runs at 88 %, bursts are accepted at 100 % (no real difference)");
    }

    #[test]
    fn a_price_that_is_not_known_leaves_no_semicolon() {
        let gain = compared(Figure::VictimIops, 33.0, 700.0, Some(21.2), Verdict::Better);
        let cost = compared(Figure::FloodBytesPerS, 251e6, 221e6, Some(0.88), Verdict::Worse);
        assert_eq!(
            gain_and_price(&[gain.clone(), cost.clone()], "commits"),
            ": 21× the commits; the flood runs at 88 %"
        );
        assert_eq!(gain_and_price(&[gain], "commits"), ": 21× the commits");
        assert_eq!(gain_and_price(&[cost], "commits"), ": the flood runs at 88 %");
        assert_eq!(gain_and_price(&[], "commits"), "");
    }

    #[test]
    fn a_target_that_is_missed_is_said_with_the_best_that_can() {
        let reached = |ours, least| Reached { ours, least };
        let other = |p99| Some((p99, "bfq".to_owned()));
        assert_eq!(
            target(20e3, &reached(Some(31e3), other(33e3))),
            " The target of 20.0 ms can't be met here: 31.0 ms is the best that was found."
        );
        assert_eq!(
            target(20e3, &reached(Some(31e3), other(25e3))),
            " The target of 20.0 ms can't be met here: 25.0 ms is the best that was found, with bfq."
        );
        assert!(
            target(20e3, &reached(Some(31e3), other(15e3)))
                .contains("misses the target of 20.0 ms with 31.0 ms")
        );
        assert_eq!(target(40e3, &reached(Some(31e3), other(33e3))), "");
        assert_eq!(target(40e3, &reached(None, None)), "");
    }

    #[test]
    fn a_victim_that_stood_still_has_no_multiple() {
        let all = [compared(Figure::VictimIops, 0.2, 700.0, None, Verdict::Unknown)];
        assert_eq!(gains(&all, "commits"), "commits from 0.2/s to 700/s");
    }
}
