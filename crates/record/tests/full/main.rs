//! Recordings on a filesystem that becomes full: a small tmpfs. It needs root.

#![allow(
    clippy::unwrap_used,
    reason = "a test binary, which clippy does not know without the harness"
)]

use std::fs;
use std::path::Path;

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_record::stall::{LOG, Log, Watch, find};
use floodwall_record::{Limits, Recording, Writer};
use floodwall_testing::disk::Mount;
use floodwall_testing::{ROOT, ensure, equal, said};

fn main() {
    let missing = || floodwall_testing::lacks(&[ROOT, "mount"]);
    floodwall_testing::run(floodwall_testing::tests![
        missing =>
        the_recording_stays_and_goes_on,
        a_stall_is_logged_once,
    ])
}

fn moments(directory: &Path) -> Result<Vec<u64>, String> {
    let mut recording = Recording::open(directory).map_err(said("a recording"))?;
    let moments: Result<Vec<u64>, _> =
        recording.between(0, u64::MAX).map(|frame| frame.map(|frame| frame.at_unix_ms)).collect();
    equal(recording.damage().frames, 0)?;
    moments.map_err(said("a frame"))
}

fn the_recording_stays_and_goes_on() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("a directory"))?;
    let full = Mount::new(&["-t", "tmpfs", "-o", "size=128k", "none"], &dir.path().join("full"))?;
    let directory = full.path().join("floodwall");
    let ballast = full.path().join("ballast");
    fs::write(&ballast, [1; 40_000]).map_err(said("ballast"))?;
    let mut writer = Writer::open(&directory, Limits::default()).map_err(said("a writer"))?;
    let mut written = Vec::new();
    let mut append = |at_unix_ms: u64, written: &mut Vec<u64>| {
        // A text that does not compress to nothing.
        let text = (0..200).map(|n| char::from(b'a' + (at_unix_ms * n * n % 23) as u8)).collect();
        let frame = Frame { at_unix_ms, unseen: vec![text], ..Frame::default() };
        writer.append(&frame).map(|_| written.push(at_unix_ms))
    };
    let error = (1..10_000).find_map(|at| append(at, &mut written).err());
    let error = error.ok_or("it never became full")?;
    ensure(error.is_full(), || format!("another error: {error:?}"))?;
    ensure(written.len() > 100, || format!("only {} frames", written.len()))?;
    equal(&moments(&directory)?, &written)?;
    ensure(append(20_000, &mut written).is_err(), || "it has room again".into())?;
    equal(&moments(&directory)?, &written)?;
    fs::remove_file(&ballast).map_err(said("ballast"))?;
    for at in 30_000..30_010 {
        append(at, &mut written).map_err(said("a frame with room"))?;
    }
    equal(&moments(&directory)?, &written)
}

/// An hour of stalls is to be logged at once, and does not fit.
fn a_stall_is_logged_once() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("a directory"))?;
    let full = Mount::new(&["-t", "tmpfs", "-o", "size=128k", "none"], &dir.path().join("full"))?;
    let ballast = full.path().join("ballast");
    fs::write(&ballast, [1; 120_000]).map_err(said("ballast"))?;
    let mut log = Log::open(full.path(), u64::MAX).map_err(said("the log"))?;
    let mut watch = Watch::new();
    for second in 1..=600 {
        let waits = second % 6 < 3;
        let victim = Process {
            pid: 7,
            disk: Some("sda".into()),
            is_victim: waits,
            oldest_us: u64::from(waits) * 1_500_000,
            ..Process::default()
        };
        watch.frame(&Frame {
            at_unix_ms: second * 1000,
            window_ms: 1000,
            disks: vec![Disk { name: "sda".into(), ..Disk::default() }],
            processes: vec![victim],
            ..Frame::default()
        });
    }
    watch.finish();
    let error = log.write(watch.lines()).err().ok_or("all stalls fit")?;
    ensure(error.is_full(), || format!("another error: {error:?}"))?;
    let length = fs::metadata(full.path().join(LOG)).map_err(said("the log"))?.len();
    equal(length, 0)?;
    fs::remove_file(&ballast).map_err(said("ballast"))?;
    let _ = log.write(watch.lines()).map_err(said("the log with room"))?;
    let stalls = find(full.path(), 0, u64::MAX).map_err(said("stalls"))?.stalls;
    ensure(stalls.len() >= 100, || format!("only {} stalls", stalls.len()))?;
    let mut began: Vec<u64> = stalls.iter().map(|stall| stall.began_unix_ms).collect();
    began.dedup();
    equal(began.len(), stalls.len())
}
