//! The path of a day's file stands for that day alone.

use std::fs;
use std::ops::Range;
use std::path::Path;

use floodwall_record::stall::{find, gaps_in};
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

#[test]
fn gaps_are_times_of_which_neither_frames_nor_log_know() {
    let dir = tempfile::tempdir().unwrap();
    let minute = |minute: u64| MIDNIGHT_MS + minute * 60_000;
    // From 00:10 to 00:20 and from 00:30 to 00:40.
    let frames = (121..=480).filter(|n| !(241..=360).contains(n)).map(|n| MIDNIGHT_MS + n * 5_000);
    record(dir.path(), &frames.map(frame).collect::<Vec<_>>());
    let (first, last) = (minute(10) + 5_000, minute(40));
    let ends = |gaps: Vec<Range<u64>>| -> Vec<(u64, u64)> {
        gaps.into_iter().map(|gap| (gap.start, gap.end)).collect()
    };
    let asked = |from, to| gaps_in(dir.path(), from, to, (first, last)).unwrap().map(ends);
    let hole = (minute(20), minute(30));
    assert_eq!(asked(0, u64::MAX), Some(vec![hole]));
    assert_eq!(asked(minute(15), minute(35)), Some(vec![hole]));
    assert_eq!(asked(minute(15), minute(25)), Some(vec![(minute(20), minute(25))]));
    assert_eq!(asked(minute(25), minute(32)), Some(vec![(minute(25), minute(30))]));
    // Times between two frames are parts of a window.
    assert_eq!(asked(minute(15) + 1_000, minute(15) + 2_000), Some(Vec::new()));
    assert_eq!(asked(minute(10) + 1_000, minute(10) + 2_000), Some(Vec::new()));
    for (from, to) in [(0, minute(10)), (minute(20) + 1, minute(30)), (minute(40) + 1, u64::MAX)] {
        assert_eq!(asked(from, to), None, "{from} {to}");
    }
    let day = dir.path().join("2026-11-27.frames");
    let other = (minute(10) + DAY_MS, minute(40) + DAY_MS);
    assert_eq!(gaps_in(&day, other.0, other.1, (first, last)).unwrap(), None);
    // The log is kept for longer than frames.
    let watched = format!(
        "{{\"watched_from_unix_ms\":{},\"watched_to_unix_ms\":{}}}\n",
        minute(1),
        minute(5)
    );
    fs::write(dir.path().join("stalls.jsonl"), watched).unwrap();
    let asked = |from, to| gaps_in(dir.path(), from, to, (minute(1), last)).unwrap().map(ends);
    assert_eq!(asked(minute(1), minute(5)), Some(Vec::new()));
    assert_eq!(asked(minute(2), minute(12)), Some(vec![(minute(5), minute(10))]));
    assert_eq!(asked(minute(6), minute(9)), None);
}
