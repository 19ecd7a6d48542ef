//! Victims: their counts against the data in their files and in the page cache.

use std::collections::HashSet;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use floodwall_load::{Delta, LoadError, victim_bytes};
use floodwall_model::scenario::parse_victim;
use floodwall_testing::{Trial, lacks, test, tests};

use crate::support::*;

const SYNCS: [&str; 5] = ["fsync", "fdatasync", "sync_file_range", "o_dsync", "o_sync"];
const ENGINES: [&str; 2] = ["engine=psync", "engine=io_uring,depth=4"];
/// A directory in memory.
const SHM: &str = "/dev/shm";

pub(crate) fn tests() -> Vec<Trial> {
    let plain = tests![
        a_commit_is_its_write_and_its_sync,
        a_rollback_journal_is_gone_after_each_commit,
        threads_that_share_a_growing_log_leave_no_hole_in_a_lap,
        equal_seeds_touch_equal_blocks,
        preparing_reports_its_bytes_and_can_be_interrupted,
        files_are_private_and_inside_the_directory,
    ];
    let engines = ENGINES.into_iter().flat_map(with_engine);
    plain.into_iter().chain(engines).collect()
}

/// The tests that each engine has to pass.
fn with_engine(engine: &'static str) -> Vec<Trial> {
    macro_rules! with_engine {
        ($lacks:expr => $($function:ident),+ $(,)?) => {
            vec![$(test(
                format!("victims::{} ({engine})", stringify!($function)),
                move || lacks_engine(engine).or_else($lacks),
                move || $function(engine),
            )),+]
        };
    }
    let anywhere = with_engine![|| None =>
        every_commit_counts_once_by_each_of_its_parts,
        no_two_blocks_written_are_alike,
        a_preallocated_log_is_overwritten_in_order_and_in_a_circle,
        a_growing_log_is_as_long_as_what_was_appended,
        readers_through_the_cache_read_whole_blocks,
        a_mixed_victim_keeps_its_share_of_reads,
        an_open_loop_counts_from_when_operations_fell_due,
        an_open_loop_serves_no_more_than_its_rate,
        a_file_that_vanishes_under_a_reader_is_an_error_and_not_a_zero,
    ];
    let cache_told = with_engine![lacks_told_cache =>
        what_is_committed_is_not_dirty,
        what_an_evicting_victim_commits_leaves_the_cache_too,
    ];
    let both = with_engine![|| lacks_told_cache().or_else(lacks_direct_io) =>
        files_begin_outside_the_cache_and_evicting_readers_keep_them_there,
    ];
    let direct = with_engine![lacks_direct_io => readers_past_the_cache_read_whole_blocks];
    let memory = with_engine![|| lacks(&[SHM]) => memory_directories_hold_victims_too];
    [anywhere, cache_told, both, direct, memory].into_iter().flatten().collect()
}

fn lacks_engine(engine: &str) -> Option<String> {
    engine.contains("io_uring").then(lacks_uring).flatten()
}

/// One operation at a time.
fn at_depth_one(engine: &str) -> &str {
    engine.trim_end_matches(",depth=4")
}

fn counts(total: &Delta) -> [u64; 4] {
    let l = &total.latencies;
    [l.commit.count(), l.write.count(), l.sync.count(), l.read.count()]
}

fn every_commit_counts_once_by_each_of_its_parts(engine: &str) {
    for sync in SYNCS {
        let dir = tempfile::tempdir().unwrap();
        let spec = format!("commit,threads=3,block=8KiB,files=2,size=1MiB,sync={sync},{engine}");
        let victim = victim(dir.path(), &spec);
        let (total, finished) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 50);
        let syncs = if sync.starts_with("o_") { 0 } else { total.ops };
        assert_eq!(counts(&total), [total.ops, total.ops, syncs, 0], "{spec}");
        assert_eq!((total.bytes, finished.total_ops), (total.ops * 8192, total.ops), "{spec}");
        assert_eq!(finished.unserved_ops, 0);
        for path in victim.paths() {
            assert_no_holes(&path);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 512 << 10, "overwrites only");
        }
    }
}

fn a_commit_is_its_write_and_its_sync() {
    let dir = tempfile::tempdir().unwrap();
    let victim = victim(dir.path(), "commit,block=4KiB,size=1MiB");
    let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 200);
    let l = &total.latencies;
    assert_eq!(
        l.commit.sum_ns(),
        l.write.sum_ns() + l.sync.sum_ns(),
        "the clock is read once between the two"
    );
}

