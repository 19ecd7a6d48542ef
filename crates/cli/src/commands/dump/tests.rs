//! Frames in the formats of other programs.

use std::collections::BTreeSet;

use floodwall_model::frame::{Disk, Frame, Guard, GuardedDisk, Machine, Process, Waits};
use floodwall_model::workload::Workload;

use super::csv;
use super::openmetrics::Series;
use super::select::Selection;

/// 2026-11-27 00:00:00 UTC.
const MIDNIGHT_MS: u64 = 1_795_737_600_000;

fn process(pid: u32, name: &str, unit: &str, disk: Option<&str>) -> Process {
    let workload = Workload { unit: Some(unit.into()), ..Workload::default() };
    let disk = disk.map(str::to_owned);
    Process { pid, name: name.into(), workload, disk, ..Process::default() }
}

/// A database on sda, a copy to sdb, and a process of an unknown disk.
fn frame(at_unix_ms: u64) -> Frame {
    let disk = |name: &str, id: &str| Disk {
        name: name.into(),
        id: id.into(),
        backlog_bytes: Some(5_000_000),
        read_bytes_per_s: Some(0),
        ..Disk::default()
    };
    let waits =
        Waits { call: "fsync".into(), count: 3, max_us: 900, sum_us: 2_000, ..Waits::default() };
    let database = Process {
        is_victim: true,
        waits: vec![waits],
        waiting: 1,
        oldest_us: 70,
        oldest_call: Some("read".into()),
        ..process(7, "mysqld", "mysql.service", Some("sda"))
    };
    let copy = Process {
        is_flood: true,
        dirtied_bytes: Some(1_000_000),
        backlog_percent: Some(12.5),
        ..process(8, "cp \"a\",\u{1b}[31m\n", "backup.service", Some("sdb"))
    };
    let guarded = |name: &str| GuardedDisk {
        name: name.into(),
        state: "free".into(),
        ..GuardedDisk::default()
    };
    Frame {
        at_unix_ms,
        window_ms: 5_000,
        source: "bpf".into(),
        machine: Machine { dirty_bytes: Some(0), ..Machine::default() },
        disks: vec![disk("sda", "8:0"), disk("sdb", "8:16")],
        processes: vec![database, copy, process(9, "dd", "user.slice", None)],
        guard: Some(Guard { disks: vec![guarded("sda"), guarded("sdb")], ..Guard::default() }),
        ..Frame::default()
    }
}

/// The parts of a frame that are selected: disks, processes, and disks of the guard.
fn selected(device: Option<&str>, unit: Option<&str>) -> Option<(String, Vec<u32>, usize)> {
    let frame = Selection::new(device, unit).of(frame(MIDNIGHT_MS))?;
    let disks: Vec<&str> = frame.disks.iter().map(|disk| disk.name.as_str()).collect();
    let pids = frame.processes.iter().map(|process| process.pid).collect();
    Some((disks.join(" "), pids, frame.guard.unwrap().disks.len()))
}

#[test]
fn a_disk_or_a_unit_is_selected_with_all_that_belongs_to_it() {
    assert_eq!(selected(None, None), Some(("sda sdb".into(), vec![7, 8, 9], 2)));
    for sda in ["sda", "/dev/sda", "8:0"] {
        assert_eq!(selected(Some(sda), None), Some(("sda".into(), vec![7], 1)), "{sda}");
    }
    assert_eq!(selected(Some("sd"), None), None);
    assert_eq!(selected(None, Some("sql")), Some(("sda".into(), vec![7], 1)));
    assert_eq!(selected(None, Some("user")), Some((String::new(), vec![9], 0)));
    assert_eq!(selected(None, Some(".service")), Some(("sda sdb".into(), vec![7, 8], 2)));
    assert_eq!(selected(Some("sdb"), Some("sql")), None);
    let pod = Workload { pod: Some("shop/web-0".into()), ..Workload::default() };
    let process = Process { workload: pod, ..Process::default() };
    let frame = Frame { processes: vec![process], ..Frame::default() };
    assert_eq!(Selection::new(None, Some("shop/web")).of(frame.clone()), Some(frame));
}

/// The records of a CSV file, as RFC 4180 has them.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut records = vec![vec![String::new()]];
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let record = records.last_mut().unwrap();
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                record.last_mut().unwrap().push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => record.push(String::new()),
            '\n' if !is_quoted => records.push(vec![String::new()]),
            c => record.last_mut().unwrap().push(c),
        }
    }
    assert_eq!(records.pop(), Some(vec![String::new()]), "the last line ends");
    records
}

