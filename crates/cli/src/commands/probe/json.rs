//! A window of the probe, for programs. The names are relied on by scripts; every number's name
//! ends in its unit.

use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_low_ns;
use floodwall_probe::{Blind, DeviceUse, ProcessUse, Requests, Snapshot};
use serde_json::{Map, Value, json};

/// The schema's name.
const SCHEMA: &str = "floodwall/probe/1";

/// One window as one line.
///
/// # Errors
/// None that is known: numbers and texts can be written.
pub(super) fn line(snapshot: &Snapshot, blind: &[Blind]) -> serde_json::Result<String> {
    let document = json!({
        "schema": SCHEMA,
        "at_s": snapshot.at.as_secs_f64(),
        "window_s": snapshot.window.as_secs_f64(),
        "source": snapshot.source.name(),
        "missing": blind.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "lost_events": snapshot.lost_events,
        "folded_operations": snapshot.folded_operations,
        "unwatched_threads": snapshot.unwatched_threads,
        "io_pressure_us": snapshot.pressure.map(|p| p.as_micros() as u64),
        "devices": snapshot.devices.iter().map(device).collect::<Vec<_>>(),
        "processes": snapshot.processes.iter().map(process).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string(&document)? + "\n")
}

fn device(device: &DeviceUse) -> Value {
    let requests = device.requests.as_ref().map(|requests| {
        requests
            .iter()
            .map(|(class, r)| (class.name().to_owned(), request(r)))
            .collect::<Map<_, _>>()
    });
    let counters = device.counters.as_ref().map(|c| {
        json!({
            "read_ops": c.read_ops, "read_bytes": c.read_bytes,
            "write_ops": c.write_ops, "written_bytes": c.written_bytes,
            "flush_ops": c.flush_ops, "busy_ms": c.busy_ms,
            "weighted_ms": c.weighted_ms, "in_flight": c.in_flight,
        })
    });
    json!({ "id": device.id, "name": device.name, "counters": counters, "requests": requests })
}

fn request(requests: &Requests) -> Value {
    let (queue, device) = (latency(&requests.queue), latency(&requests.device));
    json!({ "bytes": requests.bytes, "queue_us": queue, "device_us": device })
}

fn process(process: &ProcessUse) -> Value {
    let calls: Map<_, _> = process
        .calls
        .iter()
        .map(|(call, counts)| (call.name().to_owned(), latency(counts)))
        .collect();
    json!({
        "pid": process.pid, "name": process.name, "device": process.device,
        "calls_us": calls, "reads_us": latency(&process.reads), "read_bytes": process.read_bytes,
        "waiting": process.waiting, "oldest_us": process.oldest.as_micros() as u64,
        "throttled_us": process.throttled.as_micros() as u64,
        "dirtied_bytes": process.dirtied_bytes, "flooded_bytes": process.flooded_bytes,
    })
}

/// Count, mean, percentiles, and the raw histogram as `[lower end in ns, count]`, from which every
/// figure can be computed again.
fn latency(counts: &LatencyCounts) -> Value {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let buckets = counts.buckets();
    json!({
        "count": counts.count(),
        "mean": counts.mean_ns().map(|ns| ns / 1e3),
        "p50": us(counts.nearest_rank_ns(0.5)),
        "p90": us(counts.nearest_rank_ns(0.9)),
        "p99": us(counts.nearest_rank_ns(0.99)),
        "p999": us(counts.nearest_rank_ns(0.999)),
        "max": us((!counts.is_empty()).then_some(counts.max_ns())),
        "buckets_ns": buckets.map(|(bucket, n)| (bucket_low_ns(bucket), n)).collect::<Vec<_>>(),
    })
}