fn a_rollback_journal_is_gone_after_each_commit() {
    let dir = tempfile::tempdir().unwrap();
    let victim = victim(dir.path(), "journal,block=4KiB,size=64KiB,sync=fdatasync");
    let database = victim.paths().remove(0);
    let before = contents(&database);
    let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 200);
    let l = &total.latencies;
    assert_eq!(counts(&total), [total.ops, total.ops, total.ops, 0]);
    assert_eq!(l.commit.sum_ns(), l.write.sum_ns() + l.sync.sum_ns());
    let after = contents(&database);
    let same = before.chunks(4096).zip(after.chunks(4096)).filter(|(a, b)| a == b).count();
    assert_eq!((after.len(), same), (before.len(), 0), "every page of 16 was chosen");
    let beside = std::fs::read_dir(database.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "the database alone");
}

fn what_is_committed_is_not_dirty(engine: &str) {
    for sync in SYNCS {
        for kind in [
            "commit,threads=2",
            "mixed,read_percent=30,access=cached",
            "wal",
            "wal,preallocated=false",
        ] {
            if kind.starts_with("wal") && engine.contains("depth") {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let spec = format!("{kind},block=4KiB,size=256KiB,sync={sync},{engine}");
            let victim = victim(dir.path(), &spec);
            run_until(victim.start(1, proc_root()).unwrap(), |t| t.latencies.commit.count() >= 20);
            for path in victim.paths() {
                assert_eq!(cached_and_dirty(&path).map(|(_, dirty)| dirty), Some(0), "{spec}");
            }
        }
    }
}

fn no_two_blocks_written_are_alike(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let victim =
        victim(dir.path(), &format!("commit,threads=4,block=8KiB,size=2MiB,sync=o_dsync,{engine}"));
    run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 2_000);
    let bytes = contents(&victim.paths()[0]);
    let pieces: HashSet<&[u8]> = bytes.chunks(4096).collect();
    assert_eq!(pieces.len(), bytes.len() / 4096, "{engine}");
}

fn a_preallocated_log_is_overwritten_in_order_and_in_a_circle(engine: &str) {
    let engine = at_depth_one(engine);
    for (enough, threads) in [(10, 1), (300, 1), (300, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let spec = format!(
            "wal,threads={threads},block=4KiB,size=1MiB,sync=fdatasync,rate=20000/s,{engine}"
        );
        let victim = victim(dir.path(), &spec);
        let before = contents(&victim.paths()[0]);
        let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= enough);
        let after = contents(&victim.paths()[0]);
        assert_eq!(before.len(), after.len());
        let appended =
            before.chunks(4096).zip(after.chunks(4096)).take_while(|(a, b)| a != b).count();
        let changed = before.chunks(4096).zip(after.chunks(4096)).filter(|(a, b)| a != b).count();
        let done = total.latencies.sync.count().min(256) as usize;
        assert_eq!((appended, changed), (done, done), "{spec}: in order, from the beginning");
    }
}

fn a_growing_log_is_as_long_as_what_was_appended(engine: &str) {
    let engine = at_depth_one(engine);
    let dir = tempfile::tempdir().unwrap();
    let spec = format!("wal,preallocated=false,block=4KiB,size=256KiB,{engine}");
    let victim = victim(dir.path(), &spec);
    let path = &victim.paths()[0];
    assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
    let mut appended = 0;
    for enough in [10, 100] {
        let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= enough);
        appended += total.ops;
        // 64 records a lap; the log is cut when the first record of a lap is appended.
        let expected = match appended % 64 {
            0 => 64,
            n => n,
        };
        assert_eq!(
            std::fs::metadata(path).unwrap().len(),
            expected * 4096,
            "{spec}: {appended} appended"
        );
        assert_no_holes(path);
    }
}

fn threads_that_share_a_growing_log_leave_no_hole_in_a_lap() {
    let dir = tempfile::tempdir().unwrap();
    let victim = victim(dir.path(), "wal,preallocated=false,threads=4,block=4KiB,size=64KiB");
    let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 2_000);
    let len = std::fs::metadata(&victim.paths()[0]).unwrap().len();
    assert!(len <= 64 << 10, "{len}");
    assert_eq!(total.latencies.commit.count(), total.ops);
}

