//! What `floodwall bench` promises of a real disk: figures, cleanliness, honesty about what went
//! wrong.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use floodwall_testing::disk::{Disk, Mount};
use floodwall_testing::ensure;
use floodwall_testing::process::{json, run, told};
use serde_json::Value;

use crate::{FLOODWALL, Test};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "four figures on ext4", needs: &["mkfs.ext4"], body: || four_figures("ext4") },
    Test { name: "four figures on xfs", needs: &["mkfs.xfs"], body: || four_figures("xfs") },
    Test { name: "four figures on btrfs", needs: &["mkfs.btrfs"], body: || four_figures("btrfs") },
    Test {
        name: "a signal at any moment leaves nothing",
        needs: &["mkfs.ext4"],
        body: signals_leave_nothing,
    },
    Test {
        name: "a killed run is named and cleaned",
        needs: &["mkfs.ext4"],
        body: killed_run_is_cleaned,
    },
    Test {
        name: "the second bench on a device is refused",
        needs: &["mkfs.ext4"],
        body: second_is_refused,
    },
    Test {
        name: "a read-only filesystem is refused",
        needs: &["mkfs.ext4"],
        body: read_only_is_refused,
    },
    Test {
        name: "too little space is refused with what fits",
        needs: &["mkfs.ext4"],
        body: too_little_space,
    },
    Test { name: "a disk that fills up midway", needs: &["mkfs.ext4"], body: disk_fills_up },
    Test { name: "a disk that fails midway", needs: &["mkfs.ext4", "mount"], body: disk_fails },
];

/// One round of phases of one second over small files: it tests the path, not the figures' quality.
const SMALL: &[&str] =
    &["--rounds", "2", "--measure", "1s", "--size", "400MiB", "--json", "--scenario"];

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/bench.toml");

