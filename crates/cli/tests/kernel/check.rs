//! `floodwall check` on disks: a verdict on a slow one, a program's calls, and nothing left behind.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use floodwall_testing::disk::Disk;
use floodwall_testing::process::{everything, install, json, output, run, text, told};
use floodwall_testing::{ensure, said};
use serde_json::Value;

use crate::{FLOODWALL, FUSE, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "check etcd on a slow disk: not even alone, and for seconds beside a flood",
        needs: &[FUSE, "mkfs.ext4"],
        body: slow_disk,
    },
    Test {
        name: "a check warns of a lab that did not keep up with its model",
        needs: &[FUSE, "mkfs.ext4"],
        body: late_lab,
    },
    Test {
        name: "check sqlite-journal makes the calls of a commit of SQLite",
        needs: &["mkfs.ext4", "sqlite3", "strace"],
        body: sqlite,
    },
    Test {
        name: "a check needs no privilege, and a flood that stays in memory proves nothing",
        needs: &["mkfs.ext4", "setpriv"],
        body: user,
    },
    Test {
        name: "a check in a pod tells what it can't see",
        needs: &["mkfs.ext4", "setpriv", "unshare"],
        body: pod,
    },
    Test {
        name: "a check ends in time, and proves nothing of what it left out",
        needs: &["mkfs.ext4"],
        body: late,
    },
    Test {
        name: "a check leaves nothing, and says why it can't run",
        needs: &["mkfs.ext4"],
        body: ends,
    },
];

/// A user that every machine has.
const NOBODY: u32 = 65_534;

/// A check, written as on the command line, inside a lab with a device of so many MiB.
fn in_lab(preset: &str, mib: u64, words: &[&str]) -> Result<std::process::Output, String> {
    let (name, size) = (format!("check-{}", std::process::id()), format!("{mib}MiB"));
    // Every block of the device has its place, wherever the filesystem puts a file.
    let lab = ["lab", "run", preset, "--size", &size, "--memory", &size, "--fs", "ext4"];
    output(Command::new(FLOODWALL).args(lab).args(["--name", &name, "--"]).args(words))
}

fn run_of<'a>(check: &'a Value, name: &str) -> Result<&'a Value, String> {
    let runs = check["runs"].as_array().into_iter().flatten();
    runs.into_iter().find(|run| run["name"] == name).ok_or_else(|| check.to_string())
}

fn slow_disk() -> Result<(), String> {
    // As much as it takes for the kernel to write back.
    let limits = fs::read_to_string("/proc/vmstat").map_err(said("/proc/vmstat"))?;
    let pages = limits.lines().find_map(|line| line.strip_prefix("nr_dirty_background_threshold "));
    let pages: u64 = pages.and_then(|pages| pages.parse().ok()).ok_or("no background limit")?;
    let size = (pages >> 8) * 5 / 4 + 200;
    let cap = format!("{size}MiB");
    let words = [FLOODWALL, "check", "etcd", "--json", "--measure", "4s", "--size", &cap, "."];
    let output = in_lab("hdd-7200", size + 500, &words)?;
    ensure(output.status.code() == Some(1), || everything(&output))?;
    let check = json(&output)?;
    ensure(check["verdict"] == "slow", || check.to_string())?;
    let (alone, flood) = (run_of(&check, "alone")?, run_of(&check, "flood")?);
    let sync_us = |run: &Value, key: &str| run["sync_us"][key].as_f64().unwrap_or(0.0);
    // A commit takes a write and a flush or two, each a turn of the disk or so.
    let typical = sync_us(alone, "p50");
    ensure(alone["grade"] == "slow" && typical < 500_000.0, || alone.to_string())?;
    let slowest = sync_us(flood, "max");
    ensure(flood["grade"] == "slow" && slowest > 5.0 * typical, || check.to_string())?;
    let guarded = run_of(&check, "guarded")?;
    let tells = guarded["left_out"].is_string() || guarded["grade"].is_string();
    ensure(tells, || guarded.to_string())?;
    writeln!(io::stdout(), "{}", check["sentence"]).map_err(said("stdout"))
}

