//! Refusals before anything is written.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use floodwall_load::LoadError;
use floodwall_model::scenario::{parse_flood, parse_victim};
use floodwall_model::{Bytes, Flood, Victim};
use floodwall_testing::{Trial, tests};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::*;

pub(crate) fn tests() -> Vec<Trial> {
    let direct = tests![lacks_direct_io => what_direct_io_can_not_do_is_refused];
    let anywhere = tests![
        checks_leave_nothing_behind,
        blocks_that_fit_nowhere_are_refused,
        a_directory_that_takes_no_file_is_refused,
        files_longer_than_there_can_be_are_refused,
        what_a_limit_of_the_process_forbids_is_refused,
    ];
    let uring = tests![lacks_uring => a_ring_deeper_than_the_kernel_has_is_refused];
    [direct, anywhere, uring].into_iter().flatten().collect()
}

/// The error of a check, after which preparing fails alike and has written nothing.
fn refused_victim(dir: &Path, victim: &Victim) -> LoadError {
    let error = check_victim(dir, victim).unwrap_err();
    let mut unwritten = |bytes| panic!("{bytes} B were written");
    let prepared = prepare_victim(dir, victim, 1, &mut unwritten, &AtomicBool::new(false));
    assert_eq!(prepared.map(|_| ()).unwrap_err(), error);
    assert_empty(dir);
    error
}

fn refused_flood(dir: &Path, flood: &Flood) -> LoadError {
    let error = check_flood(dir, flood).unwrap_err();
    let mut unwritten = |bytes| panic!("{bytes} B were written");
    let prepared = prepare_flood(dir, flood, 1, &mut unwritten, &AtomicBool::new(false));
    assert_eq!(prepared.map(|_| ()).unwrap_err(), error);
    assert_empty(dir);
    error
}

fn assert_empty(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "nothing is left behind");
}

fn errno(error: &LoadError) -> Option<Errno> {
    match error {
        LoadError::Io { errno, .. } => Some(*errno),
        _ => None,
    }
}

fn checks_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    for spec in [
        "commit,size=1MiB",
        "scan,threads=3,files=2,size=1MiB,access=cached",
        "wal,preallocated=false",
        "journal",
    ] {
        check_victim(dir.path(), &parse_victim(spec).unwrap()).unwrap();
    }
    for spec in ["seq", "random", "mmap", "copy", "files"] {
        check_flood(dir.path(), &parse_flood(&format!("{spec},size=64MiB")).unwrap()).unwrap();
    }
    assert_empty(dir.path());
}

fn blocks_that_fit_nowhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut victim = parse_victim("commit,block=4KiB,size=4KiB").unwrap();
    victim.files = 2;
    assert!(matches!(refused_victim(dir.path(), &victim), LoadError::TooSmall { .. }));
    let flood = parse_flood("copy,size=1MiB,block=1MiB").unwrap();
    assert!(matches!(refused_flood(dir.path(), &flood), LoadError::TooSmall { .. }));
    assert!(matches!(
        refused_flood(dir.path(), &parse_flood("seq").unwrap()),
        LoadError::NoSize { .. }
    ));
}

fn what_direct_io_can_not_do_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for spec in ["commit,direct=true", "read,access=direct", "mixed,access=direct"] {
        let mut victim = parse_victim(&format!("{spec},block=4KiB,size=1MiB")).unwrap();
        victim.block = Bytes(1000);
        match refused_victim(dir.path(), &victim) {
            LoadError::Misaligned { block: Bytes(1000), align, path } => {
                assert!(align >= 512 && path == dir.path(), "{align} {}", path.display());
            }
            other => panic!("{other}"),
        }
    }
}

fn a_directory_that_takes_no_file_is_refused() {
    // procfs.
    let victim = parse_victim("read,size=1MiB").unwrap();
    assert!(errno(&check_victim(Path::new("/proc/self"), &victim).unwrap_err()).is_some());
}

fn files_longer_than_there_can_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut victim = parse_victim("commit").unwrap();
    victim.size = Bytes(u64::MAX);
    let error = refused_victim(dir.path(), &victim);
    assert_eq!(errno(&error), Some(Errno::FBIG), "{error}");
    assert!(error.to_string().ends_with("use more files"), "{error}");
    for kind in ["seq", "mmap"] {
        let mut flood = parse_flood(kind).unwrap();
        flood.size = Some(Bytes(u64::MAX));
        assert_eq!(errno(&refused_flood(dir.path(), &flood)), Some(Errno::FBIG));
    }
}

fn a_ring_deeper_than_the_kernel_has_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut victim = parse_victim("read,engine=io_uring,size=1MiB,access=cached").unwrap();
    // IORING_MAX_ENTRIES is 32768.
    victim.depth = 1 << 20;
    assert!(matches!(refused_victim(dir.path(), &victim), LoadError::NoUring { .. }));
}

fn what_a_limit_of_the_process_forbids_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(crate::child::spawn("limits", dir.path(), "").wait().unwrap().success());
}

/// Run in a separate process.
pub(crate) fn under_limits(dir: &Path) {
    let limit = |resource, current| {
        let before = getrlimit(resource);
        setrlimit(resource, Rlimit { current: Some(current), ..before }).unwrap();
        move || setrlimit(resource, before).unwrap()
    };
    let victim = |spec: &str| parse_victim(spec).unwrap();
    let flood = |spec: &str| parse_flood(spec).unwrap();

    let lift = limit(Resource::Nofile, 64);
    for spec in ["commit,files=64", "scan,files=40", "scan,files=20,threads=60"] {
        let error = refused_victim(dir, &victim(spec));
        assert_eq!(errno(&error), Some(Errno::MFILE), "{spec}: {error}");
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }
    assert_eq!(errno(&refused_flood(dir, &flood("copy,streams=40,size=1GiB"))), Some(Errno::MFILE));
    check_victim(dir, &victim("commit,files=40")).unwrap();
    check_flood(dir, &flood("seq,streams=40,size=1GiB")).unwrap();
    lift();

    let lift = limit(Resource::Fsize, 1 << 20);
    assert_eq!(errno(&refused_victim(dir, &victim("commit,size=4MiB,files=2"))), Some(Errno::FBIG));
    assert_eq!(errno(&refused_flood(dir, &flood("seq,size=4MiB,streams=2"))), Some(Errno::FBIG));
    check_victim(dir, &victim("commit,size=4MiB,files=4")).unwrap();
    check_flood(dir, &flood("files,size=1GiB,file_size=16KiB")).unwrap();
    lift();

    let lift = limit(Resource::As, 4 << 30);
    let error = refused_flood(dir, &flood("mmap,size=1TiB"));
    assert_eq!(errno(&error), Some(Errno::NOMEM), "{error}");
    check_flood(dir, &flood("random,size=1TiB")).unwrap();
    lift();
}
