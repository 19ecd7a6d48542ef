//! Nights of frames that are made here: every figure is one of theirs.

use floodwall_model::frame::{Disk, Frame, Guard, GuardedDisk, Machine, Process, Waits};
use floodwall_model::stall::Stall;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::html::night_page;
use crate::stalls::testing::{NIGHT_MS, berlin, stall};
use crate::status::Style;

const WINDOW_MS: u64 = 5_000;

/// A frame in which postgres waits and cp writes, if it is in the stall.
fn frame(at_ms: u64, is_stalling: bool) -> Frame {
    let waits = |us| Waits { call: "fsync".into(), count: 1, max_us: us, ..Waits::default() };
    let postgres = Process {
        pid: 812,
        name: "postgres".into(),
        disk: Some("sda".into()),
        is_victim: is_stalling,
        waits: vec![waits(if is_stalling { 3_200_000 } else { 4_000 })],
        ..Process::default()
    };
    let cp = Process {
        pid: 4711,
        name: "cp".into(),
        disk: Some("sda".into()),
        is_flood: is_stalling,
        dirtied_bytes: Some(if is_stalling { 1_500_000_000 } else { 0 }),
        ..Process::default()
    };
    let sda = Disk {
        name: "sda".into(),
        backlog_bytes: Some(if is_stalling { 4_100_000_000 } else { 8_192 }),
        drain_ms: Some(if is_stalling { 34_167 } else { 0 }),
        written_bytes_per_s: Some(120_000_000),
        ..Disk::default()
    };
    let sdb = Disk { name: "sdb".into(), written_bytes_per_s: Some(0), ..Disk::default() };
    let guarded = GuardedDisk { name: "sda".into(), state: "pace".into(), ..Default::default() };
    Frame {
        at_unix_ms: at_ms,
        window_ms: WINDOW_MS,
        machine: Machine { name: "db<1>".into(), ..Machine::default() },
        disks: vec![sda, sdb],
        processes: vec![postgres, cp],
        guard: Some(Guard { disks: vec![guarded], ..Guard::default() }),
        ..Frame::default()
    }
}

/// Frames from two hours before the stall to two hours after it.
fn frames() -> impl Iterator<Item = Frame> {
    let stall = stall();
    let hours_ms = 7_200_000;
    let moments = (1..=2 * hours_ms / WINDOW_MS).map(move |n| NIGHT_MS - hours_ms + n * WINDOW_MS);
    moments
        .map(move |at_ms| frame(at_ms, at_ms > stall.began_unix_ms && at_ms <= stall.ended_unix_ms))
}

fn listing<'a>(stalls: &'a [Stall], zone: &'a TimeZone) -> Listing<'a> {
    Listing {
        stalls,
        from_unix_ms: NIGHT_MS - 7_200_000,
        to_unix_ms: NIGHT_MS + 7_200_000,
        disk: None,
        known: Some((NIGHT_MS - 7_200_000, NIGHT_MS + 7_200_000)),
        gaps: &[],
        damaged: 0,
        zone,
    }
}

fn night<'a>(listing: Listing<'a>, frames: impl Iterator<Item = Frame>) -> Night<'a> {
    let mut night = Night::new(listing);
    frames.for_each(|frame| night.add(&frame));
    night.finish(7);
    night
}

