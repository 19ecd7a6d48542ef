//! Prints the idle figures of every preset as a Markdown table:
//! `cargo run --release -p floodwall-device --example table`.
//!
//! Virtual time, whole device. Sequential: 1 MiB, depth 8. Random: 4 KiB over 10 GiB of it, at the
//! given depth. Commit: a random 4 KiB write and a FLUSH, one after the other. Writes are measured
//! after 120 s of them, past every cache.

#![allow(
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::panic,
    reason = "an example that prints"
)]

#[path = "../tests/it/workload.rs"]
mod workload;

use floodwall_device::{Op, preset_names};
use workload::{Dice, GIB, MIB, closed_loop, full, single};

const WRITE: Op = Op::Write { fua: false };

fn sequential(name: &str, op: Op) -> f64 {
    let mut device = full(name);
    let (mut at, end) = (0, device.capacity() / 2);
    let next = single(move || {
        at = if at + MIB > end { 0 } else { at + MIB };
        (op, at, MIB)
    });
    closed_loop(device.as_mut(), 8, 5.0, 10.0, next).rate() / 1e6
}

fn random(name: &str, op: Op, depth: usize, span: u64, warmup: f64) -> f64 {
    let mut device = full(name);
    let mut dice = Dice::new(3);
    let blocks = span.min(device.capacity()) / 4096;
    let next = single(move || (op, dice.below(blocks) * 4096, 4096));
    closed_loop(device.as_mut(), depth, warmup, 20.0, next).iops()
}

fn commit(name: &str) -> f64 {
    let mut device = full(name);
    let mut dice = Dice::new(4);
    let next = move |_: usize, step: usize| match step {
        0 => Some((WRITE, dice.below(10 * GIB / 4096) * 4096, 4096)),
        1 => Some((Op::Flush, 0, 0)),
        _ => None,
    };
    closed_loop(device.as_mut(), 1, 20.0, 20.0, next).iops()
}

fn main() {
    println!(
        "| preset | seq. read MB/s | seq. write MB/s | random read, depth 1 | depth 32 | random \
         write, depth 32 | commits, depth 1 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for name in preset_names().filter(|n| *n != "null") {
        println!(
            "| `{name}` | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            sequential(name, Op::Read),
            sequential(name, WRITE),
            random(name, Op::Read, 1, u64::MAX, 1.0),
            random(name, Op::Read, 32, u64::MAX, 1.0),
            random(name, WRITE, 32, 10 * GIB, 120.0),
            commit(name)
        );
    }
}
