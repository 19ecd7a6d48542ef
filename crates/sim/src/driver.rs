//! The driver between the block layer and a device: its number of queues, their elevator, its
//! treatment of a FLUSH.
//!
//! | driver | for | queues | commands | FUA | a FLUSH |
//! |---|---|---|---|---|---|
//! | libata | a disk by itself, a flash drive on a link of up to 600 MB/s | 1 | 32 | no | alone |
//! | SCSI | arrays, controllers' caches, what is behind a link | 1 | up to 128 | no | with others |
//! | USB storage, MMC | sticks and cards | 1 | 1 | no | with others |
//! | NVMe | faster flash drives, cloud volumes, `null` | 1 a CPU | up to 128 | yes | with others |
//! | loop | a lab device ([`LoopDriver`]) | 1, no elevator | 128 | no | holds back later requests |
//!
//! Queues are hardware queues. *Up to 128* commands: the device's own number, up to 128. libata has
//! no FUA because of `libata.fua=0`. Its FLUSH goes alone because it can't be queued
//! (`ata_std_qc_defer`).
//!
//! The kernel gives mq-deadline to a device with one hardware queue and no elevator to one with
//! several (`elevator_set_default`, block/elevator.c of 5.0 and later). The loop driver asks for no
//! elevator (`BLK_MQ_F_NO_SCHED_BY_DEFAULT`).
//!
//! [`LoopDriver`]: crate::block::LoopDriver

use floodwall_device::DeviceSpec;
use floodwall_device::spec::Medium;

use crate::elevator::ElevatorKind;
use crate::eras::parts;
use crate::kernel::Generation;

/// Bytes per second of the fastest SATA link (6 Gbit/s, 8b/10b coded); a drive with a faster one is
/// on PCI Express.
const SATA_RATE: f64 = 600e6;
/// Tags of native command queueing.
const SATA_DEPTH: u32 = 32;
/// Commands that the loop driver takes (`hw_queue_depth`, drivers/block/loop.c).
const LOOP_DEPTH: u32 = 128;
/// More than the hosts of such devices take at once, whatever the device could: a SCSI disk 32
/// to 254.
const MOST_DEPTH: u32 = 128;

/// A driver, as far as the block layer can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    kind: Kind,
    cpus: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Libata,
    Scsi,
    Single,
    Nvme,
    Loop,
}

impl Driver {
    /// The driver of a device on a machine with so many CPUs; `lab`: the device is one of the
    /// lab's.
    pub(crate) fn of(device: &DeviceSpec, lab: bool, cpus: u32) -> Self {
        let alone = device.array.is_none() && device.cache.is_none() && device.link.is_none();
        let kind = match &device.medium {
            _ if lab => Kind::Loop,
            Medium::Disk(_) if alone => Kind::Libata,
            Medium::Flash(flash) if alone && flash.link_rate <= SATA_RATE => Kind::Libata,
            Medium::Flash(_) | Medium::Cloud(_) | Medium::Null { .. } if alone => Kind::Nvme,
            Medium::CheapFlash(_) if alone => Kind::Single,
            _ => Kind::Scsi,
        };
        Self { kind, cpus: cpus.max(1) }
    }

    /// Queues of the device that requests are handed to.
    pub(crate) fn hardware_queues(self) -> u32 {
        if self.kind == Kind::Nvme { self.cpus } else { 1 }
    }

    /// The elevator that a kernel gives such a device.
    pub(crate) fn default_elevator(self, generation: Generation) -> ElevatorKind {
        match self.kind {
            Kind::Loop if generation.is_multiqueue() => ElevatorKind::None,
            _ => parts::default_for(generation, self.hardware_queues()),
        }
    }

    /// Commands that the driver hands to a device at once, if the device can use `usable`.
    pub(crate) fn depth(self, usable: u32) -> u32 {
        match self.kind {
            Kind::Libata => usable.min(SATA_DEPTH),
            Kind::Single => 1,
            Kind::Scsi | Kind::Nvme => usable.min(MOST_DEPTH),
            Kind::Loop => LOOP_DEPTH,
        }
    }

    /// Whether the depth of the device's own queue can be changed (`device/queue_depth`): behind
    /// the SCSI layer, and not where the driver gives one command at a time anyway.
    pub(crate) fn queue_depth_changes(self) -> bool {
        matches!(self.kind, Kind::Libata | Kind::Scsi)
    }

    /// Whether a single write can be forced to the medium.
    pub(crate) fn fua(self) -> bool {
        self.kind == Kind::Nvme
    }

    /// Whether the queue runs dry before a FLUSH, and nothing is sent until it is done.
    pub(crate) fn flush_alone(self) -> bool {
        self.kind == Kind::Libata
    }

    /// Whether the queue was marked rotational when writeback throttling was set up: a loop device
    /// gets the flag only later.
    pub(crate) fn rotational_at_first(self, rotational: bool) -> bool {
        rotational && self.kind != Kind::Loop
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::preset_names;

    use super::*;

    /// The elevator that each preset gets on 6.18 with two CPUs, with its own driver and as a lab
    /// device.
    #[test]
    fn elevators_are_the_kernels_defaults() {
        let multi = ["nvme-consumer", "nvme-datacenter", "cloud-gp3", "null"];
        for name in preset_names() {
            let device = DeviceSpec::preset(name).unwrap();
            let own = Driver::of(&device, false, 2).default_elevator(Generation::K6);
            let expected =
                if multi.contains(&name) { ElevatorKind::None } else { ElevatorKind::MqDeadline };
            assert_eq!(own, expected, "{name}");
            let lab = Driver::of(&device, true, 2).default_elevator(Generation::K6);
            assert_eq!(lab, ElevatorKind::None, "{name} in the lab");
        }
    }

    #[test]
    fn an_nvme_drive_of_a_single_cpu_has_one_queue_and_an_elevator() {
        let nvme = DeviceSpec::preset("nvme-consumer").unwrap();
        assert_eq!(
            Driver::of(&nvme, false, 1).default_elevator(Generation::K6),
            ElevatorKind::MqDeadline
        );
        assert_eq!(
            Driver::of(&nvme, false, 1).default_elevator(Generation::K2_6_32),
            ElevatorKind::Cfq
        );
    }

    #[test]
    fn a_sata_drive_takes_its_flush_alone_and_an_nvme_drive_forces_single_writes() {
        let driver = |name: &str| Driver::of(&DeviceSpec::preset(name).unwrap(), false, 4);
        for name in ["hdd-7200", "sata-ssd", "sata-ssd-worn"] {
            let d = driver(name);
            assert_eq!((d.flush_alone(), d.fua(), d.depth(200)), (true, false, 32), "{name}");
        }
        let nvme = driver("nvme-consumer");
        assert_eq!((nvme.flush_alone(), nvme.fua(), nvme.depth(200)), (false, true, 128));
        let array = driver("raid10-bbwc-2010");
        assert_eq!((array.flush_alone(), array.fua(), array.depth(64)), (false, false, 64));
        assert_eq!(driver("usb-stick").depth(8), 1);
    }
}
