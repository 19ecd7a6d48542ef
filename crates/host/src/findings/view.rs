//! Questions of several checks to a status, and the words of their answers. Their advice is in
//! `remedy`.

use std::time::Duration;

use floodwall_model::status::{Device, DrainSource, Queue, Status};
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate, Reading};

/// A victim that has to wait for everything dirty waits longer than people put up with …
pub(super) const LONG_DRAIN_S: f64 = 5.0;
/// … and longer than most programs' timeouts.
pub(super) const VERY_LONG_DRAIN_S: f64 = 60.0;
pub(super) use floodwall_model::setting::FLUSHER_CHUNK_BYTES;
/// The published delays of limits by bandwidth × delay: 1.5 s of writing before writers wait …
pub(super) const HARD_DELAY_S: f64 = 1.5;
/// … and 250 ms before the flusher starts.
pub(super) const BACKGROUND_DELAY_S: f64 = 0.25;

/// A disk that stores things, and the backing device that it does so for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk<'a> {
    pub(super) name: &'a str,
    pub(super) model: &'a Reading<String>,
    pub(super) driver: &'a Reading<String>,
    pub(super) queue: &'a Queue,
    pub(super) owner: &'a Device,
}

/// Every real disk once: those below stacked devices, and those that hold a filesystem themselves.
/// A device without driver and model (loop, dm, md whose members are not known) is no disk.
pub(super) fn disks(status: &Status) -> Vec<Disk<'_>> {
    let mut all: Vec<Disk<'_>> = Vec::new();
    for owner in &status.devices {
        let itself = Disk {
            name: &owner.name,
            model: &owner.model,
            driver: &owner.driver,
            queue: &owner.queue,
            owner,
        };
        let below = owner.leaves.iter().map(|leaf| Disk {
            name: &leaf.name,
            model: &leaf.model,
            driver: &leaf.driver,
            queue: &leaf.queue,
            owner,
        });
        for disk in std::iter::once(itself).chain(below) {
            let real = disk.driver.value().is_some() || disk.model.value().is_some();
            if real && !all.iter().any(|known| known.name == disk.name) {
                all.push(disk);
            }
        }
    }
    all
}

/// Drivers and models of disks that a hypervisor makes up: they report a constant for the medium,
/// unless an administrator has configured it.
const VIRTUAL_DRIVERS: [&str; 3] = ["virtio_blk", "vbd", "xen_blkfront"];
const VIRTUAL_MODELS: [&str; 5] =
    ["QEMU HARDDISK", "VBOX HARDDISK", "Msft Virtual Disk", "VMware Virtual", "Virtual disk"];

impl Disk<'_> {
    /// The sign of a hypervisor's disk, for people.
    pub(super) fn virtual_by(&self) -> Option<String> {
        if let Some(driver) =
            self.driver.value().filter(|driver| VIRTUAL_DRIVERS.contains(&driver.as_str()))
        {
            return Some(format!("driver {driver}"));
        }
        let model = self.model.value()?;
        VIRTUAL_MODELS.iter().any(|part| model.contains(part)).then(|| format!("model {model}"))
    }

    /// Whether it seeks, as far as the kernel can know: it says so, and no hypervisor stands
    /// between.
    pub(super) fn seeks(&self) -> bool {
        self.queue.rotational == Reading::Value(true)
            && self.virtual_by().is_none()
            && !self.says_flash()
    }

    /// Whether its model says that it is flash.
    pub(super) fn says_flash(&self) -> bool {
        let model = self.model.value().map(|model| model.to_uppercase()).unwrap_or_default();
        model.split([' ', '-', '_']).any(|word| word == "SSD" || word.starts_with("NVME"))
    }

    pub(super) fn scheduler(&self) -> Option<&str> {
        self.queue.scheduler.value().map(String::as_str)
    }
}

