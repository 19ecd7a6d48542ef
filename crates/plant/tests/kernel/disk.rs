//! A filesystem on a loop device. When dropped it is gone, and the device's knobs are as before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floodwall_model::DeviceId;

use crate::said;

pub(crate) struct Disk {
    directory: tempfile::TempDir,
    node: String,
    pub(crate) name: String,
    pub(crate) id: DeviceId,
    found: BTreeMap<PathBuf, String>,
}

/// Runs a program and returns its output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(said(program))?;
    if !output.status.success() {
        return Err(format!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Every knob of a device that can be put back by a write; an elevator first, because it resets
/// later ones.
pub(crate) fn knobs(id: DeviceId) -> BTreeMap<PathBuf, String> {
    let mut paths = Vec::new();
    for (directory, names) in [
        (
            format!("/sys/dev/block/{id}/queue"),
            &["scheduler", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"][..],
        ),
        (format!("/sys/class/bdi/{id}"), &["strict_limit", "min_ratio_fine", "max_ratio_fine"][..]),
    ] {
        paths.extend(names.iter().map(|name| Path::new(&directory).join(name)));
    }
    if let Ok(tunables) = fs::read_dir(format!("/sys/dev/block/{id}/queue/iosched")) {
        paths.extend(tunables.flatten().map(|file| file.path()));
    }
    let read = |path: PathBuf| {
        let text =
            fs::read_to_string(&path).map_or_else(|e| e.to_string(), |text| text.trim().to_owned());
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

impl Disk {
    /// With a filesystem of so many MiB.
    pub(crate) fn new(mib: u64) -> Result<Self, String> {
        let directory =
            tempfile::Builder::new().prefix("fwplant").tempdir().map_err(said("tempdir"))?;
        let image = directory.path().join("image");
        fs::File::create(&image).and_then(|f| f.set_len(mib << 20)).map_err(said("image"))?;
        let image = image.to_string_lossy().into_owned();
        run("mkfs.ext4", &["-q", "-F", &image])?;
        let node = run("losetup", &["--find", "--show", &image])?;
        let name = node.trim_start_matches("/dev/").to_owned();
        let id: DeviceId = fs::read_to_string(format!("/sys/block/{name}/dev"))
            .map_err(said("dev"))?
            .trim()
            .parse()?;
        let disk = Self { directory, node, name, id, found: knobs(id) };
        fs::create_dir(disk.mountpoint()).map_err(said("mountpoint"))?;
        run("mount", &[&disk.node, &disk.mountpoint().to_string_lossy()])?;
        Ok(disk)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("journal")
    }

    pub(crate) fn mountpoint(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.mountpoint().join(name).to_string_lossy().into_owned()
    }

    pub(crate) fn knobs(&self) -> BTreeMap<PathBuf, String> {
        knobs(self.id)
    }

    /// A knob as it reads: `queue/nr_requests`, `bdi/strict_limit`.
    pub(crate) fn get(&self, knob: &str) -> String {
        fs::read_to_string(self.path(knob)).unwrap_or_default().trim().to_owned()
    }

    /// Writes one by hand, as an administrator would.
    pub(crate) fn set(&self, knob: &str, value: &str) -> Result<(), String> {
        fs::write(self.path(knob), value).map_err(said(knob))
    }

    fn path(&self, knob: &str) -> PathBuf {
        match knob.split_once('/') {
            Some(("bdi", file)) => format!("/sys/class/bdi/{}/{file}", self.id).into(),
            _ => format!("/sys/dev/block/{}/{knob}", self.id).into(),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A loop device keeps its queue's settings from one file to the next.
        for name in ["scheduler", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"]
        {
            let path = PathBuf::from(format!("/sys/dev/block/{}/queue/{name}", self.id));
            let Some(value) = self.found.get(&path) else { continue };
            // `none [bfq]` is read, `bfq` is written.
            let value = value.split(['[', ']']).nth(1).unwrap_or(value);
            let _ = fs::write(&path, value);
        }
        for (name, default) in [("strict_limit", "0"), ("max_ratio_fine", "1000000")] {
            let _ = fs::write(format!("/sys/class/bdi/{}/{name}", self.id), default);
        }
        let _ = run("umount", &[&self.mountpoint().to_string_lossy()]);
        let _ = run("losetup", &["--detach", &self.node]);
    }
}
