//! Block devices' counters since boot: /proc/diskstats.

use std::collections::BTreeMap;

use floodwall_model::trial::DeviceSample;
use floodwall_model::{DeviceId, Reading};
use procfs_core::DiskStat;

use crate::block::SECTOR_BYTES;
use crate::root::SysRoot;

const PATH: &str = "/proc/diskstats";

/// /proc/diskstats at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskStats {
    text: Reading<String>,
}

impl DiskStats {
    /// Reads the file; lines are parsed when they are asked for.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        Self { text: root.read(PATH) }
    }

    /// All devices' counters since boot; empty if the file can't be read, without those whose line
    /// is not understood.
    #[must_use]
    pub fn devices(&self) -> BTreeMap<DeviceId, DeviceSample> {
        let of = |line: &str| {
            let stat = DiskStat::from_line(line).ok()?;
            let id =
                DeviceId { major: stat.major.try_into().ok()?, minor: stat.minor.try_into().ok()? };
            Some((id, counters(&stat)))
        };
        self.text.value().map_or_else(BTreeMap::new, |text| text.lines().filter_map(of).collect())
    }

    /// One device's counters since boot (or since the device appeared).
    pub fn device(&self, id: DeviceId) -> Reading<DeviceSample> {
        self.text.as_ref().and_then(|text| {
            let numbers = |line: &&str| {
                let mut words = line.split_whitespace();
                words.next().and_then(|w| w.parse().ok()) == Some(id.major)
                    && words.next().and_then(|w| w.parse().ok()) == Some(id.minor)
            };
            let Some(line) = text.lines().find(numbers) else {
                return Reading::Absent(format!("{PATH} does not list {id}"));
            };
            match DiskStat::from_line(line) {
                Ok(stat) => Reading::Value(counters(&stat)),
                Err(_) => crate::root::not_understood(PATH, line.trim()),
            }
        })
    }
}

/// One device's counters since boot by its own file: a thousand devices need not be listed for a
/// few.
///
/// The kernel's [stat](https://docs.kernel.org/block/stat.html): the fields of a line of
/// /proc/diskstats after the name.
pub fn of_device(root: &SysRoot, id: DeviceId) -> Reading<DeviceSample> {
    stat_of_device(root, id).map(|stat| counters(&stat))
}

fn stat_of_device(root: &SysRoot, id: DeviceId) -> Reading<DiskStat> {
    let path = format!("/sys/dev/block/{id}/stat");
    root.read_line(&path).and_then(|fields| {
        let line = format!("{} {} x {}", id.major, id.minor, fields.trim());
        match DiskStat::from_line(&line) {
            Ok(stat) => Reading::Value(stat),
            Err(_) => crate::root::not_understood(&path, fields.trim()),
        }
    })
}

/// Requests of one kind since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTime {
    /// How many ended.
    pub ops: u64,
    /// Sum of their times, from the start of a request to its end, in milliseconds; 32 bits.
    pub ms: u64,
}

/// The requests of a device since boot, and how long they took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads.
    pub reads: RequestTime,
    /// Writes.
    pub writes: RequestTime,
    /// Flushes of the device's cache (Linux 5.5).
    pub flushes: Option<RequestTime>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with a request under way, in milliseconds; 32 bits.
    pub busy_ms: u64,
    /// Requests under way now.
    pub in_flight: u64,
}

/// One device's requests by its own file, which every user may read.
pub fn requests_of_device(root: &SysRoot, id: DeviceId) -> Reading<Requests> {
    stat_of_device(root, id).map(|stat| Requests {
        reads: RequestTime { ops: stat.reads, ms: stat.time_reading },
        writes: RequestTime { ops: stat.writes, ms: stat.time_writing },
        flushes: stat.flushes.zip(stat.time_flushing).map(|(ops, ms)| RequestTime { ops, ms }),
        read_bytes: stat.sectors_read.saturating_mul(SECTOR_BYTES),
        written_bytes: stat.sectors_written.saturating_mul(SECTOR_BYTES),
        busy_ms: stat.time_in_progress,
        in_flight: stat.in_progress,
    })
}

