//! `floodwall bench --victim-cmd`: what a command does itself, against the command's own count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodwall_testing::disk::Disk;
use floodwall_testing::ensure;
use floodwall_testing::process::{json, output, text, told};
use serde_json::Value;

use crate::{FLOODWALL, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a command's fsyncs are its operations, as fio counts them",
        needs: NEEDS,
        body: fsyncs,
    },
    Test { name: "a command's O_DSYNC writes are its operations", needs: NEEDS, body: dsyncs },
    Test {
        name: "what a command starts belongs to it, however short it lives",
        needs: NEEDS,
        body: short_lived,
    },
    Test {
        name: "a command that waits for nobody's disk is counted by its calls",
        needs: NEEDS,
        body: client,
    },
    Test {
        name: "a command without a probe is counted by its calls",
        needs: NEEDS,
        body: without_privilege,
    },
];

const NEEDS: &[&str] = &["mkfs.ext4", "fio", "dd", "setpriv", "unshare"];

/// Runs `program`, whose last argument is `floodwall`, as a bench of this command alone; the result
/// and what was said beside it.
fn bench(program: &[&str], command: &str, dir: &Path) -> Result<(Value, String), String> {
    let [first, rest @ ..] = program else { return Err("no program".into()) };
    let mut program = Command::new(first);
    let program = program
        .args(rest)
        .args([
            "bench",
            "--json",
            "--progress",
            "never",
            "--rounds",
            "1",
            "--measure",
            "3s",
            "--no-burst",
        ])
        .args(["--flood", "none", "--victim-cmd", command])
        .arg(dir);
    let output = output(program)?;
    ensure(matches!(output.status.code(), Some(0 | 3)), || told(&output))?;
    Ok((json(&output)?, text(&output.stderr)))
}

fn victim(json: &Value) -> Result<&Value, String> {
    json.pointer("/trials/0/phases/0/victims/0").ok_or_else(|| "no victim".into())
}

fn number(value: &Value, pointer: &str) -> Result<f64, String> {
    value.pointer(pointer).and_then(Value::as_f64).ok_or_else(|| format!("no {pointer} in {value}"))
}

/// The missing data of commands, by name.
fn unseen(json: &Value) -> Vec<String> {
    let missing = json["missing"].as_array().into_iter().flatten();
    let named = missing.filter(|m| {
        m["what"].as_str().is_some_and(|what| what.contains("of '") || what.contains("commands"))
    });
    named.map(|m| format!("{}: {}", m["what"], m["why"])).collect()
}

/// Whether operations of this kind, one at a time, fill this share of the three measured seconds,
/// and not more than these.
fn fill_the_time(victim: &Value, kind: &str, least: f64) -> Result<(), String> {
    let (ops, mean_us) = (number(victim, "/ops")?, number(victim, &format!("/{kind}/mean"))?);
    let busy_s = ops * mean_us / 1e6;
    // One that began before the first second may count, and the last may end after the third.
    let beyond_s = 2.0 * number(victim, &format!("/{kind}/max"))? / 1e6;
    // A second is counted when its end is noticed, which is late where others want the processor.
    let late_s = 0.3;
    if (least * 3.0..=3.0 + beyond_s + late_s).contains(&busy_s) {
        Ok(())
    } else {
        Err(format!(
            "{ops} operations of {mean_us} µs ({kind}) take {busy_s} s of 3, not {least} of it"
        ))
    }
}

