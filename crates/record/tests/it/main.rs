//! Recordings on disk.

#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

mod damage;
mod formats;
mod limits;
mod machine;
mod one_day;
mod random;
mod sizes;
mod store;

use std::path::Path;

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_record::{Limits, Recording, Writer};

/// 2026-11-27 00:00:00 UTC.
const MIDNIGHT_MS: u64 = 1_795_737_600_000;
const DAY_MS: u64 = 86_400_000;

/// A small frame with a disk and a process.
fn frame(at_unix_ms: u64) -> Frame {
    let disk = Disk { name: "sda".into(), drain_ms: Some(at_unix_ms % 977), ..Disk::default() };
    Frame {
        at_unix_ms,
        window_ms: 5000,
        source: "sim".into(),
        disks: vec![disk],
        processes: vec![Process { pid: 7, name: "mysqld".into(), ..Process::default() }],
        ..Frame::default()
    }
}

/// Records frames. Each call begins a chunk.
fn record(directory: &Path, frames: &[Frame]) {
    let mut writer = Writer::open(directory, Limits::default()).unwrap();
    for frame in frames {
        let _ = writer.append(frame).unwrap();
    }
}

/// All frames that can be read.
fn read(directory: &Path) -> Vec<Frame> {
    let mut recording = Recording::open(directory).unwrap();
    recording.between(0, u64::MAX).map(Result::unwrap).collect()
}

/// The moments of all frames that can be read.
fn moments(directory: &Path) -> Vec<u64> {
    read(directory).iter().map(|frame| frame.at_unix_ms).collect()
}
