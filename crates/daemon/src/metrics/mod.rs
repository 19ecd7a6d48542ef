//! A guard's status in the OpenMetrics text format, by the crate `prometheus-client`. An unknown
//! value has no sample; zero is a measurement.

pub(crate) mod http;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::document::{Device, Status, TICK_BUCKETS_S, Ticks};
use crate::question::{Answer, Ask, Question, ask};

/// Before every name.
const PREFIX: &str = "floodwall_guard";
const STATES: [&str; 6] = ["free", "watch", "pace", "protect", "probe", "recover"];

/// Labels of a sample: the device, and its state.
type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// A gauge of every device: its name, its unit, its help, and its value.
type OfDevice = (&'static str, &'static str, &'static str, fn(&Device) -> Option<f64>);

const OF_DEVICES: [OfDevice; 13] = [
    ("queue_level", "", "How far the queue is shortened; 0: as the administrator has it", |d| {
        Some(f64::from(d.queue_level))
    }),
    (
        "limit_level",
        "",
        "How far the dirty limit is lowered; 0: as the administrator has it",
        |d| Some(f64::from(d.limit_level)),
    ),
    (
        "pressure",
        "ratio",
        "What victims wait for as a share of the goal; above 1 they are harmed",
        |d| d.pressure,
    ),
    ("goal", "seconds", "What victims may wait for", |d| Some(d.goal_us / 1e6)),
    ("goal_unmet", "", "1 if nothing that the guard can do meets the goal", |d| {
        Some(flag(d.goal_unmet))
    }),
    ("base_latency", "seconds", "What victims wait for while nothing floods", |d| {
        d.base_us.map(|us| us / 1e6)
    }),
    ("drain_rate", "bytes_per_second", "How fast the device drains", |d| d.drain_bytes_per_s),
    ("backlog", "bytes", "Dirty and under writeback", |d| {
        d.backlog_bytes.map(|bytes| bytes as f64)
    }),
    ("queue_delay", "seconds", "How long the device takes for the writes in its queue", |d| {
        d.queue_delay_us.map(|us| us / 1e6)
    }),
    ("victims", "", "Processes that wait for the device", |d| Some(d.victims.len() as f64)),
    ("floods", "", "Processes that flood the device", |d| Some(d.floods.len() as f64)),
    ("held_knobs", "", "Knobs that are not as the administrator has them", |d| {
        Some(d.held.len() as f64)
    }),
    ("state_since", "seconds", "For how long the state has been what it is", |d| Some(d.since_s)),
];

fn labels(device: &Device) -> Labels {
    vec![("device", device.name.clone())]
}

fn counters(devices: &[Device], value: fn(&Device) -> u64) -> Family<Labels, Counter> {
    let counters = Family::<Labels, Counter>::default();
    for device in devices {
        counters.get_or_create(&labels(device)).inc_by(value(device));
    }
    counters
}

/// Asks a guard's loop for its exposition.
pub(crate) fn of_guard(asks: Sender<Ask>) -> impl Fn() -> Option<String> + Clone + Send {
    move || match ask(Question::Metrics, &asks) {
        Some(Answer::Text(text)) => Some(text),
        _ => None,
    }
}

/// The whole exposition.
pub(crate) fn exposition(status: &Status) -> String {
    let mut root = Registry::default();
    let info = [("version", status.version.clone()), ("source", status.source.clone())];
    root.register(PREFIX, "Which guard this is", Info::new(info.to_vec()));

    let all = root.sub_registry_with_prefix(PREFIX);
    all.register_with_unit(
        "uptime",
        "Since the guard was started",
        Unit::Seconds,
        ConstGauge::new(status.uptime_s),
    );
    all.register(
        "paused",
        "1 while it is paused",
        ConstGauge::new(u32::from(status.paused.is_some())),
    );
    all.register("dry_run", "1 if it writes nothing", ConstGauge::new(u32::from(status.dry_run)));
    all.register(
        "restarts",
        "How often its worker died and was started again",
        ConstCounter::new(status.restarts),
    );
    all.register(
        "probe_lost_events",
        "Events of the kernel that the probe had no room for",
        ConstCounter::new(status.counts.lost_events),
    );
    all.register(
        "left_alone_knobs",
        "Knobs that could not be written, or that another program writes",
        ConstGauge::new(status.left_alone.len()),
    );
    all.register_with_unit(
        "tick_duration",
        "How long looking, deciding and writing took",
        Unit::Seconds,
        status.counts.ticks.clone(),
    );

    let states = Gauges::default();
    for device in &status.devices {
        for state in STATES {
            let labels = [labels(device), vec![("state", state.to_owned())]].concat();
            states.get_or_create(&labels).set(flag(device.state == state));
        }
    }
    all.register("state", "1 for the state that a device is in", states);
    for (name, unit, help, value) in OF_DEVICES {
        let gauges = Gauges::default();
        for device in &status.devices {
            if let Some(value) = value(device) {
                gauges.get_or_create(&labels(device)).set(value);
            }
        }
        match unit {
            "" => all.register(name, help, gauges),
            unit => all.register_with_unit(name, help, Unit::Other(unit.to_owned()), gauges),
        }
    }
    let decisions = counters(&status.devices, |d| d.decisions);
    all.register("decisions", "Changes of state and level", decisions);
    let writes = "Writes to kernel files, or in a dry run those that would have been made";
    all.register("knob_writes", writes, counters(&status.devices, |d| d.knob_writes));

    let mut text = String::new();
    // Only a writer can fail, and a string does not.
    let _ = encode(&mut text, &root);
    text
}

impl EncodeMetric for Ticks {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = TICK_BUCKETS_S.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        encoder.encode_histogram::<NoLabelSet>(self.sum_s, self.count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::document::Paused;

    /// The names that samples have, without labels.
    fn sample_names(exposition: &str) -> BTreeSet<String> {
        let samples = exposition.lines().filter(|l| !l.starts_with('#'));
        samples.filter_map(|l| l.split(['{', ' ']).next()).map(str::to_owned).collect()
    }

    fn status() -> Status {
        let known = Device {
            name: "sda".into(),
            state: "protect".into(),
            queue_level: 4,
            goal_us: 20_000.0,
            pressure: Some(0.5),
            base_us: Some(5_000.0),
            drain_bytes_per_s: Some(1e8),
            backlog_bytes: Some(0),
            queue_delay_us: Some(7_000.0),
            victims: vec!["postgres (41)".into()],
            knob_writes: 3,
            ..Device::default()
        };
        let strange = Device { name: "a\"b\\c".into(), state: "free".into(), ..Device::default() };
        let mut status = Status {
            version: "1".into(),
            source: "perf".into(),
            paused: Some(Paused::default()),
            devices: vec![known, strange],
            ..Status::default()
        };
        let mut ticks = Ticks::default();
        [0.000_05, 0.002, 5.0].into_iter().for_each(|s| ticks.add(s));
        status.counts.ticks = ticks;
        status
    }

    #[test]
    fn what_is_known_is_exposed_and_what_is_not_is_absent() {
        let text = exposition(&status());
        for line in [
            "floodwall_guard_info{version=\"1\",source=\"perf\"} 1",
            "# TYPE floodwall_guard info",
            "floodwall_guard_paused 1",
            "floodwall_guard_state{device=\"sda\",state=\"protect\"} 1.0",
            "floodwall_guard_state{device=\"sda\",state=\"free\"} 0.0",
            "floodwall_guard_pressure_ratio{device=\"sda\"} 0.5",
            "floodwall_guard_goal_seconds{device=\"sda\"} 0.02",
            "floodwall_guard_knob_writes_total{device=\"sda\"} 3",
            "floodwall_guard_knob_writes_total{device=\"a\\\"b\\\\c\"} 0",
            "floodwall_guard_victims{device=\"sda\"} 1.0",
            "floodwall_guard_tick_duration_seconds_bucket{le=\"0.0001\"} 1",
            "floodwall_guard_tick_duration_seconds_bucket{le=\"0.003\"} 2",
            "floodwall_guard_tick_duration_seconds_bucket{le=\"1.0\"} 2",
            "floodwall_guard_tick_duration_seconds_bucket{le=\"+Inf\"} 3",
            "floodwall_guard_tick_duration_seconds_count 3",
            "# UNIT floodwall_guard_goal_seconds seconds",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("pressure_ratio{device=\"a"), "{text}");
        assert!(text.ends_with("\n# EOF\n"));
        // One type a family, before its samples, and none twice.
        let types: Vec<&str> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
        assert_eq!(types.iter().collect::<BTreeSet<_>>().len(), types.len());
    }

    /// The names of metrics in a text.
    fn used(text: &str) -> BTreeSet<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.split(|c| !is_name(c)).filter(|w| w.starts_with(PREFIX)).map(str::to_owned).collect()
    }

    #[test]
    fn dashboard_and_rules_name_only_metrics_that_there_are() {
        let there = sample_names(&exposition(&status()));
        for file in ["grafana/floodwall-guard.json", "prometheus/floodwall-guard.rules.yml"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file);
            let used = used(&std::fs::read_to_string(path).unwrap());
            assert!(used.len() > 3, "{file} uses {used:?}");
            let missing: Vec<_> = used.difference(&there).collect();
            assert!(missing.is_empty(), "{file} uses {missing:?}");
        }
    }

    #[test]
    fn the_documented_metrics_are_those_that_there_are() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guard.md");
        let documented = used(&std::fs::read_to_string(path).unwrap());
        let there = sample_names(&exposition(&status()));
        let histogram = format!("{PREFIX}_tick_duration_seconds");
        let there: BTreeSet<String> = there
            .into_iter()
            .map(|name| if name.starts_with(&histogram) { histogram.clone() } else { name })
            .collect();
        assert_eq!(documented, there);
    }
}
