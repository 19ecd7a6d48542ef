//! The probe on the real kernel, against what others measured of the same: a worker's own clock,
//! /proc/PID/io, /proc/diskstats. Needs root; what a machine lacks is reported as ignored, with the
//! reason.
//!
//! The binary is also the worker: behind `probe-worker` it does I/O and prints its observations.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    unsafe_code,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod checks;
mod disk;
mod worker;

use floodwall_probe::{Probe, SourceKind};
use floodwall_testing::{LOOP, ROOT, lacks, run_alone, test};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, what, rest @ ..] = arguments.as_slice()
        && first == worker::WORKER
    {
        worker::run(what, rest);
        return;
    }
    let mut tests = Vec::new();
    for source in [SourceKind::Perf, SourceKind::Bpf] {
        for (name, body) in checks::TESTS {
            let name = format!("{}: {name}", source.name());
            tests.push(test(name, move || missing(source), move || body(source)));
        }
    }
    // Each counts what the machine does.
    run_alone(tests)
}

/// Why a source can't be tested here.
fn missing(source: SourceKind) -> Option<String> {
    let opens = || Probe::open(Some(source)).err().map(|e| e.to_string());
    lacks(&[ROOT, LOOP, "mkfs.ext4", "losetup", "mount"]).or_else(opens)
}
