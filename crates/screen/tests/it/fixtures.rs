//! Machines as frames: a quiet one, a stall, one without root, one of a hundred disks. Each is two
//! minutes of a second a frame, the last one at 2026-11-21 03:00:05 UTC.

use floodwall_model::Severity;
use floodwall_model::diagnosis::Verdict;
use floodwall_model::frame::{
    Disk, Finding, Frame, Group, Guard, GuardedDisk, Machine, Process, Queue, Requests, Waits,
};
use floodwall_model::status::DrainSource;
use floodwall_model::workload::Workload;

const END_MS: u64 = 1_795_230_005_000;
const MIB: u64 = 1 << 20;
const MB: u64 = 1_000_000;

/// A database alone, and a guard that watches.
pub(crate) fn quiet() -> Vec<Frame> {
    frames(|second| {
        let jitter = second * 37 % 11;
        let mut frame = machine("db1", 20_491_000 + jitter * 901_120);
        frame.disks = vec![sda(Verdict::Quiet, (3 + jitter) * MIB, 121 * MB)];
        let mut postgres = process(812, "postgres", unit("postgresql@15-main.service"));
        postgres.waits =
            vec![waits("fdatasync", 212, 5_100 + jitter * 90, 14_200, &[(12, 180), (13, 32)])];
        let mut journal = process(301, "systemd-journal", unit("systemd-journald.service"));
        journal.waits = vec![waits("fsync", 1, 8_400, 8_400, &[(13, 1)])];
        journal.dirtied_bytes = Some(40_000);
        frame.processes = vec![journal, postgres];
        frame.guard = Some(guard("free", None));
        frame
    })
}

/// A copy floods sda since 45 seconds, a database waits for it, and the guard has begun to protect.
pub(crate) fn stall() -> Vec<Frame> {
    frames(|second| {
        let flooded = second.saturating_sub(75);
        let backlog = if flooded == 0 { 4 * MIB } else { (flooded * 33_850_123).min(1_454 * MIB) };
        let verdict = if flooded > 2 { Verdict::Stalling } else { Verdict::Quiet };
        let mut frame = machine("db1", backlog);
        frame.machine.waited_percent = Some(if flooded > 0 { 83.4 } else { 0.6 });
        let mut disk = sda(verdict, backlog, 120 * MB);
        disk.in_flight = Some(if flooded > 0 { 64 } else { 1 });
        disk.busy_percent = Some(if flooded > 0 { 100.0 } else { 9.3 });
        disk.written_bytes_per_s = Some(if flooded > 0 { 119_400_000 } else { 2_310_000 });
        frame.disks = vec![disk];
        frame.findings = findings();
        let wait = if flooded > 2 { 400_000 + flooded * 62_222 } else { 12_400 };
        frame.processes = vec![
            Process {
                waits: vec![waits("fsync", 1, 22_300, 22_300, &[(14, 1)])],
                dirtied_bytes: Some(36_864),
                ..process(301, "systemd-journal", unit("systemd-journald.service"))
            },
            Process {
                is_victim: flooded > 2,
                waits: vec![
                    waits(
                        "fdatasync",
                        118,
                        wait / 4,
                        wait,
                        &[(17, 40), (18, 60), (20, 14), (21, 4)],
                    ),
                    waits("read", 31, 8_100, 41_300, &[(12, 20), (15, 11)]),
                ],
                waiting: u64::from(flooded > 2) * 3,
                oldest_us: if flooded > 2 { wait / 2 } else { 0 },
                dirtied_bytes: Some(3 * MB),
                backlog_percent: Some(1.2),
                group: Some(group(
                    "system.slice/system-postgresql.slice/postgresql@15-main.service",
                )),
                ..process(812, "postgres", unit("postgresql@15-main.service"))
            },
            Process {
                is_victim: flooded > 5,
                waits: vec![waits("sync_write", 4, wait / 3, wait / 2, &[(19, 4)])],
                waiting: 1,
                group: Some(group("kubepods.slice/pod7f.slice/cri-redis.scope")),
                ..process(2_290, "redis-server", pod("shop/cache-0", "redis"))
            },
            flood(4_711, "cp", unit("session-3.scope"), flooded, 360 * MB, 91.7),
            Process {
                group: Some(Group {
                    path: "system.slice/backup.service".into(),
                    memory_bytes: Some(48 * MIB),
                    is_limited: false,
                }),
                ..flood(4_810, "rsync", unit("backup.service"), flooded, 40 * MB, 7.1)
            },
        ];
        frame.guard = Some(if flooded > 2 {
            let told = "watch → protect (own elevator, 8 requests, 512 KiB); wrote nr_requests \
                        64 → 8; victims: postgres; floods: cp; the flood can't be paced: its \
                        session holds a victim";
            guard("protect", Some(told))
        } else {
            guard("watch", None)
        });
        frame
    })
}

