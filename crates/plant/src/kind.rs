//! What a unit's disks are, as far as the kernel tells without a measurement.

use floodwall_host::{SysRoot, queue};
use floodwall_knobs::Device;
use floodwall_model::DeviceId;
use floodwall_model::plant::DeviceKind;

/// The kind that all queues of a unit have. [`DeviceKind::Unknown`] if they differ, if there are no
/// queues, or if /sys does not tell.
pub(crate) fn kind(root: &SysRoot, queues: &[Device]) -> DeviceKind {
    let mut kinds = queues.iter().map(|queue| of_disk(root, queue));
    let first = kinds.next().unwrap_or_default();
    if kinds.all(|other| other == first) { first } else { DeviceKind::Unknown }
}

fn of_disk(root: &SysRoot, disk: &Device) -> DeviceKind {
    let directory = format!("/sys/dev/block/{}", disk.number);
    // USB sticks say that they turn. SD cards are not removable: their reader is.
    let is_removable = root.parse::<u8>(&format!("{directory}/removable")).into_value() == Some(1);
    if is_removable || disk.name.starts_with("mmcblk") {
        return DeviceKind::Removable;
    }
    if disk.name.starts_with("nvme") {
        return DeviceKind::Nvme;
    }
    let turns = disk
        .number
        .parse()
        .ok()
        .and_then(|id: DeviceId| queue::read_queue(root, id).rotational.into_value());
    match turns {
        Some(true) => DeviceKind::Rotating,
        Some(false) => DeviceKind::SolidState,
        None => DeviceKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn a_disk_is_what_its_name_and_sysfs_tell() {
        let dir = tempfile::tempdir().unwrap();
        let of = |disks: &[(&str, &str, &str)]| {
            let disk = |(i, (name, removable, rotational)): (usize, &(&str, &str, &str))| {
                let number = format!("8:{i}");
                for (file, value) in [("removable", removable), ("queue/rotational", rotational)] {
                    put(dir.path(), &format!("sys/dev/block/{number}/{file}"), value);
                }
                Device { name: (*name).to_owned(), number, instance: None }
            };
            let queues: Vec<Device> = disks.iter().enumerate().map(disk).collect();
            kind(&SysRoot::new(dir.path()).unwrap(), &queues)
        };
        assert_eq!(of(&[("sda", "0", "1")]), DeviceKind::Rotating);
        assert_eq!(of(&[("sdc", "0", "0")]), DeviceKind::SolidState);
        // virtio disks say that they turn.
        assert_eq!(of(&[("vda", "0", "1")]), DeviceKind::Rotating);
        assert_eq!(of(&[("sdb", "1", "1")]), DeviceKind::Removable);
        assert_eq!(of(&[("mmcblk0", "0", "0")]), DeviceKind::Removable);
        assert_eq!(of(&[("nvme0n1", "0", "0")]), DeviceKind::Nvme);
        assert_eq!(of(&[("sda", "0", "1"), ("sdb", "0", "1")]), DeviceKind::Rotating);
        assert_eq!(of(&[("sda", "0", "1"), ("sdb", "0", "0")]), DeviceKind::Unknown);
        assert_eq!(of(&[("sda", "?", "?")]), DeviceKind::Unknown);
        assert_eq!(of(&[]), DeviceKind::Unknown);
    }
}
