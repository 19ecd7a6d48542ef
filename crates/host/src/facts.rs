//! What a result says of the machine it was measured on. Generic on purpose: no host name, no
//! serial number, no address.

use floodwall_model::Reading;
use serde::Serialize;

use crate::block;
use crate::locate::Location;
use crate::root::SysRoot;
use crate::{memory, platform, queue};

/// The machine, the device and the filesystem that a result belongs to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostFacts {
    /// Kernel release.
    pub kernel: Reading<String>,
    /// Usable RAM.
    pub ram_bytes: Reading<u64>,
    /// CPUs online.
    pub cpus: Reading<u64>,
    /// Distribution (/etc/os-release `PRETTY_NAME`).
    pub distribution: Reading<String>,
    /// `virtual machine (…)` or `none seen`, as far as the CPU's flags and the firmware say.
    pub virtualisation: Reading<String>,
    /// The whole disk that the directory's writes meet first; `None` without a block device.
    pub device: Option<DeviceFacts>,
    /// The filesystem's type.
    pub filesystem: String,
    /// Mount and filesystem options, separated by commas; `rw` or `ro` first.
    pub mount_options: String,
    /// The devices from the first down to those that drain.
    pub path: String,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFacts {
    /// The kernel's name.
    pub name: String,
    /// Vendor and model.
    pub model: Reading<String>,
    /// Firmware revision.
    pub firmware: Reading<String>,
    /// The elevator in use.
    pub scheduler: Reading<String>,
    /// Whether it seeks, as the kernel believes.
    pub rotational: Reading<bool>,
    /// Capacity.
    pub size_bytes: Reading<u64>,
    /// Vendors and models of the devices that really drain, where they are others.
    pub leaves: Vec<LeafFacts>,
}

/// A device that drains, below another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeafFacts {
    /// The kernel's name.
    pub name: String,
    /// Vendor and model.
    pub model: Reading<String>,
    /// Firmware revision.
    pub firmware: Reading<String>,
    /// The elevator in use.
    pub scheduler: Reading<String>,
    /// Whether it seeks, as the kernel believes.
    pub rotational: Reading<bool>,
    /// Capacity.
    pub size_bytes: Reading<u64>,
}

impl HostFacts {
    /// Reads the facts for a directory's place.
    #[must_use]
    pub fn read(root: &SysRoot, location: &Location) -> Self {
        Self {
            kernel: memory::read_kernel(root),
            ram_bytes: memory::read_memory(root).total_bytes,
            cpus: memory::read_cpus(root),
            distribution: platform::read_os_release(root, "PRETTY_NAME"),
            virtualisation: read_virtualisation(root),
            device: read_device(root, location),
            filesystem: location.mount.fs_type.clone(),
            mount_options: location.mount.options.join(","),
            path: location.path.clone(),
        }
    }
}

fn read_device(root: &SysRoot, location: &Location) -> Option<DeviceFacts> {
    let id = location.queue_device?;
    let device = block::read_device(root, id).into_value()?;
    let settings = queue::read_queue(root, id);
    let leaves = location.leaves.iter().filter(|leaf| leaf.id != id).map(|leaf| {
        let settings = queue::read_queue(root, leaf.id);
        LeafFacts {
            name: leaf.name.clone(),
            model: leaf.model.clone(),
            firmware: block::read_firmware(root, leaf.id),
            scheduler: settings.scheduler,
            rotational: settings.rotational,
            size_bytes: leaf.size_bytes.clone(),
        }
    });
    Some(DeviceFacts {
        name: device.name,
        model: device.model,
        firmware: block::read_firmware(root, id),
        scheduler: settings.scheduler,
        rotational: settings.rotational,
        size_bytes: device.size_bytes,
        leaves: leaves.collect(),
    })
}

/// The CPU's flags tell of a hypervisor; the firmware often names it. Makers' default texts are
/// left out.
fn read_virtualisation(root: &SysRoot) -> Reading<String> {
    let flagged = platform::read_hypervisor_flag(root);
    let firmware: Vec<String> = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| root.read_line(&format!("/sys/class/dmi/id/{file}")).into_value())
        .filter(|text| {
            !text.is_empty() && !text.contains("To Be Filled") && !text.starts_with("System ")
        })
        .collect();
    flagged.map(|flagged| match (flagged, firmware.is_empty()) {
        (true, true) => "virtual machine".to_owned(),
        (true, false) => format!("virtual machine ({})", firmware.join(", ")),
        (false, true) => "none seen".to_owned(),
        (false, false) => format!("none seen ({})", firmware.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn a_virtual_machine_is_recognised_by_the_cpu_and_named_by_the_firmware() {
        let (_dir, root) =
            tree(&[("proc/cpuinfo", "processor : 0\nflags\t\t: fpu hypervisor sse\n")]);
        assert_eq!(read_virtualisation(&root), Reading::Value("virtual machine".into()));
        let (_dir, root) = tree(&[
            ("proc/cpuinfo", "flags : fpu hypervisor\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n"),
        ]);
        assert_eq!(
            read_virtualisation(&root),
            Reading::Value("virtual machine (QEMU, Standard PC (Q35 + ICH9, 2009))".into())
        );
        let (_dir, root) = tree(&[("proc/cpuinfo", "flags : fpu hypervisorish\n")]);
        assert_eq!(read_virtualisation(&root), Reading::Value("none seen".into()));
    }

    #[test]
    fn the_distribution_has_a_second_place() {
        let (_dir, root) =
            tree(&[("usr/lib/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n")]);
        let name = platform::read_os_release(&root, "PRETTY_NAME");
        assert_eq!(name, Reading::Value("Some Linux 12".into()));
    }
}
