//! The result document: everything that a run measured, as one JSON text with the schema's name in
//! it.
//!
//! ```text
//! Run (who, where, when) ┐
//! Scenario ──────────────┼─ Document::new ─▶ Document ─ write_json ─▶ JSON ── read ─▶ Document
//! Trials, Baseline ──────┘    (summarises)      │                                        │
//!                                           .summary = recomputed from the raw data = .summary
//! ```
//!
//! The raw interval histograms are in the document, so that every figure can be computed again;
//! docs/result-schema.md says how. Scripts rely on the field names of the top levels, which don't
//! change under this schema name. New fields may come at any time, and a reader ignores fields that
//! it does not know. Every number's name ends in its unit.

pub mod contest;
mod judge;
mod wire;

use std::io;

use floodwall_model::status::Missing;
use floodwall_model::{PhaseKind, Scenario, Setting, Trial};
use floodwall_stats::figures::{Reference, Summary, summarise};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the schema that is written and read.
pub const SCHEMA: &str = "floodwall/result/1";

/// Why a simulated machine lacks what only a real one has; nobody has to be told of it.
pub const SIMULATED: &str = "absent: the machine is simulated";

/// What to do about a result that is whole and does not fit the schema.
const CHANGED: &str = "the file was changed, or another version of floodwall wrote it; take an \
    unchanged copy, use that version, or repeat the run";

/// Why a result could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The end of the JSON is missing.
    #[error(
        "can't read the result: it is cut off at line {line}; copy it again, or repeat the run \
         with --out FILE, which writes a file whole or not at all"
    )]
    Cut {
        /// The last line that is there, from 1.
        line: usize,
    },
    /// Not JSON, or a field has the wrong type or a value that can't be decoded.
    #[error("can't read the result: {0}; {CHANGED}")]
    Json(serde_json::Error),
    /// JSON, but without a schema name.
    #[error("can't read the result: it has no \"schema\", so it is not a floodwall result")]
    NotAResult,
    /// A result of another kind or version.
    #[error("can't read the result: its schema is '{found}', this program reads '{SCHEMA}'")]
    OtherSchema {
        /// The schema it names.
        found: String,
    },
    /// An index of a contest points outside its list.
    #[error("can't read the result: {place}; {CHANGED}")]
    Index {
        /// The wrong index, in words.
        place: String,
    },
    /// The result could not be turned into JSON.
    #[error("can't write the result: {0}")]
    Write(String),
    /// The writer that takes the JSON failed.
    #[error("can't write the result: {0}")]
    Io(#[source] io::Error),
}

impl SchemaError {
    fn of_json(error: serde_json::Error) -> Self {
        if error.is_eof() { Self::Cut { line: error.line() } } else { Self::Json(error) }
    }
}

/// The command of a run, its user, its place and its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command: `bench`.
    #[serde(default)]
    pub command: String,
    /// Version of the program.
    #[serde(default)]
    pub floodwall_version: String,
    /// Whether the run came to its end.
    #[serde(default)]
    pub status: RunStatus,
    /// When the run began, in seconds since the Unix epoch.
    #[serde(default)]
    pub started_at_unix_s: f64,
    /// How long it took, preparation included, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// From the start of the program to its first block written, in milliseconds; `None` if
    /// nothing was written.
    #[serde(default)]
    pub first_operation_ms: Option<f64>,
    /// The machine.
    #[serde(default)]
    pub host: ResultHost,
    /// The whole disk that the directory's writes meet first; `None` without a block device.
    #[serde(default)]
    pub device: Option<ResultDevice>,
    /// The filesystem of the directory.
    #[serde(default)]
    pub filesystem: Option<ResultFilesystem>,
    /// Each quantity that could not be measured, and the reason.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What the user should know before believing the figures.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Whether a run came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum RunStatus {
    /// Everything that was asked for was measured.
    #[default]
    Complete,
    /// The run ended early; the measurements until then are there.
    Partial {
        /// Why: a signal, a full disk, a failed command.
        why: String,
    },
}

/// The machine. `None`: absent or unreadable, with the reason in `missing`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultHost {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Usable RAM.
    pub ram_bytes: Option<u64>,
    /// CPUs online.
    pub cpus: Option<u64>,
    /// Distribution.
    pub distribution: Option<String>,
    /// The hypervisor, as far as it is known.
    pub virtualisation: Option<String>,
}

/// A block device. `None`: absent or unreadable, with the reason in `missing`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultDevice {
    /// The kernel's name.
    pub name: String,
    /// Vendor and model.
    pub model: Option<String>,
    /// Firmware revision. Results of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The elevator in use.
    pub scheduler: Option<String>,
    /// Whether it seeks, as the kernel believes.
    pub rotational: Option<bool>,
    /// Capacity.
    pub size_bytes: Option<u64>,
    /// The devices below it that really drain, where they are others.
    pub leaves: Vec<ResultDevice>,
}

