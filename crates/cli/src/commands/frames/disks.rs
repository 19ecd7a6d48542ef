//! The disks of a frame.
//!
//! ```text
//! devices with a filesystem ─ one disk below? ─ yes ─▶ that disk, with the backlog of all on it
//!                                             └ no ──▶ the device itself
//! other disks that the probe saw in use ──────────────▶ counters alone
//! ```
//!
//! The probe counts requests on LVM and md for the disk below, if there is one. A loop device has
//! requests of its own.

use std::collections::BTreeMap;

use floodwall_model::diagnosis::{Diagnosis, Verdict};
use floodwall_model::frame::{Disk, Process, Queue, Requests};
use floodwall_model::latency::bucket_high_ns;
use floodwall_model::status::{self, Device, Status};
use floodwall_model::{DeviceId, LatencyCounts, Reading};
use floodwall_probe::{Class, DeviceUse, OTHERS, Snapshot};

use super::round::rounded;

/// Fewer operations have no 99th percentile.
const FEWEST_FOR_P99: u64 = 100;

/// Disks that hold a filesystem or were used, in the order of their names.
pub(super) fn disks(status: &Status, snapshot: &Snapshot, diagnosis: &Diagnosis) -> Vec<Disk> {
    let mut held: BTreeMap<DeviceId, Vec<&Device>> = BTreeMap::new();
    for device in &status.devices {
        held.entry(shown_as(device).0).or_default().push(device);
    }
    let disks = held.into_iter().filter_map(|(id, devices)| Some((id, disk(&devices)?)));
    let mut disks: BTreeMap<DeviceId, Disk> = disks.collect();
    for used in snapshot.devices.iter().filter(|used| is_used(used)) {
        let named = || Disk { name: used.name.clone(), id: used.id.to_string(), ..Disk::default() };
        count(disks.entry(used.id).or_insert_with(named), used, snapshot);
    }
    for (id, disk) in &mut disks {
        let verdict = diagnosis.disks.iter().find(|one| one.id == *id).map(|one| one.verdict);
        disk.verdict = verdict.unwrap_or(Verdict::Quiet);
    }
    let mut disks: Vec<Disk> = disks.into_values().collect();
    disks.sort_by(|a, b| a.name.cmp(&b.name));
    disks
}

/// Judges disks by their processes, which know more than the diagnosis of one window. A guard's
/// goal may make a victim of a process that the diagnosis does not call one. A process that waits
/// for its own data is none. A long backlog is a flood also after its author has written it.
pub(in crate::commands) fn judge(disks: &mut [Disk], processes: &[Process]) {
    let mut seen: BTreeMap<&str, Users> = BTreeMap::new();
    for process in processes {
        let Some(disk) = &process.disk else { continue };
        let users = seen.entry(disk).or_default();
        users.has_victim |= process.is_victim;
        users.has_flood |= process.is_flood;
        users.has_author |= process.is_author();
        users.has_others |= process.pid == OTHERS;
    }
    for disk in disks {
        let users = seen.get(disk.name.as_str()).copied().unwrap_or_default();
        disk.verdict = match disk.verdict {
            _ if users.has_victim => Verdict::Stalling,
            // One of those that are not told apart may wait.
            Verdict::Stalling if users.has_others => Verdict::Stalling,
            Verdict::Stalling if users.has_flood => Verdict::Flooding,
            Verdict::Stalling | Verdict::Quiet if users.has_author && disk.is_backlogged() => {
                Verdict::Flooding
            }
            Verdict::Stalling => Verdict::Quiet,
            verdict => verdict,
        };
    }
}

/// What users a disk has.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    has_victim: bool,
    has_flood: bool,
    has_author: bool,
    has_others: bool,
}

/// The one disk below a device, else the device itself.
fn shown_as(device: &Device) -> (DeviceId, &str, &Reading<String>, &status::Queue) {
    match device.leaves.as_slice() {
        [leaf] if device.loop_direct_io.value().is_none() => {
            (leaf.id, &leaf.name, &leaf.model, &leaf.queue)
        }
        _ => (device.id, &device.name, &device.model, &device.queue),
    }
}

