//! The path of a day's file stands for that day alone.

use std::fs;
use std::path::Path;

use floodwall_record::stall::find;
use floodwall_record::{RecordError, Recording};

use super::{DAY_MS, MIDNIGHT_MS, frame, moments, record};

/// Two frames on the day before, two on the day, two on the one after.
fn three_days(directory: &Path) -> [u64; 6] {
    let times = [0, 1, 2].map(|day| MIDNIGHT_MS - DAY_MS + day * DAY_MS);
    let times = times.map(|midnight| [midnight, midnight + DAY_MS - 1]);
    let times: [u64; 6] = times.concat().try_into().unwrap();
    record(directory, &times.map(frame));
    times
}

#[test]
fn either_of_a_days_files_opens_this_day_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [before, _, first, last, after, _] = three_days(dir.path());
    assert_eq!(moments(dir.path()).len(), 6);
    for name in ["2026-11-27.frames", "2026-11-27.index"] {
        let path = dir.path().join(name);
        assert_eq!(moments(&path), [first, last], "{name}");
        let mut recording = Recording::open(&path).unwrap();
        assert_eq!(recording.directory(), dir.path());
        assert_eq!(recording.span().unwrap(), Some((first, last)));
        assert_eq!(recording.last_frame().unwrap(), Some(frame(last)));
        assert_eq!(recording.next_frame().unwrap(), None);
        assert_eq!(recording.seek(before).unwrap(), Some(frame(first)));
        assert_eq!(recording.previous_frame().unwrap(), None);
        assert_eq!(recording.seek(after).unwrap(), None);
        assert_eq!(recording.previous_frame().unwrap(), Some(frame(last)));
    }
}

#[test]
fn stalls_are_those_of_the_day() {
    let dir = tempfile::tempdir().unwrap();
    let [.., first, last, _, _] = three_days(dir.path());
    let stall = |began: u64, ended: u64| {
        format!("{{\"disk\":\"sda\",\"began_unix_ms\":{began},\"ended_unix_ms\":{ended}}}\n")
    };
    let log: String = [
        stall(first - 9_000, first - 5_000),
        stall(first - 4_000, first + 4_000),
        stall(last - 9_000, last - 5_000),
        stall(last + 5_000, last + 9_000),
    ]
    .concat();
    let watched = format!(
        "{{\"watched_from_unix_ms\":{},\"watched_to_unix_ms\":{}}}\n",
        first - DAY_MS - 1,
        last + DAY_MS
    );
    fs::write(dir.path().join("stalls.jsonl"), log + &watched).unwrap();
    assert_eq!(find(dir.path(), 0, u64::MAX).unwrap().stalls.len(), 4);
    let found = find(&dir.path().join("2026-11-27.frames"), 0, u64::MAX).unwrap();
    let began: Vec<u64> = found.stalls.iter().map(|stall| stall.began_unix_ms).collect();
    assert_eq!(began, [first - 4_000, last - 9_000]);
    assert_eq!(found.known, Some((first, last)));
    assert_eq!(found.damaged, 0);
}

#[test]
fn other_files_are_refused_with_what_to_name() {
    let dir = tempfile::tempdir().unwrap();
    three_days(dir.path());
    let fails = |name: &str| Recording::open(&dir.path().join(name)).err().unwrap();
    let other = fails("recorder.lock");
    assert!(matches!(other, RecordError::OtherFile(_)), "{other}");
    assert!(other.to_string().ends_with(
        "recorder.lock' is no recording; name a recording's directory, or a file of one of its \
         days (2026-11-27.frames)"
    ));
    let absent = fails("2026-11-30.frames");
    assert!(absent.to_string().contains("there is no '"), "{absent}");
    assert!(absent.to_string().contains("/2026-11-30.frames'; a day"), "{absent}");
    fs::remove_file(dir.path().join("2026-11-27.index")).unwrap();
    let half = fails("2026-11-27.frames");
    assert!(matches!(&half, RecordError::NoDay(path) if path.ends_with("2026-11-27.index")));
    fs::create_dir(dir.path().join("2026-11-25.frames")).unwrap();
    assert_eq!(moments(&dir.path().join("2026-11-25.frames")), [0; 0], "a directory is one");
}
