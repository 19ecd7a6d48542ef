//! From the machine's disks and mounts to units.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_host::layout::Layout;
use floodwall_host::{SysRoot, bdi, block};
use floodwall_knobs::Device;
use floodwall_model::DeviceId;
use floodwall_model::plant::DeviceKind;

use super::disks::{Disk, below, disks};
use super::groups::Groups;
use super::unit::{LeftOut, Unit};
use crate::kind;

/// Reads the machine's devices and mounts.
pub(super) fn read(root: &SysRoot) -> (Vec<Unit>, Vec<LeftOut>) {
    let (mut units, mut left_out) = (Vec::new(), Vec::new());
    let disks = disks(root, &mut left_out);
    let layout = Layout::read(root);
    let mut groups = Groups::default();
    let mut paths = BTreeSet::new();
    for (id, disk) in &disks {
        groups.add(*id);
        for below in &disk.below {
            if disk.has_queue {
                paths.insert(*below);
            } else {
                groups.join(*id, *below);
            }
        }
    }
    // btrfs: one limit for all members.
    let mut of_filesystem: BTreeMap<DeviceId, Vec<Device>> = BTreeMap::new();
    for row in layout.rows.iter().filter(|row| row.queue_device.is_none()) {
        let Some(name) = row.bdi.value() else { continue };
        let Ok(limits) = Device::find(root, name) else { continue };
        let members: Vec<DeviceId> =
            row.devices.iter().filter_map(|id| block::whole_disk(root, *id).into_value()).collect();
        match members.as_slice() {
            [] => {
                left_out.extend(unattributed(
                    &row.name,
                    row.mounts.first().map(|m| m.mountpoint.as_str()),
                ));
                units.push(Unit {
                    id: row.id,
                    name: row.name.clone(),
                    kind: DeviceKind::Unknown,
                    members: BTreeSet::from([row.id]),
                    queues: Vec::new(),
                    limits: vec![limits],
                    mounts: row.mounts.iter().map(|m| m.mountpoint.clone()).collect(),
                });
            }
            [first, rest @ ..] => {
                rest.iter().for_each(|other| groups.join(*first, *other));
                of_filesystem.entry(*first).or_default().push(limits);
            }
        }
    }
    for members in groups.all() {
        // A path's requests come from the device above it, which has the queue.
        if members.iter().any(|id| paths.contains(id)) {
            let name =
                members.iter().filter_map(|id| disks.get(id)).map(|disk| disk.name.clone()).next();
            left_out.push(LeftOut {
                what: name.unwrap_or_default(),
                why: "it is a path of a device above it, whose queue is steered".into(),
            });
            continue;
        }
        units.extend(unit(root, members, &disks, &of_filesystem, &layout, &mut left_out));
    }
    for elsewhere in &layout.elsewhere {
        let what = format!("{} ({})", elsewhere.mountpoint, elsewhere.filesystem);
        left_out.push(LeftOut { what, why: elsewhere.why.clone() });
    }
    (units, left_out)
}

fn unattributed(name: &str, mount: Option<&str>) -> Option<LeftOut> {
    let what = mount.map_or_else(|| name.to_owned(), |mount| format!("{mount} ({name})"));
    let why =
        "it has no queue: its limits alone can be steered, and who waits for it can't be told"
            .to_owned();
    Some(LeftOut { what, why })
}

fn unit(
    root: &SysRoot,
    members: BTreeSet<DeviceId>,
    disks: &BTreeMap<DeviceId, Disk>,
    of_filesystem: &BTreeMap<DeviceId, Vec<Device>>,
    layout: &Layout,
    left_out: &mut Vec<LeftOut>,
) -> Option<Unit> {
    let queues: Vec<DeviceId> = members
        .iter()
        .copied()
        .filter(|id| disks.get(id).is_some_and(|disk| disk.has_queue))
        .collect();
    // A process that waits for a device with several queues waits for that one device.
    let id = match queues.as_slice() {
        [one] => *one,
        [] => *members.first()?,
        _ => {
            let covers =
                |id: &&DeviceId| below(**id, disks).is_superset(&queues.iter().copied().collect());
            members.iter().find(covers).copied().or_else(|| queues.first().copied())?
        }
    };
    let name = disks.get(&id).map_or_else(|| id.to_string(), |disk| disk.name.clone());
    let has_limits = |id: &&DeviceId| root.exists(&bdi::directory(&id.to_string()));
    let find = |id: &DeviceId| Device::find(root, &id.to_string()).ok();
    // Dirty pages are counted for a device that a filesystem is on, and for a device that is
    // written directly. No device is stacked on the latter.
    let is_below = |id: &DeviceId| {
        members.iter().any(|top| disks.get(top).is_some_and(|disk| disk.below.contains(id)))
    };
    let is_mounted = |id: &DeviceId| layout.rows.iter().any(|row| row.queue_device == Some(*id));
    let holds_pages = |id: &&DeviceId| !is_below(id) || is_mounted(id);
    let mut limits: Vec<Device> =
        members.iter().filter(holds_pages).filter(has_limits).filter_map(find).collect();
    let filesystems: Vec<Device> =
        members.iter().filter_map(|id| of_filesystem.get(id)).flatten().cloned().collect();
    if !filesystems.is_empty() {
        limits = filesystems;
    }
    let queues: Vec<Device> = queues.iter().filter_map(find).collect();
    if queues.is_empty() && limits.is_empty() {
        left_out.push(LeftOut { what: name, why: "it has neither a queue nor limits".to_owned() });
        return None;
    }
    let on = |row: &&floodwall_host::layout::Row| {
        row.devices.iter().chain(&row.queue_device).any(|id| members.contains(id))
    };
    let mounts = layout.rows.iter().filter(on).flat_map(|row| &row.mounts);
    let mut mounts: Vec<String> = mounts.map(|mount| mount.mountpoint.clone()).collect();
    mounts.sort_unstable();
    mounts.dedup();
    let kind = kind::kind(root, &queues);
    Some(Unit { id, name, kind, members, queues, limits, mounts })
}
