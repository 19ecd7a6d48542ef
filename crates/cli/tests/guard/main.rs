//! `floodwall guard` on the real kernel: a lab device, a victim and a flood that are real, and
//! every way in which a daemon can end. Its metrics and a recorder's in a real Prometheus, which
//! alerts of a real stall. What a machine lacks is reported as ignored, with the reason.
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

mod alerts;
mod bed;
mod ends;
mod load;
mod manners;
mod paced;
mod prometheus;
mod recorder;
mod recording;
mod scraping;
mod yields;

use std::path::Path;

use floodwall_probe::{Probe, SourceKind};
use floodwall_testing::{FUSE, LOOP, ROOT, lacks, run_alone};

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
    let tests = ends::TESTS
        .iter()
        .chain(manners::TESTS)
        .chain(yields::TESTS)
        .chain(paced::TESTS)
        .chain(prometheus::TESTS)
        .chain(recorder::TESTS)
        .chain(recording::TESTS)
        .chain(alerts::TESTS);
    // One guard a machine.
    run_alone(
        tests.map(|test| floodwall_testing::test(test.name, || missing(test), test.body)).collect(),
    )
}

fn missing(test: &Test) -> Option<String> {
    let kernel = || {
        let tracepoints = || Some(Probe::open(Some(SourceKind::Perf)).err()?.to_string());
        lacks(&[ROOT, FUSE, LOOP]).or_else(tracepoints)
    };
    let kernel = if test.kernel { kernel() } else { None };
    kernel.or_else(|| lacks(test.needs)).or_else(|| lacks(&[bed::TIE]))
}
