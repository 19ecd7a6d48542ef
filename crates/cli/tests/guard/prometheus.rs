//! The metrics in a real Prometheus, and what promtool says of the rules.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use floodwall_testing::process::run;
use serde_json::Value;

use crate::Test;
use crate::bed::{FLOODWALL, kill, tied, until};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "promtool accepts the alert rules",
        needs: &["promtool"],
        kernel: false,
        body: rules,
    },
    Test {
        name: "Prometheus scrapes the guard, and knows what the dashboard and the rules ask for",
        needs: &["prometheus", "curl"],
        kernel: false,
        body: scrape,
    },
];

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

fn rules() -> Result<(), String> {
    let file = packaging("prometheus/floodwall-guard.rules.yml");
    let said = run("promtool", &["check", "rules", &file.to_string_lossy()])?;
    if said.contains("SUCCESS: 7 rules found") { Ok(()) } else { Err(said) }
}

/// Killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(rustix::process::Pid::from_child(&self.0), rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Result<Running, String> {
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.map(Running).map_err(|e| e.to_string())
}

fn free_port() -> Result<u16, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .map(|a| a.port())
        .map_err(|e| e.to_string())
}

fn scrape() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (metrics, web) = (free_port()?, free_port()?);
    let _guard = start(
        tied(FLOODWALL)
            .args([
                "guard",
                "--sim",
                "hdd-7200",
                "--metrics",
                &format!("127.0.0.1:{metrics}"),
                "--socket",
            ])
            .arg(dir.path().join("guard.sock")),
    )?;
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
         scrape_configs:\n  - job_name: floodwall-guard\n    static_configs: \
         [{{targets: ['127.0.0.1:{metrics}']}}]\n",
        packaging("prometheus/floodwall-guard.rules.yml")
            .canonicalize()
            .map_err(|e| e.to_string())?
            .display()
    );
    let file = dir.path().join("prometheus.yml");
    fs::write(&file, config).map_err(|e| e.to_string())?;
    let _prometheus = start(
        tied("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{web}")),
    )?;
    let query = |expression: &str| -> Result<Vec<Value>, String> {
        let url = format!("http://127.0.0.1:{web}/api/v1/query");
        let text = run(
            "curl",
            &["-sS", "--get", "--data-urlencode", &format!("query={expression}"), &url],
        )?;
        let answer: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        if answer["status"] != "success" {
            return Err(format!("{expression}: {answer}"));
        }
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    };
    // The database and the copy meet after ten seconds; then everything is known.
    until("the guard's target is up", || {
        query("up").is_ok_and(|found| found.iter().any(|one| one["value"][1] == "1"))
    })?;
    until("pressure is known", || {
        query("floodwall_guard_pressure_ratio").is_ok_and(|found| !found.is_empty())
    })?;
    until("it protects", || {
        query("floodwall_guard_state{state=~\"protect|probe\"} == 1")
            .is_ok_and(|found| !found.is_empty())
    })?;
    // Prometheus has no series for a metric that it dropped or took for another type. These begin
    // once there is a backlog.
    for family in [
        "drain_rate_bytes_per_second",
        "base_latency_seconds",
        "queue_delay_seconds",
        "tick_duration_seconds_bucket",
    ] {
        until(family, || {
            query(&format!("floodwall_guard_{family}")).is_ok_and(|found| !found.is_empty())
        })?;
    }
    let text = run("curl", &["-sS", &format!("http://127.0.0.1:{metrics}/metrics")])?;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        // A figure that is unknown at a scrape has no sample then.
        until(name, || query(name).is_ok_and(|found| !found.is_empty()))?;
    }
    let types = format!("http://127.0.0.1:{web}/api/v1/metadata");
    let known: Value =
        serde_json::from_str(&run("curl", &["-sS", &types])?).map_err(|e| e.to_string())?;
    for (name, kind, unit) in [
        ("floodwall_guard_knob_writes", "counter", ""),
        ("floodwall_guard_goal_seconds", "gauge", "seconds"),
        ("floodwall_guard_tick_duration_seconds", "histogram", "seconds"),
    ] {
        let total = format!("{name}_total");
        let told = [name, &total]
            .iter()
            .find_map(|n| known["data"][n].get(0))
            .cloned()
            .unwrap_or_default();
        if told["type"] != kind || told["unit"] != unit {
            return Err(format!("{name}: {told}"));
        }
    }
    dashboard(&query)
}

/// Every query of the dashboard is one, and those that need no passing of time find something.
fn dashboard(query: &dyn Fn(&str) -> Result<Vec<Value>, String>) -> Result<(), String> {
    let text =
        fs::read_to_string(packaging("grafana/floodwall-guard.json")).map_err(|e| e.to_string())?;
    let document: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let mut asked = 0;
    for panel in document["panels"].as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap_or_default();
            let expression = expression.replace("$instance", ".*").replace("$device", ".*");
            let what = format!("{}: {expression} finds something", panel["title"]);
            until(&what, || query(&expression).is_ok_and(|found| !found.is_empty()))?;
            asked += 1;
        }
    }
    if asked > 10 { Ok(()) } else { Err(format!("{asked} queries only")) }
}
