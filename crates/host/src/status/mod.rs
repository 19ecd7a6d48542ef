//! The state of the write path: two observations, one window apart.
//!
//! ```text
//! Observation (t0) ─┐
//!       window      ├─ rates, drain ─┐
//! Observation (t1) ─┘                ├─ Status
//! settings, memory, pressure (t1) ───┘
//! ```
//!
//! A captured tree holds one moment, unless later files are laid over it between the observations:
//! then nothing that takes time can be told of it.

mod counted;
mod drains;
mod live;
mod observation;

use floodwall_model::Reading;
use floodwall_model::status::{Device, Leaf, Machine, Queue, Status};

use crate::bdi;
use crate::block;
use crate::layout::{Layout, Row};
use crate::link;
use crate::memory;
use crate::platform;
use crate::process;
use crate::queue;
use crate::root::SysRoot;
use crate::servers;
use crate::swap;
use crate::topology::Stack;
use counted::{Counted, counted};
pub use live::Live;
pub use observation::Observation;
use observation::{SOLE_NOTE, Window};

/// The state of the write path now, with rates over the time between two observations; `after` was
/// made just now.
///
/// `window_s` is that time in seconds, as the caller's clock measured it; it must be above zero.
/// `is_root` tells whether the process is root already: then root would not add access. Findings
/// are for [`crate::findings::look`] to make.
#[must_use]
pub fn status(
    root: &SysRoot,
    before: &Observation,
    after: &Observation,
    window_s: f64,
    is_root: bool,
) -> Status {
    let machine = read_machine(root, &after.layout);
    let window = Window::new(root, before, after, window_s);
    let devices: Vec<Device> =
        after.layout.rows.iter().map(|row| device(root, row, &window, &machine)).collect();
    let writers = window.writers(root);
    let mut root_would_add = Vec::new();
    if !is_root && devices.iter().any(|d| d.dirty_bytes.is_unreadable()) {
        root_would_add.push("what is dirty for each device and how fast that drains".to_owned());
    }
    if !is_root && writers.unreadable_processes > 0 {
        root_would_add
            .push(format!("the writes of {}", more_processes(writers.unreadable_processes)));
    }
    Status {
        window_s,
        machine,
        devices,
        elsewhere: after.layout.elsewhere.clone(),
        servers: servers::read(root),
        waiters: Reading::Absent(process::NO_PROBE.to_owned()),
        writers,
        root_would_add,
        findings: Vec::new(),
    }
}

fn more_processes(count: u64) -> String {
    if count == 1 { "one more process".to_owned() } else { format!("{count} more processes") }
}

fn read_machine(root: &SysRoot, layout: &Layout) -> Machine {
    let memory = memory::read_memory(root);
    let thresholds = memory::read_thresholds(root);
    let pressure = memory::read_io_pressure(root);
    let centiseconds = |name| memory::read_vm(root, name).map(|n| n.saturating_mul(10));
    Machine {
        kernel: memory::read_kernel(root),
        distribution_ids: platform::read_distribution_ids(root),
        uptime_s: memory::read_uptime_s(root),
        cgroup: match layout.cgroup {
            Some(version) => Reading::Value(version.to_owned()),
            None => Reading::Absent("no control groups are mounted".to_owned()),
        },
        cgroup_v1_controllers: layout.cgroup_v1_controllers.clone(),
        cgroup_v2_controllers: match &layout.cgroup_v2 {
            Some(mount) => root
                .read_line(&format!("{mount}/cgroup.controllers"))
                .map(|text| text.split_whitespace().map(str::to_owned).collect()),
            None => Reading::Absent("control groups of version 2 are not mounted".to_owned()),
        },
        page_bytes: root.page_bytes(),
        cpus: memory::read_cpus(root),
        possible_cpus: platform::read_possible_cpus(root),
        container: platform::read_container(root, &layout.mounts),
        virtualised: platform::read_hypervisor_flag(root),
        reader_is_real_time: platform::read_is_real_time(root),
        ram_bytes: memory.total_bytes,
        dirty_bytes: memory.dirty_bytes,
        writeback_bytes: memory.writeback_bytes,
        hard_limit_bytes: thresholds.hard_bytes,
        background_limit_bytes: thresholds.background_bytes,
        hard_limit_from: memory::read_limit_knob(root, "dirty_bytes", "dirty_ratio"),
        background_limit_from: memory::read_limit_knob(
            root,
            "dirty_background_bytes",
            "dirty_background_ratio",
        ),
        dirty_knobs: memory::read_dirty_knobs(root),
        dirty_expire_ms: centiseconds("dirty_expire_centisecs"),
        dirty_writeback_ms: centiseconds("dirty_writeback_centisecs"),
        psi_io_some_avg10_percent: pressure.as_ref().map(|p| p.some_avg10_percent),
        psi_io_full_avg10_percent: pressure.map(|p| p.full_avg10_percent),
        swaps: swap::read_swaps(root, &layout.mounts),
    }
}

