//! iostat of sysstat and ours, at the same time on the same machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use floodwall_stats::estimate::median;
use floodwall_testing::disk::{Loop, Saved};
use floodwall_testing::process::{Process, done, everything, output, text};
use floodwall_testing::{ensure, said};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::Lab;
use crate::mask::masked;

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Command lines whose layouts are compared.
const LINES: [&str; 20] = [
    "",
    "-x",
    "-d",
    "-c",
    "-dm",
    "-dk",
    "-xm",
    "-t",
    "-dt ALL",
    "-d -p",
    "-d -p ALL",
    "-dz",
    "-d no-such-device",
    "-o JSON",
    "-x -o JSON",
    "-dm -o JSON",
    "-ct -o JSON",
    "-t 1 2",
    "-cy 1 2",
    "-xty -o JSON 1 2",
];
/// A disk may come or go between the two.
const TRIES: usize = 3;
/// How far a figure's median may be off.
const TOLERANCE: f64 = 0.05;
/// Steps in which figures are printed: a median of few hundredths can't be compared closer.
const STEPS: f64 = 0.021;
/// Reports of a run, each of a second, after the first one.
const REPORTS: usize = 5;
/// Requests a second that fio makes.
const READS: f64 = 200.0;
const WRITES: f64 = 100.0;
/// Kilobytes of each.
const KB: f64 = 16.0;

fn ours(line: &str) -> Command {
    let mut command = Command::new(FLOODWALL);
    command.args(["compat", "iostat"]).args(line.split_whitespace());
    command
}

fn theirs(line: &str) -> Command {
    let mut command = Command::new("iostat");
    command.args(line.split_whitespace());
    command
}

/// What both print of one command line, at the same time.
fn both(line: &str) -> Result<(String, String), String> {
    let line = line.to_owned();
    let original = thread::spawn({
        let line = line.clone();
        move || done(&mut theirs(&line))
    });
    let own = done(&mut ours(&line))?;
    let original = original.join().map_err(|_| "iostat's thread panicked".to_owned())??;
    Ok((own, original))
}

pub(crate) fn layouts() -> Result<(), String> {
    for line in LINES {
        for left in (0..TRIES).rev() {
            let (own, original) = both(line)?;
            let is_json = line.contains("JSON");
            let (own, original) = (masked(&own, is_json), masked(&original, is_json));
            if own == original {
                break;
            }
            ensure(left > 0, || format!("iostat {line}\nours:\n{own}\ntheirs:\n{original}"))?;
        }
    }
    let lines = LINES.len();
    writeln!(io::stdout(), "layouts that are equal: {lines} of {lines}").map_err(said("stdout"))
}

pub(crate) fn in_memory() -> Result<(), String> {
    let directory = tempfile::tempdir_in("/dev/shm").map_err(said("a directory"))?;
    let disk = Loop::over(&directory.path().join("image"), 128)?;
    // Only a disk with a cache is flushed, and a loop device keeps what was last written there.
    let cache = Path::new("/sys/block").join(disk.name()).join("queue/write_cache");
    let _found = Saved::of([cache.clone()]);
    fs::write(&cache, "write back").map_err(said("write_cache"))?;
    figures("memory", disk.node())
}

pub(crate) fn in_lab() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--raw"])?;
    figures("cloud-gp3", &lab.node)
}

