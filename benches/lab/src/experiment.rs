//! The experiment of 2010, redone: commits beside dd on a ten-disk array with a protected cache, under the default setting and under 15 MB.
//!
//! ```text
//! for each setting × victim: fresh device → floodwall bench (victim alone, dd alone, both)  ┐
//!                            fresh device → sysbench alone, sysbench beside dd             ├─▶ one table beside the published figures
//! benches/published/measurements.toml ─────────────────────────────────────────────────────┘
//! ```
//!
//! Durations and the device's cache are the published ones; the database's file is scaled to memory (10 GiB of random data have to be held
//! there). Every trial begins on a fresh device, because a full cache makes the array bistable. Each measurement is kept as a file, so that an
//! interrupted run goes on where it was.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use published::document::replace_section;
use published::origin::{self, Origin};
use published::{Experiment, interrupt};
use serde_json::{Value, json};

use crate::devices::{self, Device, Floodwall, median, run_accepting};
use crate::{setting, table};

/// What the figures depend on besides the machine.
const INPUTS: [&str; 3] = ["lab", "device-presets", "published-figures"];

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seconds: u32,
    pub(crate) rounds: u32,
    pub(crate) file_gib: u64,
}

impl Plan {
    fn describe(self) -> Value {
        json!({ "seconds": self.seconds, "rounds": self.rounds, "file_gib": self.file_gib, "preset": PRESET })
    }
}

/// Where things are read and written.
pub(crate) struct Files<'a> {
    /// The published figures.
    pub(crate) published: &'a Path,
    /// The document whose section is written anew.
    pub(crate) out: &'a Path,
    /// The directory of the raw measurements.
    pub(crate) data: &'a Path,
}

pub(crate) const PRESET: &str = "raid10-bbwc-2010";
const SETTINGS: [(&str, &[&str]); 2] = [("default", &[]), ("15 MB", &["vm.dirty_bytes=15MB"])];

/// Threads and block size in KiB of the published victims.
const VICTIMS: [(u32, u32); 3] = [(10, 16), (1, 16), (1, 4)];

/// One victim under one setting.
pub(crate) struct Row {
    pub(crate) setting: &'static str,
    pub(crate) threads: u32,
    pub(crate) block_kib: u32,
    pub(crate) idle_iops: f64,
    pub(crate) flood_iops: f64,
    pub(crate) p99: String,
    pub(crate) dead: String,
    pub(crate) sequential_mb_s: f64,
    pub(crate) kept_up: String,
}

/// sysbench's own word: commits a second idle and beside dd, medians over the rounds.
pub(crate) struct Sysbench {
    pub(crate) setting: &'static str,
    pub(crate) idle: f64,
    pub(crate) beside: f64,
}

/// One measurement of the experiment, on a device of its own.
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

    fn measure(self, floodwall: &Floodwall, plan: Plan) -> anyhow::Result<Value> {
        setting::with(self.knobs, || match self.who {
            Who::Floodwall { threads, block_kib } => bench(floodwall, plan, threads, block_kib),
            Who::Sysbench => by_sysbench(floodwall, plan),
        })
    }
}

/// Measures what is not yet in `data` (at most `most` cells), and writes the section anew once nothing is missing.
pub(crate) fn run(floodwall: &Floodwall, plan: Plan, files: &Files<'_>, most: usize) -> anyhow::Result<()> {
    let root = origin::root()?;
    let published = Experiment::read(files.published, "adaptec_raid10_2010")?;
    std::fs::create_dir_all(files.data).with_context(|| format!("can't make '{}'", files.data.display()))?;
    let (mut rows, mut sysbench) = (Vec::new(), Vec::new());
    let (mut measured, mut missing) = (0, 0);
    let mut origins = Vec::new();
    for cell in Cell::all() {
        let path = files.data.join(format!("{}.json", cell.name().replace(' ', "-")));
        let found = match stored(&path, plan)? {
            Some(found) => found,
            None if measured == most => {
                missing += 1;
                continue;
            }
            None => {
                eprintln!("{}", cell.name());
                let origin = Origin::now(&root, &INPUTS)?;
                let measured_now = cell.measure(floodwall, plan)?;
                let found = json!({ "plan": plan.describe(), "origin": origin, "measured": measured_now });
                std::fs::write(&path, found.to_string())
                    .with_context(|| format!("can't write '{}'", path.display()))?;
                measured += 1;
                found
            }
        };
        origins.push(origin::of_measurement(&found));
        let found = found.get("measured").context("no measurement in it")?;
        match cell.who {
            Who::Floodwall { threads, block_kib } => rows.push(row(found, cell.setting, threads, block_kib)?),
            Who::Sysbench => sysbench.push(sysbench_row(found, cell.setting)?),
        }
    }
    if missing > 0 {
        eprintln!("{missing} cells are still to be measured: run it again to go on");
        return Ok(());
    }
    let section = table::section(plan, &rows, &sysbench, &published);
    print!("{section}");
    let origin = Origin::of_parts(&origins);
    replace_section(files.out, "lab-2010", "make lab-2010", &section, &origin, &root)
}

