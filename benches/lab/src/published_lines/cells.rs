//! One measurement on a fresh device: its command lines, and the figures that they print.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;
use serde_json::Value;

use crate::devices::{self, Device, Floodwall};

/// A published measurement with a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Year {
    /// disktest on a RAID 1.
    #[value(name = "2007")]
    Y2007,
    /// sysbench beside dd on a RAID 10.
    #[value(name = "2010")]
    Y2010,
    /// dd on a server's own disks.
    #[value(name = "2016")]
    Y2016,
}

/// Of 2007, in its words; the directions differ in these alone.
const DISKTEST: [(&str, &str); 4] = [
    ("seq_read", "disktest -B 4k -h 1 -I BD -K 4 -p l -P T -T 30 -r"),
    ("seq_write", "disktest -B 4k -h 1 -I BD -K 4 -p l -P T -T 30 -w"),
    ("rnd_read", "disktest -B 4k -h 1 -I BD -K 4 -p r -P T -T 30 -r"),
    ("rnd_write", "disktest -B 4k -h 1 -I BD -K 4 -p r -P T -T 30 -w"),
];
/// The size that was published: 488,259,583 sectors, in whole blocks of 4 KiB.
const SIZE_2007: &str = "249988902912B";
/// Of 2010: the file, then the flood.
const FILE: &str = "dd if=/dev/zero of=test_file.0 bs=1024 count=10485672";
const FLOOD: &str = "dd if=/dev/zero of=dumpfile bs=1024 count=20485672";
/// Of 2016, with a name for the file.
const COPY: &str = "dd if=/dev/zero of=file bs=1M count=1000 conv=fdatasync";

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    /// All four directions under an elevator.
    Disktest {
        /// Today's name.
        elevator: &'static str,
        /// The published one.
        published: &'static str,
    },
    /// A victim alone and beside dd, under settings.
    Sysbench {
        threads: u32,
        block: u32,
        /// Name and value of `vm.dirty_bytes`, if any.
        settings: &'static [(&'static str, &'static str)],
    },
    /// dd on the server's own disks.
    Dd,
}

const DEFAULT: (&str, &str) = ("default", "default");
const MB15: (&str, &str) = ("15MB", "vm.dirty_bytes=15000000B");
const GB1: (&str, &str) = ("1GB", "vm.dirty_bytes=1000000000B");

/// What a cell measured.
pub(super) struct Found {
    pub(super) commands: Vec<String>,
    pub(super) figures: BTreeMap<String, f64>,
    pub(super) kept_up: Option<bool>,
}

impl Cell {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let victim = |threads, block, settings| Self::Sysbench { threads, block, settings };
        [
            Self::Disktest { elevator: "mq-deadline", published: "deadline" },
            Self::Disktest { elevator: "none", published: "noop" },
            Self::Dd,
            victim(10, 16384, &[DEFAULT, MB15]),
            victim(1, 16384, &[DEFAULT, MB15]),
            victim(1, 4096, &[MB15, GB1]),
        ]
        .into_iter()
    }

    pub(super) fn year(self) -> Year {
        match self {
            Self::Disktest { .. } => Year::Y2007,
            Self::Sysbench { .. } => Year::Y2010,
            Self::Dd => Year::Y2016,
        }
    }

    /// Of its file.
    pub(super) fn name(self) -> String {
        match self {
            Self::Disktest { elevator, .. } => format!("2007-disktest-{elevator}"),
            Self::Sysbench { threads, block, .. } => format!("2010-sysbench-{threads}x{block}"),
            Self::Dd => "2016-dd".to_owned(),
        }
    }

    pub(super) fn measure(self, floodwall: &Floodwall) -> anyhow::Result<Found> {
        match self {
            Self::Disktest { elevator, published } => disktest(floodwall, elevator, published),
            Self::Sysbench { threads, block, settings } => {
                sysbench(floodwall, threads, block, settings)
            }
            Self::Dd => dd(floodwall),
        }
    }
}

/// `floodwall compat` with these words, in a directory.
fn compat(floodwall: &Floodwall, words: &str, dir: &Path) -> Command {
    let mut command = Command::new(&floodwall.program);
    command.arg("compat").args(words.split(' ')).current_dir(dir);
    command
}

fn disktest(floodwall: &Floodwall, elevator: &str, published: &str) -> anyhow::Result<Found> {
    let up = ["--raw", "--scheduler", elevator, "--size", SIZE_2007];
    let device = floodwall.up("raid1-3ware-2007", &up)?;
    let mut found = Found::new();
    for (test, line) in DISKTEST {
        let words = format!("{line} {}", device.path.display());
        let run = || devices::run(&mut compat(floodwall, &words, Path::new("/")));
        if test == "rnd_write" {
            // The published runs followed each other: the card's cache was full.
            run()?;
        }
        found.figures.insert(format!("{published}.{test}"), transfers_per_s(&run()?)?);
        found.commands.push(format!("{line} /dev/sdX"));
    }
    found.look(&device)
}

