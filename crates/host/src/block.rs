//! Block devices: name, kind, model, size; from a partition to its disk and from a stacked device
//! to those below it.
//!
//! Everything starts at /sys/dev/block/MAJ:MIN, a link to the device's directory. For a partition
//! that directory lies inside its disk's.

use floodwall_model::{DeviceId, Reading};

use crate::ata;
use crate::root::{SysRoot, not_understood};
use crate::text::squeezed;

/// The kernel counts /sys/block/NAME/size and /proc/diskstats in units of 512 bytes, whatever the
/// device's own block size.
pub const SECTOR_BYTES: u64 = 512;

/// The directory of a block device.
#[must_use]
pub fn directory(id: DeviceId) -> String {
    format!("/sys/dev/block/{id}")
}

/// What a block device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A disk, or anything else that has no device below it.
    Disk,
    /// A partition.
    Partition,
    /// A device-mapper device: its name (`vg-root`) and the subsystem that made it (`LVM`, `CRYPT`,
    /// `mpath`), as far as they are known.
    DeviceMapper {
        /// dm/name.
        name: Option<String>,
        /// What dm/uuid begins with.
        subsystem: Option<String>,
    },
    /// An md array and its level (`raid1`).
    Md {
        /// md/level.
        level: Option<String>,
    },
    /// A loop device and the path of its backing file, as of the time when it was set up.
    Loop {
        /// loop/backing_file.
        backing_file: String,
    },
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its number.
    pub id: DeviceId,
    /// The kernel's name (`sda1`, `dm-0`).
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Vendor and model; absent for virtual devices.
    pub model: Reading<String>,
    /// Capacity.
    pub size_bytes: Reading<u64>,
}

/// Reads what a block device is.
///
/// Without /sys/dev/block/MAJ:MIN the reason is returned: a container without /sys, or a device
/// that is gone.
pub fn read_device(root: &SysRoot, id: DeviceId) -> Reading<BlockDevice> {
    let dir = directory(id);
    read_name(root, id).map(|name| BlockDevice {
        id,
        name,
        kind: read_kind(root, &dir),
        model: read_model(root, &dir),
        size_bytes: root
            .parse::<u64>(&format!("{dir}/size"))
            .map(|sectors| sectors.saturating_mul(SECTOR_BYTES)),
    })
}

/// The kernel's name of a block device (uevent `DEVNAME`).
pub fn read_name(root: &SysRoot, id: DeviceId) -> Reading<String> {
    let path = format!("{}/uevent", directory(id));
    root.read(&path).and_then(|text| {
        match text.lines().find_map(|line| line.strip_prefix("DEVNAME=")) {
            Some(name) if !name.is_empty() => Reading::Value(name.to_owned()),
            _ => not_understood(&path, &text),
        }
    })
}

fn read_kind(root: &SysRoot, dir: &str) -> Kind {
    if root.exists(&format!("{dir}/partition")) {
        return Kind::Partition;
    }
    if let Reading::Value(backing_file) = root.read_line(&format!("{dir}/loop/backing_file")) {
        return Kind::Loop { backing_file };
    }
    if root.exists(&format!("{dir}/dm")) {
        let name = root.read_line(&format!("{dir}/dm/name")).into_value();
        let uuid = root.read_line(&format!("{dir}/dm/uuid")).into_value();
        // The prefix names the maker (`LVM-`, `CRYPT-LUKS2-`, `mpath-`); the rest identifies the
        // volume and stays private.
        let subsystem = uuid.and_then(|u| u.split_once('-').map(|(prefix, _)| prefix.to_owned()));
        return Kind::DeviceMapper { name, subsystem };
    }
    if root.exists(&format!("{dir}/md")) {
        return Kind::Md { level: root.read_line(&format!("{dir}/md/level")).into_value() };
    }
    Kind::Disk
}

/// Vendor and model, blanks squeezed; never the serial number.
fn read_model(root: &SysRoot, dir: &str) -> Reading<String> {
    let line = |file: &str| root.read_line(&format!("{dir}/device/{file}"));
    if let Some(names) = ata::read_names(root, dir) {
        return Reading::Value(names.model);
    }
    line("model").map(|model| {
        // `ATA` is the SCSI translation layer's vendor; virtio's is a number.
        let vendor = line("vendor").into_value().filter(|v| v != "ATA" && !v.starts_with("0x"));
        squeezed(&format!("{} {model}", vendor.unwrap_or_default()))
    })
}

/// Whether a USB device is above a block device: its directory lies below `usbN`. `None` if the
/// link to it can't be read.
pub fn is_on_usb(root: &SysRoot, directory: &str) -> Option<bool> {
    let is_bus = |name: &str| {
        name.strip_prefix("usb")
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
    };
    root.link_target(directory).value().map(|path| path.split('/').any(is_bus))
}

