//! fio 3.33 and ours, in turn: every label, unit, key, type and separator of their reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::thread;

use floodwall_testing::disk::Disk;
use floodwall_testing::process::done;
use floodwall_testing::{ensure, said};

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Command lines whose reports are compared in each of [`FORMATS`].
const LINES: [&str; 14] = [
    "--name=mytest --rw=write --ioengine=sync --fdatasync=1 --size=512k --bs=2300",
    "--name=x --rw=randrw --ioengine=libaio --iodepth=8 --direct=1 --disk_util=0 --size=1m --bs=4k",
    "--name=x --rw=randread --numjobs=3 --group_reporting --thread --size=1m",
    "--name=rand_rw_4k --ioengine=libaio --rw=randrw --rwmixread=50 --bs=4k --iodepth=64 \
     --numjobs=2 --size=1m --gtod_reduce=1 --direct=1 --disk_util=0 --group_reporting",
    "--disable_lat=1 --disable_clat=1 --disable_slat=1 --size=1m --name=p --rw=write",
    "--clat_percentiles=0 --size=1m --name=p --rw=write --fsync=32",
    "--percentile_list=50:99:99.9 --lat_percentiles=1 --slat_percentiles=1 --name=p --size=1m \
     --rw=read --ioengine=libaio",
    "--size=1m --description=both --name=a --rw=write --name=b --stonewall --rw=read --bs=64k",
    "--group_reporting --size=1m --name=a --rw=read --numjobs=2 --name=b --new_group --rw=write",
    "--size=1m --name=a --rw=read --name=b --rw=write --bs=4k,8k",
    "--name=t --rw=randrw --time_based --runtime=2 --rate_iops=200 --size=1m --fsync=16",
    "--name=t --rw=write --time_based --runtime=2 --rate_iops=100 --size=1m --numjobs=2 \
     --group_reporting",
    "--kb_base=1000 --name=k --rw=rw --bs=64k --size=1m --time_based --runtime=2 --rate_iops=100",
    "--name=n --rw=write --nrfiles=2 --size=2m --end_fsync=1 --loops=2",
];
/// What the words of a run with requests of its own device have.
const DIRECT: &str = "--direct=1";
/// What the words of a run have that takes several intervals.
const TIMED: &str = "--runtime=2";
const FORMATS: [&str; 4] = ["normal", "json", "terse", "json,normal"];
/// Runs with logs, of requests and of intervals.
const LOGS: [&str; 5] = [
    "--name=q --rw=randrw --size=256k --write_bw_log=q --write_iops_log=q --write_lat_log=q",
    "--name=q --rw=randrw --size=1m --time_based --runtime=2200ms --rate_iops=100 --numjobs=2 \
     --log_avg_msec=500 --write_bw_log=q --write_iops_log=q --write_lat_log=q",
    "--name=q --rw=randrw --size=256k --disable_bw=1 --disable_lat=1 --write_bw_log=q \
     --write_iops_log=q --write_lat_log=q",
    "--name=q --rw=randrw --size=256k --gtod_reduce=1 --write_bw_log=q --write_iops_log=q \
     --write_lat_log=q",
    "--name=q --rw=randrw --size=1m --time_based --runtime=1200ms --rate_iops=100 \
     --gtod_reduce=1 --log_avg_msec=200 --write_bw_log=q --write_iops_log=q --write_lat_log=q",
];
/// A run on a disk, and one without its figures.
const ON_DISK: [&str; 2] = [
    "--name=x --rw=randwrite --direct=1 --size=1m --fsync=8",
    "--name=x --rw=randwrite --direct=1 --size=1m --disk_util=0",
];

pub(crate) fn ours(words: &str, dir: &Path) -> Command {
    let mut command = Command::new(FLOODWALL);
    command.args(["compat", "fio"]).args(words.split_whitespace()).current_dir(dir);
    command
}

pub(crate) fn theirs(words: &str, dir: &Path) -> Command {
    let mut command = Command::new("fio");
    command.args(words.split_whitespace()).current_dir(dir);
    command
}

pub(crate) fn layouts() -> Result<(), String> {
    let formats = |words| FORMATS.map(|format| format!("--output-format={format} {words}"));
    let mut lines: Vec<String> = LINES.iter().flat_map(formats).collect();
    lines.push(format!("--output-format=json+ {}", LINES[0]));
    let mut apart = Vec::new();
    for words in &lines {
        let dir = || if words.contains(DIRECT) { on_disk() } else { in_memory() };
        apart.extend(compare(words, dir()?.path(), dir()?.path()).err());
    }
    let (all, equal) = (lines.len(), lines.len() - apart.len());
    writeln!(io::stdout(), "reports that are equal: {equal} of {all}").map_err(said("stdout"))?;
    ensure(apart.is_empty(), || apart.join("\n"))
}

pub(crate) fn disks() -> Result<(), String> {
    let disk = Disk::new("ext4", 64)?;
    for words in ON_DISK {
        for format in FORMATS {
            let in_disk = || tempfile::tempdir_in(disk.path()).map_err(said("a directory"));
            let words = format!("--output-format={format} {words}");
            compare(&words, in_disk()?.path(), in_disk()?.path())?;
        }
    }
    Ok(())
}

