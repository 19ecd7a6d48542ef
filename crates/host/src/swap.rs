//! Swap areas and the disks that they are on: /proc/swaps.

use std::path::Path;

use floodwall_model::Reading;
use floodwall_model::status::Swap;

use crate::block;
use crate::mounts::{self, Mount};
use crate::root::SysRoot;
use crate::text::unescape_octal;
use crate::topology;

/// Reads the swap areas in use, those in compressed memory (zram) left out: they wait for no disk.
#[must_use]
pub(crate) fn read_swaps(root: &SysRoot, mounts: &[Mount]) -> Reading<Vec<Swap>> {
    root.read("/proc/swaps")
        .map(|text| text.lines().skip(1).filter_map(|line| swap(root, mounts, line)).collect())
}

/// One line: path, type, size and use in KiB, priority (mm/swapfile.c `swap_show`).
fn swap(root: &SysRoot, mounts: &[Mount], line: &str) -> Option<Swap> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (path, kind) = (unescape_octal(words.first()?), *words.get(1)?);
    let kib =
        |place: usize| words.get(place)?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024));
    let (size_bytes, used_bytes) = (kib(2)?, kib(3)?);
    if path.starts_with("/dev/zram") {
        return None;
    }
    Some(Swap { disks: disks(root, mounts, &path, kind), path, size_bytes, used_bytes })
}

fn disks(root: &SysRoot, mounts: &[Mount], path: &str, kind: &str) -> Vec<String> {
    let devices = match kind {
        "partition" => block::by_path(root, path).into_value().into_iter().collect(),
        _ => match mounts::covering(mounts, Path::new(path)) {
            Some(mount) => topology::backing(root, mount).devices,
            None => Vec::new(),
        },
    };
    let mut names: Vec<String> = Vec::new();
    for device in devices {
        let stack = topology::stack(root, mounts, device);
        for leaf in stack.leaves.iter().filter_map(|id| stack.device(*id)) {
            if !names.contains(&leaf.name) {
                names.push(leaf.name.clone());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn areas_are_followed_to_their_disks_and_zram_is_left_out() {
        let (_dir, root) = tree(&[
            (
                "proc/swaps",
                "Filename\t\tType\t\tSize\tUsed\tPriority\n/dev/sda2  partition\t2097148\t512\t-2\n\
                 /swap\\040file file 1024 0 -3\n/dev/zram0 partition 4096 4096 100\ngarbage\n",
            ),
            ("sys/class/block/sda2/dev", "8:2\n"),
            ("sys/dev/block/8:2", "->../../devices/sda/sda2"),
            ("sys/dev/block/8:0", "->../../devices/sda"),
            ("sys/devices/sda/dev", "8:0\n"),
            ("sys/devices/sda/uevent", "DEVNAME=sda\n"),
            ("sys/devices/sda/sda2/dev", "8:2\n"),
            ("sys/devices/sda/sda2/partition", "2\n"),
        ]);
        let swaps = read_swaps(&root, &[]).into_value().unwrap();
        let shown: Vec<_> =
            swaps.iter().map(|s| (s.path.as_str(), s.disks.join("+"), s.used_bytes)).collect();
        assert_eq!(
            shown,
            [("/dev/sda2", "sda".to_owned(), 512 * 1024), ("/swap file", String::new(), 0)]
        );
        let (_dir, root) = tree(&[]);
        assert!(matches!(read_swaps(&root, &[]), Reading::Absent(_)));
    }
}