/// The same without a guard, on bfq.
pub(crate) fn unguarded() -> Vec<Frame> {
    let mut frames = stall();
    for frame in &mut frames {
        frame.guard = None;
        for disk in &mut frame.disks {
            disk.queue.scheduler = Some("bfq".into());
        }
    }
    frames
}

/// The same machine as an ordinary user sees it.
pub(crate) fn without_root() -> Vec<Frame> {
    let mut frames = stall();
    for frame in &mut frames {
        frame.source = "proc".into();
        frame.guard = None;
        frame.processes.retain(|process| process.is_flood && process.pid == 4_711);
        for process in &mut frame.processes {
            (process.throttled_ms, process.backlog_percent, process.group) = (0, None, None);
        }
        for disk in &mut frame.disks {
            disk.verdict = Verdict::Unknown;
            (disk.backlog_bytes, disk.drain_ms, disk.drain_bytes_per_s) = (None, None, None);
            disk.hard_limit_ms = None;
            disk.requests.clear();
        }
        frame.unseen = vec!["latencies need tracepoints, and those need root (CAP_PERFMON)".into()];
        frame.root_would_add = vec![
            "which processes wait, for what and how long".into(),
            "the backlog of each disk and how long it takes to drain".into(),
            "processes of other users that flood".into(),
        ];
    }
    frames
}

/// A hundred disks and a thousand processes; three disks stall.
pub(crate) fn hundred_disks() -> Vec<Frame> {
    frames(|second| {
        let mut frame = machine("store7", 9_000 * MIB);
        for number in 0..100_u64 {
            let verdict = match number % 33 {
                7 => Verdict::Stalling,
                9 => Verdict::Flooding,
                _ => Verdict::Quiet,
            };
            let backlog =
                if verdict == Verdict::Quiet { 3 * MIB } else { (500 + 9 * second) * MIB };
            frame.disks.push(Disk {
                name: disk_name(number),
                id: format!("65:{number}"),
                mounts: vec![format!("/srv/{number}")],
                ..sda(verdict, backlog + number * MIB, (90 + number) * MB)
            });
        }
        for number in 0..1_000_u64 {
            let disk = number % 100;
            let is_flood = matches!(disk % 33, 7 | 9) && number < 100;
            let is_victim = disk % 33 == 7 && !is_flood;
            let name = if is_flood { "rsync" } else { "osd" };
            let wait = if is_victim { 900_000 + number * 1_000 } else { 3_000 + number };
            frame.processes.push(Process {
                disk: Some(disk_name(disk)),
                is_flood,
                is_victim,
                waits: vec![waits("fdatasync", 20, wait / 2, wait, &[(11, 12), (12, 8)])],
                dirtied_bytes: Some(if is_flood { 300 * MB } else { number * 1_000 }),
                backlog_percent: is_flood.then_some(97.2),
                ..process(2_000 + number as u32, name, unit(&format!("osd@{number}.service")))
            });
        }
        frame
    })
}

fn frames(frame: impl Fn(u64) -> Frame) -> Vec<Frame> {
    let at = |second: u64| Frame {
        at_unix_ms: END_MS - (119 - second) * 1000,
        window_ms: 1000,
        source: "bpf".into(),
        ..frame(second)
    };
    (0..120).map(at).collect()
}

fn disk_name(number: u64) -> String {
    match number {
        0..26 => format!("sd{}", char::from(b'a' + number as u8)),
        _ => format!(
            "sd{}{}",
            char::from(b'a' + (number / 26 - 1) as u8),
            char::from(b'a' + (number % 26) as u8)
        ),
    }
}

fn machine(name: &str, dirty: u64) -> Frame {
    Frame {
        machine: Machine {
            name: name.into(),
            ram_bytes: Some(16_641_085_440),
            dirty_bytes: Some(dirty),
            writeback_bytes: Some(dirty / 16),
            hard_limit_bytes: Some(3_328_217_088),
            background_limit_bytes: Some(1_664_108_544),
            waited_percent: Some(0.6),
        },
        ..Frame::default()
    }
}

