//! A loop device over a sparse file, with its queue and bdi knobs. Dropping it removes the device
//! and restores its knobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodwall_host::SysRoot;
use floodwall_knobs::Device;

/// In the order in which they are put back: an elevator resets what follows.
const QUEUE: [&str; 8] = [
    "scheduler",
    "nr_requests",
    "async_depth",
    "max_sectors_kb",
    "read_ahead_kb",
    "wbt_lat_usec",
    "rq_affinity",
    "nomerges",
];
const BDI: [&str; 3] = ["strict_limit", "min_ratio_fine", "max_ratio_fine"];
const VM: [&str; 6] = [
    "dirty_bytes",
    "dirty_ratio",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
];

pub(crate) struct Disk {
    pub(crate) device: Device,
    /// `/dev/loop0`.
    node: String,
    /// The backing file and the journal are in here.
    directory: tempfile::TempDir,
    /// As the kernel gave it to us: a loop device keeps its queue's settings from one file to the
    /// next.
    found: Vec<(PathBuf, String)>,
}

impl Disk {
    pub(crate) fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let node = attach(directory.path())?;
        let root = SysRoot::live().map_err(|e| e.to_string())?;
        let device = Device::find(&root, &node).map_err(|e| e.to_string())?;
        let mut disk = Self { device, node, directory, found: Vec::new() };
        disk.found = disk.plain_knobs();
        Ok(disk)
    }

    /// Detaches the file and attaches it again. To the kernel it is another disk, under the same
    /// number unless another process takes that first.
    pub(crate) fn attach_again(&mut self) -> Result<(), String> {
        losetup(&["--detach", &self.node])?;
        self.node = attach(self.directory.path())?;
        Ok(())
    }

    /// `/dev/loop0`.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("journal")
    }

    /// A setting by the name that its knob has here: Linux 7 has mq-deadline's async_depth in the
    /// queue.
    pub(crate) fn spelled<'a>(&self, setting: &'a str) -> &'a str {
        match setting.strip_prefix("iosched.") {
            Some(queues)
                if queues.starts_with("async_depth")
                    && self.queue().join("async_depth").exists() =>
            {
                queues
            }
            _ => setting,
        }
    }

    fn queue(&self) -> PathBuf {
        format!("/sys/dev/block/{}/queue", self.device.number).into()
    }

    fn bdi(&self) -> PathBuf {
        format!("/sys/class/bdi/{}", self.device.number).into()
    }

    /// Writes one of the device's knobs by hand, as an administrator would: `queue/nr_requests`,
    /// `bdi/strict_limit`.
    pub(crate) fn set(&self, knob: &str, value: &str) -> Result<(), String> {
        let (place, file) = knob.split_once('/').unwrap();
        let path = if place == "bdi" { self.bdi() } else { self.queue() }.join(file);
        write(&path, value)
    }

    pub(crate) fn get(&self, knob: &str) -> String {
        let (place, file) = knob.split_once('/').unwrap();
        read(&if place == "bdi" { self.bdi() } else { self.queue() }.join(file))
    }

    /// Every knob of the device as it reads, and the machine's, which nothing here may change.
    pub(crate) fn all(&self) -> BTreeMap<PathBuf, String> {
        let mut all: BTreeMap<PathBuf, String> = self.plain_knobs().into_iter().collect();
        if let Ok(tunables) = fs::read_dir(self.queue().join("iosched")) {
            all.extend(
                tunables.map(|file| file.unwrap().path()).map(|path| (path.clone(), read(&path))),
            );
        }
        all.extend(
            VM.map(|name| Path::new("/proc/sys/vm").join(name))
                .map(|path| (path.clone(), read(&path))),
        );
        all
    }

    fn plain_knobs(&self) -> Vec<(PathBuf, String)> {
        let queue = QUEUE.iter().map(|name| self.queue().join(name));
        let bdi = BDI.iter().map(|name| self.bdi().join(name));
        queue
            .chain(bdi)
            .filter(|path| path.exists())
            .map(|path| (path.clone(), read(&path)))
            .collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for (path, value) in &self.found {
            // `none [bfq]` is read, `bfq` is written.
            let value = value.split(['[', ']']).nth(1).unwrap_or(value);
            if read(path) != *value {
                let _ = write(path, value);
            }
        }
        let _ = losetup(&["--detach", &self.node]);
    }
}

fn attach(directory: &Path) -> Result<String, String> {
    let file = directory.join("disk");
    fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(64 << 20))
        .map_err(|e| e.to_string())?;
    losetup(&["--find", "--show", &file.to_string_lossy()])
}

fn losetup(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("losetup").args(arguments).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// A file that can't be read reads as its error: that must come back too.
fn read(path: &Path) -> String {
    fs::read_to_string(path).map_or_else(|e| e.to_string(), |text| text.trim().to_owned())
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    use std::io::Write;
    let written = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut f| f.write_all(value.as_bytes()));
    written.map_err(|e| format!("{} = {value}: {e}", path.display()))
}
