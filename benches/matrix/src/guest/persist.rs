//! Settings that are kept across a boot: written in the first, in force in the second, which is
//! systemd's.

use std::process::Command;

use anyhow::bail;

use super::files::{chosen, read};
use super::line::Line;
use super::systemd;
use crate::said::Outcome;

/// Knobs that are kept, their values, and the files that show them.
const KEPT: [(&str, &str, &str); 4] = [
    ("vm.dirty_ratio", "17", "/proc/sys/vm/dirty_ratio"),
    ("vm.dirty_expire_centisecs", "1500", "/proc/sys/vm/dirty_expire_centisecs"),
    ("vda.scheduler", "bfq", "/sys/block/vda/queue/scheduler"),
    ("vda.read_ahead_kb", "256", "/sys/block/vda/queue/read_ahead_kb"),
];

/// First boot: writes the settings to keep.
pub(crate) fn keep(_line: &Line) -> anyhow::Result<Outcome> {
    for (knob, value, path) in KEPT {
        anyhow::ensure!(!is(path, value), "{knob} is {value} before anything has set it");
    }
    let settings: Vec<String> =
        KEPT.iter().map(|(knob, value, _)| format!("{knob}={value}")).collect();
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

/// Second boot, by systemd: it is in force.
pub(crate) fn kept(_line: &Line) -> anyhow::Result<Outcome> {
    if !systemd::is_here() {
        return Ok(Outcome::LeftOut("needs systemd of this machine".to_owned()));
    }
    // udev acts on the disk's events meanwhile.
    let settled = Command::new("udevadm").args(["settle", "--timeout=60"]).status()?;
    anyhow::ensure!(settled.success(), "udev does not come to rest");
    let wrong: Vec<String> = KEPT
        .iter()
        .filter(|(_, value, path)| !is(path, value))
        .map(|(knob, value, path)| format!("{knob} is not {value}: {:?}", read(path)))
        .collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(Outcome::Passed(format!("{} settings are in force again", KEPT.len())))
}

fn is(path: &str, value: &str) -> bool {
    read(path).is_some_and(|text| chosen(&text) == value)
}
