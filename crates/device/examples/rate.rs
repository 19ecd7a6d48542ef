//! Prints how fast the models run in real time, on one core:
//! `cargo run --release -p floodwall-device --example rate`.
//!
//! - Requests per second on the null device, an SSD and the ten-disk array. The load is a closed
//!   loop of depth 32: random 4 KiB over the whole device, reads and writes.
//! - Milliseconds for 30 s of virtual time: the device's cost to a simulator. The ten-disk array
//!   begins with an empty cache. Ten writers of random 16 KiB in 10 GiB run beside a sequential
//!   stream of 1 MiB writes at depth 8. Five runs; the least and the median.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "an example that measures and prints"
)]

use std::time::Instant;

use floodwall_device::{Completion, Device, DeviceSpec, Nanos, Op, Request};

const WRITE: Op = Op::Write { fua: false };
const ARRAY: &str = "raid10-bbwc-2010";
const GIB: u64 = 1 << 30;

fn whole(name: &str) -> Box<dyn Device + Send> {
    let spec = DeviceSpec::preset(name).unwrap();
    spec.build(spec.capacity().0, 1).unwrap()
}

/// Random numbers below a bound: a linear congruential generator, cheap beside any model.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 20) % n
    }
}

/// Requests per second of real time.
fn rate(name: &str, op: Op, requests: u64) -> f64 {
    let mut device = whole(name);
    let blocks = device.capacity() / 4096;
    let mut dice = Dice(1);
    let mut offset = || dice.below(blocks) * 4096;
    let begin = Instant::now();
    for id in 0..32 {
        device.submit(Nanos::ZERO, Request::new(id, op, offset(), 4096));
    }
    let mut out: Vec<Completion> = Vec::new();
    let mut id = 32;
    while id < requests {
        let Some(now) = device.next_event() else { break };
        device.advance(now, &mut out);
        for c in out.drain(..) {
            device.submit(c.at, Request::new(id, op, offset(), 4096));
            id += 1;
        }
    }
    id as f64 / begin.elapsed().as_secs_f64()
}

/// What a run of the simulator's kind took, and how many requests it was.
struct Run {
    milliseconds: f64,
    small: u64,
    stream: u64,
}

/// Ten writers of 16 KiB beside a stream of 1 MiB writes at depth 8 for `seconds` of virtual time.
fn writers_beside_a_stream(seconds: u64) -> Run {
    let mut device = whole(ARRAY);
    let mut dice = Dice(1);
    // Even ids are small writes, odd ones the stream's.
    let (mut small, mut stream) = (0, 0);
    let begin = Instant::now();
    let mut submit = |device: &mut dyn Device, at: Nanos, of_stream: bool| {
        let request = if of_stream {
            stream += 1;
            Request::new(2 * stream + 1, WRITE, 20 * GIB + stream * (1 << 20), 1 << 20)
        } else {
            small += 1;
            Request::new(2 * small, WRITE, dice.below((10 * GIB) >> 14) << 14, 1 << 14)
        };
        device.submit(at, request);
    };
    for i in 0..18 {
        submit(device.as_mut(), Nanos::ZERO, i >= 10);
    }
    let mut out: Vec<Completion> = Vec::new();
    while let Some(now) = device.next_event().filter(|t| *t < Nanos::from_secs(seconds)) {
        device.advance(now, &mut out);
        for c in out.drain(..) {
            submit(device.as_mut(), c.at, c.id % 2 == 1);
        }
    }
    Run { milliseconds: begin.elapsed().as_secs_f64() * 1e3, small, stream }
}

fn main() {
    for (name, op, requests) in [
        ("null", Op::Read, 20_000_000),
        ("nvme-consumer", Op::Read, 10_000_000),
        ("nvme-consumer", WRITE, 5_000_000),
        (ARRAY, Op::Read, 500_000),
        (ARRAY, WRITE, 500_000),
    ] {
        println!("{name:18} {op:?}: {:.2} million requests/s", rate(name, op, requests) / 1e6);
    }
    let mut runs: Vec<Run> = (0..5).map(|_| writers_beside_a_stream(30)).collect();
    runs.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
    println!(
        "{ARRAY:18} 30 s of 10 writers beside a stream: {:.1} ms, median {:.1} ms ({} small \
         writes, {} of the stream)",
        runs[0].milliseconds, runs[2].milliseconds, runs[2].small, runs[2].stream
    );
}
