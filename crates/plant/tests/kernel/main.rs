//! The host as a plant, on the real kernel: loop devices, a lab, processes that commit and flood,
//! kills.
//!
//! The binary is also the program that the tests run: a part of a lab, a process that works, a
//! process that steers and is killed. It writes only to devices that the tests made. It needs root.
//! A test that lacks something is reported as ignored, with the reason.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod disk;
mod guard;
mod kill;
mod lab;
mod raise;
mod sense;
mod steer;
mod stuck;
mod worker;

use floodwall_testing::process::Watchdog;

pub(crate) type Body = fn() -> Result<(), String>;

/// A test, and after how many seconds it hangs.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) seconds: u64,
    pub(crate) body: Body,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(lab::CHILD) => lab::child(&arguments[2..]),
        Some(worker::WORKER) => return worker::run(&arguments[2..]),
        Some(stuck::STUCK) => std::process::exit(i32::from(stuck::steer(&arguments[2..]).is_err())),
        Some(raise::RAISER) => {
            std::process::exit(i32::from(raise::raise_and_wait(&arguments[2..]).is_err()))
        }
        Some(kill::STEERER) => std::process::exit(i32::from(kill::steer(&arguments[2..]).is_err())),
        _ => {}
    }
    let tests =
        [sense::TESTS, steer::TESTS, kill::TESTS, stuck::TESTS, guard::TESTS].concat().into_iter();
    let tests = tests.map(|test| (test, missing as fn() -> Option<String>));
    let raise = raise::TESTS.iter().map(|test| (*test, raise::missing as fn() -> Option<String>));
    let tests = tests.chain(raise).map(|(test, missing)| {
        let body = move || {
            let _watchdog = Watchdog::new(test.name, test.seconds, lab::rescue);
            (test.body)()
        };
        floodwall_testing::test(test.name, missing, body)
    });
    // Each test steers separate devices, but counts the work of all processes.
    floodwall_testing::run_alone(tests.collect())
}

/// The first requirement that this machine lacks.
fn missing() -> Option<String> {
    let lab = floodwall_lab::Lab::check_host().err().map(|e| e.to_string());
    lab.or_else(|| floodwall_testing::lacks(&["losetup", "mkfs.ext4", "mount", "fsfreeze"]))
}
