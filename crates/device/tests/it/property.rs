//! What must hold for every device and every stream of requests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use floodwall_device::{
    Completion, Device, DeviceSpec, LostWrites, Nanos, Op, Request, preset_names, preset_text,
};
use proptest::prelude::*;

const BLOCK: u64 = 4096;
/// Streams touch this many blocks: few enough for rewrites, enough for several chunks and rows.
const BLOCKS: u64 = 2048;

/// A request as generated: gap since the last one in microseconds, what, first block, number of
/// blocks.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap_us: u64,
    kind: u8,
    block: u64,
    blocks: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![4 => Just(0u64), 4 => 0u64..2_000, 1 => 0u64..300_000];
    let blocks = prop_oneof![4 => 1u64..5, 1 => 1u64..257];
    let step = (gap, 0u8..20, 0..BLOCKS, blocks).prop_map(|(gap_us, kind, block, blocks)| Step {
        gap_us,
        kind,
        block,
        blocks: blocks.min(BLOCKS - block),
    });
    prop::collection::vec(step, 1..120)
}

/// Presets, and variations of them that reach the rest of the code.
static DEVICES: LazyLock<Vec<(String, DeviceSpec)>> = LazyLock::new(devices);

fn devices() -> Vec<(String, DeviceSpec)> {
    let mut all: Vec<(String, String)> =
        preset_names().map(|n| (n.to_owned(), preset_text(n).unwrap().to_owned())).collect();
    let text = |name: &str| preset_text(name).unwrap().to_owned();
    let disk = text("hdd-7200");
    for (level, members, failed) in [
        ("raid0", 3, "[]"),
        ("raid1", 3, "[0]"),
        ("raid10", 4, "[2]"),
        ("raid5", 4, "[]"),
        ("raid5", 4, "[1]"),
        ("raid6", 5, "[]"),
        ("raid6", 6, "[0, 3]"),
    ] {
        let array = format!(
            "\n[array]\nlevel = \"{level}\"\nmembers = {members}\nchunk = \"64KiB\"\n\
             failed = {failed}\n"
        );
        all.push((format!("{level} of {members} without {failed}"), format!("{disk}{array}")));
    }
    let small = text("raid10-bbwc-2010").replace("size = \"512MiB\"", "size = \"256KiB\"");
    all.push(("small protected cache".into(), small.clone()));
    all.push((
        "write-through".into(),
        small.replace("mode = \"protected\"", "mode = \"write-through\""),
    ));
    all.push((
        "small volatile cache".into(),
        small.replace("mode = \"protected\"", "mode = \"volatile\""),
    ));
    let battery =
        format!("{small}\n[[fault]]\nkind = \"battery\"\nfrom = \"{}ms\"\n", BATTERY.0 / 1_000_000);
    all.push((BATTERY_FAILS.into(), battery));
    all.push((
        "slow member, stalls".into(),
        format!(
            "{small}\n[[fault]]\nkind = \"slow\"\nmember = 1\nfactor = 10.0\nfrom = \"5ms\"\n\
             to = \"80ms\"\n\
             [[fault]]\nkind = \"stall\"\nevery = \"50ms\"\nlength = \"20ms\"\n"
        ),
    ));
    all.push((
        "small disk cache".into(),
        disk.replace("write_cache = \"32MiB\"", "write_cache = \"128KiB\""),
    ));
    all.push((
        "small ssd buffer".into(),
        text("sata-ssd").replace("buffer = \"16MiB\"", "buffer = \"64KiB\""),
    ));
    let shingled = text("hdd-5400-smr").replace("map_entries = 200000", "map_entries = 3");
    all.push(("shingled with a full map".into(), shingled));
    let parse = |(name, text): (String, String)| {
        let spec = DeviceSpec::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, spec)
    };
    all.into_iter().map(parse).collect()
}

/// The device whose battery fails, and when.
const BATTERY_FAILS: &str = "battery fails";
const BATTERY: Nanos = Nanos(20_000_000);

struct Flight {
    request: Request,
    submitted: Nanos,
    /// Newest acknowledged version of each block when it was submitted.
    seen: BTreeMap<u64, u64>,
}

/// The reference: acknowledged writes and their times, block by block, and the guarantees that
/// follow.
struct Harness<'a> {
    name: &'a str,
    device: Box<dyn Device + Send>,
    now: Nanos,
    next_id: u64,
    flights: BTreeMap<u64, Flight>,
    /// Versions acknowledged, ascending, per block.
    acknowledged: BTreeMap<u64, Vec<u64>>,
    /// Versions that a flush or FUA has made stable, per block.
    stable: BTreeMap<u64, u64>,
    trace: Vec<Completion>,
    bytes: [u64; 2],
}

