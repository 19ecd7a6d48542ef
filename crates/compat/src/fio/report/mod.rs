//! What fio 3.33 prints of a run.
//!
//! ```text
//! Announced … ─▶ head: jobs, version, processes
//! Outcome ─ merge ─▶ Entry …, Group … ─┬▶ terse
//!                                      ├▶ json
//!                                      └▶ normal
//! samples ─▶ log: NAME_bw.1.log and so on
//! ```
//!
//! Several formats at once come in that order, whatever the order of their names. A blank line
//! stands before `normal`: readers of `json,normal` end there.

mod disk;
mod head;
mod json;
mod log;
mod merge;
mod normal;
mod terse;
mod value;
mod version;

pub use head::{Announced, announcement, head, laying_out};
pub use log::{Log, LogKind, LogSample, log_name};
pub use version::VERSION;

use super::outcome::Outcome;

/// Formats of `--output-format`; `--minimal` is terse alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// `terse` or `minimal`, version 3.
    pub terse: bool,
    /// `json`.
    pub json: bool,
    /// `json+`: with the bins of each distribution that has percentiles.
    pub json_plus: bool,
    /// `normal`.
    pub normal: bool,
}

impl Default for Formats {
    fn default() -> Self {
        Self { terse: false, json: false, json_plus: false, normal: true }
    }
}

/// The report at the end of a run.
#[must_use]
pub fn report(outcome: &Outcome, formats: Formats) -> String {
    let merged = merge::merge(outcome);
    let mut text = String::new();
    if formats.terse {
        text += &terse::text(outcome, &merged);
    }
    if formats.json || formats.json_plus {
        text += &json::text(outcome, &merged, formats.json_plus);
    }
    if formats.normal {
        text += &normal::text(outcome, &merged);
    }
    text
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
