//! Traces that may only change on purpose: a faster model must still say the same.
//!
//! Every preset and some devices of this file run under three kinds of load. The hash covers
//! completions, losses of power cuts, and counters. The ten-disk array is a copy of its preset at
//! one time, so that calibrating the preset does not move it.

use floodwall_device::{
    Completion, Device, DeviceSpec, Nanos, Op, Request, preset_names, preset_text,
};

use crate::workload::{Dice, GIB, KIB, MIB};

const WRITE: Op = Op::Write { fua: false };

const TEN_DISKS: &str = r#"
name = "ten-disks"
description = "ten disks in RAID 10 behind a protected cache"
default_size = "32GiB"
[disk]
capacity = "1000204886016B"
speed = "7200rpm"
outer_rate = "125MB/s"
inner_rate = "60MB/s"
heads = 4
head_switch = "0.8ms"
track_to_track = "1ms"
average_seek = "8.5ms"
full_stroke = "18ms"
write_settle = "1ms"
command = "0.1ms"
link_rate = "300MB/s"
queue_depth = 32
read_ahead = "2MiB"
segments = 16
write_cache = "0B"
[array]
level = "raid10"
members = 10
chunk = "512KiB"
[cache]
size = "64MiB"
copies = 2
mode = "protected"
command = "0.03ms"
latency = "0.3ms"
link_rate = "2GB/s"
backing_rate = "502MB/s"
high = 0.1
low = 0.05
idle = "100ms"
destage_depth = 9
destage_max = "512KiB"
"#;

fn devices() -> Vec<(String, String)> {
    let text = |name: &str| preset_text(name).unwrap().to_owned();
    let mut all: Vec<(String, String)> = preset_names()
        .filter(|n| *n != "raid10-bbwc-2010")
        .map(|n| (n.to_owned(), text(n)))
        .collect();
    let volatile = TEN_DISKS.replace("\"protected\"", "\"volatile\"");
    all.extend([
        ("ten disks".to_owned(), TEN_DISKS.to_owned()),
        (
            "ten disks, write-through".to_owned(),
            TEN_DISKS.replace("\"protected\"", "\"write-through\""),
        ),
        (
            // Smaller than a request: then one gets it to itself.
            "ten disks, a small cache".to_owned(),
            TEN_DISKS.replace("size = \"64MiB\"", "size = \"256KiB\""),
        ),
        (
            "a disk without a cache".to_owned(),
            text("hdd-7200").replace("write_cache = \"32MiB\"", "write_cache = \"0B\""),
        ),
        (
            "ten disks, volatile caches".to_owned(),
            volatile.replace("write_cache = \"0B\"", "write_cache = \"1MiB\""),
        ),
        (
            "ten disks, the battery fails and one stalls".to_owned(),
            format!(
                "{TEN_DISKS}[[fault]]\nkind = \"battery\"\nfrom = \"300ms\"\n\
                 [[fault]]\nkind = \"stall\"\nmember = 3\nevery = \"500ms\"\nlength = \"200ms\"\n"
            ),
        ),
    ]);
    for (level, members, failed) in
        [("raid5", 4, "[]"), ("raid6", 6, "[0, 3]"), ("raid1", 3, "[0]")]
    {
        let array = format!(
            "[array]\nlevel = \"{level}\"\nmembers = {members}\nchunk = \"64KiB\"\n\
             failed = {failed}\n\
             [[fault]]\nkind = \"errors\"\nmember = 2\nreads = 0.02\nwrites = 0.02\n"
        );
        all.push((level.to_owned(), format!("{}\n{array}", text("hdd-7200"))));
    }
    all
}

/// FNV-1a, 64 bits.
struct Hash(u64);

