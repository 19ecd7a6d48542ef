//! A FLUSH covers the writes from before it: a stream that never ends must not keep it waiting.

use floodwall_device::{
    Completion, Device, DeviceSpec, Nanos, Op, Request, preset_names, preset_text,
};

use crate::workload::{Dice, GIB, KIB, MIB};

const WRITE: Op = Op::Write { fua: false };
/// The id of the FLUSH; the load has those above it.
const FLUSH: u64 = 1;

/// The load around the FLUSH: its name, requests at once, and the next request by its number.
type Load = (&'static str, u64, fn(u64, &mut Dice) -> (Op, u64, u64));

const LOADS: [Load; 4] = [
    ("a stream above", 32, |n, _| (WRITE, 16 * GIB + n * MIB % (8 * GIB), MIB)),
    ("a stream below", 32, |n, _| (WRITE, n * MIB % (4 * GIB), MIB)),
    ("random writes", 32, |_, dice| (WRITE, dice.below(6 * 1024 * 1024) * 4 * KIB, 4 * KIB)),
    ("random reads", 128, |_, dice| (Op::Read, dice.below(6 * 1024 * 1024) * 4 * KIB, 4 * KIB)),
];

/// How long a FLUSH takes that comes 300 ms after scattered small writes and the beginning of a
/// load; `goes_on`: whether the load then goes on. `None`: longer than `limit`.
fn flush_time(device: &mut dyn Device, load: Load, goes_on: bool, limit: Nanos) -> Option<Nanos> {
    let (_, depth, next) = load;
    let mut dice = Dice::new(21);
    let mut out: Vec<Completion> = Vec::new();
    let mut number = 0;
    let mut submit = |device: &mut dyn Device, at: Nanos| {
        let (op, offset, len) = next(number, &mut dice);
        number += 1;
        device.submit(at, Request::new(FLUSH + number, op, offset, len));
    };
    let mut scattered = Dice::new(22);
    for id in 0..64 {
        let offset = 8 * GIB + scattered.below(4 * 1024 * 1024) * 2 * KIB / 4096 * 4096;
        device.submit(Nanos::ZERO, Request::write(1_000_000_000 + id, offset, 16 * KIB));
    }
    (0..depth).for_each(|_| submit(device, Nanos::ZERO));
    let flush_at = Nanos::from_millis(300);
    let mut flushed = false;
    loop {
        let next = device.next_event().filter(|t| flushed || *t < flush_at);
        let now = next.unwrap_or(flush_at);
        if flushed && (next.is_none() || now > flush_at + limit) {
            return None;
        }
        if now == flush_at && !flushed {
            device.advance(now, &mut out);
            device.submit(now, Request::flush(FLUSH));
            flushed = true;
        } else {
            device.advance(now, &mut out);
        }
        for c in out.drain(..) {
            if c.id == FLUSH {
                return Some(c.at.since(flush_at));
            }
            if c.id < 1_000_000_000 && (goes_on || !flushed) {
                submit(device, c.at);
            }
        }
    }
}

/// Every preset but the one that takes no time, and a disk with a small cache.
fn devices() -> Vec<(String, DeviceSpec)> {
    let text = |name: &str| preset_text(name).unwrap().to_owned();
    let mut all: Vec<(String, String)> =
        preset_names().filter(|n| *n != "null").map(|n| (n.to_owned(), text(n))).collect();
    all.push((
        "small disk cache".into(),
        text("hdd-7200").replace("write_cache = \"32MiB\"", "write_cache = \"1MiB\""),
    ));
    all.into_iter().map(|(name, text)| (name, DeviceSpec::parse(&text).unwrap())).collect()
}

#[test]
fn a_flush_beside_a_load_without_end_takes_little_longer_than_when_the_load_ends() {
    let mut starved = Vec::new();
    for (name, spec) in devices() {
        for load in LOADS {
            let build = || spec.build(spec.capacity().0.min(64 * GIB), 5).unwrap();
            let limit = Nanos::from_secs(600);
            let alone = flush_time(build().as_mut(), load, false, limit).unwrap();
            // Two kinds of requests may go first: older ones, and for two seconds those on the way.
            // Behind a controller that time counts for each of the scattered ranges, which its
            // disks take a few at a time.
            let passed_over = if spec.cache.is_some() && load.0 == "random reads" { 64 } else { 2 };
            let most = Nanos(2 * alone.0) + Nanos::from_secs(2 * passed_over);
            if flush_time(build().as_mut(), load, true, most).is_none() {
                let [most, alone] = [most, alone].map(Nanos::as_secs_f64);
                starved.push(format!(
                    "{name} beside {}: more than {most:.1} s, else {alone:.1} s",
                    load.0
                ));
            }
        }
    }
    assert!(starved.is_empty(), "{starved:#?}");
}
