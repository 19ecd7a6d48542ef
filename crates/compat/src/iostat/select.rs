//! Which devices are shown, and in which order.

use std::collections::BTreeMap;

use super::options::Options;
use super::sample::{Device, Sample};

/// Partitions, each with its disk, as /sys/class/block has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Partitions {
    /// From pairs of a partition and its disk.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Partitions {
    fn is_disk(&self, device: &Device) -> bool {
        !self.0.contains_key(&device.name)
    }

    /// Whether a device is named, or is on a disk that is named with its partitions.
    fn is_named(&self, device: &Device, options: &Options) -> bool {
        let disk = self.0.get(&device.name).unwrap_or(&device.name);
        options.named.contains(&device.name)
            || options.with_partitions.contains(&device.name)
            || options.with_partitions.contains(disk)
    }
}

/// The devices that a command line asks for. By name, except that all disks with all partitions
/// come in the kernel's order, behind those that are named.
pub(super) fn shown<'a>(
    options: &Options,
    sample: &'a Sample,
    partitions: &Partitions,
) -> Vec<&'a Device> {
    let (mut named, others): (Vec<_>, Vec<_>) =
        sample.devices.iter().partition(|device| partitions.is_named(device, options));
    named.sort_by(|a, b| a.name.cmp(&b.name));
    let names_none = options.named.is_empty() && options.with_partitions.is_empty();
    if options.all_partitions {
        let is_wanted =
            |device: &&Device| options.all || !names_none || device.counters.requests() > 0;
        named.extend(others.into_iter().filter(is_wanted));
        return named;
    }
    let is_wanted = |device: &&Device| {
        partitions.is_disk(device)
            && (options.all || (names_none && device.counters.requests() > 0))
    };
    named.extend(others.into_iter().filter(is_wanted));
    named.sort_by(|a, b| a.name.cmp(&b.name));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that are shown of two disks, one with partitions and one that was never used.
    fn names(line: &str) -> String {
        let disk = |name: &str, reads: u32| format!("8 0 {name} {reads} 0 0 0 0 0 0 0 0 0 0\n");
        let disks = [("sdb", 1), ("sdb2", 1), ("sda", 2), ("sda1", 0), ("sdc", 0)];
        let text: String = disks.iter().map(|(name, reads)| disk(name, *reads)).collect();
        let sample = Sample::parse("cpu  1 2 3 4\n", &text, "1.00 1.00").unwrap();
        let pairs = [("sda1", "sda"), ("sdb2", "sdb")];
        let partitions = pairs.map(|(part, disk)| (part.to_owned(), disk.to_owned()));
        let options = Options::parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        let shown = shown(&options, &sample, &Partitions::from_iter(partitions));
        shown.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn devices_are_chosen_as_the_original_does() {
        assert_eq!(names("-d"), "sda sdb");
        assert_eq!(names("-d ALL"), "sda sdb sdc");
        assert_eq!(names("-d sdc sdb2 sda nosuch"), "sda sdb2 sdc");
        assert_eq!(names("-d -p sdb,sda"), "sda sda1 sdb sdb2");
        assert_eq!(names("-d -p sdb sdc"), "sdb sdb2 sdc");
        assert_eq!(names("-d -p"), "sdb sdb2 sda");
        assert_eq!(names("-d -p ALL"), "sdb sdb2 sda sda1 sdc");
        assert_eq!(names("-p -d sdc"), "sdc sdb sdb2 sda sda1");
        assert_eq!(names("-d nosuch"), "");
    }
}
