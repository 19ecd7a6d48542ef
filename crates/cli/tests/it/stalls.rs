//! `floodwall stalls` and `report --from` over a recording that is written here tell the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use floodwall_model::frame::{Disk, Frame, Machine, Process, Waits};
use floodwall_record::stall::{LOG, Log, Watch};
use floodwall_record::{Limits, Writer, condensed};
use floodwall_testing::process::output;
use serde_json::Value;

use crate::{stderr, stdout, tmpfs};

/// 2026-11-27 02:00:00 UTC.
const NIGHT_MS: u64 = 1_795_744_800_000;

const WINDOW_MS: u64 = 5_000;

/// Runs it in UTC on a wide terminal.
fn floodwall(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    command.args(args).env("TZ", "UTC").env("COLUMNS", "200").env("LC_ALL", "C.UTF-8");
    output(&mut command).unwrap()
}

fn shown(args: &[&str]) -> String {
    let output = floodwall(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Seconds of the night in which postgres waits for sda.
const STALLS_S: [(u64, u64); 2] = [(612, 640), (3_000, 3_130)];

/// A frame of a disk that a copy floods from two o'clock on.
fn frame(at_ms: u64) -> Frame {
    let second = (at_ms - NIGHT_MS) / 1000;
    let stall = STALLS_S.iter().find(|(from, to)| (*from..*to + 5).contains(&second));
    let process = |pid, name: &str| Process {
        pid,
        name: name.into(),
        disk: Some("sda".into()),
        ..Process::default()
    };
    let ended = Waits {
        call: "fsync".into(),
        count: 2,
        max_us: if stall.is_some() { 3_217_000 } else { 4_100 },
        sum_us: if stall.is_some() { 4_800_000 } else { 8_000 },
        ..Waits::default()
    };
    let postgres =
        Process { is_victim: stall.is_some(), waits: vec![ended], ..process(812, "post<gres>") };
    let cp = Process {
        is_flood: true,
        dirtied_bytes: Some(600_000_000),
        backlog_percent: Some(97.0),
        ..process(4711, "cp")
    };
    let disk = Disk {
        name: "sda".into(),
        id: "8:0".into(),
        backlog_bytes: Some(4_100_000_000),
        drain_ms: Some(34_167),
        drain_bytes_per_s: Some(120_000_000),
        written_bytes_per_s: Some(120_000_000),
        ..Disk::default()
    };
    Frame {
        at_unix_ms: at_ms,
        window_ms: WINDOW_MS,
        source: "bpf".into(),
        machine: Machine { name: "db1".into(), ..Machine::default() },
        disks: vec![disk, Disk { name: "sdb".into(), ..Disk::default() }],
        processes: vec![postgres, cp],
        ..Frame::default()
    }
}

/// Two hours of a night, with a hole of ten minutes.
fn record(directory: &Path) {
    let mut writer = Writer::open(directory, Limits::default()).unwrap();
    let mut watch = Watch::new();
    let mut log = Log::open(directory, 366 * 86_400_000).unwrap();
    for number in 1..=1_440 {
        let at_ms = NIGHT_MS + number * WINDOW_MS;
        if (5_000..5_600).contains(&(number * 5)) {
            continue;
        }
        let frame = condensed(frame(at_ms));
        let _ = writer.append(&frame).unwrap();
        watch.frame(&frame);
        let _ = log.write(watch.lines()).unwrap();
    }
    watch.finish();
    let _ = log.write(watch.lines()).unwrap();
}

const FROM: &str = "2026-11-27 01:50";
const TO: &str = "2026-11-27 04:10";

#[test]
fn the_list_and_the_page_tell_the_same() {
    let dir = tmpfs();
    let path = dir.path().to_string_lossy().into_owned();
    record(dir.path());
    let list = || shown(&["stalls", "--from", FROM, "--to", TO, "--dir", &path]);
    let with_log = list();
    assert!(with_log.contains("post<gres> (812)") && with_log.contains("cp (4711)"), "{with_log}");
    assert!(with_log.contains("2 stalls, "), "{with_log}");

    let json = || {
        let text = shown(&["stalls", "--from", FROM, "--to", TO, "--dir", &path, "--json"]);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let told = json();
    let stalls = told["stalls"].as_array().unwrap();
    for (stall, (from, to)) in stalls.iter().zip(STALLS_S) {
        let after_s = |field: &str| (stall[field].as_u64().unwrap() - NIGHT_MS) / 1000;
        let (began, ended) = (after_s("began_unix_ms"), after_s("ended_unix_ms"));
        assert!((from - 5..=from + 5).contains(&began), "{began}");
        assert!((to..=to + 5).contains(&ended), "{ended}");
        // A recording keeps three digits.
        assert_eq!(stall["victims"][0]["slowest_us"], 3_220_000);
    }
    assert_eq!(stalls.len(), 2);

    let page = dir.path().join("night.html").to_string_lossy().into_owned();
    shown(&["report", "--from", FROM, "--to", TO, "--dir", &path, "-o", &page]);
    let html = fs::read_to_string(&page).unwrap();
    for line in with_log.lines().filter(|line| line.starts_with("2026-")) {
        let when = line.split("  ").next().unwrap();
        assert!(html.contains(&format!(">{when}</th>")), "{when}");
    }
    assert!(html.contains("2 stalls, ") && html.contains("post&lt;gres&gt; (812)"));
    assert!(!html.contains("post<gres>"), "a name is no markup");
    assert!(html.contains("Without frames") && html.contains("Worst minute"));
    let text = shown(&["report", "--from", FROM, "--to", TO, "--dir", &path]);
    assert!(text.starts_with(&with_log), "{text}");
    let quiet = ["--from", "2026-11-27 02:20", "--to", "2026-11-27 02:40", "--dir", &path];
    let stalls = shown(&[&["stalls"], &quiet[..]].concat());
    let night = shown(&[&["report"], &quiet[..]].concat());
    assert!(night.starts_with("No stall from ") && night.starts_with(&stalls), "{night}");

    let day = dir.path().join("2026-11-27.frames");
    let of_day = shown(&["stalls", "--dir", &day.to_string_lossy()]);
    assert!(of_day.contains("2 stalls, "), "all of a day's file, whenever it was: {of_day}");

    // Without the log the same stalls are in the frames.
    fs::remove_file(dir.path().join(LOG)).unwrap();
    assert_eq!(list(), with_log);
    assert_eq!(json()["stalls"], told["stalls"]);
    fs::remove_file(&page).unwrap();
    shown(&["report", "--from", FROM, "--to", TO, "--dir", &path, "-o", &page]);
    let generated = |html: &str| html.split("<main").nth(1).unwrap().to_owned();
    assert_eq!(generated(&fs::read_to_string(&page).unwrap()), generated(&html));
}

#[test]
fn a_disk_and_a_time_are_asked_for() {
    let dir = tmpfs();
    let path = dir.path().to_string_lossy().into_owned();
    record(dir.path());
    let asked = |more: &[&str]| shown(&[&["stalls", "--dir", &path], more].concat());
    let night = ["--from", FROM, "--to", TO];
    for sda in ["sda", "/dev/sda", "8:0"] {
        assert!(asked(&[&night[..], &["--device", sda]].concat()).contains("2 stalls, "), "{sda}");
    }
    let none = asked(&[&night[..], &["--device", "sdb"]].concat());
    assert!(none.starts_with("No stall of sdb from 2026-11-27 01:50:00"), "{none}");
    assert!(none.contains("Recordings exist from 2026-11-27 02:00:05"), "{none}");
    let one = asked(&["--from", "2026-11-27 02:40", "--to", "2026-11-27 02:55"]);
    assert!(one.contains("1 stall, "), "{one}");
    for time in [&night[..], &["--last", "1s"]] {
        let wrong = [&["stalls", "--dir", &path, "--device", "sdq"], time].concat();
        let wrong = floodwall(&wrong);
        let said = stderr(&wrong);
        assert_eq!((wrong.status.code(), stdout(&wrong).len()), (Some(2), 0), "{said}");
        assert!(said.starts_with("floodwall: --device: there is no disk 'sdq' in the recording"));
        assert!(said.ends_with("; disks there: sda, sdb\n"), "{said}");
    }
}

#[test]
fn a_time_without_frames_is_no_quiet_one() {
    let dir = tmpfs();
    let path = dir.path().to_string_lossy().into_owned();
    record(dir.path());
    let page = dir.path().join("n.html").to_string_lossy().into_owned();
    let expected = format!(
        "floodwall: nothing was recorded in that time; '{path}' has recordings from 2026-11-27 \
         02:00:05 to 2026-11-27 04:00:00\n"
    );
    let hole = ["--from", "2026-11-27 03:25", "--to", "2026-11-27 03:30"];
    let before = ["--from", "2026-11-26 22:00", "--to", "2026-11-27 02:00"];
    for time in [&before[..], &hole, &["--last", "1s"]] {
        for command in [
            &["stalls"][..],
            &["stalls", "--json"],
            &["stalls", "--device", "sdb"],
            &["dump"],
            &["report"],
            &["report", "-o", &page],
        ] {
            let output = floodwall(&[command, time, &["--dir", &path]].concat());
            let said = stderr(&output);
            assert_eq!(said, expected, "{command:?} {time:?}");
            assert_eq!((output.status.code(), &*stdout(&output)), (Some(1), ""), "{command:?}");
        }
    }
    assert!(!Path::new(&page).exists());
    // A part of the time.
    let asked = |from, to| shown(&["stalls", "--dir", &path, "--from", from, "--to", to]);
    let part = asked("2026-11-27 03:20", "2026-11-27 03:30");
    let gap = "\nWithout frames, 6 min 45 s in all: 2026-11-27 03:23:15 to 2026-11-27 03:30:00";
    assert!(part.starts_with("No stall from ") && part.contains(gap), "{part}");
    let begins = asked("2026-11-27 01:50", "2026-11-27 02:05");
    assert!(begins.starts_with("No stall from "), "{begins}");
    assert!(begins.contains("Recordings exist from 2026-11-27 02:00:05"), "{begins}");
    assert!(!begins.contains("Without frames"), "{begins}");
}

#[test]
fn the_screen_of_a_recording_refuses_a_disk_that_was_not_there() {
    let dir = tmpfs();
    let path = dir.path().to_string_lossy().into_owned();
    record(dir.path());
    for (disk, part) in [
        ("sdq", "there is no disk 'sdq' in the recording, of which the last frame and one an "),
        ("/dev/sda", "watch needs a terminal"),
    ] {
        let output = floodwall(&["watch", "--dir", &path, disk]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{disk}: {said}");
        assert!(said.starts_with(&format!("floodwall: {part}")), "{disk}: {said}");
    }
}

#[test]
fn wrong_questions_are_answered() {
    let dir = tmpfs();
    let path = dir.path().to_string_lossy().into_owned();
    for (args, code, part) in [
        (&["stalls", "--last", "week"][..], 2, "--last: 'week' is not a time span"),
        (&["stalls", "--last", "1d", "--from", "03:00"], 2, "--last can't go with --from"),
        (&["stalls", "--to", "03:00"], 2, "--from"),
        (
            &["report"],
            2,
            "report: name a stored result (RESULT.json), or a time of a recording (--",
        ),
        (&["report", "--dir", &path], 2, "report: --last SPAN or --from MOMENT is missing"),
        (&["report", "--from", "1h", "r.json"], 2, "--from can't go with RESULT.json; leave"),
        (&["report", "--last", "1h", "--from", "2h"], 2, "--last can't go with --from"),
        (&["report", "--last", "1h", "--svg", &path], 2, "can't go with"),
        (&["report", "--last", "week"], 2, "--last: 'week' is not a time span"),
        (&["report", "--from", "1h", "--json"], 2, "'floodwall stalls --json' prints the stalls"),
        (&["report", "--from", "1h", "--to", "2h", "--dir", &path], 2, "is not after"),
        (&["report", "--from", "1h", "-o", "n.pdf"], 2, "writes an HTML page"),
    ] {
        let output = floodwall(args);
        let said = stderr(&output);
        assert!(output.status.code() == Some(code) && said.contains(part), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_missing_recording_is_one_error_of_every_command() {
    let dir = tmpfs();
    let empty = dir.path().to_string_lossy().into_owned();
    let page = dir.path().join("n.html").to_string_lossy().into_owned();
    for directory in [&empty, "/nonexistent"] {
        for args in [
            &["stalls"][..],
            &["stalls", "--json"],
            &["dump"],
            &["report", "--from", "1h", "-o", &page],
            &["watch", "--replay"],
        ] {
            let output = floodwall(&[args, &["--dir", directory]].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
            let nothing = format!("floodwall: nothing is recorded in '{directory}'");
            let remedy = "'floodwall record', or the guard with record = true, makes recordings";
            assert!(said.starts_with(&nothing) && said.contains(remedy), "{args:?}: {said}");
            assert_eq!((said.lines().count(), &*stdout(&output)), (1, ""), "{args:?}");
        }
    }
    assert!(!Path::new(&page).exists());
}
