//! A copy to a removable disk beside commits and writes on the system's disk, under the kernel's
//! limits alone and with the limit of `floodwall persist --removable`.
//!
//! ```text
//! round × removable disk × way: two fresh devices, the machine's limits of a desktop
//!   ─▶ fio alone ─▶ dd to the removable disk, then sync ┐ beside fio, then beside a write
//!   ─▶ DATA/….json ─▶ all files: a row a disk and way ─▶ docs/usb.md
//! ```
//!
//! A stored measurement is not repeated, so an interrupted run goes on where it was.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use published::origin::Origin;
use published::stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::devices::{self, Device, Floodwall};
use crate::stamp::{self, Stamp};
use crate::{rounds, setting, trials};

/// The code that the figures depend on.
const INPUTS: [&str; 2] = ["lab", "device-presets"];
const DATA: &str = "benches/lab/usb";
const NAME: &str = "lab-usb";
const COMMAND: &str = "make lab-usb";
/// The system's disk.
const SYSTEM: &str = "sata-ssd";
/// The limits that 8 GB of free memory and page cache have by default.
const LIMITS: [&str; 2] = ["vm.dirty_bytes=1600MB", "vm.dirty_background_bytes=800MB"];
/// From the copy's start to the victim's: the copy has filled the memory that it may fill by then.
const HEAD_START: Duration = Duration::from_secs(5);
/// Of the program that writes to the system's disk without a commit.
const APPLICATION_MIB: u64 = 256;

/// A removable disk by its preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Disk {
    UsbStick,
    SdCard,
    /// As a USB 3 disk.
    #[value(name = "hdd-7200")]
    Hdd7200,
}

impl Disk {
    const ALL: [Self; 3] = [Self::UsbStick, Self::SdCard, Self::Hdd7200];

    fn preset(self) -> &'static str {
        match self {
            Self::UsbStick => "usb-stick",
            Self::SdCard => "sd-card",
            Self::Hdd7200 => "hdd-7200",
        }
    }

    /// The copy's size: it has to go on for a minute beyond half-way between the limits.
    fn copy_mib(self) -> u64 {
        match self {
            Self::UsbStick | Self::SdCard => 2048,
            Self::Hdd7200 => 8192,
        }
    }
}

/// The limit of the removable disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// None: the machine's limit alone.
    Default,
    /// That of `persist --removable`.
    Removable,
    /// A larger one.
    #[value(name = "64mib")]
    Large,
}

impl Way {
    const ALL: [Self; 3] = [Self::Default, Self::Removable, Self::Large];

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Removable => "removable",
            Self::Large => "64mib",
        }
    }

    /// As the document's table calls it.
    fn words(self) -> &'static str {
        match self {
            Self::Default => "none (before)",
            Self::Removable => "16 MiB (after)",
            Self::Large => "64 MiB",
        }
    }

    fn limit(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Removable => Some("16MiB"),
            Self::Large => Some("64MiB"),
        }
    }
}

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these removable disks
    #[arg(long, value_delimiter = ',', default_values = Disk::ALL.map(Disk::preset))]
    disks: Vec<Disk>,
    /// Only these limits
    #[arg(long, value_delimiter = ',', default_values = Way::ALL.map(Way::name))]
    ways: Vec<Way>,
    /// Rounds of each
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of the commits, alone and beside the copy
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// The directory of stored measurements, which are not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/usb.md")]
    out: PathBuf,
}

