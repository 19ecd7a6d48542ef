//! The metrics in a real Prometheus, and what promtool says of the rules.

use floodwall_testing::process::run;

use crate::Test;
use crate::bed::{FLOODWALL, tied};
use crate::scraping::{Prometheus, free_port, packaging, start};

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

fn rules() -> Result<(), String> {
    let file = packaging("prometheus/floodwall-guard.rules.yml");
    let said = run("promtool", &["check", "rules", &file.to_string_lossy()])?;
    if said.contains("SUCCESS: 7 rules found") { Ok(()) } else { Err(said) }
}

fn scrape() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let port = free_port()?;
    let metrics = format!("127.0.0.1:{port}");
    let _guard = start(
        tied(FLOODWALL)
            .args(["guard", "--sim", "hdd-7200", "--metrics", &metrics, "--socket"])
            .arg(dir.path().join("guard.sock")),
    )?;
    let prometheus =
        Prometheus::start("prometheus/floodwall-guard.rules.yml", "floodwall-guard", port)?;
    // The database and the copy meet after ten seconds; then everything is known.
    prometheus.finds("floodwall_guard_pressure_ratio")?;
    prometheus.finds("floodwall_guard_state{state=~\"protect|probe\"} == 1")?;
    // These begin once there is a backlog.
    for family in [
        "drain_rate_bytes_per_second",
        "base_latency_seconds",
        "queue_delay_seconds",
        "tick_duration_seconds_bucket",
    ] {
        prometheus.finds(&format!("floodwall_guard_{family}"))?;
    }
    prometheus.knows(&run("curl", &["-sS", &format!("http://{metrics}/metrics")])?)?;
    prometheus.is("floodwall_guard_knob_writes", "counter", "")?;
    prometheus.is("floodwall_guard_goal_seconds", "gauge", "seconds")?;
    prometheus.is("floodwall_guard_tick_duration_seconds", "histogram", "seconds")?;
    match prometheus.fills("grafana/floodwall-guard.json")? {
        asked if asked > 10 => Ok(()),
        asked => Err(format!("{asked} queries only")),
    }
}
