//! A disk that a command writes to, and its counters.

use std::path::Path;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::block::{self, Kind};
use floodwall_host::diskstats::{self, Requests};
use floodwall_host::locate::{LocateError, locate};
use floodwall_host::mounts::charges_writeback;
use floodwall_model::DeviceId;

use crate::law::{Seen, Waits};

/// A disk below a directory.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) id: DeviceId,
    pub(crate) name: String,
    /// The disks below dm and md, which count no flushes themselves; none for other disks.
    below: Vec<DeviceId>,
    /// Bytes of its longest request, if the disk has no volatile cache.
    pub(crate) flushless: Option<u64>,
    /// Whether the filesystem charges writeback to control groups.
    pub(crate) is_charged: bool,
}

impl Disk {
    /// Of the disk below a directory; none where there is no block device.
    pub(crate) fn below(root: &SysRoot, directory: &Path) -> Result<Option<Self>, LocateError> {
        let location = locate(root, directory)?;
        Ok(location.queue_device.map(|id| {
            let kind = block::read_device(root, id).into_value().map(|device| device.kind);
            let is_stacked = matches!(kind, Some(Kind::DeviceMapper { .. } | Kind::Md { .. }));
            let leaves = location.leaves.iter().map(|leaf| leaf.id);
            let below = leaves.filter(|leaf| is_stacked && *leaf != id).collect();
            let name = block::read_name(root, id).into_value().unwrap_or_else(|| id.to_string());
            let queue = format!("/sys/block/{name}/queue");
            let cache = root.read_line(&format!("{queue}/write_cache")).into_value();
            let longest = root.parse::<u64>(&format!("{queue}/max_sectors_kb")).into_value();
            let flushless = longest.map(|kib| kib << 10);
            let flushless = flushless.filter(|_| cache.is_some_and(|c| c == "write through"));
            let is_charged = charges_writeback(&location.mount.fs_type);
            Self { id, name, below, flushless, is_charged }
        }))
    }

    /// Its requests since boot; the flushes are those of the disks below it, if there are any.
    pub(crate) fn requests(&self, root: &SysRoot) -> Option<Requests> {
        self.read(root).map(|(requests, _)| requests)
    }

    /// The same, and whether a disk below has a request under way: dm and md do not count a flush
    /// that is under way there.
    fn read(&self, root: &SysRoot) -> Option<(Requests, bool)> {
        let of = |id| diskstats::requests_of_device(root, id).into_value();
        let (mut requests, mut busy_below) = (of(self.id)?, false);
        for below in self.below.iter().filter_map(|id| of(*id)) {
            busy_below |= below.in_flight > 0;
            if let Some(flushes) = below.flushes {
                let sum = requests.flushes.get_or_insert_default();
                (sum.ops, sum.ms) = (sum.ops + flushes.ops, sum.ms + flushes.ms);
            }
        }
        Some((requests, busy_below))
    }

    /// Whether it has been idle since the last look: no request is under way, and none has ended.
    /// Nothing is to be waited for where the counters can't be read.
    pub(crate) fn is_idle(&self, root: &SysRoot, look: &mut Option<Requests>) -> bool {
        let read = self.read(root);
        let before = std::mem::replace(look, read.map(|(requests, _)| requests));
        let Some((now, busy_below)) = read else { return true };
        let Some(before) = before else { return false };
        let seen = difference(&before, &now);
        let requests = seen.in_flight + seen.flushes.ops + seen.reads.ops + seen.writes.ops;
        requests == 0 && !busy_below
    }
}

/// The disk's work between two readings.
pub(crate) fn difference(before: &Requests, after: &Requests) -> Seen {
    let waits = |of: fn(&Requests) -> diskstats::RequestTime| {
        let (before, after) = (of(before), of(after));
        Waits {
            ops: after.ops.saturating_sub(before.ops),
            wait: Duration::from_millis(after.ms.saturating_sub(before.ms)),
        }
    };
    Seen {
        flushes: waits(|r| r.flushes.unwrap_or_default()),
        reads: waits(|r| r.reads),
        writes: waits(|r| r.writes),
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
        busy: Duration::from_millis(after.busy_ms.saturating_sub(before.busy_ms)),
        in_flight: after.in_flight,
        ..Seen::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of Documentation/block/stat.rst.
    fn stat([reads, writes, under_way, flushes]: [u32; 4]) -> String {
        format!("{reads} 0 8 1 {writes} 0 8 1 {under_way} 2 2 0 0 0 0 {flushes} 1\n")
    }

    #[test]
    fn a_disk_is_idle_that_has_no_request_between_two_looks() {
        let root = tempfile::tempdir().unwrap();
        let device = |minor| DeviceId { major: 8, minor };
        let file = |minor| {
            let directory = root.path().join(format!("sys/dev/block/8:{minor}"));
            std::fs::create_dir_all(&directory).unwrap();
            directory.join("stat")
        };
        let (array, below) = (file(0), file(16));
        let disk = Disk {
            id: device(0),
            name: "md0".into(),
            below: vec![device(16)],
            flushless: None,
            is_charged: true,
        };
        let (root, mut last) = (SysRoot::new(root.path()).unwrap(), None);
        let looks = [
            ("the first look", Some([1, 1, 0, 0]), [1, 1, 0, 1], false),
            ("nothing has happened", Some([1, 1, 0, 0]), [1, 1, 0, 1], true),
            ("a request is under way", Some([1, 1, 1, 0]), [1, 1, 0, 1], false),
            ("a read has ended", Some([2, 1, 0, 0]), [1, 1, 0, 1], false),
            ("a write has ended", Some([2, 2, 0, 0]), [1, 1, 0, 1], false),
            ("a flush is under way below", Some([2, 2, 0, 0]), [1, 1, 1, 1], false),
            ("it has ended", Some([2, 2, 0, 0]), [1, 1, 0, 2], false),
            ("nothing has happened since", Some([2, 2, 0, 0]), [1, 1, 0, 2], true),
            ("the counters can't be read", None, [1, 1, 0, 2], true),
            ("they can be read again", Some([2, 2, 0, 0]), [1, 1, 0, 2], false),
        ];
        for (what, counters, counters_below, is_idle) in looks {
            match counters {
                Some(counters) => std::fs::write(&array, stat(counters)),
                None => std::fs::remove_file(&array),
            }
            .unwrap();
            std::fs::write(&below, stat(counters_below)).unwrap();
            assert_eq!(disk.is_idle(&root, &mut last), is_idle, "{what}");
        }
    }
}
