//! The experiment of 2010, redone: commits beside dd on a ten-disk array with a protected cache,
//! under the default setting and under 15 MB.
//!
//! ```text
//! for each setting × victim:
//!   fresh device → floodwall bench (victim alone, dd alone, both) ┐
//!   fresh device → sysbench alone, sysbench beside dd             ├─▶ one table beside
//! benches/published/measurements.toml ────────────────────────────┘   the published figures
//! ```
//!
//! Durations and the device's cache are the published ones; the database's file is scaled to memory
//! (10 GiB of random data have to be held there). Every trial begins on a fresh device, because a
//! full cache makes the array bistable. Each measurement is kept as a file in
//! benches/lab/experiment-2010, so that an interrupted run goes on where it was, and the table
//! follows from these files.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use processes::interrupt;
use published::Experiment;
use published::document::replace_section;
use published::origin::{self, Origin};
use published::stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::devices::{self, Device, Floodwall};
use crate::table::{self, PRESET, Plan, Row, Sysbench};
use crate::{record, setting};

/// What the figures depend on besides the machine.
const INPUTS: [&str; 3] = ["lab", "device-presets", "published-figures"];

/// Where the raw measurements are kept.
pub(crate) const DATA: &str = "benches/lab/experiment-2010";

/// Where things are read and written.
pub(crate) struct Files<'a> {
    /// The published figures.
    pub(crate) published: &'a Path,
    /// The document whose section is written anew.
    pub(crate) out: &'a Path,
    /// The directory of the raw measurements.
    pub(crate) data: &'a Path,
}

const SETTINGS: [(&str, &[&str]); 2] = [("default", &[]), ("15 MB", &["vm.dirty_bytes=15MB"])];

/// Threads and block size in KiB of the published victims.
const VICTIMS: [(u32, u32); 3] = [(10, 16), (1, 16), (1, 4)];

/// One measurement of the experiment, on a fresh device.
#[derive(Clone, Copy)]
struct Cell {
    setting: &'static str,
    knobs: &'static [&'static str],
    who: Who,
}

#[derive(Clone, Copy)]
enum Who {
    Floodwall { threads: u32, block_kib: u32 },
    Sysbench,
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        let whos = VICTIMS.map(|(threads, block_kib)| Who::Floodwall { threads, block_kib });
        SETTINGS.into_iter().flat_map(move |(setting, knobs)| {
            whos.into_iter().chain([Who::Sysbench]).map(move |who| Self { setting, knobs, who })
        })
    }

    /// For people, and with dashes for spaces the name of its file.
    fn name(self) -> String {
        match self.who {
            Who::Floodwall { threads, block_kib } => {
                format!("{} floodwall {threads}x{block_kib}KiB", self.setting)
            }
            Who::Sysbench => format!("{} sysbench", self.setting),
        }
    }

    fn path(self, data: &Path) -> PathBuf {
        data.join(format!("{}.json", self.name().replace(' ', "-")))
    }

    fn stored(self, data: &Path) -> anyhow::Result<Stored> {
        let path = self.path(data);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("can't read '{}'", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("'{}' is no measurement; remove it", path.display()))
    }

    fn measure(self, floodwall: &Floodwall, plan: Plan) -> anyhow::Result<Value> {
        setting::with(self.knobs, || match self.who {
            Who::Floodwall { threads, block_kib } => bench(floodwall, plan, threads, block_kib),
            Who::Sysbench => by_sysbench(floodwall, plan),
        })
    }
}

/// Measures the cells missing in `data` (at most `most` of them), and writes the section anew once
/// none is missing.
pub(crate) fn run(
    floodwall: &Floodwall,
    plan: Plan,
    files: &Files<'_>,
    most: usize,
) -> anyhow::Result<()> {
    let root = origin::root()?;
    let missing: Vec<Cell> = Cell::all()
        .filter(|cell| !matches!(cell.stored(files.data), Ok(stored) if stored.plan == plan))
        .collect();
    for cell in missing.iter().take(most) {
        eprintln!("{}", cell.name());
        let origin = Origin::now(&root, &INPUTS)?;
        let stored = Stored { plan, origin, measured: cell.measure(floodwall, plan)? };
        let path = cell.path(files.data);
        stored::write(&path, &stored)?;
    }
    if missing.len() > most {
        eprintln!("{} cells are still to be measured: run it again to go on", missing.len() - most);
        return Ok(());
    }
    let (section, origin) = section(files)?;
    print!("{section}");
    replace_section(files.out, "lab-2010", "make lab-2010", &section, &origin, &root)
}