/// Of `… | Total read throughput: 45353642.7B/s (43.25MB/s), IOPS 11072.7/s.`
fn transfers_per_s(report: &str) -> anyhow::Result<f64> {
    let total = report.lines().find(|line| line.contains("| Total "));
    let rate = total.and_then(|line| line.split_once("IOPS ")?.1.strip_suffix("/s."));
    rate.and_then(|rate| rate.parse().ok()).context("disktest printed no total")
}

fn sysbench(
    floodwall: &Floodwall,
    threads: u32,
    block: u32,
    settings: &[(&str, &str)],
) -> anyhow::Result<Found> {
    // The files are zeros, which take no memory.
    let device = floodwall.up("raid10-bbwc-2010", &["--size", "48GiB", "--fs", "xfs"])?;
    let dir = device.dir()?;
    let line = format!(
        "sysbench --test=fileio --file-num=1 --num-threads={threads} --file-total-size=10G \
         --file-fsync-all=on --file-test-mode=rndwr --max-time=30 --file-block-size={block} \
         --max-requests=0 run"
    );
    devices::run(&mut compat(floodwall, FILE, dir))?;
    let out = tempfile::NamedTempFile::new().context("a file for the result")?;
    let mut command = Command::new(&floodwall.program);
    command.args(["compat", "--flood-cmd", FLOOD, "--rounds", "1", "--out"]).arg(out.path());
    for (name, setting) in settings {
        command.arg("--set").arg(format!("{name}={setting}"));
    }
    devices::run(command.args(line.split(' ')).current_dir(dir))?;
    let text = std::fs::read_to_string(out.path()).context("can't read the result")?;
    let told: Value = serde_json::from_str(&text).context("the result is no JSON")?;
    let mut found = Found::new();
    let contenders = told["contenders"].as_array();
    for one in contenders.context("the result has no settings")? {
        let name = one["name"].as_str().unwrap_or_default();
        let figure = |path: &str| {
            let figure = one.pointer(path).and_then(Value::as_f64);
            figure.with_context(|| format!("{name}: the result has no {path}"))
        };
        let alone = figure("/summary/victim/iops")?;
        let beside = figure("/summary/both/iops")?;
        let flood = figure("/summary/flood/flood_bytes_per_s")? / 1e6;
        found.figures.insert(format!("{name}.alone"), alone);
        found.figures.insert(format!("{name}.beside"), beside);
        found.figures.insert(format!("{name}.dd_mb_s"), flood);
    }
    found.commands = vec![FILE.to_owned(), FLOOD.to_owned(), line];
    found.look(&device)
}

fn dd(floodwall: &Floodwall) -> anyhow::Result<Found> {
    let device = floodwall.up("usb3-btrfs-nas-2016", &["--fs", "btrfs"])?;
    let output = devices::output(&mut compat(floodwall, COPY, device.dir()?), &[0])?;
    let mut found = Found::new();
    let told = String::from_utf8_lossy(&output.stderr);
    found.figures.insert("local_mb_s".to_owned(), megabytes_per_s(&told)?);
    found.commands.push(COPY.to_owned());
    found.look(&device)
}

/// Of `1048576000 bytes (1.0 GB, 1000 MiB) copied, 15.9 s, 66.0 MB/s`, from its bytes and seconds.
fn megabytes_per_s(told: &str) -> anyhow::Result<f64> {
    let line =
        told.lines().find(|line| line.contains(" copied, ")).context("dd printed no rate")?;
    let bytes = line.split(' ').next().and_then(|bytes| bytes.parse::<f64>().ok());
    let seconds = line.split_once(" copied, ").and_then(|(_, rest)| rest.split_once(" s, "));
    let seconds = seconds.and_then(|(seconds, _)| seconds.parse::<f64>().ok());
    let (bytes, seconds) = bytes.zip(seconds).context("dd printed no bytes and seconds")?;
    Ok(bytes / seconds / 1e6)
}

impl Found {
    fn new() -> Self {
        Self { commands: Vec::new(), figures: BTreeMap::new(), kept_up: None }
    }

    /// With what the lab says of itself.
    fn look(mut self, device: &Device<'_>) -> anyhow::Result<Self> {
        self.kept_up = device.kept_up()?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_reports() {
        let report = "| x | STAT  | 1 | v1.2.8 | d | Read throughput: 4096.0B/s (0.00MB/s), IOPS \
            1.0/s.\n| x | STAT  | 1 | v1.2.8 | d | Total read throughput: 45353642.7B/s \
            (43.25MB/s), IOPS 11072.7/s.\n";
        assert_eq!(transfers_per_s(report).unwrap(), 11_072.7);
        let told = "1000+0 records in\n1000+0 records out\n1048576000 bytes (1.0 GB, 1000 MiB) \
            copied, 16 s, 65.5 MB/s\n";
        assert_eq!(megabytes_per_s(told).unwrap(), 65.536);
        assert!(transfers_per_s("").is_err() && megabytes_per_s("").is_err());
    }
}
