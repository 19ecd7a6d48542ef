//! Whole disks, and what they are stacked on.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_host::{SysRoot, block, queue};
use floodwall_model::DeviceId;

use super::unit::LeftOut;

/// A whole disk as /sys/block has it.
pub(super) struct Disk {
    pub(super) name: String,
    /// Whether requests wait here, and not only below.
    pub(super) has_queue: bool,
    pub(super) below: Vec<DeviceId>,
}

/// Whole disks by number. Disks in memory are left out with a reason, disks without a medium or
/// file without one.
pub(super) fn disks(root: &SysRoot, left_out: &mut Vec<LeftOut>) -> BTreeMap<DeviceId, Disk> {
    let mut disks = BTreeMap::new();
    for (name, directory) in directories(root) {
        let Some(id) = root.parse::<DeviceId>(&format!("{directory}/dev")).into_value() else {
            continue;
        };
        if root.parse::<u64>(&format!("{directory}/size")).into_value() == Some(0) {
            continue;
        }
        if name.starts_with("zram") || name.starts_with("ram") {
            left_out.push(LeftOut { what: name, why: "it is memory".to_owned() });
            continue;
        }
        let slaves = block::slaves(root, id);
        let below: Vec<DeviceId> =
            slaves.iter().filter_map(|id| block::whole_disk(root, *id).into_value()).collect();
        // Up to 6.7 a device that is built on bios has the file too, but no hardware queues.
        let has_queue = root.exists(&format!("{}/nr_requests", queue::directory(id)))
            && (below.is_empty() || root.exists(&format!("{directory}/mq")));
        disks.insert(id, Disk { name: name.replace('!', "/"), has_queue, below });
    }
    disks
}

/// Whole disks' names and directories. A captured tree has them by number alone.
fn directories(root: &SysRoot) -> Vec<(String, String)> {
    if let Some(names) = root.list("/sys/block").into_value() {
        return names
            .into_iter()
            .map(|name| (name.clone(), format!("/sys/block/{name}")))
            .collect();
    }
    let numbers = root.list("/sys/dev/block").into_value().unwrap_or_default();
    let disk = |number: String| {
        let directory = format!("/sys/dev/block/{number}");
        let is_disk = !root.exists(&format!("{directory}/partition"));
        is_disk.then(|| (root.link_name(&directory).into_value().unwrap_or(number), directory))
    };
    numbers.into_iter().filter_map(disk).collect()
}

/// The queues that a device's requests may go to.
pub(super) fn below(id: DeviceId, disks: &BTreeMap<DeviceId, Disk>) -> BTreeSet<DeviceId> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut to_visit = vec![id];
    while let Some(id) = to_visit.pop() {
        let Some(disk) = disks.get(&id).filter(|_| seen.insert(id)) else { continue };
        if disk.has_queue {
            found.insert(id);
        } else {
            to_visit.extend(&disk.below);
        }
    }
    found
}