fn readers_through_the_cache_read_whole_blocks(engine: &str) {
    read_whole_blocks(&["cached", "evict"], engine);
}

fn readers_past_the_cache_read_whole_blocks(engine: &str) {
    read_whole_blocks(&["direct"], engine);
}

fn read_whole_blocks(accesses: &[&str], engine: &str) {
    for kind in ["read", "scan"] {
        for access in accesses {
            let dir = tempfile::tempdir().unwrap();
            let spec =
                format!("{kind},threads=3,files=2,block=4KiB,size=4MiB,access={access},{engine}");
            let victim = victim(dir.path(), &spec);
            let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 3_000);
            assert_eq!(counts(&total), [0, 0, 0, total.ops], "{spec}");
            assert_eq!(total.bytes, total.ops * 4096, "{spec}");
        }
    }
}

fn files_begin_outside_the_cache_and_evicting_readers_keep_them_there(engine: &str) {
    for kind in
        ["commit,sync=o_dsync", "read,access=direct", "read,access=evict", "scan,access=evict"]
    {
        let dir = tempfile::tempdir().unwrap();
        let victim =
            victim(dir.path(), &format!("{kind},threads=2,block=4KiB,size=64MiB,{engine}"));
        let path = &victim.paths()[0];
        assert_eq!(cached_and_dirty(path), Some((0, 0)), "{kind}: prepared");
        // A scan goes through all of it at least once.
        let enough = if kind.starts_with("scan") { 40_000 } else { 100 };
        let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= enough);
        let (cached, _) = cached_and_dirty(path).unwrap();
        let most = match kind {
            "commit,sync=o_dsync" => total.ops,
            // Read-ahead in front of two threads: half of the file is more than any device's.
            "scan,access=evict" => 8192,
            _ => 0,
        };
        assert!(
            cached <= most,
            "{kind},{engine}: {cached} pages cached, not more than {most} expected"
        );
    }
}

fn what_an_evicting_victim_commits_leaves_the_cache_too(engine: &str) {
    // A second operation's fsync may hold pages of the first.
    let engine = at_depth_one(engine);
    for sync in SYNCS {
        let spec =
            format!("mixed,read_percent=20,access=evict,block=8KiB,size=1MiB,sync={sync},{engine}");
        let left = || {
            let dir = tempfile::tempdir().unwrap();
            let victim = victim(dir.path(), &spec);
            run_until(victim.start(1, proc_root()).unwrap(), |t| t.latencies.commit.count() >= 30);
            cached_and_dirty(&victim.paths()[0])
        };
        // The kernel keeps a page that it holds itself at that moment (mm/truncate.c
        // `mapping_evict_folio`). In one of some 4,000 runs that was a block of 8 KiB, never a
        // dirty one.
        let found: Vec<_> = std::iter::repeat_with(left).take(5).collect();
        let kept = found.iter().filter(|left| **left != Some((0, 0)));
        assert!(kept.clone().count() <= 1, "{spec}: {found:?}");
        assert!(kept.clone().all(|left| *left == Some((2, 0))), "{spec}: {found:?}");
    }
}

fn a_mixed_victim_keeps_its_share_of_reads(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let spec =
        format!("mixed,read_percent=70,block=4KiB,size=1MiB,access=cached,sync=o_dsync,{engine}");
    let (total, _) =
        run_until(victim(dir.path(), &spec).start(3, proc_root()).unwrap(), |t| t.ops >= 3_000);
    let [commits, writes, syncs, reads] = counts(&total);
    assert_eq!((commits + reads, writes, syncs), (total.ops, commits, 0));
    // Binomial: 0.7 ± 5 standard deviations of 3,000 operations.
    let share = reads as f64 / total.ops as f64;
    assert!((share - 0.7).abs() < 0.042, "{spec}: {share}");
}