/// Whether anything on it can be written.
pub(super) fn writable(device: &Device) -> bool {
    device.mounts.iter().any(|mount| !mount.read_only)
}

/// How fast it drains, in bytes a second, if that is known and above zero.
pub(super) fn rate(device: &Device) -> Option<f64> {
    device.drain.rate_bytes_per_s.value().copied().filter(|rate| *rate > 0.0)
}

/// Where a rate comes from, for evidence.
pub(super) fn rate_source(device: &Device) -> &'static str {
    match device.drain.from {
        DrainSource::Seen => "seen during the window",
        DrainSource::SeenEarlier => "seen in an earlier window",
        DrainSource::KernelEstimate => "the kernel's estimate",
        DrainSource::Unknown => "unknown",
    }
}

/// The hard limit: as the kernel has worked it out, else the byte limit that was set.
pub(super) fn hard_limit(status: &Status) -> Option<u64> {
    let set = status.machine.dirty_knobs.hard_bytes.value().copied().filter(|bytes| *bytes > 0);
    status.machine.hard_limit_bytes.value().copied().or(set)
}

/// The background limit, likewise.
pub(super) fn background_limit(status: &Status) -> Option<u64> {
    let set =
        status.machine.dirty_knobs.background_bytes.value().copied().filter(|bytes| *bytes > 0);
    status.machine.background_limit_bytes.value().copied().or(set)
}

/// How much a device alone may hold dirty: its strict share, else the whole hard limit.
pub(super) fn own_limit(device: &Device, hard: u64) -> u64 {
    match (&device.limits.strict_limit, &device.limits.max_ratio_percent) {
        (Reading::Value(true), Reading::Value(percent)) => (hard as f64 * percent / 100.0) as u64,
        _ => hard,
    }
}

/// Whether this kernel has limits of a device alone.
pub(super) fn has_strict_limit(device: &Device) -> bool {
    device.limits.strict_limit.value().is_some()
}

/// The name in a device's knobs: `sda`, or the backing device's name without a disk (`0:51`).
pub(super) fn prefix(device: &Device) -> &str {
    if device.id.major != 0 {
        &device.name
    } else {
        device.bdi.value().map_or(device.name.as_str(), String::as_str)
    }
}

pub(super) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

pub(super) fn speed(bytes_per_s: f64) -> String {
    Rate(bytes_per_s).to_string()
}

pub(super) fn time(seconds: f64) -> String {
    // More than a year is no longer a figure that anyone could use, and the type ends somewhere.
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| d.as_secs() < 365 * 86_400)
        .map_or_else(|| "more than a year".into(), human_duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Machine, disk};

    #[test]
    fn a_disk_below_two_devices_is_one_disk() {
        let mut machine = Machine::healthy();
        let leaf = machine.leaf("sdz");
        machine.status.devices.push(machine.stacked("dm-0", vec![leaf.clone()]));
        machine.status.devices.push(machine.stacked("dm-1", vec![leaf]));
        let status = &machine.status;
        let names: Vec<&str> = disks(status).iter().map(|d| d.name).collect();
        assert_eq!(names, ["sda", "sdz"]);
    }

    #[test]
    fn only_a_medium_that_can_be_known_seeks() {
        let mut device = disk("sdb");
        device.queue.rotational = Reading::Value(true);
        let seeks = |device: &Device| disks_of(device).first().is_some_and(Disk::seeks);
        assert!(seeks(&device));
        device.model = Reading::Value("KINGSTON SSD 240".into());
        assert!(!seeks(&device));
        device.model = Reading::Value("QEMU HARDDISK".into());
        assert!(!seeks(&device));
        device.driver = Reading::Value("virtio_blk".into());
        assert!(!seeks(&device));
    }

    fn disks_of(device: &Device) -> Vec<Disk<'_>> {
        vec![Disk {
            name: &device.name,
            model: &device.model,
            driver: &device.driver,
            queue: &device.queue,
            owner: device,
        }]
    }
}