fn fsyncs() -> Result<(), String> {
    let disk = Disk::new("ext4", 512)?;
    let told = disk.path().join("fio.json");
    let command = format!(
        "exec fio --name=victim --rw=randwrite --bs=4k --size=16m --fallocate=none \
         --create_fsync=0 --fsync=1 --time_based --runtime=600 \
         --output-format=json --output='{}'",
        told.display()
    );
    let (json, said) = bench(&[FLOODWALL], &command, disk.path())?;
    let fio = fs::read_to_string(&told).map_err(|e| e.to_string())?;
    // Warnings may come before the document.
    let fio = fio.find('{').map_or("", |at| &fio[at..]);
    let fio: Value = serde_json::from_str(fio).map_err(|e| format!("{e}: {fio}"))?;
    let made = number(&fio, "/jobs/0/sync/total_ios")?;
    let victim = victim(&json)?;
    let seen = number(victim, "/ops_with_warmup")?;
    if made < 100.0 || (seen - made).abs() > 5.0 + 0.01 * made {
        return Err(format!("{seen} operations seen, {made} made; {said}{:?}", unseen(&json)));
    }
    // fio's own share of its time, the warm-up included.
    let in_fsync_ms = made * number(&fio, "/jobs/0/sync/lat_ns/mean")? / 1e6;
    let share = in_fsync_ms / number(&fio, "/jobs/0/job_runtime")?;
    fill_the_time(victim, "commit_us", 0.9 * share)?;
    fill_the_time(victim, "sync_us", 0.9 * share)?;
    // The same operations in the intervals, second by second and as histograms.
    let phase = &json["trials"][0]["phases"][0];
    let (ops, iops) = (number(phase, "/victim/ops")?, number(phase, "/victim/iops")?);
    let intervals = phase["intervals"].as_array().ok_or("no intervals")?;
    let by_interval: f64 =
        intervals.iter().filter_map(|i| i.pointer("/victim/ops").and_then(Value::as_f64)).sum();
    let with_histogram =
        intervals.iter().filter(|i| i.pointer("/victim/commit_hdr").is_some()).count();
    if ops != by_interval
        || ops != number(victim, "/ops")?
        || with_histogram != intervals.len()
        || iops * 2.0 > ops
    {
        return Err(format!(
            "{ops} operations, {iops} a second, {by_interval} by interval, {with_histogram} \
             histograms"
        ));
    }
    match unseen(&json).as_slice() {
        [] => Ok(()),
        lost => Err(format!("{lost:?}")),
    }
}

fn dsyncs() -> Result<(), String> {
    // Before such writes are known and watched a moment of the warm-up passes, so that fio's count
    // is another.
    let disk = Disk::new("ext4", 512)?;
    let (json, said) = bench(
        &[FLOODWALL],
        "exec fio --name=victim --rw=randwrite --bs=4k --size=16m --fallocate=none \
         --create_fsync=0 --sync=dsync --time_based --runtime=600",
        disk.path(),
    )?;
    fill_the_time(victim(&json)?, "write_us", 0.8)
        .map_err(|e| format!("{e}; {said}{:?}", unseen(&json)))
}

fn short_lived() -> Result<(), String> {
    let disk = Disk::new("ext4", 512)?;
    let count: PathBuf = disk.path().join("count");
    let command = format!(
        "while :; do sh -c 'dd if=/dev/zero of=data bs=4k count=1 conv=notrunc,fdatasync \
         2>/dev/null'; echo >>'{}'; done",
        count.display()
    );
    let (json, said) = bench(&[FLOODWALL], &command, disk.path())?;
    // A line for each.
    let made = fs::metadata(&count).map_err(|e| format!("{}: {e}", count.display()))?.len() as f64;
    let seen = number(victim(&json)?, "/ops_with_warmup")?;
    // The last one may have been stopped before it was counted; programs are in the page cache, but
    // a directory may be read.
    if (seen - made).abs() > 3.0 {
        return Err(format!("{seen} syncs seen, {made} made; {said}{:?}", unseen(&json)));
    }
    Ok(())
}

fn client() -> Result<(), String> {
    let disk = Disk::new("ext4", 512)?;
    let (json, _) = bench(
        &[FLOODWALL],
        "while :; do head -c 65536 /dev/zero | wc -c >/dev/null; done",
        disk.path(),
    )?;
    let victim = victim(&json)?;
    let unseen = unseen(&json);
    if number(victim, "/ops")? < 10.0
        || !victim["commit_us"].is_null()
        || !unseen.iter().any(|u| u.contains("a client of a server"))
    {
        return Err(format!("{victim}: {unseen:?}"));
    }
    Ok(())
}

fn without_privilege() -> Result<(), String> {
    let disk = Disk::new("ext4", 512)?;
    fs::set_permissions(disk.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .map_err(|e| e.to_string())?;
    let command = "while :; do dd if=/dev/zero of=data bs=4k count=1 conv=notrunc,fdatasync \
        2>/dev/null; done";
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
        FLOODWALL,
    ];
    let contained = ["unshare", "--pid", "--fork", "--mount-proc", FLOODWALL];
    for (program, why) in [(&nobody[..], "run as root"), (&contained, "in this container")] {
        let (json, said) = bench(program, command, disk.path())?;
        let victim = victim(&json)?;
        let unseen = unseen(&json);
        let told = unseen.iter().any(|u| u.contains(why)) && said.contains(why);
        if number(victim, "/ops")? < 10.0 || !victim["commit_us"].is_null() || !told {
            return Err(format!("{victim}: {unseen:?} {said}"));
        }
    }
    Ok(())
}
