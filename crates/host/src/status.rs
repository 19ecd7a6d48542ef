//! The state of the write path: two observations, one window apart.
//!
//! ```text
//! Observation (t0) ─┐
//!       window      ├─ rates, drain ─┐
//! Observation (t1) ─┘                ├─ Status
//! settings, memory, pressure (t1) ───┘
//! ```
//!
//! Drain rate: what the device wrote during the window, but only if it was backlogged at both ends, because an idle device's rate says nothing
//! of what it could do. Else the kernel's own running mean, which is as old as the device's last busy time. Else unknown.

use std::collections::BTreeMap;

use floodwall_model::status::{Device, Drain, DrainSource, Leaf, Machine, Queue, Status};
use floodwall_model::{DeviceId, Reading};

use crate::bdi::{self, BdiStats};
use crate::block;
use crate::diskstats::{self, DiskStats};
use crate::layout::{Layout, Row};
use crate::link;
use crate::memory;
use crate::mounts;
use crate::platform;
use crate::process::{self, Processes};
use crate::queue;
use crate::root::SysRoot;
use crate::swap;
use crate::topology::Stack;

/// Below this much dirty and under writeback a device is not called backlogged: the flusher writes at least 1024 pages of an inode at a time (fs/fs-writeback.c
/// `MIN_WRITEBACK_PAGES`), 4 MiB, so less than that may be written at once and leave the device idle for the rest of the window.
const BACKLOG_BYTES: u64 = 4 << 20;

/// … nor if less than this is under writeback: the counters are per-CPU sums that may be off by some hundred KiB (lib/percpu_counter.c), and dirty
/// data that waits to come of age leaves the device idle.
const WRITING_BYTES: u64 = 1 << 20;

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

/// Said of a device whose own counters can't be read, where the machine's must be its.
const SOLE_NOTE: &str = "dirty and writeback are the machine's: no other device holds a mounted filesystem";

impl Observation {
    /// Reads mounts, and the counters of devices and processes.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        Self::counters(root, Layout::read(root))
    }

    /// The same a short while later: what lies below each mount is taken as it was, unless something was mounted or unmounted meanwhile. A device that was
    /// exchanged below a mount within the window is not noticed.
    #[must_use]
    pub fn read_again(&self, root: &SysRoot) -> Self {
        let same = mounts::read_mounts(root).value() == Some(&self.layout.mounts);
        Self::counters(root, if same { self.layout.clone() } else { Layout::read(root) })
    }

    fn counters(root: &SysRoot, layout: Layout) -> Self {
        let names = layout.rows.iter().filter_map(|row| row.bdi.value());
        Self {
            stats: names.map(|name| (name.clone(), bdi::read_stats(root, name))).collect(),
            disks: DiskStats::read(root),
            sole: (layout.rows.len() == 1).then(|| {
                let memory = memory::read_memory(root);
                (memory.dirty_bytes, memory.writeback_bytes)
            }),
            processes: process::read_processes(root),
            layout,
        }
    }

    /// A row's counters; one reason in every field if there are none.
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

    /// A row's counters, with the machine's dirty and writeback in place of its own where those can't be read and there is no other device
    /// that they could belong to. Returns whether that was so.
    fn stats_or_sole(&self, row: &Row) -> (BdiStats, bool) {
        let stats = self.stats(row);
        match &self.sole {
            Some((dirty, writeback)) if stats.dirty_bytes.value().is_none() && dirty.value().is_some() => {
                let (dirty_bytes, writeback_bytes) = (dirty.clone(), writeback.clone());
                (BdiStats { dirty_bytes, writeback_bytes, ..stats }, true)
            }
            _ => (stats, false),
        }
    }
}

