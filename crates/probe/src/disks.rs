//! Whole disks that were ever used, and their counters from /proc/diskstats, read once a look. If
//! it lists many disks and few are used, those few are read one by one. The list is then read now
//! and then, and when a process uses another disk.

use std::collections::{BTreeMap, HashMap, HashSet};

use floodwall_host::SysRoot;
use floodwall_host::diskstats::{self, DiskStats};
use floodwall_model::DeviceId;
use floodwall_model::trial::DeviceSample;

use crate::hash::Fast;
use crate::writers::number_after;

/// With more than this many devices for each used one, the used ones are read one by one. A line of
/// the list takes a tenth of the time of a file.
const LISTED: usize = 20;
/// Looks from one reading of the list to the next.
const LOOKS: u32 = 16;

/// Of this many looks one reads the counters although nothing passed: a disk may have gone.
const READ_ANYWAY: u32 = 4;

/// Disks by number, remembered: /sys/block is only looked at when a device appears.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    names: HashMap<DeviceId, String, Fast>,
    /// Partitions, which have counters too.
    parts: HashSet<DeviceId, Fast>,
    /// Those that were used, and how many the list has.
    used: Vec<DeviceId>,
    listed: usize,
    look: u32,
    /// What all disks read and wrote until the last look; `None` if some of it was under way.
    passed: Option<[u64; 2]>,
    skipped: u32,
    buffer: Vec<u8>,
}

impl Disks {
    /// Whether nothing was read from or written to any disk since the last look, so that all
    /// counters are what they were then. The kernel's sums cost a tenth of a list of a hundred
    /// disks.
    pub(crate) fn nothing_passed(&mut self, root: &SysRoot) -> bool {
        let sums = match root.read_attribute_into("/proc/vmstat", &mut self.buffer) {
            Ok(()) => number_after(&self.buffer, b"\npgpgin ")
                .zip(number_after(&self.buffer, b"\npgpgout ")),
            Err(_) => None,
        };
        let before =
            std::mem::replace(&mut self.passed, sums.map(|(read, written)| [read, written]));
        let is_same = before.is_some() && before == self.passed && self.skipped + 1 < READ_ANYWAY;
        self.skipped = if is_same { self.skipped + 1 } else { 0 };
        is_same
    }

    /// Counters since boot of those that were ever used. `seen`: the devices with requests since
    /// the last look; `None` if requests are not seen.
    pub(crate) fn read(
        &mut self,
        root: &SysRoot,
        seen: Option<&[DeviceId]>,
    ) -> BTreeMap<DeviceId, DeviceSample> {
        self.look = self.look.wrapping_add(1);
        let is_due = self.look % LOOKS == 1 || self.used.len() * LISTED > self.listed;
        let is_new = |id: &DeviceId| !self.used.contains(id) && !self.parts.contains(id);
        if !is_due && seen.is_some_and(|seen| !seen.iter().any(is_new)) {
            let one = |id: &DeviceId| Some((*id, diskstats::of_device(root, *id).into_value()?));
            let all: BTreeMap<DeviceId, DeviceSample> = self.used.iter().filter_map(one).collect();
            // Else one of them is gone.
            if all.len() == self.used.len() {
                return self.noted(all);
            }
        }
        let used = self.read_list(root);
        self.used = used.keys().copied().collect();
        self.noted(used)
    }

    /// Requests that are under way end without being counted by the kernel's sums.
    fn noted(&mut self, all: BTreeMap<DeviceId, DeviceSample>) -> BTreeMap<DeviceId, DeviceSample> {
        if all.values().any(|sample| sample.in_flight > 0) {
            self.passed = None;
        }
        all
    }

    fn read_list(&mut self, root: &SysRoot) -> BTreeMap<DeviceId, DeviceSample> {
        let all = DiskStats::read(root).devices();
        self.listed = all.len();
        // A number that is gone may come back as another device.
        self.names.retain(|id, _| all.contains_key(id));
        self.parts.retain(|id| all.contains_key(id));
        if all.keys().any(|id| !self.names.contains_key(id) && !self.parts.contains(id)) {
            self.look(root, &all);
        }
        all.into_iter()
            .filter(|(id, sample)| self.names.contains_key(id) && was_used(sample))
            .collect()
    }

