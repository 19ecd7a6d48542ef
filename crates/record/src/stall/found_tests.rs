//! The log and the frames tell the same stalls.

use std::fs;
use std::path::Path;

use floodwall_model::frame::{Disk, Frame, Process, Waits};
use floodwall_model::stall::Stall;
use proptest::prelude::*;

use super::{Event, LOG, Log, Watch, find};
use crate::store::{Limits, Writer, condensed};

const NIGHT_MS: u64 = 1_795_745_400_000;
const YEAR_MS: u64 = 366 * 86_400_000;

/// A frame each second; in some of them a process waits, with a wait that has ended or is under
/// way.
fn frames(waits_s: &[(u64, bool)]) -> Vec<Frame> {
    let made = waits_s.iter().enumerate().map(|(second, (wait_s, has_ended))| {
        let mut process = Process {
            pid: 7,
            name: "postgres".into(),
            disk: Some("sda".into()),
            is_victim: *wait_s > 0,
            ..Process::default()
        };
        // Figures that are not stored to their last digit.
        let us = if *wait_s > 0 { wait_s * 1_000_000 + 321 } else { 0 };
        match has_ended {
            true => {
                let waits = Waits { max_us: us, sum_us: us, count: 1, ..Waits::default() };
                process.waits = vec![Waits { call: "fsync".into(), ..waits }];
            }
            false => process.oldest_us = us,
        }
        let disks = vec![Disk { name: "sda".into(), ..Disk::default() }];
        let at_unix_ms = NIGHT_MS + (second as u64 + 1) * 1_000;
        Frame { at_unix_ms, window_ms: 1_000, disks, processes: vec![process], ..Frame::default() }
    });
    made.collect()
}

/// Records the frames and watches them; what was told to have ended.
fn record(directory: &Path, frames: &[Frame], is_killed: bool) -> Vec<Stall> {
    let mut writer = Writer::open(directory, Limits::default()).unwrap();
    let mut watch = Watch::new();
    let mut log = Log::open(directory, YEAR_MS).unwrap();
    let mut ended = Vec::new();
    let mut tell = |events: Vec<Event>| {
        ended.extend(events.into_iter().filter_map(|event| match event {
            Event::Ended(stall) => Some(stall),
            Event::Began(_) => None,
        }));
    };
    for frame in frames {
        let frame = condensed(frame.clone());
        let _ = writer.append(&frame).unwrap();
        tell(watch.frame(&frame));
        let _ = log.write(watch.lines()).unwrap();
    }
    if !is_killed {
        tell(watch.finish());
        let _ = log.write(watch.lines()).unwrap();
    }
    ended
}

fn all(directory: &Path) -> Vec<Stall> {
    find(directory, 0, u64::MAX).unwrap().stalls
}

/// Seconds after the night's beginning.
fn times(stalls: &[Stall]) -> Vec<(u64, u64)> {
    let after = |ms: u64| (ms - NIGHT_MS) / 1_000;
    stalls.iter().map(|stall| (after(stall.began_unix_ms), after(stall.ended_unix_ms))).collect()
}

fn waiting(seconds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, bool)> {
    seconds.map(|second| (second, false))
}

fn quiet(seconds: usize) -> impl Iterator<Item = (u64, bool)> {
    std::iter::repeat_n((0, false), seconds)
}

#[test]
fn an_absent_recording_is_an_error_and_an_empty_one_knows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(find(&dir.path().join("absent"), 0, u64::MAX).is_err());
    let found = find(dir.path(), 0, u64::MAX).unwrap();
    assert_eq!((found.stalls, found.known, found.damaged), (Vec::new(), None, 0));
}

#[test]
fn what_a_killed_recorder_did_not_log_is_in_its_frames() {
    let dir = tempfile::tempdir().unwrap();
    let waits = quiet(10).chain(waiting(1..30)).chain(quiet(5)).chain(waiting(1..20));
    let logged = record(dir.path(), &frames(&waits.collect::<Vec<_>>()), true);
    assert_eq!(times(&logged), [(10, 39)]);
    assert_eq!(times(&all(dir.path())), [(10, 39), (44, 63)]);
    assert!(all(dir.path())[1].end_unseen);
}

#[test]
fn a_recorder_that_goes_on_in_a_stall_does_not_take_the_first_ones_part() {
    let dir = tempfile::tempdir().unwrap();
    // Killed after 20 s of a wait of 30 s, and started again at once.
    let waits: Vec<_> = quiet(10).chain(waiting(1..31)).chain(quiet(5)).collect();
    let frames = frames(&waits);
    record(dir.path(), &frames[..30], true);
    record(dir.path(), &frames[30..], false);
    assert_eq!(times(&all(dir.path())), [(10, 30), (30, 40)]);
}

