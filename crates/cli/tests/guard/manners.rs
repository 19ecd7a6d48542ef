//! What a guard does to a machine while nothing happens, in a dry run, and beside an administrator.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use floodwall_testing::ROOT;
use floodwall_testing::process::run;

use crate::Test;
use crate::bed::{Device, FLOODWALL, GOAL, Guard, differences};
use crate::load::Load;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "an encounter is seen, met and told, and everything put back when it is over",
        needs: &["mkfs.xfs"],
        kernel: true,
        body: encounter,
    },
    Test {
        name: "the capabilities in the unit are enough",
        needs: &["mkfs.xfs", "setpriv", "unshare"],
        kernel: true,
        body: capabilities,
    },
    Test {
        name: "systemd understands the unit",
        needs: &["systemd-analyze"],
        kernel: false,
        body: unit,
    },
    Test {
        name: "what is missing is named, and what works without it",
        needs: &["setpriv", "unshare"],
        kernel: true,
        body: missing,
    },
    Test {
        name: "somebody else's socket is not touched",
        needs: &[ROOT, "timeout"],
        kernel: false,
        body: somebody_elses_socket,
    },
    Test { name: "a dry run writes nothing", needs: &["mkfs.xfs"], kernel: true, body: dry_run },
    Test {
        name: "a pause gives everything back at once",
        needs: &["mkfs.xfs"],
        kernel: true,
        body: pause,
    },
    Test {
        name: "a knob that somebody else writes is his",
        needs: &["mkfs.xfs"],
        kernel: true,
        body: somebody_else,
    },
];

const PRESET: &str = "sata-ssd";
/// Runs the program behind it in a private mount namespace, with tracefs mounted.
const WITH_TRACEFS: [&str; 5] = [
    "unshare",
    "--mount",
    "/bin/sh",
    "-c",
    "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing || exit; \
     exec \"$0\" \"$@\"",
];
/// The same where it is not mounted.
const WITHOUT_TRACEFS: [&str; 5] = [
    "unshare",
    "--mount",
    "/bin/sh",
    "-c",
    "umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; exec \"$0\" \"$@\"",
];
/// A user who owns nothing.
const NOBODY: u32 = 65_534;

fn encounter() -> Result<(), String> {
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    let guard = Guard::start(&device.name, &[])?;
    let victim = Load::start("victim", &device.directory)?;
    std::thread::sleep(Duration::from_secs(3));
    if !differences(&before, &device.knobs()).is_empty() {
        return Err(format!("written before anybody floods: {}", guard.log()));
    }
    let flood = Load::start("flood", &device.directory)?;
    guard.until("it holds something", || {
        guard.status()["devices"][0]["held"].as_array().is_some_and(|held| !held.is_empty())
    })?;
    let status = guard.status();
    let disk = &status["devices"][0];
    let named = |kind: &str, pid: u32| {
        let names = disk[kind].as_array().cloned().unwrap_or_default();
        names
            .iter()
            .any(|name| name.as_str().is_some_and(|name| name.ends_with(&format!("({pid})"))))
    };
    if disk["name"] != device.name.as_str()
        || !named("victims", victim.pid())
        || !named("floods", flood.pid())
    {
        return Err(format!("{disk}"));
    }
    // The held values are those of the kernel, and the saved values are those from before.
    for held in disk["held"].as_array().into_iter().flatten() {
        let knob = held["knob"].as_str().unwrap_or_default();
        let file = match knob.strip_prefix("bdi.") {
            Some(limit) => format!("bdi/{limit}"),
            None => format!("queue/{knob}"),
        };
        let own = before.get(&file).map(|value| chosen(value).to_owned());
        if own.as_deref() != held["own"].as_str() {
            return Err(format!("{held}, and {file} was {own:?}"));
        }
    }
    drop(flood);
    guard.until("everything is put back", || differences(&before, &device.knobs()).is_empty())?;
    let history = guard.ask(&["history"])?;
    if !history.contains("→ protect") || !history.contains("wrote ") {
        return Err(history);
    }
    let log = guard.log();
    let place = |words: &str| log.find(words).ok_or_else(|| format!("'{words}' is missing: {log}"));
    if place("has come")? > place("→ protect")? {
        return Err(log);
    }
    drop(victim);
    guard.stop().map(drop)
}

/// A socket of another user without a server: a guard that replaced it would remove that user's
/// file.
fn somebody_elses_socket() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let path = dir.path().join("guard.sock");
    drop(UnixListener::bind(&path).map_err(|e| e.to_string())?);
    std::os::unix::fs::chown(&path, Some(NOBODY), None).map_err(|e| e.to_string())?;
    let guard =
        ["20", FLOODWALL, "guard", "--sim", "hdd-7200", "--socket", &path.to_string_lossy()];
    let said = run("timeout", &guard).err().ok_or("it runs")?;
    if !said.contains("a socket of user 65534, not ours; have it removed") {
        return Err(said);
    }
    if path.exists() { Ok(()) } else { Err("it removed the socket".into()) }
}

/// Of `none [mq-deadline] bfq` the one in brackets.
fn chosen(value: &str) -> &str {
    value
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(value, |(chosen, _)| chosen)
}

