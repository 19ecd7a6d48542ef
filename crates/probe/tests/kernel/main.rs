//! The probe on the real kernel, against what others measured of the same: a worker's own clock, /proc/PID/io, /proc/diskstats. Needs root; what a machine lacks
//! is reported as ignored, with the reason.
//!
//! The binary is also the worker: behind `probe-worker` it does I/O and prints what it saw.

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

use std::path::Path;

use floodwall_probe::{Probe, SourceKind};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, what, rest @ ..] = arguments.as_slice()
        && first == worker::WORKER
    {
        worker::run(what, rest);
        return;
    }
    let mut arguments = Arguments::from_args();
    // Each counts what the machine does.
    arguments.test_threads = Some(1);
    let mut trials = Vec::new();
    for source in [SourceKind::Perf, SourceKind::Bpf] {
        let missing = missing(source);
        for (name, test) in checks::TESTS {
            let name = match &missing {
                None => format!("{}: {name}", source.name()),
                Some(why) => format!("{}: {name} (left out: {why})", source.name()),
            };
            trials.push(
                Trial::test(name, move || test(source).map_err(Failed::from))
                    .with_ignored_flag(missing.is_some()),
            );
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Why a source can't be tested here.
fn missing(source: SourceKind) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("needs loop devices".into());
    }
    for program in ["mkfs.ext4", "losetup", "mount"] {
        if !["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|d| Path::new(d).join(program).exists()) {
            return Some(format!("needs {program}"));
        }
    }
    Probe::open(Some(source)).err().map(|e| e.to_string())
}
