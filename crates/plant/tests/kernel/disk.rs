//! A filesystem on a loop device. When dropped it is gone, and the device's knobs are as before.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use floodwall_model::DeviceId;
use floodwall_testing::disk::{self, Saved, read};
use floodwall_testing::said;

pub(crate) struct Disk {
    pub(crate) name: String,
    _found: Saved,
    disk: disk::Disk,
}

impl Deref for Disk {
    type Target = disk::Disk;

    fn deref(&self) -> &disk::Disk {
        &self.disk
    }
}

/// The files of every knob of a device that can be put back by a write; an elevator first, because
/// it resets later ones.
fn files(id: DeviceId) -> impl Iterator<Item = PathBuf> {
    let queue = ["scheduler", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"]
        .map(|name| format!("/sys/dev/block/{id}/queue/{name}"));
    let bdi = ["strict_limit", "min_ratio_fine", "max_ratio_fine"]
        .map(|name| format!("/sys/class/bdi/{id}/{name}"));
    queue.into_iter().chain(bdi).map(PathBuf::from)
}

/// Every knob of a device, its elevator's included.
pub(crate) fn knobs(id: DeviceId) -> BTreeMap<PathBuf, String> {
    let tunables = fs::read_dir(format!("/sys/dev/block/{id}/queue/iosched"));
    let tunables = tunables.into_iter().flatten().flatten().map(|file| file.path());
    files(id).chain(tunables).map(|path| (path.clone(), read(&path))).collect()
}

impl Disk {
    /// With a filesystem of so many MiB.
    pub(crate) fn new(mib: u64) -> Result<Self, String> {
        let disk = disk::Disk::new("ext4", mib)?;
        Ok(Self { name: disk.device.name().to_owned(), _found: Saved::of(files(disk.id)), disk })
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.beside("journal")
    }

    pub(crate) fn knobs(&self) -> BTreeMap<PathBuf, String> {
        knobs(self.id)
    }

    /// A knob as it reads: `queue/nr_requests`, `bdi/strict_limit`.
    pub(crate) fn get(&self, knob: &str) -> String {
        read(&self.knob(knob))
    }

    /// Writes one by hand, as an administrator would.
    pub(crate) fn set(&self, knob: &str, value: &str) -> Result<(), String> {
        fs::write(self.knob(knob), value).map_err(said(knob))
    }

    fn knob(&self, knob: &str) -> PathBuf {
        match knob.split_once('/') {
            Some(("bdi", file)) => Path::new("/sys/class/bdi").join(self.id.to_string()).join(file),
            _ => Path::new("/sys/dev/block").join(self.id.to_string()).join(knob),
        }
    }
}
