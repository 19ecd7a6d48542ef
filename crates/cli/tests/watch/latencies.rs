//! Latencies by process and disk against those that fio measured itself.

use std::io::{self, Write};
use std::process::Command;

use floodwall_model::frame::Frame;
use floodwall_testing::disk::Disk;
use floodwall_testing::process::done;
use floodwall_testing::{ROOT, ensure, said};
use serde_json::Value;

use crate::Test;
use crate::recorder::Recorder;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a process's commits took as long as fio says",
    needs: &[ROOT, floodwall_testing::LOOP, "fio", "mkfs.ext4"],
    body: commits,
}];

/// How far a mean or a median may be off.
const TOLERANCE: f64 = 0.05;
/// What a system call takes besides, as fio's clock sees it: its own calls, and the tracepoint.
const CALL_US: f64 = 10.0;
/// Rounds: one figure is an accident.
const ROUNDS: usize = 3;

fn commits() -> Result<(), String> {
    let disk = Disk::new("ext4", 512)?;
    let mut lines = Vec::new();
    for round in 0..ROUNDS {
        // One window holds the whole run.
        let recorder = Recorder::start("8s")?;
        let mut fio = Command::new("fio");
        fio.args(["--name=commits", "--rw=write", "--bs=4k", "--size=64m", "--fdatasync=1"])
            .args(["--time_based", "--runtime=5", "--rate_iops=200", "--fallocate=none"])
            .args(["--ioengine=psync", "--output-format=json", "--disk_util=0"])
            .arg(format!("--directory={}", disk.path().display()));
        let report = done(&mut fio)?;
        let frames = recorder.after(1)?;
        let report: Value = serde_json::from_str(&report).map_err(said("fio's report"))?;
        let sync = &report["jobs"][0]["sync"];
        let fio_us = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e3;
        let told = waits(&frames, disk.device.name());
        let pairs = [
            ("count", told.0, sync["lat_ns"]["N"].as_f64().unwrap_or(0.0), 1.0),
            ("mean", told.1, fio_us(&sync["lat_ns"]["mean"]), CALL_US),
            ("p50", told.2, fio_us(&sync["lat_ns"]["percentile"]["50.000000"]), CALL_US),
            ("p99", told.3, fio_us(&sync["lat_ns"]["percentile"]["99.000000"]), CALL_US),
        ];
        for (what, told, fio, slack) in pairs {
            lines.push(format!("round {round}: {what} {told:.0}, fio {fio:.0}"));
            let is_near = (told - fio).abs() <= TOLERANCE * fio + slack;
            ensure(is_near, || format!("{what}\n{}", lines.join("\n")))?;
        }
    }
    writeln!(io::stdout(), "{}", lines.join("\n")).map_err(said("stdout"))
}

/// Count, mean, p50 and p99 in microseconds of the window with most of fio's commits.
fn waits(frames: &[Frame], disk: &str) -> (f64, f64, f64, f64) {
    let processes = frames.iter().flat_map(|frame| &frame.processes);
    let its =
        processes.filter(|process| process.name == "fio" && process.disk.as_deref() == Some(disk));
    let waits = its.flat_map(|process| &process.waits).filter(|waits| waits.call == "fdatasync");
    waits.max_by_key(|waits| waits.count).map_or((0.0, 0.0, 0.0, 0.0), |waits| {
        let mean = waits.sum_us as f64 / waits.count.max(1) as f64;
        (waits.count as f64, mean, waits.p50_us as f64, waits.p99_us.unwrap_or(0) as f64)
    })
}
