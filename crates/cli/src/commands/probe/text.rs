//! A window of the probe, for people.

use std::time::Duration;

use floodwall_model::counts::count;
use floodwall_model::units::human_duration;
use floodwall_model::{LatencyCounts, Rate};
use floodwall_probe::{DeviceUse, Snapshot, SourceKind};
use floodwall_report::numbers::percent;
use floodwall_report::status::table::{Column, table, wrap};
use floodwall_report::status::{Style, who};

use super::who::{waiters, writers};

/// A source as it is called in sentences.
pub(super) fn source(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Proc => "the counters in /proc",
        SourceKind::Perf => "tracepoints (perf events)",
        SourceKind::Bpf => "tracepoints (BPF)",
    }
}

/// One window.
pub(super) fn page(snapshot: &Snapshot, style: Style) -> String {
    let mut lines = wrap(&head(snapshot), style.prose());
    let devices = devices(snapshot, style);
    let who = who(&waiters(snapshot), &writers(snapshot), style);
    if devices.len() <= 1 && who.is_empty() {
        lines.push("no process waits for a disk, and none writes".into());
    }
    if devices.len() > 1 {
        lines.push(String::new());
        lines.extend(devices);
    }
    lines.extend(who);
    lines.push(String::new());
    lines.join("\n") + "\n"
}

fn head(snapshot: &Snapshot) -> String {
    let mut head = format!("{} from {}", human_duration(snapshot.window), source(snapshot.source));
    if let Some(pressure) = snapshot.pressure {
        let share = pressure.as_secs_f64() / snapshot.window.as_secs_f64().max(f64::EPSILON);
        head.push_str(&format!("; somebody waited for I/O {} % of it", percent(share.min(1.0))));
    }
    if snapshot.lost_events > 0 {
        head.push_str(&format!(
            "; {} events were lost, what they told is missing below",
            snapshot.lost_events
        ));
    }
    if snapshot.folded_operations > 0 {
        head.push_str(&format!(
            "; {} operations of too many processes to tell apart are under 'others'",
            snapshot.folded_operations
        ));
    }
    if snapshot.unwatched_threads > 0 {
        head.push_str(&format!(
            "; writes of {} threads to O_SYNC files are not seen, there are too many",
            snapshot.unwatched_threads
        ));
    }
    head
}

fn per_second(events: u64, snapshot: &Snapshot) -> String {
    let rate = events as f64 / snapshot.window.as_secs_f64().max(f64::EPSILON);
    count(rate)
}

fn bytes_per_second(bytes: u64, snapshot: &Snapshot) -> String {
    Rate(bytes as f64 / snapshot.window.as_secs_f64().max(f64::EPSILON)).to_string()
}

fn at(counts: &LatencyCounts, fraction: f64) -> String {
    counts
        .nearest_rank_ns(fraction)
        .map_or_else(|| "–".into(), |ns| human_duration(Duration::from_nanos(ns)))
}

fn devices(snapshot: &Snapshot, style: Style) -> Vec<String> {
    let columns = [
        Column::words("DEVICE", 20),
        Column::words("REQUESTS", 20),
        Column::figures("/s", 12),
        Column::figures("bytes", 12),
        Column::figures("queued p50", 12).rank(2),
        Column::figures("queued p99", 12).rank(1),
        Column::figures("device p50", 12),
        Column::figures("device p99", 12),
        Column::figures("device max", 12).rank(3),
    ];
    let mut rows = Vec::new();
    for device in &snapshot.devices {
        match &device.requests {
            Some(requests) => rows.extend(requests.iter().map(|(class, r)| {
                vec![
                    device.name.clone(),
                    class.name().replace('_', " "),
                    per_second(r.device.count(), snapshot),
                    bytes_per_second(r.bytes, snapshot),
                    at(&r.queue, 0.5),
                    at(&r.queue, 0.99),
                    at(&r.device, 0.5),
                    at(&r.device, 0.99),
                    at(&r.device, 1.0),
                ]
            })),
            None => rows.extend(sums(device, snapshot)),
        }
    }
    table(&columns, &rows, style.width)
}

/// What counters alone know of a device.
fn sums(device: &DeviceUse, snapshot: &Snapshot) -> Vec<Vec<String>> {
    let Some(counters) = &device.counters else { return Vec::new() };
    let kinds = [
        ("read", counters.read_ops, counters.read_bytes),
        ("write", counters.write_ops, counters.written_bytes),
        ("flush", counters.flush_ops.unwrap_or(0), 0),
    ];
    let row = |(kind, ops, bytes): (&str, u64, u64)| {
        let mut row = vec![
            device.name.clone(),
            kind.to_owned(),
            per_second(ops, snapshot),
            bytes_per_second(bytes, snapshot),
        ];
        row.resize(9, "–".into());
        row
    };
    kinds.into_iter().filter(|(_, ops, _)| *ops > 0).map(row).collect()
}
