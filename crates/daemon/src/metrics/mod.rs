//! A guard's status in the OpenMetrics text format (OpenMetrics 1.0, "Text format"). An
//! unknown value has no sample; zero is a measurement.

pub(crate) mod http;

use std::fmt::Write;

use crate::document::{Device, Status, TICK_BUCKETS_S};

/// Before every name.
const PREFIX: &str = "floodwall_guard_";
const STATES: [&str; 6] = ["free", "watch", "pace", "protect", "probe", "recover"];

/// One metric of every device.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&Device) -> Option<f64>,
}

const fn gauge(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&Device) -> Option<f64>,
) -> Family {
    Family { name, kind: "gauge", unit, help, value }
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Device) -> Option<f64>) -> Family {
    Family { name, kind: "counter", unit: "", help, value }
}

const FAMILIES: [Family; 15] = [
    gauge("queue_level", "", "How far the queue is shortened; 0: as the administrator has it", |d| {
        Some(f64::from(d.queue_level))
    }),
    gauge("limit_level", "", "How far the dirty limit is lowered; 0: as the administrator has it", |d| {
        Some(f64::from(d.limit_level))
    }),
    gauge(
        "pressure_ratio",
        "ratio",
        "What victims wait for as a share of the goal; above 1 they are harmed",
        |d| d.pressure,
    ),
    gauge("goal_seconds", "seconds", "What victims may wait for", |d| Some(d.goal_us / 1e6)),
    gauge("goal_unmet", "", "1 if nothing that the guard can do meets the goal", |d| {
        Some(f64::from(u8::from(d.goal_unmet)))
    }),
    gauge("base_latency_seconds", "seconds", "What victims wait for while nothing floods", |d| {
        d.base_us.map(|us| us / 1e6)
    }),
    gauge("drain_rate_bytes_per_second", "bytes_per_second", "How fast the device drains", |d| {
        d.drain_bytes_per_s
    }),
    gauge("backlog_bytes", "bytes", "Dirty and under writeback", |d| Some(d.backlog_bytes as f64)),
    gauge("queue_delay_seconds", "seconds", "How long the device takes for the writes in its queue", |d| {
        d.queue_delay_us.map(|us| us / 1e6)
    }),
    gauge("victims", "", "Processes that wait for the device", |d| Some(d.victims.len() as f64)),
    gauge("floods", "", "Processes that flood the device", |d| Some(d.floods.len() as f64)),
    gauge(
        "held_knobs",
        "",
        "Knobs that are not as the administrator has them",
        |d| Some(d.held.len() as f64),
    ),
    gauge("state_since_seconds", "seconds", "For how long the state has been what it is", |d| {
        Some(d.since_s)
    }),
    counter("decisions", "Changes of state and level", |d| Some(d.decisions as f64)),
    counter("knob_writes", "Writes to kernel files, or in a dry run those that would have been made", |d| {
        Some(d.knob_writes as f64)
    }),
];

/// The names that samples have, without labels.
#[cfg(test)]
pub(crate) fn sample_names(exposition: &str) -> std::collections::BTreeSet<String> {
    let samples = exposition.lines().filter(|l| !l.starts_with('#'));
    samples.filter_map(|l| l.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// The whole exposition.
pub(crate) fn exposition(status: &Status) -> String {
    let mut out = String::new();
    let labels = format!("{{version=\"{}\",source=\"{}\"}}", escape(&status.version), escape(&status.source));
    head(&mut out, "", "info", "", "Which guard this is");
    sample(&mut out, "info", &labels, 1.0);
    let whole = |out: &mut String, name: &str, unit: &str, help: &str, value: f64| {
        head(out, name, "gauge", unit, help);
        sample(out, name, "", value);
    };
    whole(&mut out, "uptime_seconds", "seconds", "Since the guard was started", status.uptime_s);
    whole(&mut out, "paused", "", "1 while it is paused", flag(status.paused.is_some()));
    whole(&mut out, "dry_run", "", "1 if it writes nothing", flag(status.dry_run));
    let total = |out: &mut String, name: &str, help: &str, value: u64| {
        head(out, name, "counter", "", help);
        sample(out, &format!("{name}_total"), "", value as f64);
    };
    total(
        &mut out,
        "restarts",
        "How often its worker died and was started again",
        u64::from(status.restarts),
    );
    total(
        &mut out,
        "probe_lost_events",
        "Events of the kernel that the probe had no room for",
        status.counts.lost_events,
    );
    ticks(&mut out, status);

    head(
        &mut out,
        "left_alone_knobs",
        "gauge",
        "",
        "Knobs that could not be written, or that somebody else writes",
    );
    sample(&mut out, "left_alone_knobs", "", status.left_alone.len() as f64);
    head(&mut out, "state", "gauge", "", "1 for the state that a device is in");
    for device in &status.devices {
        for state in STATES {
            let labels = format!("{{device=\"{}\",state=\"{state}\"}}", escape(&device.name));
            sample(&mut out, "state", &labels, flag(device.state == state));
        }
    }
    for family in FAMILIES {
        head(&mut out, family.name, family.kind, family.unit, family.help);
        let name =
            if family.kind == "counter" { format!("{}_total", family.name) } else { family.name.to_owned() };
        for device in &status.devices {
            if let Some(value) = (family.value)(device) {
                sample(&mut out, &name, &format!("{{device=\"{}\"}}", escape(&device.name)), value);
            }
        }
    }
    out.push_str("# EOF\n");
    out
}

fn ticks(out: &mut String, status: &Status) {
    let ticks = &status.counts.ticks;
    let name = "tick_duration_seconds";
    head(out, name, "histogram", "seconds", "How long looking, deciding and writing took");
    let mut sum = 0;
    let bounds = TICK_BUCKETS_S.iter().map(|b| format!("{b:?}")).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(ticks.buckets) {
        sum += count;
        sample(out, &format!("{name}_bucket"), &format!("{{le=\"{bound}\"}}"), sum as f64);
    }
    sample(out, &format!("{name}_sum"), "", ticks.sum_s);
    sample(out, &format!("{name}_count"), "", ticks.count as f64);
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn head(out: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let name = format!("{PREFIX}{name}");
    let name = name.trim_end_matches('_');
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
}

fn sample(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{PREFIX}{name}{labels} {value}");
}

/// A label's value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::document::{Paused, Ticks};

    fn status() -> Status {
        let known = Device {
            name: "sda".into(),
            state: "protect".into(),
            queue_level: 4,
            goal_us: 20_000.0,
            pressure: Some(0.5),
            base_us: Some(5_000.0),
            drain_bytes_per_s: Some(1e8),
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
            "floodwall_guard_state{device=\"sda\",state=\"protect\"} 1",
            "floodwall_guard_state{device=\"sda\",state=\"free\"} 0",
            "floodwall_guard_pressure_ratio{device=\"sda\"} 0.5",
            "floodwall_guard_goal_seconds{device=\"sda\"} 0.02",
            "floodwall_guard_knob_writes_total{device=\"sda\"} 3",
            "floodwall_guard_knob_writes_total{device=\"a\\\"b\\\\c\"} 0",
            "floodwall_guard_victims{device=\"sda\"} 1",
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
        let histogram = format!("{PREFIX}tick_duration_seconds");
        let there: BTreeSet<String> = there
            .into_iter()
            .map(|name| if name.starts_with(&histogram) { histogram.clone() } else { name })
            .collect();
        assert_eq!(documented, there);
    }
}