    /// Finds the whole disks. Devices without counters are left out: a thousand loop devices that
    /// were never used are not asked again and again.
    fn look(&mut self, root: &SysRoot, all: &BTreeMap<DeviceId, DeviceSample>) {
        for name in root.list("/sys/block").into_value().unwrap_or_default() {
            if let Some(id) = root.parse(&format!("/sys/block/{name}/dev")).into_value()
                && all.contains_key(&id)
            {
                self.names.insert(id, name);
            }
        }
        let unknown = all.keys().filter(|id| !self.names.contains_key(id));
        let parts = unknown.filter(|id| root.exists(&format!("/sys/dev/block/{id}/partition")));
        self.parts.extend(parts);
    }

    /// A disk's name; its number if it has none.
    pub(crate) fn name(&self, id: DeviceId) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}

/// How many requests a device has in flight; `None` if it does not count them (`queue/iostats`).
pub(crate) fn in_flight(
    root: &SysRoot,
    counters: &BTreeMap<DeviceId, DeviceSample>,
    id: DeviceId,
) -> Option<u64> {
    let in_flight = counters.get(&id)?.in_flight;
    let counts = || {
        let iostats = root.read_line(&format!("/sys/dev/block/{id}/queue/iostats")).into_value();
        iostats.is_none_or(|on| on.trim() != "0")
    };
    (in_flight > 0 || counts()).then_some(in_flight)
}