fn sda(verdict: Verdict, backlog: u64, drain: u64) -> Disk {
    let kind = |class: &str, count, bytes, us: u64| Requests {
        class: class.into(),
        count,
        bytes,
        queue_p50_us: Some(us / 3),
        queue_p99_us: (count >= 100).then_some(us * 4),
        device_p50_us: Some(us),
        device_p99_us: (count >= 100).then_some(us * 9),
        device_max_us: Some(us * 12),
    };
    Disk {
        name: "sda".into(),
        id: "8:0".into(),
        verdict,
        model: Some("ATA ST4000NM0035".into()),
        mounts: vec!["/".into(), "/var/lib/postgresql".into()],
        backlog_bytes: Some(backlog),
        drain_bytes_per_s: Some(drain),
        drain_from: DrainSource::Seen,
        drain_ms: Some(backlog * 1000 / drain),
        hard_limit_ms: Some(3_174 * MIB * 1000 / drain),
        peak_backlog_bytes: None,
        limit_bytes: Some(3_328_217_088),
        read_bytes_per_s: Some(254_000),
        written_bytes_per_s: Some(2_310_000),
        busy_percent: Some(9.3),
        in_flight: Some(1),
        requests: vec![
            kind("read", 31, 31 * 8_192, 8_100),
            kind("sync_write", 118, 118 * 16_384, 9_700),
            kind("async_write", 228, 228 * 524_288, 31_000),
            kind("flush", 59, 0, 12_000),
        ],
        queue: Queue {
            scheduler: Some("mq-deadline".into()),
            nr_requests: Some(64),
            max_sectors_kib: Some(1280),
            wbt_lat_us: Some(75_000),
            strict_limit: Some(false),
        },
    }
}

fn process(pid: u32, name: &str, workload: Workload) -> Process {
    Process { pid, name: name.into(), workload, disk: Some("sda".into()), ..Process::default() }
}

fn flood(pid: u32, name: &str, workload: Workload, since: u64, rate: u64, share: f32) -> Process {
    let is_flood = since > 0;
    Process {
        is_flood,
        dirtied_bytes: Some(if is_flood { rate } else { 0 }),
        throttled_ms: if since > 20 { 412 } else { 0 },
        backlog_percent: is_flood.then_some(share),
        group: Some(Group {
            path: "user.slice/user-0.slice/session-3.scope".into(),
            memory_bytes: Some(9 * MIB),
            is_limited: false,
        }),
        ..process(pid, name, workload)
    }
}

fn group(path: &str) -> Group {
    Group { path: path.into(), ..Group::default() }
}

fn unit(name: &str) -> Workload {
    Workload { unit: Some(name.into()), ..Workload::default() }
}

fn pod(pod: &str, container: &str) -> Workload {
    Workload {
        unit: Some("cri-containerd-7f.scope".into()),
        container: Some(container.into()),
        pod: Some(pod.into()),
    }
}

fn waits(call: &str, count: u64, p50_us: u64, max_us: u64, octaves: &[(u8, u64)]) -> Waits {
    Waits {
        call: call.into(),
        count,
        p50_us,
        p99_us: (count >= 100).then_some(max_us - max_us / 20),
        max_us,
        sum_us: p50_us * count,
        octaves: octaves.to_vec(),
    }
}

fn guard(state: &str, last: Option<&str>) -> Guard {
    let acts = state == "protect";
    Guard {
        mode: "protect".into(),
        disks: vec![GuardedDisk {
            name: "sda".into(),
            state: state.into(),
            since_s: 12,
            goal_us: 234_000,
            pressure_percent: acts.then_some(320.0),
            levers: acts.then(|| "8 requests, 512 KiB".into()),
            last: last.map(str::to_owned),
            held: if acts { vec!["nr_requests 8 (yours: 64)".into()] } else { Vec::new() },
        }],
        ..Guard::default()
    }
}

fn findings() -> Vec<Finding> {
    let finding = |id: &str, severity, title: &str, subject: &str| Finding {
        id: id.into(),
        severity,
        title: title.into(),
        subjects: vec![subject.into()],
    };
    vec![
        finding("FW001", Severity::Warning, "the hard limit takes long to drain", "sda"),
        finding(
            "FW046",
            Severity::Warning,
            "a flood shares its control group with a victim",
            "session-3.scope",
        ),
        finding("FW018", Severity::Note, "the queue is long for a disk that seeks", "sda"),
    ]
}