fn an_open_loop_counts_from_when_operations_fell_due(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let rate = 10_000_000.0;
    let spec = format!("commit,block=64KiB,size=1MiB,rate=10000000/s,{engine}");
    let mut running = victim(dir.path(), &spec).start(1, proc_root()).unwrap();
    let mut total = Delta::default();
    wait_for("operations", || {
        assert_eq!(running.failure(), None);
        total.merge(&running.sample());
        total.ops >= 100
    });
    // No thread serves ten million a second: operation n is done long after n / rate.
    let at_least =
        running.begin().elapsed().as_nanos() as f64 - (total.ops + 64) as f64 / rate * 1e9;
    running.ask_to_stop();
    let finished = running.finish();
    assert!(finished.unserved_ops > total.ops, "{}", finished.unserved_ops);
    let overrun = &finished.last.latencies.commit;
    assert_eq!(
        overrun.count(),
        finished.last.ops + finished.unserved_ops,
        "lower bounds for those unserved"
    );
    assert!(overrun.max_ns() as f64 >= at_least * 0.99, "{} < {at_least}", overrun.max_ns());
    let commit_mean = total.latencies.commit.mean_ns().unwrap();
    let own_mean =
        total.latencies.write.mean_ns().unwrap() + total.latencies.sync.mean_ns().unwrap();
    assert!(commit_mean > 5.0 * own_mean, "queueing counts: {commit_mean} against {own_mean} ns");
}

fn an_open_loop_serves_no_more_than_its_rate(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let spec = format!("read,threads=3,block=4KiB,size=1MiB,access=cached,rate=500/s,{engine}");
    let running = victim(dir.path(), &spec).start(1, proc_root()).unwrap();
    let begin = running.begin();
    let (total, _) = run_until(running, |t| t.ops >= 100);
    let due = begin.elapsed().as_secs_f64() * 500.0 + 1.0;
    assert!(total.ops as f64 <= due, "{} operations, {due} due", total.ops);
}

fn equal_seeds_touch_equal_blocks() {
    let changed = |seed| {
        let dir = tempfile::tempdir().unwrap();
        // One operation falls due at once, the next in a quarter of an hour.
        let victim = victim(dir.path(), "commit,block=4KiB,size=4MiB,rate=0.001/s");
        let before = contents(&victim.paths()[0]);
        run_until(victim.start(seed, proc_root()).unwrap(), |t| t.ops >= 1);
        let after = contents(&victim.paths()[0]);
        before.chunks(4096).zip(after.chunks(4096)).position(|(a, b)| a != b).unwrap()
    };
    assert_eq!(changed(1), changed(1));
    let different: HashSet<_> = (1..6).map(changed).collect();
    assert!(different.len() > 1);
}

fn preparing_reports_its_bytes_and_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let spec = parse_victim("commit,files=3,size=10MiB").unwrap();
    let mut done = 0;
    prepare_victim(dir.path(), &spec, 1, &mut |bytes| done += bytes, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(done, victim_bytes(&spec));

    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = prepare_victim(
        dir.path(),
        &spec,
        1,
        &mut |bytes| {
            done.fetch_add(bytes, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        },
        &stop,
    );
    assert_eq!(result.map(|_| ()).unwrap_err(), LoadError::Interrupted);
    assert_eq!(done.into_inner(), 1 << 20, "one step, no more");
}

fn files_are_private_and_inside_the_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    for name in ["x", "x", "../x"] {
        let mut spec = parse_victim("commit,size=64KiB,block=4KiB").unwrap();
        spec.name = name.into();
        let victim =
            prepare_victim(dir.path(), &spec, 1, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        for path in victim.paths() {
            assert!(path.canonicalize().unwrap().starts_with(dir.path().canonicalize().unwrap()));
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    assert_eq!(files_below(dir.path()).len(), 3);
}

fn a_file_that_vanishes_under_a_reader_is_an_error_and_not_a_zero(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let spec = format!("read,threads=2,block=4KiB,size=1MiB,access=cached,{engine}");
    let victim = victim(dir.path(), &spec);
    let running = victim.start(1, proc_root()).unwrap();
    File::options().write(true).open(&victim.paths()[0]).unwrap().set_len(0).unwrap();
    wait_for("the failure", || running.failure().is_some());
    let failure = running.finish().failure.unwrap();
    assert!(matches!(failure, LoadError::Shortened { .. }), "{failure}");
}

fn memory_directories_hold_victims_too(engine: &str) {
    let dir = tempfile::tempdir_in(SHM).unwrap();
    let victim = victim(dir.path(), &format!("commit,threads=2,block=4KiB,size=1MiB,{engine}"));
    let (total, _) = run_until(victim.start(1, proc_root()).unwrap(), |t| t.ops >= 1000);
    assert_eq!(counts(&total), [total.ops, total.ops, total.ops, 0]);
}