/// An earlier run's measurement of the same plan.
fn stored(path: &Path, plan: Plan) -> anyhow::Result<Option<Value>> {
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("can't read '{}'", path.display()))?,
    };
    let value: Value = serde_json::from_str(&text)
        .with_context(|| format!("'{}' is no measurement; remove it", path.display()))?;
    Ok((value.get("plan") == Some(&plan.describe())).then_some(value))
}

fn up<'a>(floodwall: &'a Floodwall, plan: Plan) -> anyhow::Result<Device<'a>> {
    let memory = format!("{}GiB", plan.file_gib + 2);
    floodwall.up(PRESET, &["--memory", &memory, "--size", "32GiB", "--fs", "xfs"])
}

fn bench(floodwall: &Floodwall, plan: Plan, threads: u32, block_kib: u32) -> anyhow::Result<Value> {
    let device = up(floodwall, plan)?;
    // The array holds every byte twice in 512 MiB and writes back while it fills: from 384 MiB on it is full, whoever writes.
    let scenario = format!(
        "name = \"lab-2010\"\n[[victim]]\nkind = \"commit\"\nthreads = {threads}\nblock = \"{block_kib}KiB\"\nsize = \"{}GiB\"\n\
         [[flood]]\nname = \"dd\"\nkind = \"seq\"\nblock = \"1KiB\"\nsize = \"20977328128B\"\ndata = \"zero\"\n\
         [timing]\nrounds = {}\nmeasure = \"{}s\"\nwarmup_max = \"60s\"\nsettle = \"5s\"\ndevice_cache = \"384MiB\"\n",
        plan.file_gib,
        // The other victims have one published figure each: they are shown, not compared.
        if threads == 10 { plan.rounds } else { 1 },
        plan.seconds
    );
    let file = std::env::temp_dir().join(format!("lab-2010-{}.toml", std::process::id()));
    std::fs::write(&file, scenario).context("can't write the scenario")?;
    let mut command = Command::new(&floodwall.program);
    command.args(["bench", "--json", "--progress", "never", "--scenario"]).arg(&file).arg(device.dir()?);
    // 3: measured, not conclusive; the figures count all the same.
    let json = run_accepting(&mut command, &[0, 3]);
    std::fs::remove_file(&file).context("can't remove the scenario")?;
    let json: Value = serde_json::from_str(&json?).context("bench --json")?;
    let stats = device.stats()?;
    Ok(json!({ "bench": json, "lab": stats }))
}

fn row(found: &Value, setting: &'static str, threads: u32, block_kib: u32) -> anyhow::Result<Row> {
    let figure =
        |path: &str| found.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"));
    let p99 = found.pointer("/bench/summary/both/operation_us/p99").and_then(Value::as_f64);
    let dead = figure("/bench/summary/dead_seconds/value")?;
    Ok(Row {
        setting,
        threads,
        block_kib,
        idle_iops: figure("/bench/summary/victim/iops")?,
        flood_iops: figure("/bench/summary/both/iops")?,
        p99: p99.map_or("–".into(), |us| format!("{:.1}", us / 1e3)),
        dead: format!("{dead:.0} of {:.0}", figure("/bench/summary/of_seconds")?),
        sequential_mb_s: figure("/bench/summary/flood/flood_bytes_per_s")? / 1e6,
        kept_up: lateness(&found["lab"]),
    })
}

fn lateness(stats: &Value) -> String {
    let p99 = stats.pointer("/timings/lateness/p99_us").and_then(Value::as_f64);
    let kept_up = stats.pointer("/timings/kept_up").and_then(Value::as_bool);
    let mark = if kept_up == Some(false) { ", too late" } else { "" };
    p99.map_or("–".into(), |us| format!("{us:.0} µs{mark}"))
}

/// dd, written again and again until it is dropped.
struct Dd(Child);

impl Dd {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        // The published command, in a loop: it has to outlast the victim.
        let loop_forever = "trap 'kill $!; exit' TERM; while :; do dd if=/dev/zero of=dd.data bs=1024 count=20485672 & wait $!; done";
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
        let ended = Command::new("kill").arg(self.0.id().to_string()).status().and_then(|_| self.0.wait());
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
        // Until the array's cache is full of random blocks: what follows then has one rate, not two.
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
    let middle = |what: &str| {
        let rounds: Vec<f64> =
            found[what].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        median(&rounds).with_context(|| format!("no rounds of sysbench, {what}"))
    };
    Ok(Sysbench { setting, idle: middle("idle")?, beside: middle("beside_dd")? })
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
    // Random contents, as with --validate: prepare's zeros would take no memory, and no space either.
    sysbench.args(["--validate=on", "--threads=10", "--file-block-size=16384", "--percentile=95"]);
    sysbench.arg(format!("--file-total-size={}G", plan.file_gib)).arg(format!("--time={}", plan.seconds));
    sysbench
}

fn writes_per_s(report: &str) -> anyhow::Result<f64> {
    let line = report
        .lines()
        .find(|l| l.trim_start().starts_with("writes/s:"))
        .context("sysbench printed no writes/s")?;
    line.split_whitespace().last().and_then(|n| n.parse().ok()).context("sysbench's writes/s is no number")
}
