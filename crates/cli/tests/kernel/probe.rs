//! `floodwall probe` beside a device whose service times are known: those that the lab modelled.
//! And what it says where something is missing.

use std::process::{Command, Stdio};

use floodwall_testing::ensure;
use floodwall_testing::process::{everything, output, run, told};
use serde_json::Value;

use crate::knobs::floodwall;
use crate::{FLOODWALL, FUSE, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "probe sees a lab device's own service times",
        needs: &[FUSE, "fio"],
        body: service_times,
    },
    Test {
        name: "probe names a source that is missing",
        needs: &["unshare", "setpriv"],
        body: missing,
    },
    Test {
        name: "probe looks where tracefs is not mounted",
        needs: &["unshare"],
        body: || looks_after(NO_TRACEFS),
    },
    Test {
        name: "probe looks where tracefs is mounted",
        needs: &["unshare"],
        body: || looks_after(TRACEFS),
    },
];

/// Random reads, one at a time.
const READS: u64 = 300;

/// Fails unless a program ends with this status and its messages have these parts.
fn says(program: &str, arguments: &[&str], status: i32, parts: &[&str]) -> Result<(), String> {
    let output = output(Command::new(program).args(arguments))?;
    let told = told(&output);
    let is_so = output.status.code() == Some(status) && parts.iter().all(|p| told.contains(p));
    ensure(is_so, || everything(&output))
}

/// A lab by its name. Dropping it takes the lab down.
struct Lab(String);

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = floodwall(&["lab", "down", &self.0]);
    }
}

fn service_times() -> Result<(), String> {
    let name = format!("probe-{}", std::process::id());
    floodwall(&["lab", "up", "hdd-7200", "--size", "2GiB", "--memory", "200MiB", "--name", &name])?;
    let _lab = Lab(name.clone());
    let stats = || -> Result<Value, String> {
        serde_json::from_str(&floodwall(&["lab", "stats", &name, "--json"])?)
            .map_err(|e| e.to_string())
    };
    let listed = floodwall(&["lab", "list"])?;
    let device = listed
        .lines()
        .find(|line| line.trim_start().starts_with(&name))
        .and_then(|line| line.split(", ").find(|word| word.starts_with("/dev/")))
        .ok_or(listed.clone())?;
    let before = stats()?["timings"]["read"]["count"].as_u64().unwrap_or(0);
    let mut probe = Command::new(FLOODWALL)
        .args(["probe", "--source", "perf", "--json", "--interval", "1s", device])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    // The probe is there when it has shown its first window.
    let mut out = std::io::BufReader::new(probe.stdout.take().ok_or("no stdout")?);
    let mut lines = Vec::new();
    let mut line = || -> Result<Value, String> {
        let mut text = String::new();
        std::io::BufRead::read_line(&mut out, &mut text).map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))
    };
    lines.push(line()?);
    let count = format!("--number_ios={READS}");
    let file = format!("--filename={device}");
    run(
        "fio",
        &["--name=reads", "--direct=1", "--rw=randread", "--bs=4k", "--size=1GiB", &count, &file],
    )?;
    // One whole window more.
    std::thread::sleep(std::time::Duration::from_millis(2200));
    let stopped = rustix::process::Pid::from_child(&probe);
    rustix::process::kill_process(stopped, rustix::process::Signal::TERM)
        .map_err(|e| e.to_string())?;
    let _ = probe.wait();
    while let Ok(window) = line() {
        lines.push(window);
    }
    let after = stats()?;
    let read = &after["timings"]["read"];
    if before != 0 {
        return Err(format!("{before} reads before the first"));
    }
    let (mut seen, mut sum_us, mut fio) = (0, 0.0, 0);
    for window in &lines {
        let device_us = &window["devices"][0]["requests"]["read"]["device_us"];
        let n = device_us["count"].as_u64().unwrap_or(0);
        seen += n;
        sum_us += n as f64 * device_us["mean"].as_f64().unwrap_or(0.0);
        let processes = window["processes"].as_array().cloned().unwrap_or_default();
        fio += processes
            .iter()
            .filter(|p| p["name"] == "fio")
            .map(|p| p["reads_us"]["count"].as_u64().unwrap_or(0))
            .sum::<u64>();
    }
    let (made, mean_us) =
        (read["count"].as_u64().unwrap_or(0), read["mean_us"].as_f64().unwrap_or(0.0));
    let late_us = after["timings"]["lateness"]["mean_us"].as_f64().unwrap_or(0.0);
    let own_us = sum_us / seen.max(1) as f64;
    // A completion that comes while the processor is idle may be missing in perf events; the loop
    // driver's and FUSE's own way is less than a millisecond.
    if seen > made || seen * 10 < made * 9 || fio < READS * 9 / 10 {
        return Err(format!("{seen} of {made} reads seen, {fio} of fio's {READS}"));
    }
    if own_us < mean_us * 0.97 || own_us > mean_us + late_us + mean_us * 0.1 + 500.0 {
        return Err(format!(
            "a mean of {own_us} µs seen; the model took {mean_us} µs, and answered {late_us} µs \
             late"
        ));
    }
    Ok(())
}

fn missing() -> Result<(), String> {
    let nobody = [
        "--reuid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
        FLOODWALL,
        "probe",
    ];
    let as_nobody = |more: &[&str], status, parts: &[&str]| {
        says("setpriv", &[&nobody[..], more].concat(), status, parts)
    };
    as_nobody(&["--source", "perf", "--count", "1"], 4, &["run as root"])?;
    // Without a wish it looks where it may, and says what it can't see.
    let parts = ["the counters in /proc", "can't see who waits"];
    as_nobody(&["--count", "1", "--interval", "100ms"], 0, &parts)?;
    // A container, in which processes have other numbers.
    let contained =
        ["--pid", "--fork", "--mount-proc", FLOODWALL, "probe", "--source", "perf", "--count", "1"];
    says("unshare", &contained, 0, &["can't see writes to O_SYNC files: in this container"])?;
    says(FLOODWALL, &["probe", "no-such-disk"], 2, &["'no-such-disk' is no block device"])
}

/// Shell commands after which tracefs is mounted nowhere, and after which it is.
const NO_TRACEFS: &str = "umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; [ ! -e \
    /sys/kernel/tracing/events ]";
const TRACEFS: &str =
    "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing";

/// Looks in a private mount namespace that a shell command prepares.
fn looks_after(prepare: &str) -> Result<(), String> {
    let script = format!(
        "{prepare} || exit 77; exec '{FLOODWALL}' probe --source perf --count 1 --interval 100ms"
    );
    says("unshare", &["--mount", "/bin/sh", "-c", &script], 0, &["tracepoints (perf events)"])
}
