//! `floodwall size --device` on a real filesystem over a loop device: measured, interrupted, and
//! nothing left behind.

use std::process::{Command, Stdio};
use std::time::Duration;

use floodwall_testing::disk::Disk;
use floodwall_testing::ensure;
use floodwall_testing::process::{everything, json, output, told};

use crate::{FLOODWALL, Test};

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
    let mut command = Command::new(FLOODWALL);
    command.arg("size").args(arguments).stdin(Stdio::null());
    command
}

fn measured() -> Result<(), String> {
    let disk = Disk::new("ext4", 600)?;
    let name = disk.device.name();
    // By its name, and by a directory on it.
    for given in [name, disk.path().to_str().ok_or("no path")?] {
        let output = output(&mut size(&["--device", given, "--sample", "192MiB", "--json"]))?;
        ensure(output.status.success(), || told(&output))?;
        let document = json(&output)?;
        let rate = document["measured"][0]["bytes_per_s"].as_f64().unwrap_or(0.0);
        ensure(rate > 1e6 && document["drains"][0]["name"] == name, || document.to_string())?;
        let limit = document["sizing"]["hard_bytes"].as_f64().unwrap_or(0.0);
        ensure((limit / (rate * 1.5) - 1.0).abs() < 0.01, || document.to_string())?;
        ensure(disk.names().is_empty(), || format!("left: {:?}", disk.names()))?;
    }
    // Straight into apply, without a write.
    let mut command = size(&["--device", name, "--sample", "192MiB", "--apply", "--dry-run"]);
    let said = everything(&output(&mut command)?);
    ensure(said.contains("drains ") && said.contains("/proc/sys/vm/dirty_bytes"), &said)
}

fn several() -> Result<(), String> {
    let disks = [Disk::new("ext4", 600)?, Disk::new("ext4", 600)?];
    let names = [disks[0].device.name(), disks[1].device.name()];
    // One by its name, one by a directory on it.
    let second = disks[1].path();
    let given = ["--device", names[0], "--device", second.to_str().ok_or("no path")?];
    let run = |more: &[&str]| output(&mut size(&[&given, more].concat()));
    let output = run(&["--sample", "192MiB", "--json", "--hard-delay=1s"])?;
    ensure(output.status.success(), || told(&output))?;
    let document = json(&output)?;
    let rate = |at: usize| document["measured"][at]["bytes_per_s"].as_f64().unwrap_or(0.0);
    let hard = document["sizing"]["hard_bytes"].as_f64().unwrap_or(0.0);
    // A second of both together; each may hold its own share of it.
    ensure((hard / (rate(0) + rate(1)) - 1.0).abs() < 0.01, || document.to_string())?;
    for (at, name) in names.into_iter().enumerate() {
        let share = &document["sizing"]["shares"][at];
        let part = share["max_ratio_ppm"].as_f64().unwrap_or(0.0) / 1e6;
        ensure(share["name"] == name, || document.to_string())?;
        ensure((part * hard / rate(at) - 1.0).abs() < 0.01, || document.to_string())?;
    }
    ensure(disks.iter().all(|disk| disk.names().is_empty()), "a scratch file is left")?;

    let said = everything(&run(&["--sample", "192MiB", "--apply", "--dry-run"])?);
    for name in names {
        ensure(said.contains(&format!("{name}.bdi.max_ratio_fine: ")), &said)?;
        ensure(said.contains(&format!("{name}.bdi.strict_limit: 0 -> 1")), &said)?;
    }
    ensure(said.contains("/proc/sys/vm/dirty_bytes"), &said)
}

/// Size of the scratch file in bytes; 0 without one.
fn written(disk: &Disk) -> u64 {
    let scratch = disk.names().into_iter().find(|name| name.starts_with(".floodwall-bench-"));
    let file = scratch.map(|name| disk.path().join(name).join("drain/data-0000"));
    file.and_then(|file| std::fs::metadata(file).ok()).map_or(0, |file| file.len())
}

fn interrupted() -> Result<(), String> {
    let disk = Disk::new("ext4", 600)?;
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
    let pid = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    ensure(output.status.success() || told(&output).contains("interrupted"), || told(&output))?;
    ensure(disk.names().is_empty(), || format!("left: {:?}", disk.names()))
}
