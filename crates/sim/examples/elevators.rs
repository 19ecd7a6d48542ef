//! The requests a second that each elevator of the simulator accepts, dispatches and completes on
//! one core.
//!
//! ```text
//! cargo run --release -p floodwall-sim --example elevators [MILLION]
//! ```
//!
//! Four processes read and write, half of it in sequence and half scattered. At all times 128
//! requests wait and 8 are in the device; a request takes 1 µs of virtual time. `merge` is offered
//! every request first, as the block layer does. The figure counts merge, insert, dispatch and
//! completion as one.

// A program for people: it reads the clock and prints.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::disallowed_macros)]

use std::collections::VecDeque;
use std::error::Error;
use std::time::Instant;

use floodwall_device::{Nanos, Op};
use floodwall_sim::elevator::{Dispatch, Elevator};
use floodwall_sim::eras::parts::{QueueFacts, build, offered};
use floodwall_sim::kernel::Generation;
use floodwall_sim::request::{Flags, IoRequest, NORMAL_LEVEL, PriorityClass, ProcessId};

const WAITING: usize = 128;
const IN_DEVICE: usize = 8;

/// The `n`-th request: scattered ones by a multiplicative sequence, sequential ones with gaps, so
/// that none of them merge.
fn request(n: u64, now: Nanos) -> IoRequest {
    let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 36;
    let page = if n.is_multiple_of(2) { scattered } else { n * 3 };
    let op = if n.is_multiple_of(3) { Op::Write { fua: false } } else { Op::Read };
    IoRequest {
        id: n,
        op,
        offset: page * 8192,
        len: 4096,
        flags: Flags::default(),
        process: ProcessId((n % 4) as u32),
        class: PriorityClass::BestEffort,
        level: NORMAL_LEVEL,
        queued: now,
    }
}

/// Serves `count` requests; returns how many were served.
fn run(elevator: &mut dyn Elevator, count: u64) -> u64 {
    let mut now = Nanos::ZERO;
    let mut in_device: VecDeque<IoRequest> = VecDeque::with_capacity(IN_DEVICE);
    let (mut next, mut served) = (0, 0);
    while served < count {
        while elevator.len() < WAITING {
            let bio = request(next, now);
            if elevator.merge(now, &bio, 1 << 20).is_none() {
                elevator.insert(now, bio);
            }
            next += 1;
        }
        let mut held = None;
        while in_device.len() < IN_DEVICE {
            match elevator.dispatch(now, in_device.len() as u32) {
                Dispatch::Request(request) => in_device.push_back(request),
                Dispatch::Hold(until) => {
                    held = Some(until);
                    break;
                }
                Dispatch::Wait | Dispatch::Empty => break,
            }
        }
        match (in_device.pop_front(), held) {
            (Some(request), _) => {
                now += Nanos::from_micros(1);
                elevator.completed(now, &request);
                served += 1;
            }
            (None, Some(until)) => now = until,
            (None, None) => break,
        }
    }
    served
}

fn main() -> Result<(), Box<dyn Error>> {
    let millions: u64 = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    println!("{:<8} {:<14} {:>22}", "kernel", "elevator", "million requests/s");
    for generation in [Generation::K2_6_18, Generation::K2_6_32, Generation::K6] {
        for &kind in offered(generation) {
            let mut elevator = build(kind, &QueueFacts::new(generation))?;
            run(elevator.as_mut(), 100_000);
            let mut elevator = build(kind, &QueueFacts::new(generation))?;
            let start = Instant::now();
            let served = run(elevator.as_mut(), millions * 1_000_000);
            let rate = served as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("{:<8} {:<14} {rate:>22.2}", generation.to_string(), kind.name());
        }
    }
    Ok(())
}