/// The state of the write path now, with rates over the time between two observations, of which `after` was made just now.
///
/// `window_s` is that time in seconds, as the caller's clock measured it; it must be above zero. `is_root` tells whether we are root already: what
/// is refused then, root would not add. Findings are for [`crate::findings::look`] to make.
#[must_use]
pub fn status(
    root: &SysRoot,
    before: &Observation,
    after: &Observation,
    window_s: f64,
    is_root: bool,
) -> Status {
    let machine = read_machine(root, &after.layout);
    let devices: Vec<Device> =
        after.layout.rows.iter().map(|row| device(root, row, before, after, window_s, &machine)).collect();
    let writers = process::writers(root, &before.processes, &after.processes, window_s);
    let mut root_would_add = Vec::new();
    if !is_root && devices.iter().any(|d| d.dirty_bytes.is_unreadable()) {
        root_would_add.push("what is dirty for each device and how fast that drains".to_owned());
    }
    if !is_root && writers.unreadable_processes > 0 {
        root_would_add.push(format!("the writes of {}", more_processes(writers.unreadable_processes)));
    }
    Status {
        window_s,
        machine,
        devices,
        elsewhere: after.layout.elsewhere.clone(),
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

fn device(
    root: &SysRoot,
    row: &Row,
    before: &Observation,
    after: &Observation,
    window_s: f64,
    machine: &Machine,
) -> Device {
    let top = row.queue_device.and_then(|id| row.stacks.iter().find_map(|s| s.device(id)));
    let no_device = |what: &str| match row.bdi.reason() {
        // There is a device, but /sys does not show it.
        Some(why) if row.id.major != 0 => why.to_owned(),
        _ => format!("{} has no {what} of its own", row.kind),
    };
    let (stats, is_sole) = after.stats_or_sole(row);
    let written = written_bytes_per_s(row, before, after, window_s);
    let drain = drain(&before.stats_or_sole(row).0, &stats, written.value().copied(), window_s, machine);
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
        size_bytes: top.map_or_else(|| Reading::Absent(no_device("size")), |d| d.size_bytes.clone()),
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
        leaves: leaves(root, row, before, after, window_s),
    }
}

/// A queue of which nothing can be said, for one reason.
fn no_queue(why: &str) -> Queue {
    let absent = || why.to_owned();
    Queue {
        scheduler: Reading::Absent(absent()),
        nr_requests: Reading::Absent(absent()),
        wbt_lat_us: Reading::Absent(absent()),
        write_cache: Reading::Absent(absent()),
        device_cache: Reading::Absent(absent()),
        async_depth: Reading::Absent(absent()),
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

fn leaves(root: &SysRoot, row: &Row, before: &Observation, after: &Observation, window_s: f64) -> Vec<Leaf> {
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
                written_bytes_per_s: disk_rate(leaf.id, before, after, window_s),
                queue: queue::read_queue(root, leaf.id),
            });
        }
    }
    leaves
}

/// Bytes that the row's block devices completed writing during the window, a second.
fn written_bytes_per_s(row: &Row, before: &Observation, after: &Observation, window_s: f64) -> Reading<f64> {
    if row.devices.is_empty() {
        return Reading::Absent(format!("{} has no block device", row.kind));
    }
    let none = Reading::Value(0.0);
    row.devices.iter().fold(none, |sum, id| {
        sum.and_then(|sum| disk_rate(*id, before, after, window_s).map(|rate| sum + rate))
    })
}

fn disk_rate(id: DeviceId, before: &Observation, after: &Observation, window_s: f64) -> Reading<f64> {
    before.disks.device(id).and_then(|a| {
        after.disks.device(id).map(|b| diskstats::between(&a, &b).written_bytes as f64 / window_s)
    })
}

/// How fast a device drains, and how long that makes its backlog and the limits.
fn drain(
    before: &BdiStats,
    after: &BdiStats,
    written: Option<f64>,
    window_s: f64,
    machine: &Machine,
) -> Drain {
    let (rate, from) = drain_rate(before, after, written, window_s);
    let backlog = after
        .dirty_bytes
        .as_ref()
        .and_then(|dirty| after.writeback_bytes.as_ref().map(|writeback| dirty.saturating_add(*writeback)));
    let time = |bytes: Reading<u64>| {
        bytes.and_then(|bytes| match rate.as_ref() {
            // Nothing takes no time, whatever the rate.
            _ if bytes == 0 => Reading::Value(0.0),
            Reading::Value(rate) if *rate > 0.0 => Reading::Value(bytes as f64 / rate),
            Reading::Value(_) => Reading::Absent("nothing was written during the window".to_owned()),
            Reading::Absent(why) => Reading::Absent(why),
            Reading::Unreadable(why) => Reading::Unreadable(why),
        })
    };
    Drain {
        from,
        now_s: time(backlog),
        hard_limit_s: time(machine.hard_limit_bytes.clone()),
        background_limit_s: time(machine.background_limit_bytes.clone()),
        rate_bytes_per_s: rate,
    }
}

fn drain_rate(
    before: &BdiStats,
    after: &BdiStats,
    written: Option<f64>,
    window_s: f64,
) -> (Reading<f64>, DrainSource) {
    let (Some(was), Some(is)) = (is_backlogged(before), is_backlogged(after)) else {
        return (why_backlog_is_unknown(before, after), DrainSource::Unknown);
    };
    if was && is {
        let by_bdi = before
            .written_bytes
            .value()
            .zip(after.written_bytes.value())
            .map(|(a, b)| b.saturating_sub(*a) as f64 / window_s);
        if let Some(rate) = by_bdi.or(written) {
            return (Reading::Value(rate), DrainSource::Seen);
        }
    }
    match &after.bandwidth_bytes_per_s {
        Reading::Value(rate) => (Reading::Value(*rate as f64), DrainSource::KernelEstimate),
        other => {
            let why = other.reason().unwrap_or_default();
            (
                Reading::Absent(format!("it was not backlogged during the window, and {why}")),
                DrainSource::Unknown,
            )
        }
    }
}

