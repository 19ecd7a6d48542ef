//! Frames and stalls as samples; an hour, names, limits.

use std::collections::BTreeMap;

use super::{Limits, Totals};
use floodwall_model::frame::{Disk, Frame, Guard, GuardedDisk, Machine, Process, Waits};
use floodwall_model::stall::{Flood, Stall, Victim};
use floodwall_model::workload::Workload;

const HOUR_MS: u64 = 3_600_000;

fn of_unit(unit: &str) -> Workload {
    Workload { unit: Some(unit.into()), ..Workload::default() }
}

fn waits(call: &str, count: u64, sum_us: u64) -> Waits {
    Waits { call: call.into(), count, sum_us, max_us: sum_us, ..Waits::default() }
}

/// A database that waits and a copy that floods.
pub(super) fn frame() -> Frame {
    let victim = Process {
        pid: 41,
        name: "postgres".into(),
        workload: of_unit("postgresql.service"),
        disk: Some("sda".into()),
        is_victim: true,
        waits: vec![
            waits("fsync", 2, 3_000_000),
            waits("sync_write", 1, 500_000),
            waits("read", 4, 8_000),
        ],
        oldest_us: 3_500_000,
        ..Process::default()
    };
    let flood = Process {
        pid: 42,
        name: "cp".into(),
        disk: Some("sda".into()),
        is_flood: true,
        dirtied_bytes: Some(500_000_000),
        throttled_ms: 250,
        backlog_percent: Some(75.0),
        ..Process::default()
    };
    Frame {
        at_unix_ms: 1_700_000_000_500,
        window_ms: 2_000,
        source: "bpf".into(),
        machine: Machine {
            dirty_bytes: Some(800),
            hard_limit_bytes: Some(0),
            waited_percent: Some(50.0),
            ..Machine::default()
        },
        disks: vec![
            Disk {
                name: "sda".into(),
                backlog_bytes: Some(1_000_000_000),
                drain_bytes_per_s: Some(100_000_000),
                drain_ms: Some(10_000),
                hard_limit_ms: Some(48_000),
                busy_percent: Some(100.0),
                in_flight: Some(32),
                read_bytes_per_s: Some(0),
                written_bytes_per_s: Some(100_000_000),
                ..Disk::default()
            },
            Disk { name: "sdb".into(), ..Disk::default() },
        ],
        processes: vec![victim, flood],
        guard: Some(Guard {
            disks: vec![GuardedDisk {
                name: "sda".into(),
                state: "pace".into(),
                ..GuardedDisk::default()
            }],
            ..Guard::default()
        }),
        lost_events: 3,
        ..Frame::default()
    }
}

pub(super) fn stall() -> Stall {
    Stall {
        began_unix_ms: 1_000,
        ended_unix_ms: 8_500,
        disk: "sda".into(),
        victims: vec![Victim {
            pid: 41,
            workload: of_unit("postgresql.service"),
            waited_us: 7_250_000,
            ..Victim::default()
        }],
        floods: vec![Flood { pid: 42, name: "cp".into(), dirtied_bytes: 9, ..Flood::default() }],
        ..Stall::default()
    }
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
}

