//! A check as one JSON document. Every number's name ends in its unit.

use floodwall_model::status::Missing;
use floodwall_stats::quantiles::Percentiles;
use serde::Serialize;

use super::{Check, Fitness, Grade, verdict};

/// Name and version of the JSON document.
pub const SCHEMA: &str = "floodwall/check/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'static str,
    verdict: Fitness,
    sentence: String,
    program: &'a str,
    directory: &'a str,
    filesystem: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    block_bytes: u64,
    sync: &'static str,
    /// The operation that the limit is for: `fdatasync` or `commit`.
    operation: &'static str,
    limit_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_source: Option<&'static str>,
    runs: Vec<Run>,
    next: Vec<Next>,
    seconds: f64,
    missing: &'a [Missing],
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Run {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    measured: Option<Measured>,
}

#[derive(Serialize)]
struct Measured {
    grade: Grade,
    seconds: f64,
    ops: u64,
    sync_us: Option<Percentiles>,
    commit_us: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flood_bytes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flood_stays_below_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Next {
    command: String,
    does: &'static str,
}

/// A check for programs, indented, without a line end after it.
///
/// # Errors
/// None that a [`Check`] can cause; serialisation is fallible by type.
pub fn json(check: &Check) -> Result<String, serde_json::Error> {
    let verdict = verdict(check);
    let goal = &check.goal;
    let run = |run: &super::Run| Run {
        name: run.beside.key(),
        left_out: run.measured.as_ref().err().cloned(),
        measured: run.measured.as_ref().ok().map(|measured| Measured {
            grade: check.goal.grade(measured),
            seconds: measured.seconds,
            ops: measured.commit.count(),
            sync_us: Percentiles::of(&measured.sync),
            commit_us: Percentiles::of(&measured.commit),
            flood_bytes_per_s: measured.flood_bytes_per_s,
            flood_stays_below_bytes: measured.flood_stays_below.map(|limit| limit.0),
        }),
    };
    let next = verdict.next.into_iter().map(|(command, does)| Next { command, does });
    serde_json::to_string_pretty(&Document {
        schema: SCHEMA,
        command: "check",
        verdict: verdict.fitness,
        sentence: verdict.sentence,
        program: &goal.program,
        directory: &check.directory,
        filesystem: &check.filesystem,
        device: check.device.as_deref(),
        block_bytes: goal.block.0,
        sync: goal.call,
        operation: goal.operation(),
        limit_us: goal.limit.as_secs_f64() * 1e6,
        limit_source: goal.source,
        runs: check.runs.iter().map(run).collect(),
        next: next.collect(),
        seconds: check.seconds,
        missing: &check.missing,
        warnings: &check.warnings,
    })
}