/// A stored measurement.
#[derive(Deserialize, Serialize)]
struct Measured {
    disk: String,
    way: String,
    #[serde(flatten)]
    stamp: Stamp,
    figures: Figures,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Figures {
    commits_alone_per_s: f64,
    commits_beside_per_s: f64,
    p99_alone_us: f64,
    p99_beside_us: f64,
    /// A program's buffered write to the system's disk, and whether the copy had not ended by then.
    application_s: f64,
    application_is_beside: bool,
    /// A program's sync(2) after that.
    sync_s: f64,
    copy_bytes: u64,
    copy_s: f64,
    /// From the copy's start to the end of the sync after it.
    safe_to_remove_s: f64,
}

/// Takes the missing measurements, and writes the table of all stored ones.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    for round in 1..=options.rounds {
        for disk in &options.disks {
            for way in &options.ways {
                let name = format!("{}-{}-{round}", disk.preset(), way.name());
                let path = options.data.join(format!("{name}.json"));
                if path.exists() {
                    continue;
                }
                eprintln!("{name}");
                let mut stamp = Stamp::now(round, &INPUTS)?;
                let (figures, kept_up) = measure(floodwall, *disk, *way, options.seconds)?;
                stamp.kept_up = kept_up;
                let (disk, way) = (disk.preset().to_owned(), way.name().to_owned());
                stored::write_pretty(&path, &Measured { disk, way, stamp, figures })?;
            }
        }
    }
    trials::publish(section(&options.data)?, Some(&options.out), NAME, COMMAND)
}

/// Measures on fresh devices. Returns also whether the lab kept up with both models.
fn measure(
    floodwall: &Floodwall,
    disk: Disk,
    way: Way,
    seconds: u32,
) -> anyhow::Result<(Figures, Option<bool>)> {
    let system = floodwall.up(SYSTEM, &["--fs", "ext4"])?;
    let name = format!("bench-removable-{}", std::process::id());
    let removable = floodwall.up_as(&name, disk.preset(), &["--fs", "ext4"])?;
    let mut knobs: Vec<String> = LIMITS.map(str::to_owned).to_vec();
    if let Some(limit) = way.limit() {
        let node = removable.path.file_name().context("the device has no name")?.to_string_lossy();
        knobs.push(format!("{node}.bdi.max_bytes={limit}"));
        knobs.push(format!("{node}.bdi.strict_limit=1"));
    }
    let knobs: Vec<&str> = knobs.iter().map(String::as_str).collect();
    let figures = setting::with(&knobs, || figures(&system, &removable, disk, seconds))?;
    let kept_up = system.kept_up()?.zip(removable.kept_up()?).map(|(one, other)| one && other);
    Ok((figures, kept_up))
}

fn figures(
    system: &Device<'_>,
    removable: &Device<'_>,
    disk: Disk,
    seconds: u32,
) -> anyhow::Result<Figures> {
    let alone = commits(system.dir()?, seconds)?;
    let target = removable.dir()?.to_owned();
    thread::scope(|scope| {
        let copy = scope.spawn(|| {
            let start = Instant::now();
            zeros(&target.join("copy"), disk.copy_mib())?;
            let copy_s = start.elapsed().as_secs_f64();
            devices::run(Command::new("sync").arg("-f").arg(&target))?;
            anyhow::Ok((copy_s, start.elapsed().as_secs_f64()))
        });
        thread::sleep(HEAD_START);
        let beside = commits(system.dir()?, seconds)?;
        let start = Instant::now();
        zeros(&system.dir()?.join("application"), APPLICATION_MIB)?;
        let application_s = start.elapsed().as_secs_f64();
        let application_is_beside = !copy.is_finished();
        let start = Instant::now();
        devices::run(&mut Command::new("sync"))?;
        let sync_s = start.elapsed().as_secs_f64();
        let copied = copy.join().map_err(|_| anyhow::anyhow!("the copy's thread panicked"))?;
        let (copy_s, safe_to_remove_s) = copied?;
        Ok(Figures {
            commits_alone_per_s: alone.0,
            commits_beside_per_s: beside.0,
            p99_alone_us: alone.1,
            p99_beside_us: beside.1,
            application_s,
            application_is_beside,
            sync_s,
            copy_bytes: disk.copy_mib() << 20,
            copy_s,
            safe_to_remove_s,
        })
    })
}

