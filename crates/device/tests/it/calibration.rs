//! What the presets must show in virtual time: published idle figures and what datasheets imply,
//! within 10 %.

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

/// A commit as xfs does it: the data, and in every eighth commit the log, one after the other. An
/// overwrite changes only the file's time stamp, which advances only with the kernel's tick. The
/// log is written round and round.
fn commits(block: u64, file: u64, seed: u64) -> impl FnMut(usize, usize) -> Option<(Op, u64, u64)> {
    let mut dice = Dice::new(seed);
    let log_at = file + GIB;
    let (mut log, mut count) = (0, 0);
    move |_, step| match step {
        0 => {
            count += 1;
            Some((WRITE, dice.below(file / block) * block, block))
        }
        1 if count % 8 == 0 => {
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

/// Operations per second of random 4 KiB requests over the whole device.
fn random(name: &str, op: Op, depth: usize, warmup: f64) -> f64 {
    let mut device = full(name);
    let mut dice = Dice::new(2);
    let blocks = device.capacity() / 4096;
    let next = single(move || (op, dice.below(blocks) * 4096, 4096));
    let seconds = if device.profile().rotational { 20.0 } else { 2.0 };
    closed_loop(device.as_mut(), depth, warmup, seconds, next).iops()
}

/// Bytes per second of requests one after the other from the beginning of the device.
fn sequential(name: &str, op: Op, depth: usize, len: u64, warmup: f64) -> f64 {
    let mut device = full(name);
    let mut at = 0;
    let next = single(move || {
        at += len;
        (op, at - len, len)
    });
    let seconds = if device.profile().rotational { 10.0 } else { 2.0 };
    closed_loop(device.as_mut(), depth, warmup, seconds, next).rate()
}

#[test]
fn raid1_3ware_2007_does_what_was_published() {
    let name = "raid1-3ware-2007";
    within(random(name, Op::Read, 4, 1.0), 133.2, 0.1, "random reads, 4 threads");
    within(random(name, WRITE, 4, 150.0), 194.3, 0.1, "random writes, 4 threads");
    within(sequential(name, Op::Read, 4, 4 * KIB, 1.0) / 4096.0, 11_072.7, 0.1, "sequential reads");
    within(sequential(name, WRITE, 4, 4 * KIB, 5.0) / 4096.0, 13_130.2, 0.1, "sequential writes");
}

#[test]
fn disks_read_as_their_datasheets_imply() {
    // average seek + half a turn + electronics
    within(
        random("hdd-7200", Op::Read, 1, 1.0),
        1e3 / (8.5 + 4.17 + 0.1),
        0.1,
        "hdd-7200, random reads",
    );
    within(
        random("hdd-5400-smr", Op::Read, 1, 1.0),
        1e3 / (13.0 + 5.56 + 0.1),
        0.1,
        "hdd-5400-smr, random reads",
    );
    within(
        sequential("hdd-7200", Op::Read, 1, 128 * KIB, 1.0),
        125e6,
        0.1,
        "hdd-7200, sequential reads",
    );
    within(
        sequential("hdd-7200", WRITE, 4, 128 * KIB, 1.0),
        125e6,
        0.1,
        "hdd-7200, sequential writes",
    );
    within(
        sequential("hdd-5400-smr", Op::Read, 1, MIB, 1.0),
        140e6,
        0.1,
        "hdd-5400-smr, sequential reads",
    );
    within(
        sequential("hdd-5400-smr", WRITE, 4, MIB, 1.0),
        140e6,
        0.1,
        "hdd-5400-smr, sequential writes",
    );
}

#[test]
fn sas_raid10_2009_streams_at_the_rate_of_its_disks() {
    let name = "sas-raid10-2009";
    within(sequential(name, WRITE, 32, MIB, 5.0), 2.0 * 171e6, 0.1, "sequential writes, two pairs");
    within(
        sequential(name, Op::Read, 32, MIB, 1.0),
        2.0 * 171e6,
        0.1,
        "sequential reads, one of each pair",
    );
}

#[test]
fn native_queueing_orders_commands() {
    let (one, many) = (random("hdd-7200", Op::Read, 1, 1.0), random("hdd-7200", Op::Read, 32, 1.0));
    assert!((1.8..3.5).contains(&(many / one)), "{one} at depth 1, {many} at depth 32");
}

#[test]
fn solid_state_drives_do_what_their_datasheets_say() {
    within(random("sata-ssd", Op::Read, 1, 0.1), 10_000.0, 0.1, "sata-ssd, reads, depth 1");
    within(random("sata-ssd", WRITE, 1, 0.0), 42_000.0, 0.1, "sata-ssd, writes, depth 1");
    within(sequential("sata-ssd", Op::Read, 4, MIB, 0.1), 550e6, 0.1, "sata-ssd, sequential reads");
    within(
        sequential("sata-ssd", WRITE, 4, MIB, 0.1),
        520e6,
        0.1,
        "sata-ssd, sequential writes into SLC",
    );
    within(sequential("sata-ssd", WRITE, 4, MIB, 60.0), 300e6, 0.1, "sata-ssd, past the SLC area");
    within(
        random("nvme-consumer", Op::Read, 1, 0.1),
        19_000.0,
        0.1,
        "nvme-consumer, reads, depth 1",
    );
    within(sequential("nvme-consumer", WRITE, 8, MIB, 0.1), 3.3e9, 0.1, "nvme-consumer, into SLC");
    within(
        sequential("nvme-consumer", WRITE, 8, MIB, 20.0),
        1.7e9,
        0.1,
        "nvme-consumer, past the SLC area",
    );
    within(
        random("nvme-datacenter", Op::Read, 1, 0.1),
        1e6 / 77.0,
        0.1,
        "nvme-datacenter, reads, depth 1",
    );
    within(
        random("nvme-datacenter", WRITE, 64, 2.0),
        81_500.0,
        0.1,
        "nvme-datacenter, sustained random writes",
    );
    within(
        sequential("nvme-datacenter", WRITE, 8, MIB, 1.0),
        2e9,
        0.1,
        "nvme-datacenter, sequential writes",
    );
}

#[test]
fn the_cloud_volume_holds_its_price_list() {
    within(random("cloud-gp3", Op::Read, 32, 1.0), 3000.0, 0.02, "IOPS");
    within(sequential("cloud-gp3", WRITE, 8, MIB, 1.0), 125.0 * MIB as f64, 0.02, "bytes");
}

#[test]
fn the_file_server_writes_what_was_published_locally_once_its_memory_is_full() {
    let name = "usb3-btrfs-nas-2016";
    within(sequential(name, WRITE, 16, MIB, 120.0), 66e6, 0.1, "sequential writes");
    within(sequential(name, WRITE, 16, MIB, 0.0), 105e6, 0.1, "a burst goes at the link's rate");
}

#[test]
fn cheap_flash_is_a_hundred_times_slower_at_random_writes() {
    for (name, rate) in [("usb-stick", 22e6), ("sd-card", 14e6)] {
        let in_sequence = sequential(name, WRITE, 1, MIB, 1.0);
        assert!((0.6..1.0).contains(&(in_sequence / rate)), "{name}: {in_sequence}");
        let at_random = random(name, WRITE, 1, 1.0) * 4096.0;
        assert!(at_random < in_sequence / 100.0, "{name}: {at_random} against {in_sequence}");
    }
}

/// docs/devices.md has these rates. The published rate is that of the published file. A larger
/// share of a smaller file is in the cache at a time, so that the cache's sweeps over the disks are
/// shorter and denser.
#[test]
fn raid10_bbwc_2010_commits_faster_into_a_smaller_file() {
    let rate = |file| {
        let mut device = full("raid10-bbwc-2010");
        closed_loop(device.as_mut(), 10, 90.0, 60.0, commits(16 * KIB, file, 1)).iops()
    };
    within(rate(10 * GIB), 1500.0, 0.1, "10 GiB, as published");
    within(rate(2 * GIB), 1975.0, 0.03, "2 GiB, as documented");
    within(rate(20 * GIB), 1084.0, 0.03, "20 GiB, as documented");
}
