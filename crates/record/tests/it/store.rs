//! Frames are found again, also while they are written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use floodwall_record::{Appended, Limits, RecordError, Recording, Writer};
use proptest::prelude::*;

use super::{DAY_MS, MIDNIGHT_MS, frame, moments, random, read, record};

#[test]
fn frames_are_found_by_moment_and_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log/floodwall");
    let mut writer = Writer::open(&path, Limits::default()).unwrap();
    let from = MIDNIGHT_MS - 100 * 5000;
    let moments: Vec<u64> = (0..200).map(|i| from + i * 5000).collect();
    for at in &moments {
        assert!(matches!(writer.append(&frame(*at)).unwrap(), Appended::Within));
    }
    let mut recording = Recording::open(&path).unwrap();
    assert_eq!(recording.span().unwrap(), Some((moments[0], moments[199])));
    assert_eq!(recording.seek(moments[99] + 1).unwrap(), Some(frame(moments[100])));
    assert_eq!(recording.previous_frame().unwrap(), Some(frame(moments[99])));
    assert_eq!(recording.next_frame().unwrap(), Some(frame(moments[100])));
    assert_eq!(recording.next_frame().unwrap(), Some(frame(moments[101])));
    assert_eq!(recording.last_frame().unwrap(), Some(frame(moments[199])));
    assert_eq!(recording.next_frame().unwrap(), None);
    let later = moments[199] + 1000;
    let _ = writer.append(&frame(later)).unwrap();
    assert_eq!(recording.next_frame().unwrap(), Some(frame(later)));
    assert_eq!(recording.seek(later + 1).unwrap(), None);
    assert_eq!(recording.previous_frame().unwrap(), Some(frame(later)));
    assert_eq!(recording.seek(0).unwrap(), Some(frame(moments[0])));
    assert_eq!(recording.previous_frame().unwrap(), None);
    let read: Result<Vec<_>, _> = recording.between(moments[50], moments[150]).collect();
    let expected: Vec<_> = moments[50..150].iter().map(|at| frame(*at)).collect();
    assert_eq!(read.unwrap(), expected);
    assert_eq!(recording.damage().frames, 0);
}

#[test]
fn an_empty_recording_has_no_frames_until_one_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.span().unwrap(), None);
    assert_eq!(recording.last_frame().unwrap(), None);
    assert_eq!(recording.seek(0).unwrap(), None);
    record(dir.path(), &[frame(5)]);
    assert_eq!(recording.next_frame().unwrap(), Some(frame(5)));
    let missing = Recording::open(&dir.path().join("missing")).err().unwrap();
    assert!(matches!(missing, RecordError::NoDirectory(_)), "{missing}");
}

#[test]
fn a_clock_that_is_set_back_keeps_the_order_of_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |minute: u64| MIDNIGHT_MS + minute * 60_000;
    let order = [at(5), at(10), at(2), at(7)];
    record(dir.path(), &order.map(frame));
    assert_eq!(moments(dir.path()), order);
    let mut recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.seek(at(6)).unwrap(), Some(frame(at(10))));
    assert_eq!(recording.next_frame().unwrap(), Some(frame(at(2))));
    let between: Vec<_> = recording.between(at(5), at(8)).map(Result::unwrap).collect();
    assert_eq!(between, [frame(at(5)), frame(at(7))]);
    // Back to the day before, and forward again.
    record(dir.path(), &[at(0) - 1, at(20)].map(frame));
    assert_eq!(moments(dir.path()), [at(0) - 1, at(5), at(10), at(2), at(7), at(20)]);
}

