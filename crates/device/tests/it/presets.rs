//! Device files: presets, refusals, and golden traces.

use floodwall_device::{Completion, DeviceSpec, Nanos, Op, Request, preset_names, preset_text};

use crate::workload::{Dice, GIB};

fn error(text: &str) -> String {
    DeviceSpec::parse(text).unwrap_err().to_string()
}

/// A preset with one thing changed.
fn changed(preset: &str, from: &str, to: &str) -> String {
    let text = preset_text(preset).unwrap();
    assert!(text.contains(from), "{preset} has no {from}");
    text.replacen(from, to, 1)
}

#[test]
fn every_preset_reads_and_is_named_like_its_file() {
    for name in preset_names() {
        let spec = DeviceSpec::preset(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(spec.name, name);
        assert!(!spec.description.is_empty() && !spec.model.is_empty(), "{name}");
        assert!(spec.model.len() <= 20, "{name}: longer than a loop device's or SCSI model string");
        let device = spec.build(spec.default_size.0, 1).unwrap();
        let profile = device.profile();
        assert_eq!(profile.capacity_bytes, spec.default_size.0, "{name}");
        assert_eq!(profile.rotational, spec.rotational(), "{name}");
        assert_eq!(profile.volatile_cache, spec.volatile_cache(), "{name}");
        assert!(profile.queue_depth > 0, "{name}");
    }
}

#[test]
fn the_2010_array_is_the_published_one() {
    let spec = DeviceSpec::preset("raid10-bbwc-2010").unwrap();
    assert_eq!(spec.array.as_ref().map(|a| a.members), Some(10));
    assert_eq!(spec.cache.map(|c| c.size), Some(512 << 20));
    assert!(!spec.volatile_cache());
    assert!(spec.capacity().0 > 4_990_000_000_000);
}

#[test]
fn an_unknown_preset_is_answered_with_the_nearest() {
    let message = DeviceSpec::preset("raid10-bbwc").unwrap_err().to_string();
    assert_eq!(message, "there is no preset 'raid10-bbwc'; did you mean 'raid10-bbwc-2010'?");
    let message = DeviceSpec::preset("zzz").unwrap_err().to_string();
    assert!(message.contains("hdd-7200, "), "{message}");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let text = changed("null", "latency =", "latncy =");
    let line = text.lines().position(|l| l.starts_with("latncy")).unwrap() + 1;
    assert_eq!(error(&text), format!("line {line}: unknown key 'latncy'; did you mean 'latency'?"));
    let text = changed("raid10-bbwc-2010", "\"raid10\"", "\"raid01\"");
    assert!(
        error(&text).contains("unknown value 'raid01'; did you mean 'raid"),
        "{}",
        error(&text)
    );
}

#[test]
fn values_need_their_units() {
    for (preset, from, to, part) in [
        ("hdd-7200", "write_cache = \"32MiB\"", "write_cache = 32", "'32' needs a unit"),
        ("hdd-7200", "\"7200rpm\"", "\"7200\"", "'7200' is not a speed of rotation"),
        (
            "hdd-7200",
            "average_seek = \"8.5ms\"",
            "average_seek = \"-8.5ms\"",
            "'-8.5ms' is negative",
        ),
        ("hdd-7200", "outer_rate = \"125MB/s\"", "outer_rate = \"125MB\"", "'125MB' is not a rate"),
        ("cloud-gp3", "\"3000/s\"", "\"3000\"", "'3000' is not a rate of operations"),
    ] {
        let message = error(&changed(preset, from, to));
        assert!(message.starts_with("line ") && message.contains(part), "{message}");
    }
}

#[test]
fn devices_that_can_not_be_are_refused_with_the_reason() {
    for (preset, from, to, part) in [
        ("raid10-bbwc-2010", "members = 10", "members = 3", "array: RAID 10 of 3 is impossible"),
        (
            "raid10-bbwc-2010",
            "members = 10",
            "members = 2",
            "array: RAID 10 of 2 is impossible; use 4 to 27",
        ),
        (
            "raid10-bbwc-2010",
            "size = \"512MiB\"",
            "size = \"6TB\"",
            "cache: size (6 TB) is larger than the device",
        ),
        (
            "raid10-bbwc-2010",
            "write_cache = \"0B\"",
            "write_cache = \"32MiB\"",
            "cache: is protected, but",
        ),
        ("raid10-bbwc-2010", "low = 0.05", "low = 0.5", "cache: low (0.5) is above high (0.1)"),
        ("raid10-bbwc-2010", "chunk = \"512KiB\"", "chunk = \"1000B\"", "not a multiple of 4 KiB"),
        ("raid10-bbwc-2010", "members = 10", "members = 10\nfailed = [4, 5]", "has lost its data"),
        (
            "hdd-7200",
            "outer_rate = \"125MB/s\"",
            "outer_rate = \"0MB/s\"",
            "disk: outer_rate is zero",
        ),
        (
            "hdd-7200",
            "inner_rate = \"60MB/s\"",
            "inner_rate = \"160MB/s\"",
            "inner tracks are shorter",
        ),
        ("hdd-7200", "full_stroke = \"18ms\"", "full_stroke = \"8ms\"", "no rising seek curve"),
        (
            "hdd-7200",
            "write_cache = \"32MiB\"",
            "write_cache = \"2TB\"",
            "write_cache is larger than the disk",
        ),
        ("hdd-7200", "queue_depth = 32", "queue_depth = 0", "queue_depth = 0"),
        (
            "hdd-7200",
            "default_size = \"32GiB\"",
            "default_size = \"32TiB\"",
            "default_size: (32 TiB) must be",
        ),
        (
            "sata-ssd",
            "spare = 0.074",
            "spare = 0.0",
            "garbage collection needs flash beyond the capacity",
        ),
        ("sata-ssd", "filled = 0.3", "filled = 1.3", "filled = 1.3 is not a share"),
        ("usb-stick", "stall = \"1.5s\"", "", "stall_every and stall belong together"),
        ("cloud-gp3", "iops_burst = 300", "iops_burst = 0", "iops_burst = 0 must be above zero"),
        (
            "null",
            "[null]",
            "[link]\nrate = \"0MB/s\"\nround_trip = \"1ms\"\nserver = \"0ms\"\n[null]",
            "rate is zero",
        ),
    ] {
        let message = error(&changed(preset, from, to));
        assert!(message.contains(part), "{message}");
    }
    assert!(
        error("name = \"x\"\ndescription = \"\"\ndefault_size = \"1GiB\"\n")
            .contains("exactly one of [disk]")
    );
}

#[test]
fn faults_are_checked_against_the_device() {
    let with = |preset: &str, fault: &str| {
        error(&format!("{}\n[[fault]]\n{fault}\n", preset_text(preset).unwrap()))
    };
    for (preset, fault, part) in [
        (
            "raid10-bbwc-2010",
            "kind = \"slow\"\nmember = 10",
            "fault 1: names member 10; members are 0 to 9",
        ),
        ("hdd-7200", "kind = \"slow\"\nmember = 0", "of a device that is no array"),
        ("hdd-7200", "kind = \"battery\"", "there is no protected cache"),
        (
            "hdd-7200",
            "kind = \"stall\"\nevery = \"1s\"\nlength = \"2s\"",
            "nothing would ever move",
        ),
        ("hdd-7200", "kind = \"slow\"\nfrom = \"9s\"\nto = \"3s\"", "ends before it begins"),
        ("hdd-7200", "kind = \"errors\"", "needs 'reads' or 'writes'"),
        ("hdd-7200", "kind = \"errors\"\nreads = 0.1\nevery = \"1s\"", "'every' means nothing"),
    ] {
        let message = with(preset, fault);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_device_can_not_be_larger_than_it_is() {
    let spec = DeviceSpec::preset("hdd-7200").unwrap();
    for bytes in [0, spec.capacity().0 + 1] {
        let message = spec.build(bytes, 1).err().unwrap().to_string();
        assert!(message.starts_with("hdd-7200 can't have"), "{message}");
    }
}

/// FNV-1a over the completions of a fixed stream of requests to the first 2 GiB of a device that
/// exposes `bytes`.
fn fingerprint(name: &str, bytes: u64) -> u64 {
    let mut device = DeviceSpec::preset(name).unwrap().build(bytes, 42).unwrap();
    let mut dice = Dice::new(99);
    let mut out: Vec<Completion> = Vec::new();
    let mut now = Nanos::ZERO;
    for id in 0..400 {
        now += Nanos(dice.below(2_000_000));
        device.advance(now, &mut out);
        let op = match dice.below(10) {
            0..=4 => Op::Read,
            5..=7 => Op::Write { fua: false },
            8 => Op::Write { fua: true },
            _ => Op::Flush,
        };
        let blocks = 1 + dice.below(64);
        let request = match op {
            Op::Flush => Request::flush(id),
            _ => Request::new(id, op, dice.below(2 * GIB / 4096 - 64) * 4096, blocks * 4096),
        };
        device.submit(now, request);
    }
    device.advance(now + Nanos::from_secs(600), &mut out);
    assert_eq!(out.len(), 400, "{name}");
    out.iter()
        .flat_map(|c| [c.id, c.at.0])
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Changes when a model or a preset changes: then look at docs/devices.md too.
#[test]
fn traces_are_the_known_ones() {
    let found: Vec<(&str, u64)> = preset_names().map(|n| (n, fingerprint(n, 8 * GIB))).collect();
    assert_eq!(found, GOLDEN);
}

/// A lab's `--size` exposes the device's beginning: zones, seeks and caches are those of the whole
/// device.
#[test]
fn the_exposed_size_changes_no_completion() {
    for (name, golden) in GOLDEN {
        let whole = DeviceSpec::preset(name).unwrap().capacity().0;
        for bytes in [2 * GIB, whole] {
            assert_eq!(fingerprint(name, bytes), *golden, "{name} with {bytes} bytes");
        }
    }
}

const GOLDEN: &[(&str, u64)] = &[
    ("raid10-bbwc-2010", 0xfd68_39c8_c8a1_a668),
    ("raid1-3ware-2007", 0x24f1_4975_a65d_90da),
    ("sas-raid10-2009", 0x41da_fc55_1c8b_21b7),
    ("hdd-7200", 0xf29c_cf29_6fa4_9efe),
    ("hdd-5400-smr", 0xe91b_e4b1_93a7_5c8d),
    ("sata-ssd", 0x5893_27f0_6b0e_a89c),
    ("sata-ssd-worn", 0x2378_a34a_9ee6_38d4),
    ("nvme-consumer", 0x1ac1_ced1_63d9_f4cd),
    ("nvme-datacenter", 0x8137_e69c_0f13_baf6),
    ("usb-stick", 0x4730_f889_adc9_016a),
    ("sd-card", 0x9690_f9a1_0bb1_9a98),
    ("cloud-gp3", 0x4972_13e6_0f9a_eff9),
    ("usb3-btrfs-nas-2016", 0x6668_6f7d_4abf_7d73),
    ("null", 0x0aac_af85_6113_7f43),
];