/// A filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultFilesystem {
    /// Its type, such as `ext4`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Mount options, separated by commas.
    pub mount_options: String,
    /// The devices from the first down to those that drain.
    pub path: String,
}

/// The stored result that flood and burst are compared with: only the phases that this takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Baseline {
    /// Where it came from: usually a file's name.
    pub source: String,
    /// Its trials with the phases `flood` and `burst`, and the setting under which they ran.
    pub trials: Vec<Trial>,
}

impl Baseline {
    /// From a stored result.
    #[must_use]
    pub fn from_document(document: &Document, source: impl Into<String>) -> Self {
        let wanted = |kind| matches!(kind, PhaseKind::Flood | PhaseKind::Burst);
        let trials = document
            .trials
            .iter()
            .map(|t| Trial {
                phases: t.phases.iter().filter(|p| wanted(p.kind)).cloned().collect(),
                ..t.clone()
            })
            .collect();
        Self { source: source.into(), trials }
    }
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The command of the run, its user, its place and its time.
    pub run: Run,
    /// The scenario, as JSON.
    pub scenario: Value,
    /// Everything that was measured.
    pub trials: Vec<Trial>,
    /// What flood and burst are compared with, if not with the setting in force.
    pub baseline: Option<Baseline>,
    /// The figures; of a contest the reference's.
    pub summary: Summary,
    /// What a run under several settings has besides.
    pub contest: Option<contest::Contest>,
}

impl Document {
    /// Summarises trials of one scenario under one setting.
    ///
    /// # Errors
    /// [`SchemaError::Write`] if the scenario has no JSON form.
    pub fn new(
        run: Run,
        scenario: &Scenario,
        trials: Vec<Trial>,
        baseline: Option<Baseline>,
    ) -> Result<Self, SchemaError> {
        let scenario =
            serde_json::to_value(scenario).map_err(|e| SchemaError::Write(e.to_string()))?;
        let summary = summary_of(&trials, baseline.as_ref());
        Ok(Self { run, scenario, trials, baseline, summary, contest: None })
    }

    /// The figures, computed from the raw data again: equal to [`Document::summary`] unless that
    /// was written by a version of the program that defined them differently.
    #[must_use]
    pub fn recomputed_summary(&self) -> Summary {
        summary_of(&self.summarised_trials(), self.baseline.as_ref())
    }

    /// The setting under which the first trial ran; empty without one.
    #[must_use]
    pub fn setting(&self) -> Setting {
        self.trials.first().map(|t| t.setting.clone()).unwrap_or_default()
    }

    /// The trials that the summary is of: all, or of a contest the reference's that count.
    fn summarised_trials(&self) -> Vec<Trial> {
        self.contest
            .as_ref()
            .map_or_else(|| self.trials.clone(), |contest| contest.counted(0, &self.trials))
    }

    /// Differences of a stored result from this one that make a comparison mean little: one phrase
    /// each, for a warning.
    #[must_use]
    pub fn differences(&self, stored: &Self) -> Vec<String> {
        let device = |d: &Self| {
            let device = d.run.device.as_ref()?;
            Some(format!(
                "{} ({})",
                device.name,
                device.model.as_deref().unwrap_or("unknown model")
            ))
        };
        let text = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
        let part = |d: &Self, key: &str| d.scenario.get(key).map(Value::to_string);
        let kind = |d: &Self| d.run.filesystem.as_ref().map(|f| f.kind.clone());
        let ram = |d: &Self| d.run.host.ram_bytes.map(|b| floodwall_model::Bytes(b).to_string());
        let mut found = Vec::new();
        for (what, here, there) in [
            ("kernel", self.run.host.kernel.clone(), stored.run.host.kernel.clone()),
            ("RAM", ram(self), ram(stored)),
            ("device", device(self), device(stored)),
            ("filesystem", kind(self), kind(stored)),
        ] {
            if here != there {
                found.push(format!("{what}: {} here, {} there", text(here), text(there)));
            }
        }
        for (what, key) in [("floods", "floods"), ("burst", "burst_bytes")] {
            if part(self, key) != part(stored, key) {
                found.push(format!("the scenario's {what} differ"));
            }
        }
        found
    }
}

fn summary_of(trials: &[Trial], baseline: Option<&Baseline>) -> Summary {
    summarise(trials, baseline.map_or(Reference::InForce, |b| Reference::Baseline(&b.trials)))
}

#[cfg(test)]
mod tests;