fn blocks_of(r: &Request) -> std::ops::Range<u64> {
    r.offset / BLOCK..r.end() / BLOCK
}

impl<'a> Harness<'a> {
    fn new(name: &'a str, spec: &DeviceSpec, seed: u64) -> Self {
        Self {
            name,
            device: spec.build(1 << 30, seed).unwrap(),
            now: Nanos::ZERO,
            next_id: 1,
            flights: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            stable: BTreeMap::new(),
            trace: Vec::new(),
            bytes: [0; 2],
        }
    }

    fn submit(&mut self, step: Step) {
        let op = match step.kind {
            0..=6 => Op::Read,
            7..=13 => Op::Write { fua: false },
            14 | 15 => Op::Write { fua: true },
            16..=18 => Op::Flush,
            _ => Op::WriteZeroes,
        };
        let (offset, len) =
            if op == Op::Flush { (0, 0) } else { (step.block * BLOCK, step.blocks * BLOCK) };
        let request = Request::new(self.next_id, op, offset, len);
        // Overlapping writes in flight have no defined order; a kernel does not send them.
        let clashes = |f: &Flight| {
            f.request.op.is_write() && f.request.offset < request.end() && offset < f.request.end()
        };
        if op.is_write() && self.flights.values().any(clashes) {
            return;
        }
        self.next_id += 1;
        let newest =
            |b: u64| (b, self.acknowledged.get(&b).and_then(|v| v.last()).copied().unwrap_or(0));
        let seen = match op {
            Op::Flush => self.acknowledged.keys().map(|b| newest(*b)).collect(),
            _ => blocks_of(&request).map(newest).collect(),
        };
        self.flights.insert(request.id, Flight { request, submitted: self.now, seen });
        self.device.submit(self.now, request);
    }

    fn run_to(&mut self, to: Nanos) {
        let mut out = Vec::new();
        self.device.advance(to, &mut out);
        self.now = to;
        for c in out {
            assert!(c.at <= to, "{}: {c:?} after {to:?}", self.name);
            assert!(
                self.trace.last().is_none_or(|l| l.at <= c.at),
                "{}: {c:?} out of order",
                self.name
            );
            self.complete(&c);
            self.trace.push(c);
        }
    }

    fn complete(&mut self, c: &Completion) {
        let name = self.name;
        let f = self
            .flights
            .remove(&c.id)
            .unwrap_or_else(|| panic!("{name}: {c:?} was never in flight"));
        assert_eq!(c.result, Ok(()), "{name}");
        let profile = self.device.profile();
        let r = f.request;
        if matches!(r.op, Op::Read | Op::Write { .. }) {
            let least =
                f.submitted + profile.floor + Nanos(Nanos::for_bytes(r.len, profile.max_rate).0);
            assert!(c.at.0 + 1 >= least.0, "{name}: {r:?} took less than {least:?}: {c:?}");
            self.bytes[usize::from(r.op == Op::Read)] += r.len;
        }
        // A protected cache makes FLUSH and FUA free. Its contents at the failure of its battery
        // are at risk until they are destaged.
        let is_lasting = name != BATTERY_FAILS || f.submitted >= BATTERY;
        match r.op {
            Op::Write { .. } | Op::WriteZeroes => {
                for b in blocks_of(&r) {
                    self.acknowledged.entry(b).or_default().push(r.version);
                    if r.op == (Op::Write { fua: true }) && is_lasting {
                        self.stable.insert(b, r.version);
                    }
                }
            }
            Op::Flush if !is_lasting => {}
            Op::Flush => {
                for (b, version) in f.seen {
                    let stable = self.stable.entry(b).or_default();
                    *stable = version.max(*stable);
                }
            }
            Op::Read => {
                for (b, seen) in f.seen {
                    let newest =
                        self.acknowledged.get(&b).and_then(|v| v.last()).copied().unwrap_or(0);
                    assert!(
                        newest >= seen,
                        "{name}: a read of block {b} would see {newest}, older than {seen}"
                    );
                }
            }
            Op::Discard => {}
        }
    }

    fn play(&mut self, steps: &[Step]) {
        for step in steps {
            self.run_to(self.now + Nanos::from_micros(step.gap_us));
            self.submit(*step);
        }
    }

    /// Runs until nothing is in flight.
    fn drain(&mut self) {
        let mut events = 0;
        while !self.flights.is_empty() {
            let next = self.device.next_event();
            let next = next.unwrap_or_else(|| {
                panic!("{}: {:?} never completes", self.name, self.flights.keys())
            });
            self.run_to(next.max(self.now));
            events += 1;
            assert!(events < 1_000_000, "{}: no end", self.name);
        }
        let rate = self.device.profile().max_rate;
        let least = |bytes: &u64| Nanos::for_bytes(*bytes, rate);
        assert!(
            self.bytes.iter().all(|b| least(b).0 <= self.now.0 + 1),
            "{}: faster than its link",
            self.name
        );
    }

