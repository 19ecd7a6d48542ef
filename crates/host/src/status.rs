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

use std::collections::BTreeMap;

use floodwall_model::status::{Device, Leaf, Machine, Queue, Status, Writers};
use floodwall_model::{Bytes, DeviceId, Reading};

use crate::bdi::{self, BdiStats};
use crate::block;
use crate::cgroup;
use crate::diskstats::{self, DiskStats};
use crate::drain::{ONE_MOMENT, drain};
use crate::layout::{Layout, Row};
use crate::link;
use crate::memory;
use crate::mounts;
use crate::platform;
use crate::process::{self, Processes};
use crate::queue;
use crate::root::SysRoot;
use crate::servers;
use crate::swap;
use crate::topology::Stack;

/// Counters at one moment.
#[derive(Clone, Debug)]
pub struct Observation {
    layout: Layout,
    /// By the backing device's name.
    stats: BTreeMap<String, BdiStats>,
    disks: DiskStats,
    /// Machine-wide dirty and writeback, where there is a single device that they can belong to.
    sole: Option<(Reading<u64>, Reading<u64>)>,
    processes: Reading<Processes>,
}

/// Dirty data of control groups that is too little to matter for a device's figures.
const GROUPS_COUNT_BYTES: u64 = 1 << 20;

/// Note on a device whose own counters can't be read. The machine's counters are used instead.
const SOLE_NOTE: &str =
    "dirty and writeback are the machine's: no other device holds a mounted filesystem";

impl Observation {
    /// Reads mounts, and the counters of devices and processes.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        Self::counters(root, Layout::read(root))
    }

    /// The same a short while later: what lies below each mount is taken as it was, unless
    /// something was mounted or unmounted meanwhile. A device that was exchanged below a mount
    /// within the window is not noticed.
    #[must_use]
    pub fn read_again(&self, root: &SysRoot) -> Self {
        let same = mounts::read_mounts(root).value() == Some(&self.layout.mounts);
        Self::counters(root, if same { self.layout.clone() } else { Layout::read(root) })
    }

    fn counters(root: &SysRoot, layout: Layout) -> Self {
        let mount = layout.cgroup_v2.as_deref();
        let in_groups = mount.map_or(0, |mount| cgroup::backlog_of_all(root, mount));
        let read = |row: &Row| {
            let name = row.bdi.value()?;
            let mut stats = bdi::read_stats(root, name);
            let is_charged = row.mounts.iter().any(|on| mounts::charges_writeback(&on.filesystem));
            if in_groups >= GROUPS_COUNT_BYTES && is_charged && !bdi::counts_groups(root, name) {
                let why = format!(
                    "{} are dirty in control groups, and this kernel does not tell for which \
                     device (Linux 6.10 does)",
                    Bytes(in_groups)
                );
                for place in
                    [&mut stats.dirty_bytes, &mut stats.writeback_bytes, &mut stats.written_bytes]
                {
                    if place.value().is_some() {
                        *place = Reading::Absent(why.clone());
                    }
                }
            }
            Some((name.clone(), stats))
        };
        Self {
            stats: layout.rows.iter().filter_map(read).collect(),
            disks: DiskStats::read(root),
            sole: (layout.rows.len() == 1).then(|| {
                let memory = memory::read_memory(root);
                (memory.dirty_bytes, memory.writeback_bytes)
            }),
            processes: process::read_processes(root),
            layout,
        }
    }

    /// A row's counters; without any, the same reason in every field.
    fn stats(&self, row: &Row) -> BdiStats {
        let found = row.bdi.as_ref().and_then(|name| match self.stats.get(name) {
            Some(stats) => Reading::Value(stats.clone()),
            None => Reading::Absent(format!("{name} appeared during the window")),
        });
        let lacking = match found {
            Reading::Value(stats) => return stats,
            Reading::Absent(why) => Reading::Absent(why),
            Reading::Unreadable(why) => Reading::Unreadable(why),
        };
        BdiStats {
            dirty_bytes: lacking.clone(),
            writeback_bytes: lacking.clone(),
            limit_bytes: lacking.clone(),
            written_bytes: lacking.clone(),
            bandwidth_bytes_per_s: lacking,
        }
    }

    /// A row's counters. If they can't be read, the machine's dirty and writeback stand in,
    /// provided that no other device can own them. Returns whether that was so.
    fn stats_or_sole(&self, row: &Row) -> (BdiStats, bool) {
        let stats = self.stats(row);
        match &self.sole {
            Some((dirty, writeback))
                if stats.dirty_bytes.value().is_none() && dirty.value().is_some() =>
            {
                let (dirty_bytes, writeback_bytes) = (dirty.clone(), writeback.clone());
                (BdiStats { dirty_bytes, writeback_bytes, ..stats }, true)
            }
            _ => (stats, false),
        }
    }
}

/// Two observations.
struct Window<'a> {
    before: &'a Observation,
    after: &'a Observation,
    /// The time between them; `None` if none passed.
    seconds: Option<f64>,
}

impl<'a> Window<'a> {
    /// On the machine itself time always passes; in a captured tree only if its counters moved.
    fn new(root: &SysRoot, before: &'a Observation, after: &'a Observation, seconds: f64) -> Self {
        let passed = root.is_live() || before.stats != after.stats || before.disks != after.disks;
        Self { before, after, seconds: passed.then_some(seconds) }
    }

    /// Bytes that a block device completed writing, a second.
    fn disk_rate(&self, id: DeviceId) -> Reading<f64> {
        let Some(seconds) = self.seconds else { return Reading::Absent(ONE_MOMENT.to_owned()) };
        self.before.disks.device(id).and_then(|a| {
            let b = self.after.disks.device(id);
            b.map(|b| diskstats::between(&a, &b).written_bytes as f64 / seconds)
        })
    }

    /// Bytes that the row's block devices completed writing, a second.
    fn written_bytes_per_s(&self, row: &Row) -> Reading<f64> {
        if row.devices.is_empty() {
            return Reading::Absent(format!("{} has no block device", row.kind));
        }
        let none = Reading::Value(0.0);
        row.devices
            .iter()
            .fold(none, |sum, id| sum.and_then(|sum| self.disk_rate(*id).map(|rate| sum + rate)))
    }

    /// The processes that dirtied most.
    fn writers(&self, root: &SysRoot) -> Writers {
        let (before, after) = (&self.before.processes, &self.after.processes);
        let writers = process::writers(root, before, after, self.seconds.unwrap_or(1.0));
        match self.seconds {
            None if writers.missing.is_none() => {
                Writers { missing: Some(format!("absent: {ONE_MOMENT}")), ..writers }
            }
            _ => writers,
        }
    }
}

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
    let (stats, is_sole) = window.after.stats_or_sole(row);
    let written = window.written_bytes_per_s(row);
    let earlier = window.before.stats_or_sole(row).0;
    let drain = drain(&earlier, &stats, written.value().copied(), window.seconds, machine);
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
