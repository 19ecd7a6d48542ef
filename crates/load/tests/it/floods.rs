//! Floods: their counts against the data in their space.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use floodwall_load::LoadError;
use floodwall_model::Bytes;
use floodwall_model::scenario::{Data, parse_flood};
use floodwall_testing::{Trial, lacks, tests};

use crate::support::*;

pub(crate) fn tests() -> Vec<Trial> {
    let cache_told = tests![lacks_told_cache => discarding_does_not_wait_for_what_it_keeps];
    let anywhere = tests![
        a_flood_goes_round_and_round_within_its_space,
        random_data_never_repeats_and_zeros_are_zeros,
        a_mapping_is_dirtied_block_by_block,
        a_copy_is_a_copy,
        small_files_are_spread_a_thousand_to_a_directory,
        a_limited_flood_stays_below_its_rate,
        every_mode_writes_what_it_counts,
        a_dsync_flood_has_its_file_open_so,
        what_does_not_fit_is_refused_before_anything_is_written,
        a_burst_is_accepted_whole_and_leaves_nothing,
    ];
    let direct = tests![lacks_direct_flood => a_direct_flood_leaves_nothing_in_the_cache];
    let dont_cache = tests![lacks_dont_cache => a_flood_that_does_not_cache_is_dropped_behind];
    [cache_told, anywhere, direct, dont_cache].into_iter().flatten().collect()
}

const KINDS: [&str; 5] = ["seq", "random", "files,file_size=16KiB", "mmap", "copy"];

fn a_flood_goes_round_and_round_within_its_space() {
    for kind in KINDS {
        for data in ["random", "zero", "compressible"] {
            let dir = tempfile::tempdir().unwrap();
            let spec = format!("{kind},streams=2,size=2MiB,block=64KiB,data={data}");
            let flood = flood(dir.path(), &spec);
            let (total, finished) =
                run_until(flood.start(1, proc_root()).unwrap(), |t| t.bytes >= 5 << 20);
            assert_eq!(total.latencies, Default::default(), "nobody waits for a flood");
            let each = if kind.starts_with("files") { 16 << 10 } else { 64 << 10 };
            assert_eq!(total.bytes, total.ops * each, "{spec}");
            assert_eq!(finished.total_ops, total.ops);
            let taken = space_taken(dir.path());
            assert!(taken <= 2 << 20, "{spec}: {taken}");
            assert!(taken >= 1 << 20, "{spec}: uses its space, {taken}");
            flood.discard().unwrap();
            let left: u64 =
                files_below(dir.path()).iter().map(|f| std::fs::metadata(f).unwrap().len()).sum();
            let kept = match kind {
                "random" | "mmap" => 2 << 20,
                "copy" => 1 << 20,
                _ => 0,
            };
            assert_eq!(left, kept, "{spec}: what discarding leaves");
            run_until(flood.start(2, proc_root()).unwrap(), |t| t.ops >= 3);
        }
    }
}

/// Bytes of a file that the page cache holds.
fn cached_bytes(path: &Path) -> u64 {
    let output = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .arg(path)
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().parse().unwrap()
}

/// What the kernel says of the open files of this process whose path ends so: the flags of open(2).
fn open_flags(end: &Path) -> Vec<i32> {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with(end)));
    let flags = |fd: std::fs::DirEntry| {
        let info = text(&Path::new("/proc/self/fdinfo").join(fd.file_name()));
        let octal =
            info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim().to_owned();
        i32::from_str_radix(&octal, 8).unwrap()
    };
    ours.map(flags).collect()
}

/// A flood's only file, once it has gone twice over its 4 MiB.
fn flooded(dir: &Path, kind_and_mode: &str) -> PathBuf {
    let flood = flood(dir, &format!("{kind_and_mode},size=4MiB,block=256KiB"));
    let (total, _) = run_until(flood.start(1, proc_root()).unwrap(), |t| t.bytes >= 8 << 20);
    assert_eq!(total.bytes, total.ops * (256 << 10), "{kind_and_mode}");
    let file = files_below(dir).into_iter().find(|file| !file.ends_with("source-0000")).unwrap();
    assert_no_holes(&file);
    file
}

