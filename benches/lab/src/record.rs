//! Trials on lab devices, measured once and kept as data that the simulator is held against.
//!
//! ```text
//! preset × setting: fresh device → floodwall bench (victim alone, flood alone, both)
//!                                → benches/lab/data/PRESET-SETTING.json
//! ```
//!
//! A file holds everything that repeats the trial elsewhere: scenario, device, machine, every knob
//! as it was read. It also holds the measurements second by second, with percentiles for the
//! latencies.

use std::path::Path;

use anyhow::Context;
use published::stored;
use serde_json::{Value, json};

use crate::devices::Floodwall;
use crate::setting;

/// Presets of three kinds of device, and the size of each one's cache at most.
const PRESETS: [(&str, &str); 3] =
    [("raid10-bbwc-2010", "384MiB"), ("hdd-7200", "64MiB"), ("sata-ssd", "64MiB")];

/// Names, and knobs; `DEV` stands for the device.
const SETTINGS: [(&str, &[&str]); 4] = [
    ("default", &[]),
    ("15MB", &["vm.dirty_bytes=15MB"]),
    ("64MB", &["vm.dirty_bytes=64MB"]),
    ("bfq", &["DEV.scheduler=bfq"]),
];

const SIZE: &str = "32GiB";

/// Measures the trials missing in `data`, at most `most` of them.
pub(crate) fn run(floodwall: &Floodwall, data: &Path, most: usize) -> anyhow::Result<()> {
    let cells =
        PRESETS.iter().flat_map(|preset| SETTINGS.iter().map(move |setting| (preset, setting)));
    let missing = cells.filter(|((preset, _), (name, _))| !path(data, preset, name).exists());
    for ((preset, cache), (name, knobs)) in missing.take(most) {
        eprintln!("{preset}, {name}");
        let measured = measure(floodwall, preset, cache, knobs)?;
        let path = path(data, preset, name);
        stored::write_pretty(&path, &measured)?;
    }
    Ok(())
}

fn path(data: &Path, preset: &str, setting: &str) -> std::path::PathBuf {
    data.join(format!("{preset}-{setting}.json"))
}

fn scenario(cache: &str) -> String {
    format!(
        "name = \"lab-record\"\n[[victim]]\nkind = \"commit\"\nthreads = 10\nblock = \"16KiB\"\n\
         size = \"2GiB\"\n\
         [[flood]]\nkind = \"seq\"\nblock = \"1MiB\"\nsize = \"20GiB\"\ndata = \"zero\"\n\
         [timing]\nrounds = 2\nmeasure = \"15s\"\nwarmup_max = \"30s\"\nsettle = \"5s\"\n\
         device_cache = \"{cache}\"\n"
    )
}

fn measure(
    floodwall: &Floodwall,
    preset: &str,
    cache: &str,
    knobs: &[&str],
) -> anyhow::Result<Value> {
    let device = floodwall.up(preset, &["--memory", "4GiB", "--size", SIZE, "--fs", "xfs"])?;
    let name =
        device.path.file_name().context("the device has no name")?.to_string_lossy().into_owned();
    let knobs: Vec<String> = knobs.iter().map(|knob| knob.replace("DEV", &name)).collect();
    let knobs: Vec<&str> = knobs.iter().map(String::as_str).collect();
    let scenario = scenario(cache);
    let bench = setting::with(&knobs, || device.bench(&scenario))?;
    let stats = device.stats()?;
    let host = &bench["host"];
    let lateness = &stats["timings"]["lateness"];
    Ok(json!({
        "preset": preset,
        "size": SIZE,
        "filesystem": "xfs",
        "scenario": scenario,
        "host": { "kernel": host["kernel"], "ram_bytes": host["ram_bytes"], "cpus": host["cpus"] },
        "setting": bench["trials"][0]["setting"],
        "summary": bench["summary"],
        "phases": phases(&bench),
        "lateness_us": { "p50": lateness["p50_us"], "p99": lateness["p99_us"] },
        "kept_up": stats["timings"]["kept_up"],
    }))
}

/// Every phase of every round, second by second, without the histograms.
pub(crate) fn phases(bench: &Value) -> Vec<Value> {
    let trials = bench["trials"].as_array().into_iter().flatten();
    trials
        .flat_map(|trial| {
            trial["phases"].as_array().into_iter().flatten().map(move |phase| {
                let seconds = |pointer: &str| -> Vec<Value> {
                    let intervals = phase["intervals"].as_array().into_iter().flatten();
                    intervals.map(|i| i.pointer(pointer).cloned().unwrap_or(Value::Null)).collect()
                };
                json!({
                    "round": trial["round"],
                    "name": phase["name"],
                    "victim": phase["victim"],
                    "flood_bytes_per_s": phase["flood"]["bytes_per_s"],
                    "warmup_seconds": phase["warmup"]["seconds"],
                    "ops_each_second": seconds("/victim/ops"),
                    "flood_bytes_each_second": seconds("/flood/bytes"),
                    "dirty_bytes_each_second": seconds("/host/dirty_bytes"),
                    "dirty_threshold_bytes": seconds("/host/dirty_threshold_bytes").first(),
                })
            })
        })
        .collect()
}
