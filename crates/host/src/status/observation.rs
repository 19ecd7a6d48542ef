//! The counters of devices and processes at one moment, and what two such moments tell.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_model::status::Writers;
use floodwall_model::{Bytes, DeviceId, Reading};

use crate::bdi::{self, BdiStats};
use crate::block;
use crate::cgroup::{self, GroupBacklog};
use crate::diskstats::{self, DiskStats};
use crate::drain::ONE_MOMENT;
use crate::layout::{Layout, Row};
use crate::memory;
use crate::mounts;
use crate::process::{self, Processes};
use crate::root::SysRoot;

/// Counters at one moment.
#[derive(Clone, Debug)]
pub struct Observation {
    pub(super) layout: Layout,
    /// By the backing device's name.
    pub(super) stats: BTreeMap<String, BdiStats>,
    disks: DiskStats,
    /// Machine-wide dirty and writeback, where there is a single device that they can belong to.
    pub(super) sole: Option<(Reading<u64>, Reading<u64>)>,
    processes: Reading<Processes>,
}

/// Why processes are missing where a probe tells them.
const PROCESSES_LEFT_OUT: &str = "a probe tells them";
/// Dirty data of control groups that is too little to matter for a device's figures.
const GROUPS_COUNT_BYTES: u64 = 1 << 20;

/// Note on a device whose own counters can't be read. The machine's counters are used instead.
pub(super) const SOLE_NOTE: &str =
    "dirty and writeback are the machine's: no other device holds a mounted filesystem";

/// The reason for leaving out the kernel's count of bytes written back. The disk's own count has
/// all of them.
const WRITTEN_WITHOUT_GROUPS: &str = "this kernel leaves out what control groups dirtied";

/// Whether the kernel's counters of a row's device leave out what control groups dirtied.
fn leaves_out_groups(root: &SysRoot, row: &Row) -> bool {
    let is_charged = || row.mounts.iter().any(|on| mounts::charges_writeback(&on.filesystem));
    row.bdi.value().is_some_and(|name| is_charged() && !bdi::counts_groups(root, name))
}

/// The backing device that has the backlog of control groups, where the kernel does not tell it.
/// That is the case if data of groups is under writeback, and only one of the devices that leave
/// groups out has writes under way. The groups' dirty data is counted there too.
fn written_for(root: &SysRoot, groups: GroupBacklog, layout: &Layout) -> Option<String> {
    if groups.writeback_bytes < GROUPS_COUNT_BYTES {
        return None;
    }
    let has_writes =
        |id: &DeviceId| block::read_in_flight(root, *id).is_some_and(|[_, writes]| writes > 0);
    let rows = layout.rows.iter().filter(|row| row.devices.iter().any(has_writes));
    let names = rows.filter(|row| leaves_out_groups(root, row)).filter_map(|row| row.bdi.value());
    let names: BTreeSet<&String> = names.collect();
    names.first().filter(|_| names.len() == 1).map(|name| (*name).clone())
}

impl Observation {
    /// Reads mounts, and the counters of devices and processes.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        Self::counters(root, Layout::read(root), process::read_processes(root))
    }

    /// Reads mounts, and the counters of devices alone.
    pub(super) fn read_devices(root: &SysRoot) -> Self {
        Self::counters(root, Layout::read(root), Reading::Absent(PROCESSES_LEFT_OUT.to_owned()))
    }

    /// The same a short while later: what lies below each mount is taken as it was, unless
    /// something was mounted or unmounted meanwhile. A device that was exchanged below a mount
    /// within the window is not noticed.
    #[must_use]
    pub fn read_again(&self, root: &SysRoot) -> Self {
        let layout =
            if self.has_same_mounts(root) { self.layout.clone() } else { Layout::read(root) };
        Self::counters(root, layout, process::read_processes(root))
    }

    /// The counters of devices alone, below the same mounts.
    pub(super) fn read_devices_again(&self, root: &SysRoot) -> Self {
        let processes = Reading::Absent(PROCESSES_LEFT_OUT.to_owned());
        Self::counters(root, self.layout.clone(), processes)
    }

    /// Whether nothing was mounted or unmounted since.
    pub(super) fn has_same_mounts(&self, root: &SysRoot) -> bool {
        mounts::read_mounts(root).value() == Some(&self.layout.mounts)
    }

    fn counters(root: &SysRoot, layout: Layout, processes: Reading<Processes>) -> Self {
        let disks = DiskStats::read(root);
        let mount = layout.cgroup_v2.as_deref();
        let groups = mount.map(|mount| cgroup::backlog_of_all(root, mount)).unwrap_or_default();
        let in_groups = groups.dirty_bytes + groups.writeback_bytes;
        let written_for_groups = written_for(root, groups, &layout);
        let read = |row: &Row| {
            let name = row.bdi.value()?;
            let mut stats = bdi::read_stats(root, name);
            if in_groups < GROUPS_COUNT_BYTES || !leaves_out_groups(root, row) {
                return Some((name.clone(), stats));
            }
            if written_for_groups.as_ref() == Some(name) {
                stats.dirty_bytes = stats.dirty_bytes.map(|own| own + groups.dirty_bytes);
                stats.writeback_bytes =
                    stats.writeback_bytes.map(|own| own + groups.writeback_bytes);
                if stats.written_bytes.value().is_some() {
                    stats.written_bytes = Reading::Absent(WRITTEN_WITHOUT_GROUPS.to_owned());
                }
            } else {
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
            disks,
            sole: (layout.rows.len() == 1).then(|| {
                let memory = memory::read_memory(root);
                (memory.dirty_bytes, memory.writeback_bytes)
            }),
            processes,
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
    pub(super) fn stats_or_sole(&self, row: &Row) -> (BdiStats, bool) {
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
pub(super) struct Window<'a> {
    pub(super) before: &'a Observation,
    pub(super) after: &'a Observation,
    /// The time between them; `None` if none passed.
    pub(super) seconds: Option<f64>,
}

impl<'a> Window<'a> {
    /// On the machine itself time always passes; in a captured tree only if its counters moved.
    pub(super) fn new(
        root: &SysRoot,
        before: &'a Observation,
        after: &'a Observation,
        seconds: f64,
    ) -> Self {
        let passed = root.is_live() || before.stats != after.stats || before.disks != after.disks;
        Self { before, after, seconds: passed.then_some(seconds) }
    }

    /// Bytes that a block device completed writing, a second.
    pub(super) fn disk_rate(&self, id: DeviceId) -> Reading<f64> {
        let Some(seconds) = self.seconds else { return Reading::Absent(ONE_MOMENT.to_owned()) };
        self.before.disks.device(id).and_then(|a| {
            let b = self.after.disks.device(id);
            b.map(|b| diskstats::between(&a, &b).written_bytes as f64 / seconds)
        })
    }

    /// Bytes that the row's block devices completed writing, a second.
    pub(super) fn written_bytes_per_s(&self, row: &Row) -> Reading<f64> {
        if row.devices.is_empty() {
            return Reading::Absent(format!("{} has no block device", row.kind));
        }
        let none = Reading::Value(0.0);
        row.devices
            .iter()
            .fold(none, |sum, id| sum.and_then(|sum| self.disk_rate(*id).map(|rate| sum + rate)))
    }

    /// The processes that dirtied most.
    pub(super) fn writers(&self, root: &SysRoot) -> Writers {
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