#[test]
fn a_stall_of_the_frames_begins_after_those_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    // A wait that was not seen before it ended reaches back to 13 s, into the first stall.
    let waits: Vec<_> = quiet(10).chain(waiting(1..11)).chain(quiet(20)).collect();
    let waits: Vec<_> = waits.into_iter().chain([(28, true)]).collect();
    let logged = record(dir.path(), &frames(&waits), true);
    assert_eq!(times(&logged), [(10, 20)]);
    assert_eq!(times(&all(dir.path())), [(10, 20), (20, 41)]);
}

#[test]
fn a_stall_is_told_whole_and_alike_whatever_time_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    // It lasts longer than the margin, and none of its waits tells when the first one began.
    let short = std::iter::repeat_n((1, true), 799);
    let waits: Vec<_> = quiet(10).chain(short).chain(quiet(60)).collect();
    record(dir.path(), &frames(&waits), false);
    let whole = all(dir.path());
    assert_eq!(times(&whole), [(10, 809)]);
    for is_logged in [true, false] {
        for (from, to) in [(0, 11), (700, 701), (809, 2_000), (0, 2_000)] {
            let at = |second: u64| NIGHT_MS + second * 1_000;
            let found = find(dir.path(), at(from), at(to)).unwrap();
            assert_eq!(found.stalls, whole, "{is_logged} {from} {to}");
            assert_eq!(found.known.unwrap().1, at(waits.len() as u64));
        }
        let at = |second: u64| NIGHT_MS + second * 1_000;
        assert_eq!(find(dir.path(), 0, at(10)).unwrap().stalls, []);
        assert_eq!(find(dir.path(), at(810), at(9_000)).unwrap().stalls, []);
        let _ = fs::remove_file(dir.path().join(LOG));
    }
}

#[test]
fn stalls_before_and_after_a_clock_was_set_back_are_found() {
    let hour = |quiet_s, rest_s| {
        let waits = quiet(quiet_s).chain(waiting(1..20)).chain(quiet(rest_s));
        frames(&waits.collect::<Vec<_>>())
    };
    for rest_s in [5, 1_200] {
        let dir = tempfile::tempdir().unwrap();
        // After an hour the clock goes back to its beginning.
        record(dir.path(), &[hour(2_400, 1_200), hour(60, rest_s)].concat(), true);
        fs::remove_file(dir.path().join(LOG)).unwrap();
        for (from_s, expected) in [(2_300, (2_400, 2_419)), (0, (60, 79))] {
            let from_ms = NIGHT_MS + from_s * 1_000;
            let found = find(dir.path(), from_ms, from_ms + 120_000).unwrap();
            assert_eq!(times(&found.stalls), [expected], "{rest_s}");
        }
    }
}

#[test]
fn an_hour_without_stalls_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &frames(&quiet(3_700).collect::<Vec<_>>()), true);
    let log = fs::read_to_string(dir.path().join(LOG)).unwrap();
    // A first frame at 1 s, the moment before it left out.
    let (from, to) = (NIGHT_MS + 999, NIGHT_MS + 3_601_000);
    let line = format!("{{\"watched_from_unix_ms\":{from},\"watched_to_unix_ms\":{to}}}\n");
    assert_eq!(log, line);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// However much of the log is there, the stalls are those that the recorder told.
    #[test]
    fn the_log_and_the_frames_tell_the_same(
        spans in proptest::collection::vec((0..6_usize, 1..9_u64, any::<bool>()), 0..12),
        share in 0.0..1.0_f64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let waits = spans.iter().flat_map(|(pause, length, has_ended)| {
            let ends = has_ended.then_some((*length + 1, true));
            quiet(*pause).chain(waiting(1..length + 1)).chain(ends)
        });
        let frames = frames(&waits.collect::<Vec<_>>());
        let told = record(dir.path(), &frames, false);
        prop_assert_eq!(&all(dir.path()), &told, "log");
        let log = fs::read(dir.path().join(LOG)).unwrap_or_default();
        let length = (log.len() as f64 * share) as usize;
        fs::write(dir.path().join(LOG), &log[..length]).unwrap();
        prop_assert_eq!(&all(dir.path()), &told, "a part of the log");
        fs::remove_file(dir.path().join(LOG)).unwrap();
        prop_assert_eq!(&all(dir.path()), &told, "frames");
    }
}
