//! What a result says of the run and the machine, from what the host told.

use std::time::Duration;

use floodwall_host::HostFacts;
use floodwall_host::facts::{DeviceFacts, LeafFacts};
use floodwall_model::Reading;
use floodwall_model::status::Missing;
use floodwall_report::schema::{ResultDevice, ResultFilesystem, ResultHost, Run, RunStatus};

use crate::output;

/// Everything that a result says beside the measurements.
pub(crate) struct Facts<'a> {
    pub(crate) host: &'a HostFacts,
    pub(crate) missing: Vec<Missing>,
    pub(crate) warnings: Vec<String>,
    pub(crate) failure: Option<&'a anyhow::Error>,
    /// Since the Unix epoch.
    pub(crate) started_at: Duration,
    pub(crate) seconds: f64,
    pub(crate) first_operation: Option<Duration>,
}

/// Puts a result's description together. What the host did not tell goes to `missing`, with its
/// reason.
pub(crate) fn run_facts(facts: Facts<'_>) -> Run {
    let mut missing = facts.missing;
    let host = facts.host;
    let mut known = Known { missing: &mut missing };
    let result_host = ResultHost {
        kernel: known.take("host.kernel", &host.kernel),
        ram_bytes: known.take("host.ram_bytes", &host.ram_bytes),
        cpus: known.take("host.cpus", &host.cpus),
        distribution: known.take("host.distribution", &host.distribution),
        virtualisation: known.take("host.virtualisation", &host.virtualisation),
    };
    let device = host.device.as_ref().map(|d| device(&mut known, d));
    Run {
        command: "bench".into(),
        floodwall_version: env!("CARGO_PKG_VERSION").into(),
        status: facts
            .failure
            .map_or(RunStatus::Complete, |e| RunStatus::Partial { why: output::message(e) }),
        started_at_unix_s: facts.started_at.as_secs_f64(),
        seconds: facts.seconds,
        first_operation_ms: facts.first_operation.map(|d| d.as_secs_f64() * 1e3),
        host: result_host,
        device,
        filesystem: Some(ResultFilesystem {
            kind: host.filesystem.clone(),
            mount_options: host.mount_options.clone(),
            path: host.path.clone(),
        }),
        missing,
        warnings: facts.warnings,
    }
}

/// Takes values out of readings and keeps the reasons of those that have none.
struct Known<'a> {
    missing: &'a mut Vec<Missing>,
}

impl Known<'_> {
    fn take<T: Clone>(&mut self, what: &str, reading: &Reading<T>) -> Option<T> {
        if let Some(why) = reading.why() {
            self.missing.push(Missing { what: what.to_owned(), why });
        }
        reading.value().cloned()
    }
}

fn device(known: &mut Known<'_>, d: &DeviceFacts) -> ResultDevice {
    ResultDevice {
        name: d.name.clone(),
        model: known.take("device.model", &d.model),
        firmware: d.firmware.value().cloned(),
        scheduler: known.take("device.scheduler", &d.scheduler),
        rotational: known.take("device.rotational", &d.rotational),
        size_bytes: known.take("device.size_bytes", &d.size_bytes),
        leaves: d.leaves.iter().map(|l| leaf(known, l)).collect(),
    }
}

fn leaf(known: &mut Known<'_>, l: &LeafFacts) -> ResultDevice {
    let take = |what: &str| format!("device.leaves.{}.{what}", l.name);
    let names = [take("model"), take("scheduler"), take("rotational"), take("size_bytes")];
    ResultDevice {
        name: l.name.clone(),
        model: known.take(&names[0], &l.model),
        firmware: l.firmware.value().cloned(),
        scheduler: known.take(&names[1], &l.scheduler),
        rotational: known.take(&names[2], &l.rotational),
        size_bytes: known.take(&names[3], &l.size_bytes),
        leaves: Vec::new(),
    }
}
