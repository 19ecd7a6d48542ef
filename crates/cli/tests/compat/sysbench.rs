//! sysbench 1.0.20 and ours, in turn in the same directory on the same files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_testing::process::{done, everything, output, text};
use floodwall_testing::{ensure, equal, said};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::Lab;
use crate::mask::masked;
use crate::rounds::{self, Figures};

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// The files of layouts.
const SMALL: &str = "fileio --file-num=4 --file-total-size=7777777";
/// Command lines whose layouts are compared, after `SMALL`. Each run has its files from the lines
/// before.
const LINES: [&str; 24] = [
    "prepare",
    "prepare",
    "--file-test-mode=rndwr --events=300 run",
    "--file-test-mode=rndrd --events=300 --threads=3 run",
    "--file-test-mode=rndrw --events=300 --file-rw-ratio=2 --file-fsync-freq=0 run",
    "--file-test-mode=rndrw --events=300 --file-block-size=5000 --file-fsync-end=off run",
    "--file-test-mode=seqrd --events=300 --file-merged-requests=3 run",
    "--file-test-mode=seqrewr --events=300 --file-fsync-all --percentile=0 run",
    "--file-test-mode=rndwr --events=300 --file-fsync-mode=fdatasync --rand-seed=5 run",
    "--file-test-mode=rndwr --events=100 --file-extra-flags=dsync --percentile=7 run",
    "--file-test-mode=rndwr --events=100 --file-extra-flags=dsync,sync --percentile=100 run",
    "--file-test-mode=rndwr --events=0 --time=1 run",
    "--file-test-mode=rndrw --time=3 --report-interval=1 --rate=100 run",
    "--file-test-mode=rndwr --time=3 --report-interval=1 --percentile=0 --threads=2 run",
    "--file-test-mode=rndwr --events=500 --histogram=on run",
    "--file-test-mode=rndrd --time=2 --report-interval=1 --histogram --rate=50 run",
    "--file-test-mode=rndwr --num-threads=2 --max-requests=50 --max-time=2 run",
    "--file-test-mode=rndwr --rand-type=pareto --events=20 run",
    "--file-test-mode=seqwr --events=300 run",
    "prepare",
    "--file-test-mode=rndrd --events=5 run",
    "cleanup",
    "cleanup",
    "--file-num=2 --file-total-size=3g prepare",
];
/// The files of figures.
const FILES: &str = "fileio --file-num=4 --file-total-size=64M";
/// Command lines whose figures are compared.
const LOADS: [&str; 7] = [
    "--file-test-mode=rndwr --file-fsync-freq=1 --time=2",
    "--file-test-mode=rndwr --file-fsync-all --threads=4 --time=2",
    "--file-test-mode=rndrw --threads=2 --time=2",
    // Long, because as many events as fall due in it by chance are counted.
    "--file-test-mode=rndrd --file-extra-flags=direct --threads=4 --rate=800 --time=4",
    "--file-test-mode=seqwr --file-fsync-freq=8 --percentile=99 --time=2",
    "--file-test-mode=seqrewr --file-extra-flags=direct --file-fsync-freq=0 --time=2",
    "--file-test-mode=seqrd --file-extra-flags=direct --file-merged-requests=4 --time=2",
];
/// Figures of one event, which two runs of one tool do not share either: printed, not judged.
const EXTREMES: [&str; 2] = ["min", "max"];

fn ours(line: &str, dir: &Path) -> Command {
    let mut command = Command::new(FLOODWALL);
    command.args(["compat", "sysbench"]).args(line.split_whitespace()).current_dir(dir);
    command
}

fn theirs(line: &str, dir: &Path) -> Command {
    let mut command = Command::new("sysbench");
    command.args(line.split_whitespace()).current_dir(dir);
    command
}

fn in_memory() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir_in("/dev/shm").map_err(said("a directory"))
}

