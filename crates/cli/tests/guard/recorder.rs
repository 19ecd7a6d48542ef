//! A recorder's metrics in a real Prometheus and a real node_exporter, and its rules in promtool.
//! The frames are made up: a database that waits, and a copy that floods, for ever.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use floodwall_daemon::{Listen, serve};
use floodwall_model::frame::{Disk, Frame, Guard, GuardedDisk, Machine, Process, Waits};
use floodwall_model::stall::{Flood, Stall, Victim};
use floodwall_model::workload::Workload;
use floodwall_record::metrics::{Limits, Totals};
use floodwall_record::textfile;
use floodwall_testing::process::run;
use serde_json::Value;

use crate::Test;
use crate::bed::{tied, until};
use crate::scraping::{Prometheus, free_port, packaging, start};

const RULES: &str = "prometheus/floodwall.rules.yml";
/// Every name needs an escape somewhere.
const COPY: &str = "cp \"a\" \\b";
const EVERY: Duration = Duration::from_millis(200);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "promtool accepts the recorder's rules, and they alert when they should",
        needs: &["promtool"],
        kernel: false,
        body: rules,
    },
    Test {
        name: "promtool finds nothing wrong with the recorder's metrics",
        needs: &["promtool"],
        kernel: false,
        body: lint,
    },
    Test {
        name: "Prometheus scrapes a recorder, and knows what its dashboard and its rules ask for",
        needs: &["prometheus", "curl"],
        kernel: false,
        body: scrape,
    },
    Test {
        name: "node_exporter passes a recorder's textfile on",
        needs: &["prometheus-node-exporter", "curl"],
        kernel: false,
        body: textfile_is_read,
    },
];

fn rules() -> Result<(), String> {
    let path = |file: &str| packaging(file).to_string_lossy().into_owned();
    let said = run("promtool", &["check", "rules", &path(RULES)])?;
    if !said.contains("SUCCESS: 6 rules found") {
        return Err(said);
    }
    let tests = path("prometheus/floodwall.rules.test.yml");
    let said = run("promtool", &["test", "rules", &tests])?;
    if said.contains("SUCCESS") { Ok(()) } else { Err(said) }
}

fn lint() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = dir.path().join("floodwall.prom");
    write(&file, &Arc::new(Mutex::new(full())))?;
    // It reads what is linted from its standard input, and names problems on stderr.
    let said = run("sh", &["-c", "promtool check metrics < \"$0\" 2>&1", &file.to_string_lossy()])?;
    if said.trim().is_empty() { Ok(()) } else { Err(said) }
}

fn scrape() -> Result<(), String> {
    let recorder = Recorder::start();
    let port = free_port()?;
    let listen = Listen::parse(&format!("127.0.0.1:{port}"), port)?;
    let totals = Arc::clone(&recorder.totals);
    let text = move || Some(totals.lock().ok()?.exposition());
    let _served = serve(&listen, text).map_err(|e| e.to_string())?;
    let prometheus = Prometheus::start(RULES, "floodwall-record", port)?;
    let url = format!("http://127.0.0.1:{port}/metrics");
    prometheus.knows(&run("curl", &["-sS", &url])?)?;
    prometheus.is("floodwall_workload_dirtied_bytes", "counter", "bytes")?;
    prometheus.is("floodwall_device_drain_seconds", "gauge", "seconds")?;
    prometheus.is("floodwall_stalls", "counter", "")?;
    let copy = format!("floodwall_workload_dirtied_bytes_total{{workload={COPY:?}}}");
    prometheus.finds(&copy)?;
    let asked = prometheus.fills("grafana/floodwall.json")?;
    if asked < 20 {
        return Err(format!("{asked} queries only"));
    }
    alerts(&prometheus)
}

