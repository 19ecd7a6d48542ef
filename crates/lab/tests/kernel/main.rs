//! The lab on the real kernel: FUSE, loop devices, filesystems, kills and power cuts. Needs root;
//! what a machine lacks is reported as ignored, with the reason.
//!
//! The binary is also what the labs under test run: behind `lab-child` it is their server or
//! guardian. A test that hangs is ended by a watchdog, which fails every request to the labs'
//! devices first (`scripts/lab-rescue`), so that nothing stays stuck in the kernel.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod kill;
mod lifecycle;
mod powercut;
mod runner;
mod verify;

use std::path::Path;

use floodwall_lab::{Lab, Role, child};
use floodwall_testing::process::Watchdog;

use crate::runner::{CHILD, MAKER, rescue_current};

/// How often a server is killed under load.
pub(crate) const KILLS: usize = 20;
/// How often the power is cut on each of two filesystems.
pub(crate) const POWER_CUTS_EACH: usize = 25;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, _, role, _, state] = arguments.as_slice()
        && first == CHILD
    {
        let role = Role::from_name(role).unwrap();
        // What went wrong is in the lab's state directory.
        std::process::exit(i32::from(child(role, Path::new(state)).is_err()));
    }
    if let [_, first, root] = arguments.as_slice()
        && first == MAKER
    {
        std::process::exit(i32::from(lifecycle::make(root.as_ref()).is_err()));
    }
    let tests =
        [lifecycle::TESTS, verify::TESTS, kill::TESTS, powercut::TESTS].concat().into_iter();
    let tests = tests.map(|test| {
        let body = move || {
            let _watchdog = Watchdog::new(test.name, test.seconds, rescue_current);
            (test.body)()
        };
        floodwall_testing::test(test.name, || missing(test.needs), body)
    });
    // The loop devices and mounts that are left are counted: by one test at a time.
    floodwall_testing::run_alone(tests.collect())
}

/// A test, the programs that it needs besides root, FUSE and loop devices, and after how many
/// seconds it hangs.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    seconds: u64,
    body: fn() -> Result<(), String>,
}

/// Why a test can't run here.
fn missing(programs: &[&str]) -> Option<String> {
    Lab::check_host().err().map(|e| e.to_string()).or_else(|| floodwall_testing::lacks(programs))
}