/// A page without its tags, stylesheet, script and pictures.
fn words(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    for (open, close) in [("<head>", "</head>"), ("<script>", "</script>")] {
        let (before, after) = rest.split_once(open).unwrap();
        text.push_str(before);
        rest = after.split_once(close).unwrap().1;
    }
    text.push_str(rest);
    for (open, close) in [("<svg", "</svg>"), ("<script", "</script>")] {
        while let Some((before, after)) = text.split_once(open) {
            text = before.to_owned() + after.split_once(close).unwrap().1;
        }
    }
    for end in ["</tr>", "</p>", "</li>", "</h1>", "</h2>", "</h3>", "</caption>", "</header>"] {
        text = text.replace(end, "\n");
    }
    for end in ["</th>", "</td>", "</strong>", "</span>"] {
        text = text.replace(end, " | ");
    }
    let mut plain = String::new();
    for part in text.split('<') {
        plain.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_page_tells_who_and_why() {
    let zone = berlin();
    let stalls = [stall()];
    let night = night(listing(&stalls, &zone), frames());
    let html = night_page(&night).unwrap();
    insta::assert_snapshot!("page", words(&html));
    assert!(!html.contains("db<1>"), "a name is no markup");
}

#[test]
fn the_text_tells_the_same() {
    let zone = berlin();
    let stalls = [stall()];
    let night = night(listing(&stalls, &zone), frames());
    insta::assert_snapshot!("text", text(&night, Style { color: false, width: 100 }));
}

#[test]
fn a_night_without_stalls_and_one_without_frames_say_so() {
    let zone = berlin();
    let quiet = night(listing(&[], &zone), (1..2_000).map(|n| frame(NIGHT_MS + n * 1_000, false)));
    let page = words(&night_page(&quiet).unwrap());
    assert!(page.contains("No stall\n") && !page.contains("Worst minute"), "{page}");
    let none = night(listing(&[], &zone), std::iter::empty());
    let page = words(&night_page(&none).unwrap());
    assert!(page.contains("Nothing was recorded\n"), "{page}");
    assert!(page.contains("No frame was recorded in this time."), "{page}");
}

#[test]
fn a_day_of_frames_is_a_page_below_a_megabyte_and_its_peak_stays() {
    let zone = berlin();
    let day = Listing {
        to_unix_ms: NIGHT_MS + 86_400_000,
        from_unix_ms: NIGHT_MS,
        ..listing(&[], &zone)
    };
    let made = (1..=17_280_u64).map(|n| {
        let mut frame = frame(NIGHT_MS + n * WINDOW_MS, false);
        frame.processes[0].waits[0].max_us = if n == 9_001 { 77_000_000 } else { 1_000 + n % 977 };
        let mut disks = Vec::new();
        for at in 0..12_u64 {
            let written = Some(n * 7_919 % 100_000_000 + at);
            let name = format!("sd{at}");
            disks.push(Disk { name, written_bytes_per_s: written, ..frame.disks[0].clone() });
        }
        frame.processes[0].disk = Some("sd3".into());
        frame.disks = disks;
        frame
    });
    let night = night(day, made);
    let html = night_page(&night).unwrap();
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    assert_eq!(night.courses[0].disk, "sd3");
    let peaks: Vec<_> = night.courses[0].bins.iter().filter_map(|bin| bin.slowest_us).collect();
    assert_eq!((peaks.len(), peaks.iter().max()), (720, Some(&77_000_000)));
    assert!(html.contains("77000000"), "it is under the pointer");
}

#[test]
fn holes_and_what_was_not_seen_are_told() {
    let zone = berlin();
    let blind = |at_ms| Frame {
        unseen: vec!["who waits".into()],
        root_would_add: vec!["who waits".into()],
        lost_events: 2,
        ..frame(at_ms, false)
    };
    let time = |frames: Vec<Frame>| {
        let end = NIGHT_MS + 100_000;
        let listing = Listing { from_unix_ms: NIGHT_MS, to_unix_ms: end, ..listing(&[], &zone) };
        night(listing, frames.into_iter())
    };
    let whole = time((1..=19).map(|n| frame(NIGHT_MS + n * WINDOW_MS, false)).collect());
    assert_eq!(whole.missing.sentences(&zone), ["7 frames are damaged."]);
    let part = time(vec![
        frame(NIGHT_MS + 30_000, false),
        blind(NIGHT_MS + 35_000),
        frame(NIGHT_MS + 60_000, false),
    ]);
    let at = |s: u64| NIGHT_MS + s * 1_000;
    assert_eq!(part.missing.holes, [at(0)..at(25), at(35)..at(55), at(60)..at(100)]);
    assert_eq!(
        part.missing.sentences(&zone),
        [
            "Without frames, 85.0 s in all: 2026-11-27 03:10:12 to 2026-11-27 03:10:37 (25.0 s), \
             2026-11-27 03:10:47 to 2026-11-27 03:11:07 (20.0 s), 2026-11-27 03:11:12 to \
             2026-11-27 03:11:52 (40.0 s).",
            "7 frames are damaged.",
            "Not seen, in 33 % of the frames: who waits.",
            "Root would have added, in 33 % of the frames: who waits.",
            "2 events of the kernel were lost: figures may be too low.",
        ]
    );
}

/// The largest value of the frames whose windows touch each bin, computed in the plain way.
fn expected(frames: &[Frame], from_ms: u64, bin_ms: u64, bins: usize) -> Vec<Option<u64>> {
    let of_bin = |bin: u64| {
        let (begin, end) = (from_ms + bin * bin_ms, from_ms + (bin + 1) * bin_ms);
        let touching = frames.iter().filter(|f| f.began_unix_ms() < end && f.at_unix_ms > begin);
        touching.filter_map(|frame| frame.disks[0].backlog_bytes).max()
    };
    (0..bins as u64).map(of_bin).collect()
}

fn any_backlog() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(0..1_000_u64)
}

proptest! {
    #[test]
    fn every_bin_is_the_largest_of_its_frames(
        values in proptest::collection::vec((any_backlog(), 1..9_000_u64), 1..80),
        length_ms in 10_000..3_000_000_u64,
    ) {
        let mut at_ms = NIGHT_MS;
        let frames: Vec<Frame> = values.iter().map(|(value, window_ms)| {
            at_ms += window_ms;
            let disk = Disk { name: "sda".into(), backlog_bytes: *value, ..Disk::default() };
            let disks = vec![disk];
            Frame { at_unix_ms: at_ms, window_ms: *window_ms, disks, ..Frame::default() }
        }).filter(|frame| frame.at_unix_ms < NIGHT_MS + length_ms).collect();
        let zone = TimeZone::UTC;
        let to_unix_ms = NIGHT_MS + length_ms;
        let time = Listing { from_unix_ms: NIGHT_MS, to_unix_ms, ..listing(&[], &zone) };
        let night = night(time, frames.clone().into_iter());
        for course in &night.courses {
            let bins: Vec<_> = course.bins.iter().map(|bin| bin.backlog_bytes).collect();
            let plain = expected(&frames, NIGHT_MS, course.bin_ms, bins.len());
            prop_assert_eq!(bins, plain);
            prop_assert!(course.bins.len() as u64 * course.bin_ms >= length_ms);
        }
    }
}

#[test]
fn the_worst_minute_reads_beyond_the_time_that_was_asked_for() {
    let zone = berlin();
    let stalls = [stall()];
    let short = Listing {
        from_unix_ms: NIGHT_MS + 30_000,
        to_unix_ms: NIGHT_MS + 31_000,
        ..listing(&stalls, &zone)
    };
    let night = night(short, frames());
    assert_eq!(night.reads(), NIGHT_MS - 20_000..NIGHT_MS + 40_001);
    let minute = night.minute.as_ref().unwrap();
    let moments: Vec<_> = minute.moments.iter().map(|one| one.at_unix_ms).collect();
    assert_eq!(
        moments,
        (-3..=8).map(|n| NIGHT_MS.saturating_add_signed(n * 5_000)).collect::<Vec<_>>()
    );
    assert_eq!(night.frames, 1);
    let worst = &minute.moments[9];
    assert_eq!(worst.dirtied_bytes_per_s(), Some(300_000_000.0));
    assert_eq!(
        (worst.waiter.as_ref().unwrap().slowest_us(), worst.call()),
        (3_200_000, Some("fsync"))
    );
    // A read that has not ended has taken longer.
    let mut moment = worst.clone();
    let waiter = moment.waiter.as_mut().unwrap();
    (waiter.oldest_us, waiter.oldest_call) = (3_300_000, Some("read".into()));
    assert_eq!(super::text::cells(&moment, &night)[2..4], ["3.30 s", "reads"]);
    moment.waiter.as_mut().unwrap().oldest_call = None;
    assert_eq!(moment.call(), None);
}
