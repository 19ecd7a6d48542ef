//! A window of the probe, for people.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::units::human_duration;
use floodwall_model::{DeviceId, LatencyCounts, Rate};
use floodwall_probe::{DeviceUse, ProcessUse, Snapshot, SourceKind};
use floodwall_report::status::table::{Align, Column, table};

/// Rows of processes that are shown; a screen has no more.
const ROWS: usize = 12;

/// A source as it is called in sentences.
pub(super) fn source(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Proc => "the counters in /proc",
        SourceKind::Perf => "tracepoints (perf events)",
        SourceKind::Bpf => "tracepoints (BPF)",
    }
}

/// One window.
pub(super) fn page(snapshot: &Snapshot) -> String {
    let names = names(snapshot);
    let mut lines = vec![head(snapshot)];
    for part in [devices(snapshot), waits(snapshot, &names), floods(snapshot, &names)] {
        if part.len() > 1 {
            lines.push(String::new());
            lines.extend(part);
        }
    }
    if lines.len() == 1 {
        lines.push("nobody waits for a disk, and nobody writes".into());
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

/// Processes that wait and processes that write, each with an empty line before the table.
pub(super) fn who(snapshot: &Snapshot) -> Vec<String> {
    let names = names(snapshot);
    let parts = [waits(snapshot, &names), floods(snapshot, &names)]
        .into_iter()
        .filter(|part| part.len() > 1);
    parts.flat_map(|part| std::iter::once(String::new()).chain(part)).collect()
}

fn names(snapshot: &Snapshot) -> BTreeMap<DeviceId, &str> {
    snapshot.devices.iter().map(|d| (d.id, d.name.as_str())).collect()
}

fn head(snapshot: &Snapshot) -> String {
    let mut head = format!("{} from {}", human_duration(snapshot.window), source(snapshot.source));
    if let Some(pressure) = snapshot.pressure {
        let share = pressure.as_secs_f64() / snapshot.window.as_secs_f64().max(f64::EPSILON);
        head.push_str(&format!("; somebody waited for I/O {:.0} % of it", 100.0 * share.min(1.0)));
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

const fn column(title: &'static str, align: Align) -> Column {
    Column { title, align, max_width: 40 }
}

fn per_second(count: u64, snapshot: &Snapshot) -> String {
    let rate = count as f64 / snapshot.window.as_secs_f64().max(f64::EPSILON);
    if rate >= 10.0 || rate == 0.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

fn bytes_per_second(bytes: u64, snapshot: &Snapshot) -> String {
    Rate(bytes as f64 / snapshot.window.as_secs_f64().max(f64::EPSILON)).to_string()
}

fn at(counts: &LatencyCounts, fraction: f64) -> String {
    counts
        .nearest_rank_ns(fraction)
        .map_or_else(|| "–".into(), |ns| human_duration(Duration::from_nanos(ns)))
}

fn devices(snapshot: &Snapshot) -> Vec<String> {
    let columns = [
        column("DEVICE", Align::Left),
        column("REQUESTS", Align::Left),
        column("/s", Align::Right),
        column("bytes", Align::Right),
        column("queued p50", Align::Right),
        column("p99", Align::Right),
        column("in device p50", Align::Right),
        column("p99", Align::Right),
        column("max", Align::Right),
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
    table(&columns, &rows)
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

fn called(process: &ProcessUse) -> String {
    process.who()
}

fn name_of(device: Option<DeviceId>, names: &BTreeMap<DeviceId, &str>) -> String {
    match device {
        Some(id) => names.get(&id).map_or_else(|| id.to_string(), ToString::to_string),
        None => "?".into(),
    }
}

/// Processes that wait, in descending order of their total wait.
fn waits(snapshot: &Snapshot, names: &BTreeMap<DeviceId, &str>) -> Vec<String> {
    let columns = [
        column("WHO WAITS", Align::Left),
        column("DEVICE", Align::Left),
        column("FOR", Align::Left),
        column("/s", Align::Right),
        column("p50", Align::Right),
        column("p99", Align::Right),
        column("max", Align::Right),
        column("share", Align::Right),
        column("now", Align::Right),
    ];
    let mut rows: Vec<(u128, Vec<String>)> = Vec::new();
    for process in &snapshot.processes {
        let now = if process.waiting > 0 {
            format!("{} for {}", process.waiting, human_duration(process.oldest))
        } else {
            String::new()
        };
        let mut kinds: Vec<(&str, &LatencyCounts)> =
            process.calls.iter().map(|(call, counts)| (call.name(), counts)).collect();
        kinds.push(("read", &process.reads));
        kinds.retain(|(_, counts)| !counts.is_empty());
        if kinds.is_empty() && process.waiting > 0 {
            let mut row = vec![called(process), name_of(process.device, names)];
            row.resize(8, "–".into());
            row.push(now.clone());
            rows.push((process.oldest.as_nanos(), row));
        }
        for (at_row, (kind, counts)) in kinds.into_iter().enumerate() {
            let waited = Duration::from_nanos(counts.sum_ns());
            let share = waited.as_secs_f64() / snapshot.window.as_secs_f64().max(f64::EPSILON);
            let row = vec![
                called(process),
                name_of(process.device, names),
                kind.to_owned(),
                per_second(counts.count(), snapshot),
                at(counts, 0.5),
                at(counts, 0.99),
                at(counts, 1.0),
                format!("{:.0} %", 100.0 * share),
                if at_row == 0 { now.clone() } else { String::new() },
            ];
            rows.push((waited.as_nanos(), row));
        }
    }
    rows.sort_by_key(|(waited, _)| std::cmp::Reverse(*waited));
    rows.truncate(ROWS);
    table(&columns, &rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>())
}

/// Processes that dirty page cache or are made to sleep for it, the heaviest dirtier first.
fn floods(snapshot: &Snapshot, names: &BTreeMap<DeviceId, &str>) -> Vec<String> {
    let columns = [
        column("WHO WRITES", Align::Left),
        column("DEVICE", Align::Left),
        column("dirtied", Align::Right),
        column("throttled", Align::Right),
    ];
    let mut processes: Vec<&ProcessUse> = snapshot
        .processes
        .iter()
        .filter(|p| p.dirtied_bytes.is_some_and(|bytes| bytes > 0) || !p.throttled.is_zero())
        .collect();
    processes.sort_by_key(|p| (std::cmp::Reverse(p.dirtied_bytes), p.pid));
    processes.truncate(ROWS);
    let rows: Vec<Vec<String>> = processes
        .into_iter()
        .map(|p| {
            let throttled =
                p.throttled.as_secs_f64() / snapshot.window.as_secs_f64().max(f64::EPSILON);
            vec![
                called(p),
                name_of(p.device, names),
                p.dirtied_bytes
                    .map_or_else(|| "–".into(), |bytes| bytes_per_second(bytes, snapshot)),
                if snapshot.source == SourceKind::Proc {
                    "–".into()
                } else {
                    format!("{:.0} %", 100.0 * throttled)
                },
            ]
        })
        .collect();
    table(&columns, &rows)
}
