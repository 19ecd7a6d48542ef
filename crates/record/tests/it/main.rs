//! Recordings on disk.

mod store;

use floodwall_model::frame::{Disk, Frame, Process};

/// A frame with a disk and a process.
fn frame(at_unix_ms: u64) -> Frame {
    Frame {
        at_unix_ms,
        window_ms: 5000,
        source: "sim".into(),
        disks: vec![Disk {
            name: "sda".into(),
            drain_ms: Some(at_unix_ms % 977),
            ..Disk::default()
        }],
        processes: vec![Process { pid: 7, name: "mysqld".into(), ..Process::default() }],
        ..Frame::default()
    }
}