#[test]
fn rows_of_csv_have_what_is_known_and_no_more() {
    let mut out = Vec::new();
    csv::header(&mut out).unwrap();
    let idle = Disk { name: "sdc".into(), ..Disk::default() };
    let mut frame = frame(MIDNIGHT_MS + 5);
    frame.disks.push(idle);
    csv::rows(&frame, &mut out).unwrap();
    let records = records(&String::from_utf8(out).unwrap());
    assert_eq!(records.len(), 5, "{records:?}");
    assert!(records.iter().all(|record| record.len() == records[0].len()));
    let cell = |row: usize, column: &str| {
        let at = records[0].iter().position(|name| name == column).unwrap();
        records[row][at].as_str()
    };
    assert_eq!(cell(1, "at_utc"), "2026-11-27T00:00:00.005Z");
    assert_eq!(cell(1, "at_unix_ms"), "1795737600005");
    let database =
        ["disk", "backlog_bytes", "process", "unit", "calls", "waits_count", "is_victim"]
            .map(|column| cell(1, column));
    assert_eq!(database, ["sda", "5000000", "mysqld", "mysql.service", "fsync", "3", "true"]);
    assert_eq!((cell(1, "slowest_us"), cell(1, "waited_us")), ("900", "2070"));
    assert_eq!((cell(1, "oldest_us"), cell(1, "oldest_call")), ("70", "read"));
    assert_eq!((cell(2, "oldest_us"), cell(2, "oldest_call")), ("0", ""), "nothing is under way");
    assert_eq!((cell(1, "dirtied_bytes"), cell(1, "backlog_percent")), ("", ""), "not known");
    assert_eq!((cell(1, "read_bytes_per_s"), cell(1, "drain_ms")), ("0", ""), "zero was seen");
    assert_eq!((cell(1, "guard_state"), cell(1, "verdict")), ("free", "quiet"));
    assert_eq!(cell(2, "process"), "cp \"a\",\\u{1b}[31m\\u{a}");
    assert_eq!((cell(2, "backlog_percent"), cell(2, "is_flood")), ("12.5", "true"));
    assert_eq!((cell(3, "disk"), cell(3, "pid"), cell(3, "verdict")), ("", "9", ""));
    assert_eq!((cell(4, "disk"), cell(4, "pid"), cell(4, "waits_count")), ("sdc", "", ""));
}

fn metrics(frames: &[Frame]) -> (String, u64) {
    let mut series = Series::default();
    frames.iter().for_each(|frame| series.add(frame));
    let mut out = Vec::new();
    series.write(&mut out).unwrap();
    (String::from_utf8(out).unwrap(), series.left_out())
}

/// Checks what OpenMetrics 1.0 demands of the order of lines; the samples.
fn samples(text: &str) -> Vec<(String, f64, f64)> {
    let mut samples = Vec::<(String, f64, f64)>::new();
    let (mut families, mut all) = (BTreeSet::new(), BTreeSet::new());
    let mut family = String::new();
    let body = text.strip_suffix("# EOF\n").unwrap();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let name = rest.split(' ').nth(1).unwrap();
            if name != family {
                assert!(families.insert(name.to_owned()), "{name} is interleaved");
                family = name.to_owned();
            }
            continue;
        }
        assert!(line.starts_with(&family), "{line} is not of {family}");
        let mut parts = line.rsplitn(3, ' ');
        let at: f64 = parts.next().unwrap().parse().unwrap();
        let value = parts.next().unwrap().parse().unwrap();
        let series = parts.next().unwrap().to_owned();
        match samples.last() {
            Some((last, _, before)) if *last == series => assert!(at > *before, "{line}"),
            _ => assert!(all.insert(series.clone()), "{series} is interleaved"),
        }
        samples.push((series, value, at));
    }
    samples
}

#[test]
fn metrics_have_a_sample_a_frame_and_series() {
    let at = |n: u64| MIDNIGHT_MS + n * 5_000;
    let mut frames: Vec<Frame> = (1..=4).map(|n| frame(at(n))).collect();
    frames[1].processes.clear();
    frames[1].disks[0].backlog_bytes = Some(1);
    let (text, left_out) = metrics(&frames);
    assert_eq!(left_out, 0);
    let samples = samples(&text);
    let of = |series: &str| -> Vec<(f64, f64)> {
        let its = samples.iter().filter(|(name, ..)| name == series);
        its.map(|(_, value, at)| (*value, *at - MIDNIGHT_MS as f64 / 1e3)).collect()
    };
    let backlog = of("floodwall_device_backlog_bytes{device=\"sda\"}");
    assert_eq!(backlog, [(5e6, 5.0), (1.0, 10.0), (5e6, 15.0), (5e6, 20.0)]);
    let waits = "floodwall_workload_waits_total{device=\"sda\",workload=\"mysql.service\",\
        kind=\"commit\"}";
    assert_eq!(of(waits).iter().map(|(value, _)| *value).collect::<Vec<_>>(), [3., 3., 6., 9.]);
}

#[test]
fn a_clock_that_is_set_back_leaves_frames_out_of_the_metrics() {
    let moments = [10, 15, 5, 12, 15, 20].map(|s| MIDNIGHT_MS + s * 1_000);
    let (text, left_out) = metrics(&moments.map(frame));
    assert_eq!(left_out, 3);
    let frames = samples(&text).into_iter().filter(|(name, ..)| name == "floodwall_frames_total");
    assert_eq!(frames.map(|(_, value, _)| value).collect::<Vec<_>>(), [1., 2., 3.]);
    assert_eq!(metrics(&[]).0, "");
}
