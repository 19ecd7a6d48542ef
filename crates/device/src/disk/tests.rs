//! What a disk that begins commands before they arrive must not show.

use super::geometry::Mechanics;
use super::*;
use crate::device::{Device, DeviceStats};

/// A disk without caches: everything goes to the platters.
fn disk() -> Disk {
    let mechanics = Mechanics {
        capacity: 100 << 30,
        revolution: Nanos(8_333_333),
        outer_rate: 125e6,
        inner_rate: 60e6,
        heads: 4,
        head_switch: Nanos::from_micros(800),
        track_to_track: Nanos::from_micros(1_000),
        average_seek: Nanos::from_micros(8_500),
        full_stroke: Nanos::from_micros(18_000),
        write_settle: Nanos::from_micros(1_000),
    };
    let p = DiskParams {
        mechanics,
        command: Nanos::from_micros(100),
        link_rate: 100e6,
        queue_depth: 32,
        age_limit: Nanos::from_secs(1),
        read_ahead: 0,
        segments: 0,
        write_cache: 0,
        shingles: None,
    };
    Disk::new(p, Nanos::ZERO)
}

const WRITE: Request = Request::write(1, 50 << 30, 1 << 20);
const READ: Request = Request::read(2, 10 << 30, 4096);
/// In the cylinder in which the write begins.
const NEAR_IT: Request = Request::read(3, 50 << 30, 4096);
/// A command and 1 MiB at 100 MB/s.
const WRITE_ARRIVES: Nanos = Nanos(100_000 + 10_485_760);

/// Lets time pass until everything is done; returns (id, when).
fn run(disk: &mut Disk) -> Vec<(u64, Nanos)> {
    let mut out = Vec::new();
    while let Some(t) = disk.next_event() {
        disk.advance(t, &mut out);
    }
    out.iter().map(|c| (c.id, c.at)).collect()
}

#[test]
fn a_read_overtakes_a_write_that_is_still_on_the_link() {
    let mut both = disk();
    both.submit(Nanos::ZERO, WRITE);
    assert!(both.work.is_some(), "begun before it arrived");
    both.submit(Nanos::ZERO, READ);
    let done = run(&mut both);
    // The head has read by then; the data must wait for the link.
    assert_eq!(done[0], (2, WRITE_ARRIVES + Nanos(40_960)));

    // The same write to a disk whose head is where the read left it.
    let mut after = disk();
    after.submit(Nanos::from_micros(100), READ);
    let mut out = Vec::new();
    after.advance(WRITE_ARRIVES, &mut out);
    assert_eq!(out.len(), 1);
    after.arrivals.push(WRITE_ARRIVES, WRITE);
    assert_eq!(run(&mut after), done[1..]);
}

#[test]
fn counters_count_a_command_when_it_has_arrived() {
    let mut disk = disk();
    disk.submit(Nanos::ZERO, WRITE);
    assert_eq!(disk.stats_at(Nanos(WRITE_ARRIVES.0 - 1)), DeviceStats::default());
    let stats = disk.stats_at(WRITE_ARRIVES);
    assert_eq!((stats.media_write_bytes, stats.seeks), (1 << 20, 1));
    assert!(stats.media_busy_ns > 0);
}

#[test]
fn a_power_cut_before_a_command_arrives_leaves_the_head_where_it_was() {
    let done_after_cut_at = |cut: Nanos| {
        let mut disk = disk();
        disk.submit(Nanos::ZERO, WRITE);
        disk.powercut(cut);
        disk.submit(Nanos::from_secs(1), NEAR_IT);
        (disk.stats().media_write_bytes, run(&mut disk))
    };
    let mut untouched = disk();
    untouched.submit(Nanos::from_secs(1), NEAR_IT);
    let before = done_after_cut_at(Nanos(WRITE_ARRIVES.0 - 1));
    assert_eq!(before, (0, run(&mut untouched)));
    let after = done_after_cut_at(WRITE_ARRIVES);
    assert_eq!(after.0, 1 << 20);
    assert_ne!(after.1, before.1, "the head had begun to move");
}