fn every_mode_writes_what_it_counts() {
    for kind in ["seq", "random", "copy"] {
        for mode in ["buffered", "dsync", "sync_file_range"] {
            if (kind, mode) == ("random", "sync_file_range") {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            flooded(dir.path(), &format!("{kind},mode={mode}"));
        }
    }
}

fn a_dsync_flood_has_its_file_open_so() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "seq,mode=dsync,size=4MiB,block=256KiB");
    let file = files_below(dir.path()).remove(0);
    let running = flood.start(1, proc_root()).unwrap();
    let flags = open_flags(&file);
    assert!(!flags.is_empty() && flags.iter().all(|flags| flags & libc::O_DSYNC != 0), "{flags:?}");
    assert_eq!(running.finish().failure, None);
}

fn lacks_direct_flood() -> Option<String> {
    lacks(&["fincore"]).or_else(lacks_direct_io)
}

fn a_direct_flood_leaves_nothing_in_the_cache() {
    for kind in ["seq", "random", "copy"] {
        let dir = tempfile::tempdir().unwrap();
        let file = flooded(dir.path(), &format!("{kind},mode=direct"));
        // A file that was filled beforehand was dropped from the cache.
        assert_eq!(cached_bytes(&file), 0, "{kind}");
    }
}

fn lacks_dont_cache() -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let spec = parse_flood("seq,mode=dontcache,size=4MiB,block=256KiB").unwrap();
    lacks(&["fincore"]).or_else(|| match check_flood(dir.path(), &spec) {
        Err(e @ LoadError::NoDontCache { .. }) => Some(e.to_string()),
        _ => None,
    })
}

fn a_flood_that_does_not_cache_is_dropped_behind() {
    for (mode, cached) in [("buffered", true), ("dontcache", false)] {
        let dir = tempfile::tempdir().unwrap();
        // In one lap: the kernel keeps pages that it finds in the cache.
        let flood =
            flood(dir.path(), &format!("seq,mode={mode},size=1GiB,block=256KiB,rate=20MB/s"));
        run_until(flood.start(1, proc_root()).unwrap(), |t| t.bytes >= 4 << 20);
        let file = files_below(dir.path()).remove(0);
        File::open(&file).unwrap().sync_all().unwrap();
        if cached {
            assert!(cached_bytes(&file) >= 4 << 20);
        } else {
            wait_for("its pages to be dropped", || cached_bytes(&file) == 0);
        }
    }
}

fn discarding_does_not_wait_for_what_it_keeps() {
    for kind in ["random", "mmap"] {
        let dir = tempfile::tempdir().unwrap();
        let flood = flood(dir.path(), &format!("{kind},size=4MiB,block=64KiB"));
        let path = files_below(dir.path()).remove(0);
        // The kernel may start to write at any time, but hardly each time.
        let still_dirty = (0..50).any(|seed| {
            run_until(flood.start(seed, proc_root()).unwrap(), |t| t.bytes >= 2 << 20);
            flood.discard().unwrap();
            cached_and_dirty(&path).is_some_and(|(_, dirty)| dirty > 0)
        });
        assert!(
            still_dirty,
            "{kind}: nothing of its backlog is left to whoever can be interrupted"
        );
    }
}

fn random_data_never_repeats_and_zeros_are_zeros() {
    for kind in ["seq", "random", "files,file_size=8KiB", "mmap"] {
        let dir = tempfile::tempdir().unwrap();
        let before = flood(dir.path(), &format!("{kind},streams=2,size=1MiB,block=8KiB"));
        run_until(before.start(1, proc_root()).unwrap(), |t| t.bytes >= 3 << 20);
        let all: Vec<u8> = files_below(dir.path()).iter().flat_map(|f| contents(f)).collect();
        let pieces: HashSet<&[u8]> = all.chunks(4096).collect();
        assert_eq!(pieces.len(), all.len() / 4096, "{kind}");
    }
    let dir = tempfile::tempdir().unwrap();
    let zero = flood(dir.path(), "seq,size=1MiB,block=64KiB,data=zero");
    run_until(zero.start(1, proc_root()).unwrap(), |t| t.bytes >= 1 << 20);
    assert!(files_below(dir.path()).iter().flat_map(|f| contents(f)).all(|b| b == 0));
}

