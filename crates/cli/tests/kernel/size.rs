//! `floodwall size --device` on a real filesystem over a loop device: measured, interrupted, and
//! nothing left behind.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::Test;
use crate::disk::Disk;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a device's drain rate is measured and its scratch file removed",
        needs: &["mkfs.ext4"],
        body: measured,
    },
    Test {
        name: "several devices are measured one after the other, and the whole of it is applied as \
            one change",
        needs: &["mkfs.ext4"],
        body: several,
    },
    Test {
        name: "a measurement that is interrupted leaves nothing",
        needs: &["mkfs.ext4"],
        body: interrupted,
    },
];

fn size(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    command.arg("size").args(arguments).stdin(Stdio::null());
    command
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn told(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// The name of the loop device that is mounted there.
fn device(disk: &Disk) -> Result<String, String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
    let path = disk.path();
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == path.to_str());
    let source = line.and_then(|line| line.split(' ').next()).ok_or("it is not mounted")?;
    Ok(source.trim_start_matches("/dev/").to_owned())
}

fn measured() -> Result<(), String> {
    let disk = Disk::make("ext4", 600)?;
    let name = device(&disk)?;
    // By its name, and by a directory on it.
    for given in [name.as_str(), disk.path().to_str().ok_or("no path")?] {
        let output = size(&["--device", given, "--sample", "192MiB", "--json"])
            .output()
            .map_err(|e| e.to_string())?;
        expect(output.status.success(), &told(&output))?;
        let document: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        let rate = document["measured"][0]["bytes_per_s"].as_f64().unwrap_or(0.0);
        expect(
            rate > 1e6 && document["drains"][0]["name"] == name.as_str(),
            &document.to_string(),
        )?;
        let limit = document["sizing"]["hard_bytes"].as_f64().unwrap_or(0.0);
        expect((limit / (rate * 1.5) - 1.0).abs() < 0.01, &document.to_string())?;
        expect(disk.names().is_empty(), &format!("left: {:?}", disk.names()))?;
    }
    // Straight into apply, without a write.
    let output = size(&["--device", &name, "--sample", "192MiB", "--apply", "--dry-run"]).output();
    let said = told(&output.map_err(|e| e.to_string())?);
    expect(said.contains("drains ") && said.contains("/proc/sys/vm/dirty_bytes"), &said)
}

fn several() -> Result<(), String> {
    let disks = [Disk::make("ext4", 600)?, Disk::make("ext4", 600)?];
    let names = [device(&disks[0])?, device(&disks[1])?];
    // One by its name, one by a directory on it.
    let second = disks[1].path();
    let given = ["--device", names[0].as_str(), "--device", second.to_str().ok_or("no path")?];
    let output =
        size(&[&given, ["--sample", "192MiB", "--json", "--hard-delay=1s"].as_slice()].concat())
            .output()
            .map_err(|e| e.to_string())?;
    expect(output.status.success(), &told(&output))?;
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let rate = |at: usize| document["measured"][at]["bytes_per_s"].as_f64().unwrap_or(0.0);
    let hard = document["sizing"]["hard_bytes"].as_f64().unwrap_or(0.0);
    // A second of both together; each may hold its own share of it.
    expect((hard / (rate(0) + rate(1)) - 1.0).abs() < 0.01, &document.to_string())?;
    for (at, name) in names.iter().enumerate() {
        let share = &document["sizing"]["shares"][at];
        let part = share["max_ratio_ppm"].as_f64().unwrap_or(0.0) / 1e6;
        expect(share["name"] == name.as_str(), &document.to_string())?;
        expect((part * hard / rate(at) - 1.0).abs() < 0.01, &document.to_string())?;
    }
    expect(disks.iter().all(|disk| disk.names().is_empty()), "a scratch file is left")?;

    let output =
        size(&[&given, ["--sample", "192MiB", "--apply", "--dry-run"].as_slice()].concat())
            .output();
    let said = told(&output.map_err(|e| e.to_string())?);
    for name in &names {
        expect(said.contains(&format!("{name}.bdi.max_ratio_fine: ")), &said)?;
        expect(said.contains(&format!("{name}.bdi.strict_limit: 0 -> 1")), &said)?;
    }
    expect(said.contains("/proc/sys/vm/dirty_bytes"), &said)
}

/// Bytes of the scratch file, as far as there is one.
fn written(disk: &Disk) -> u64 {
    let scratch = disk.names().into_iter().find(|name| name.starts_with(".floodwall-bench-"));
    let file = scratch.map(|name| disk.path().join(name).join("drain/data-0000"));
    file.and_then(|file| std::fs::metadata(file).ok()).map_or(0, |file| file.len())
}

fn interrupted() -> Result<(), String> {
    let disk = Disk::make("ext4", 600)?;
    let mut child = size(&["--device", disk.path().to_str().ok_or("no path")?])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    // Once it writes; if it is quicker than this test, there is nothing to interrupt and nothing to
    // find.
    for _ in 0..1000 {
        let ended = child.try_wait().map_err(|e| e.to_string())?.is_some();
        if ended || written(&disk) > 8 << 20 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or("no process")?;
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    expect(output.status.success() || told(&output).contains("interrupted"), &told(&output))?;
    expect(disk.names().is_empty(), &format!("left: {:?}", disk.names()))
}