/// Every rule can be evaluated, and the alert of a stall names its victim and its flood.
fn alerts(prometheus: &Prometheus) -> Result<(), String> {
    let told = prometheus.ask("rules", &[])?;
    let rules = told["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
    for rule in &rules {
        if rule["health"] != "ok" {
            return Err(format!("{rule}"));
        }
    }
    let summary = || -> Result<Value, String> {
        let all = prometheus.ask("alerts", &[])?;
        let alerts = all["alerts"].as_array().cloned().unwrap_or_default();
        let mut alerts = alerts.into_iter();
        let found = alerts.find(|alert| alert["labels"]["alertname"] == "FloodwallStalled");
        Ok(found.unwrap_or_default()["annotations"]["summary"].clone())
    };
    let expected = format!("is stalled: postgresql.service waits 3s, {COPY} floods it");
    until(&expected, || summary().is_ok_and(|said| said.to_string().contains(&escaped(&expected))))
        .map_err(|e| format!("{e}: {:?}", summary()))
}

/// A text as it stands inside JSON's quotes.
fn escaped(text: &str) -> String {
    Value::from(text).to_string().trim_matches('"').to_owned()
}

/// Each sample that Prometheus would be given is what node_exporter gives, for a counter as a
/// counter.
fn textfile_is_read() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let totals = Arc::new(Mutex::new(full()));
    write(&dir.path().join("floodwall.prom"), &totals)?;
    let port = free_port()?;
    let _exporter = start(
        tied("prometheus-node-exporter")
            .args(["--collector.disable-defaults", "--collector.textfile"])
            .arg(format!("--collector.textfile.directory={}", dir.path().display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}")),
    )?;
    let url = format!("http://127.0.0.1:{port}/metrics");
    let read = || run("curl", &["-sS", &url]);
    until("node_exporter answers", || read().is_ok())?;
    let text = read()?;
    let exposition = totals.lock().map_err(|e| e.to_string())?.exposition();
    let there = samples(&text);
    for (series, value) in samples(&exposition) {
        if there.get(&series) != Some(&value) {
            return Err(format!("{series} is {:?}, not {value}", there.get(&series)));
        }
    }
    for line in [
        "node_textfile_scrape_error 0",
        "# TYPE floodwall_workload_dirtied_bytes_total counter",
        "# TYPE floodwall_info gauge",
        "# HELP floodwall_stalls_total Stalls that are over.",
    ] {
        if !text.lines().any(|l| l == line) {
            return Err(format!("{line} is not in\n{text}"));
        }
    }
    Ok(())
}

fn write(path: &Path, totals: &Mutex<Totals>) -> Result<(), String> {
    let exposition = totals.lock().map_err(|e| e.to_string())?.exposition();
    textfile::write(path, &exposition).map_err(|e| e.to_string())?;
    // node_exporter is another user.
    let read = fs::metadata(path).map_err(|e| e.to_string())?;
    if read.len() > 0 { Ok(()) } else { Err("nothing is written".into()) }
}

/// The recorder's series and their values. Labels are put in an order, because node_exporter has
/// its own.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| line.starts_with("floodwall_"));
    lines
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let mut labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
            labels.sort_unstable();
            Some((format!("{name} {labels:?}"), value.parse().ok()?))
        })
        .collect()
}

/// Totals in which every metric has a value.
fn full() -> Totals {
    let mut totals = Totals::new(Limits::default());
    totals.frame(&frame());
    totals.stall_began(&stall("sda"));
    totals.stall_ended(&stall("sdb"));
    totals
}

/// Totals that go on; a stall of `sda` that does not end, and others of `sdb` that do.
struct Recorder {
    totals: Arc<Mutex<Totals>>,
    stop: Arc<AtomicBool>,
}

impl Recorder {
    fn start() -> Self {
        let recorder = Self { totals: Arc::new(Mutex::new(full())), stop: Arc::default() };
        let (totals, stop) = (Arc::clone(&recorder.totals), Arc::clone(&recorder.stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(mut totals) = totals.lock() {
                    totals.frame(&frame());
                    totals.frames_lost(1);
                    totals.stall_ended(&stall("sdb"));
                }
                thread::sleep(EVERY);
            }
        });
        recorder
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn database() -> Workload {
    Workload { unit: Some("postgresql.service".into()), ..Workload::default() }
}

fn frame() -> Frame {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let disk = |name: &str| Disk {
        name: name.into(),
        backlog_bytes: Some(4_000_000_000),
        drain_bytes_per_s: Some(100_000_000),
        drain_ms: Some(40_000),
        hard_limit_ms: Some(48_000),
        busy_percent: Some(100.0),
        in_flight: Some(32),
        read_bytes_per_s: Some(1_000),
        written_bytes_per_s: Some(100_000_000),
        ..Disk::default()
    };
    let waits = Waits { call: "fsync".into(), count: 1, sum_us: 3_000_000, ..Waits::default() };
    let victim = Process {
        pid: 41,
        name: "postgres".into(),
        workload: database(),
        disk: Some("sda".into()),
        is_victim: true,
        waits: vec![waits],
        oldest_us: 3_000_000,
        ..Process::default()
    };
    let flood = Process {
        pid: 42,
        name: COPY.into(),
        disk: Some("sda".into()),
        is_flood: true,
        dirtied_bytes: Some(100_000_000),
        throttled_ms: 150,
        backlog_percent: Some(75.0),
        ..Process::default()
    };
    let bytes = Some(8_000_000_000);
    Frame {
        at_unix_ms: u64::try_from(now.as_millis()).unwrap_or(0),
        window_ms: u64::try_from(EVERY.as_millis()).unwrap_or(0),
        source: "bpf".into(),
        machine: Machine {
            dirty_bytes: bytes,
            writeback_bytes: bytes,
            hard_limit_bytes: bytes,
            background_limit_bytes: bytes,
            waited_percent: Some(80.0),
            ..Machine::default()
        },
        disks: vec![disk("sda"), disk("sdb")],
        processes: vec![victim, flood],
        guard: Some(Guard {
            disks: vec![GuardedDisk {
                name: "sda".into(),
                state: "pace".into(),
                ..GuardedDisk::default()
            }],
            ..Guard::default()
        }),
        lost_events: 1,
        ..Frame::default()
    }
}

fn stall(disk: &str) -> Stall {
    let victim =
        Victim { pid: 41, workload: database(), waited_us: 3_000_000, ..Victim::default() };
    let flood = Flood { pid: 42, name: COPY.into(), dirtied_bytes: 1_000_000, ..Flood::default() };
    Stall {
        began_unix_ms: 0,
        ended_unix_ms: 3_000,
        disk: disk.into(),
        victims: vec![victim],
        floods: vec![flood],
        ..Stall::default()
    }
}
