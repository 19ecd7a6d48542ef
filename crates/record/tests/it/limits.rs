//! Whole days go, the oldest first.

use std::fs;
use std::path::Path;

use floodwall_record::stall::LOG;
use floodwall_record::{Appended, Limits, Recording, Writer};

use super::{DAY_MS, MIDNIGHT_MS, frame};

/// Frames of an hour: a day goes for its age only after so many of the present day.
const HOUR: u64 = 720;

fn days(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut days: Vec<String> =
        names.filter_map(|name| Some(name.to_str()?.strip_suffix(".index")?.to_owned())).collect();
    days.sort();
    days
}

fn append(writer: &mut Writer, day: u64, frames: u64) -> Vec<Appended> {
    let at = |n| MIDNIGHT_MS + day * DAY_MS + n * 5000;
    (0..frames).map(|n| writer.append(&frame(at(n))).unwrap()).collect()
}

#[test]
fn days_go_for_their_age_once_the_present_one_has_an_hour() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), Limits { days: 2, bytes: u64::MAX }).unwrap();
    for day in [0, 1, 3] {
        append(&mut writer, day, 1);
    }
    // What an interrupted removal leaves.
    fs::write(dir.path().join("2026-11-20.frames"), "x").unwrap();
    append(&mut writer, 4, HOUR - 1);
    assert_eq!(days(dir.path()), ["2026-11-27", "2026-11-28", "2026-11-30", "2026-12-01"]);
    append(&mut writer, 4, 1);
    assert_eq!(days(dir.path()), ["2026-11-30", "2026-12-01"]);
    assert!(!dir.path().join("2026-11-20.frames").exists());
}

/// At boot, before its time is set, a machine may believe to be in 1970 or in 2099.
#[test]
fn a_clock_that_is_wrong_for_a_while_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), Limits { days: 2, bytes: u64::MAX }).unwrap();
    append(&mut writer, 0, 1);
    append(&mut writer, 20_000, HOUR - 1);
    let _ = writer.append(&frame(5)).unwrap();
    append(&mut writer, 1, 1);
    assert_eq!(days(dir.path()).len(), 4, "{:?}", days(dir.path()));
}

#[test]
fn a_frame_is_written_though_an_old_day_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), Limits { days: 2, bytes: u64::MAX }).unwrap();
    // Something that can't be removed as a file is.
    fs::create_dir(dir.path().join("2026-11-20.frames")).unwrap();
    let appended = append(&mut writer, 0, HOUR + 1);
    let unremoved: Vec<_> =
        appended.iter().filter(|a| matches!(a, Appended::Unremoved(_))).collect();
    assert_eq!(unremoved.len(), 2, "{unremoved:?}");
    let mut recording = Recording::open(dir.path()).unwrap();
    let frames = recording.between(0, u64::MAX).filter(Result::is_ok);
    assert_eq!(frames.count() as u64, HOUR + 1);
}

#[test]
fn the_oldest_days_go_when_all_take_too_many_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let open = |bytes| Writer::open(dir.path(), Limits { days: 9, bytes }).unwrap();
    let mut writer = open(u64::MAX);
    for day in 0..4 {
        append(&mut writer, day, 50);
    }
    drop(writer);
    let size = |day: &str| {
        let length = |name| fs::metadata(dir.path().join(format!("{day}.{name}"))).unwrap().len();
        length("frames") + length("index")
    };
    let bytes = size("2026-11-28") + size("2026-11-29") + size("2026-11-30");
    let mut writer = open(bytes + 1);
    // One frame more than what three days take.
    assert!(matches!(append(&mut writer, 3, 1)[..], [Appended::Within]));
    assert_eq!(days(dir.path()), ["2026-11-29", "2026-11-30"]);
    let over = append(&mut writer, 5, 200);
    assert_eq!(days(dir.path()), ["2026-12-02"]);
    assert!(matches!(over[0], Appended::Within));
    let told: Vec<_> = over.iter().filter(|a| !matches!(a, Appended::Within)).collect();
    assert!(matches!(told[..], [Appended::OverLimit { today_bytes }] if *today_bytes > bytes));
    assert!(size("2026-12-02") > bytes, "it is written on");
}

#[test]
fn the_stall_log_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), Limits { days: 9, bytes: 1_000_000 }).unwrap();
    for day in 0..3 {
        append(&mut writer, day, 1);
    }
    assert_eq!(days(dir.path()).len(), 3);
    fs::write(dir.path().join(LOG), vec![b'\n'; 1_000_000]).unwrap();
    let over = append(&mut writer, 2, 2);
    assert!(matches!(over[..], [Appended::OverLimit { .. }, Appended::Within]), "{over:?}");
    assert_eq!(days(dir.path()), ["2026-11-29"]);
}
