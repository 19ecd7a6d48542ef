//! What the presets must show in virtual time: published idle figures and what datasheets imply, within 10 %.

use floodwall_device::Op;

use crate::workload::*;

const WRITE: Op = Op::Write { fua: false };

fn within(measured: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (measured / expected - 1.0).abs() <= tolerance,
        "{what}: {measured:.1} instead of {expected:.1} (off by {:+.1} %)",
        (measured / expected - 1.0) * 100.0
    );
}

/// A commit as xfs does it: the data, then the log, one after the other. The log is written round and round.
pub(crate) fn commits(
    block: u64,
    file: u64,
    seed: u64,
) -> impl FnMut(usize, usize) -> Option<(Op, u64, u64)> {
    let mut dice = Dice::new(seed);
    let log_at = file + GIB;
    let mut log = 0;
    move |_, step| match step {
        0 => Some((WRITE, dice.below(file / block) * block, block)),
        1 => {
            log = (log + 4 * KIB) % (10 * MIB);
            Some((WRITE, log_at + log, 4 * KIB))
        }
        _ => None,
    }
}

#[test]
fn raid10_bbwc_2010_commits_16_kib_from_ten_threads_as_published() {
    let mut device = full("raid10-bbwc-2010");
    let m = closed_loop(device.as_mut(), 10, 60.0, 30.0, commits(16 * KIB, 10 * GIB, 1));
    within(m.iops(), 1500.0, 0.1, "10 threads, 16 KiB");
}

#[test]
fn raid10_bbwc_2010_commits_4_kib_from_one_thread_as_published() {
    let mut device = full("raid10-bbwc-2010");
    let m = closed_loop(device.as_mut(), 1, 60.0, 30.0, commits(4 * KIB, 10 * GIB, 1));
    within(m.iops(), 1460.0, 0.1, "1 thread, 4 KiB");
}

#[test]
fn raid10_bbwc_2010_writes_in_sequence_as_published() {
    let mut device = full("raid10-bbwc-2010");
    let mut at = 0;
    let m = closed_loop(
        device.as_mut(),
        32,
        10.0,
        30.0,
        single(|| {
            at += MIB;
            (WRITE, at - MIB, MIB)
        }),
    );
    within(m.rate(), 251e6, 0.1, "sequential writes");
}

#[test]
fn hdd_7200_reads_as_its_datasheet_implies() {
    let mut device = full("hdd-7200");
    let mut dice = Dice::new(2);
    let blocks = device.capacity() / 4096;
    let m =
        closed_loop(device.as_mut(), 1, 1.0, 60.0, single(|| (Op::Read, dice.below(blocks) * 4096, 4096)));
    within(m.iops(), 78.0, 0.1, "random reads at depth 1");
    let mut device = full("hdd-7200");
    let mut at = 0;
    let m = closed_loop(
        device.as_mut(),
        1,
        1.0,
        10.0,
        single(|| {
            at += 128 * KIB;
            (Op::Read, at - 128 * KIB, 128 * KIB)
        }),
    );
    within(m.rate(), 125e6, 0.1, "sequential reads at depth 1");
    let mut device = full("hdd-7200");
    let mut at = 0;
    let m = closed_loop(
        device.as_mut(),
        4,
        1.0,
        10.0,
        single(|| {
            at += 128 * KIB;
            (WRITE, at - 128 * KIB, 128 * KIB)
        }),
    );
    within(m.rate(), 125e6, 0.1, "sequential writes");
}
