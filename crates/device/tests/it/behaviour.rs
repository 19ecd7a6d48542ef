//! What the parts do together: the collapse behind a full cache, faults, redundancy.

use floodwall_device::{Completion, Device, DeviceSpec, Nanos, Op, Request, preset_text};

use crate::workload::*;

const WRITE: Op = Op::Write { fua: false };

fn with_fault(preset: &str, extra: &str) -> Box<dyn Device + Send> {
    let spec = DeviceSpec::parse(&format!("{}\n{extra}\n", preset_text(preset).unwrap())).unwrap();
    spec.build(spec.capacity().0, 1).unwrap()
}

/// Ten threads of 16 KiB commits, beside 128 flood requests of 1 MiB at any moment from `from` on:
/// commits in each second.
fn commits_beside_a_flood(seconds: u64, from: u64, to: u64) -> Vec<u64> {
    let mut device = full("raid10-bbwc-2010");
    let mut dice = Dice::new(5);
    let (mut flood_at, mut log) = (20 * GIB, 0);
    let mut per_second = vec![0; seconds as usize];
    let mut out: Vec<Completion> = Vec::new();
    // Ids: thread in the low bits, 0 to 9 victims (data), 10 to 19 victims (log), 20 to 147 flood.
    let mut id = 0;
    let mut flooding = false;
    let mut submit = |device: &mut dyn Device, now: Nanos, who: u64| {
        id += 1;
        let (offset, len) = match who {
            0..=9 => (dice.below(10 * GIB / (16 * KIB)) * 16 * KIB, 16 * KIB),
            10..=19 => {
                log = (log + 4 * KIB) % (10 * MIB);
                (12 * GIB + log, 4 * KIB)
            }
            _ => {
                flood_at += MIB;
                (flood_at, MIB)
            }
        };
        device.submit(now, Request::new(id * 1024 + who, WRITE, offset, len));
    };
    for who in 0..10 {
        submit(device.as_mut(), Nanos::ZERO, who);
    }
    while let Some(now) = device.next_event().filter(|t| *t < Nanos::from_secs(seconds)) {
        device.advance(now, &mut out);
        for c in std::mem::take(&mut out) {
            match c.id % 1024 {
                who @ 0..=9 => submit(device.as_mut(), c.at, who + 10),
                who @ 10..=19 => {
                    per_second[(c.at.0 / 1_000_000_000) as usize] += 1;
                    submit(device.as_mut(), c.at, who - 10);
                }
                who if c.at < Nanos::from_secs(to) => submit(device.as_mut(), c.at, who),
                _ => {}
            }
        }
        if !flooding && now >= Nanos::from_secs(from) {
            flooding = true;
            for who in 20..148 {
                submit(device.as_mut(), now, who);
            }
        }
    }
    per_second
}

#[test]
fn a_flood_through_a_full_cache_collapses_commits_and_its_end_restores_them() {
    let commits = commits_beside_a_flood(40, 10, 25);
    let mean = |range: std::ops::Range<usize>| {
        commits[range.clone()].iter().sum::<u64>() as f64 / range.len() as f64
    };
    let (before, during, after) = (mean(5..10), mean(13..25), mean(30..40));
    assert!(before > 1_300.0, "{commits:?}");
    assert!(during < before / 20.0, "{commits:?}");
    assert!(after > before / 2.0, "{commits:?}");
}

#[test]
fn a_member_ten_times_slower_slows_the_array_down_and_passes() {
    let extra = "[array]\nlevel = \"raid0\"\nmembers = 4\nchunk = \"64KiB\"\n\
                 [[fault]]\nkind = \"slow\"\nmember = 2\nfrom = \"10s\"\nto = \"20s\"";
    let rate = |warmup, seconds| {
        let mut device = with_fault("hdd-7200", extra);
        let mut at = 0;
        let next = single(move || {
            at += MIB;
            (Op::Read, at - MIB, MIB)
        });
        closed_loop(device.as_mut(), 4, warmup, seconds, next).rate()
    };
    let (before, during, after) = (rate(2.0, 7.0), rate(11.0, 8.0), rate(22.0, 5.0));
    assert!(during < before / 5.0 && after > before * 0.8, "{before} {during} {after}");
}

/// Requests that failed, and bytes read from media for each byte that the host read.
fn errors_of(extra: &str, op: Op) -> (u64, f64) {
    let mut device = with_fault("hdd-7200", extra);
    let mut dice = Dice::new(7);
    closed_loop(device.as_mut(), 4, 0.0, 3.0, single(|| (op, dice.below(100_000) * 65_536, 4096)));
    let stats = device.stats();
    (stats.errors, stats.media_read_bytes as f64 / stats.read_bytes as f64)
}

#[test]
fn redundancy_hides_the_errors_of_one_member() {
    let fault = "[[fault]]\nkind = \"errors\"\nmember = 0\nreads = 0.5\nwrites = 0.5";
    for (level, members) in [("raid1", 2), ("raid10", 4), ("raid5", 3), ("raid6", 4)] {
        let array = format!(
            "[array]\nlevel = \"{level}\"\nmembers = {members}\nchunk = \"64KiB\"\n{fault}"
        );
        let (errors, reads) = errors_of(&array, Op::Read);
        assert_eq!(errors, 0, "{level}, reads");
        assert!(reads > 1.1, "{level}: what failed was read elsewhere, {reads}");
        assert_eq!(errors_of(&array, WRITE).0, 0, "{level}, writes");
    }
    let striped = format!("[array]\nlevel = \"raid0\"\nmembers = 2\nchunk = \"64KiB\"\n{fault}");
    assert!(errors_of(&striped, Op::Read).0 > 10 && errors_of(&striped, WRITE).0 > 10);
}