fn device(root: &SysRoot, row: &Row, window: &Window<'_>, machine: &Machine) -> Device {
    let top = row.queue_device.and_then(|id| row.stacks.iter().find_map(|s| s.device(id)));
    let no_device = |what: &str| match row.bdi.reason() {
        // There is a device, but /sys does not show it.
        Some(why) if row.id.major != 0 => why.to_owned(),
        _ => format!("{} has no {what} of its own", row.kind),
    };
    let Counted { stats, is_sole, written, drain } = counted(row, window, machine);
    let followed = row.stacks.iter().flat_map(|stack| stack.notes.iter().cloned());
    Device {
        name: row.name.clone(),
        id: row.id,
        kind: row.kind.clone(),
        model: top.map_or_else(|| Reading::Absent(no_device("model")), |d| d.model.clone()),
        driver: match row.queue_device {
            Some(id) => block::read_driver(root, id),
            None => Reading::Absent(no_device("driver")),
        },
        size_bytes: top
            .map_or_else(|| Reading::Absent(no_device("size")), |d| d.size_bytes.clone()),
        loop_direct_io: match row.queue_device {
            Some(id) => block::read_loop_direct_io(root, id),
            None => Reading::Absent(no_device("file")),
        },
        removable: row
            .queue_device
            .is_some_and(|id| block::is_removable(root, &row.name, &block::directory(id))),
        link: if row.is_network {
            link::read_link(root, row.address.as_deref())
        } else {
            Reading::Absent("it is not on a server".to_owned())
        },
        bdi: row.bdi.clone(),
        mounts: row.mounts.clone(),
        path: path(row),
        notes: followed.chain(is_sole.then(|| SOLE_NOTE.to_owned())).collect(),
        dirty_bytes: stats.dirty_bytes,
        writeback_bytes: stats.writeback_bytes,
        written_bytes_per_s: written,
        drain,
        device_limit_bytes: stats.limit_bytes,
        limits: bdi::read_limits(root, &row.bdi),
        queue: match row.queue_device {
            Some(id) => queue::read_queue(root, id),
            None => no_queue(&no_device("request queue")),
        },
        leaves: leaves(root, row, window),
    }
}

/// A queue without any value, for one reason.
fn no_queue(why: &str) -> Queue {
    let absent = || why.to_owned();
    Queue {
        scheduler: Reading::Absent(absent()),
        offered: Reading::Absent(absent()),
        nr_requests: Reading::Absent(absent()),
        wbt_lat_us: Reading::Absent(absent()),
        write_cache: Reading::Absent(absent()),
        device_cache: Reading::Absent(absent()),
        async_depth: Reading::Absent(absent()),
        queue_async_depth: Reading::Absent(absent()),
        write_expire_ms: Reading::Absent(absent()),
        fua: Reading::Absent(absent()),
        rotational: Reading::Absent(absent()),
        max_sectors_kib: Reading::Absent(absent()),
        nomerges_level: Reading::Absent(absent()),
        rq_affinity_level: Reading::Absent(absent()),
    }
}

/// The way down: of several members, those that are alike are not repeated.
fn path(row: &Row) -> String {
    let mut ways: Vec<String> = Vec::new();
    for way in row.stacks.iter().map(Stack::path).filter(|way| !way.is_empty()) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    match (row.queue_device, ways.is_empty()) {
        (Some(_), _) => ways.concat(),
        (None, true) => row.name.clone(),
        (None, false) => format!("{} → {}", row.name, ways.join(" + ")),
    }
}

fn leaves(root: &SysRoot, row: &Row, window: &Window<'_>) -> Vec<Leaf> {
    let mut leaves: Vec<Leaf> = Vec::new();
    for stack in &row.stacks {
        for leaf in stack.leaves.iter().filter_map(|id| stack.device(*id)) {
            if Some(leaf.id) == row.queue_device || leaves.iter().any(|l| l.id == leaf.id) {
                continue;
            }
            leaves.push(Leaf {
                name: leaf.name.clone(),
                id: leaf.id,
                model: leaf.model.clone(),
                driver: block::read_driver(root, leaf.id),
                size_bytes: leaf.size_bytes.clone(),
                written_bytes_per_s: window.disk_rate(leaf.id),
                queue: queue::read_queue(root, leaf.id),
            });
        }
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_made_meanwhile_is_noticed() {
        let mount = "22 1 8:0 / / rw - ext4 /dev/sda rw\n";
        let (dir, root) = crate::root::testing::tree(&[("proc/self/mountinfo", mount)]);
        let before = Observation::read(&root);
        assert_eq!(before.read_again(&root).layout.mounts, before.layout.mounts);
        let more = format!("{mount}23 22 8:16 / /srv rw - xfs /dev/sdb rw\n");
        crate::root::testing::put(&dir.path().join("proc/self/mountinfo"), &more);
        assert_eq!(before.read_again(&root).layout.rows.len(), 2);
    }

    #[test]
    fn a_sole_device_without_counters_of_its_own_has_the_machines() {
        let root = SysRoot::new(&floodwall_testing::tree::host("vm-virtio-ext4")).unwrap();
        let mut before = Observation::read(&root);
        before.stats.clear();
        let [row] = before.layout.rows.as_slice() else {
            panic!("one device: {:?}", before.layout.rows)
        };
        let (stats, is_sole) = before.stats_or_sole(row);
        assert!(is_sole);
        assert_eq!(stats.dirty_bytes, memory::read_memory(&root).dirty_bytes);
        // What the machine does not know of the device stays unknown.
        assert!(stats.limit_bytes.value().is_none());
        let shown = status(&root, &before, &before, 1.0, true);
        assert_eq!(shown.devices[0].notes, [SOLE_NOTE]);
        before.sole = None;
        assert!(
            status(&root, &before, &before, 1.0, true).devices[0].dirty_bytes.value().is_none()
        );
    }
}
