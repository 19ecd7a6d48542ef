//! The probe through perf: every tracepoint that it wants is found or named, its format is
//! understood, and what a process does is counted exactly.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use floodwall_probe::tracepoints::{ALWAYS, FORKS, WRITES};
use floodwall_probe::{Call, Probe, SourceKind};

use super::line::Line;
use super::worker::Worker;
use crate::said::{Outcome, Said};

const EVENTS: &str = "/sys/kernel/tracing/events";
/// So few that no buffer overflows, however slow the machine is.
const SYNCS: u64 = 100;

pub(crate) fn check(line: &Line) -> anyhow::Result<Outcome> {
    let wanted = ALWAYS.iter().chain(FORKS).chain(WRITES);
    for wanted in wanted.filter(|wanted| !wanted.path.starts_with("syscalls/")) {
        let exists = Path::new(EVENTS).join(wanted.path).join("format").exists();
        let how = if exists { "yes" } else { "no" };
        line.say(&Said::Has { what: format!("tracepoint {}", wanted.path), how: how.to_owned() });
    }
    let mut worker = Worker::start(&["syncs", "/tmp/probe", &SYNCS.to_string()])?;
    let mut probe = Probe::open(Some(SourceKind::Perf))?;
    worker.work()?;
    let mut all = Vec::new();
    for _ in 0..3 {
        probe.wait(Duration::from_millis(300), &AtomicBool::new(false))?;
        all.push(probe.snapshot()?);
    }
    let uses = || all.iter().flat_map(|s| &s.processes).filter(|p| p.pid == worker.pid());
    let seen: u64 =
        uses().filter_map(|p| p.calls.get(&Call::Fsync)).map(|counts| counts.count()).sum();
    let lost: u64 = all.iter().map(|s| s.lost_events).sum();
    ensure!(seen == SYNCS, "{seen} fsyncs seen of {SYNCS}, {lost} events lost");
    let disk = std::fs::read_to_string("/sys/block/vda/dev")?;
    let devices: Vec<String> = uses()
        .filter(|p| !p.commits().is_empty())
        .filter_map(|p| Some(p.device?.to_string()))
        .collect();
    ensure!(
        devices.iter().any(|device| device == disk.trim()),
        "the fsyncs are on {devices:?}, not on vda"
    );
    let used =
        all.iter().flat_map(|s| &s.devices).filter(|used| used.id.to_string() == disk.trim());
    let requests: u64 = used
        .flat_map(|used| used.requests.iter().flat_map(|r| r.values()))
        .map(|r| r.device.count())
        .sum();
    ensure!(requests >= SYNCS, "{requests} requests seen for {SYNCS} fsyncs");
    Ok(Outcome::Passed(format!("{SYNCS} fsyncs and their requests seen where they are")))
}
