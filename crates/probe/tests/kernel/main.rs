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
mod dirtied;
mod object;
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
    for (name, body) in dirtied::TESTS {
        let lack = || missing(SourceKind::Bpf).or_else(|| lacks(&["mkfs.xfs"]));
        tests.push(test(format!("bpf: {name}"), lack, move || body(SourceKind::Bpf)));
    }
    let name = "bpf: the object is what clang makes of its source";
    tests.push(test(name, object::missing, object::is_up_to_date));
    // One at a time: each counts all I/O of the machine.
    run_alone(tests)
}

/// Why a source can't be tested here. Where perf events work and the kernel describes its types,
/// BPF has to work too.
fn missing(source: SourceKind) -> Option<String> {
    let lack = lacks(&[ROOT, LOOP, "mkfs.ext4", "losetup", "mount", "fsfreeze"]);
    let is_due = || {
        let has_types = lacks(&["/sys/kernel/btf/vmlinux"]).is_none();
        source == SourceKind::Bpf && has_types && Probe::open(Some(SourceKind::Perf)).is_ok()
    };
    let opens = || Probe::open(Some(source)).err().map(|e| e.to_string()).filter(|_| !is_due());
    lack.or_else(opens)
}
