//! A small machine for unit tests: one disk `sda` (8:0, mq-deadline) with a partition, as files.

use std::collections::BTreeMap;

use floodwall_host::SysRoot;
use floodwall_testing::tree::put;

use crate::apply::kernel_files::KernelFiles;

/// The disk's number.
pub(crate) const DISK: &str = "8:0";

pub(crate) type Tree = BTreeMap<String, String>;

/// Limits at their defaults, 20 % being 1,000,000 pages.
pub(crate) fn machine() -> Tree {
    let queue = "/sys/devices/sda/queue";
    let bdi = "/sys/class/bdi/8:0";
    let files: Vec<(String, &str)> = vec![
        ("/proc/sys/vm/dirty_bytes".into(), "0"),
        ("/proc/sys/vm/dirty_ratio".into(), "20"),
        ("/proc/sys/vm/dirty_background_bytes".into(), "0"),
        ("/proc/sys/vm/dirty_background_ratio".into(), "10"),
        ("/proc/sys/vm/dirty_writeback_centisecs".into(), "500"),
        ("/proc/sys/vm/dirty_expire_centisecs".into(), "3000"),
        ("/proc/sys/kernel/osrelease".into(), "6.18.0"),
        ("/proc/sys/kernel/random/boot_id".into(), "11111111-2222-3333-4444-555555555555"),
        (
            "/proc/vmstat".into(),
            "nr_free_pages 3000000\nnr_inactive_file 1000000\nnr_active_file 1000000\n\
             nr_dirty 100\nnr_writeback 0\nnr_dirty_threshold 1000000",
        ),
        ("/sys/dev/block/8:0".into(), "->../../devices/sda"),
        ("/sys/dev/block/8:1".into(), "->../../devices/sda/sda1"),
        ("/sys/class/block/sda".into(), "->../../devices/sda"),
        ("/sys/class/block/sda1".into(), "->../../devices/sda/sda1"),
        ("/sys/devices/sda/dev".into(), "8:0"),
        ("/sys/devices/sda/diskseq".into(), "11"),
        ("/sys/devices/sda/uevent".into(), "DEVNAME=sda"),
        ("/sys/devices/sda/sda1/dev".into(), "8:1"),
        ("/sys/devices/sda/sda1/partition".into(), "1"),
        ("/sys/devices/sda/sda1/uevent".into(), "DEVNAME=sda1"),
        (format!("{queue}/scheduler"), "none [mq-deadline] kyber bfq"),
        (format!("{queue}/nr_requests"), "256"),
        (format!("{queue}/max_sectors_kb"), "1280"),
        (format!("{queue}/read_ahead_kb"), "64"),
        (format!("{queue}/wbt_lat_usec"), "2000"),
        (format!("{queue}/rq_affinity"), "1"),
        (format!("{queue}/nomerges"), "0"),
        (format!("{queue}/iosched/fifo_batch"), "16"),
        (format!("{queue}/iosched/read_expire"), "500"),
        (format!("{queue}/iosched/async_depth"), "256"),
        (format!("{bdi}/max_ratio"), "100"),
        (format!("{bdi}/max_ratio_fine"), "1000000"),
        (format!("{bdi}/min_ratio"), "0"),
        (format!("{bdi}/min_ratio_fine"), "0"),
        (format!("{bdi}/strict_limit"), "0"),
        ("/sys/fs/cgroup/a.slice/io.max".into(), ""),
        ("/sys/fs/cgroup/a.slice/io.weight".into(), "default 100"),
        ("/sys/fs/cgroup/io.cost.qos".into(), ""),
    ];
    files.into_iter().map(|(path, text)| (path, format!("{text}\n"))).collect()
}

/// A captured tree of these files; a content that starts with `->` makes a symbolic link.
pub(crate) fn root_of(tree: &Tree) -> (tempfile::TempDir, SysRoot) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in tree {
        put(&dir.path().join(path.trim_start_matches('/')), text);
    }
    let root = SysRoot::new(dir.path()).unwrap();
    (dir, root)
}

pub(crate) fn files_of(tree: &Tree) -> (tempfile::TempDir, KernelFiles) {
    let (dir, root) = root_of(tree);
    let files = KernelFiles::new(&root).unwrap();
    (dir, files)
}
