//! A probe's window as rows: who waited for a disk, who wrote.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use floodwall_model::status::{Waiter, Writer};
use floodwall_model::{DeviceId, LatencyCounts, Reading};
use floodwall_probe::{ProcessUse, Snapshot, SourceKind};

/// Why a percentile is absent.
const NONE_ENDED: &str = "no call ended during the window";

/// Names of the window's disks.
struct Names<'a>(BTreeMap<DeviceId, &'a str>);

impl<'a> Names<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self(snapshot.devices.iter().map(|d| (d.id, d.name.as_str())).collect())
    }

    fn name(&self, device: Option<DeviceId>) -> Reading<String> {
        match device {
            Some(id) => {
                Reading::Value(self.0.get(&id).map_or_else(|| id.to_string(), ToString::to_string))
            }
            None => Reading::Absent("no disk, or one that could not be told".to_owned()),
        }
    }
}

/// The processes that waited, a row for each kind of call; the longest wait first.
pub(crate) fn waiters(snapshot: &Snapshot) -> Vec<Waiter> {
    let names = Names::of(snapshot);
    let window_us = window_us(snapshot);
    let mut rows = Vec::new();
    for process in &snapshot.processes {
        let of = |call: Reading<String>, counts: &LatencyCounts| {
            let at = |fraction| {
                let absent = || Reading::Absent(NONE_ENDED.to_owned());
                let ns = counts.nearest_rank_ns(fraction);
                ns.map_or_else(absent, |ns| Reading::Value(ns as f64 / 1e3))
            };
            let waited_us = counts.sum_ns() as f64 / 1e3;
            Waiter {
                pid: process.pid,
                name: process.name.clone(),
                device: names.name(process.device),
                call,
                calls_per_s: counts.count() as f64 / window_us * 1e6,
                p50_us: at(0.5),
                p99_us: at(0.99),
                max_us: at(1.0),
                waited_us,
                waited_percent: percent(waited_us, window_us),
                waiting_calls: 0,
                oldest_us: 0.0,
            }
        };
        let mut kinds: Vec<(&str, &LatencyCounts)> =
            process.calls.iter().map(|(call, counts)| (call.name(), counts)).collect();
        kinds.push(("read", &process.reads));
        kinds.retain(|(_, counts)| !counts.is_empty());
        let mut calls: Vec<Waiter> = kinds
            .into_iter()
            .map(|(kind, counts)| of(Reading::Value(kind.to_owned()), counts))
            .collect();
        if calls.is_empty() && process.waiting > 0 {
            let call = Reading::Absent("the first call is under way".to_owned());
            calls.push(of(call, &LatencyCounts::default()));
        }
        if let Some(first) = calls.first_mut() {
            first.waiting_calls = process.waiting;
            first.oldest_us = process.oldest.as_secs_f64() * 1e6;
            first.waited_us += first.oldest_us.min(window_us);
            first.waited_percent = percent(first.waited_us, window_us);
        }
        rows.extend(calls);
    }
    rows.sort_by(|a, b| b.waited_us.total_cmp(&a.waited_us));
    rows
}

/// The processes that dirtied page cache or slept for it, the heaviest first.
pub(crate) fn writers(snapshot: &Snapshot) -> Vec<Writer> {
    let names = Names::of(snapshot);
    let window_us = window_us(snapshot);
    let writes = |p: &&ProcessUse| p.dirtied_bytes.unwrap_or(0) > 0 || !p.throttled.is_zero();
    let mut processes: Vec<&ProcessUse> = snapshot.processes.iter().filter(writes).collect();
    processes.sort_by_key(|p| (Reverse(p.dirtied_bytes), p.pid));
    let row = |p: &ProcessUse| Writer {
        pid: p.pid,
        comm: Reading::Value(p.name.clone()),
        dirtied_bytes_per_s: p.dirtied_bytes.unwrap_or(0) as f64 / window_us * 1e6,
        cancelled_bytes_per_s: 0.0,
        device: names.name(p.device),
        throttled_percent: if snapshot.source == SourceKind::Proc {
            Reading::Absent("counters alone do not tell it".to_owned())
        } else {
            Reading::Value(percent(p.throttled.as_secs_f64() * 1e6, window_us))
        },
    };
    processes.into_iter().map(row).collect()
}

fn window_us(snapshot: &Snapshot) -> f64 {
    snapshot.window.as_secs_f64().max(f64::EPSILON) * 1e6
}

/// Threads that wait at the same time add up to more than the window: a share of the time ends at
/// 100 %.
fn percent(time_us: f64, window_us: f64) -> f64 {
    (100.0 * time_us / window_us).min(100.0)
}
