//! Tools beside a flood, on a virtual device.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_testing::process::{everything, json, output, text};
use floodwall_testing::{ensure, equal, said};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::Lab;

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// It fits on the device, and is large enough to be there when the tool runs.
const FLOOD: &str = "seq,size=64MiB";
/// The name of a scratch directory begins so.
const SCRATCH: &str = ".floodwall-bench-";
/// How long a run may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

fn compat(words: &[&str], line: &str, dir: &str) -> Command {
    let mut command = Command::new(FLOODWALL);
    command.arg("compat").args(words).args(line.split(' ')).current_dir(dir);
    command
}

/// Whether a flood has left something in a directory.
fn has_scratch(dir: &str) -> Result<bool, String> {
    let names = fs::read_dir(dir).map_err(said(dir))?.flatten().map(|entry| entry.file_name());
    Ok(names.into_iter().any(|name| name.to_string_lossy().starts_with(SCRATCH)))
}

/// The report on stdout is one run's, and the counts are exactly the tool's own.
pub(crate) fn figures() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--fs", "ext4"])?;
    let result = Path::new(&lab.mount).join("result.json");
    let result = result.to_str().ok_or("a path")?;
    let words = ["--flood", FLOOD, "--rounds", "1", "--out", result];
    let line = "disktest -w -p r -K 2 -B 4k -I FD -N 16384 -T 2 -P X file";
    let done = output(&mut compat(&words, line, &lab.mount))?;
    ensure(done.status.success(), || everything(&done))?;
    let (report, told) = (text(&done.stdout), text(&done.stderr));
    let total = report.split_once("Total bytes written in ").ok_or_else(|| everything(&done))?;
    let total = total.1.split_once(' ').ok_or_else(|| everything(&done))?.0;
    ensure(report.matches("Test Done (Passed)").count() == 1, || report.clone())?;
    ensure(told.contains("\ndefault "), || told.clone())?;
    ensure(told.contains("one round does not tell"), || told.clone())?;
    ensure(told.contains("takes about "), || told.clone())?;
    let (count, both) = phases(result)?;
    equal(both["victims"][0]["ops"].to_string(), total.to_owned())?;
    equal(both["victims"][0]["name"].as_str(), Some("disktest"))?;
    let flood = both["floods"][0]["bytes"].as_u64();
    ensure(flood.is_some_and(|bytes| bytes > 0), || both["floods"].to_string())?;
    ensure(count == 3, || format!("{count} phases"))?;
    ensure(!has_scratch(&lab.mount)?, "the flood's files are still there")?;
    // A tool that only looks runs beside the flood alone.
    let line = "iostat -dxy 1 2";
    let done = output(&mut compat(&["--flood", FLOOD], line, &lab.mount))?;
    let reports = text(&done.stdout).matches("Device").count();
    ensure(done.status.success() && reports == 2, || everything(&done))?;
    // fio counts what it reports.
    let line = "--name=a --rw=randwrite --bs=4k --direct=1 --size=4m --number_ios=300 --minimal";
    fs::remove_file(result).map_err(said(result))?;
    let done = output(&mut compat(&words, &format!("fio {line}"), &lab.mount))?;
    ensure(done.status.success(), || everything(&done))?;
    let (_, both) = phases(result)?;
    equal(both["victims"][0]["ops"].as_u64(), Some(300))?;
    // The 47th field of its line: KiB that were written.
    equal(text(&done.stdout).split(';').nth(46), Some("1200"))?;
    let line = "iostat -dxy 1 2";
    // A full stdout costs the report alone.
    fs::remove_file(result).map_err(said(result))?;
    let full = File::create("/dev/full").map_err(said("/dev/full"))?;
    let mut command = compat(&["--flood", FLOOD, "--out", result], line, &lab.mount);
    let command = command.stdout(full).stderr(Stdio::piped());
    let child = command.spawn().map_err(said("ours"))?;
    let done = child.wait_with_output().map_err(said("ours"))?;
    let is_printed = ["can't write to stdout", "\ndefault "];
    let printed = text(&done.stderr);
    ensure(is_printed.iter().all(|part| printed.contains(part)), || everything(&done))?;
    ensure(done.status.code() == Some(1), || everything(&done))?;
    json(&output(Command::new("cat").arg(result))?)?;
    // The input's disk is not the one that is written.
    let line = format!("dd if=file of={}", lab.node);
    let refused = output(&mut compat(&["--flood", FLOOD], &line, &lab.mount))?;
    let is_printed = text(&refused.stderr).contains("give --directory");
    ensure(is_printed && refused.status.code() == Some(2), || everything(&refused))
}

/// The number of phases of a stored result, and the one beside the flood.
fn phases(result: &str) -> Result<(usize, Value), String> {
    let stored = json(&output(Command::new("cat").arg(result))?)?;
    let phases = stored["trials"][0]["phases"].as_array().ok_or("no phases")?;
    let both = phases.iter().find(|phase| phase["name"] == "both").ok_or("no phase 'both'")?;
    Ok((phases.len(), both.clone()))
}