pub(crate) fn layouts() -> Result<(), String> {
    let (one, other) = (in_memory()?, in_memory()?);
    for line in LINES {
        let line = format!("{SMALL} {line}");
        let own = done(&mut ours(&line, one.path()))?;
        let original = done(&mut theirs(&line, other.path()))?;
        let (a, b) = (layout(&own), layout(&original));
        let apart = a.iter().zip(&b).find(|(a, b)| !is_same(a, b));
        let is_equal = a.len() == b.len() && apart.is_none();
        ensure(is_equal, || {
            format!("sysbench {line}: {apart:?}\nours:\n{own}\ntheirs:\n{original}")
        })?;
        ensure(files(one.path()) == files(other.path()), || format!("files of {line}"))?;
    }
    // The old way to name the test, with an option of 1.0.
    let line = "--test=fileio --file-num=4 --threads=2 cleanup";
    let own = output(&mut ours(line, one.path()))?;
    let original = output(&mut theirs(line, other.path()))?;
    equal(text(&own.stderr), text(&original.stderr))?;
    let printed = [&own, &original].map(|output| text(&output.stdout));
    let [own, original] = printed.each_ref().map(|text| layout(text));
    equal(own, original)?;
    let lines = LINES.len();
    writeln!(io::stdout(), "layouts that are equal: {lines} of {lines}").map_err(said("stdout"))
}

/// The lines but the one that names the program. Of lines whose number depends on the run, the
/// first.
fn layout(text: &str) -> Vec<&str> {
    let is_bar = |line: &str| line.contains(" |");
    let is_interval = |line: &str| line.starts_with("[ ");
    let mut lines: Vec<&str> =
        text.lines().filter(|l| !l.starts_with("sysbench 1.0.20 (")).collect();
    lines.dedup_by(|a, b| (is_bar(a) && is_bar(b)) || (is_interval(a) && is_interval(b)));
    lines
}

/// Whether two lines are equal without their numbers. A number's place is its begin in some columns
/// and its end in others.
fn is_same(a: &str, b: &str) -> bool {
    let without = |line: &str| {
        let numbers = line.replace(|c: char| c.is_ascii_digit() || c == '.', "#");
        let mut text: Vec<char> = numbers.replace('*', " ").chars().collect();
        text.dedup_by(|a, b| *a == '#' && *b == '#');
        text.into_iter().collect::<String>()
    };
    without(a) == without(b) || masked(a, false) == masked(b, false)
}

/// Names and lengths of the files.
fn files(dir: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let pair = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), entry.metadata().map_or(0, |m| m.len()))
    };
    entries.map(pair).collect()
}

pub(crate) fn in_lab() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--fs", "ext4"])?;
    let dir = Path::new(&lab.mount);
    done(&mut theirs(&format!("{FILES} prepare"), dir))?;
    let mut apart = Vec::new();
    for load in LOADS {
        let line = format!("{FILES} {load} run");
        let run = |is_own: bool| {
            let text = done(&mut if is_own { ours(&line, dir) } else { theirs(&line, dir) })?;
            figures(&text)
        };
        apart.extend(rounds::compared(load, &EXTREMES, run)?);
    }
    ensure(apart.is_empty(), || apart.join("\n"))
}

/// The numbers of a report, by their labels.
fn figures(text: &str) -> Result<Figures, String> {
    let report = text.split("File operations:").nth(1).ok_or("no report")?;
    let mut figures = Figures::new();
    for (label, value) in report.lines().filter_map(|line| line.split_once(':')) {
        // A mean stands before its deviation.
        let value = value.trim().trim_end_matches('s').split('/').next().unwrap_or_default();
        if !value.is_empty() {
            figures.insert(label.trim().to_owned(), value.parse().map_err(said(text))?);
        }
    }
    ensure(figures.len() == 14, || format!("{figures:?}\n{text}"))?;
    Ok(figures)
}