/// The table of the stored cells, and its origin.
fn section(files: &Files<'_>) -> anyhow::Result<(String, Origin)> {
    let published = Experiment::read(files.published, "adaptec_raid10_2010")?;
    let (mut rows, mut sysbench, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    let mut plan = None;
    for cell in Cell::all() {
        let stored = cell.stored(files.data)?;
        anyhow::ensure!(
            plan.is_none_or(|plan| plan == stored.plan),
            "'{}' is of another plan than the other cells; run the experiment whole",
            cell.path(files.data).display()
        );
        plan = Some(stored.plan);
        origins.push(stored.origin);
        match cell.who {
            Who::Floodwall { threads, block_kib } => {
                rows.push(row(&stored.measured, cell.setting, threads, block_kib)?);
            }
            Who::Sysbench => sysbench.push(sysbench_row(&stored.measured, cell.setting)?),
        }
    }
    let plan = plan.context("the experiment has no cells")?;
    Ok((table::section(plan, &rows, &sysbench, &published), Origin::of_parts(&origins)))
}

/// A measurement as it is kept.
#[derive(Deserialize, Serialize)]
struct Stored {
    plan: Plan,
    #[serde(default)]
    origin: Origin,
    measured: Value,
}

fn up<'a>(floodwall: &'a Floodwall, plan: Plan) -> anyhow::Result<Device<'a>> {
    let memory = format!("{}GiB", plan.file_gib + 2);
    floodwall.up(PRESET, &["--memory", &memory, "--size", "32GiB", "--fs", "xfs"])
}

fn bench(floodwall: &Floodwall, plan: Plan, threads: u32, block_kib: u32) -> anyhow::Result<Value> {
    let device = up(floodwall, plan)?;
    // The array holds every byte twice in 512 MiB and writes back while it fills. From 384 MiB on
    // it is full for every writer.
    let scenario = format!(
        "name = \"lab-2010\"\n[[victim]]\nkind = \"commit\"\nthreads = {threads}\n\
         block = \"{block_kib}KiB\"\nsize = \"{}GiB\"\n\
         [[flood]]\nname = \"dd\"\nkind = \"seq\"\nblock = \"1KiB\"\nsize = \"20977328128B\"\n\
         data = \"zero\"\n\
         [timing]\nrounds = {}\nmeasure = \"{}s\"\nwarmup_max = \"60s\"\nsettle = \"5s\"\n\
         device_cache = \"384MiB\"\n",
        plan.file_gib, plan.rounds, plan.seconds
    );
    let json = device.bench(&scenario)?;
    let stats = device.stats()?;
    let phases = record::phases(&json);
    Ok(json!({ "summary": json["summary"], "phases": phases, "lab": stats["timings"] }))
}

fn row(found: &Value, setting: &'static str, threads: u32, block_kib: u32) -> anyhow::Result<Row> {
    let figure = |path: &str| {
        found.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"))
    };
    let p99 = found.pointer("/summary/both/operation_us/p99").and_then(Value::as_f64);
    let dead = figure("/summary/dead_seconds/value")?;
    Ok(Row {
        setting,
        threads,
        block_kib,
        idle: rates(found, "victim")?,
        beside: rates(found, "both")?,
        p99: p99.map_or("–".into(), |us| format!("{:.1}", us / 1e3)),
        dead: format!("{dead:.0} of {:.0}", figure("/summary/of_seconds")?),
        sequential_mb_s: figure("/summary/flood/flood_bytes_per_s")? / 1e6,
        kept_up: lateness(&found["lab"]),
    })
}

/// The victim's rate in each round's phase of this name.
fn rates(found: &Value, phase: &str) -> anyhow::Result<Vec<f64>> {
    let phases = found["phases"].as_array().into_iter().flatten().filter(|p| p["name"] == phase);
    phases
        .map(|p| {
            p["victim"]["iops"].as_f64().with_context(|| format!("no rate in a phase '{phase}'"))
        })
        .collect()
}

