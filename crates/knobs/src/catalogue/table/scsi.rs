//! A SCSI disk below its request queue: /sys/block/NAME/device. A write freezes nothing.

use crate::catalogue::knob::{Knob, Scope, Unit};

pub(super) const KNOBS: &[Knob] = &[Knob {
    name: "device.queue_depth",
    scope: Scope::Scsi,
    unit: Unit::Count,
    min: 1,
    max: 65_536,
    default: "32 for SATA; the driver's choice for others",
    needs: "a disk behind the SCSI layer (SATA, SAS, UAS, virtio-scsi), and a driver that can \
        change it; NVMe, virtio-blk, loop and usb-storage have none",
    adjusts: Some("SATA cuts it to what the drive and its controller take"),
    resets: &[],
    does: "How many requests the device is given at once. A short one leaves the choice among the \
        waiting requests to the elevator.",
    quirks: &[
        "It shortens the device's queue and leaves nr_requests alone: an elevator's classes and \
         weights can act on what waits.",
        "More than the adapter's can_queue is refused by the kernel.",
        "The kernel lowers it while the device answers that its queue is full, and raises it again \
         later.",
        "1 switches native command queueing of a SATA disk off.",
    ],
    source: "drivers/scsi/scsi_sysfs.c sdev_store_queue_depth; drivers/ata/libata-sata.c \
        ata_change_queue_depth; drivers/scsi/scsi_error.c scsi_handle_queue_full",
}];