#[test]
fn frames_and_stalls_are_added_up_by_device_and_workload() {
    let mut totals = Totals::new(Limits::default());
    totals.frame(&frame());
    totals.stall_began(&stall());
    has(&totals.exposition(), "floodwall_device_stalled{device=\"sda\"} 1.0");
    has(&totals.exposition(), "floodwall_stalls_total{device=\"sda\"} 0.0");
    totals.stall_ended(&stall());
    totals.frame(&frame());
    totals.frames_lost(5);
    let text = totals.exposition();
    let pg = "{device=\"sda\",workload=\"postgresql.service\"}";
    let cp = "{device=\"sda\",workload=\"cp\"}";
    for line in [
        "# TYPE floodwall info",
        "# UNIT floodwall_device_drain_rate_bytes_per_second bytes_per_second",
        "# TYPE floodwall_workload_dirtied_bytes counter",
        "floodwall_frames_total 2.0",
        "floodwall_frames_lost_total 5.0",
        "floodwall_events_lost_total 6.0",
        "floodwall_last_frame_timestamp_seconds 1700000000.5",
        "floodwall_machine_dirty_bytes 800.0",
        "floodwall_machine_hard_limit_bytes 0.0",
        "floodwall_machine_waited_ratio 0.5",
        "floodwall_device_backlog_bytes{device=\"sda\"} 1000000000.0",
        "floodwall_device_drain_rate_bytes_per_second{device=\"sda\"} 100000000.0",
        "floodwall_device_drain_seconds{device=\"sda\"} 10.0",
        "floodwall_device_hard_limit_drain_seconds{device=\"sda\"} 48.0",
        "floodwall_device_busy_ratio{device=\"sda\"} 1.0",
        "floodwall_device_in_flight_requests{device=\"sda\"} 32.0",
        "floodwall_device_read_bytes_total{device=\"sda\"} 0.0",
        "floodwall_device_written_bytes_total{device=\"sda\"} 400000000.0",
        "floodwall_device_victims{device=\"sda\"} 1.0",
        "floodwall_device_floods{device=\"sda\"} 1.0",
        "floodwall_device_victims{device=\"sdb\"} 0.0",
        "floodwall_device_stalled{device=\"sda\"} 0.0",
        "floodwall_device_guard_state{device=\"sda\",state=\"pace\"} 1.0",
        "floodwall_device_guard_state{device=\"sda\",state=\"free\"} 0.0",
        "floodwall_stalls_total{device=\"sda\"} 1.0",
        "floodwall_stalls_total{device=\"sdb\"} 0.0",
        "floodwall_stalled_seconds_total{device=\"sda\"} 7.5",
        &format!("floodwall_stall_victim_seconds_total{pg} 7.25"),
        &format!("floodwall_stall_victim_seconds_total{cp} 0.0"),
        &format!("floodwall_stall_flood_bytes_total{cp} 9.0"),
        &format!("floodwall_workload_slowest_wait_seconds{pg} 3.5"),
        &format!("floodwall_workload_victim{pg} 1.0"),
        &format!("floodwall_workload_flood{pg} 0.0"),
        &format!("floodwall_workload_dirtied_bytes_total{cp} 1000000000.0"),
        &format!("floodwall_workload_throttled_seconds_total{cp} 0.5"),
        &format!("floodwall_workload_backlog_share_ratio{cp} 0.75"),
        &format!("floodwall_workload_waits_total{} 6.0", kind(pg, "commit")),
        &format!("floodwall_workload_waits_total{} 8.0", kind(pg, "read")),
        &format!("floodwall_workload_wait_seconds_total{} 7.0", kind(pg, "commit")),
        &format!("floodwall_workload_wait_seconds_total{} 0.016", kind(pg, "read")),
    ] {
        has(&text, line);
    }
    assert!(text.ends_with("\n# EOF\n"));
    // An unknown value has no sample, nor has the slowest wait of a process that did not wait.
    for start in [
        "floodwall_machine_writeback_bytes ",
        "floodwall_device_backlog_bytes{device=\"sdb\"}",
        "floodwall_device_guard_state{device=\"sdb\"",
        &format!("floodwall_workload_dirtied_bytes_total{pg}"),
        &format!("floodwall_workload_slowest_wait_seconds{cp}"),
    ] {
        assert!(!text.lines().any(|l| l.starts_with(start)), "{start} is in\n{text}");
    }
}

fn kind(labels: &str, kind: &str) -> String {
    format!("{},kind=\"{kind}\"}}", labels.trim_end_matches('}'))
}

#[test]
fn a_device_that_is_gone_has_no_gauges_and_loses_its_sums_after_an_hour() {
    let mut totals = Totals::new(Limits::default());
    totals.frame(&frame());
    let empty = |window_ms| Frame { window_ms, ..Frame::default() };
    totals.frame(&empty(HOUR_MS - 1));
    let text = totals.exposition();
    has(&text, "floodwall_device_written_bytes_total{device=\"sda\"} 200000000.0");
    has(
        &text,
        "floodwall_workload_dirtied_bytes_total{device=\"sda\",workload=\"cp\"} 500000000.0",
    );
    for gone in ["floodwall_device_backlog", "floodwall_device_stalled", "_slowest_wait", "_state"]
    {
        assert!(!text.contains(gone), "{gone} is in\n{text}");
    }
    totals.frame(&empty(1));
    assert!(!totals.exposition().contains("sda"));
}

#[test]
fn names_are_printable_short_and_without_numbers_of_processes() {
    let names = ["a\"b\\c\nd\u{1b}[2J", "", "other", &"x".repeat(500)];
    let mut frame = frame();
    frame.processes = names
        .iter()
        .map(|name| Process {
            pid: 4_711,
            name: (*name).to_owned(),
            disk: Some("sd\"\n".into()),
            throttled_ms: 1_000,
            ..Process::default()
        })
        .collect();
    // Those that were too many for the probe have a name, and number 0.
    let mut rest = frame.processes[0].clone();
    (rest.pid, rest.name) = (0, "others".to_owned());
    frame.processes.push(rest);
    let mut totals = Totals::new(Limits::default());
    totals.frame(&frame);
    let text = totals.exposition();
    let labels =
        |workload: &str| format!("{{device=\"sd\\\"\\\\u{{a}}\",workload=\"{workload}\"}}");
    for (workload, seconds) in
        [("a\\\"b\\\\c\\\\u{a}d\\\\u{1b}[2J", 1), ("other", 3), (&"x".repeat(128), 1)]
    {
        let throttled = "floodwall_workload_throttled_seconds_total";
        has(&text, &format!("{throttled}{} {seconds}.0", labels(workload)));
    }
    assert!(!text.contains("4711"));
}

