//! Logs of requests, a file for each figure and job.

use std::collections::BTreeMap;
use std::path::Path;

use floodwall_compat::fio::line::JobPlan;
use floodwall_compat::fio::report::{LogKind, log_name};
use floodwall_compat::fio::{LoggedRequest, log_text};
use floodwall_load::jobs::{JobRun, Request};

use crate::output;

/// Writes the logs of all jobs.
///
/// # Errors
/// A file that can't be written.
pub(super) fn write(jobs: &[JobPlan], runs: &[JobRun]) -> anyhow::Result<()> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (number, (job, run)) in jobs.iter().zip(runs).enumerate() {
        let options = &job.options;
        let logs = &options.logs;
        let requests: Vec<LoggedRequest> = run.tally.kept.iter().map(logged).collect();
        for (prefix, kind) in [
            (&logs.bw, LogKind::Bw),
            (&logs.iops, LogKind::Iops),
            (&logs.lat, LogKind::Lat),
            (&logs.lat, LogKind::Slat),
            (&logs.lat, LogKind::Clat),
        ] {
            let Some(prefix) = prefix else { continue };
            let prefix = if prefix.is_empty() { &options.name } else { prefix };
            let name = match logs.per_job {
                true => log_name(prefix, kind, number + 1),
                false => format!("{prefix}_{}.log", kind.name()),
            };
            let is_timed = match kind {
                LogKind::Slat => options.slat && options.engine.is_async,
                LogKind::Clat => options.clat,
                LogKind::Lat => options.lat,
                LogKind::Bw | LogKind::Iops => true,
            };
            let text = files.entry(name).or_default();
            if is_timed {
                text.push_str(&log_text(&requests, kind, logs.average_ms));
            }
        }
    }
    for (name, text) in files {
        output::write_file(Path::new(&name), |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(())
}

fn logged(request: &Request) -> LoggedRequest {
    LoggedRequest {
        end_ns: request.end_ns,
        direction: u8::from(request.is_write),
        requests: request.requests,
        bytes: request.bytes,
        latencies_ns: request.latencies_ns,
    }
}
