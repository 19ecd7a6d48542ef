//! What the tests share.
#![expect(unsafe_code, reason = "cachestat(2) has no wrapper")]

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_load::{Delta, Dir, Finished, LoadError, PreparedFlood, PreparedVictim, Running};
use floodwall_model::scenario::Data;
use floodwall_model::scenario::{parse_flood, parse_victim};
use floodwall_model::trial::BurstTotals;
use floodwall_model::{Bytes, Flood, Victim};

/// Long enough for any of these tests on a slow machine; only a hang takes it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn proc_root() -> &'static Path {
    Path::new("/proc")
}

pub(crate) fn open(dir: &Path) -> Dir {
    Dir::open(dir).unwrap()
}

pub(crate) fn check_victim(dir: &Path, victim: &Victim) -> Result<(), LoadError> {
    floodwall_load::check_victim(&open(dir), victim)
}

pub(crate) fn check_flood(dir: &Path, flood: &Flood) -> Result<(), LoadError> {
    floodwall_load::check_flood(&open(dir), flood)
}

/// As the caller.
pub(crate) fn prepare_victim(
    dir: &Path,
    victim: &Victim,
    seed: u64,
    progress: &mut dyn FnMut(u64),
    stop: &AtomicBool,
) -> Result<PreparedVictim, LoadError> {
    floodwall_load::prepare_victim(&open(dir), victim, None, seed, progress, stop)
}

/// As the caller.
pub(crate) fn prepare_flood(
    dir: &Path,
    flood: &Flood,
    seed: u64,
    progress: &mut dyn FnMut(u64),
    stop: &AtomicBool,
) -> Result<PreparedFlood, LoadError> {
    floodwall_load::prepare_flood(&open(dir), flood, None, seed, progress, stop)
}

pub(crate) fn burst(
    dir: &Path,
    bytes: Bytes,
    data: Data,
    seed: u64,
    stop: &AtomicBool,
) -> Result<BurstTotals, LoadError> {
    floodwall_load::burst(&open(dir), bytes, data, seed, stop)
}

pub(crate) fn victim(dir: &Path, spec: &str) -> PreparedVictim {
    let victim = parse_victim(spec).unwrap();
    prepare_victim(dir, &victim, 7, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

pub(crate) fn flood(dir: &Path, spec: &str) -> PreparedFlood {
    let flood = parse_flood(spec).unwrap();
    prepare_flood(dir, &flood, 7, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

/// Samples until `done` says so of everything sampled so far, then stops. All completed work is
/// returned.
pub(crate) fn run_until(mut running: Running, done: impl Fn(&Delta) -> bool) -> (Delta, Finished) {
    let begin = Instant::now();
    let mut total = Delta::default();
    while !done(&total) {
        assert!(begin.elapsed() < PATIENCE, "only {} operations, {} bytes", total.ops, total.bytes);
        if let Some(failure) = running.failure() {
            panic!("{failure}");
        }
        std::thread::sleep(Duration::from_millis(1));
        total.merge(&running.sample());
    }
    let finished = running.finish();
    assert_eq!(finished.failure, None);
    total.merge(&finished.last);
    (total, finished)
}

/// Polls until `condition` holds.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn contents(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn text(path: &Path) -> String {
    String::from_utf8_lossy(&contents(path)).into_owned()
}

/// All regular files below a directory.
pub(crate) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Bytes of the files below a directory, in blocks of 4 KiB.
pub(crate) fn space_taken(dir: &Path) -> u64 {
    files_below(dir)
        .iter()
        .map(|f| std::fs::metadata(f).unwrap().len().next_multiple_of(4096))
        .sum()
}

pub(crate) fn assert_no_holes(path: &Path) {
    let meta = std::fs::metadata(path).unwrap();
    assert!(
        meta.blocks() * 512 >= meta.len(),
        "{}: {} blocks for {} B",
        path.display(),
        meta.blocks(),
        meta.len()
    );
}

/// Why a victim can't be prepared in a scratch directory here, if `is_lack` says that this is no
/// fault.
fn lacks_for(spec: &str, is_lack: fn(&LoadError) -> bool) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let spec = parse_victim(spec).unwrap();
    match prepare_victim(dir.path(), &spec, 1, &mut |_| {}, &AtomicBool::new(false)) {
        Ok(_) => None,
        Err(e) if is_lack(&e) => Some(e.to_string()),
        Err(e) => panic!("{e}"),
    }
}

pub(crate) fn lacks_uring() -> Option<String> {
    let spec = "read,engine=io_uring,size=64KiB,access=cached";
    lacks_for(spec, |e| matches!(e, LoadError::NoUring { .. }))
}

pub(crate) fn lacks_direct_io() -> Option<String> {
    lacks_for("read,size=64KiB,block=4KiB,access=direct", |e| {
        matches!(e, LoadError::NoDirect { .. })
    })
}

/// The reason why the cached part of a scratch file can't be measured.
pub(crate) fn lacks_told_cache() -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let told = cache_can_be_told(dir.path());
    let place = dir.path().display();
    (!told).then(|| format!("needs cachestat(2), and a filesystem with a device at {place}"))
}

/// Processes of a group that are not zombies.
pub(crate) fn alive_in_group(group: i32) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let fields: Vec<&str> =
            stat[stat.rfind(')').unwrap() + 1..].split_ascii_whitespace().collect();
        if fields[2] == group.to_string() && fields[0] != "Z" && fields[0] != "X" {
            found.push(pid);
        }
    }
    found
}

/// Pages of a file in the page cache, and how many of them are dirty or under writeback
/// (cachestat(2), kernel 6.5); `None` where the call is missing.
pub(crate) fn cached_and_dirty(path: &Path) -> Option<(u64, u64)> {
    let file = File::open(path).unwrap();
    const SYS_CACHESTAT: i64 = 451;
    let range = [0u64, 0];
    // struct cachestat: cache, dirty, writeback, evicted, recently evicted.
    let mut stat = [0u64; 5];
    // SAFETY: the kernel reads two and writes five 64-bit numbers, as the structures of
    // cachestat(2) have them.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0)
    };
    (result == 0).then_some((stat[0], stat[1] + stat[2]))
}

/// Whether the kernel tells the cached part of a file, and this directory's filesystem has a device
/// to write it to.
fn cache_can_be_told(dir: &Path) -> bool {
    let probe = dir.join("probe");
    let file = File::create_new(&probe).unwrap();
    rustix::io::pwrite(&file, &[1; 4096], 0).unwrap();
    rustix::fs::fsync(&file).unwrap();
    cached_and_dirty(&probe) == Some((1, 0))
}