fn lateness(stats: &Value) -> String {
    let p99 = stats.pointer("/lateness/p99_us").and_then(Value::as_f64);
    let kept_up = stats.pointer("/kept_up").and_then(Value::as_bool);
    let mark = if kept_up == Some(false) { ", too late" } else { "" };
    p99.map_or("–".into(), |us| format!("{us:.0} µs{mark}"))
}

/// dd, written again and again until it is dropped.
struct Dd(Child);

impl Dd {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        // The published command, in a loop: it has to outlast the victim.
        let loop_forever = "trap 'kill $!; exit' TERM; while :; do dd if=/dev/zero of=dd.data \
            bs=1024 count=20485672 & wait $!; done";
        let child = Command::new("/bin/sh")
            .args(["-c", loop_forever])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("can't start dd")?;
        Ok(Self(child))
    }
}

impl Drop for Dd {
    fn drop(&mut self) {
        // TERM first, so that the shell ends its dd.
        let ended =
            Command::new("kill").arg(self.0.id().to_string()).status().and_then(|_| self.0.wait());
        if let Err(error) = ended {
            eprintln!("dd goes on: {error}");
        }
    }
}

/// Commits a second of each round, idle and beside dd.
fn by_sysbench(floodwall: &Floodwall, plan: Plan) -> anyhow::Result<Value> {
    let (mut idle, mut flood) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let device = up(floodwall, plan)?;
        let dir = device.dir()?;
        devices::run(sysbench(dir, plan).arg("prepare"))?;
        // Until the array's cache is full of random blocks: what follows then has one rate, not
        // two.
        devices::run(sysbench(dir, Plan { seconds: 20, ..plan }).arg("run"))?;
        idle.push(writes_per_s(&devices::run(sysbench(dir, plan).arg("run"))?)?);
        let dd = Dd::start(dir)?;
        // Until the page cache is full and the flood is throttled, as in the bench's warm-up.
        interrupt::sleep(std::time::Duration::from_secs(15))?;
        flood.push(writes_per_s(&devices::run(sysbench(dir, plan).arg("run"))?)?);
        drop(dd);
    }
    Ok(json!({ "idle": idle, "beside_dd": flood }))
}

fn sysbench_row(found: &Value, setting: &'static str) -> anyhow::Result<Sysbench> {
    let rounds = |what: &str| {
        let rounds: Option<Vec<f64>> =
            found[what].as_array().into_iter().flatten().map(Value::as_f64).collect();
        rounds.with_context(|| format!("no rounds of sysbench, {what}"))
    };
    Ok(Sysbench { setting, idle: rounds("idle")?, beside: rounds("beside_dd")? })
}

fn sysbench(dir: &Path, plan: Plan) -> Command {
    let mut sysbench = Command::new("sysbench");
    sysbench.current_dir(dir).args([
        "fileio",
        "--file-num=1",
        "--file-test-mode=rndwr",
        "--file-fsync-all=on",
        "--events=0",
    ]);
    // Random contents, as with --validate: prepare's zeros would take no memory, and no space
    // either.
    sysbench.args(["--validate=on", "--threads=10", "--file-block-size=16384", "--percentile=95"]);
    sysbench
        .arg(format!("--file-total-size={}G", plan.file_gib))
        .arg(format!("--time={}", plan.seconds));
    sysbench
}

fn writes_per_s(report: &str) -> anyhow::Result<f64> {
    let line = report
        .lines()
        .find(|l| l.trim_start().starts_with("writes/s:"))
        .context("sysbench printed no writes/s")?;
    line.split_whitespace()
        .last()
        .and_then(|n| n.parse().ok())
        .context("sysbench's writes/s is no number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use published::document::sections;

    #[test]
    fn the_documents_table_follows_from_the_stored_cells() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let out = root.join("docs/reproductions.md");
        let sections = sections(&std::fs::read_to_string(&out).unwrap()).unwrap();
        let written = sections.iter().find(|section| section.name == "lab-2010").unwrap();
        let published = root.join("benches/published/measurements.toml");
        let files = Files { published: &published, out: &out, data: &root.join(DATA) };
        if !files.data.is_dir() {
            // The table is older than the raw data that would be kept of it, and says so.
            assert!(
                written.origin.is_empty(),
                "the table says what it was measured with, and no cell is stored"
            );
            return;
        }
        let (section, origin) = section(&files).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }
}
