//! The figures of a run, and the line of a journal that keeps them.
//!
//! A line has fields between tabs: the run's key, the figures in the order of the columns, the
//! reason of an impossible run, notes. An absent figure is `-`. Numbers are printed with as many
//! digits as bring back the same number.

use std::fmt::Write as _;

use floodwall_model::Trial;
use floodwall_stats::figures::{PhaseFigures, Reference, Summary, summarise};

use super::digest::Key;

/// The figures' names, each ending in its unit where it has one.
pub(crate) const NAMES: [&str; 16] = [
    "victim_kept",
    "dead_seconds",
    "of_seconds",
    "longest_stall_s",
    "victim_alone_iops",
    "victim_beside_iops",
    "victim_alone_p50_us",
    "victim_alone_p99_us",
    "victim_alone_p999_us",
    "victim_beside_p50_us",
    "victim_beside_p99_us",
    "victim_beside_p999_us",
    "flood_alone_bytes_per_s",
    "flood_beside_bytes_per_s",
    "burst_bytes_per_s",
    "simulated_s",
];

/// What one run gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// In the order of the names; `None`: not measured, or not derivable from the measurements.
    pub(crate) values: [Option<f64>; NAMES.len()],
    /// Why the machine, the scenario or the setting can't be.
    pub error: Option<String>,
    /// Warnings of the run.
    pub note: Option<String>,
}

/// A line that is not one of a journal's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LineError(String);

impl Figures {
    /// Of a run that can't be.
    #[must_use]
    pub fn impossible(why: impl Into<String>) -> Self {
        Self { error: Some(why.into()), ..Self::default() }
    }

    /// Of all rounds of a run.
    #[must_use]
    pub fn of(trials: &[Trial]) -> Self {
        let summary = summarise(trials, Reference::InForce);
        let end = |t: &Trial| t.phases.iter().map(|p| p.start_s + p.seconds).fold(0.0, f64::max);
        let Summary { victim, flood, both, .. } = &summary;
        let alone = latencies(victim.as_ref());
        let beside = latencies(both.as_ref());
        let rate = |phase: &Option<PhaseFigures>| phase.as_ref().and_then(|p| p.flood_bytes_per_s);
        let iops = |phase: &Option<PhaseFigures>| phase.as_ref().and_then(|p| p.iops);
        let values = [
            summary.victim_kept.map(|e| e.value),
            summary.dead_seconds.map(|e| e.value),
            both.as_ref().map(|_| summary.of_seconds as f64),
            both.as_ref().and_then(|p| p.longest_stall_s).map(|s| s as f64),
            iops(victim),
            iops(both),
            alone[0],
            alone[1],
            alone[2],
            beside[0],
            beside[1],
            beside[2],
            rate(flood),
            rate(both),
            summary.burst_bytes_per_s,
            Some(trials.iter().map(end).sum()),
        ];
        Self { values, error: None, note: None }
    }

    /// A figure by its name; `None` also for an unknown name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.values[at]
    }

    /// A journal's line, without its end.
    #[must_use]
    pub fn to_line(&self, key: Key) -> String {
        let mut line = key.to_string();
        for value in self.values {
            let _ = match value {
                Some(value) => write!(line, "\t{value:?}"),
                None => write!(line, "\t-"),
            };
        }
        for text in [&self.error, &self.note] {
            match text {
                Some(text) => {
                    line.push_str("\t=");
                    text.chars().for_each(|c| match c {
                        '\\' => line.push_str("\\\\"),
                        '\t' => line.push_str("\\t"),
                        '\n' => line.push_str("\\n"),
                        '\r' => line.push_str("\\r"),
                        c => line.push(c),
                    });
                }
                None => line.push_str("\t-"),
            }
        }
        line
    }

    /// Reads a line back, exactly.
    ///
    /// # Errors
    /// [`LineError`]: the reason.
    pub fn from_line(line: &str) -> Result<(Key, Self), LineError> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [key, figures @ .., error, note] = fields.as_slice() else {
            return Err(LineError("it has too few fields".into()));
        };
        if figures.len() != NAMES.len() {
            let (has, wanted) = (figures.len(), NAMES.len());
            return Err(LineError(format!("it has {has} figures, not {wanted}")));
        }
        let key: Key = key.parse().map_err(|_| LineError(format!("'{key}' is no key")))?;
        let mut values = [None; NAMES.len()];
        for (value, text) in values.iter_mut().zip(figures) {
            if *text != "-" {
                *value =
                    Some(text.parse().map_err(|_| LineError(format!("'{text}' is no number")))?);
            }
        }
        Ok((key, Self { values, error: text(error)?, note: text(note)? }))
    }
}

fn text(field: &str) -> Result<Option<String>, LineError> {
    let Some(text) = field.strip_prefix('=') else {
        return if field == "-" {
            Ok(None)
        } else {
            Err(LineError(format!("'{field}' is no text")))
        };
    };
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('\\') => '\\',
                _ => return Err(LineError(format!("'{field}' is no text"))),
            },
            c => c,
        });
    }
    Ok(Some(plain))
}

/// The median, p99 and p99.9 in microseconds, each `None` with too few operations.
fn latencies(phase: Option<&PhaseFigures>) -> [Option<f64>; 3] {
    match phase.and_then(|p| p.operation_us.as_ref()) {
        Some(p) => [p.p50, p.p99, p.p999],
        None => [None; 3],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_line_is_refused() {
        let line = Figures::impossible("no").to_line(Key(7));
        assert!(Figures::from_line(&line).is_ok());
        for wrong in [
            "",
            "7\t-",
            &line.replace("\t-\t", "\tx\t"),
            &line.replacen("\t-", "", 1),
            &line.replace("=no", "no"),
            &format!("z{line}"),
        ] {
            assert!(Figures::from_line(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_line_reads_back_bit_for_bit(
            key: u128,
            values in prop::array::uniform16(prop::option::of(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO)),
            error in prop::option::of("[\\PC\\t\\n\\r\\\\]{0,20}"),
        ) {
            let figures = Figures { values, error, note: Some(String::new()) };
            let line = figures.to_line(Key(key));
            prop_assert!(!line.contains('\n'));
            let (read, back) = Figures::from_line(&line).unwrap();
            prop_assert_eq!(read, Key(key));
            prop_assert_eq!(&back.error, &figures.error);
            let bits = |f: &Figures| f.values.map(|v| v.map(f64::to_bits));
            prop_assert_eq!(bits(&back), bits(&figures));
        }

        #[test]
        fn no_text_makes_reading_panic(line in "[\\PC\\t]{0,80}") {
            let _ = Figures::from_line(&line);
        }
    }
}
