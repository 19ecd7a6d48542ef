//! Frames are found again.

use floodwall_record::{Appended, Limits, RecordError, Recording, Writer};

use super::frame;

/// 2026-11-27 00:00:00 UTC.
const MIDNIGHT_MS: u64 = 1_795_737_600_000;

#[test]
fn frames_are_found_by_moment_and_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("floodwall");
    let mut writer = Writer::open(&path, Limits::default()).unwrap();
    let from = MIDNIGHT_MS - 100 * 5000;
    let moments: Vec<u64> = (0..200).map(|i| from + i * 5000).collect();
    for at in &moments {
        assert_eq!(writer.append(&frame(*at)).unwrap(), Appended::Within);
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
    assert_eq!(recording.seek(0).unwrap(), Some(frame(moments[0])));
    assert_eq!(recording.previous_frame().unwrap(), None);
    let read: Result<Vec<_>, _> = recording.between(moments[50], moments[150]).collect();
    let expected: Vec<_> = moments[50..150].iter().map(|at| frame(*at)).collect();
    assert_eq!(read.unwrap(), expected);
    assert_eq!(recording.damage().frames, 0);
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