impl Hash {
    fn add(&mut self, values: &[u64]) {
        for b in values.iter().flat_map(|v| v.to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn completion(&mut self, c: &Completion) {
        self.add(&[c.id, c.at.0, u64::from(c.result.is_ok())]);
    }

    fn counters(&mut self, device: &dyn Device) {
        let s = device.stats();
        self.add(&[s.cache_bytes, s.cache_waiting, s.media_read_bytes, s.media_write_bytes]);
        self.add(&[s.media_busy_ns, s.seeks, s.seek_bytes, s.busy_ns, s.errors]);
    }
}

/// All kinds of requests, at irregular times, over a small and a large part of the device, with
/// power cuts.
fn mixture(device: &mut dyn Device, hash: &mut Hash) {
    let mut dice = Dice::new(11);
    let mut out = Vec::new();
    let mut now = Nanos::ZERO;
    let blocks = device.capacity() / 4096 - 512;
    for id in 0..1200 {
        let hurried = id / 100 % 3 != 0;
        now += Nanos(dice.below(if hurried { 300_000 } else { 20_000_000 }));
        device.advance(now, &mut out);
        let op = match dice.below(20) {
            0..=7 => Op::Read,
            8..=14 => WRITE,
            15 => Op::Write { fua: true },
            16 | 17 => Op::Flush,
            18 => Op::WriteZeroes,
            _ => Op::Discard,
        };
        let span = if dice.below(2) == 0 { 3000 } else { blocks };
        let longest = if dice.below(8) == 0 { 300 } else { 4 };
        let len = 1 + dice.below(longest);
        let request = match op {
            Op::Flush => Request::flush(id),
            _ => Request::new(id, op, dice.below(span) * 4096, len * 4096),
        };
        device.submit(now, request);
        if id % 300 == 299 {
            hash.counters(device);
            hash.add(&[device.oldest_volatile().unwrap_or(u64::MAX)]);
            for e in device.powercut(now).extents {
                hash.add(&[e.offset, e.len, e.since]);
            }
        }
    }
    device.advance(now + Nanos::from_secs(600), &mut out);
    out.iter().for_each(|c| hash.completion(c));
}

/// A closed loop of `depth` requests that `next(number)` describes.
fn closed(
    device: &mut dyn Device,
    hash: &mut Hash,
    depth: u64,
    requests: u64,
    mut next: impl FnMut(u64) -> (Op, u64, u64),
) {
    let mut submit = |device: &mut dyn Device, at, id| {
        let (op, offset, len) = next(id);
        device.submit(at, Request::new(id, op, offset, len));
    };
    for id in 0..depth {
        submit(device, Nanos::ZERO, id);
    }
    let mut out = Vec::new();
    let mut id = depth;
    while let Some(now) = device.next_event().filter(|_| id < requests) {
        device.advance(now, &mut out);
        for c in out.drain(..) {
            hash.completion(&c);
            // Of the same kind as the one that it follows: ids count the rounds of a slot.
            submit(device, c.at, c.id + depth);
            id += 1;
        }
    }
}

/// Ten writers of 16 KiB beside eight requests of a sequential stream.
fn flood(device: &mut dyn Device, hash: &mut Hash) {
    let mut dice = Dice::new(12);
    let (half, mut at) = (device.capacity() / 2 / MIB, 0);
    closed(device, hash, 18, 1500, move |id| {
        if id % 18 < 10 {
            (WRITE, dice.below(half * 64) * 16 * KIB, 16 * KIB)
        } else {
            at = (at + MIB) % (half * MIB);
            (WRITE, half * MIB + at, MIB)
        }
    });
}

/// Small reads and writes all over, sixty-four at a time.
fn deep(device: &mut dyn Device, hash: &mut Hash) {
    let mut dice = Dice::new(13);
    let blocks = device.capacity() / 4096;
    closed(device, hash, 64, 5000, move |id| {
        (if id % 3 == 0 { WRITE } else { Op::Read }, dice.below(blocks) * 4096, 4096)
    });
}

#[test]
fn traces_under_three_loads_are_the_known_ones() {
    let loads: [fn(&mut dyn Device, &mut Hash); 3] = [mixture, flood, deep];
    let mut found = Vec::new();
    for (name, text) in devices() {
        let spec = DeviceSpec::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let hashes = loads.map(|load| {
            let mut device = spec.build(spec.capacity().0.min(64 * GIB), 5).unwrap();
            let mut hash = Hash(0xcbf2_9ce4_8422_2325);
            load(device.as_mut(), &mut hash);
            hash.counters(device.as_ref());
            hash.0
        });
        found.push((name, hashes));
    }
    let table: String = found
        .iter()
        .map(|(n, [a, b, c])| format!("    (\"{n}\", [{a:#018x}, {b:#018x}, {c:#018x}]),\n"))
        .collect();
    let known: Vec<(String, [u64; 3])> = KNOWN.iter().map(|(n, h)| ((*n).to_owned(), *h)).collect();
    assert!(found == known, "the traces are now\n{table}");
}

#[rustfmt::skip]
const KNOWN: &[(&str, [u64; 3])] = &[
    ("raid1-3ware-2007", [0xbec0_a573_e313_2d63, 0x4acd_22d7_9d0e_f25a, 0xc26a_5e89_9d50_855a]),
    ("sas-raid10-2009", [0x0271_3631_ba71_90e0, 0xc82e_8353_b3f9_e0ff, 0xa42b_5e5d_c2dc_a7e0]),
    ("hdd-7200", [0xc65a_cd3a_96cd_5880, 0x23be_71d6_9f2f_be9a, 0x28d5_0fa5_7b7c_d291]),
    ("hdd-5400-smr", [0xbf8e_8b00_2665_c980, 0x481b_b318_2e77_3ad6, 0xede9_4bc0_73fe_bf83]),
    ("sata-ssd", [0x4d1d_21cb_c06b_0ce0, 0x6575_0984_fc61_d94e, 0x5309_eecc_af5e_57f4]),
    ("sata-ssd-worn", [0xc6c5_ec02_bd0f_b6e5, 0xd8f3_9cd4_df9d_f4ae, 0xe2b1_c45a_48d6_64aa]),
    ("nvme-consumer", [0xc2a2_ab37_b5d8_2677, 0xaa91_3983_7d0b_7a6b, 0x7c12_47e9_1b2b_6ffc]),
    ("nvme-datacenter", [0xabda_573d_2c10_6ad3, 0x5f31_242d_a540_dc02, 0x4b4e_5c8d_86f3_1fc1]),
    ("usb-stick", [0x0476_1f73_efd7_c4f2, 0x74ed_02b6_b2d8_644e, 0x31db_e6eb_5d49_fac6]),
    ("sd-card", [0x3e61_1a04_2fa2_eb08, 0xe42f_ee12_58e6_29a2, 0x5d3d_96ea_7c41_2a39]),
    ("cloud-gp3", [0x6be7_d6f0_ea36_93c4, 0x3398_324a_641e_bcbc, 0x437f_beaf_fe5d_8fad]),
    ("usb3-btrfs-nas-2016", [0x99e9_9250_aeee_e416, 0x5065_0b09_d58f_136f, 0x2b2f_61ae_3608_eb04]),
    ("null", [0x1ee1_4b1e_00b6_9317, 0x8872_6fdf_aaad_2300, 0xc0af_d6db_8274_cec5]),
    ("ten disks", [0xdac8_4ee0_13d9_c7c7, 0x86a6_a340_cd0c_7bc2, 0xf51f_20c1_bf82_111f]),
    ("ten disks, \
        write-through", [0x3b3a_39f4_2ea1_06cf, 0x0adc_f14a_2fcc_dd2e, 0xa5d6_bd60_d5e7_288f]),
    ("ten disks, a small \
        cache", [0x66a6_6fe4_8dbd_d474, 0xf439_37f7_7021_33c3, 0x6bf7_d708_0c98_e356]),
    ("a disk without a \
        cache", [0x49e2_680c_5cb8_c2ca, 0xd124_a22c_ce8a_156b, 0x9abe_b1a8_6fd0_6a43]),
    ("ten disks, volatile \
        caches", [0xd984_742c_bcad_3677, 0x3aee_7c50_366c_0811, 0x7839_0c71_b7e1_8e6b]),
    ("ten disks, the battery fails and one \
        stalls", [0x0583_c0d5_79fb_bbee, 0x4074_68da_0cd9_fe3a, 0x152f_bdf0_613d_fcd9]),
    ("raid5", [0xfdac_2aee_a7b2_a9a0, 0x794f_d303_3706_27b9, 0x4b32_92f0_1a29_faad]),
    ("raid6", [0x4151_b962_5809_1dca, 0x73c7_65ae_e949_8517, 0xd918_c083_6c1a_659a]),
    ("raid1", [0x47cb_9d8d_27b6_ff05, 0x9d03_5d9c_b298_563c, 0x0e28_c40d_a4ff_8091]),
];
