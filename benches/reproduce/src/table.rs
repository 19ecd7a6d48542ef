//! Figures side by side.

use std::fmt::Write;

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

/// One line of a table.
pub(crate) struct Line {
    pub(crate) what: String,
    /// `None`: nothing to compare with; shown all the same.
    pub(crate) expected: Option<f64>,
    pub(crate) simulated: Option<f64>,
    pub(crate) goal: Goal,
}

/// The table, and below it how many lines meet their goal.
pub(crate) fn table(expected: &str, lines: &[Line]) -> String {
    let mut out = format!("| figure | {expected} | simulated | error | |\n|---|---|---|---|---|\n");
    let (mut met, mut compared) = (0, 0);
    for line in lines {
        let mark = match (line.expected, line.simulated) {
            (Some(expected), Some(simulated)) => {
                compared += 1;
                let good = line.goal.met(expected, simulated);
                met += usize::from(good);
                let error = match line.goal {
                    Goal::Within(_) => format!("{:+.0} %", (simulated / expected - 1.0) * 100.0),
                    Goal::Factor(_) => format!("× {:.2}", simulated / expected),
                };
                format!("{error} | {}", if good { "met" } else { "**not met**" })
            }
            _ => "– | ".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {mark} |",
            line.what,
            number(line.expected),
            number(line.simulated)
        );
    }
    let _ = writeln!(out, "\n{met} of {compared} met.");
    out
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

/// The middle of some numbers.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => sorted.get(n / 2).copied(),
        n => Some((sorted.get(n / 2 - 1)? + sorted.get(n / 2)?) / 2.0),
    }
}
