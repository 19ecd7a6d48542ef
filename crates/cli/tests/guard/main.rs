//! `floodwall guard` on the real kernel: a lab device, a victim and a flood that are real, and every way in which a daemon can end. And its metrics in a real Prometheus. What a
//! machine lacks is reported as ignored, with the reason.
//!
//! Each way to end is tried a few times; `FLOODWALL_GUARD_ENDS=100` has it tried a hundred times.
//!
//! The binary is also the loads: behind `guard-load` it commits or writes until it is killed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod bed;
mod ends;
mod load;
mod manners;
mod prometheus;

use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test and the programs that it needs.
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    /// Whether it needs root, a lab device and tracepoints.
    kernel: bool,
    body: fn() -> Result<(), String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, what, directory] = arguments.as_slice()
        && first == load::COMMAND
    {
        load::run(what, Path::new(directory));
        return;
    }
    let mut arguments = Arguments::from_args();
    // One guard a machine.
    arguments.test_threads = Some(1);
    let tests = ends::TESTS.iter().chain(manners::TESTS).chain(prometheus::TESTS).map(|test| {
        let missing = missing(test);
        let name = match &missing {
            None => test.name.to_owned(),
            Some(why) => format!("{} (left out: {why})", test.name),
        };
        let body = test.body;
        Trial::test(name, move || body().map_err(Failed::from)).with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&arguments, tests.collect()).exit();
}

fn missing(test: &Test) -> Option<String> {
    if test.kernel {
        if !rustix::process::geteuid().is_root() {
            return Some("needs root".into());
        }
        for device in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(device).exists() {
                return Some(format!("needs {device}"));
            }
        }
        if let Err(e) = floodwall_probe::Probe::open(Some(floodwall_probe::SourceKind::Perf)) {
            return Some(e.to_string());
        }
    }
    let directories = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let absent = test.needs.iter().find(|p| !directories.iter().any(|d| Path::new(d).join(p).exists()));
    absent.map(|p| format!("needs {p}"))
}