fn counters(stat: &DiskStat) -> DeviceSample {
    DeviceSample {
        read_ops: stat.reads,
        read_bytes: stat.sectors_read.saturating_mul(SECTOR_BYTES),
        write_ops: stat.writes,
        written_bytes: stat.sectors_written.saturating_mul(SECTOR_BYTES),
        flush_ops: stat.flushes,
        busy_ms: stat.time_in_progress,
        weighted_ms: stat.weighted_time_in_progress,
        in_flight: stat.in_progress,
    }
}

/// Width of the millisecond counters: the kernel prints them as 32 bits (block/genhd.c
/// `diskstats_show`), so they wrap after 49 days of busy time.
const MILLISECOND_BITS: u32 = 32;

/// What happened between two readings of one device; its level of requests in flight is the later
/// one's.
///
/// A counter that fell is taken to have begun again (the device was removed and came back). A
/// millisecond counter that wrapped at 2^32 is followed across.
#[must_use]
pub fn between(before: &DeviceSample, after: &DeviceSample) -> DeviceSample {
    let count = |a: u64, b: u64| b.checked_sub(a).unwrap_or(b);
    let again = after.write_ops < before.write_ops || after.read_ops < before.read_ops;
    let milliseconds = |a: u64, b: u64| match b.checked_sub(a) {
        Some(difference) => difference,
        None if again || a >> MILLISECOND_BITS != 0 => b,
        None => b + (1 << MILLISECOND_BITS) - a,
    };
    DeviceSample {
        read_ops: count(before.read_ops, after.read_ops),
        read_bytes: count(before.read_bytes, after.read_bytes),
        write_ops: count(before.write_ops, after.write_ops),
        written_bytes: count(before.written_bytes, after.written_bytes),
        flush_ops: before.flush_ops.zip(after.flush_ops).map(|(a, b)| count(a, b)),
        busy_ms: milliseconds(before.busy_ms, after.busy_ms),
        weighted_ms: milliseconds(before.weighted_ms, after.weighted_ms),
        in_flight: after.in_flight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    const ID: DeviceId = DeviceId { major: 8, minor: 0 };

    fn read(text: &str) -> Reading<DeviceSample> {
        let (_dir, root) = tree(&[("proc/diskstats", text)]);
        DiskStats::read(&root).device(ID)
    }

    #[test]
    fn every_kernels_number_of_columns() {
        let old = read("   8       0 sda 10 1 200 30 40 2 600 50 3 70 80\n").into_value().unwrap();
        assert_eq!(old.read_bytes, 200 * 512);
        assert_eq!(old.written_bytes, 600 * 512);
        assert_eq!((old.in_flight, old.busy_ms, old.weighted_ms, old.flush_ops), (3, 70, 80, None));
        let new =
            read("8 10 x 1\n8 0 sda 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0 9 5\n").into_value().unwrap();
        assert_eq!(new.flush_ops, Some(9));
        assert!(matches!(read("8 16 sdb 1\n"), Reading::Absent(_)));
        assert!(matches!(read("8 0 sda 1 2 three\n"), Reading::Unreadable(_)));
    }

    #[test]
    fn all_together_are_what_each_is() {
        let text = "8 0 sda 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0 9 5\n8 16 sdb 1 2 three\n\
            259 3 nvme0n1 7 0 16 1 2 0 8 1 0 1 1\n";
        let (_dir, root) = tree(&[("proc/diskstats", text)]);
        let stats = DiskStats::read(&root);
        let all = stats.devices();
        assert_eq!(all.len(), 2);
        for (id, sample) in all {
            assert_eq!(stats.device(id), Reading::Value(sample));
        }
        let (_dir, root) = tree(&[]);
        assert!(DiskStats::read(&root).devices().is_empty());
    }

    #[test]
    fn counters_that_wrap_or_begin_again() {
        let a = DeviceSample {
            write_ops: 5,
            written_bytes: 100,
            busy_ms: u64::from(u32::MAX),
            ..Default::default()
        };
        let b = DeviceSample {
            write_ops: 7,
            written_bytes: 300,
            busy_ms: 9,
            in_flight: 4,
            ..Default::default()
        };
        let d = between(&a, &b);
        assert_eq!((d.write_ops, d.written_bytes, d.busy_ms, d.in_flight), (2, 200, 10, 4));
        let fresh =
            DeviceSample { write_ops: 1, written_bytes: 50, busy_ms: 3, ..Default::default() };
        let d = between(&b, &fresh);
        assert_eq!((d.write_ops, d.written_bytes, d.busy_ms), (1, 50, 3));
    }
}