/// Whether a device did anything since it appeared.
fn was_used(sample: &DeviceSample) -> bool {
    sample.read_ops > 0
        || sample.write_ops > 0
        || sample.in_flight > 0
        || sample.flush_ops.is_some_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn stats(dir: &Path, writes: impl Fn(u32) -> u64, count: u32) {
        let line =
            |n: u32| format!("{} {n} sd{n} 0 0 0 0 {} 0 8 0 0 0 0 0 0 0 0 0 0\n", 65, writes(n));
        let text: String = (0..count).map(line).collect();
        let path = dir.join("proc/diskstats");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.set_len(0).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    fn disk(dir: &Path, n: u32) -> std::path::PathBuf {
        let path = dir.join(format!("sys/block/sd{n}"));
        fs::DirBuilder::new().recursive(true).create(&path).unwrap();
        let dev = path.join("dev");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&dev).unwrap();
        std::io::Write::write_all(&mut file, format!("65:{n}\n").as_bytes()).unwrap();
        dev
    }

    #[test]
    fn of_a_thousand_disks_those_that_were_used_are_told_and_each_is_asked_for_its_number_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::DirBuilder::new().create(dir.path().join("proc")).unwrap();
        let devs: Vec<_> = (0..1000).map(|n| disk(dir.path(), n)).collect();
        stats(dir.path(), |n| u64::from(n % 2), 1000);
        let root = SysRoot::new(dir.path()).unwrap();
        let mut disks = Disks::default();
        assert_eq!(disks.read(&root, None).len(), 500);
        // Their numbers can't be read any more, and need not be.
        devs.iter().for_each(|dev| {
            fs::OpenOptions::new().append(true).open(dev).unwrap().set_len(0).unwrap()
        });
        stats(dir.path(), |n| u64::from(n) * 3, 1000);
        let again = disks.read(&root, None);
        assert_eq!(again.len(), 999);
        let id = DeviceId { major: 65, minor: 700 };
        assert_eq!((again[&id].write_ops, disks.name(id)), (2100, "sd700".to_owned()));
        // One is pulled out.
        stats(dir.path(), |n| u64::from(n) * 3, 700);
        assert!(!disks.read(&root, None).contains_key(&id));
        assert_eq!(disks.name(id), "65:700");
    }

    #[test]
    fn of_a_thousand_disks_the_few_that_are_used_are_asked_by_themselves() {
        let dir = tempfile::tempdir().unwrap();
        fs::DirBuilder::new().create(dir.path().join("proc")).unwrap();
        (0..1000).for_each(|n| drop(disk(dir.path(), n)));
        let own = |n: u32, writes: u64| {
            let path = dir.path().join(format!("sys/dev/block/65:{n}"));
            fs::DirBuilder::new().recursive(true).create(&path).unwrap();
            let mut file =
                fs::OpenOptions::new().create(true).append(true).open(path.join("stat")).unwrap();
            file.set_len(0).unwrap();
            let text = format!("       0        0 0 0 {writes} 0 8 0 0 0 0 0 0 0 0 0 0\n");
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        };
        let root = SysRoot::new(dir.path()).unwrap();
        let id = |minor| DeviceId { major: 65, minor };
        let mut disks = Disks::default();
        let mut look = |seen: Option<&[DeviceId]>| {
            disks
                .read(&root, seen)
                .into_iter()
                .map(|(id, s)| (id.minor, s.write_ops))
                .collect::<Vec<_>>()
        };
        stats(dir.path(), |n| if n == 5 { 10 } else { 0 }, 1000);
        own(5, 11);
        assert_eq!(look(Some(&[])), [(5, 10)], "listed at first");
        assert_eq!(look(Some(&[])), [(5, 11)], "then asked by itself");
        assert_eq!(look(None), [(5, 10)], "where requests are not seen the list tells");
        // Another one is used.
        stats(dir.path(), |n| if n == 5 || n == 7 { 20 } else { 0 }, 1000);
        assert_eq!(look(Some(&[id(5)])), [(5, 11)]);
        assert_eq!(look(Some(&[id(5), id(7)])), [(5, 20), (7, 20)]);
        // One is pulled out.
        own(7, 21);
        assert_eq!(look(Some(&[])), [(5, 11), (7, 21)]);
        fs::remove_dir_all(dir.path().join("sys/dev/block/65:7")).unwrap();
        stats(dir.path(), |n| if n == 5 { 30 } else { 0 }, 1000);
        assert_eq!(look(Some(&[])), [(5, 30)]);
        // Now and then the list is read all the same.
        stats(dir.path(), |n| if n == 5 || n == 9 { 40 } else { 0 }, 1000);
        assert!((0..LOOKS).any(|_| look(Some(&[])).len() == 2));
    }

    #[test]
    fn a_disk_that_does_not_count_tells_nothing_of_its_requests() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let id = DeviceId { major: 65, minor: 1 };
        let counters = |in_flight| {
            BTreeMap::from([(id, DeviceSample { in_flight, ..DeviceSample::default() })])
        };
        assert_eq!(in_flight(&root, &BTreeMap::new(), id), None);
        assert_eq!(in_flight(&root, &counters(0), id), Some(0));
        let queue = dir.path().join("sys/dev/block/65:1/queue");
        fs::DirBuilder::new().recursive(true).create(&queue).unwrap();
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(queue.join("iostats")).unwrap();
        std::io::Write::write_all(&mut file, b"0\n").unwrap();
        assert_eq!(in_flight(&root, &counters(0), id), None);
        // Those that began before it was told not to count.
        assert_eq!(in_flight(&root, &counters(2), id), Some(2));
    }

    #[test]
    fn where_nothing_passed_counters_are_not_read_again_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let sums = |read: u64, written: u64| {
            fs::DirBuilder::new().recursive(true).create(dir.path().join("proc")).unwrap();
            let path = dir.path().join("proc/vmstat");
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            file.set_len(0).unwrap();
            let text = format!("nr_dirty 7\npgpgin {read}\npgpgout {written}\n");
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        };
        let mut disks = Disks::default();
        assert!(!disks.nothing_passed(&root), "the kernel does not say");
        sums(100, 200);
        assert!(!disks.nothing_passed(&root), "there is nothing to compare with");
        assert!(disks.nothing_passed(&root));
        sums(100, 204);
        assert!(!disks.nothing_passed(&root));
        let skipped = (0..20).filter(|_| disks.nothing_passed(&root)).count();
        assert_eq!(skipped, 15, "three of four");
        // A request that was under way ends without changing the sums.
        let sample = DeviceSample { in_flight: 1, ..DeviceSample::default() };
        disks.noted([(DeviceId { major: 8, minor: 0 }, sample)].into());
        assert!(!disks.nothing_passed(&root) && disks.nothing_passed(&root));
    }
}
