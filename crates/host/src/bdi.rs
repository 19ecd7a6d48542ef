//! Backing devices: their limits (/sys/class/bdi/NAME) and their dirty data (debugfs, root only).

use floodwall_model::Reading;
use floodwall_model::status::DeviceLimits;

use crate::root::SysRoot;
use crate::text::number_after;

/// Where debugfs is mounted by convention.
const DEBUGFS: &str = "/sys/kernel/debug";
/// The kernel's first guess of a device's bandwidth: 100 MB/s (mm/backing-dev.c `INIT_BW`), printed
/// in KiB/s.
const INITIAL_BANDWIDTH_BYTES_PER_S: u64 = 102_400 * 1024;

/// The directory of a backing device's limits.
#[must_use]
pub fn directory(bdi: &str) -> String {
    format!("/sys/class/bdi/{bdi}")
}

/// Reads a backing device's limits. The `_fine` files (parts per million, since 6.2) are preferred
/// over whole percents.
///
/// Where the backing device itself is not known, every limit is missing for that reason.
#[must_use]
pub(crate) fn read_limits(root: &SysRoot, bdi: &Reading<String>) -> DeviceLimits {
    let number = |name: &str| {
        bdi.as_ref().and_then(|bdi| root.parse::<u64>(&format!("{}/{name}", directory(bdi))))
    };
    let ratio = |name: &str| {
        let percent = number(name).map(|percent| percent as f64);
        // The reason that counts is the older file's: the finer one is missing on many kernels.
        number(&format!("{name}_fine"))
            .into_value()
            .map_or(percent, |ppm| Reading::Value(ppm as f64 / 1e4))
    };
    let strict_limit = match number("strict_limit") {
        Reading::Absent(_) if bdi.value().is_some_and(|bdi| root.exists(&directory(bdi))) => {
            Reading::Absent(
                "the kernel has no strict_limit to set (it came with Linux 6.2)".to_owned(),
            )
        }
        other => other.map(|n| n != 0),
    };
    DeviceLimits {
        strict_limit,
        max_ratio_percent: ratio("max_ratio"),
        min_ratio_percent: ratio("min_ratio"),
        read_ahead_kib: number("read_ahead_kb"),
    }
}

/// What debugfs says of a backing device (mm/backing-dev.c `bdi_debug_stats_show`). Counts are
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BdiStats {
    /// `BdiReclaimable`: dirty and not yet under writeback.
    pub dirty_bytes: Reading<u64>,
    /// `BdiWriteback`.
    pub writeback_bytes: Reading<u64>,
    /// `BdiDirtyThresh`: the device's present share of the hard limit.
    pub limit_bytes: Reading<u64>,
    /// `BdiWritten`: written back since the device appeared. Absent before 3.2.
    pub written_bytes: Reading<u64>,
    /// `BdiWriteBandwidth`: the kernel's running mean, bytes a second. Absent while it is only the
    /// kernel's first guess, or zero.
    pub bandwidth_bytes_per_s: Reading<u64>,
}

/// Whether [`read_stats`] counts what control groups dirtied. Before 6.10 it counts the root
/// group's pages alone, where each group with the memory controller has its own writeback
/// (mm/backing-dev.c `bdi_debug_stats_show`). The file `wb_stats` came with that change.
#[must_use]
pub fn counts_groups(root: &SysRoot, bdi: &str) -> bool {
    root.exists(&format!("{DEBUGFS}/bdi/{bdi}/wb_stats"))
}