fn late_lab() -> Result<(), String> {
    // No machine answers within a tenth of a microsecond.
    let model = "name = \"hasty\"\ndescription = \"faster than any machine\"\n\
        model = \"FLOODWALL HASTY\"\ndefault_size = \"1GiB\"\n\
        [null]\ncapacity = \"16TiB\"\nlatency = \"1us\"\n";
    let file = tempfile::Builder::new().suffix(".toml").tempfile().map_err(said("a file"))?;
    fs::write(&file, model).map_err(said("a file"))?;
    let preset = file.path().to_str().ok_or("a path")?;
    let words = ["check", "any", "--p99", "30s", "--measure", "1s", "--alone", "--json", "."];
    let output = in_lab(preset, 600, &[&[FLOODWALL], &words[..]].concat())?;
    let check = json(&output)?;
    let warnings = check["warnings"].as_array().into_iter().flatten();
    let texts: Vec<&str> = warnings.filter_map(Value::as_str).collect();
    let late = texts.iter().find(|text| text.contains("did not keep up with its model"));
    let late = late.ok_or_else(|| everything(&output))?;
    ensure(text(&output.stderr).contains(&format!("warning: {late}")), || everything(&output))
}

fn sqlite() -> Result<(), String> {
    let disk = Disk::new("ext4", 1024)?;
    let (database, trace) = (disk.file("test.db"), disk.file("trace"));
    let traced = |words: &[&str]| {
        let calls = "trace=pwrite64,fsync,fdatasync,unlink,unlinkat";
        run(
            "strace",
            &[&["-f", "-qq", "-e", calls, "-e", "raw=pwrite64", "-o", &trace], words].concat(),
        )?;
        last_commit(&fs::read_to_string(&trace).map_err(said("a trace"))?)
    };
    // Some pages, so that the changed one is not the first. The first commit makes more.
    let table = "PRAGMA journal_mode=DELETE; CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB);
        INSERT INTO t(b) SELECT randomblob(900) FROM generate_series(1, 1000);";
    run("sqlite3", &[&database, table])?;
    let update = |row: u32| format!("UPDATE t SET b = randomblob(100) WHERE a = {row};");
    let updates = ["PRAGMA synchronous=FULL;", &update(400), &update(800)].concat();
    let theirs = traced(&["sqlite3", &database, &updates])?;
    let dir = disk.path().to_string_lossy().into_owned();
    let check = ["check", "sqlite-journal", "--p99", "30s", "--measure", "1s", "--alone", "--json"];
    let ours = traced(&[&[FLOODWALL], &check[..], &[&dir]].concat())?;
    ensure(theirs.len() > 12, || theirs.join(" "))?;
    ensure(ours == theirs, || format!("{}\n{}", theirs.join(" "), ours.join(" ")))?;
    writeln!(io::stdout(), "{}", theirs.join(" ")).map_err(said("stdout"))
}

/// The calls of the last commit in a trace: writes with their lengths, syncs, the removal.
fn last_commit(trace: &str) -> Result<Vec<String>, String> {
    let calls = trace.lines().filter_map(|line| {
        let (_, call) = line.split_once(' ')?;
        let (name, arguments) = call.trim_start().split_once('(')?;
        Some(match name {
            "pwrite64" => format!("{name}({})", arguments.split(", ").nth(2)?),
            "unlink" | "unlinkat" if arguments.contains("journal") => "remove".to_owned(),
            "fsync" | "fdatasync" => name.to_owned(),
            _ => return None,
        })
    });
    let calls: Vec<String> = calls.collect();
    let commits: Vec<&[String]> = calls.split_inclusive(|call| call == "remove").collect();
    let last = commits.iter().rev().find(|calls| calls.last().is_some_and(|call| call == "remove"));
    Ok(last.ok_or_else(|| trace.to_owned())?.to_vec())
}

/// A disk with a directory of [`NOBODY`]'s, and a copy of the program: the program itself may be in
/// a directory that is root's alone.
fn of_nobody() -> Result<(Disk, PathBuf, PathBuf), String> {
    let disk = Disk::new("ext4", 1024)?;
    let own = disk.path().join("own");
    fs::create_dir(&own)
        .and_then(|()| chown(&own, Some(NOBODY), Some(NOBODY)))
        .map_err(said("dir"))?;
    let binary = disk.path().join("floodwall");
    install(FLOODWALL, &binary)?;
    Ok((disk, own, binary))
}