/// Whether a disk comes and goes: on USB, with removable media, or an SD card. Optical drives and
/// floppies do not count.
pub fn is_removable(root: &SysRoot, name: &str, directory: &str) -> bool {
    let reads = |file: &str, wanted: &str| {
        root.read_line(&format!("{directory}/{file}")).value().is_some_and(|text| text == wanted)
    };
    if name.starts_with("sd") {
        is_on_usb(root, directory) == Some(true) || reads("removable", "1")
    } else {
        // The reader's card is no removable medium to the kernel; an eMMC has the same driver.
        name.starts_with("mmcblk") && reads("device/type", "SD")
    }
}

/// A device's reads and writes at its driver (Documentation/ABI/stable/sysfs-block, `inflight`).
#[must_use]
pub fn read_in_flight(root: &SysRoot, id: DeviceId) -> Option<[u64; 2]> {
    let line = root.read_line(&format!("{}/inflight", directory(id))).into_value()?;
    let mut numbers = line.split_whitespace().map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

/// A disk's firmware revision, blanks squeezed; absent for virtual devices. SCSI and ATA disks have
/// `rev`, NVMe drives `firmware_rev`.
pub fn read_firmware(root: &SysRoot, id: DeviceId) -> Reading<String> {
    let dir = directory(id);
    if let Some(names) = ata::read_names(root, &dir) {
        return Reading::Value(names.firmware);
    }
    let line = |file: &str| root.read_line(&format!("{dir}/device/{file}"));
    line("rev").or_else(|| line("firmware_rev")).map(|text| squeezed(&text))
}

/// The driver behind a block device (`sd`, `virtio_blk`, `nvme`); absent for virtual devices.
pub(crate) fn read_driver(root: &SysRoot, id: DeviceId) -> Reading<String> {
    let dir = directory(id);
    // An NVMe namespace's device is its controller, whose device has the driver.
    root.link_name(&format!("{dir}/device/driver"))
        .or_else(|| root.link_name(&format!("{dir}/device/device/driver")))
}

/// Whether a loop device reads and writes its file past the page cache (drivers/block/loop.c
/// `loop_attr_dio_show`); absent for all others.
pub(crate) fn read_loop_direct_io(root: &SysRoot, id: DeviceId) -> Reading<bool> {
    root.parse::<u8>(&format!("{}/loop/dio", directory(id))).map(|dio| dio != 0)
}

/// The disk that a partition is on; any other device is its own.
pub fn whole_disk(root: &SysRoot, id: DeviceId) -> Reading<DeviceId> {
    let dir = directory(id);
    if root.exists(&format!("{dir}/partition")) {
        return root.parse(&format!("{dir}/../dev"));
    }
    // Asks for a file that every block device has, so that a device that is not there is not its
    // own disk.
    root.parse(&format!("{dir}/dev"))
}

/// The devices directly below a stacked one (dm, md, bcache), in the order of their names; empty
/// for all others.
#[must_use]
pub fn slaves(root: &SysRoot, id: DeviceId) -> Vec<DeviceId> {
    let dir = format!("{}/slaves", directory(id));
    let names = root.list(&dir).into_value().unwrap_or_default();
    names.iter().filter_map(|name| root.parse(&format!("{dir}/{name}/dev")).into_value()).collect()
}

/// The number of the device that a path such as /dev/sda1 or /dev/mapper/vg-root names.
///
/// Goes by the kernel's names, so that it works on a captured tree, which has no /dev; on the live
/// machine other links (/dev/disk/by-uuid/…) are followed too.
pub fn by_path(root: &SysRoot, path: &str) -> Reading<DeviceId> {
    let Some(name) = path.strip_prefix("/dev/") else {
        return Reading::Absent(format!("'{path}' is not a device"));
    };
    if let Some(mapped) = name.strip_prefix("mapper/") {
        let found = root.list("/sys/class/block").and_then(|names| {
            let is_it = |n: &&String| {
                n.starts_with("dm-")
                    && root
                        .read_line(&format!("/sys/class/block/{n}/dm/name"))
                        .value()
                        .is_some_and(|m| m == mapped)
            };
            match names.iter().find(is_it) {
                Some(n) => root.parse(&format!("/sys/class/block/{n}/dev")),
                None => Reading::Absent(format!("no device-mapper device is called '{mapped}'")),
            }
        });
        return found.or_else(|| by_node(root, path));
    }
    // In sysfs a slash in a device's name is an exclamation mark (cciss!c0d0p1).
    root.parse(&format!("/sys/class/block/{}/dev", name.replace('/', "!")))
        .or_else(|| by_node(root, path))
}

/// The number of a device node on the live machine.
fn by_node(root: &SysRoot, path: &str) -> Reading<DeviceId> {
    if !root.is_live() {
        return Reading::Absent(format!("'{path}' is not in the captured tree"));
    }
    match rustix::fs::stat(path) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device() => {
            Reading::Value(DeviceId {
                major: rustix::fs::major(stat.st_rdev),
                minor: rustix::fs::minor(stat.st_rdev),
            })
        }
        Ok(_) => Reading::Absent(format!("'{path}' is not a block device")),
        Err(e) => crate::root::refused(path, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    fn id(text: &str) -> DeviceId {
        text.parse().unwrap()
    }

    #[test]
    fn a_partition_its_disk_and_a_mapped_device() {
        let (_dir, root) = tree(&[
            ("sys/dev/block/8:0", "->../../devices/pci/sda"),
            ("sys/dev/block/8:1", "->../../devices/pci/sda/sda1"),
            ("sys/dev/block/253:0", "->../../devices/virtual/block/dm-0"),
            ("sys/class/block/sda1", "->../../devices/pci/sda/sda1"),
            ("sys/class/block/dm-0", "->../../devices/virtual/block/dm-0"),
            ("sys/devices/pci/sda/dev", "8:0\n"),
            ("sys/devices/pci/sda/uevent", "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\n"),
            ("sys/devices/pci/sda/size", "2048\n"),
            ("sys/devices/pci/sda/device/model", "ST1000  DM003   \n"),
            ("sys/devices/pci/sda/device/vendor", "ATA     \n"),
            ("sys/devices/pci/sda/device/rev", "CC43 \n"),
            ("sys/devices/pci/sda/device/driver", "->../../../bus/scsi/drivers/sd"),
            ("sys/dev/block/259:0", "->../../devices/pci/nvme0/nvme0n1"),
            ("sys/devices/pci/nvme0/nvme0n1/device", "->../../nvme0"),
            ("sys/devices/pci/nvme0/device/driver", "->../../../bus/pci/drivers/nvme"),
            ("sys/dev/block/7:0", "->../../devices/virtual/block/loop0"),
            ("sys/devices/virtual/block/loop0/loop/dio", "1\n"),
            ("sys/devices/pci/sda/sda1/dev", "8:1\n"),
            ("sys/devices/pci/sda/sda1/partition", "1\n"),
            ("sys/devices/pci/sda/sda1/uevent", "DEVNAME=sda1\n"),
            ("sys/devices/virtual/block/dm-0/dev", "253:0\n"),
            ("sys/devices/virtual/block/dm-0/uevent", "DEVNAME=dm-0\n"),
            ("sys/devices/virtual/block/dm-0/dm/name", "vg-root\n"),
            ("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abcdef\n"),
            ("sys/devices/virtual/block/dm-0/slaves/sda1", "->../../../../pci/sda/sda1"),
        ]);
        let disk = read_device(&root, id("8:0")).into_value().unwrap();
        assert_eq!(disk.name, "sda");
        assert_eq!(disk.kind, Kind::Disk);
        assert_eq!(disk.model, Reading::Value("ST1000 DM003".into()));
        assert_eq!(disk.size_bytes, Reading::Value(1 << 20));
        assert_eq!(read_firmware(&root, id("8:0")), Reading::Value("CC43".into()));
        assert!(matches!(read_firmware(&root, id("253:0")), Reading::Absent(_)));
        assert_eq!(read_driver(&root, id("8:0")), Reading::Value("sd".into()));
        assert_eq!(read_driver(&root, id("259:0")), Reading::Value("nvme".into()));
        assert!(matches!(read_driver(&root, id("253:0")), Reading::Absent(_)));
        assert_eq!(read_loop_direct_io(&root, id("7:0")), Reading::Value(true));
        assert_eq!(read_device(&root, id("8:1")).into_value().unwrap().kind, Kind::Partition);
        assert_eq!(whole_disk(&root, id("8:1")), Reading::Value(id("8:0")));
        assert_eq!(whole_disk(&root, id("8:0")), Reading::Value(id("8:0")));
        assert!(matches!(whole_disk(&root, id("8:9")), Reading::Absent(_)));
        assert_eq!(
            read_device(&root, id("253:0")).into_value().unwrap().kind,
            Kind::DeviceMapper { name: Some("vg-root".into()), subsystem: Some("LVM".into()) }
        );
        assert_eq!(slaves(&root, id("253:0")), [id("8:1")]);
        assert_eq!(by_path(&root, "/dev/mapper/vg-root"), Reading::Value(id("253:0")));
        assert_eq!(by_path(&root, "/dev/sda1"), Reading::Value(id("8:1")));
        assert!(matches!(by_path(&root, "/dev/disk/by-uuid/1234"), Reading::Absent(_)));
        assert!(matches!(by_path(&root, "server:/exports"), Reading::Absent(_)));
    }
}
