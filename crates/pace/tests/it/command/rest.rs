//! Data that a command leaves dirty at its end, and data that pace does not write itself.

use std::thread;
use std::time::Duration;

use floodwall_testing::{Trial, until};
use rustix::process::Signal;

use super::lacks_a_disk;
use super::pacing::{FAST, PATIENCE, Pacing, directory, figures};

/// Bytes per second.
const RATE: &str = "16e6";

pub(crate) fn tests() -> Vec<Trial> {
    floodwall_testing::tests![lacks_a_disk =>
        a_short_command_is_paced_to_its_last_byte,
        a_signal_leaves_the_rest_to_the_kernel,
        direct_io_and_synced_data_are_held_to_the_rate,
        processes_that_are_left_behind_are_counted,
        files_in_many_new_directories_are_found,
    ]
    .into_iter()
    .collect()
}

fn a_short_command_is_paced_to_its_last_byte() {
    let dir = directory();
    // It ends long before its data could be written at the rate.
    let script = "dd if=/dev/zero iflag=fullblock of=file bs=16M count=2 2>/dev/null";
    let report = figures(RATE, dir.path(), script);
    assert!(report.0.contains("rest written"), "{}", report.0);
    assert!(report.seconds() >= 1.5, "{}", report.0);
    // Small ones, which are closed at once.
    let script = "for n in $(seq 200); do head -c 80000 /dev/zero > $n; done";
    let report = figures(RATE, dir.path(), script);
    assert!(report.0.contains("rest written") && report.seconds() >= 0.6, "{}", report.0);
}

fn a_signal_leaves_the_rest_to_the_kernel() {
    let dir = directory();
    let script = "dd if=/dev/zero iflag=fullblock of=file bs=16M count=2 2>/dev/null; : > done";
    let mut pacing = Pacing::start("1e6", dir.path(), script);
    until(PATIENCE, "the command ends", || dir.path().join("done").exists()).unwrap();
    thread::sleep(Duration::from_millis(200));
    pacing.signal(Signal::TERM);
    let status = pacing.child.wait().unwrap();
    assert_eq!(status.code(), Some(143), "{status}");
    pacing.waits_for("it tells of the rest", |pacing| pacing.log.text().contains("rest left"));
}

fn files_in_many_new_directories_are_found() {
    const MANY: u64 = 3000;
    let dir = directory();
    let script =
        format!("mkdir $(seq {MANY}); for n in $(seq {MANY}); do echo text > $n/file; done");
    let found = figures(FAST, dir.path(), &script).of("found");
    assert!(found >= MANY, "{found}");
}

fn direct_io_and_synced_data_are_held_to_the_rate() {
    let dir = directory();
    for how in ["oflag=direct", "oflag=dsync"] {
        let script = format!("dd if=/dev/zero iflag=fullblock of=file bs=1M count=192 {how}");
        let report = figures("64e6", dir.path(), &format!("{script} 2>/dev/null"));
        // It takes 3 s, less what it writes before the first looks.
        assert!(report.seconds() >= 1.5, "{how}: {}", report.0);
    }
}

fn processes_that_are_left_behind_are_counted() {
    let dir = directory();
    let report = figures(FAST, dir.path(), "sleep 5 & sleep 5 &");
    assert_eq!(report.of("behind"), 2, "{}", report.0);
}