pub(crate) fn refusals() -> Result<(), String> {
    let dir = in_memory()?;
    let run = "--file-test-mode=rndwr run";
    for (line, status, wanted) in [
        ("fileio --file-io-mode=async run", 2, "nearest: --file-io-mode=sync --threads=N"),
        ("fileio --file-total-size=8X prepare", 2, "'8X' is not a size like 2G"),
        ("fileio --fil-num=3 prepare", 2, "no option '--fil-num'; nearest: --file-num"),
        ("cpu run", 2, "the test 'cpu' is not supported here"),
        (&format!("fileio {run}"), 1, "no test_file.0; prepare the files first"),
        ("fileio --file-total-size=64P prepare", 1, "make them smaller or fewer"),
    ] {
        let output = output(&mut ours(line, dir.path()))?;
        let is_told = text(&output.stderr).contains(wanted);
        ensure(is_told && output.status.code() == Some(status), || everything(&output))?;
    }
    ensure(files(dir.path()).is_empty(), "a refused command made files")?;
    done(&mut ours("fileio --file-num=1 --file-total-size=1M prepare", dir.path()))?;
    let line = format!("fileio --file-num=1 --file-total-size=2M {run}");
    let output = output(&mut ours(&line, dir.path()))?;
    let wanted = "test_file.0 has 1 MiB, 2 MiB are needed";
    ensure(text(&output.stderr).contains(wanted), || everything(&output))
}

/// Ends a command by Ctrl-C, once `is_ready`.
fn interrupted(
    mut command: Command,
    is_ready: impl Fn() -> bool,
) -> Result<std::process::Output, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(said("ours"))?;
    let begin = Instant::now();
    while !is_ready() && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), Signal::INT).map_err(said("kill"))?;
    child.wait_with_output().map_err(said("ours"))
}

pub(crate) fn interrupt() -> Result<(), String> {
    let dir = in_memory()?;
    let size = "fileio --file-num=2000 --file-total-size=2G";
    let is_begun = || dir.path().join("test_file.3").exists();
    let output = interrupted(ours(&format!("{size} prepare"), dir.path()), is_begun)?;
    let is_told = text(&output.stderr).contains("interrupted and removed nothing; prepare again");
    ensure(is_told && output.status.code() == Some(1), || everything(&output))?;
    let there = files(dir.path()).len();
    ensure((3..2000).contains(&there), || format!("{there} files"))?;
    let small = "fileio --file-num=2 --file-total-size=2M --file-test-mode=rndwr --time=30 run";
    let begin = Instant::now();
    let is_running = || begin.elapsed() > Duration::from_millis(500);
    let output = interrupted(ours(small, dir.path()), is_running)?;
    let has_report = text(&output.stdout).contains("File operations");
    ensure(!output.status.success() && !has_report, || everything(&output))?;
    ensure(files(dir.path()).len() == there, "an interrupted run removed files")?;
    let endless = small.replace("--time=30", "--time=0 --report-interval=1");
    let mut child =
        ours(&endless, dir.path()).stdout(Stdio::piped()).spawn().map_err(said("ours"))?;
    drop(child.stdout.take());
    ensure(child.wait().map_err(said("ours"))?.success(), "without a reader a run goes on")?;
    done(&mut ours(&format!("{size} cleanup"), dir.path()))?;
    ensure(files(dir.path()).is_empty(), "cleanup left files")
}

pub(crate) fn old() -> Result<(), String> {
    let dir = in_memory()?;
    let size = "--test=fileio --file-num=4 --file-total-size=8M";
    done(&mut ours(&format!("{size} prepare"), dir.path()))?;
    for (line, wanted) in [
        // What published runs of these settings did: 10,000 requests, a round of syncs each 100.
        ("rndrw", "6000 Read, 4000 Write, 400 Other = 10400 Total"),
        ("rndwr --max-requests=150", "0 Read, 150 Write, 8 Other = 158 Total"),
        ("seqrd", "512 Read, 0 Write, 0 Other = 512 Total"),
        ("seqwr --num-threads=3", "0 Read, 512 Write, 4 Other = 516 Total"),
    ] {
        let text = done(&mut ours(&format!("{size} --file-test-mode={line} run"), dir.path()))?;
        ensure(text.contains(wanted), || format!("{line}: {text}"))?;
    }
    // Writes make a file longer that is a little short; reads would end there.
    let short = fs::File::options().write(true).open(dir.path().join("test_file.3"));
    short.and_then(|file| file.set_len(2_000_000)).map_err(said("test_file.3"))?;
    let run = |mode: &str| {
        output(&mut ours(
            &format!("{size} --file-test-mode={mode} --max-requests=9 run"),
            dir.path(),
        ))
    };
    let (read, written) = (run("rndrd")?, run("rndwr")?);
    ensure(!read.status.success(), || everything(&read))?;
    ensure(written.status.success(), || everything(&written))
}
