//! Settings that are kept across a boot: written in the first, in force in the second once the services of a Debian
//! machine have run that apply them (systemd-sysctl, udev).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::files::{chosen, read};
use super::line::Line;
use crate::said::Outcome;

const SYSCTL: &str = "/usr/lib/systemd/systemd-sysctl";
const UDEVD: &str = "/usr/lib/systemd/systemd-udevd";
/// What is kept, and the file that shows it.
const KEPT: [(&str, &str, &str); 4] = [
    ("vm.dirty_ratio", "17", "/proc/sys/vm/dirty_ratio"),
    ("vm.dirty_expire_centisecs", "1500", "/proc/sys/vm/dirty_expire_centisecs"),
    ("vda.scheduler", "bfq", "/sys/block/vda/queue/scheduler"),
    ("vda.read_ahead_kb", "256", "/sys/block/vda/queue/read_ahead_kb"),
];

/// First boot: what is kept is written.
pub(crate) fn keep(_line: &Line) -> anyhow::Result<Outcome> {
    let settings: Vec<String> = KEPT.iter().map(|(knob, value, _)| format!("{knob}={value}")).collect();
    let output = Command::new("floodwall").arg("persist").args(&settings).arg("--yes").output()?;
    if !output.status.success() {
        bail!(
            "floodwall persist ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(Outcome::Passed(format!("{} settings written", KEPT.len())))
}

/// Second boot: it is in force.
pub(crate) fn kept(_line: &Line) -> anyhow::Result<Outcome> {
    for program in [SYSCTL, UDEVD] {
        if !Path::new(program).exists() {
            return Ok(Outcome::LeftOut(format!("needs {program} of this machine")));
        }
    }
    for (knob, value, path) in KEPT {
        if is(path, value) {
            bail!("{knob} is {value} before anything has set it");
        }
    }
    run(&[SYSCTL])?;
    let mut udevd = Command::new(UDEVD).stdin(Stdio::null()).spawn().context("can't start udevd")?;
    let settled = until_it_listens()
        .and_then(|()| run(&["udevadm", "trigger", "--action=add", "--subsystem-match=block"]))
        .and_then(|()| run(&["udevadm", "settle", "--timeout=60"]));
    let wrong: Vec<String> = KEPT
        .iter()
        .filter(|(_, value, path)| !is(path, value))
        .map(|(knob, value, path)| format!("{knob} is not {value}: {:?}", read(path)))
        .collect();
    let _ = udevd.kill();
    let _ = udevd.wait();
    settled?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(Outcome::Passed(format!("{} settings are in force again", KEPT.len())))
}

/// The socket appears when udevd is ready.
fn until_it_listens() -> anyhow::Result<()> {
    let begin = Instant::now();
    while !Path::new("/run/udev/control").exists() {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "udevd does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn is(path: &str, value: &str) -> bool {
    read(path).is_some_and(|text| chosen(&text) == value)
}

fn run(words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{words:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
