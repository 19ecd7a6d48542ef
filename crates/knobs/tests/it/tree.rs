//! A captured tree and a journal on disk: plain files, changed and put back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, boot_id};
use floodwall_knobs::{Change, Clock, Device, KernelFiles, Session, Who};

/// A machine of an older kind (no `_fine` ratios, no diskseq) with control groups.
const TREE: &[(&str, &str)] = &[
    ("proc/sys/kernel/random/boot_id", "b"),
    ("proc/sys/vm/dirty_bytes", "0"),
    ("proc/sys/vm/dirty_ratio", "20"),
    ("proc/sys/vm/dirty_background_bytes", "0"),
    ("proc/sys/vm/dirty_background_ratio", "10"),
    ("proc/vmstat", "nr_dirty 10\nnr_writeback 0\nnr_dirty_threshold 1000000"),
    ("sys/devices/sda/dev", "8:0"),
    ("sys/devices/sda/uevent", "DEVNAME=sda"),
    ("sys/devices/sda/queue/scheduler", "none [mq-deadline] bfq"),
    ("sys/devices/sda/queue/nr_requests", "64"),
    ("sys/devices/sda/queue/wbt_lat_usec", "75000"),
    ("sys/devices/sda/queue/iosched/fifo_batch", "16"),
    ("sys/class/bdi/8:0/max_ratio", "100"),
    (
        "sys/fs/cgroup/io.cost.qos",
        "8:0 enable=1 ctrl=auto rpct=0.00 rlat=250000 wpct=0.00 wlat=250000 min=1.00 max=100.00",
    ),
    (
        "sys/fs/cgroup/a.slice/io.max",
        "8:0 rbps=1000000 wbps=max riops=max wiops=max\n8:16 rbps=5 wbps=5 riops=5 wiops=5",
    ),
    ("sys/fs/cgroup/a.slice/io.weight", "default 100\n8:0 50"),
    ("sys/fs/cgroup/a.slice/io.latency", ""),
];

struct NoTime;

impl Clock for NoTime {
    fn now_unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn sleep(&self, _: std::time::Duration) {}
}

fn contents(root: &Path) -> BTreeMap<PathBuf, String> {
    TREE.iter()
        .map(|(path, _)| (path.into(), std::fs::read_to_string(root.join(path)).unwrap()))
        .collect()
}

fn build(root: &Path) {
    for (path, text) in TREE {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::File::create(path).unwrap();
        std::io::Write::write_all(&mut file, format!("{text}\n").as_bytes()).unwrap();
    }
    for (link, target) in
        [("sys/dev/block/8:0", "../../devices/sda"), ("sys/class/block/sda", "../../devices/sda")]
    {
        std::fs::create_dir_all(root.join(link).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
}

#[test]
fn a_captured_tree_is_changed_and_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    build(&tree);
    let before = contents(&tree);
    let root = SysRoot::new(&tree).unwrap();
    let files = KernelFiles::new(&root).unwrap();
    let journal = dir.path().canonicalize().unwrap().join("journal");
    let store = DiskStore::open(&journal, "a test").unwrap();
    let who = Who::this_process(&KernelFiles::new(&SysRoot::live().unwrap()).unwrap());
    assert!(who.pid_start_ticks > 0 && !who.command.is_empty());
    let session =
        Session { files: &files, store: &store, clock: &NoTime, who, boot_id: boot_id(&files) };
    let sda = Device::find(&root, "sda").unwrap();
    let texts = [
        "vm.dirty_bytes=64MiB",
        "vm.dirty_background_bytes=32MiB",
        "nr_requests=8",
        "bdi.max_ratio=50",
        "a.slice:sda.io.max=wbps=50MB",
        "a.slice:sda.io.weight=10",
        "a.slice:io.weight=200",
        "a.slice:sda.io.latency=target=25ms",
        "sda.io.cost.qos=rpct=95 rlat=5ms",
    ];
    let changes: Vec<Change> =
        texts.iter().map(|text| Change::parse(&root, Some(&sda), text).unwrap()).collect();
    session.apply(&changes, "a test").unwrap();
    let read = |path: &str| std::fs::read_to_string(tree.join(path)).unwrap();
    assert_eq!(read("proc/sys/vm/dirty_ratio"), "0\n");
    assert_eq!(
        read("sys/fs/cgroup/a.slice/io.max"),
        "8:0 rbps=1000000 wbps=50000000 riops=max wiops=max\n8:16 rbps=5 wbps=5 riops=5 wiops=5\n"
    );
    assert_eq!(read("sys/fs/cgroup/a.slice/io.weight"), "default 200\n8:0 10\n");
    assert_eq!(read("sys/fs/cgroup/a.slice/io.latency"), "8:0 target=25000\n");
    assert!(
        read("sys/fs/cgroup/io.cost.qos").starts_with("8:0 enable=1 ctrl=user rpct=95 rlat=5000")
    );

    let (_, undone) = session.rollback(0).unwrap();
    assert!(undone[0].is_complete() && undone[0].closed, "{undone:?}");
    let mut after = contents(&tree);
    // Where there was no line there is one that says the same; parameters that the kernel chooses
    // are its own.
    assert_eq!(
        after.remove(Path::new("sys/fs/cgroup/a.slice/io.latency")).unwrap(),
        "8:0 target=0\n"
    );
    assert!(
        after
            .remove(Path::new("sys/fs/cgroup/io.cost.qos"))
            .unwrap()
            .starts_with("8:0 enable=1 ctrl=auto")
    );
    after
        .iter()
        .for_each(|(path, text)| assert_eq!(before.get(path), Some(text), "{}", path.display()));
}
