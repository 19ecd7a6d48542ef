//! Requests over files of the caller's: what is made, what is refused, and how a run ends.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_load::fileio::{
    self, EndSync, FileIoError, FileRun, FileSample, FileSet, Found, Mode, Part, Pause, Plan, Size,
    Target, Way,
};
use floodwall_load::{Dir, LoadError};
use floodwall_testing::{Trial, tests};
use rustix::fs::OFlags;

const SIZE: Size = Size { files: 3, len: 10_000, block: 4096 };

pub(crate) fn tests() -> Vec<Trial> {
    tests![
        files_are_made_made_longer_or_left,
        what_is_missing_short_or_too_large_is_named,
        a_run_ends_after_its_last_event,
        a_run_that_is_told_to_stop_ends_with_its_syncs,
        events_of_a_rate_wait_for_their_time,
        a_file_that_is_cut_ends_the_run,
        a_part_of_a_file_is_written_with_its_pattern_and_no_more,
        threads_pause_between_requests,
    ]
}

fn make(dir: &Dir, size: Size) -> Result<(u64, Vec<Found>), FileIoError> {
    let mut all = Vec::new();
    let none = OFlags::empty();
    let stop = AtomicBool::new(false);
    let written = fileio::make(dir, size, none, &mut |_, found| all.push(found), &stop)?;
    Ok((written, all))
}

fn files_are_made_made_longer_or_left() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = Dir::open(temporary.path()).unwrap();
    for (name, len) in [("test_file.1", 4096), ("test_file.2", 20_000)] {
        File::create(temporary.path().join(name)).unwrap().write_all(&vec![1; len]).unwrap();
    }
    let (written, found) = make(&dir, SIZE).unwrap();
    assert_eq!((written, found), (5 * 4096, vec![Found::Nothing, Found::Part, Found::Whole]));
    let len = |n: u32| fs::metadata(temporary.path().join(format!("test_file.{n}"))).unwrap().len();
    assert_eq!([0, 1, 2].map(len), [12_288, 12_288, 20_000]);
    let stop = AtomicBool::new(true);
    let more = Size { len: 20_000, ..SIZE };
    let interrupted = fileio::make(&dir, more, OFlags::empty(), &mut |_, _| {}, &stop);
    assert_eq!(interrupted, Err(LoadError::Interrupted.into()));
    assert_eq!(len(0), 12_288);
    fileio::remove(&dir, 5).unwrap();
    assert_eq!(dir.names().unwrap().len(), 0);
}

fn what_is_missing_short_or_too_large_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = Dir::open(temporary.path()).unwrap();
    let open = |size| FileSet::open(&dir, size, OFlags::empty()).map(drop).unwrap_err();
    assert_eq!(open(SIZE), FileIoError::Missing { name: "test_file.0".into() });
    let huge = Size { len: 1 << 60, ..SIZE };
    assert!(matches!(make(&dir, huge), Err(FileIoError::NoSpace { .. })));
    assert_eq!(dir.names().unwrap().len(), 0, "nothing was written");
    make(&dir, SIZE).unwrap();
    let longer = Size { len: 12_289, ..SIZE };
    assert!(matches!(open(longer), FileIoError::Short { name, .. } if name == "test_file.0"));
    FileSet::open_of_any_length(&dir, longer, OFlags::empty()).unwrap();
}

fn plan() -> Plan {
    Plan {
        way: Way::Random,
        mode: Mode::Write,
        block: SIZE.block,
        threads: 2,
        sync_every: None,
        sync_each: false,
        end_sync: EndSync::ByThread,
        data_only: false,
        syncs_are_events: true,
        limit: None,
        rate: None,
        seed: 1,
    }
}

/// Starts a plan on new files.
fn start(plan: Plan) -> (tempfile::TempDir, FileRun) {
    let temporary = tempfile::tempdir().unwrap();
    let dir = Dir::open(temporary.path()).unwrap();
    make(&dir, SIZE).unwrap();
    let files = FileSet::open(&dir, SIZE, OFlags::empty()).unwrap();
    (temporary, FileRun::start(files, plan).unwrap())
}

/// Runs it for a time, or to its end, which may take as long as it takes.
fn run(plan: Plan, time: Option<Duration>) -> (FileSample, Duration) {
    let (_files, mut run) = start(plan);
    let begin = run.begin();
    let ended = run.wait_until(time.map(|time| begin + time)).or_else(|| {
        run.ask_to_stop();
        run.wait_until(None)
    });
    (run.finish().unwrap(), ended.unwrap() - begin)
}