pub(crate) fn logs() -> Result<(), String> {
    for words in LOGS {
        let (one, other) = (in_memory()?, in_memory()?);
        done(&mut ours(words, one.path()))?;
        done(&mut theirs(words, other.path()))?;
        let (own, original) = (log_columns(one.path())?, log_columns(other.path())?);
        ensure(original.len() >= 2 && own == original, || {
            format!("fio {words}:\nours:   {own:?}\ntheirs: {original:?}")
        })?;
    }
    Ok(())
}

/// By each log's name: the columns behind the time and the figure.
fn log_columns(dir: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let mut logs = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(said("logs"))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".log") {
            let text = fs::read_to_string(entry.path()).map_err(said(&name))?;
            let columns = |line: &str| line.splitn(3, ", ").nth(2).unwrap_or(line).to_owned();
            logs.insert(name, text.lines().map(columns).collect());
        }
    }
    Ok(logs)
}

/// Where direct requests are possible: tmpfs has them since Linux 6.6.
pub(crate) fn on_disk() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(said("a directory"))
}

pub(crate) fn in_memory() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir_in("/dev/shm").map_err(said("a directory"))
}

fn compare(words: &str, one: &Path, other: &Path) -> Result<(), String> {
    // At the same time: most of it is waiting.
    let (own, original) = thread::scope(|scope| {
        let original = scope.spawn(|| done(&mut theirs(words, other)));
        (done(&mut ours(words, one)), original.join())
    });
    let (own, original) = (own?, original.map_err(|_| "fio's thread")??);
    let has_intervals = words.contains(TIMED);
    let (a, b) = (layout(&own, has_intervals), layout(&original, has_intervals));
    let apart = a.iter().zip(&b).find(|(a, b)| a != b);
    ensure(a.len() == b.len() && apart.is_none(), || {
        format!("fio {words}: {apart:#?}\nours:\n{own}\ntheirs:\n{original}")
    })
}

/// Lines without what depends on the run: numbers, units that they choose and how many lines they
/// need. Columns are compared in the tests of floodwall-compat, against recordings. A short run has
/// lines of intervals only if a busy machine holds it up for half a second.
fn layout(text: &str, has_intervals: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_percentiles = line.starts_with("     |");
        let is_bucket = line.starts_with("  lat (");
        let is_interval = line.starts_with("   bw (") || line.starts_with("   iops  ");
        // A bin of json+: a whole number by a whole number.
        let is_bin = line.trim().split_once("\" : ").is_some_and(|(key, value)| {
            let is_whole = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            is_whole(key.trim_start_matches('"')) && is_whole(value.trim_end_matches(','))
        });
        let line = if line.contains(" : ") && line.trim().starts_with('"') {
            member(line)
        } else {
            masked(line)
        };
        match lines.last_mut() {
            Some(last) if is_percentiles && last.starts_with("     |") => {
                *last += line.trim_start_matches("     |");
            }
            _ if is_bin || is_bucket || is_interval && !has_intervals => {}
            _ => lines.push(line),
        }
    }
    lines
}

/// A member of a JSON object: its name as it is, its value masked, an option's value as it is.
fn member(line: &str) -> String {
    match line.split_once(" : ") {
        Some((key, value)) if !value.starts_with('"') || key.ends_with("\"time\"") => {
            format!("{key} : {}", masked(value))
        }
        _ => line.to_owned(),
    }
}

/// Whole numbers as `#`, others as `#.` and a `#` for each decimal; prefixes of units, too. A
/// number of few digits may have any number of decimals before a prefix.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        // Blanks before a number are its column's.
        masked += rest[..at].trim_end_matches(' ');
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..end];
        rest = &rest[end..];
        let has_unit = prefix(rest);
        match (has_unit, number.split_once('.')) {
            (None, Some((_, decimals))) => masked += &format!("#.{}", "#".repeat(decimals.len())),
            _ => masked.push('#'),
        }
        let unit = &rest[..has_unit.unwrap_or_default()];
        // Powers of 1,024 or of 1,000.
        masked += unit.trim_start_matches(['k', 'K', 'M', 'G']);
        rest = &rest[unit.len()..];
    }
    masked += rest;
    for unit in ["nsec", "usec"] {
        masked = masked.replace(&format!("({unit})"), "(msec)");
    }
    masked.replace("bw (  MiB/s)", "bw (  KiB/s)")
}

/// How long the prefix of a unit is, for `k`, `KiB`, `MB/s` and so on, and for `B` alone.
fn prefix(rest: &str) -> Option<usize> {
    let letter = rest.chars().next().filter(|c| "kKMGB".contains(*c))?;
    let after = &rest[1..];
    let is_binary = letter != 'B' && after.starts_with("iB");
    let is_decimal = letter != 'B' && after.starts_with('B');
    let length = if is_binary {
        3
    } else if is_decimal {
        2
    } else {
        1
    };
    let ends = rest[length..].chars().next().is_none_or(|c| !c.is_ascii_alphanumeric());
    ends.then_some(length)
}
