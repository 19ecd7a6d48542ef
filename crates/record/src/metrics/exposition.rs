//! The text of the metrics, by the crate `prometheus-client`. An unknown value has no sample; zero
//! is a measurement.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType as Kind;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::counts::{Counts, Waited};
use super::device::Device;
use super::places::View;
use super::totals::Totals;

/// Before every name.
const PREFIX: &str = "floodwall";
/// A guard's states (`frame::GuardedDisk`).
const STATES: [&str; 6] = ["free", "watch", "pace", "protect", "probe", "recover"];

type Labels = Vec<(&'static str, String)>;
/// A metric of each `T`: its name, its unit, its kind, its help, and its value.
type Of<T> = (&'static str, &'static str, Kind, &'static str, fn(&T) -> Option<f64>);
/// The same of each workload.
type OfWorkload = (&'static str, &'static str, Kind, &'static str, fn(&View<'_>) -> Option<f64>);

const OF_RECORDER: [Of<Totals>; 9] = [
    ("frames", "", Kind::Counter, "Frames that were recorded or served", |t| count(t.frames)),
    ("frames_lost", "", Kind::Counter, "Frames that could not be recorded", |t| {
        count(t.lost_frames)
    }),
    (
        "events_lost",
        "",
        Kind::Counter,
        "Events of the kernel that the probe had no room for",
        |t| count(t.lost_events),
    ),
    (
        "last_frame_timestamp",
        "seconds",
        Kind::Gauge,
        "When the newest frame ended, since 1970",
        |t| Some(t.at_unix_ms? as f64 / 1e3),
    ),
    ("machine_dirty", "bytes", Kind::Gauge, "Page cache not yet under writeback", |t| {
        some(t.machine.dirty_bytes)
    }),
    ("machine_writeback", "bytes", Kind::Gauge, "Page cache under writeback", |t| {
        some(t.machine.writeback_bytes)
    }),
    ("machine_hard_limit", "bytes", Kind::Gauge, "Above this every writer is stopped", |t| {
        some(t.machine.hard_limit_bytes)
    }),
    ("machine_background_limit", "bytes", Kind::Gauge, "Above this the flusher starts", |t| {
        some(t.machine.background_limit_bytes)
    }),
    (
        "machine_waited",
        "ratio",
        Kind::Gauge,
        "Share of the time in which a task waited for I/O",
        |t| Some(f64::from(t.machine.waited_percent?) / 100.0),
    ),
];

const OF_DEVICES: [Of<Device>; 13] = [
    ("device_backlog", "bytes", Kind::Gauge, "Dirty and under writeback", |d| {
        some(d.disk.as_ref()?.backlog_bytes)
    }),
    ("device_drain_rate", "bytes_per_second", Kind::Gauge, "How fast it drains", |d| {
        some(d.disk.as_ref()?.drain_bytes_per_s)
    }),
    ("device_drain", "seconds", Kind::Gauge, "How long its backlog takes at its drain rate", |d| {
        Some(d.disk.as_ref()?.drain_ms? as f64 / 1e3)
    }),
    (
        "device_hard_limit_drain",
        "seconds",
        Kind::Gauge,
        "How long the hard limit would take at its drain rate",
        |d| Some(d.disk.as_ref()?.hard_limit_ms? as f64 / 1e3),
    ),
    ("device_busy", "ratio", Kind::Gauge, "Share of the time with a request under way", |d| {
        Some(f64::from(d.disk.as_ref()?.busy_percent?) / 100.0)
    }),
    ("device_in_flight", "requests", Kind::Gauge, "Requests under way", |d| {
        some(d.disk.as_ref()?.in_flight)
    }),
    ("device_read", "bytes", Kind::Counter, "Bytes that it completed reading", |d| {
        some(d.read_bytes)
    }),
    ("device_written", "bytes", Kind::Counter, "Bytes that it completed writing", |d| {
        some(d.written_bytes)
    }),
    ("device_victims", "", Kind::Gauge, "Processes that wait too long for it", |d| {
        d.disk.as_ref().and(count(d.victims))
    }),
    ("device_floods", "", Kind::Gauge, "Processes that flood it", |d| {
        d.disk.as_ref().and(count(d.floods))
    }),
    ("device_stalled", "", Kind::Gauge, "1 while it is stalled", |d| {
        d.disk.as_ref().and(Some(flag(d.is_stalled)))
    }),
    ("stalls", "", Kind::Counter, "Stalls that are over", |d| count(d.stalls)),
    ("stalled", "seconds", Kind::Counter, "How long stalls took that are over", |d| {
        Some(d.stalled_ms as f64 / 1e3)
    }),
];

const OF_WORKLOADS: [OfWorkload; 8] = [
    ("workload_slowest_wait", "seconds", Kind::Gauge, "The slowest wait of the last minute", |w| {
        Some(w.slowest_us? as f64 / 1e6)
    }),
    ("workload_dirtied", "bytes", Kind::Counter, "Page cache that it dirtied", |w| {
        some(w.counts.dirtied_bytes)
    }),
    (
        "workload_throttled",
        "seconds",
        Kind::Counter,
        "Time that its threads slept because too much was dirty",
        |w| Some(w.counts.throttled_ms as f64 / 1e3),
    ),
    (
        "workload_backlog_share",
        "ratio",
        Kind::Gauge,
        "Estimated share of the device's backlog that it has dirtied",
        |w| Some(f64::from(w.now.as_ref()?.backlog_percent?) / 100.0),
    ),
    ("workload_victim", "", Kind::Gauge, "1 while it waits too long for the device", |w| {
        Some(flag(w.now.as_ref()?.is_victim))
    }),
    ("workload_flood", "", Kind::Gauge, "1 while it floods the device", |w| {
        Some(flag(w.now.as_ref()?.is_flood))
    }),
    (
        "stall_victim",
        "seconds",
        Kind::Counter,
        "Time that its threads waited in stalls that are over",
        |w| Some(w.counts.stalled_us as f64 / 1e6),
    ),
    ("stall_flood", "bytes", Kind::Counter, "What it dirtied in stalls that are over", |w| {
        count(w.counts.flooded_bytes)
    }),
];

/// Waits have one more label, the kind: commits and reads are different harm.
const KINDS: [(&str, OfKind); 2] =
    [("commit", |counts| &counts.commits), ("read", |counts| &counts.reads)];

type OfKind = fn(&Counts) -> &Waited;

impl Totals {
    /// All of it in OpenMetrics' text format, version 1.0. Unknown values have no sample.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        // Only a writer can fail, and a string does not.
        let _ = encode(&mut text, &registry(self));
        text
    }
}