/// A disk and all devices with a filesystem on it. The drain rate is that of the device with the
/// most to write. The backlog is known if that of each device is.
fn disk(devices: &[&Device]) -> Option<Disk> {
    let (id, name, model, queue) = shown_as(devices.first()?);
    let value = |reading: &Reading<u64>| reading.value().copied();
    let backlog = |device: &Device| {
        Some(value(&device.dirty_bytes)?.saturating_add(value(&device.writeback_bytes)?))
    };
    let most = devices.iter().rev().max_by_key(|device| backlog(device))?;
    let drain = &most.drain;
    let drain_bytes_per_s = drain.rate_bytes_per_s.value().map(|rate| rate.round() as u64);
    let backlog_bytes =
        devices.iter().try_fold(0, |sum: u64, device| Some(sum.saturating_add(backlog(device)?)));
    let mounts = devices.iter().flat_map(|device| &device.mounts).filter(|mount| !mount.read_only);
    let written = devices.iter().filter_map(|device| device.written_bytes_per_s.value().copied());
    Some(Disk {
        name: name.to_owned(),
        id: id.to_string(),
        model: model.value().cloned(),
        queue: settings(queue, devices.first()?),
        mounts: mounts.map(|mount| mount.mountpoint.clone()).collect(),
        drain_bytes_per_s,
        drain_from: drain.from,
        hard_limit_ms: drain.hard_limit_s.value().map(|s| milliseconds(*s)),
        limit_bytes: value(&most.device_limit_bytes),
        drain_ms: match (backlog_bytes, drain_bytes_per_s) {
            (Some(0), _) => Some(0),
            (Some(backlog), Some(rate)) if rate > 0 => {
                Some(milliseconds(backlog as f64 / rate as f64))
            }
            _ => None,
        },
        backlog_bytes,
        written_bytes_per_s: written.reduce(f64::max).map(|rate| rate.round() as u64),
        ..Disk::default()
    })
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

fn settings(queue: &status::Queue, device: &Device) -> Queue {
    Queue {
        scheduler: queue.scheduler.value().cloned(),
        nr_requests: queue.nr_requests.value().copied(),
        max_sectors_kib: queue.max_sectors_kib.value().copied(),
        wbt_lat_us: queue.wbt_lat_us.value().copied(),
        strict_limit: device.limits.strict_limit.value().copied(),
    }
}

fn is_used(used: &DeviceUse) -> bool {
    used.counters.is_some_and(|counters| {
        counters.read_ops > 0 || counters.write_ops > 0 || counters.in_flight > 0
    })
}

/// Adds what the probe counted.
fn count(disk: &mut Disk, used: &DeviceUse, snapshot: &Snapshot) {
    let seconds = snapshot.window.as_secs_f64().max(f64::EPSILON);
    if let Some(counters) = used.counters {
        let per_s = |bytes: u64| Some((bytes as f64 / seconds).round() as u64);
        disk.read_bytes_per_s = per_s(counters.read_bytes);
        disk.written_bytes_per_s = per_s(counters.written_bytes);
        let busy = 100.0 * counters.busy_ms as f64 / (seconds * 1e3);
        disk.busy_percent = Some(rounded(busy.min(100.0)));
        disk.in_flight = Some(counters.in_flight);
    }
    let ended = used.requests.iter().flatten().filter(|(_, one)| !one.device.is_empty());
    disk.requests = ended.map(|(class, requests)| times(*class, requests)).collect();
}

fn times(class: Class, requests: &floodwall_probe::Requests) -> Requests {
    let (queue, device) = (&requests.queue, &requests.device);
    Requests {
        class: class.name().to_owned(),
        count: device.count(),
        bytes: requests.bytes,
        queue_p50_us: percentile_us(queue, 0.5),
        queue_p99_us: p99_us(queue),
        device_p50_us: percentile_us(device, 0.5),
        device_p99_us: p99_us(device),
        device_max_us: (!device.is_empty()).then(|| device.max_ns() / 1000),
    }
}

/// A percentile in microseconds, as far as the buckets tell; `None` if nothing was counted.
pub(super) fn percentile_us(counts: &LatencyCounts, fraction: f64) -> Option<u64> {
    counts.nearest_rank_ns(fraction).map(|ns| (ns as f64 / 1e3).round() as u64)
}

/// The 99th percentile in microseconds; `None` below a hundred operations.
pub(super) fn p99_us(counts: &LatencyCounts) -> Option<u64> {
    (counts.count() >= FEWEST_FOR_P99).then(|| percentile_us(counts, 0.99)).flatten()
}

/// How many operations took how long, by octaves of microseconds.
pub(super) fn octaves(counts: &LatencyCounts) -> Vec<(u8, u64)> {
    let mut octaves: BTreeMap<u8, u64> = BTreeMap::new();
    for (bucket, n) in counts.buckets() {
        let us = bucket_high_ns(bucket).min(counts.max_ns()) / 1000;
        *octaves.entry(us.checked_ilog2().unwrap_or(0) as u8).or_default() += n;
    }
    octaves.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use floodwall_host::SysRoot;
    use floodwall_host::status::{Observation, status};
    use floodwall_model::status::DrainSource;
    use floodwall_model::trial::DeviceSample;
    use floodwall_probe::SourceKind;
    use floodwall_testing::tree::host;

    use super::super::testing::{quiet, snapshot};
    use super::*;

    fn seen(tree: &str, used: Vec<DeviceUse>) -> Vec<Disk> {
        let root = SysRoot::new(&host(tree)).unwrap();
        let once = Observation::read(&root);
        let status = status(&root, &once, &once, 1.0, true);
        let window = Snapshot { devices: used, ..snapshot(SourceKind::Bpf) };
        disks(&status, &window, &quiet())
    }

    fn used(name: &str, minor: u32, written_bytes: u64) -> DeviceUse {
        let counters = DeviceSample {
            write_ops: 1,
            written_bytes,
            busy_ms: 500,
            in_flight: 3,
            ..DeviceSample::default()
        };
        DeviceUse {
            id: DeviceId { major: 8, minor },
            name: name.to_owned(),
            counters: Some(counters),
            requests: None,
        }
    }

    #[test]
    fn a_disk_has_its_counters_and_one_without_a_filesystem_is_shown_too() {
        let quiet = seen("vm-virtio-ext4", Vec::new());
        let names = |disks: &[Disk]| disks.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&quiet), ["vda"]);
        assert_eq!(quiet[0].in_flight, None, "nothing was counted");
        let disks = seen("vm-virtio-ext4", vec![used("sdx", 176, 7000)]);
        assert_eq!(names(&disks), ["sdx", "vda"]);
        let sdx = &disks[0];
        assert_eq!((sdx.written_bytes_per_s, sdx.busy_percent), (Some(7000), Some(50.0)));
        assert_eq!((sdx.in_flight, sdx.backlog_bytes), (Some(3), None));
    }

    #[test]
    fn the_stack_above_one_disk_is_shown_as_that_disk() {
        let disks = seen("server-md-crypt-lvm", Vec::new());
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        let mut once = names.clone();
        once.dedup();
        assert_eq!(names, once, "each once");
        assert!(disks.iter().all(|disk| !disk.mounts.is_empty()), "{names:?}");
    }

    #[test]
    fn a_disk_with_several_filesystems_drains_as_the_one_with_the_most_to_write() {
        let root = SysRoot::new(&host("vm-virtio-ext4")).unwrap();
        let once = Observation::read(&root);
        let one = status(&root, &once, &once, 1.0, true).devices.remove(0);
        let device = |dirty: Reading<u64>, rate: f64| {
            let mut device = one.clone();
            device.dirty_bytes = dirty;
            device.writeback_bytes = Reading::Value(0);
            device.drain.rate_bytes_per_s = Reading::Value(rate);
            device
        };
        let known = [(5, 1.0), (4, 2.0), (6, 3.0)].map(|(b, rate)| device(Reading::Value(b), rate));
        let shown = disk(&known.each_ref()).unwrap();
        assert_eq!((shown.backlog_bytes, shown.drain_bytes_per_s), (Some(15), Some(3)));
        assert_eq!(shown.drain_ms, Some(5000));
        let unreadable = device(Reading::Unreadable("why".into()), 9.0);
        let shown = disk(&[&known[0], &unreadable]).unwrap();
        assert_eq!((shown.backlog_bytes, shown.drain_bytes_per_s), (None, Some(1)));
    }

    #[test]
    fn a_disk_is_judged_by_its_processes() {
        let judged = |verdict, drain_ms, process: Process| {
            let process = Process { disk: Some("sda".into()), ..process };
            let (name, drain_from) = ("sda".into(), DrainSource::Seen);
            let disk = Disk { verdict, drain_ms, drain_from, name, ..Disk::default() };
            let mut disks = [disk, Disk { name: "sdb".into(), ..Disk::default() }];
            judge(&mut disks, &[process]);
            assert_eq!(disks[1].verdict, Verdict::Quiet, "another disk's process");
            disks[0].verdict
        };
        let process = |pid| Process { pid, ..Process::default() };
        let victim = || Process { is_victim: true, ..process(7) };
        let author = || Process { backlog_percent: Some(99.0), ..process(7) };
        let flood = || Process { is_flood: true, ..process(7) };
        assert_eq!(judged(Verdict::Quiet, None, victim()), Verdict::Stalling);
        assert_eq!(judged(Verdict::Quiet, None, process(7)), Verdict::Quiet);
        assert_eq!(judged(Verdict::Quiet, Some(1_000), author()), Verdict::Flooding);
        assert_eq!(judged(Verdict::Quiet, Some(999), author()), Verdict::Quiet);
        assert_eq!(judged(Verdict::Stalling, Some(999), author()), Verdict::Quiet);
        assert_eq!(judged(Verdict::Stalling, Some(999), flood()), Verdict::Flooding);
        assert_eq!(judged(Verdict::Stalling, None, process(OTHERS)), Verdict::Stalling);
        assert_eq!(judged(Verdict::Unknown, Some(5_000), author()), Verdict::Unknown);
    }

    #[test]
    fn a_p99_needs_a_hundred_operations_and_octaves_hold_them_all() {
        let counts = |n: u64| LatencyCounts::from_values((1..=n).map(|ms| ms * 1_000_000));
        assert_eq!(p99_us(&counts(99)), None);
        let p99 = p99_us(&counts(100)).unwrap();
        assert!((98_000..=100_000).contains(&p99), "{p99}");
        let octaves = octaves(&counts(100));
        assert_eq!(octaves.iter().map(|(_, n)| n).sum::<u64>(), 100);
        // From 65,536 µs on: 66 ms to 100 ms, give or take a bucket of 0.8 %.
        let (octave, n) = octaves.last().copied().unwrap();
        assert!(octave == 16 && (34..=36).contains(&n), "{octaves:?}");
    }
}