fn floodwall(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(FLOODWALL);
    command.arg("bench").args(SMALL).arg(SCENARIO).args(more).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a run and waits until it works in its scratch directory.
fn start(disk: &Disk, more: &[&str]) -> Result<Child, String> {
    let mut child = floodwall(disk.path(), more).spawn().map_err(|e| e.to_string())?;
    let begin = Instant::now();
    while disk.names().is_empty() {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            let output = child.wait_with_output().map_err(|e| e.to_string())?;
            return Err(format!("ended before it began, {status}: {}", told(&output)));
        }
        ensure(begin.elapsed() < Duration::from_secs(20), || {
            "the run did not begin within 20 s".into()
        })?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(child)
}

fn signal(child: &Child, name: &str) -> Result<(), String> {
    run("kill", &["-s", name, &child.id().to_string()]).map(drop)
}

fn four_figures(fs_type: &str) -> Result<(), String> {
    let disk = Disk::new(fs_type, 1024)?;
    let output = floodwall(disk.path(), &[]).output().map_err(|e| e.to_string())?;
    ensure(matches!(output.status.code(), Some(0 | 3)), || told(&output))?;
    let json = json(&output)?;
    ensure(json["schema"] == "floodwall/result/1", || json["schema"].to_string())?;
    for figure in ["victim_kept", "flood_kept", "burst_kept", "dead_seconds"] {
        let value = &json["summary"][figure];
        let (low, at, high) =
            (value["low"].as_f64(), value["value"].as_f64(), value["high"].as_f64());
        ensure(low <= at && at <= high && low.is_some(), || format!("{figure}: {value}"))?;
    }
    ensure(json["trials"].as_array().is_some_and(|t| t.len() == 2), || "two rounds".into())?;
    // The kernel's own counter is the witness: at least what the victims committed has reached the
    // device.
    for trial in json["trials"].as_array().into_iter().flatten() {
        for phase in
            trial["phases"].as_array().into_iter().flatten().filter(|p| p["name"] == "victim")
        {
            let committed = phase["victim"]["ops"].as_f64().unwrap_or(0.0) * 16384.0;
            let written = phase["device"]["written_bytes"].as_f64().unwrap_or(0.0);
            ensure(written >= 0.9 * committed, || {
                format!("{committed} committed, {written} written")
            })?;
        }
    }
    ensure(disk.names().is_empty(), || format!("left behind: {:?}", disk.names()))
}

fn signals_leave_nothing() -> Result<(), String> {
    let disk = Disk::new("ext4", 1024)?;
    // From the first file being written to the middle of the phases.
    for (i, delay_ms) in [0, 30, 100, 300, 1000, 2500, 4000].into_iter().enumerate() {
        let name = ["INT", "TERM", "HUP"][i % 3];
        let out = disk.beside("out.json");
        let child = start(&disk, &["--out", &out.to_string_lossy()])?;
        std::thread::sleep(Duration::from_millis(delay_ms));
        signal(&child, name)?;
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        ensure(output.status.code() == Some(1), || {
            format!("{name} after {delay_ms} ms: {}", told(&output))
        })?;
        ensure(disk.names().is_empty(), || {
            format!("{name} after {delay_ms} ms left {:?}", disk.names())
        })?;
        let stored = fs::read_to_string(&out)
            .map_err(|e| format!("{name} after {delay_ms} ms, no result: {e}"))?;
        let stored: Value = serde_json::from_str(&stored).map_err(|e| e.to_string())?;
        ensure(stored["status"]["state"] == "partial", || stored["status"].to_string())?;
        fs::remove_file(&out).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn killed_run_is_cleaned() -> Result<(), String> {
    let disk = Disk::new("ext4", 1024)?;
    let mut child = start(&disk, &[])?;
    std::thread::sleep(Duration::from_millis(300));
    let clean = |path: &Path| {
        let mut command = Command::new(FLOODWALL);
        command.args(["bench", "--clean"]).arg(path).output().map_err(|e| e.to_string())
    };
    clean(disk.path())?;
    ensure(disk.names().len() == 1, || "--clean removed a living run's files".into())?;
    child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
    let left = disk.names();
    ensure(left.len() == 1, || format!("a killed run leaves its directory: {left:?}"))?;
    // The next run names it …
    let next = floodwall(disk.path(), &[]).output().map_err(|e| e.to_string())?;
    ensure(told(&next).contains(&left[0]) && told(&next).contains("--clean"), || told(&next))?;
    // … and --clean removes it.
    let output = clean(disk.path())?;
    ensure(output.status.success() && disk.names().is_empty(), || {
        format!("{} {:?}", told(&output), disk.names())
    })
}

fn second_is_refused() -> Result<(), String> {
    let disk = Disk::new("ext4", 1024)?;
    let mut first = start(&disk, &[])?;
    let second = floodwall(disk.path(), &[]).output().map_err(|e| e.to_string())?;
    let told = told(&second);
    ensure(
        second.status.code() == Some(1) && told.contains(&format!("process {}", first.id())),
        || told.clone(),
    )?;
    signal(&first, "INT")?;
    first.wait().map(drop).map_err(|e| e.to_string())
}

fn read_only_is_refused() -> Result<(), String> {
    let disk = Disk::new("ext4", 256)?;
    disk.mount.remount("ro")?;
    let output = floodwall(disk.path(), &[]).output().map_err(|e| e.to_string())?;
    ensure(output.status.code() == Some(2) && told(&output).contains("read-only"), || told(&output))
}

fn too_little_space() -> Result<(), String> {
    let disk = Disk::new("ext4", 512)?;
    let mut command = Command::new(FLOODWALL);
    let output =
        command.args(["bench", "--quick"]).arg(disk.path()).output().map_err(|e| e.to_string())?;
    let told = told(&output);
    ensure(
        output.status.code() == Some(2) && told.contains("are free") && told.contains("--size "),
        || told.clone(),
    )?;
    ensure(disk.names().is_empty(), || format!("left behind: {:?}", disk.names()))
}

/// Checks what a run that broke off midway leaves: exit 1, the cause, a partial result, a clean
/// directory.
fn broke_off(disk: &Disk, child: Child, out: &Path, causes: &[&str]) -> Result<(), String> {
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    ensure(output.status.code() == Some(1), || told(&output))?;
    ensure(causes.iter().any(|c| told(&output).contains(c)), || told(&output))?;
    let stored = fs::read_to_string(out)
        .map_err(|e| format!("no partial result: {e}; {}", told(&output)))?;
    let stored: Value = serde_json::from_str(&stored).map_err(|e| e.to_string())?;
    ensure(stored["status"]["state"] == "partial", || stored["status"].to_string())?;
    ensure(disk.names().iter().all(|n| !n.starts_with(".floodwall")), || {
        format!("left behind: {:?}", disk.names())
    })
}

fn disk_fills_up() -> Result<(), String> {
    let disk = Disk::new("ext4", 600)?;
    let out = disk.beside("out.json");
    let child = start(&disk, &["--rounds", "20", "--out", &out.to_string_lossy()])?;
    std::thread::sleep(Duration::from_millis(800));
    // Another writer takes the remaining space, until the run has met the end of the disk.
    let mut hog = fs::File::create(disk.path().join("hog")).map_err(|e| e.to_string())?;
    let block = vec![1u8; 1 << 20];
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(15) {
        if hog.write_all(&block).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        if disk.names().iter().all(|n| !n.starts_with(".floodwall")) {
            break;
        }
    }
    broke_off(&disk, child, &out, &["full", "space"])
}

fn disk_fails() -> Result<(), String> {
    // The backing file's filesystem is smaller than the disk pretends to be: writes beyond it are
    // I/O errors.
    let host = tempfile::tempdir().map_err(|e| e.to_string())?;
    let small =
        Mount::new(&["-t", "tmpfs", "-o", "size=120m", "none"], &host.path().join("small"))?;
    let disk = Disk::new_in(small.path(), "ext4", 1024)?;
    // Made anew through the device: that writes the journal, for which a file would have a hole. A
    // journal that fails makes the filesystem read-only, and nothing could be removed.
    let (device, path) = (disk.device.node(), disk.path().to_string_lossy());
    run("umount", &[&path])?;
    run("mkfs.ext4", &["-q", "-F", device])?;
    run("mount", &[device, &path])?;
    let out = host.path().join("out.json");
    let growing =
        ["--victim", "wal,preallocated=false,block=256KiB,size=300MiB", "--flood", "none"];
    let path = out.to_string_lossy();
    let more = [&growing[..], &["--measure", "10s", "--out", &path]].concat();
    // The loop device passes on what its file's filesystem says, or an I/O error.
    broke_off(&disk, start(&disk, &more)?, &out, &["rror", "read-only", "No space left"])
}
