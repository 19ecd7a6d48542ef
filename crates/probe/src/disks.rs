//! Whole disks that were ever used, and their counters: /proc/diskstats, read once a look however many there are.

use std::collections::{BTreeMap, HashMap, HashSet};

use floodwall_host::SysRoot;
use floodwall_host::diskstats::DiskStats;
use floodwall_model::DeviceId;
use floodwall_model::trial::DeviceSample;

use crate::hash::Fast;

/// Disks by number, remembered: /sys/block is only looked at when a device appears.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    names: HashMap<DeviceId, String, Fast>,
    /// Partitions, which have counters too.
    parts: HashSet<DeviceId, Fast>,
}

impl Disks {
    /// Counters since boot of those that were ever used.
    pub(crate) fn read(&mut self, root: &SysRoot) -> BTreeMap<DeviceId, DeviceSample> {
        let all = DiskStats::read(root).devices();
        // Whoever is gone may come back as something else.
        self.names.retain(|id, _| all.contains_key(id));
        self.parts.retain(|id| all.contains_key(id));
        if all.keys().any(|id| !self.names.contains_key(id) && !self.parts.contains(id)) {
            self.look(root, &all);
        }
        all.into_iter().filter(|(id, sample)| self.names.contains_key(id) && was_used(sample)).collect()
    }

    /// Finds out who is a whole disk. Devices without counters are left out: a thousand loop devices that were never used are not asked again and again.
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
        let line = |n: u32| format!("{} {n} sd{n} 0 0 0 0 {} 0 8 0 0 0 0 0 0 0 0 0 0\n", 65, writes(n));
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
        assert_eq!(disks.read(&root).len(), 500);
        // Their numbers can't be read any more, and need not be.
        devs.iter()
            .for_each(|dev| fs::OpenOptions::new().append(true).open(dev).unwrap().set_len(0).unwrap());
        stats(dir.path(), |n| u64::from(n) * 3, 1000);
        let again = disks.read(&root);
        assert_eq!(again.len(), 999);
        let id = DeviceId { major: 65, minor: 700 };
        assert_eq!((again[&id].write_ops, disks.name(id)), (2100, "sd700".to_owned()));
        // One is pulled out.
        stats(dir.path(), |n| u64::from(n) * 3, 700);
        assert!(!disks.read(&root).contains_key(&id));
        assert_eq!(disks.name(id), "65:700");
    }
}
