//! What a day takes. `cargo run -p floodwall-record --example day` measures whole days.

use std::fs;

use floodwall_model::frame::Frame;
use floodwall_record::condensed;

use super::machine::{Host, WINDOW_MS};
use super::{DAY_MS, MIDNIGHT_MS, record};

/// Frames of one chunk: all chunks are alike.
const FRAMES: u64 = 64;

fn mb_a_day(mut host: Host) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<Frame> = (0..FRAMES).map(|_| condensed(host.frame())).collect();
    record(dir.path(), &frames);
    let bytes: u64 = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    (bytes * (DAY_MS / WINDOW_MS) / FRAMES) as f64 / 1e6
}

#[test]
fn an_idle_host_takes_less_than_10_mb_a_day_and_a_busy_one_less_than_60() {
    let (idle, busy) = (mb_a_day(Host::idle(MIDNIGHT_MS)), mb_a_day(Host::busy(MIDNIGHT_MS)));
    assert!(idle < 10.0, "idle: {idle} MB");
    assert!(busy < 60.0, "busy: {busy} MB");
}