fn pod() -> Result<(), String> {
    let (_disk, own, binary) = of_nobody()?;
    // As a container runtime does: no process but its own, /sys read-only, no capability.
    let script = "mount -t proc proc /proc && mount -o remount,bind,ro /sys && \
        exec setpriv --reuid $0 --regid $0 --clear-groups --bounding-set=-all --inh-caps=-all \
        --no-new-privs \"$@\"";
    let namespaces = ["--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "sh", "-c", script];
    let limits = ["--p99", "1us", "--measure", "1s", "--size", "300MiB"];
    let mut command = Command::new("unshare");
    command.args(namespaces).arg(NOBODY.to_string()).arg(binary);
    command.args(["check", "etcd", "--json"]).args(limits).arg(&own);
    let output = output(&mut command)?;
    ensure(output.status.code() == Some(1), || everything(&output))?;
    let check = json(&output)?;
    ensure(check["verdict"] == "slow" && check["device"].is_string(), || check.to_string())?;
    let guarded = run_of(&check, "guarded")?;
    ensure(guarded["left_out"] == "a guard needs root", || guarded.to_string())?;
    let mut missing = check["missing"].as_array().into_iter().flatten();
    let groups = missing.find(|missing| missing["what"] == "control groups of victims and floods");
    ensure(groups.is_some(), || check.to_string())?;
    left(&own, &[])
}

/// What the program says to a user without privileges.
fn as_nobody(binary: &Path, words: &[&str], dir: &Path) -> Result<std::process::Output, String> {
    let id = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    output(command.arg(binary).args(words).arg(dir))
}

fn user() -> Result<(), String> {
    let (disk, own, binary) = of_nobody()?;
    let junit = own.join("check.xml");
    let limits = ["--p99", "30s", "--measure", "1s", "--size", "300MiB", "--json"];
    let junit_words = ["--junit", junit.to_str().ok_or("a path")?];
    let words = [&["check", "any"], &limits[..], &junit_words].concat();
    let output = as_nobody(&binary, &words, &own)?;
    ensure(output.status.code() == Some(3), || everything(&output))?;
    let check = json(&output)?;
    ensure(check["verdict"] == "inconclusive", || check.to_string())?;
    ensure(run_of(&check, "alone")?["grade"] == "fast", || check.to_string())?;
    let flood = run_of(&check, "flood")?;
    ensure(flood["flood_stays_below_bytes"].is_u64(), || flood.to_string())?;
    let denied = as_nobody(&binary, &["check", "etcd"], disk.path())?;
    let is_told = told(&denied).contains("Permission denied");
    ensure(is_told && denied.status.code() == Some(4), || everything(&denied))?;
    let report = fs::read_to_string(&junit).map_err(said("the report"))?;
    ensure(report.contains("<testcase classname=\"floodwall.check.any\" name=\"alone\""), || {
        report
    })?;
    left(&own, &["check.xml"])
}

fn late() -> Result<(), String> {
    let disk = Disk::new("ext4", 1024)?;
    run("rmdir", &[&disk.file("lost+found")])?;
    let limits = ["--p99", "30s", "--measure", "3s", "--timeout", "12s", "--size", "300MiB"];
    let mut command = Command::new(FLOODWALL);
    command.args(["check", "any", "--json"]).args(limits).arg(disk.path());
    let output = output(&mut command)?;
    ensure(output.status.code() == Some(3), || everything(&output))?;
    let check = json(&output)?;
    let why = run_of(&check, "flood")?["left_out"].as_str().unwrap_or_default();
    ensure(why == "it did not end within the check's 12.0 s", || check.to_string())?;
    // A busy machine may need far longer to end than the check asks for.
    ensure(check["seconds"].as_f64().is_some_and(|s| s < 120.0), || check.to_string())?;
    left(disk.path(), &[])
}

fn left(dir: &Path, expected: &[&str]) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(said("a directory"))?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    ensure(names == expected, || format!("left behind: {names:?}"))
}

fn ends() -> Result<(), String> {
    let disk = Disk::new("ext4", 1024)?;
    run("rmdir", &[&disk.file("lost+found")])?;
    let check = |words: &[&str]| {
        let mut command = Command::new(FLOODWALL);
        command.args(["check", "etcd"]).args(words).arg(disk.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for (name, after_ms) in [("INT", 100), ("TERM", 1500), ("HUP", 5000)] {
        let child = check(&["--size", "300MiB"]).spawn().map_err(said("a check"))?;
        sleep(Duration::from_millis(after_ms));
        run("kill", &["-s", name, &child.id().to_string()])?;
        let output = child.wait_with_output().map_err(said("a check"))?;
        ensure(output.status.code() == Some(1), || told(&output))?;
        ensure(told(&output).contains("interrupted"), || told(&output))?;
        left(disk.path(), &[])?;
    }
    let refused = |words: &[&str], part: &str| {
        let output = check(words).output().map_err(said("a check"))?;
        let is_said = told(&output).contains(part);
        ensure(output.status.code() == Some(2) && is_said, || told(&output))
    };
    refused(&[], "; --alone needs 86 MiB")?;
    disk.mount.remount("ro")?;
    refused(&["--alone"], "read-only")
}
