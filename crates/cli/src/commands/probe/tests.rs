//! A window on screens of all widths.

use floodwall_model::LatencyCounts;
use floodwall_probe::{Call, Class, DeviceUse, ProcessUse, Requests, Snapshot};
use floodwall_report::status::Style;

use super::*;
use crate::ascii;

fn counts(ms: &[u64]) -> LatencyCounts {
    LatencyCounts::from_values(ms.iter().map(|ms| ms * 1_000_000))
}

/// Eight threads of a database wait for a disk that a copy floods.
fn window() -> Snapshot {
    let sda = DeviceId { major: 8, minor: 0 };
    let requests = |bytes, queue: &[u64], device: &[u64]| Requests {
        bytes,
        queue: counts(queue),
        device: counts(device),
    };
    let disk = DeviceUse {
        id: sda,
        name: "sda".into(),
        counters: None,
        requests: Some(
            [
                (Class::SyncWrite, requests(65_536, &[1, 90], &[4, 12])),
                (Class::AsyncWrite, requests(120_000_000, &[700, 900], &[8, 80])),
            ]
            .into(),
        ),
    };
    let mysqld = ProcessUse {
        pid: 812,
        name: "mysqld".into(),
        device: Some(sda),
        calls: [(Call::Fdatasync, counts(&[900; 8]))].into(),
        reads: counts(&[12]),
        waiting: 8,
        oldest: Duration::from_millis(450),
        ..ProcessUse::default()
    };
    let cp = ProcessUse {
        pid: 2441,
        name: "cp".into(),
        device: Some(sda),
        dirtied_bytes: Some(193_000_000),
        throttled: Duration::from_millis(1500),
        ..ProcessUse::default()
    };
    let window = Duration::from_secs(1);
    Snapshot {
        at: window,
        window,
        attached: window,
        sampled_by: None,
        source: SourceKind::Bpf,
        lost_events: 3,
        folded_operations: 0,
        unwatched_threads: 0,
        pressure: Some(window),
        devices: vec![disk],
        processes: vec![mysqld, cp],
    }
}

#[test]
fn a_window_on_screens_of_all_widths() {
    let page = |width| text::page(&window(), Style { color: false, width });
    for width in [80, 100, 160] {
        let page = page(width);
        assert!(page.lines().all(|line| line.chars().count() <= width), "{page}");
    }
    assert_eq!(page(160), page(100));
    insta::assert_snapshot!(page(100), @"
1.00 s from tracepoints (BPF); somebody waited for I/O 100 % of it; 3 events were lost, what they
told is missing below

DEVICE  REQUESTS     /s      bytes  queued p50  queued p99  device p50  device p99  device max
sda     sync write    2  65.5 kB/s     1.00 ms     90.0 ms     4.01 ms     12.0 ms     12.0 ms
sda     async write   2   120 MB/s      700 ms      900 ms     8.03 ms     80.0 ms     80.0 ms

WHO WAITS     DEVICE  FOR        /s      p50      p99      max  share           now
mysqld (812)  sda     fdatasync   8   900 ms   900 ms   900 ms  100 %  8 for 450 ms
mysqld (812)  sda     read        1  12.0 ms  12.0 ms  12.0 ms  1.2 %

WHO WRITES  DEVICE   dirtied  throttled
cp (2441)   sda     193 MB/s      100 %
");
    let narrow = page(80);
    let narrow = ascii::ascii(&narrow);
    assert!(narrow.is_ascii(), "{narrow}");
    insta::assert_snapshot!(narrow, @"
    1.00 s from tracepoints (BPF); somebody waited for I/O 100 % of it; 3 events
    were lost, what they told is missing below

    DEVICE  REQUESTS     /s      bytes  queued p99  device p50  device p99
    sda     sync write    2  65.5 kB/s     90.0 ms     4.01 ms     12.0 ms
    sda     async write   2   120 MB/s      900 ms     8.03 ms     80.0 ms

    WHO WAITS     DEVICE  FOR        /s      p50      p99  share           now
    mysqld (812)  sda     fdatasync   8   900 ms   900 ms  100 %  8 for 450 ms
    mysqld (812)  sda     read        1  12.0 ms  12.0 ms  1.2 %

    WHO WRITES  DEVICE   dirtied  throttled
    cp (2441)   sda     193 MB/s      100 %
    ");
}
