//! Figures side by side, and which of them are predictions.

use std::fmt::Write;

use anyhow::Context;
use floodwall_device::DeviceSpec;

/// What a simulated figure has to be.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// Within this share of the expected one.
    Within(f64),
    /// Within this factor of it.
    Factor(f64),
}

impl Goal {
    fn met(self, expected: f64, simulated: f64) -> bool {
        match self {
            Self::Within(share) => (simulated / expected - 1.0).abs() <= share,
            Self::Factor(factor) => {
                simulated > 0.0 && (simulated / expected).max(expected / simulated) <= factor
            }
        }
    }
}

/// How much a simulated figure owes to the expected one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The expected figure was used to choose a constant.
    Fitted,
    /// A figure that differs from this one in little was used so.
    Neighbour,
    /// Neither.
    Predicted,
}

impl Basis {
    fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Neighbour => "calibrated on a neighbour",
            Self::Predicted => "predicted",
        }
    }
}

/// One line of a table.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) what: String,
    /// `None`: nothing to compare with; shown all the same.
    pub(crate) expected: Option<f64>,
    pub(crate) simulated: Option<f64>,
    pub(crate) goal: Goal,
    pub(crate) basis: Basis,
    /// The least and the most simulated figure under other values of unpublished constants.
    pub(crate) range: Option<(f64, f64)>,
    /// Why the expected figure itself is in doubt.
    pub(crate) doubt: Option<&'static str>,
}

impl Line {
    /// Whether the goal is met; `None` if a figure is missing.
    pub(crate) fn met(&self) -> Option<bool> {
        Some(self.goal.met(self.expected?, self.simulated?))
    }

    /// Whether the goal is met at both ends of the range as well.
    fn holds(&self) -> bool {
        let at =
            |simulated| self.expected.is_some_and(|expected| self.goal.met(expected, simulated));
        self.met() == Some(true) && self.range.is_none_or(|(low, high)| at(low) && at(high))
    }
}

/// Gives each line the range of its figure over the same lines of other machines.
pub(crate) fn widen(lines: &mut [Line], others: &[Vec<Line>]) {
    for (i, line) in lines.iter_mut().enumerate() {
        let others = others.iter().filter_map(|lines| lines.get(i)?.simulated);
        let all = line.simulated.into_iter().chain(others);
        line.range = all.fold(None, |range, x| match range {
            None => Some((x, x)),
            Some((low, high)) => Some((f64::min(low, x), f64::max(high, x))),
        });
    }
}

/// The table, headed by how many predictions meet their goal.
pub(crate) fn table(expected: &str, lines: &[Line]) -> String {
    let mut out = format!(
        "{}\n\n| figure | {expected} | simulated | range | error | basis | |\n\
         |---|---|---|---|---|---|---|\n",
        headline(lines)
    );
    for line in lines {
        let error = match (line.expected, line.simulated, line.goal) {
            (Some(expected), Some(simulated), Goal::Within(_)) => {
                format!("{:+.0} %", (simulated / expected - 1.0) * 100.0)
            }
            (Some(expected), Some(simulated), Goal::Factor(_)) => {
                format!("× {:.2}", simulated / expected)
            }
            _ => "–".to_owned(),
        };
        let verdict = match line.met() {
            Some(true) => "met",
            Some(false) => "**not met**",
            None => "",
        };
        let range = line.range.map_or_else(
            || "–".to_owned(),
            |(low, high)| format!("{} to {}", number(Some(low)), number(Some(high))),
        );
        let doubt = line.doubt.map(|why| format!(" ({why})")).unwrap_or_default();
        let _ = writeln!(
            out,
            "| {}{doubt} | {} | {} | {range} | {error} | {} | {verdict} |",
            line.what,
            number(line.expected),
            number(line.simulated),
            line.basis.name(),
        );
    }
    out
}