fn dry_run() -> Result<(), String> {
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    // A directory stands for its device, which is named.
    let directory = device.directory.to_string_lossy();
    let guard = Guard::start(&directory, &["--dry-run", GOAL[0], GOAL[1]])?;
    let asked = format!(
        "asked for {directory} (of the filesystem mounted at '{directory}'), it steers {} (",
        device.name
    );
    if !guard.log().contains(&asked) {
        return Err(guard.log());
    }
    let _loads =
        [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
    guard.until("it would write", || guard.log().contains("would write "))?;
    std::thread::sleep(Duration::from_secs(2));
    let written = differences(&before, &device.knobs());
    let log = guard.stop()?;
    if written.is_empty() && !log.contains("; wrote ") {
        Ok(())
    } else {
        Err(format!("{written:?}\n{log}"))
    }
}

fn pause() -> Result<(), String> {
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    let guard = Guard::start(&device.name, &GOAL)?;
    let _loads =
        [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
    let holds = || !differences(&before, &device.knobs()).is_empty();
    guard.until("it holds something", holds)?;
    guard.ask(&["pause"])?;
    guard.until("everything is put back", || !holds())?;
    std::thread::sleep(Duration::from_secs(3));
    if holds() {
        return Err(format!("it holds something while it is paused\n{}", guard.log()));
    }
    guard.ask(&["resume"])?;
    guard.until("it holds something again", holds)?;
    guard.stop()?;
    let wrong = differences(&before, &device.knobs());
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) }
}

fn somebody_else() -> Result<(), String> {
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    let guard = Guard::start(&device.name, &GOAL)?;
    let _loads =
        [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
    let held = || -> Option<String> {
        let status = guard.status();
        let held = status["devices"][0]["held"].as_array()?.clone();
        held.iter()
            .find_map(|h| h["knob"].as_str().filter(|k| *k == "max_sectors_kb").map(str::to_owned))
    };
    let file = Path::new("/sys/block").join(&device.name).join("queue/max_sectors_kb");
    // The guard reports a write while the kernel may still wait for the queue to run dry.
    let own = fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let in_force = || fs::read_to_string(&file).is_ok_and(|now| now != own);
    guard.until("it holds max_sectors_kb", || held().is_some() && in_force())?;
    // The guard reads its write back a moment later. Another value there would pass for the
    // kernel's answer, and the value before would come back. The next level comes after seconds.
    std::thread::sleep(Duration::from_secs(1));
    fs::write(&file, "76").map_err(|e| e.to_string())?;
    // Noticed at the next change of it, at the latest at the end.
    let log = guard.stop()?;
    if !log.lines().any(|line| line.contains("max_sectors_kb") && line.contains("left alone")) {
        return Err(format!("the log does not name it\n{log}"));
    }
    let wrong = differences(&before, &device.knobs());
    match wrong.as_slice() {
        [one] if one.starts_with("queue/max_sectors_kb: ") && one.ends_with("→ 76") => Ok(()),
        other => Err(format!("{other:?}\n{log}")),
    }
}

fn unit_text() -> Result<String, String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd/floodwall-guard.service");
    fs::read_to_string(unit).map_err(|e| e.to_string())
}

fn unit() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    // Where it is not installed yet, its program is the one that is tested.
    let text = unit_text()?.replace("/usr/bin/floodwall", FLOODWALL);
    let file = dir.path().join("floodwall-guard.service");
    fs::write(&file, text).map_err(|e| e.to_string())?;
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Other units of this machine may have faults as well.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("floodwall-guard")).collect();
    if ours.is_empty() { Ok(()) } else { Err(ours.join("\n")) }
}

/// The unit's powers: the option of setpriv(1) that leaves no others. CAP_SYS_ADMIN, on the unit's
/// second line, only where the kernel wants it.
fn unit_powers() -> Result<String, String> {
    let unit = unit_text()?;
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let wants_all = paranoid.trim().parse::<i32>().is_ok_and(|level| level > 2);
    let named = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let named: Vec<String> =
        named.take(if wants_all { 2 } else { 1 }).map(str::to_lowercase).collect();
    if named.is_empty() {
        return Err("the unit names no capabilities".into());
    }
    let names = named.iter().flat_map(|line| line.split(' '));
    let kept: Vec<String> = names.map(|name| name.replace("cap_", "+")).collect();
    Ok(format!("--bounding-set=-all,{}", kept.join(",")))
}

/// With setpriv(1) in systemd's place, and tracefs mounted, as systemd does.
fn capabilities() -> Result<(), String> {
    let bounding = unit_powers()?;
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    let setpriv = ["setpriv", "--no-new-privs", "--inh-caps=-all", &bounding];
    let guard = Guard::start_through(&[&WITH_TRACEFS, &setpriv[..]].concat(), &device.name, &GOAL)?;
    let _loads =
        [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
    guard.until("it holds something", || !differences(&before, &device.knobs()).is_empty())?;
    let log = guard.stop()?;
    let wrong = differences(&before, &device.knobs());
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}\n{log}")) }
}

fn missing() -> Result<(), String> {
    let without = |place: &[&str], powers: &[&str], words: &str| {
        let all =
            [place, &["setpriv", "--inh-caps=-all"], powers, &[FLOODWALL, "guard", "--dry-run"]];
        let all = all.concat();
        let output = Command::new(all[0])
            .args(&all[1..])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.contains(words) && said.contains("floodwall guard --sim hdd-7200");
        if output.status.code() == Some(4) && told {
            Ok(())
        } else {
            Err(format!("{}: {said}", output.status))
        }
    };
    let nobody = ["--bounding-set=-all", "--reuid=65534", "--clear-groups"];
    without(&WITH_TRACEFS, &nobody[..1], "CAP_PERFMON")?;
    without(&WITH_TRACEFS, &nobody, "run as root")?;
    without(&WITHOUT_TRACEFS, &[&unit_powers()?], "run as root on the host")?;
    without(&WITHOUT_TRACEFS, &nobody, "run as root")
}