/// The reason of the first reading that has no value, of those that tell whether a device is backlogged.
fn why_backlog_is_unknown(before: &BdiStats, after: &BdiStats) -> Reading<f64> {
    let readings = [&after.dirty_bytes, &after.writeback_bytes, &before.dirty_bytes, &before.writeback_bytes];
    match readings.into_iter().find(|reading| reading.value().is_none()) {
        Some(Reading::Unreadable(why)) => Reading::Unreadable(why.clone()),
        Some(Reading::Absent(why)) => Reading::Absent(why.clone()),
        Some(Reading::Value(_)) | None => Reading::Absent("it is not known whether it is backlogged".into()),
    }
}

/// Whether a device had enough to write, and was writing.
fn is_backlogged(stats: &BdiStats) -> Option<bool> {
    let (dirty, writeback) = (*stats.dirty_bytes.value()?, *stats.writeback_bytes.value()?);
    Some(writeback >= WRITING_BYTES && dirty.saturating_add(writeback) >= BACKLOG_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(dirty: u64, writeback: u64, written: Reading<u64>, bandwidth: Reading<u64>) -> BdiStats {
        BdiStats {
            dirty_bytes: Reading::Value(dirty),
            writeback_bytes: Reading::Value(writeback),
            limit_bytes: Reading::Absent(String::new()),
            written_bytes: written,
            bandwidth_bytes_per_s: bandwidth,
        }
    }

    fn absent() -> Reading<u64> {
        Reading::Absent("old kernel".into())
    }

    #[test]
    fn only_a_backlogged_device_shows_its_drain_rate() {
        let busy = |written| stats(100 << 20, 1 << 20, Reading::Value(written), Reading::Value(7));
        let seen = drain_rate(&busy(0), &busy(50), Some(3.0), 2.0);
        assert_eq!(seen, (Reading::Value(25.0), DrainSource::Seen));
        // Dirty, but nothing under writeback: it waits to come of age.
        let waiting = |written| stats(100 << 20, 4096, Reading::Value(written), Reading::Value(7));
        assert_eq!(
            drain_rate(&waiting(0), &busy(50), None, 2.0),
            (Reading::Value(7.0), DrainSource::KernelEstimate)
        );
        // Less than one chunk of the flusher.
        let little = |written| stats(1 << 20, 4096, Reading::Value(written), Reading::Value(7));
        assert_eq!(drain_rate(&little(0), &little(9), None, 1.0).1, DrainSource::KernelEstimate);
    }

    #[test]
    fn the_disks_counter_stands_in_for_the_backing_devices() {
        let busy = stats(100 << 20, 1 << 20, absent(), absent());
        assert_eq!(drain_rate(&busy, &busy, Some(3.0), 2.0), (Reading::Value(3.0), DrainSource::Seen));
        let idle = stats(0, 0, absent(), absent());
        let (rate, from) = drain_rate(&idle, &idle, Some(3.0), 2.0);
        assert_eq!(from, DrainSource::Unknown);
        assert!(rate.why().unwrap().contains("not backlogged"));
    }

    #[test]
    fn unreadable_stays_unreadable() {
        let mut hidden = stats(0, 0, absent(), absent());
        hidden.dirty_bytes = Reading::Unreadable("needs root".into());
        let (rate, from) = drain_rate(&hidden, &hidden, Some(3.0), 2.0);
        assert_eq!((rate, from), (Reading::Unreadable("needs root".into()), DrainSource::Unknown));
    }

    #[test]
    fn a_rate_is_never_zero_for_want_of_a_reading() {
        let busy = stats(100 << 20, 1 << 20, Reading::Value(9), Reading::Value(7));
        let no_writeback = BdiStats { writeback_bytes: absent(), ..busy.clone() };
        let no_dirty = BdiStats { dirty_bytes: Reading::Unreadable("needs root".into()), ..busy.clone() };
        let unknown = |before, after| {
            let (rate, from) = drain_rate(before, after, Some(3.0), 1.0);
            assert_eq!(from, DrainSource::Unknown);
            rate
        };
        assert_eq!(unknown(&busy, &no_writeback), Reading::Absent("old kernel".into()));
        assert_eq!(unknown(&no_writeback, &busy), Reading::Absent("old kernel".into()));
        assert_eq!(unknown(&no_dirty, &busy), Reading::Unreadable("needs root".into()));
        assert_eq!(unknown(&no_writeback, &no_dirty), Reading::Unreadable("needs root".into()));
    }

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
        let fixture =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/vm-virtio-ext4");
        let root = SysRoot::new(&fixture).unwrap();
        let mut before = Observation::read(&root);
        before.stats.clear();
        let [row] = before.layout.rows.as_slice() else { panic!("one device: {:?}", before.layout.rows) };
        let (stats, is_sole) = before.stats_or_sole(row);
        assert!(is_sole);
        assert_eq!(stats.dirty_bytes, memory::read_memory(&root).dirty_bytes);
        // What the machine does not know of the device stays unknown.
        assert!(stats.limit_bytes.value().is_none());
        let shown = status(&root, &before, &before, 1.0, true);
        assert_eq!(shown.devices[0].notes, [SOLE_NOTE]);
        before.sole = None;
        assert!(status(&root, &before, &before, 1.0, true).devices[0].dirty_bytes.value().is_none());
    }
}