#[test]
fn a_second_recorder_is_told_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let first = Writer::open(dir.path(), Limits::default()).unwrap();
    match Writer::open(dir.path(), Limits::default()).err() {
        Some(RecordError::Busy { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(first);
    Writer::open(dir.path(), Limits::default()).unwrap();
}

#[test]
fn only_owner_and_group_read_and_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("floodwall");
    record(&path, &[frame(MIDNIGHT_MS)]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    assert_eq!(mode(&path), 0o750 & !umask.bits());
    for name in ["2026-11-27.frames", "2026-11-27.index"] {
        assert_eq!(mode(&path.join(name)), 0o640 & !umask.bits(), "{name}");
    }
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    let error = Writer::open(&link, Limits::default()).err().unwrap();
    assert!(error.to_string().contains("is a symbolic link; name the directory"), "{error}");
    assert_eq!(moments(&link), [MIDNIGHT_MS], "who reads may follow it");
    let target = dir.path().join("target");
    fs::write(&target, "mine").unwrap();
    symlink(&target, path.join("2026-11-28.index")).unwrap();
    let mut writer = Writer::open(&path, Limits::default()).unwrap();
    let error = writer.append(&frame(MIDNIGHT_MS + DAY_MS)).unwrap_err();
    assert!(matches!(error, RecordError::NotAFile(_)), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    let _ = writer.append(&frame(MIDNIGHT_MS + 1)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn files_that_are_removed_or_cut_under_a_recorder_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(format!("2026-11-27.{name}"));
    let mut writer = Writer::open(dir.path(), Limits::default()).unwrap();
    let mut recording = Recording::open(dir.path()).unwrap();
    let mut append = |at: u64| {
        let _ = writer.append(&frame(MIDNIGHT_MS + at)).unwrap();
    };
    (1..4).for_each(&mut append);
    assert_eq!(recording.seek(0).unwrap(), Some(frame(MIDNIGHT_MS + 1)));
    fs::remove_file(path("index")).unwrap();
    append(4);
    assert_eq!(moments(dir.path()), [MIDNIGHT_MS + 4]);
    fs::remove_file(path("frames")).unwrap();
    fs::remove_file(path("index")).unwrap();
    append(5);
    fs::write(path("frames"), "").unwrap();
    append(6);
    append(7);
    assert_eq!(moments(dir.path()), [MIDNIGHT_MS + 6, MIDNIGHT_MS + 7]);
    assert_eq!(recording.last_frame().unwrap(), Some(frame(MIDNIGHT_MS + 7)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_frames_read_back_as_they_were(
        seed in any::<u64>(), chunks in proptest::collection::vec(1..5_usize, 1..4)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut random = random::Random::new(seed);
        let mut expected = Vec::new();
        for frames in chunks {
            let frames: Vec<_> = (0..frames).map(|_| random.frame(MIDNIGHT_MS)).collect();
            record(dir.path(), &frames);
            expected.extend(frames);
        }
        prop_assert_eq!(read(dir.path()), expected);
    }

    /// Reads and writes follow each other in any order.
    #[test]
    fn a_reader_sees_what_is_appended(
        steps in proptest::collection::vec((any::<bool>(), 0..3_u8), 1..60)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut recording = None;
        let mut writer = Some(Writer::open(dir.path(), Limits::default()).unwrap());
        let (mut written, mut read) = (0, 0);
        for (is_write, kind) in steps {
            let recording =
                recording.get_or_insert_with(|| Recording::open(dir.path()).unwrap());
            if is_write {
                // Frames are twelve hours apart. Now and then another recorder goes on.
                if kind == 0 {
                    writer = None;
                }
                let writer = writer.get_or_insert_with(|| {
                    Writer::open(dir.path(), Limits::default()).unwrap()
                });
                written += 1;
                let _ = writer.append(&frame(MIDNIGHT_MS + written * DAY_MS / 2)).unwrap();
            } else if kind == 0 && read > 1 {
                read -= 1;
                let expected = frame(MIDNIGHT_MS + read * DAY_MS / 2);
                prop_assert_eq!(recording.previous_frame().unwrap(), Some(expected));
            } else if read < written {
                read += 1;
                let expected = frame(MIDNIGHT_MS + read * DAY_MS / 2);
                prop_assert_eq!(recording.next_frame().unwrap(), Some(expected));
            } else {
                prop_assert_eq!(recording.next_frame().unwrap(), None);
            }
        }
    }
}
