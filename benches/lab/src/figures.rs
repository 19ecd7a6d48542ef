//! The lab's speed through the whole stack, and how close its presets are to their originals.

use std::process::Command;

use anyhow::Context;
use floodwall_stats::estimate::median;
use serde_json::Value;

use crate::devices::{Device, Floodwall};

/// Idle figures that a preset must show: name, what, fio's arguments, published or data sheet,
/// unit.
struct Idle {
    preset: &'static str,
    what: &'static str,
    args: &'static [&'static str],
    /// Size of the device: a random read's seeks depend on it. Zeros take no memory.
    size: &'static str,
    /// Of fio's JSON: which figure.
    figure: &'static str,
    expected: f64,
    unit: &'static str,
}

const SEQUENTIAL_READ: &[&str] = &["--rw=read", "--bs=1M", "--iodepth=4"];
const SEQUENTIAL_WRITE: &[&str] = &["--rw=write", "--bs=1M", "--iodepth=4"];
const RANDOM_READ: &[&str] =
    &["--rw=randread", "--bs=4k", "--iodepth=1", "--norandommap", "--randrepeat=0"];

/// The time until writes have filled the controller's cache: before that it takes everything at
/// once.
const FILL: &str = "--ramp_time=30";

/// Sources: the comments of the presets (`floodwall lab show NAME`).
const IDLE: &[Idle] = &[
    Idle {
        preset: "raid10-bbwc-2010",
        what: "sequential write",
        args: SEQUENTIAL_WRITE,
        size: "32GiB",
        figure: "/jobs/0/write/bw_bytes",
        expected: 251e6,
        unit: "MB/s",
    },
    Idle {
        preset: "raid10-bbwc-2010",
        what: "commits 16 KiB × 10",
        args: &[
            "--rw=randwrite",
            "--bs=16k",
            "--numjobs=10",
            "--group_reporting",
            "--sync=1",
            "--size=10G",
            FILL,
        ],
        size: "32GiB",
        figure: "/jobs/0/write/iops",
        expected: 1_500.0,
        unit: "IOPS",
    },
    Idle {
        preset: "raid10-bbwc-2010",
        what: "commits 4 KiB × 1",
        args: &["--rw=randwrite", "--bs=4k", "--iodepth=1", "--sync=1", "--size=10G", FILL],
        size: "32GiB",
        figure: "/jobs/0/write/iops",
        expected: 1_460.0,
        unit: "IOPS",
    },
    Idle {
        preset: "hdd-7200",
        what: "sequential read",
        args: SEQUENTIAL_READ,
        size: "32GiB",
        figure: "/jobs/0/read/bw_bytes",
        expected: 125e6,
        unit: "MB/s",
    },
    Idle {
        preset: "cloud-gp3",
        what: "sequential read",
        args: SEQUENTIAL_READ,
        size: "32GiB",
        figure: "/jobs/0/read/bw_bytes",
        expected: 131.072e6,
        unit: "MB/s",
    },
    Idle {
        preset: "hdd-7200",
        what: "random 4 KiB read",
        args: RANDOM_READ,
        size: "930GiB",
        figure: "/jobs/0/read/iops",
        expected: 79.0,
        unit: "IOPS",
    },
];

/// Prints all figures.
pub(crate) fn run(floodwall: &Floodwall, rounds: u32) -> anyhow::Result<()> {
    null_device(floodwall, rounds)?;
    lateness(floodwall)?;
    println!("\nidle figures through the whole stack, medians of {rounds} rounds");
    for idle in IDLE {
        let device =
            floodwall.up(idle.preset, &["--memory", "2GiB", "--raw", "--size", idle.size])?;
        let scale = if idle.unit == "MB/s" { 1e6 } else { 1.0 };
        let mut values = Vec::new();
        for _ in 0..rounds {
            values.push(number(
                &fio(&device, 8, &[idle.args, &["--zero_buffers"]].concat())?,
                idle.figure,
            )?);
        }
        let measured = median(values).unwrap_or(f64::NAN);
        println!(
            "  {:<20} {:<18} {:>8.1} {:<5} expected {:>7.1}, ratio {:.3}; lateness {}",
            idle.preset,
            idle.what,
            measured / scale,
            idle.unit,
            idle.expected / scale,
            measured / idle.expected,
            late(&device)?
        );
    }
    Ok(())
}

/// Runs fio on the block device.
fn fio(device: &Device<'_>, seconds: u32, args: &[&str]) -> anyhow::Result<Value> {
    let mut fio = Command::new("fio");
    fio.args([
        "--name=lab",
        "--ioengine=libaio",
        "--direct=1",
        "--time_based",
        "--output-format=json",
    ]);
    fio.arg(format!("--filename={}", device.path.display()))
        .arg(format!("--runtime={seconds}"))
        .args(args);
    let text = crate::devices::run(&mut fio)?;
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).context("fio's JSON")
}

fn number(value: &Value, path: &str) -> anyhow::Result<f64> {
    value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no number at {path}"))
}

fn null_device(floodwall: &Floodwall, rounds: u32) -> anyhow::Result<()> {
    let device = floodwall.up("null", &["--size", "8GiB", "--memory", "4GiB", "--raw"])?;
    println!("null device, medians of {rounds} rounds of 5 s");
    for (what, args, figure, scale, unit) in [
        (
            "sequential write 1 MiB × 8",
            &["--rw=write", "--bs=1M", "--iodepth=8", "--size=1G"][..],
            "/jobs/0/write/bw_bytes",
            1e9,
            "GB/s (asked: 1.5)",
        ),
        (
            "sequential read 1 MiB × 8",
            &["--rw=read", "--bs=1M", "--iodepth=8", "--size=1G"],
            "/jobs/0/read/bw_bytes",
            1e9,
            "GB/s (asked: 1.5)",
        ),
        (
            "random write 4 KiB × 32",
            &["--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=1G", "--norandommap"],
            "/jobs/0/write/iops",
            1e3,
            "thousand IOPS (asked: 30)",
        ),
        (
            "random read 4 KiB × 32",
            &["--rw=randread", "--bs=4k", "--iodepth=32", "--size=1G", "--norandommap"],
            "/jobs/0/read/iops",
            1e3,
            "thousand IOPS (asked: 30)",
        ),
    ] {
        let mut values = Vec::new();
        for _ in 0..rounds {
            values.push(number(&fio(&device, 5, args)?, figure)?);
        }
        println!("  {what:<28} {:>7.2} {unit}", median(values).unwrap_or(f64::NAN) / scale);
    }
    Ok(())
}

/// 5,000 random reads a second on a device with a service time.
fn lateness(floodwall: &Floodwall) -> anyhow::Result<()> {
    let device = floodwall.up("nvme-consumer", &["--memory", "1GiB", "--raw"])?;
    fio(
        &device,
        10,
        &["--rw=randread", "--bs=4k", "--iodepth=8", "--rate_iops=5000", "--norandommap"],
    )?;
    println!(
        "\nlateness at 5,000 IOPS (nvme-consumer): {} (asked: p99 under 200 µs)",
        late(&device)?
    );
    Ok(())
}

fn late(device: &Device<'_>) -> anyhow::Result<String> {
    let stats = device.stats()?;
    Ok(format!(
        "p50 {:.0} µs, p99 {:.0} µs, {}",
        number(&stats, "/timings/lateness/p50_us")?,
        number(&stats, "/timings/lateness/p99_us")?,
        match stats.pointer("/timings/kept_up").and_then(Value::as_bool) {
            Some(true) => "kept up",
            Some(false) => "did not keep up",
            None => "nothing to tell by",
        }
    ))
}
