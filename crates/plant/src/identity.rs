//! What a unit is known by after a boot, so that values learnt of it can be kept.

use floodwall_host::{SysRoot, block};
use floodwall_knobs::Device;
use floodwall_knobs::persist::identify_all;
use floodwall_model::DeviceId;

use crate::units::{Unit, Units};

/// Bytes of a sector in /sys.
const SECTOR: u64 = 512;

/// The same device, after a boot too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// The key of a match in a udev rule, and its value: `ENV{ID_SERIAL}=ST2000_Z1`.
    pub known_by: String,
    /// Firmware revisions of its disks, as far as the kernel tells them.
    pub firmware: String,
    /// Its size.
    pub size_bytes: u64,
    /// Vendor and model of its disk; `None` of several disks.
    pub model: Option<String>,
}

/// A unit's disk, or why it has none that can be known again.
type Disk<'a> = Result<(&'a Unit, Device), String>;

/// The identities of some units; of each that has none, the reason.
pub(crate) fn identities(
    root: &SysRoot,
    units: &Units,
    ids: &[DeviceId],
) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
    let disks: Vec<Disk<'_>> = ids.iter().map(|id| disk(root, units, *id)).collect();
    let devices: Vec<Device> = disks.iter().flatten().map(|(_, device)| device.clone()).collect();
    let mut known = identify_all(root, &devices).into_iter();
    let identity = |disk: Disk<'_>| {
        let (unit, device) = disk?;
        let identity = known.next().ok_or("it is not there")?.map_err(|e| e.to_string())?;
        let size: Option<u64> =
            root.parse(&format!("/sys/dev/block/{}/size", device.number)).into_value();
        let firmware: Vec<String> =
            unit.queues.iter().filter_map(|queue| revision(root, queue)).collect();
        Ok(DeviceIdentity {
            known_by: format!("{}={}", identity.key.rule(), identity.pattern),
            firmware: firmware.join(", "),
            size_bytes: size.unwrap_or(0) * SECTOR,
            model: model(root, &unit.queues),
        })
    };
    ids.iter().copied().zip(disks.into_iter().map(identity)).collect()
}

/// The disk that a unit is known by.
fn disk<'a>(root: &SysRoot, units: &'a Units, id: DeviceId) -> Disk<'a> {
    let unit = units.get(id).ok_or("it is not there")?;
    let directory = format!("/sys/dev/block/{id}");
    if !root.exists(&directory) {
        return Err("it is no disk".to_owned());
    }
    if unit.name.starts_with("loop") || root.exists(&format!("{directory}/loop")) {
        return Err("it is a loop device, which may stand on another file the next time".to_owned());
    }
    Ok((unit, Device::find(root, &id.to_string()).map_err(|e| e.to_string())?))
}

/// A disk's firmware revision.
fn revision(root: &SysRoot, disk: &Device) -> Option<String> {
    block::read_firmware(root, disk.number.parse().ok()?).into_value()
}

/// The model of the one disk.
fn model(root: &SysRoot, disks: &[Device]) -> Option<String> {
    let [disk] = disks else { return None };
    let id = disk.number.parse().ok()?;
    block::read_device(root, id).into_value()?.model.into_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
    const LOOP: DeviceId = DeviceId { major: 7, minor: 3 };
    const NVME: DeviceId = DeviceId { major: 259, minor: 0 };

    fn read(root: &std::path::Path, id: DeviceId) -> Result<DeviceIdentity, String> {
        let root = SysRoot::new(root).unwrap();
        let units = Units::read(&root);
        identities(&root, &units, &[id]).pop().unwrap().1
    }

    #[test]
    fn a_disk_has_its_serial_number_its_firmware_and_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, line: &str| put(dir.path(), path, line);
        for (name, number, file, revision) in [
            ("sda", "8:0", "rev", "CC43 "),
            ("nvme0n1", "259:0", "firmware_rev", "2B2QEXM7"),
            ("loop3", "7:3", "none", ""),
        ] {
            let disk = format!("sys/devices/{name}");
            put(&format!("{disk}/dev"), number);
            put(&format!("{disk}/uevent"), &format!("DEVNAME={name}"));
            put(&format!("{disk}/size"), "2048");
            put(&format!("{disk}/queue/nr_requests"), "64");
            put(&format!("{disk}/mq/0/nr_tags"), "64");
            put(&format!("{disk}/device/{file}"), revision);
            put(&format!("{disk}/device/model"), "ST2000 ");
            for class in ["sys/dev/block", "sys/class/block", "sys/block"] {
                let place = if class == "sys/dev/block" { number } else { name };
                let up = "../".repeat(class.split('/').count() - 1);
                put(&format!("{class}/{place}"), &format!("->{up}devices/{name}"));
            }
        }
        put("sys/devices/loop3/loop/backing_file", "/srv/a.img");
        put("run/udev/data/b8:0", "E:ID_SERIAL=ST2000_Z1\nE:ID_SERIAL_SHORT=Z1");
        let sda = read(dir.path(), SDA).unwrap();
        let known_by = "ENV{ID_SERIAL}=ST2000_Z1".to_owned();
        assert_eq!(
            sda,
            DeviceIdentity {
                known_by,
                firmware: "CC43".into(),
                size_bytes: 1 << 20,
                model: Some("ST2000".into()),
            }
        );
        let said = read(dir.path(), NVME).unwrap_err();
        assert!(said.contains("no serial number"), "{said}");
        put("sys/devices/nvme0n1/wwid", "eui.0025");
        let nvme = read(dir.path(), NVME).unwrap();
        assert_eq!(
            (nvme.known_by.as_str(), nvme.firmware.as_str()),
            ("ATTR{wwid}=eui.0025", "2B2QEXM7")
        );
        assert!(read(dir.path(), LOOP).unwrap_err().contains("a loop device"));
        assert!(read(dir.path(), DeviceId { major: 9, minor: 9 }).is_err());
    }
}