#[test]
fn devices_beyond_the_limit_are_one_without_gauges() {
    let mut totals = Totals::new(Limits { devices: 1, ..Limits::default() });
    let mut frame = frame();
    frame.processes[1].disk = Some("sdb".into());
    frame.disks[1].backlog_bytes = Some(7);
    totals.frame(&frame);
    let text = totals.exposition();
    has(
        &text,
        "floodwall_workload_dirtied_bytes_total{device=\"other\",workload=\"cp\"} 500000000.0",
    );
    assert!(!text.contains("sdb"));
    assert!(!text.contains("floodwall_device_backlog_bytes{device=\"other\"}"), "{text}");
}

#[test]
fn a_heavier_newcomer_takes_the_lightest_place_and_sums_stay_for_an_hour() {
    let mut totals = Totals::new(Limits { workloads: 2, ..Limits::default() });
    let frame = |loads: &[(&str, u64)]| Frame {
        window_ms: 1_000,
        processes: loads
            .iter()
            .map(|(name, bytes)| Process {
                pid: 1,
                name: (*name).to_owned(),
                disk: Some("sda".into()),
                dirtied_bytes: Some(*bytes),
                ..Process::default()
            })
            .collect(),
        ..Frame::default()
    };
    let dirtied = |totals: &Totals| -> BTreeMap<String, u64> {
        let text = totals.exposition();
        let start = "floodwall_workload_dirtied_bytes_total{device=\"sda\",workload=\"";
        text.lines()
            .filter_map(|line| line.strip_prefix(start)?.split_once("\"} "))
            .map(|(name, value)| (name.to_owned(), value.parse::<f64>().unwrap() as u64))
            .collect()
    };
    let expect = |totals: &Totals, all: &[(&str, u64)]| {
        let all: BTreeMap<String, u64> = all.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        assert_eq!(dirtied(totals), all);
    };
    totals.frame(&frame(&[("a", 100), ("b", 90)]));
    totals.frame(&frame(&[("a", 100), ("b", 90), ("c", 150)]));
    expect(&totals, &[("a", 200), ("b", 180), ("other", 150)]);
    totals.frame(&frame(&[("a", 100), ("b", 90), ("c", 300)]));
    expect(&totals, &[("a", 300), ("b", 270), ("c", 300), ("other", 150)]);
    // It is among the others while another one has its place, and goes on where it was.
    totals.frame(&frame(&[("b", 10)]));
    expect(&totals, &[("a", 300), ("b", 270), ("c", 300), ("other", 160)]);
    totals.frame(&frame(&[("b", 1_000)]));
    expect(&totals, &[("a", 300), ("b", 1_270), ("c", 300), ("other", 160)]);
    // A minute later an idle one weighs half: the newcomer needs no more than it weighed.
    totals.frame(&Frame { window_ms: 60_000, ..Frame::default() });
    totals.frame(&frame(&[("d", 301)]));
    let both = ["a", "c"];
    let expect_retired = |totals: &Totals, names: &[&str]| {
        let there = dirtied(totals);
        let names: Vec<&&str> = names.iter().collect();
        let retired = both.iter().filter(|name| there.contains_key(**name));
        assert_eq!(retired.collect::<Vec<_>>(), names, "{there:?}");
        assert_eq!((there["b"], there["d"], there["other"]), (1_270, 301, 160));
    };
    // As many are retired as may be: the first one, since 5 s, leaves after five minutes.
    let on = |window_ms| Frame { window_ms, ..frame(&[("b", 0), ("d", 0)]) };
    expect_retired(&totals, &both);
    totals.frame(&on(305_000 - 66_000 - 1));
    expect_retired(&totals, &both);
    totals.frame(&on(1));
    expect_retired(&totals, &["c"]);
    // With room for another one the second, since 66 s, stays for an hour.
    totals.frame(&on(66_000 + HOUR_MS - 305_000 - 1));
    expect_retired(&totals, &["c"]);
    totals.frame(&on(1));
    expect_retired(&totals, &[]);
}