fn a_mapping_is_dirtied_block_by_block() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "mmap,size=1MiB,block=20000B,rate=1MB/s");
    let path = files_below(dir.path()).remove(0);
    assert_no_holes(&path);
    let before = contents(&path);
    let (total, _) = run_until(flood.start(1, proc_root()).unwrap(), |t| t.ops >= 5);
    let after = contents(&path);
    let done = total.bytes as usize;
    assert!(done < before.len(), "{done}");
    assert!(
        before[..done].chunks_exact(500).zip(after.chunks_exact(500)).all(|(a, b)| a != b),
        "whole blocks"
    );
    assert_eq!(before[done..], after[done..]);
}

fn a_copy_is_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "copy,size=4MiB,block=64KiB");
    run_until(flood.start(1, proc_root()).unwrap(), |t| t.bytes >= 2 << 20);
    let files = files_below(dir.path());
    let (copy, source) = (contents(&files[0]), contents(&files[1]));
    assert!(files[1].ends_with("source-0000"));
    assert_eq!(source.len(), 2 << 20);
    assert!(copy == source);
}

fn small_files_are_spread_a_thousand_to_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "files,file_size=100B,size=8MiB");
    run_until(flood.start(1, proc_root()).unwrap(), |t| t.ops >= 2_100);
    let directories: Vec<_> = std::fs::read_dir(dir.path().join("files/stream-0000"))
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    assert_eq!(directories.len(), 3);
    let mut counts: Vec<_> = directories.iter().map(|d| files_below(d).len()).collect();
    counts.sort_unstable();
    assert_eq!(
        counts[1..],
        [1000, 1000][..1].iter().chain(&[1000]).copied().collect::<Vec<_>>()[..]
    );
}

fn a_limited_flood_stays_below_its_rate() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let flood =
            flood(dir.path(), &format!("{kind},streams=3,size=6MiB,block=64KiB,rate=8MB/s"));
        let running = flood.start(1, proc_root()).unwrap();
        let begin = running.begin();
        let (total, _) = run_until(running, |t| t.bytes >= 2_000_000);
        let allowed = begin.elapsed().as_secs_f64() * 8e6 + 3.0 * 65536.0;
        assert!((total.bytes as f64) <= allowed, "{kind}: {} of {allowed}", total.bytes);
    }
}

fn what_does_not_fit_is_refused_before_anything_is_written() {
    for (spec, part) in [
        ("files,size=4KiB,file_size=16KiB,block=1KiB", "a file of 16 KiB"),
        ("copy,size=1MiB,block=1MiB", "a block of 1 MiB twice"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let flood = parse_flood(spec).unwrap();
        let error = prepare_flood(dir.path(), &flood, 1, &mut |_| {}, &AtomicBool::new(false));
        let message = error.map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let unsettled = parse_flood("seq").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let error = prepare_flood(dir.path(), &unsettled, 1, &mut |_| {}, &AtomicBool::new(false));
    assert!(matches!(error, Err(LoadError::NoSize { .. })));
}

fn a_burst_is_accepted_whole_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let totals = burst(dir.path(), Bytes((3 << 20) + 5), Data::Random, 1, &stop).unwrap();
    assert_eq!(totals.bytes, (3 << 20) + 5);
    assert!(totals.seconds > 0.0);
    assert!(files_below(dir.path()).is_empty());
    let stopped = burst(dir.path(), Bytes(1 << 30), Data::Zero, 1, &AtomicBool::new(true)).unwrap();
    assert_eq!(stopped.bytes, 0);
    let gone = dir.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let open = open(&gone);
    std::fs::remove_dir(&gone).unwrap();
    let nowhere = floodwall_load::burst(&open, Bytes(1), Data::Zero, 1, &stop).unwrap_err();
    let begin = format!("can't create {}/burst", gone.display());
    assert!(nowhere.to_string().starts_with(&begin), "{nowhere}");
}