fn a_run_ends_after_its_last_event() {
    let plan = Plan { sync_every: Some(10), limit: Some(49), ..plan() };
    let (sample, _) = run(plan.clone(), None);
    let counts = sample.counts;
    // 10 writes and 3 syncs, three times; 10 more. Each thread syncs each file at the end.
    assert_eq!((counts.writes, counts.syncs), (40, 9 + 6));
    assert_eq!(sample.latencies.count(), 49);
    assert_eq!(sample.threads.iter().map(|thread| thread.events).sum::<u64>(), 49);
    assert!(sample.min_ns > 0 && sample.min_ns <= sample.latencies.max_ns());
    let old = Plan {
        way: Way::Sequential { laps: Some(1) },
        mode: Mode::Read,
        limit: None,
        sync_each: false,
        end_sync: EndSync::AfterLast,
        syncs_are_events: false,
        ..plan
    };
    let (sample, _) = run(old, None);
    assert_eq!((sample.counts.reads, sample.counts.read_bytes), (9, 30_000));
    assert_eq!(sample.counts.syncs, 0);
}

fn a_run_that_is_told_to_stop_ends_with_its_syncs() {
    let each = Plan { sync_each: true, ..plan() };
    let time = Duration::from_millis(100);
    let (sample, took) = run(each.clone(), Some(time));
    let counts = sample.counts;
    assert!(took >= time && counts.writes > 0, "{took:?} {counts:?}");
    assert_eq!(counts.syncs, counts.writes + 6);
    assert_eq!(sample.latencies.count(), counts.writes);
    let old = Plan { end_sync: EndSync::AfterLast, sync_each: false, ..each };
    assert_eq!(run(old, Some(time)).0.counts.syncs, 0);
}

fn events_of_a_rate_wait_for_their_time() {
    let plan = Plan { rate: Some(200.0), limit: Some(40), mode: Mode::Read, ..plan() };
    let (sample, took) = run(plan, None);
    assert_eq!(sample.counts.reads, 40);
    // The sum of 40 exponential times of 5 ms: from 0.1 s to 0.35 s in 999 of 1,000 cases.
    assert!(took > Duration::from_millis(80), "{took:?}");
}

fn a_file_that_is_cut_ends_the_run() {
    let (files, run) = start(Plan { mode: Mode::Read, ..plan() });
    File::create(files.path().join("test_file.0")).unwrap();
    let begin = Instant::now();
    assert!(run.wait_until(Some(begin + Duration::from_secs(10))).is_some());
    let failure = run.finish().map(drop).unwrap_err();
    assert!(matches!(failure, LoadError::Shortened { .. }), "{failure}");
}

/// One thread, once through a part of a file.
fn once(mode: Mode) -> Plan {
    let way = Way::Sequential { laps: Some(1) };
    Plan { way, mode, block: 1024, threads: 1, end_sync: EndSync::Never, ..plan() }
}

fn a_part_of_a_file_is_written_with_its_pattern_and_no_more() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("any name");
    assert_eq!(Target::at(&path).unwrap(), None);
    let flags = OFlags::RDWR | OFlags::CREATE;
    let part = Part { from: 2048, len: 3072 };
    let files = FileSet::of_target(&path, flags, part, vec![1, 2, 3]).unwrap();
    let run = FileRun::start(files, once(Mode::WriteThenRead)).unwrap();
    assert!(run.wait_until(None).is_some());
    let counts = run.finish().unwrap().counts;
    assert_eq!((counts.reads, counts.writes), (3, 3));
    assert_eq!((counts.read_bytes, counts.written_bytes), (3072, 3072));
    let there = Target::at(&path).unwrap();
    assert_eq!(there, Some(Target { size: 5120, is_device: false }));
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[..2048].iter().all(|byte| *byte == 0));
    // Each block begins anew.
    for block in bytes[2048..].chunks(1024) {
        assert!(block.iter().zip([1, 2, 3].iter().cycle()).all(|(byte, wanted)| byte == wanted));
    }
    let null = Target::at("/dev/null".as_ref()).unwrap();
    assert_eq!(null, Some(Target { size: 0, is_device: true }));
}

fn threads_pause_between_requests() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("x");
    let flags = OFlags::RDWR | OFlags::CREATE;
    let files = FileSet::of_target(&path, flags, Part { from: 0, len: 10_240 }, Vec::new());
    let (least, most) = (Duration::from_millis(20), Duration::from_millis(40));
    let pause = Some(Pause { least, most });
    let run = FileRun::start_with_pauses(files.unwrap(), once(Mode::Write), pause).unwrap();
    let took = run.wait_until(None).unwrap() - run.begin();
    assert_eq!(run.finish().unwrap().counts.writes, 10);
    // A pause after each of ten.
    assert!((least * 10..most * 20).contains(&took), "{took:?}");
}
