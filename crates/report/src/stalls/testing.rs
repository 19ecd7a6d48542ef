//! A stall and its time zone, for tests.

use floodwall_model::stall::{Flood, Stall, Victim};
use floodwall_model::workload::Workload;
use jiff::tz::TimeZone;

/// 03:10:12 in Berlin.
pub(crate) const NIGHT_MS: u64 = 1_795_745_412_000;

pub(crate) fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn unit(name: &str) -> Workload {
    Workload { unit: Some(name.into()), ..Workload::default() }
}

pub(crate) fn stall() -> Stall {
    Stall {
        began_unix_ms: NIGHT_MS,
        ended_unix_ms: NIGHT_MS + 41_000,
        worst_unix_ms: NIGHT_MS + 30_000,
        disk: "sda".into(),
        mounts: vec!["/var/lib/postgresql".into()],
        victims: vec![Victim {
            pid: 812,
            name: "postgres".into(),
            workload: unit("postgresql.service"),
            call: Some("fsync".into()),
            slowest_us: 3_200_000,
            waited_us: 39_000_000,
            count: 14,
        }],
        floods: vec![Flood {
            pid: 4711,
            name: "cp".into(),
            workload: unit("backup.service"),
            dirtied_bytes: 12_000_000_000,
            backlog_percent: Some(93.0),
        }],
        backlog_bytes: Some(4_100_000_000),
        drain_ms: Some(34_167),
        drain_bytes_per_s: Some(120_000_000),
        ..Stall::default()
    }
}
