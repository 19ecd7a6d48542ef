//! The experiment of 2010, redone: commits beside dd on a ten-disk array with a protected cache, under the default setting and under 15 MB.
//!
//! ```text
//! for each setting × victim: fresh device → floodwall bench (victim alone, dd alone, both)  ┐
//!                            fresh device → sysbench alone, sysbench beside dd             ├─▶ one table beside the published figures
//! benches/published/measurements.toml ─────────────────────────────────────────────────────┘
//! ```
//!
//! Durations and the device's cache are the published ones; the database's file is scaled to memory (10 GiB of random data have to be held
//! there). Every trial begins on a fresh device, because a full cache makes the array bistable.

use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::devices::{self, Device, Floodwall, median, run_accepting};
use crate::setting;

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seconds: u32,
    pub(crate) rounds: u32,
    pub(crate) file_gib: u64,
}

const PRESET: &str = "raid10-bbwc-2010";
const SETTINGS: [(&str, &[&str]); 2] = [("default", &[]), ("15 MB", &["vm.dirty_bytes=15MB"])];

/// Threads and block size in KiB of the published victims.
const VICTIMS: [(u32, u32); 3] = [(10, 16), (1, 16), (1, 4)];

/// One victim under one setting.
struct Row {
    setting: &'static str,
    threads: u32,
    block_kib: u32,
    idle_iops: f64,
    flood_iops: f64,
    p95_or_p99: String,
    dead: String,
    sequential_mb_s: f64,
    kept_up: String,
}

/// Runs everything and writes the section anew.
pub(crate) fn run(floodwall: &Floodwall, plan: Plan, published: &Path, out: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(published)
        .with_context(|| format!("can't read '{}'", published.display()))?;
    let published: toml::Table = text.parse().context("the published figures")?;
    let published = published.get("adaptec_raid10_2010").context("the published figures of 2010")?.clone();
    let mut rows = Vec::new();
    for (name, knobs) in SETTINGS {
        for (threads, block_kib) in VICTIMS {
            eprintln!("{name}: floodwall, {threads} × {block_kib} KiB");
            rows.push(setting::with(knobs, || bench(floodwall, plan, name, threads, block_kib))?);
        }
    }
    let mut sysbench = Vec::new();
    for (name, knobs) in SETTINGS {
        eprintln!("{name}: sysbench, 10 × 16 KiB");
        sysbench.push((name, setting::with(knobs, || by_sysbench(floodwall, plan))?));
    }
    let section = section(plan, &rows, &sysbench, &published);
    print!("{section}");
    replace_section(out, &section)
}

fn up<'a>(floodwall: &'a Floodwall, plan: Plan) -> anyhow::Result<Device<'a>> {
    let memory = format!("{}GiB", plan.file_gib + 2);
    floodwall.up(PRESET, &["--memory", &memory, "--size", "32GiB", "--fs", "xfs"])
}

fn bench(
    floodwall: &Floodwall,
    plan: Plan,
    setting: &'static str,
    threads: u32,
    block_kib: u32,
) -> anyhow::Result<Row> {
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
    let figure =
        |path: &str| json.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"));
    let p99 = json.pointer("/summary/both/operation_us/p99").and_then(Value::as_f64);
    Ok(Row {
        setting,
        threads,
        block_kib,
        idle_iops: figure("/summary/victim/iops")?,
        flood_iops: figure("/summary/both/iops")?,
        p95_or_p99: p99.map_or("–".into(), |us| format!("{:.1}", us / 1e3)),
        dead: format!(
            "{:.0} of {:.0}",
            figure("/summary/dead_seconds/value")?,
            figure("/summary/of_seconds")?
        ),
        sequential_mb_s: figure("/summary/flood/flood_bytes_per_s")? / 1e6,
        kept_up: lateness(&device)?,
    })
}

