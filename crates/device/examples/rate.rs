//! Prints how many requests per second of real time one core gets through: `cargo run --release -p floodwall-device --example rate`.
//!
//! Closed loop, depth 32, random 4 KiB: reads on the null device and the SSD, reads and writes on the array.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "an example that measures and prints"
)]

use std::time::Instant;

use floodwall_device::{Completion, DeviceSpec, Nanos, Op, Request};

fn rate(name: &str, op: Op, requests: u64) -> f64 {
    let spec = DeviceSpec::preset(name).unwrap();
    let mut device = spec.build(spec.capacity().0, 1).unwrap();
    let blocks = device.capacity() / 4096;
    let mut random = 1u64;
    let mut offset = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 20) % blocks * 4096
    };
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

fn main() {
    let write = Op::Write { fua: false };
    for (name, op, requests) in [
        ("null", Op::Read, 20_000_000),
        ("nvme-consumer", Op::Read, 10_000_000),
        ("nvme-consumer", write, 5_000_000),
        ("raid10-bbwc-2010", Op::Read, 500_000),
        ("raid10-bbwc-2010", write, 500_000),
    ] {
        println!("{name:18} {op:?}: {:.2} million requests/s", rate(name, op, requests) / 1e6);
    }
}
