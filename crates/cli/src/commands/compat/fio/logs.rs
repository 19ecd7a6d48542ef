//! Logs of requests, a file for each figure and job.

use std::collections::BTreeMap;
use std::path::Path;

use floodwall_compat::fio::line::{JobOptions, JobSpec};
use floodwall_compat::fio::report::{LogKind, log_name};
use floodwall_compat::fio::write_log;
use floodwall_load::jobs::JobRun;
use floodwall_model::KeptRequest;

use crate::output;

/// The requests of a job as lines of one figure.
struct Part<'a> {
    kind: LogKind,
    average_ms: u64,
    requests: &'a [KeptRequest],
}

/// Writes the logs of all jobs, each straight into its file: their text may be larger than memory.
///
/// # Errors
/// A file that can't be written.
pub(super) fn write(jobs: &[JobSpec], runs: &[JobRun]) -> anyhow::Result<()> {
    let mut files: BTreeMap<String, Vec<Part<'_>>> = BTreeMap::new();
    for (number, (job, run)) in jobs.iter().zip(runs).enumerate() {
        let options = &job.options;
        let logs = &options.logs;
        for (prefix, kind) in [
            (&logs.bw, LogKind::Bw),
            (&logs.iops, LogKind::Iops),
            (&logs.lat, LogKind::Lat),
            (&logs.lat, LogKind::Slat),
            (&logs.lat, LogKind::Clat),
        ] {
            let Some(prefix) = prefix.as_ref().filter(|_| has_file(options, kind)) else {
                continue;
            };
            let prefix = if prefix.is_empty() { &options.name } else { prefix };
            let name = match logs.per_job {
                true => log_name(prefix, kind, number + 1),
                false => format!("{prefix}_{}.log", kind.name()),
            };
            let parts = files.entry(name).or_default();
            if has_lines(options, kind) {
                let average_ms = logs.average_ms;
                parts.push(Part { kind, average_ms, requests: &run.counts.kept });
            }
        }
    }
    for (name, parts) in files {
        output::write_file(Path::new(&name), |out| {
            for part in parts {
                write_log(out, part.requests, part.kind, part.average_ms)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Latencies that are not counted have no file.
fn has_file(options: &JobOptions, kind: LogKind) -> bool {
    match kind {
        LogKind::Slat => options.slat,
        LogKind::Clat => options.clat,
        LogKind::Lat => options.lat,
        LogKind::Bw | LogKind::Iops => true,
    }
}

/// A figure that is not taken of each request leaves its file empty. Rates of intervals are always
/// taken.
fn has_lines(options: &JobOptions, kind: LogKind) -> bool {
    let is_average = options.logs.average_ms > 0;
    match kind {
        LogKind::Slat => options.engine.is_async,
        LogKind::Clat | LogKind::Lat => true,
        LogKind::Bw => options.bw || is_average,
        // Three switches together are gtod_reduce.
        LogKind::Iops => options.bw || options.clat || options.slat || is_average,
    }
}
