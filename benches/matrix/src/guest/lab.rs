//! The lab: a device with each filesystem comes up, keeps written data, and goes without a trace.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use super::files::read;
use super::knobs::floodwall;
use super::line::Line;
use crate::said::{Outcome, Said};

const FILESYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
const MOUNT: &str = "/run/matrix-lab";

pub(crate) fn check(line: &Line) -> anyhow::Result<Outcome> {
    let mut done = Vec::new();
    let mut left_out = Vec::new();
    for filesystem in FILESYSTEMS {
        let program = format!("mkfs.{filesystem}");
        if !["/usr/sbin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(&program).exists()) {
            left_out.push(format!("{filesystem} needs {program} of this machine"));
            continue;
        }
        let known = read("/proc/filesystems").unwrap_or_default();
        let has = known.split_whitespace().any(|name| name == filesystem);
        let how = if has { "yes" } else { "no" };
        line.say(&Said::Has { what: format!("filesystem {filesystem}"), how: how.to_owned() });
        if !has {
            left_out.push(format!("this kernel has no {filesystem}"));
            continue;
        }
        one(filesystem).with_context(|| filesystem.to_owned())?;
        done.push(filesystem);
    }
    let left_out =
        if left_out.is_empty() { String::new() } else { format!("; {}", left_out.join(", ")) };
    Ok(Outcome::Passed(format!("up, written, read and down with {}{left_out}", done.join(", "))))
}

fn one(filesystem: &str) -> anyhow::Result<()> {
    let before = (loops(), read("/proc/self/mounts"));
    let lab = Lab::up("sata-ssd", filesystem, &[])?;
    let file = lab.file("data");
    let data: Vec<u8> = (0..4 << 20).map(|i: u32| (i % 251) as u8).collect();
    std::fs::write(&file, &data)?;
    std::fs::File::open(&file)?.sync_all()?;
    std::fs::write("/proc/sys/vm/drop_caches", "1")?;
    if std::fs::read(&file)? != data {
        bail!("what was written is not what is read");
    }
    drop(lab);
    let after = (loops(), read("/proc/self/mounts"));
    if before != after {
        bail!("it left {after:?}, there was {before:?}");
    }
    Ok(())
}

/// Loop devices with a file.
fn loops() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|e| e.path().join("loop").exists())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Options for a disk's elevator. Linux 5.10 offers a loop device none.
pub(crate) fn disks_elevator() -> &'static [&'static str] {
    let offered = read("/sys/block/loop0/queue/scheduler").unwrap_or_default();
    if offered.contains("mq-deadline") { &["--scheduler", "mq-deadline"] } else { &[] }
}

/// A device of the lab, taken down when dropped.
pub(crate) struct Lab {
    /// The kernel's name of its device.
    pub(crate) name: String,
}

impl Lab {
    /// A preset with a filesystem.
    pub(crate) fn up(preset: &str, filesystem: &str, options: &[&str]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(MOUNT)?;
        let fixed =
            ["lab", "up", preset, "--name", "matrix", "--size", "1GiB", "--memory", "900MiB"];
        let mount = ["--fs", filesystem, "--mount", MOUNT, "--json"];
        let output = Command::new("floodwall").args(fixed).args(mount).args(options).output()?;
        if !output.status.success() {
            bail!(
                "lab up ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let said: Value = serde_json::from_slice(&output.stdout)?;
        let device =
            said["device"].as_str().with_context(|| format!("lab up names no device: {said}"))?;
        Ok(Self { name: device.rsplit('/').next().unwrap_or_default().to_owned() })
    }

    pub(crate) fn file(&self, name: &str) -> String {
        format!("{MOUNT}/{name}")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = floodwall(&["lab", "down", "matrix"]);
    }
}