fn lateness(device: &Device<'_>) -> anyhow::Result<String> {
    let stats = device.stats()?;
    let p99 = stats.pointer("/timings/lateness/p99_us").and_then(Value::as_f64);
    let kept_up = stats.pointer("/timings/kept_up").and_then(Value::as_bool);
    let mark = if kept_up == Some(false) { ", too late" } else { "" };
    Ok(p99.map_or("–".into(), |us| format!("{us:.0} µs{mark}")))
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

/// sysbench's own word: IOPS idle and beside dd, medians over the rounds.
fn by_sysbench(floodwall: &Floodwall, plan: Plan) -> anyhow::Result<(f64, f64)> {
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
        std::thread::sleep(std::time::Duration::from_secs(15));
        flood.push(writes_per_s(&devices::run(sysbench(dir, plan).arg("run"))?)?);
        drop(dd);
    }
    Ok((median(&idle).context("no rounds")?, median(&flood).context("no rounds")?))
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

/// The published figures for a victim: idle, default flood, 15 MB flood.
fn published_iops(published: &toml::Value, threads: u32, block_kib: u32, key: &str) -> Option<f64> {
    let results = published.get("result")?.as_array()?;
    let entry = results.iter().find(|r| {
        r.get("threads").and_then(toml::Value::as_integer) == Some(i64::from(threads))
            && r.get("block_bytes").and_then(toml::Value::as_integer) == Some(i64::from(block_kib) * 1024)
    })?;
    let number = |v: &toml::Value| v.as_float().or_else(|| v.as_integer().map(|n| n as f64));
    let found = entry.get(key).and_then(number);
    // The 4 KiB runs were published as full reports under other names.
    let report = |name: &str| entry.get(name).and_then(|r| r.get("iops")).and_then(number);
    found.or_else(|| match key {
        "idle_iops" => report("idle_dirty_bytes_15MB"),
        "flood_dirty_bytes_15MB_iops" => report("flood_dirty_bytes_15MB"),
        _ => None,
    })
}

fn section(plan: Plan, rows: &[Row], sysbench: &[(&str, (f64, f64))], published: &toml::Value) -> String {
    let shown = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.0}"));
    let mut out = format!(
        "Preset `{PRESET}` behind the real kernel, xfs, {} s a phase, {} rounds for ten threads and one for the others; the file has {} GiB (published: 10). \
         \"15 MB\" is `vm.dirty_bytes` = 15,000,000 (the kernel then begins to write at half of it). p99 in ms; *dead* are seconds with under a tenth of the idle rate.\n\n",
        plan.seconds, plan.rounds, plan.file_gib
    );
    out.push_str("| victim | setting | idle IOPS, published | lab | beside dd, published | lab | p99 beside | dead | dd alone MB/s | lateness p99 |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        let key = if row.setting == "default" { "flood_default_iops" } else { "flood_dirty_bytes_15MB_iops" };
        let _ = writeln!(
            out,
            "| {} × {} KiB | {} | {} | {:.0} | {} | {:.0} | {} | {} | {:.0} | {} |",
            row.threads,
            row.block_kib,
            row.setting,
            shown(published_iops(published, row.threads, row.block_kib, "idle_iops")),
            row.idle_iops,
            shown(published_iops(published, row.threads, row.block_kib, key)),
            row.flood_iops,
            row.p95_or_p99,
            row.dead,
            row.sequential_mb_s,
            row.kept_up,
        );
    }
    for (name, (idle, flood)) in sysbench {
        let _ = writeln!(
            out,
            "| 10 × 16 KiB, sysbench | {name} | 1500 | {idle:.0} | {} | {flood:.0} | | | | |",
            if *name == "default" { 33 } else { 700 }
        );
    }
    out.push_str("\nPublished sequential rates: 251 MB/s under the default setting, 216 MB/s under 15 MB.\n");
    out
}

const BEGIN: &str = "<!-- lab-2010: written by `make lab-2010` -->\n";
const END: &str = "<!-- end of lab-2010 -->\n";

/// Puts the section between its marks, which are added at the end of a document without them.
fn replace_section(path: &Path, section: &str) -> anyhow::Result<()> {
    let old = std::fs::read_to_string(path)
        .unwrap_or_else(|_| "# Reproductions\n\n## The experiment of 2010 in the lab\n\n".into());
    let new = match (old.find(BEGIN), old.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{BEGIN}{section}{}", &old[..begin], &old[end..])
        }
        _ => format!("{}\n{BEGIN}{section}{END}", old.trim_end()),
    };
    std::fs::write(path, new).with_context(|| format!("can't write '{}'", path.display()))
}