    /// Cuts the power and compares the surviving data with the required data.
    fn cut(&mut self) -> LostWrites {
        let name = self.name;
        let oldest = self.device.oldest_volatile();
        let volatile = self.device.volatile_cache();
        let lost = self.device.powercut(self.now);
        self.flights.clear();
        for e in &lost.extents {
            assert!(oldest.is_some_and(|o| o <= e.since), "{name}: {e:?} is older than {oldest:?}");
        }
        for (b, versions) in &mut self.acknowledged {
            let touching = lost
                .extents
                .iter()
                .filter(|e| e.offset < (b + 1) * BLOCK && b * BLOCK < e.offset + e.len);
            let acknowledged = versions.len();
            if let Some(since) = touching.map(|e| e.since).min() {
                versions.retain(|v| *v < since);
            }
            assert!(
                volatile || versions.len() == acknowledged,
                "{name}: no volatile cache, and block {b} lost a write"
            );
            let left = versions.last().copied().unwrap_or(0);
            let must = self.stable.get(b).copied().unwrap_or(0);
            assert!(
                left >= must,
                "{name}: block {b} fell back to version {left}, but {must} was stable"
            );
        }
        lost
    }
}

fn trace_of(name: &str, spec: &DeviceSpec, steps: &[Step], seed: u64) -> Vec<Completion> {
    let mut h = Harness::new(name, spec, seed);
    h.play(steps);
    h.drain();
    h.trace
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_request_completes_once_in_time_order_and_not_too_soon(steps in steps()) {
        for (name, spec) in DEVICES.iter() {
            trace_of(name, spec, &steps, 1);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace(steps in steps(), seed in any::<u64>()) {
        for (name, spec) in DEVICES.iter() {
            let (a, b) = (trace_of(name, spec, &steps, seed), trace_of(name, spec, &steps, seed));
            prop_assert_eq!(a, b, "{}", name);
        }
    }

    #[test]
    fn a_power_cut_takes_nothing_that_was_flushed_and_the_device_works_on(
        before in steps(), after in steps(), wait_us in prop_oneof![Just(0u64), 0u64..50_000]
    ) {
        for (name, spec) in DEVICES.iter() {
            let mut h = Harness::new(name, spec, 3);
            h.play(&before);
            h.run_to(h.now + Nanos::from_micros(wait_us));
            h.cut();
            h.play(&after);
            h.drain();
            // A flush with nothing in flight covers everything.
            h.submit(Step { gap_us: 0, kind: 16, block: 0, blocks: 1 });
            h.drain();
            let lost = h.cut();
            prop_assert_eq!(lost, LostWrites::default(), "{}: everything was flushed", name);
        }
    }
}

/// A write larger than the cache goes past it. What the cache holds of its range is out of date.
#[test]
fn a_write_past_the_cache_replaces_what_was_dirty_there() {
    let (name, spec) = DEVICES.iter().find(|(n, _)| n == "small disk cache").unwrap();
    let mut h = Harness::new(name, spec, 1);
    let write = |kind, block, blocks| Step { gap_us: 0, kind, block, blocks };
    // A large write keeps the head busy: the small one stays in the cache.
    h.play(&[write(7, 0, 64), write(7, 1000, 2)]);
    h.run_to(h.now + Nanos::from_micros(3_000));
    h.play(&[write(14, 1001, 64)]);
    while h.flights.values().any(|f| f.request.offset == 1001 * BLOCK) {
        let next = h.device.next_event().expect("the large write completes");
        h.run_to(next);
    }
    h.cut();
}

/// The other way round: a device must not claim to have kept data that it had no time to write.
#[test]
fn volatile_caches_lose_what_was_not_flushed() {
    let volatile = |name: &str| {
        ["hdd-", "sata-ssd", "usb3", "raid0", "raid1 ", "raid10 of 4"]
            .iter()
            .any(|n| name.starts_with(n))
    };
    let mut tried = 0;
    for (name, spec) in DEVICES.iter().filter(|(n, _)| volatile(n)) {
        tried += 1;
        let mut h = Harness::new(name, spec, 1);
        for block in 0..50 {
            h.submit(Step { gap_us: 0, kind: 7, block: block * 40, blocks: 1 });
        }
        h.drain();
        assert!(h.now < Nanos::from_millis(20), "{name}: acknowledged from memory");
        h.cut();
        let lost = h.acknowledged.values().filter(|versions| versions.is_empty()).count();
        assert!(lost >= 40, "{name}: only {lost} of 50 blocks lost");
    }
    assert!(tried >= 8, "{tried}");
}