/// Reads /sys/kernel/debug/bdi/NAME/stats.
#[must_use]
pub fn read_stats(root: &SysRoot, bdi: &str) -> BdiStats {
    let path = format!("{DEBUGFS}/bdi/{bdi}/stats");
    let text = match root.read(&path) {
        Reading::Unreadable(why) => Reading::Unreadable(format!("{why}; {NEEDS_ROOT}")),
        Reading::Absent(_) if lacks_debugfs(root) => Reading::Absent(NO_DEBUGFS.into()),
        Reading::Absent(_) if !root.exists(&format!("{DEBUGFS}/bdi")) => Reading::Absent(format!(
            "debugfs is not mounted at {DEBUGFS} and can't be seen without CAP_SYS_ADMIN, or \
                 lacks bdi"
        )),
        other => other,
    };
    let field = |name: &str| {
        text.as_ref().and_then(|text| match number_after(text, name) {
            Some(kib) => Reading::Value(kib.saturating_mul(1024)),
            None => Reading::Absent(format!("{path} has no {name}")),
        })
    };
    let bandwidth = field("BdiWriteBandwidth").and_then(|rate| match rate {
        0 => Reading::Absent("the kernel has no estimate of it now".into()),
        INITIAL_BANDWIDTH_BYTES_PER_S => Reading::Absent(
            "the kernel has never measured it (its estimate is still the first guess, 100 MB/s)"
                .into(),
        ),
        rate => Reading::Value(rate),
    });
    BdiStats {
        dirty_bytes: field("BdiReclaimable"),
        writeback_bytes: field("BdiWriteback"),
        limit_bytes: field("BdiDirtyThresh"),
        written_bytes: field("BdiWritten"),
        bandwidth_bytes_per_s: bandwidth,
    }
}

/// Whether the kernel is known to have no debugfs: it is never a module, so it is among the
/// filesystems from boot on.
fn lacks_debugfs(root: &SysRoot) -> bool {
    let known = root.read(FILESYSTEMS).into_value();
    known.is_some_and(|known| {
        !known.lines().any(|line| line.split_whitespace().last() == Some("debugfs"))
    })
}

/// Filesystems that the kernel can mount now, one a line, the name last.
const FILESYSTEMS: &str = "/proc/filesystems";

/// Why nothing of debugfs can be read on a kernel that has none.
pub(crate) const NO_DEBUGFS: &str = "this kernel is built without debugfs (CONFIG_DEBUG_FS)";

/// The reason wherever debugfs refuses access.
pub(crate) const NEEDS_ROOT: &str = "needs root (debugfs)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn counts_become_bytes_and_first_guesses_are_no_estimates() {
        let (_dir, root) = tree(&[(
            "sys/kernel/debug/bdi/8:0/stats",
            "BdiWriteback:            8 kB\nBdiReclaimable:       1024 kB\n\
             BdiDirtyThresh:     2048 kB\nBdiWriteBandwidth:  102400 kBps\n",
        )]);
        let stats = read_stats(&root, "8:0");
        assert_eq!(stats.dirty_bytes, Reading::Value(1 << 20));
        assert_eq!(stats.writeback_bytes, Reading::Value(8192));
        assert_eq!(stats.limit_bytes, Reading::Value(2 << 20));
        assert!(matches!(stats.written_bytes, Reading::Absent(_)));
        assert!(stats.bandwidth_bytes_per_s.why().unwrap().contains("first guess"));
        assert_eq!(
            read_stats(&root, "8:16").dirty_bytes,
            Reading::Absent("/sys/kernel/debug/bdi/8:16/stats does not exist".into())
        );
    }

    #[test]
    fn a_kernel_without_debugfs_is_told_from_one_that_has_not_mounted_it() {
        let why = |filesystems: &str| {
            let (_dir, root) = tree(&[("proc/filesystems", filesystems)]);
            read_stats(&root, "8:0").dirty_bytes.why().unwrap()
        };
        assert!(why("nodev\tsysfs\nnodev\tdebugfs\n\text4\n").contains("is not mounted"));
        let without = why("nodev\tsysfs\nnodev\ttracefs\n\text4\n");
        assert!(without.contains("CONFIG_DEBUG_FS") && !without.contains("mount"), "{without}");
        let (_dir, root) = tree(&[]);
        assert!(read_stats(&root, "8:0").dirty_bytes.why().unwrap().contains("is not mounted"));
    }

    #[test]
    fn parts_per_million_are_preferred() {
        let (_dir, root) = tree(&[
            ("sys/class/bdi/8:0/max_ratio", "2\n"),
            ("sys/class/bdi/8:0/max_ratio_fine", "25000\n"),
            ("sys/class/bdi/8:0/min_ratio", "1\n"),
        ]);
        let limits = read_limits(&root, &Reading::Value("8:0".into()));
        assert_eq!(limits.max_ratio_percent, Reading::Value(2.5));
        assert_eq!(limits.min_ratio_percent, Reading::Value(1.0));
        assert!(limits.strict_limit.why().unwrap().contains("Linux 6.2"));
    }
}