/// How many predictions meet their goal; figures of another basis are no evidence, and do not
/// count.
fn headline(lines: &[Line]) -> String {
    let of = |basis| lines.iter().filter(move |line| line.basis == basis && line.met().is_some());
    let predicted = of(Basis::Predicted).count();
    let mut out = match predicted {
        0 => "**Nothing here is a prediction.**".to_owned(),
        n => {
            let met = of(Basis::Predicted).filter(|line| line.met() == Some(true)).count();
            format!("**{met} of {n} predictions met.**")
        }
    };
    if lines.iter().any(|line| line.range.is_some()) && predicted > 0 {
        let holds = of(Basis::Predicted).filter(|line| line.holds()).count();
        let _ = write!(out, " Over the whole range: {holds}.");
    }
    if lines.iter().any(|line| line.doubt.is_some()) {
        let sure = || of(Basis::Predicted).filter(|line| line.doubt.is_none());
        let met = sure().filter(|line| line.met() == Some(true)).count();
        let _ =
            write!(out, " Where the measured figure is not in doubt: {met} of {}.", sure().count());
    }
    let others = [(Basis::Fitted, "fitted"), (Basis::Neighbour, "calibrated on a neighbour")];
    let others: Vec<String> = others
        .iter()
        .map(|(basis, name)| (of(*basis).count(), name))
        .filter(|(n, _)| *n > 0)
        .map(|(n, name)| format!("{n} {name}"))
        .collect();
    if !others.is_empty() {
        let _ = write!(out, " Not counted: {}.", others.join(", "));
    }
    out
}

/// A preset with some of its lines replaced: keys with their new values.
pub(crate) fn preset_with(name: &str, changes: &[(&str, &str)]) -> anyhow::Result<DeviceSpec> {
    let text = floodwall_device::preset_text(name).with_context(|| format!("no preset {name}"))?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, value) in changes {
        let is = |line: &&mut String| line.split_once('=').is_some_and(|(k, _)| k.trim() == *key);
        let line = lines.iter_mut().find(is).with_context(|| format!("{name} has no {key}"))?;
        *line = format!("{key} = {value}");
    }
    Ok(DeviceSpec::parse(&lines.join("\n"))?)
}

/// Three significant digits, and no more than the unit needs.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(v) if v == 0.0 || v.abs() >= 100.0 => format!("{v:.0}"),
        Some(v) if v.abs() >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(basis: Basis, simulated: f64) -> Line {
        let goal = Goal::Within(0.1);
        let what = "x".to_owned();
        Line {
            what,
            expected: Some(100.0),
            simulated: Some(simulated),
            goal,
            basis,
            range: None,
            doubt: None,
        }
    }

    #[test]
    fn only_predictions_count_and_only_over_the_whole_range() {
        let lines = |predicted: [f64; 2]| {
            vec![
                line(Basis::Fitted, 100.0),
                line(Basis::Predicted, predicted[0]),
                line(Basis::Predicted, predicted[1]),
                line(Basis::Neighbour, 100.0),
            ]
        };
        let mut all = lines([105.0, 95.0]);
        widen(&mut all, &[lines([109.0, 80.0]), lines([101.0, 99.0])]);
        assert_eq!(all[2].range, Some((80.0, 99.0)));
        assert_eq!(
            headline(&all),
            "**2 of 2 predictions met.** Over the whole range: 1. Not counted: 1 fitted, 1 \
             calibrated on a neighbour."
        );
        all[1].doubt = Some("late");
        assert!(headline(&all).contains("Where the measured figure is not in doubt: 1 of 1."));
        assert!(headline(&all[..1]).starts_with("**Nothing here is a prediction.**"));
    }

    #[test]
    fn a_line_of_a_preset_is_replaced_and_a_missing_one_named() {
        let array = preset_with("raid10-bbwc-2010", &[("size", "\"1MiB\"")]).unwrap();
        assert_ne!(array, DeviceSpec::preset("raid10-bbwc-2010").unwrap());
        let missing = preset_with("raid10-bbwc-2010", &[("no_such_key", "1")]);
        assert!(missing.unwrap_err().to_string().contains("no_such_key"));
    }
}