/// A setting is put back, however a run ends, and a failing tool says why.
pub(crate) fn ends() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--fs", "ext4"])?;
    let journal = tempfile::tempdir().map_err(said("a directory"))?;
    let journal = journal.path().to_str().ok_or("a path")?;
    let name = lab.node.trim_start_matches("/dev/");
    let knob = format!("/sys/block/{name}/queue/read_ahead_kb");
    let value = || fs::read_to_string(&knob).map(|text| text.trim().to_owned());
    let before = value().map_err(said(&knob))?;
    let words = ["--flood", FLOOD, "--set", "read_ahead_kb=64", "--journal", journal];
    let words = [&words[..], &["--rounds", "1"]].concat();
    let line = "dd if=/dev/zero of=file bs=4k count=1000000 oflag=dsync";
    let mut command = compat(&words, line, &lab.mount);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(said("ours"))?;
    let begin = Instant::now();
    // The order of settings is drawn: whichever comes first, the tool runs under it.
    while !Path::new(&lab.mount).join("file").exists() && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    kill_process(Pid::from_child(&child), Signal::INT).map_err(said("kill"))?;
    let ended = child.wait_with_output().map_err(said("ours"))?;
    equal(ended.status.code(), Some(1))?;
    let is_told = ["takes about ", " if a run of dd takes 10 s\n", "interrupted"];
    let told = text(&ended.stderr);
    ensure(is_told.iter().all(|part| told.contains(part)), || everything(&ended))?;
    equal(value().map_err(said(&knob))?, before.clone())?;
    ensure(!has_scratch(&lab.mount)?, "the flood's files are still there")?;
    let size = || fs::metadata(Path::new(&lab.mount).join("file")).map(|meta| meta.len());
    let size_then = size().map_err(said("file"))?;
    thread::sleep(Duration::from_millis(300));
    equal(size().map_err(said("file"))?, size_then)?;
    let line = "dd if=nothing of=file";
    let failed = output(&mut compat(&words, line, &lab.mount))?;
    let is_told = ["dd: failed to open 'nothing'", "dd ended with status 1"];
    let told = text(&failed.stderr);
    ensure(is_told.iter().all(|part| told.contains(part)), || everything(&failed))?;
    ensure(failed.status.code() == Some(1) && failed.stdout.is_empty(), || everything(&failed))?;
    equal(value().map_err(said(&knob))?, before)
}

/// A setting that can't be put in force is refused before the tool runs.
pub(crate) fn settings() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--fs", "ext4"])?;
    let journal = tempfile::tempdir().map_err(said("a directory"))?;
    let journal = journal.path().to_str().ok_or("a path")?;
    let words = ["--flood", FLOOD, "--journal", journal, "--set"];
    let line = "dd if=/dev/zero of=file count=1";
    // A plan refuses it: the loop device has another elevator.
    let set = [&words[..], &["x=iosched.low_latency=0"]].concat();
    let refused = output(&mut compat(&set, line, &lab.mount))?;
    let is_told = text(&refused.stderr).contains("floodwall: --set x: ");
    let is_refused = matches!(refused.status.code(), Some(2 | 4));
    ensure(is_told && is_refused, || everything(&refused))?;
    // As in a container, which may not write it.
    let script = "mount -o remount,bind,ro /sys && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, FLOODWALL, "compat"]).args(words);
    command.arg("read_ahead_kb=64").args(line.split(' ')).current_dir(&lab.mount);
    let denied = output(&mut command)?;
    let is_told = text(&denied.stderr).contains("floodwall: --set read_ahead_kb=64: ");
    ensure(is_told && denied.status.code() == Some(4), || everything(&denied))?;
    ensure(!Path::new(&lab.mount).join("file").exists(), "the tool has run")?;
    ensure(!has_scratch(&lab.mount)?, "the flood's files are still there")
}

pub(crate) fn refusals() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("a directory"))?;
    let dir = dir.path().to_str().ok_or("a path")?;
    for (words, line, wanted) in [
        (&["--rounds", "2"][..], "iostat", "--rounds means nothing without a flood"),
        (&["--flood", "seq"], "iostat 1", "iostat ends by itself only with INTERVAL and COUNT"),
        (&["--flood", "seq"], "sysbench fileio prepare", "only sysbench's run"),
        (&["--flood", "seq"], "sysbench fileio --file-test-mode=rndrw run", "no test_file.0"),
        (&["--flood", "seq"], "dd if=x", "name its files with if= and of="),
        (&["--flood", "sea"], "dd if=x of=y", "--flood sea"),
        (&["--flood", "none"], "iostat 1 2", "there is no flood"),
        (&["--flood", "seq"], "fio --name=a --rw=read --size=4k", "run fio without a flood"),
        (&["--flood", "seq"], "dd if=/dev/zero of=/dev/null", "give --directory"),
        (&["--flood", "seq"], "disktest -E 8 x", "'-E' is not supported here"),
    ] {
        let refused = output(&mut compat(words, line, dir))?;
        let is_told = text(&refused.stderr).contains(wanted) && refused.stdout.is_empty();
        ensure(is_told && refused.status.code() == Some(2), || everything(&refused))?;
    }
    let is_empty = fs::read_dir(dir).map_err(said(dir))?.next().is_none();
    ensure(is_empty, "a refused command made a file")
}