/// Medians under a load beside those of iostat, and the load's own rates.
fn figures(what: &str, node: &str) -> Result<(), String> {
    let name = node.trim_start_matches("/dev/").to_owned();
    let mut fio = Process(load(node)?);
    thread::sleep(Duration::from_secs(1));
    let mut lines = Vec::new();
    let mut is_near = true;
    for options in ["-dxy", "-dy", "-dmy"] {
        let (own, original) = both(&format!("{options} {name} 1 {REPORTS}"))?;
        let (own, original) = (columns(&own, &name)?, columns(&original, &name)?);
        ensure(own.keys().eq(original.keys()), || format!("{own:?}\n{original:?}"))?;
        for (title, values) in own {
            let other = original.get(&title).cloned().unwrap_or_default();
            ensure(values.len() == REPORTS && other.len() == REPORTS, "reports are missing")?;
            let (a, b) = (median(values).unwrap_or(-1.0), median(other).unwrap_or(-1.0));
            is_near &= (a - b).abs() <= TOLERANCE * b + STEPS;
            lines.push(format!("| {what} | `{options}` | {title} | {a:.2} | {b:.2} |"));
            let known = match title.as_str() {
                "r/s" => Some(READS),
                "rkB/s" | "kB_read/s" => Some(READS * KB),
                // Not of requests: the kernel counts a flush as a write without sectors.
                "wkB/s" | "kB_wrtn/s" => Some(WRITES * KB),
                _ => None,
            };
            is_near &= known.is_none_or(|known| (a - known).abs() <= TOLERANCE * known);
        }
    }
    let running = fio.0.try_wait().map_err(said("fio"))?.is_none();
    ensure(running, "fio ended before the last report")?;
    writeln!(io::stdout(), "{}", lines.join("\n")).map_err(said("stdout"))?;
    ensure(is_near, || lines.join("\n"))
}

/// Reads and writes of a known rate, with flushes. A process alone, so that it ends when it is
/// killed and frees the device.
fn load(node: &str) -> Result<Child, String> {
    let words = "--name=load --direct=1 --rw=randrw --rwmixread=67 --bs=16k --ioengine=psync \
        --fdatasync=10 --size=100m --thread --time_based --runtime=40 --rate_process=linear";
    let mut fio = Command::new("fio");
    fio.args(words.split_whitespace()).arg(format!("--filename={node}"));
    fio.arg(format!("--rate_iops={READS},{WRITES}"));
    fio.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(said("fio"))
}

/// The figures of a disk, by column, report after report.
fn columns(text: &str, disk: &str) -> Result<BTreeMap<String, Vec<f64>>, String> {
    let mut columns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut titles = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Device") => titles = words.map(str::to_owned).collect(),
            Some(name) if name == disk => {
                for (title, word) in titles.iter().zip(words) {
                    let value = word.parse().map_err(said(line))?;
                    columns.entry(title.clone()).or_default().push(value);
                }
            }
            _ => {}
        }
    }
    Ok(columns)
}

pub(crate) fn interrupt() -> Result<(), String> {
    let mut command = ours("-o JSON 1");
    let child = command.stdout(Stdio::piped()).spawn().map_err(said("ours"))?;
    let pid = Pid::from_child(&child);
    thread::sleep(Duration::from_millis(1500));
    kill_process(pid, Signal::INT).map_err(said("kill"))?;
    let output = child.wait_with_output().map_err(said("ours"))?;
    ensure(output.status.success(), || everything(&output))?;
    let document: Value = serde_json::from_slice(&output.stdout).map_err(said("JSON"))?;
    let reports = &document["sysstat"]["hosts"][0]["statistics"];
    let count = reports.as_array().map_or(0, Vec::len);
    ensure(count >= 1, || text(&output.stdout))
}

pub(crate) fn refusals() -> Result<(), String> {
    for (words, wanted) in [
        (&["compat", "iostat", "-h"][..], "option '-h' is not supported here; nearest: "),
        (&["compat", "iostat", "-x", "--help"], "there is no option '--help'; supported are -c"),
        (&["compat", "vmstat", "1"], "there is no tool 'vmstat'; known here: iostat"),
        (&["compat"], "TOOL"),
    ] {
        let output = output(Command::new(FLOODWALL).args(words))?;
        let is_told = text(&output.stderr).contains(wanted) && output.stdout.is_empty();
        ensure(is_told && output.status.code() == Some(2), || everything(&output))?;
    }
    Ok(())
}