#[test]
fn a_small_write_to_parity_reads_first_and_a_full_row_does_not() {
    let array = "[array]\nlevel = \"raid5\"\nmembers = 5\nchunk = \"64KiB\"";
    let media = |offset, len| {
        let mut device = with_fault("hdd-7200", array);
        device.submit(Nanos::ZERO, Request::write(1, offset, len));
        let mut out = Vec::new();
        device.advance(Nanos::from_secs(5), &mut out);
        assert_eq!(out.len(), 1);
        let stats = device.stats();
        (stats.media_read_bytes, stats.media_write_bytes)
    };
    assert_eq!(media(0, 4 * KIB), (8 * KIB, 8 * KIB), "old data and parity, new data and parity");
    assert_eq!(media(0, 256 * KIB), (0, 320 * KIB), "four data chunks and their parity");
    assert_eq!(
        media(0, 192 * KIB),
        (64 * KIB, 256 * KIB),
        "three of four: read the one left alone"
    );
}

#[test]
fn reads_of_dirty_data_come_from_the_cache_and_others_from_the_disks() {
    let mut device = full("raid10-bbwc-2010");
    let mut took = |id: u64, request: Request| {
        let begin = Nanos::from_millis(50 * id);
        device.submit(begin, request);
        let mut out = Vec::new();
        device.advance(begin + Nanos::from_millis(49), &mut out);
        out[0].at.since(begin)
    };
    let miss = took(1, Request::read(1, 40 * GIB, 4 * KIB));
    let write = took(2, Request::write(2, 90 * GIB, 4 * KIB));
    let hit = took(3, Request::read(3, 90 * GIB, 4 * KIB));
    assert!(miss > Nanos::from_millis(1) && write < Nanos::from_millis(1), "{miss} {write}");
    assert!(hit < Nanos::from_millis(1), "{hit}");
}

#[test]
fn a_battery_that_fails_makes_commits_wait_for_the_disks() {
    let mut device =
        with_fault("raid10-bbwc-2010", "[[fault]]\nkind = \"battery\"\nfrom = \"10s\"");
    let mut dice = Dice::new(8);
    let mut next = || (WRITE, dice.below(2_000_000) * 4096, 4096);
    let before = closed_loop(device.as_mut(), 1, 1.0, 5.0, single(&mut next)).iops();
    assert!(!device.volatile_cache());
    let mut device =
        with_fault("raid10-bbwc-2010", "[[fault]]\nkind = \"battery\"\nfrom = \"10s\"");
    let after = closed_loop(device.as_mut(), 1, 30.0, 5.0, single(&mut next)).iops();
    assert!(device.volatile_cache());
    assert!(before > 2_000.0 && after < 400.0, "{before} {after}");
}

#[test]
fn a_worn_drive_writes_several_times_what_the_host_writes_and_pauses() {
    let mut device = full("sata-ssd-worn");
    let mut dice = Dice::new(9);
    let m = closed_loop(
        device.as_mut(),
        32,
        5.0,
        20.0,
        single(|| (WRITE, dice.below(2_000_000) * 4096, 4096)),
    );
    let stats = device.stats();
    let amplification = stats.media_write_bytes as f64 / stats.write_bytes as f64;
    assert!((3.0..6.0).contains(&amplification), "{amplification}");
    assert!(m.iops() < 20_000.0, "{}", m.iops());
}

#[test]
fn reads_of_a_drive_wait_behind_its_programs() {
    let worst = |name: &str, writers: usize| {
        let mut device = full(name);
        let mut dice = Dice::new(10);
        let mut out: Vec<Completion> = Vec::new();
        for i in 0..=writers as u64 {
            device.submit(
                Nanos::ZERO,
                Request::new(i, if i == 0 { Op::Read } else { WRITE }, i * MIB, 64 * KIB),
            );
        }
        let (mut began, mut worst, mut id) = (Nanos::ZERO, Nanos::ZERO, 0);
        while let Some(now) = device.next_event().filter(|t| *t < Nanos::from_secs(3)) {
            device.advance(now, &mut out);
            for c in out.drain(..) {
                id += 1;
                let offset = dice.below(1_000_000) * 64 * KIB;
                if c.id % 1024 == 0 {
                    worst = worst.max(c.at.since(began));
                    began = c.at;
                    device.submit(c.at, Request::read(id * 1024, offset / 2, 4096));
                } else {
                    device.submit(c.at, Request::write(id * 1024 + 1, offset / 2, 64 * KIB));
                }
            }
        }
        worst
    };
    let (alone, beside) = (worst("sata-ssd-worn", 0), worst("sata-ssd-worn", 8));
    assert!(beside.0 > 5 * alone.0, "{alone} alone, {beside} beside writes");
}

#[test]
fn a_flush_of_a_drive_waits_for_the_last_program_that_it_covers() {
    let mut device = full("sata-ssd");
    let mut out: Vec<Completion> = Vec::new();
    // A program unit each, on two dies; a program takes 1 ms. The second begins 0.9 ms after the
    // first.
    device.submit(Nanos::ZERO, Request::write(1, 0, 64 * KIB));
    device.advance(Nanos::from_micros(900), &mut out);
    device.submit(Nanos::from_micros(900), Request::write(2, MIB, 64 * KIB));
    device.advance(Nanos::from_micros(1_050), &mut out);
    assert_eq!(
        out.iter().map(|c| c.id).collect::<Vec<_>>(),
        [1, 2],
        "both acknowledged from the buffer"
    );
    device.submit(Nanos::from_micros(1_050), Request::flush(3));
    device.advance(Nanos::from_millis(10), &mut out);
    let flushed = out[2].at;
    assert!(
        flushed > Nanos::from_micros(1_900) && flushed < Nanos::from_micros(2_200),
        "{flushed}"
    );
}
