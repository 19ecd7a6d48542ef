//! A disk that fills up: needs root, to mount a tiny tmpfs.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use floodwall_load::LoadError;
use floodwall_model::Bytes;
use floodwall_model::scenario::{Data, parse_flood, parse_victim};
use floodwall_testing::disk::Mount;
use floodwall_testing::{ROOT, Trial, lacks, tests};
use rustix::io::Errno;

use crate::support::*;

pub(crate) fn tests() -> Vec<Trial> {
    let psync = tests![lacks_tmpfs =>
        a_full_disk_stops_preparing_with_the_file_and_the_remedy,
        a_disk_that_fills_up_midway_stops_the_load_and_all_its_threads,
        a_disk_without_inodes_is_told_from_one_without_space,
        a_burst_that_does_not_fit_leaves_nothing,
    ];
    let lacks = || lacks_tmpfs().or_else(lacks_uring);
    let uring = tests![lacks => a_disk_that_fills_up_midway_stops_a_ring];
    psync.into_iter().chain(uring).collect()
}

/// Why no tmpfs can be mounted: an ordinary user, or a container.
fn lacks_tmpfs() -> Option<String> {
    lacks(&[ROOT, "mount"])
        .or_else(|| Tiny::mount().err().map(|why| format!("can't mount a tmpfs: {why}")))
}

/// A tmpfs of 8 MiB, unmounted when dropped.
struct Tiny {
    mount: Mount,
    _dir: tempfile::TempDir,
}

impl Tiny {
    fn mount() -> Result<Self, String> {
        Self::mount_with("")
    }

    /// With further mount options, each after a comma.
    fn mount_with(options: &str) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size=8m,mode=700{options}");
        let words = ["-t", "tmpfs", "-o", &options, "floodwall-test"];
        Ok(Self { mount: Mount::new(&words, dir.path())?, _dir: dir })
    }

    fn path(&self) -> &Path {
        self.mount.path()
    }
}

fn is_full(error: &LoadError) -> bool {
    matches!(error, LoadError::Io { errno: Errno::NOSPC, .. })
}

fn a_full_disk_stops_preparing_with_the_file_and_the_remedy() {
    let tiny = Tiny::mount().unwrap();
    let stop = AtomicBool::new(false);
    let victim = parse_victim("commit,size=64MiB").unwrap();
    let error =
        prepare_victim(tiny.path(), &victim, 1, &mut |_| {}, &stop).map(|_| ()).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert!(error.to_string().contains("make size smaller"), "{error}");
    let flood = parse_flood("mmap,size=64MiB").unwrap();
    let error = prepare_flood(tiny.path(), &flood, 1, &mut |_| {}, &stop).map(|_| ()).unwrap_err();
    assert!(is_full(&error), "no mapping may be made of a file with holes: {error}");
}

fn a_disk_that_fills_up_midway_stops_the_load_and_all_its_threads() {
    let tiny = Tiny::mount().unwrap();
    for spec in ["seq,streams=3,size=64MiB", "files,streams=2,size=64MiB"] {
        let flood = flood(tiny.path(), spec);
        let running = flood.start(1, proc_root()).unwrap();
        wait_for("the disk to fill", || running.failure().is_some());
        let failure = running.finish().failure.unwrap();
        assert!(is_full(&failure), "{failure}");
        flood.discard().unwrap();
        assert_eq!(space_taken(tiny.path()), 0, "{spec}: discarding makes room again");
    }
    a_log_fills_the_disk("psync");
}

fn a_disk_that_fills_up_midway_stops_a_ring() {
    a_log_fills_the_disk("io_uring");
}

fn a_log_fills_the_disk(engine: &str) {
    let tiny = Tiny::mount().unwrap();
    let spec = format!("wal,preallocated=false,size=64MiB,block=64KiB,engine={engine}");
    let victim = victim(tiny.path(), &spec);
    let mut running = victim.start(1, proc_root()).unwrap();
    wait_for("the disk to fill", || running.failure().is_some());
    let partial = running.sample();
    let finished = running.finish();
    assert!(is_full(&finished.failure.unwrap()));
    let total = partial.ops + finished.last.ops;
    let len = std::fs::metadata(&victim.paths()[0]).unwrap().len();
    assert!(
        total > 0 && total * 65536 <= len,
        "{spec}: what failed does not count: {total} records in {len} B"
    );
}

fn a_disk_without_inodes_is_told_from_one_without_space() {
    let tiny = Tiny::mount_with(",nr_inodes=40").unwrap();
    let flood = flood(tiny.path(), "files,file_size=4KiB,size=4MiB");
    let running = flood.start(1, proc_root()).unwrap();
    wait_for("the inodes to run out", || running.failure().is_some());
    let failure = running.finish().failure.unwrap();
    assert!(is_full(&failure), "{failure}");
    let message = failure.to_string();
    assert!(message.contains("df -i") && message.contains("larger files"), "{message}");
}

fn a_burst_that_does_not_fit_leaves_nothing() {
    let tiny = Tiny::mount().unwrap();
    let error =
        burst(tiny.path(), Bytes(64 << 20), Data::Zero, 1, &AtomicBool::new(false)).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert!(files_below(tiny.path()).is_empty());
}
