//! A real stall of a lab device: recorded, scraped, alerted, and told to a command.
//!
//! ```text
//! lab device ─ two loads ──▶ floodwall record ─┬▶ HTTP ─▶ Prometheus ─▶ FloodwallStalled
//!                                                ├▶ textfile
//!                                                └▶ --exec: a file of events
//! ```

use std::fs;
use std::path::PathBuf;

use floodwall_model::stall::Stall;
use serde_json::Value;

use crate::Test;
use crate::bed::{Device, FLOODWALL, tied, until};
use crate::load::Load;
use crate::scraping::{Prometheus, Running, free_port, start};

const RULES: &str = "prometheus/floodwall.rules.yml";
/// Each event as a line of JSON.
const NOTE: &str = "printf '%s %s ' \"$FLOODWALL_EVENT\" \"$FLOODWALL_DISK\"; cat";
/// The name of the process that floods.
const COPY: &str = "copy";

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "Prometheus scrapes floodwall record",
        needs: &["prometheus", "curl"],
        kernel: false,
        body: recorder_is_scraped,
    },
    Test {
        name: "a stall is alerted and told to a command, with who waits and who floods",
        needs: &["prometheus", "curl"],
        kernel: true,
        body: stall_is_told,
    },
];

/// `floodwall record`, which ends when it is dropped.
struct Recorder {
    _process: Running,
    dir: tempfile::TempDir,
    port: u16,
}

impl Recorder {
    fn start() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let port = free_port()?;
        let path = |name: &str| dir.path().join(name);
        let mut command = tied(FLOODWALL);
        command.args(["record", "--interval", "1s", "--metrics", &format!("127.0.0.1:{port}")]);
        command.arg("--dir").arg(path("recording")).arg("--textfile").arg(path("floodwall.prom"));
        let note = format!("({NOTE}) >> '{}'", path("events").display());
        let process = start(command.arg("--exec").arg(note))?;
        Ok(Self { _process: process, dir, port })
    }

    fn prometheus(&self) -> Result<Prometheus, String> {
        Prometheus::start(RULES, "floodwall-record", self.port)
    }

    fn textfile(&self) -> PathBuf {
        self.dir.path().join("floodwall.prom")
    }

    /// The stall of an event of a device, once the command has been run for it.
    fn event(&self, event: &str, device: &str) -> Result<Stall, String> {
        let start = format!("{event} {device} ");
        let read = || {
            let text = fs::read_to_string(self.dir.path().join("events")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
            serde_json::from_str(line).ok()
        };
        until(&format!("the command is run for: {start}"), || read().is_some())?;
        read().ok_or_else(|| "the events are gone".to_owned())
    }
}

fn recorder_is_scraped() -> Result<(), String> {
    let recorder = Recorder::start()?;
    let prometheus = recorder.prometheus()?;
    prometheus.finds("floodwall_frames_total > 2")?;
    prometheus.finds("abs(time() - floodwall_last_frame_timestamp_seconds) < 60")?;
    prometheus.finds("floodwall_machine_dirty_bytes")?;
    let text = || fs::read_to_string(recorder.textfile()).unwrap_or_default();
    until("the textfile has a frame", || text().contains("\nfloodwall_last_frame_timestamp"))
}

fn stall_is_told() -> Result<(), String> {
    let device = Device::up("hdd-7200")?;
    let recorder = Recorder::start()?;
    let prometheus = recorder.prometheus()?;
    let labels = format!("device={:?}", device.name);
    let _victim = Load::start("victim", &device.directory)?;
    prometheus.finds(&format!("floodwall_workload_slowest_wait_seconds{{{labels}}}"))?;
    let copy = recorder.dir.path().join(COPY);
    let us = std::env::current_exe().map_err(|e| e.to_string())?;
    std::os::unix::fs::symlink(us, &copy).map_err(|e| e.to_string())?;
    let flood = Load::start_as(&copy, "flood", &device.directory)?;
    let began = recorder.event("began", &device.name)?;
    prometheus.finds(&format!("floodwall_device_stalled{{{labels}}} == 1"))?;
    let author = began.floods.first().ok_or_else(|| format!("nothing floods: {began:?}"))?;
    if author.name != COPY {
        return Err(format!("{} floods", author.name));
    }
    let author = author.workload.label().unwrap_or_else(|| author.name.clone());
    let victim = began.victims.first().ok_or("nothing waits")?;
    let victim = victim.workload.label().unwrap_or_else(|| victim.name.clone());
    let summary = || -> Option<String> {
        let told = prometheus.ask("alerts", &[]).ok()?;
        let of_device = |alert: &&Value| {
            alert["labels"]["alertname"] == "FloodwallStalled"
                && alert["labels"]["device"] == device.name.as_str()
        };
        let alert = told["alerts"].as_array()?.iter().find(of_device)?;
        alert["annotations"]["summary"].as_str().map(str::to_owned)
    };
    until("the alert names both", || {
        summary().is_some_and(|said| {
            said.contains(&format!("stalled: {victim} waits"))
                && said.contains(&format!(", {author} floods it"))
        })
    })
    .map_err(|e| format!("{e}: {victim}, {author}: {:?}", summary()))?;
    drop(flood);
    let ended = recorder.event("ended", &device.name)?;
    if ended.lasted_ms() < began.lasted_ms() {
        return Err(format!("it lasted {} ms, {} ms before", ended.lasted_ms(), began.lasted_ms()));
    }
    prometheus.finds(&format!("floodwall_stalls_total{{{labels}}} > 0"))?;
    prometheus.finds(&format!("floodwall_stall_flood_bytes_total{{{labels}}} > 0"))?;
    prometheus.finds(&format!("floodwall_stall_victim_seconds_total{{{labels}}} > 0"))
}