/// A buffered write. The lab keeps zeros without memory.
fn zeros(file: &Path, mib: u64) -> anyhow::Result<()> {
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=1M", "status=none"]).arg(format!("count={mib}"));
    devices::run(dd.arg(format!("of={}", file.display()))).map(drop)
}

/// Commits of 16 KiB by one thread: their rate, and the 99th percentile of a commit in µs.
fn commits(directory: &Path, seconds: u32) -> anyhow::Result<(f64, f64)> {
    let mut fio = Command::new("fio");
    fio.args(["--name=victim", "--size=64M", "--rw=randwrite", "--bs=16k", "--sync=dsync"])
        .args(["--time_based", "--output-format=json", &format!("--runtime={seconds}")])
        .arg(format!("--filename={}", directory.join("victim").display()));
    let result: Value = serde_json::from_str(&devices::run(&mut fio)?).context("fio's JSON")?;
    let figure = |path: &str| {
        let value = result.pointer(path).and_then(Value::as_f64);
        value.with_context(|| format!("fio's JSON has no {path}"))
    };
    let p99_ns = figure("/jobs/0/write/clat_ns/percentile/99.000000")?;
    Ok((figure("/jobs/0/write/iops")?, p99_ns / 1e3))
}

/// The table of all stored measurements, and the origin of their code.
fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let all: Vec<Measured> = stored::read_all(data)?.into_values().collect();
    let origins: Vec<Origin> = all.iter().map(|one| one.stamp.origin.clone()).collect();
    Ok((table(&all), Origin::of_parts(&origins)))
}

fn table(all: &[Measured]) -> String {
    if all.is_empty() {
        return "Nothing is measured yet.\n".to_owned();
    }
    let stamps: Vec<&Stamp> = all.iter().map(|one| &one.stamp).collect();
    let late = stamp::late(&stamps).map(|late| format!(" {late}.")).unwrap_or_default();
    let mut text = format!(
        "{}{late} The middle of the rounds, and in brackets each round.\n\n\
         | removable disk | its limit | commits/s alone | beside | p99 alone, ms | beside, ms | \
         256 MiB to the system's disk, s | sync, s | copy, GiB | copy, s | safe to remove, s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        stamp::circumstances(&stamps)
    );
    for disk in Disk::ALL {
        for way in Way::ALL {
            let same = |one: &&Measured| one.disk == disk.preset() && one.way == way.name();
            let mut rounds: Vec<&Measured> = all.iter().filter(same).collect();
            rounds.sort_by_key(|one| one.stamp.round);
            let Some(first) = rounds.first() else { continue };
            // A write after the copy's end says nothing of the copy.
            let beside = rounds.iter().all(|one| one.figures.application_is_beside);
            let if_beside = |figure: fn(&Figures) -> f64| {
                if beside { cell(&rounds, 1, figure) } else { "–".to_owned() }
            };
            let (application, sync) = (if_beside(|f| f.application_s), if_beside(|f| f.sync_s));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {application} | {sync} | {} | {} | {} |",
                disk.preset(),
                way.words(),
                cell(&rounds, 0, |f| f.commits_alone_per_s),
                cell(&rounds, 0, |f| f.commits_beside_per_s),
                cell(&rounds, 1, |f| f.p99_alone_us / 1e3),
                cell(&rounds, 1, |f| f.p99_beside_us / 1e3),
                first.figures.copy_bytes >> 30,
                cell(&rounds, 0, |f| f.copy_s),
                cell(&rounds, 0, |f| f.safe_to_remove_s),
            );
        }
    }
    text
}

/// The median of the rounds, and in brackets the figure of each round if there are several.
fn cell(measured: &[&Measured], digits: usize, figure: impl Fn(&Figures) -> f64) -> String {
    rounds::cell(measured.iter().map(|one| figure(&one.figures)).collect(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_table_follows_from_what_is_stored() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join("docs/usb.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == NAME).unwrap();
        let (section, origin) = section(&root.join(DATA)).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }
}