fn registry(totals: &Totals) -> Registry {
    let mut root = Registry::default();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let info = [("version", version), ("source", totals.source.clone())];
    root.register(PREFIX, "Which recorder this is", Info::new(info.to_vec()));

    let all = root.sub_registry_with_prefix(PREFIX);
    for (name, unit, kind, help, value) in OF_RECORDER {
        let rows = value(totals).map(|value| (Labels::new(), value)).into_iter().collect();
        register(all, name, unit, help, Samples { kind, rows });
    }
    for (name, unit, kind, help, value) in OF_DEVICES {
        let row = |(name, device): (&String, &Device)| {
            Some((vec![("device", name.clone())], value(device)?))
        };
        let rows = totals.devices.iter().filter_map(row).collect();
        register(all, name, unit, help, Samples { kind, rows });
    }
    register(all, "device_guard_state", "", "1 for the guard's state for it", states(totals));
    let views: Vec<(Labels, View<'_>)> = totals
        .devices
        .iter()
        .flat_map(|(name, device)| {
            device.workloads.views(totals.elapsed_ms).map(|view| {
                let labels = vec![("device", name.clone()), ("workload", view.workload.to_owned())];
                (labels, view)
            })
        })
        .collect();
    for (name, unit, kind, help, value) in OF_WORKLOADS {
        let row = |(labels, view): &(Labels, View<'_>)| Some((labels.clone(), value(view)?));
        let rows = views.iter().filter_map(row).collect();
        register(all, name, unit, help, Samples { kind, rows });
    }
    waits(all, "workload_waits", "", "Waits that ended", &views, |waited| waited.count as f64);
    waits(all, "workload_wait", "seconds", "Time in waits that ended", &views, |waited| {
        waited.sum_us as f64 / 1e6
    });
    root
}

/// Samples of one metric, in the order of their labels.
#[derive(Debug)]
struct Samples {
    kind: Kind,
    rows: Vec<(Labels, f64)>,
}

impl EncodeMetric for Samples {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.rows {
            if labels.is_empty() {
                self.sample(&mut encoder, *value)?;
            } else {
                self.sample(&mut encoder.encode_family(labels)?, *value)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> Kind {
        self.kind
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Samples {
    fn sample(&self, encoder: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
        match self.kind {
            Kind::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            _ => encoder.encode_gauge(&value),
        }
    }
}

fn register(all: &mut Registry, name: &str, unit: &str, help: &str, samples: Samples) {
    match unit {
        "" => all.register(name, help, samples),
        unit => all.register_with_unit(name, help, Unit::Other(unit.to_owned()), samples),
    }
}

fn waits(
    all: &mut Registry,
    name: &str,
    unit: &str,
    help: &str,
    views: &[(Labels, View<'_>)],
    value: fn(&Waited) -> f64,
) {
    let mut rows = Vec::new();
    for (labels, view) in views {
        for (kind, of) in KINDS {
            let labels = [labels.clone(), vec![("kind", kind.to_owned())]].concat();
            rows.push((labels, value(of(view.counts))));
        }
    }
    register(all, name, unit, help, Samples { kind: Kind::Counter, rows });
}

fn states(totals: &Totals) -> Samples {
    let mut rows = Vec::new();
    for (name, device) in &totals.devices {
        for state in STATES.iter().filter(|_| device.guard.is_some()) {
            let labels = vec![("device", name.clone()), ("state", (*state).to_owned())];
            rows.push((labels, flag(device.guard.as_deref() == Some(state))));
        }
    }
    Samples { kind: Kind::Gauge, rows }
}

fn some(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn count(value: u64) -> Option<f64> {
    some(Some(value))
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}
